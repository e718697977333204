//! What clients of this node have under way: the transactions that it names and coordinates, and their answers.
//!
//! IN: submissions, ends. OUT: ids, answers through the reply gate. KEEPS: an id is never given twice, in this life or a later
//! one; an answer goes to the submission that its transaction is an attempt of.

use super::coordination::{Coordination, Origin, Stations};
use crate::engine::{Answer, EngineEffect};
use crate::gate::ReplyGate;
use base::txn::Outcome;
use base::{NodeId, Rank, RegionId, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub(super) struct Gateway {
    /// The life that new transactions belong to, and how many it has named.
    incarnation: u32,
    count: u64,
    coordinating: BTreeMap<TxnId, Coordination>,
    /// Attempts under way, with the submissions that they belong to.
    origins: BTreeMap<TxnId, Origin>,
    gate: ReplyGate,
}

impl Gateway {
    pub fn new(incarnation: u32) -> Gateway {
        let (coordinating, origins) = (BTreeMap::new(), BTreeMap::new());
        Gateway { incarnation, count: 0, coordinating, origins, gate: ReplyGate::default() }
    }
    /// A new life begins, with what the former one had under way.
    pub fn resume(&mut self, incarnation: u32) {
        assert!(incarnation > self.incarnation, "a new life has a new number");
        (self.incarnation, self.count) = (incarnation, 0);
    }
    /// The next transaction's name.
    pub fn name(&mut self, me: NodeId) -> TxnId {
        self.count += 1;
        TxnId { coordinator: me, incarnation: self.incarnation, sequence: self.count }
    }

    pub fn coordinate(&mut self, txn: TxnId, coordination: Coordination) {
        self.coordinating.insert(txn, coordination);
    }
    pub fn coordination(&self, txn: TxnId) -> Option<&Coordination> {
        self.coordinating.get(&txn)
    }
    pub fn coordination_mut(&mut self, txn: TxnId) -> Option<&mut Coordination> {
        self.coordinating.get_mut(&txn)
    }
    pub fn coordinated(&self) -> impl Iterator<Item = &Coordination> {
        self.coordinating.values()
    }
    #[cfg(test)]
    pub fn coordinated_ids(&self) -> impl Iterator<Item = &TxnId> {
        self.coordinating.keys()
    }
    pub fn end(&mut self, txn: TxnId) -> Option<Coordination> {
        self.coordinating.remove(&txn)
    }

    /// `txn` is an attempt of this submission.
    pub fn begun(&mut self, txn: TxnId, origin: Origin) {
        self.origins.insert(txn, origin);
    }
    pub fn take_origin(&mut self, txn: TxnId) -> Option<Origin> {
        self.origins.remove(&txn)
    }
    /// How the submission first came that `txn` is an attempt of.
    pub fn origin(&self, now: Time, txn: TxnId) -> Origin {
        let known = self.origins.get(&txn).copied();
        known.unwrap_or(Origin { id: txn, submitted_at: now, attempts: 0 })
    }

    /// What is submitted here from now on is ranked above this.
    pub fn answered(&self) -> Rank {
        self.gate.answered()
    }
    pub fn answer(
        &mut self,
        now: Time,
        (submitted_as, txn): (TxnId, TxnId),
        rank: Rank,
        outcome: Outcome,
        regions: BTreeSet<RegionId>,
        stations: Stations,
    ) {
        let phases = vec![
            ("order", stations.ordered_at.since(stations.submitted_at)),
            ("execute", now.since(stations.ordered_at)),
            // Absolute until the gate opens.
            ("gate", now.0),
        ];
        self.gate.put(Answer { submitted_as, txn, rank, outcome, phases, regions });
    }
    /// Lets out the answers whose rank has passed into the past for every clock; answers when the next one may go.
    /// `clock_bound_ns`: none if answers need not wait.
    pub fn open_gate<M>(
        &mut self,
        now: Time,
        clock_bound_ns: Option<u64>,
        out: &mut Vec<EngineEffect<M>>,
    ) -> Option<Time> {
        self.gate.open(now, clock_bound_ns, out)
    }

    /// Transactions and submissions that have not ended.
    pub fn under_way(&self) -> usize {
        self.coordinating.len() + self.origins.len()
    }
    /// Submissions that have not ended.
    #[cfg(test)]
    pub fn origin_count(&self) -> usize {
        self.origins.len()
    }
    /// Answers that wait for their rank to pass, and answers that have gone.
    pub fn answer_counts(&self) -> (usize, u64) {
        self.gate.counts()
    }
}
