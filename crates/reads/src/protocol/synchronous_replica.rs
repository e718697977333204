//! Synchronous replicas (Spanner-RSS with replicas for analytics): read what is here.
//!
//! A writer is answered only after every column copy of its partitions has applied it. So whatever was answered
//! is here already, and the newest rank applied here is a cut that includes it; what remains is to wait until
//! nothing at or below that rank can follow. Queries ask nobody. Writers pay.

use super::ReadProtocol;
use crate::rule::{Ask, Followed, Progress, QueryMeta, Readable, Rule, Told, View};
use base::order::StreamItem;
use base::{PartitionId, Rank, SqlError, Time, TxnId};
use std::collections::{BTreeMap, VecDeque};

/// Which writers wait for which copies.
#[derive(Default)]
pub struct SynchronousReplicas {
    /// Partitions of transactions that were submitted here.
    submitted: BTreeMap<TxnId, Vec<PartitionId>>,
    /// Executed, not at every copy yet: at how many partitions.
    held: BTreeMap<TxnId, usize>,
    /// Records that some copy has not acknowledged, by stream index.
    unacknowledged: BTreeMap<PartitionId, VecDeque<(u64, TxnId)>>,
}

impl ReadProtocol for SynchronousReplicas {
    fn strong(&self, meta: QueryMeta, _: u64, view: &dyn View) -> Option<Followed> {
        let rule = SynchronousReplicaQuery::new(meta, view);
        let floor = rule.cut();
        Some(Followed { rule: Box::new(rule), floor })
    }
    fn is_local(&self) -> bool {
        true
    }
    fn streamed(&mut self, partition: PartitionId, index: Option<u64>, item: &StreamItem) {
        if let (StreamItem::Record(record), Some(index)) = (item, index) {
            self.unacknowledged.entry(partition).or_default().push_back((index, record.txn));
        }
    }
    fn awaited(&self, partitions: &mut dyn Iterator<Item = PartitionId>) -> Vec<PartitionId> {
        partitions.collect()
    }
    fn submitted(&mut self, txn: TxnId, awaited: Vec<PartitionId>) {
        self.submitted.insert(txn, awaited);
    }
    fn executed(&mut self, submitted_as: TxnId, txn: TxnId, is_committed: bool) -> Vec<PartitionId> {
        let partitions = self.submitted.remove(&submitted_as).filter(|_| is_committed).unwrap_or_default();
        if !partitions.is_empty() {
            self.held.insert(txn, partitions.len());
        }
        partitions
    }
    fn copied(&mut self, txn: TxnId) -> bool {
        let Some(open) = self.held.get_mut(&txn) else { return true };
        *open -= 1;
        let is_everywhere = *open == 0;
        if is_everywhere {
            self.held.remove(&txn);
        }
        is_everywhere
    }
    fn awaits_copies(&self, partition: PartitionId, txn: TxnId) -> bool {
        let records = self.unacknowledged.get(&partition);
        records.is_some_and(|records| records.iter().any(|(_, other)| *other == txn))
    }
    fn acknowledged(&mut self, partition: PartitionId, everywhere: u64) -> Vec<TxnId> {
        let Some(records) = self.unacknowledged.get_mut(&partition) else { return Vec::new() };
        let mut copied = Vec::new();
        while let Some((_, txn)) = records.pop_front_if(|(index, _)| *index < everywhere) {
            copied.push(txn);
        }
        copied
    }
    fn acknowledges_at_once(&self) -> bool {
        true
    }
}

/// A query at the newest rank applied here when it arrived.
pub struct SynchronousReplicaQuery {
    meta: QueryMeta,
    cut: Rank,
}

impl SynchronousReplicaQuery {
    pub fn new(meta: QueryMeta, view: &dyn View) -> SynchronousReplicaQuery {
        let newest = meta.reads.keys().map(|p| view.newest(*p)).max().unwrap_or_default();
        // Where little is written the newest is old, and older versions than what is complete may be gone.
        let complete = meta.reads.keys().map(|p| view.low(*p)).min().unwrap_or_default();
        let cut = newest.max(complete).max(meta.token.rank);
        SynchronousReplicaQuery { meta, cut }
    }

    pub fn cut(&self) -> Rank {
        self.cut
    }
}

impl Rule for SynchronousReplicaQuery {
    fn asks(&self) -> Vec<Ask> {
        Vec::new()
    }

    fn told(&mut self, _: Time, _: Told) {}

    fn progress(&mut self, now: Time, view: &dyn View) -> Result<Progress, SqlError> {
        if self.meta.reads.keys().any(|p| view.low(*p) < self.cut) {
            return Ok(Progress::Applying);
        }
        // Whatever was answered before the query arrived is in: nothing is stale.
        Ok(Progress::Readable(Readable::at(&self.meta, now, self.cut, self.meta.arrived, 0, view)))
    }
}
