//! Rounds before an entry counts, as the rivals' papers have them: inside a region, and between regions.
//!
//! *Inside a region* ([`Options::machines_inside`]; Caerus §4.7 and SLOG alike). A region's sequence is kept by three
//! machines: its leader's and two more. An entry goes to those two first, and counts, and goes to everybody else,
//! once one of them has it. Nobody inside leads in the leader's stead: whoever is lost there comes back with what it
//! knew (a node may be a group of machines), or its region is.
//!
//! *Between regions* ([`PaxosPerEntry`](super::Agreement::PaxosPerEntry)). The log of all regions gets an entry by Paxos as the paper counts
//! it: a round of promises, then one with the entries, each to a majority. What leaves together shares its rounds.
//!
//! KEEPS: nothing outside the machines of its region acts on an entry before two of three have it; with Paxos for
//! each entry, none is sent before a majority of regions has promised its place.

use super::message::{Message, Named, SequenceId, Term};
use super::options::Options;
use super::state::{Caerus, Out};
use base::topology::Topology;
use base::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// What waits for its first round.
#[derive(Clone, Debug, Default)]
pub(super) struct Preparing {
    /// Not asked for yet.
    waiting: Vec<Named>,
    /// Nothing is asked before this.
    flush_at: Time,
    asked: BTreeMap<u64, Round>,
    rounds: u64,
}

#[derive(Clone, Debug)]
struct Round {
    named: Vec<Named>,
    promised: BTreeSet<NodeId>,
    asked_at: Time,
    asks: u32,
}

impl Preparing {
    /// One more that waits for its first round.
    pub fn add(&mut self, named: Named) {
        self.waiting.push(named);
    }
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }
}

/// The machines that keep a sequence beside `me`, its leader's.
pub(super) fn inside(topology: &Topology, me: NodeId, options: &Options) -> Vec<NodeId> {
    assert!(matches!(options.machines_inside, 1 | 3), "one machine inside a region, or three");
    let is_near = |node: &NodeId| {
        *node != me
            && topology.region_of(*node) == topology.region_of(me)
            && topology.copies_at(*node).next().is_some()
    };
    let near: Vec<NodeId> = topology.node_ids().filter(is_near).take(options.machines_inside - 1).collect();
    assert_eq!(
        near.len() + 1,
        options.machines_inside,
        "a region has as many nodes as are to keep its sequence"
    );
    near
}

impl Caerus {
    /// Asks for places of what has gathered; answers when it may.
    pub(super) fn flush_prepares(&mut self, now: Time, out: &mut Out) -> Option<Time> {
        let sequence = self.cluster.global?.number;
        let term = self.logs.of(sequence).term()?;
        let preparing = &mut self.logs.intake(sequence)?.preparing;
        if preparing.waiting.is_empty() {
            return None;
        }
        if now < preparing.flush_at {
            return Some(preparing.flush_at);
        }
        preparing.flush_at = now + self.wakes.interval_ns(&self.cluster.options);
        preparing.rounds += 1;
        let round = preparing.rounds;
        let named = std::mem::take(&mut preparing.waiting);
        preparing.asked.insert(round, Round { named, promised: BTreeSet::new(), asked_at: now, asks: 0 });
        self.tell_voters(&Message::Prepare { sequence, term, round }, out);
        None
    }

    /// Asks again whoever should have answered.
    pub(super) fn prepare_again(&mut self, now: Time, out: &mut Out) {
        let Some(sequence) = self.cluster.global.map(|global| global.number) else { return };
        let patience_ns = 2 * self.cluster.topology.wan.widest_ns() + 2 * self.cluster.options.batch_ns;
        let Some(term) = self.logs.of(sequence).term() else { return };
        let Some(intake) = self.logs.intake(sequence) else { return };
        let mut again = Vec::new();
        for (round, asked) in &mut intake.preparing.asked {
            if now.since(asked.asked_at) > patience_ns << asked.asks.min(4) {
                base::sometimes!("a place is asked for again");
                asked.asked_at = now;
                asked.asks += 1;
                again.push(*round);
            }
        }
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
        let asked = &mut intake.preparing.asked;
        if let Some(round) = asked.get_mut(&round) {
            round.promised.insert(from);
        }
        // In the order in which they came.
        let mut ready = Vec::new();
        while let Some(first) = asked.first_entry()
            && first.get().promised.len() >= copies
        {
            ready.extend(first.remove().named);
        }
        for named in ready {
            self.place(now, sequence, named, out);
        }
    }
}
