//! Rounds before an entry counts, as the baselines' papers have them: inside a region, and between regions.
//!
//! *Inside a region* ([`Replication::machines_inside`]; Caerus §4.7 and SLOG alike). A region's sequence is kept by three
//! machines: its leader's and two more. An entry goes to those two first, and counts, and goes to everybody else,
//! once one of them has it. Nobody inside leads in the leader's stead: whoever is lost there comes back with what it
//! knew (a node may be a group of machines), or its region is.
//!
//! *Between regions* ([`PaxosPerEntry`](super::Agreement::PaxosPerEntry)). The log of all regions gets an entry by Paxos as the paper counts
//! it: a round of promises, then one with the entries, each to a majority. What leaves together shares its rounds.
//!
//! KEEPS: nothing outside the machines of its region acts on an entry before two of three have it; with Paxos for
//! each entry, none is sent before a majority of regions has promised its place.
//!
//! [`Replication::machines_inside`]: super::options::Replication::machines_inside

use super::message::{Message, SequenceId, Term};
use super::state::Caerus;
use super::work::Out;
use base::{NodeId, Time};

impl Caerus {
    /// Asks for places of what has gathered; answers when it may.
    pub(super) fn flush_prepares(&mut self, now: Time, out: &mut Out) -> Option<Time> {
        let sequence = self.cluster.global?.number;
        let term = self.logs.of(sequence).term()?;
        let interval_ns = self.wakes.interval_ns(&self.cluster.options);
        let (round, at) = self.logs.intake(sequence)?.preparing().ask(now, interval_ns);
        if let Some(round) = round {
            self.tell_voters(&Message::Prepare { sequence, term, round }, out);
        }
        at
    }

    /// Asks again whoever should have answered.
    pub(super) fn prepare_again(&mut self, now: Time, out: &mut Out) {
        let Some(sequence) = self.cluster.global.map(|global| global.number) else { return };
        let patience_ns =
            2 * self.cluster.topology.wan.widest_ns() + 2 * self.cluster.options.batching.interval_ns;
        let Some(term) = self.logs.of(sequence).term() else { return };
        let Some(intake) = self.logs.intake(sequence) else { return };
        let again = intake.preparing().again(now, patience_ns);
        for round in again {
            self.tell_voters(&Message::Prepare { sequence, term, round }, out);
        }
    }

    pub(super) fn on_prepare(
        &mut self,
        from: NodeId,
        sequence: SequenceId,
        term: Term,
        round: u64,
        out: &mut Out,
    ) {
        if !self.cluster.speaks(from, sequence, term) || !self.cluster.votes(sequence) {
            return;
        }
        let promised = self.logs.of(sequence).promised();
        if term < promised {
            self.send(from, Message::Overtaken { sequence, term: promised }, out);
        } else if term == promised {
            self.send(from, Message::Prepared { sequence, term, round }, out);
        }
        // Of a later term it has not heard yet; the leader asks again.
    }

    pub(super) fn on_prepared(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: SequenceId,
        term: Term,
        round: u64,
        out: &mut Out,
    ) {
        let is_voter =
            self.cluster.sequencers[usize::from(self.cluster.topology.region_of(from).0)] == Some(from);
        let copies = if self.cluster.exists(sequence) { self.cluster.copies_of(sequence) } else { return };
        if self.logs.of(sequence).term() != Some(term) || !is_voter {
            return;
        }
        let Some(intake) = self.logs.intake(sequence) else { return };
        let ready = intake.preparing().promised(from, round, copies);
        for named in ready {
            self.place(now, sequence, named, out);
        }
    }
}
