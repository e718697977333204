//! Transactions of this member's clients.
//!
//! IN: submissions; decisions about what asked to commit. OUT: what to evaluate (again) and when, answers. KEEPS: each
//! submission is answered once; a transaction is under way in one place: *parked* until an epoch is published (it failed at
//! an old state, lost, or would lose to another one of this gateway that asks), *asking* in an epoch, *telling* until every member has published a change of the catalog, or at the gate.

use super::message::{Body, Epoch, Payload};
use crate::engine::{Answer, EngineEffect};
use crate::gate::ReplyGate;
use base::txn::{ClientRequest, Isolation, Outcome, Transaction};
use base::write_set::WriteSet;
use base::{Key, NodeId, Rank, RegionId, TableId, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A client's transaction and how far it is.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub transaction: Transaction,
    pub request: Option<ClientRequest>,
    pub level: Isolation,
    pub submitted_at: Time,
    /// As of the end of this epoch everything is there that was answered before it was submitted, and that its session
    /// has seen: how it fails at an older snapshot says nothing.
    pub current_from: Epoch,
    /// How often it was evaluated and lost.
    pub attempts: u32,
}

/// It asks to commit.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub job: Job,
    pub asked_at: Time,
    pub epoch: Epoch,
    pub outcome: Outcome,
    pub payload: Arc<Payload>,
}

#[derive(Clone, Debug)]
pub(super) struct Gateway {
    me: NodeId,
    incarnation: u32,
    named: u64,
    /// The last reading that was given to a transaction (csn).
    clock: u64,
    parked: BTreeMap<(Epoch, TxnId), Job>,
    asking: BTreeMap<TxnId, Asking>,
    /// What those that ask would write, with the last of them that would.
    writing: BTreeMap<(TableId, Key), TxnId>,
    /// Answers to changes of the catalog, by the epoch that everybody has to have published.
    telling: BTreeMap<(Epoch, TxnId), Answer>,
    gate: ReplyGate,
    /// Evaluations that lost, and transactions that gave up.
    lost: u64,
    given_up: u64,
}

impl Gateway {
    pub fn new(me: NodeId, incarnation: u32) -> Gateway {
        Gateway {
            me,
            incarnation,
            named: 0,
            clock: 0,
            parked: BTreeMap::new(),
            asking: BTreeMap::new(),
            writing: BTreeMap::new(),
            telling: BTreeMap::new(),
            gate: ReplyGate::default(),
            lost: 0,
            given_up: 0,
        }
    }
    /// Names a transaction.
    pub fn name(&mut self) -> TxnId {
        self.named += 1;
        TxnId { coordinator: self.me, incarnation: self.incarnation, sequence: self.named }
    }
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }
    /// A new life: names of the former one are not given again.
    pub fn resume(&mut self, incarnation: u32) {
        assert!(incarnation > self.incarnation, "an incarnation is used once");
        (self.incarnation, self.named) = (incarnation, 0);
    }
    /// The next reading for a transaction, larger than all before.
    pub fn tick(&mut self, now: Time) -> u64 {
        self.clock = now.0.max(self.clock + 1);
        self.clock
    }
    /// The last reading that was given.
    pub fn last_tick(&self) -> u64 {
        self.clock
    }
    /// A former life has given this reading.
    pub fn ticked(&mut self, clock: u64) {
        self.clock = self.clock.max(clock);
    }
    /// Transactions that are not answered.
    pub fn under_way(&self) -> usize {
        self.parked.len() + self.asking.len() + self.telling.len()
    }
    pub fn answered(&self) -> Rank {
        self.gate.answered()
    }
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let (waiting, answered) = self.gate.counts();
        BTreeMap::from([
            ("answered", answered),
            ("evaluations that lost", self.lost),
            ("transactions that gave up", self.given_up),
            ("answers at the gate", waiting as u64),
        ])
    }

    /// It is looked at again once the epoch is published.
    pub fn park(&mut self, until: Epoch, job: Job) {
        self.parked.insert((until, job.transaction.id), job);
    }
    pub fn unpark(&mut self, published: Epoch) -> Option<Job> {
        let first = self.parked.first_entry().filter(|first| first.key().0 <= published)?;
        Some(first.remove())
    }
    pub fn ask(&mut self, asking: Asking) {
        let txn = asking.job.transaction.id;
        if let Body::Writes { writes, .. } = &asking.payload.body {
            let items = writes.values().flat_map(WriteSet::items);
            self.writing.extend(items.map(|(table, key)| ((table, key.clone()), txn)));
        }
        self.asking.insert(txn, asking);
    }
    /// Its epoch is decided.
    pub fn decided(&mut self, txn: TxnId) -> Option<Asking> {
        let asking = self.asking.remove(&txn)?;
        if let Body::Writes { writes, .. } = &asking.payload.body {
            for (table, key) in writes.values().flat_map(WriteSet::items) {
                let item = (table, key.clone());
                if self.writing.get(&item) == Some(&txn) {
                    self.writing.remove(&item);
                }
            }
        }
        Some(asking)
    }
    /// The epoch of a transaction of this gateway that asks to commit and writes what this one reads or writes: if it
    /// commits, this one does not.
    pub fn writer_ahead(&self, body: &Body) -> Option<Epoch> {
        let Body::Writes { reads, writes, .. } = body else { return None };
        let read = reads.iter().filter_map(|read| {
            let low = (read.table, read.range.low.clone());
            let mut from = self.writing.range(low..).take_while(|((table, _), _)| *table == read.table);
            from.next().filter(|((_, key), _)| read.range.contains(key)).map(|(_, txn)| txn)
        });
        let items = writes.values().flat_map(WriteSet::items);
        let written = items.filter_map(|(table, key)| self.writing.get(&(table, key.clone())));
        let epochs = read.chain(written).map(|txn| self.asking[txn].epoch);
        epochs.max()
    }
    /// It lost, and is evaluated again or gives up.
    pub fn count_loss(&mut self, gives_up: bool) {
        self.lost += 1;
        self.given_up += u64::from(gives_up);
    }

    /// A transaction has ended. `asked_at`: when it asked to commit, if it did. `taught`: every member has to publish
    /// that epoch first.
    #[allow(clippy::too_many_arguments)]
    pub fn end(
        &mut self,
        now: Time,
        job: &Job,
        (txn, rank): (TxnId, Rank),
        outcome: Outcome,
        regions: BTreeSet<RegionId>,
        asked_at: Option<Time>,
        taught: Option<Epoch>,
    ) {
        let asked_at = asked_at.unwrap_or(now);
        let answer = Answer {
            submitted_as: job.transaction.id,
            txn,
            rank,
            outcome,
            phases: vec![
                ("evaluate", asked_at.since(job.submitted_at)),
                ("merge", now.since(asked_at)),
                ("gate", now.0),
            ],
            regions,
        };
        match taught {
            Some(epoch) => _ = self.telling.insert((epoch, job.transaction.id), answer),
            None => self.gate.put(answer),
        }
    }
    /// This node is a member no more. What is under way here, with the epoch in which it asks to commit if it does;
    /// changes of the catalog that have committed are answered.
    pub fn give_up(&mut self) -> Vec<(Job, Option<Epoch>)> {
        self.all_know(Epoch(u64::MAX));
        self.writing.clear();
        let parked = std::mem::take(&mut self.parked).into_values().map(|job| (job, None));
        let asking = std::mem::take(&mut self.asking).into_values();
        parked.chain(asking.map(|asking| (asking.job, Some(asking.epoch)))).collect()
    }
    /// Every member has published this epoch.
    pub fn all_know(&mut self, published: Epoch) {
        while let Some(first) = self.telling.first_entry().filter(|first| first.key().0 <= published) {
            let answer = first.remove();
            self.gate.put(answer);
        }
    }
    /// Lets answers out; when the next one may go.
    pub fn open_gate<M>(
        &mut self,
        now: Time,
        clock_bound_ns: Option<u64>,
        out: &mut Vec<EngineEffect<M>>,
    ) -> Option<Time> {
        self.gate.open(now, clock_bound_ns, out)
    }
}
