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

use super::cluster::Cluster;
use super::logs::Logs;
use super::message::{Message, Named, SequenceId, Term};
use super::work::Todo;
use base::{NodeId, Time};

impl Logs {
    /// Asks for places of what has gathered; answers when it may.
    pub fn flush_prepares(
        &mut self,
        now: Time,
        cluster: &Cluster,
        interval_ns: u64,
        todo: &mut Todo<'_>,
    ) -> Option<Time> {
        let sequence = cluster.global?.number;
        let term = self.of(sequence).term()?;
        let (round, at) = self.intake(sequence)?.preparing().ask(now, interval_ns);
        if let Some(round) = round {
            tell_voters(cluster, &Message::Prepare { sequence, term, round }, todo);
        }
        at
    }

    /// Asks again whoever should have answered.
    pub fn prepare_again(&mut self, now: Time, cluster: &Cluster, todo: &mut Todo<'_>) {
        let Some(sequence) = cluster.global.map(|global| global.number) else { return };
        let patience_ns = 2 * cluster.topology.wan.widest_ns() + 2 * cluster.options.batching.interval_ns;
        let Some(term) = self.of(sequence).term() else { return };
        let Some(intake) = self.intake(sequence) else { return };
        for round in intake.preparing().again(now, patience_ns) {
            tell_voters(cluster, &Message::Prepare { sequence, term, round }, todo);
        }
    }

    /// A leader asks for a place.
    pub fn on_prepare(
        &self,
        cluster: &Cluster,
        from: NodeId,
        (sequence, term, round): (SequenceId, Term, u64),
        todo: &mut Todo<'_>,
    ) {
        if !cluster.speaks(from, sequence, term) || !cluster.votes(sequence) {
            return;
        }
        let promised = self.of(sequence).promised();
        if term < promised {
            todo.send(from, Message::Overtaken { sequence, term: promised });
        } else if term == promised {
            todo.send(from, Message::Prepared { sequence, term, round });
        }
        // Of a later term it has not heard yet; the leader asks again.
    }

    /// A region promises places; what may be placed now, in this order.
    pub fn prepared(
        &mut self,
        cluster: &Cluster,
        from: NodeId,
        (sequence, term, round): (SequenceId, Term, u64),
    ) -> Vec<Named> {
        let is_voter = cluster.sequencers[usize::from(cluster.topology.region_of(from).0)] == Some(from);
        if !cluster.exists(sequence) || self.of(sequence).term() != Some(term) || !is_voter {
            return Vec::new();
        }
        let copies = cluster.copies_of(sequence);
        self.intake(sequence)
            .map(|intake| intake.preparing().promised(from, round, copies))
            .unwrap_or_default()
    }
}

fn tell_voters(cluster: &Cluster, message: &Message, todo: &mut Todo<'_>) {
    for node in cluster.sequencers.iter().flatten().filter(|node| **node != cluster.me) {
        todo.send(*node, message.clone());
    }
}
