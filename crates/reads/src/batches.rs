//! Batches of a partition's log, and the manager that finds which of them form a closed cut (Janus-HTAP).
//!
//! IN: each partition's stream; reports of all partitions at the manager. OUT: reports; the greatest vector of
//! batches that is closed. KEEPS: published vectors only grow; with a transaction, a vector includes all its
//! ancestors and itself at every partition where they take part.
//!
//! A batch is what a partition logged in an interval. It needs, at another partition, every batch in which a
//! transaction of its own, or an ancestor, was logged there. Only transactions that span partitions matter: an
//! ancestor that stays at one partition precedes there, in the log, the transaction through which it is an
//! ancestor. All ancestors are named, because a record follows its closure's vertices on the stream.

use base::order::StreamItem;
use base::time::SECOND;
use base::{LogPosition, PartitionId, Rank, Time, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a published vector includes stays readable this long after a later vector was published, in ns.
pub const HOLD_NS: u64 = SECOND;

/// One batch of one partition, as it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// 1 for a partition's first.
    pub number: u64,
    /// End of the log when it was closed.
    pub end: LogPosition,
    pub closed_at: Time,
    /// Transactions of several partitions, of its records' closures, with their partitions.
    pub named: Vec<(TxnId, Vec<PartitionId>)>,
    /// Transactions of several partitions that were logged in it.
    pub logged: Vec<(TxnId, Rank)>,
    /// No later batch names a transaction ranked at or below this: they are collected.
    pub below: Rank,
}

/// How far a partition is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedBatch {
    pub number: u64,
    pub end: LogPosition,
    pub closed_at: Time,
}

/// A partition's side.
#[derive(Debug, Default)]
pub struct Batcher {
    number: u64,
    end: LogPosition,
    named: Vec<(TxnId, Vec<PartitionId>)>,
    logged: Vec<(TxnId, Rank)>,
    /// Least rank logged since the last batch.
    least: Option<Rank>,
    /// Named here, take part here, not logged yet.
    awaited: BTreeSet<TxnId>,
    /// Closed, not known to the manager; with when it was sent last.
    unreported: VecDeque<(Time, Batch)>,
    /// Least ranks of batches that a reader may still stop short of, and, once the manager has published a
    /// batch, when that was heard.
    held: VecDeque<(u64, Option<Rank>, Option<Time>)>,
}

impl Batcher {
    /// An item of the partition's stream.
    pub fn observe(&mut self, partition: PartitionId, item: &StreamItem) {
        match item {
            StreamItem::Vertex(vertex) if vertex.participants.len() > 1 => {
                if vertex.participants.contains(&partition) {
                    self.awaited.insert(vertex.txn);
                }
                self.named.push((vertex.txn, vertex.participants.clone()));
            }
            StreamItem::Record(record) => {
                assert!(self.end < record.position, "positions of a log grow");
                self.end = record.position;
                self.least = Some(self.least.map_or(record.rank, |least| least.min(record.rank)));
                if self.awaited.remove(&record.txn) {
                    self.logged.push((record.txn, record.rank));
                }
            }
            _ => {}
        }
    }

    /// Closes a batch. `below`: the watermark here.
    pub fn close(&mut self, now: Time, below: Rank) {
        self.number += 1;
        let batch = Batch {
            number: self.number,
            end: self.end,
            closed_at: now,
            named: std::mem::take(&mut self.named),
            logged: std::mem::take(&mut self.logged),
            below,
        };
        self.held.push_back((self.number, self.least.take(), None));
        self.unreported.push_back((Time::ZERO, batch));
    }

    /// Batches to send now: new ones, and those that were silent for longer than `patience_ns`.
    pub fn reports(&mut self, now: Time, patience_ns: u64) -> Vec<Batch> {
        let mut due = Vec::new();
        for (sent_at, batch) in &mut self.unreported {
            if *sent_at == Time::ZERO || *sent_at + patience_ns <= now {
                *sent_at = now;
                due.push(batch.clone());
            }
        }
        due
    }

    /// The manager has everything up to one batch and has published up to another.
    pub fn acknowledged(&mut self, now: Time, received: u64, published: u64) {
        while self.unreported.front().is_some_and(|(_, batch)| batch.number <= received) {
            self.unreported.pop_front();
        }
        for (number, _, heard) in &mut self.held {
            if *number <= published && heard.is_none() {
                *heard = Some(now);
            }
        }
        while let Some((_, _, Some(heard))) = self.held.front()
            && *heard + HOLD_NS <= now
        {
            self.held.pop_front();
        }
    }

    /// What may be in a cut that does not include everything here: versions replaced at or above this rank
    /// must stay.
    pub fn floor(&self) -> Option<Rank> {
        self.held.iter().filter_map(|(_, least, _)| *least).chain(self.least).min()
    }
}

/// The manager's side.
#[derive(Debug)]
pub struct BatchManager {
    partitions: BTreeMap<PartitionId, Reported>,
    /// In which batch a transaction of several partitions was logged.
    logged_in: BTreeMap<(TxnId, PartitionId), (u64, Rank)>,
    /// Something was reported since the vector was computed.
    stale: bool,
}

#[derive(Debug, Default)]
struct Reported {
    published: PublishedBatch,
    /// After the published one, without gaps.
    waiting: VecDeque<Waiting>,
    received: u64,
    below: Rank,
}

#[derive(Debug)]
struct Waiting {
    batch: PublishedBatch,
    /// Least batch of each other partition that it needs.
    needs: BTreeMap<PartitionId, u64>,
    /// What it needs was not reported yet.
    unresolved: Vec<(TxnId, PartitionId)>,
}

impl BatchManager {
    pub fn new(partitions: impl Iterator<Item = PartitionId>) -> BatchManager {
        let partitions = partitions.map(|p| (p, Reported::default())).collect();
        BatchManager { partitions, logged_in: BTreeMap::new(), stale: false }
    }

    /// A partition reports. Answers up to which batch everything of it is here. Batches that come early or
    /// again are dropped.
    pub fn report(&mut self, partition: PartitionId, batch: Batch) -> u64 {
        let Some(reported) = self.partitions.get_mut(&partition) else { return 0 };
        if batch.number != reported.received + 1 {
            return reported.received;
        }
        reported.received = batch.number;
        reported.below = batch.below;
        for (txn, rank) in batch.logged {
            self.logged_in.insert((txn, partition), (batch.number, rank));
        }
        let others = |(txn, participants): (TxnId, Vec<PartitionId>)| {
            participants.into_iter().filter(|p| *p != partition).map(move |p| (txn, p)).collect::<Vec<_>>()
        };
        reported.waiting.push_back(Waiting {
            batch: PublishedBatch { number: batch.number, end: batch.end, closed_at: batch.closed_at },
            needs: BTreeMap::new(),
            unresolved: batch.named.into_iter().flat_map(others).collect(),
        });
        self.stale = true;
        batch.number
    }

    /// How far each partition is published, after everything reported so far.
    pub fn published(&mut self) -> BTreeMap<PartitionId, PublishedBatch> {
        if std::mem::take(&mut self.stale) {
            self.publish();
        }
        self.partitions.iter().map(|(p, reported)| (*p, reported.published)).collect()
    }

    pub fn published_of(&self, partition: PartitionId) -> u64 {
        self.partitions.get(&partition).map_or(0, |reported| reported.published.number)
    }

    /// The greatest closed vector: begin with everything whose needs are known, then take back what needs more
    /// than is there, until nothing does.
    fn publish(&mut self) {
        let logged_in = &self.logged_in;
        let mut limits: BTreeMap<PartitionId, u64> = BTreeMap::new();
        for (partition, reported) in &mut self.partitions {
            let mut limit = reported.published.number;
            let mut whole = true;
            for waiting in &mut reported.waiting {
                let needs = &mut waiting.needs;
                waiting.unresolved.retain(|key| match logged_in.get(key) {
                    Some((number, _)) => {
                        let need = needs.entry(key.1).or_default();
                        *need = (*need).max(*number);
                        false
                    }
                    None => true,
                });
                whole &= waiting.unresolved.is_empty();
                if whole {
                    limit = waiting.batch.number;
                }
            }
            limits.insert(*partition, limit);
        }
        loop {
            let mut changed = false;
            for (partition, reported) in &self.partitions {
                let limit = limits[partition];
                let within = reported.waiting.iter().take_while(|waiting| waiting.batch.number <= limit);
                let short =
                    |waiting: &&Waiting| waiting.needs.iter().any(|(other, need)| limits[other] < *need);
                if let Some(waiting) = within.into_iter().find(short) {
                    limits.insert(*partition, waiting.batch.number - 1);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        for (partition, reported) in &mut self.partitions {
            assert!(limits[partition] >= reported.published.number, "what is published stays published");
            while reported.waiting.front().is_some_and(|w| w.batch.number <= limits[partition]) {
                reported.published = reported.waiting.pop_front().expect("just seen").batch;
            }
        }
        let below = self.partitions.values().map(|reported| reported.below).min().unwrap_or_default();
        self.logged_in.retain(|_, (_, rank)| *rank > below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;
    use base::commit::CommitRecord;
    use base::order::Vertex;

    fn t(sequence: u64) -> TxnId {
        TxnId { coordinator: NodeId(0), incarnation: 1, sequence }
    }
    fn p(n: u16) -> PartitionId {
        PartitionId(n)
    }
    fn batch(number: u64, named: &[(u64, &[u16])], logged: &[u64]) -> Batch {
        Batch {
            number,
            end: LogPosition(number * 10),
            closed_at: Time(number * 50),
            named: named.iter().map(|(n, parts)| (t(*n), parts.iter().map(|q| p(*q)).collect())).collect(),
            logged: logged.iter().map(|n| (t(*n), Rank(*n))).collect(),
            below: Rank::ZERO,
        }
    }
    fn numbers(manager: &mut BatchManager) -> Vec<u64> {
        manager.published().values().map(|batch| batch.number).collect()
    }

    #[test]
    fn a_transaction_of_two_partitions_is_published_at_both_or_at_none() {
        let mut manager = BatchManager::new([p(0), p(1)].into_iter());
        manager.report(p(0), batch(1, &[], &[]));
        manager.report(p(0), batch(2, &[(7, &[0, 1])], &[7]));
        manager.report(p(1), batch(1, &[], &[]));
        assert_eq!(numbers(&mut manager), [1, 1], "it was not logged at the other");
        manager.report(p(1), batch(2, &[(7, &[0, 1])], &[7]));
        assert_eq!(numbers(&mut manager), [2, 2]);
    }

    #[test]
    fn a_batch_waits_for_the_ancestors_of_its_transactions_elsewhere() {
        let mut manager = BatchManager::new([p(0), p(1), p(2)].into_iter());
        // 5 spans 0 and 1; its ancestor 4 spans 1 and 2, and is logged late at 2.
        manager.report(p(0), batch(1, &[(4, &[1, 2]), (5, &[0, 1])], &[5]));
        manager.report(p(1), batch(1, &[(4, &[1, 2]), (5, &[0, 1])], &[4, 5]));
        manager.report(p(2), batch(1, &[], &[]));
        assert_eq!(numbers(&mut manager), [0, 0, 1]);
        manager.report(p(2), batch(2, &[(4, &[1, 2])], &[4]));
        assert_eq!(numbers(&mut manager), [1, 1, 2]);
    }

    #[test]
    fn reports_that_are_lost_early_or_repeated_change_nothing() {
        let mut manager = BatchManager::new([p(0)].into_iter());
        assert_eq!(manager.report(p(0), batch(2, &[], &[])), 0, "the first one is missing");
        assert_eq!(manager.report(p(0), batch(1, &[], &[])), 1);
        assert_eq!(manager.report(p(0), batch(1, &[], &[])), 1);
        assert_eq!(numbers(&mut manager), [1]);
    }

    #[test]
    fn a_partition_names_what_spans_partitions_and_holds_what_readers_may_still_miss() {
        let mut batcher = Batcher::default();
        let vertex = |n, parts: &[u16]| {
            StreamItem::Vertex(Vertex {
                txn: t(n),
                participants: parts.iter().map(|q| p(*q)).collect(),
                dependencies: Vec::new(),
                after: Rank::ZERO,
            })
        };
        let record = |n: u64| {
            StreamItem::Record(CommitRecord {
                txn: t(n),
                rank: Rank(100 + n),
                partition: p(0),
                position: LogPosition(n),
                writes: Vec::new(),
                touched: BTreeSet::new(),
                schema: None,
            })
        };
        for item in [vertex(1, &[0]), record(1), vertex(3, &[1, 2]), vertex(2, &[0, 1]), record(2)] {
            batcher.observe(p(0), &item);
        }
        batcher.close(Time(50), Rank::ZERO);
        let reports = batcher.reports(Time(50), 10);
        assert_eq!(reports.len(), 1);
        assert_eq!(reports[0].named, [(t(3), vec![p(1), p(2)]), (t(2), vec![p(0), p(1)])]);
        assert_eq!(
            (reports[0].logged.as_slice(), reports[0].end),
            ([(t(2), Rank(102))].as_slice(), LogPosition(2))
        );
        assert!(batcher.reports(Time(55), 10).is_empty(), "it is on its way");
        assert_eq!(batcher.reports(Time(60), 10).len(), 1, "it was silent too long");
        assert_eq!(batcher.floor(), Some(Rank(101)));
        batcher.acknowledged(Time(100), 1, 1);
        assert!(batcher.reports(Time(500), 10).is_empty());
        assert_eq!(batcher.floor(), Some(Rank(101)), "somebody may have asked just before");
        batcher.acknowledged(Time(100 + HOLD_NS), 1, 1);
        assert_eq!(batcher.floor(), None);
    }

    #[test]
    fn memory_of_logged_transactions_goes_with_the_watermark() {
        let mut manager = BatchManager::new([p(0), p(1)].into_iter());
        let collected = |number, named: &[(u64, &[u16])], logged: &[u64]| Batch {
            below: Rank(7),
            ..batch(number, named, logged)
        };
        manager.report(p(0), collected(1, &[(7, &[0, 1])], &[7]));
        manager.report(p(1), batch(1, &[(7, &[0, 1])], &[7]));
        assert_eq!(numbers(&mut manager), [1, 1]);
        assert_eq!(manager.logged_in.len(), 2, "partition 1 may still name it");
        manager.report(p(1), collected(2, &[], &[]));
        assert_eq!(numbers(&mut manager), [1, 2]);
        assert!(manager.logged_in.is_empty());
    }
}
