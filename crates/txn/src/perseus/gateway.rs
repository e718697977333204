//! What clients of this node have under way: the transactions that it names and coordinates, and their answers.
//!
//! IN: submissions, ends. OUT: ids, answers through the reply gate. KEEPS: an id is never given twice, in this life or a later
//! one; an answer goes to the submission that its transaction is an attempt of.

use super::coordination::{Coordination, Origin, Stations};
use super::message::{Floor, Payload};
use crate::engine::{Answer, EngineEffect};
use crate::gate::ReplyGate;
use base::txn::Outcome;
use base::{NodeId, Rank, RegionId, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Debug)]
pub(super) struct Gateway {
    /// The life that new transactions belong to, and how many it has named.
    incarnation: u32,
    count: u64,
    coordinating: BTreeMap<TxnId, Coordination>,
    /// How the transactions named here ended, by life.
    named: Vec<Life>,
    /// Attempts under way, with the submissions that they belong to.
    origins: BTreeMap<TxnId, Origin>,
    /// Attempts that ended without effect, each to be followed by another one after a pause.
    paused: BTreeMap<TxnId, Payload>,
    gate: ReplyGate,
}

/// What one life of this gateway has named.
#[derive(Clone, Debug)]
struct Life {
    incarnation: u32,
    /// Everything before this sequence has ended and lies below the watermark.
    floor: u64,
    /// Ranks of those that ended, from `floor` on.
    ranks: VecDeque<Rank>,
}

impl Gateway {
    pub fn new(incarnation: u32) -> Gateway {
        Gateway {
            incarnation,
            count: 0,
            coordinating: BTreeMap::new(),
            named: Vec::new(),
            origins: BTreeMap::new(),
            paused: BTreeMap::new(),
            gate: ReplyGate::default(),
        }
    }
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }
    /// Whether this gateway knows of the life that named a transaction.
    pub fn has_named(&self, txn: TxnId) -> bool {
        self.named.iter().any(|life| life.incarnation == txn.incarnation)
    }
    /// A new life begins, with what the former one had under way.
    pub fn resume(&mut self, incarnation: u32) {
        assert!(incarnation > self.incarnation, "a new life has a new number");
        (self.incarnation, self.count) = (incarnation, 0);
    }
    /// The next transaction's name.
    pub fn name(&mut self, me: NodeId) -> TxnId {
        if self.named.last().is_none_or(|life| life.incarnation != self.incarnation) {
            self.named.push(Life { incarnation: self.incarnation, floor: 1, ranks: VecDeque::new() });
        }
        self.named.last_mut().expect("just pushed").ranks.push_back(Rank::MAX);
        self.count += 1;
        TxnId { coordinator: me, incarnation: self.incarnation, sequence: self.count }
    }

    /// A transaction that was named here has ended at every participant.
    pub fn finished(&mut self, txn: TxnId, rank: Rank) {
        let life = self.named.iter_mut().rev().find(|life| life.incarnation == txn.incarnation);
        let life = life.expect("it was submitted in a life that is remembered");
        life.ranks[(txn.sequence - life.floor) as usize] = rank;
    }
    /// Below which sequence of which life everything named here is collected.
    pub fn floors(&mut self, me: NodeId, watermark: Rank) -> Vec<Floor> {
        for life in &mut self.named {
            while life.ranks.front().is_some_and(|rank| *rank <= watermark) {
                life.ranks.pop_front();
                life.floor += 1;
            }
        }
        let floor =
            |life: &Life| Floor { coordinator: me, incarnation: life.incarnation, sequence: life.floor };
        self.named.iter().map(floor).collect()
    }
    /// Transactions named here whose ends are remembered, or awaited.
    pub fn remembered(&self) -> usize {
        self.named.iter().map(|life| life.ranks.len()).sum()
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

    /// An attempt ended without effect, and another one follows after a pause.
    pub fn pause(&mut self, payload: Payload) {
        self.paused.insert(payload.transaction.id, payload);
    }
    /// The pause after this attempt is over: what it takes to begin another one.
    pub fn resume_after(&mut self, last: TxnId) -> Option<(Payload, Origin)> {
        self.paused.remove(&last).zip(self.origins.remove(&last))
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
