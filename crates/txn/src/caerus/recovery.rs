//! A region is lost, or cut off: another one leads its sequence, and hands it back.
//!
//! The log of the sequence elects who leads (see [`crate::log`]); here is what else a new leader has to do. KEEPS:
//! whoever is known from another sequence, or to its gateway, and belongs into this one is added once K others have all
//! that was taken over.
//!
//! What the lost region alone had vanishes: it was in fewer than K + 1 regions, so nobody was told of it. More than K
//! regions lost: too few are left to promise, or to make anything stable. What needs the sequence is refused (see
//! `availability`); nothing is guessed.

use super::message::{Message, SequenceId, Tail, Term};
use super::state::Caerus;
use super::work::Out;
use base::{NodeId, Time};
use std::collections::BTreeMap;

impl Caerus {
    /// Whatever is said about who leads a sequence.
    pub(super) fn on_election(&mut self, now: Time, from: NodeId, message: Message, out: &mut Out) {
        match message {
            Message::Suspect { sequence, term } => self.on_suspect(now, from, (sequence, term), out),
            Message::Agreed { sequence, term } => self.on_agreed(now, from, (sequence, term), out),
            Message::Elect { sequence, term, merged, accepted, end } => {
                self.on_elect(now, from, (sequence, term), (merged, accepted, end), out)
            }
            Message::Promise { sequence, term, tail, lives } => {
                if self.hear_lives(from, &lives) {
                    self.on_promise(now, from, (sequence, term), tail, out)
                }
            }
            Message::Overtaken { sequence, term } => self.on_overtaken(now, sequence, term, out),
            Message::Leads { sequence, term } => self.on_leads(now, from, (sequence, term), out),
            Message::Resigns { sequence, term } => self.on_resigns(now, from, (sequence, term), out),
            _ => unreachable!("another part's message"),
        }
    }

    /// Stands for sequences whose leaders are silent, and for the own one.
    pub(super) fn watch(&mut self, now: Time, out: &mut Out) {
        for sequence in self.cluster.running() {
            if self.log(sequence, out, |log, posts| log.watch(now, posts)) {
                self.took_over(now, sequence, out);
            }
        }
    }

    /// This node is about to end: other regions are to lead what it leads. With K = 0 nobody could.
    pub(super) fn resign(&mut self, now: Time, out: &mut Out) {
        for sequence in self.cluster.running() {
            if self.cluster.copies_of(sequence) > 0 {
                self.log(sequence, out, |log, posts| log.resign(now, posts));
            }
        }
    }
    /// Sequences that another region could lead, and that this node still leads.
    pub(super) fn led_for_others(&self) -> usize {
        let running = self.cluster.running().into_iter();
        running.filter(|sequence| self.cluster.copies_of(*sequence) > 0 && self.logs.leads(*sequence)).count()
    }

    fn on_resigns(&mut self, now: Time, from: NodeId, (sequence, term): (SequenceId, Term), out: &mut Out) {
        if self.cluster.exists(sequence) {
            self.log(sequence, out, |log, _| log.on_resigns(now, from, term));
            self.watch(now, out);
        }
    }

    fn on_suspect(&mut self, now: Time, from: NodeId, (sequence, term): (SequenceId, Term), out: &mut Out) {
        if self.cluster.exists(sequence) {
            self.log(sequence, out, |log, posts| log.on_suspect(now, from, term, posts));
        }
    }

    fn on_agreed(&mut self, now: Time, from: NodeId, (sequence, term): (SequenceId, Term), out: &mut Out) {
        if self.cluster.exists(sequence)
            && self.log(sequence, out, |log, posts| log.on_agreed(now, from, term, posts))
        {
            self.took_over(now, sequence, out);
        }
    }

    fn on_elect(
        &mut self,
        now: Time,
        from: NodeId,
        (sequence, term): (SequenceId, Term),
        own: (u64, Term, u64),
        out: &mut Out,
    ) {
        if self.cluster.exists(sequence) {
            self.log(sequence, out, |log, posts| log.on_elect(now, from, term, own, posts));
        }
    }

    fn on_promise(
        &mut self,
        now: Time,
        from: NodeId,
        (sequence, term): (SequenceId, Term),
        tail: Tail,
        out: &mut Out,
    ) {
        if self.cluster.exists(sequence)
            && self.log(sequence, out, |log, _| log.on_promise(now, from, term, tail))
        {
            self.took_over(now, sequence, out);
        }
    }

    /// This node leads a sequence from now on.
    fn took_over(&mut self, now: Time, sequence: SequenceId, out: &mut Out) {
        self.follow_leader(sequence);
        self.announce(sequence, out);
        self.log(sequence, out, |log, posts| log.beat(now, posts));
    }

    /// K others have what was taken over: adds who belongs here, and is open.
    pub(super) fn opened(&mut self, now: Time, sequence: SequenceId, out: &mut Out) {
        let bit = sequence.bit();
        let mut lacking = BTreeMap::new();
        if self.cluster.orders_orphans() {
            for (_, vertex) in self.merger.graph().iter() {
                if vertex.extra.regions & bit != 0 && vertex.extra.got & bit == 0 {
                    let transaction = vertex.transaction.clone().expect("entries carry whole transactions");
                    lacking.insert(vertex.id, (transaction, vertex.extra.request));
                }
            }
        }
        for (txn, outstanding) in self.gateway.outstanding() {
            if self.cluster.entrances(outstanding.regions()) & bit != 0 {
                lacking.insert(*txn, outstanding.named());
            }
        }
        for named in lacking.into_values() {
            if !self.logs.is_ordered(sequence, named.0.id) {
                base::sometimes!("a new leader orders what the lost one did not");
                self.order(now, sequence, named, out);
            }
        }
    }

    /// Tells nodes without a copy, which hear no entries, who leads.
    pub(super) fn announce(&mut self, sequence: SequenceId, out: &mut Out) {
        let log = self.logs.of(sequence);
        let (Some(term), group) = (log.term(), log.group()) else { return };
        if term == Term::from(group.home.0) {
            return; // As they know.
        }
        let hears = |node: &NodeId| *node == group.me || group.is_replica(*node);
        let nodes: Vec<NodeId> = self.cluster.topology.node_ids().filter(|node| !hears(node)).collect();
        nodes.into_iter().for_each(|node| self.send(node, Message::Leads { sequence, term }, out));
    }

    fn on_overtaken(&mut self, now: Time, sequence: SequenceId, term: Term, out: &mut Out) {
        if self.logs.get(sequence).is_some() {
            self.log(sequence, out, |log, _| log.on_overtaken(now, term));
        }
    }

    fn on_leads(&mut self, now: Time, from: NodeId, (sequence, term): (SequenceId, Term), out: &mut Out) {
        let exists = self.cluster.exists(sequence);
        // Whoever else says so has heard it of the leader.
        let can = self.cluster.sequencers[self.cluster.region_of_term(term).0 as usize].is_some();
        if exists
            && can
            && self.cluster.topology.nodes.len() > usize::from(from.0)
            && self.log(sequence, out, |log, _| log.on_leads(now, term))
        {
            self.follow_leader(sequence);
        }
    }
}
