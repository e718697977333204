//! The analytical storage of the printed protocol (PERSEUS Alg. 3): updates wait until a query's snapshot
//! names them, and are merged for everyone. For comparison only.
//!
//! KEEPS: of a row, the merged write that is latest in its partition's log wins, whatever the order of
//! merging. (The paper does not say; this is the reading that loses least.)

use base::commit::CommitRecord;
use base::schema::Catalog;
use base::{Key, LogPosition, PartitionId, TableId, Time};
use colstore::ColumnStore;
use reads::rule::printed::Printed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct PrintedCopy {
    pub printed: Printed,
    pub store: ColumnStore,
    /// Updates that no snapshot has named yet, with when they are here.
    waiting: BTreeMap<PartitionId, BTreeMap<LogPosition, (Time, CommitRecord)>>,
    /// Merged so far: the storage has a log of its own.
    merged: BTreeMap<PartitionId, LogPosition>,
    latest: BTreeMap<(PartitionId, TableId, Key), LogPosition>,
}

impl PrintedCopy {
    pub fn new(printed: Printed, partitions: &[PartitionId]) -> PrintedCopy {
        PrintedCopy {
            printed,
            store: ColumnStore::new(partitions.iter().copied(), Arc::new(Catalog::default())),
            waiting: BTreeMap::new(),
            merged: partitions.iter().map(|p| (*p, LogPosition(0))).collect(),
            latest: BTreeMap::new(),
        }
    }

    /// A transaction's order is known; its updates come a little later, not all equally.
    pub fn receive(&mut self, now: Time, record: &CommitRecord) {
        let (partition, position) = (record.partition, record.position);
        let lag_ns = base::hash::digest(&(partition, position)) % (self.printed.lag_max_ns + 1);
        let waiting = self.waiting.entry(partition).or_default();
        waiting.insert(position, (now + lag_ns, record.clone()));
        if record.schema.is_some() {
            self.merge(&BTreeSet::from([(partition, position)]));
        }
    }

    pub fn unmerged(&self, partition: PartitionId) -> Vec<(LogPosition, Time)> {
        let waiting = self.waiting.get(&partition).into_iter().flatten();
        waiting.map(|(position, (available_at, _))| (*position, *available_at)).collect()
    }

    pub fn merge(&mut self, named: &BTreeSet<(PartitionId, LogPosition)>) {
        for &(partition, position) in named {
            let waiting = self.waiting.get_mut(&partition);
            // Another query's snapshot may have named it too.
            let Some((_, mut record)) = waiting.and_then(|w| w.remove(&position)) else { continue };
            let latest = &mut self.latest;
            record.writes.retain(|write| {
                let latest = latest.entry((partition, write.table, write.key.clone())).or_default();
                let wins = *latest < position;
                *latest = position.max(*latest);
                wins
            });
            let end = self.merged.get_mut(&partition).expect("the copy keeps this partition");
            *end = end.next();
            record.position = *end;
            self.store.apply(&record);
        }
    }
}
