//! What an open transaction has read, and which of it COMMIT asks to be unchanged.

use super::Transaction;
use base::key::KeyRange;
use base::{Key, PartitionId, Rank, TableId};
use std::sync::Arc;

/// What was read: where, of which table or index, which keys, and which columns (`None`: all).
pub(super) type ReadKey = (PartitionId, TableId, KeyRange, Option<Arc<Vec<u16>>>);

/// How it was read.
pub(super) struct WasRead {
    /// The earliest cut.
    pub at: Rank,
    /// It has to be unchanged at snapshot isolation too.
    pub is_kept: bool,
}

/// What an entry of what was read takes.
const READ_BYTES: usize = 200;

impl Transaction {
    /// Whether what it only reads may change. A change of the catalog rests on all that it has read.
    pub(super) fn forgets_reads(&self) -> bool {
        self.at_snapshot && self.catalog.is_none()
    }
    /// What COMMIT asks to be unchanged, beside rows that are written.
    pub(super) fn validated_reads(&self) -> impl Iterator<Item = (&ReadKey, &WasRead)> {
        let forgets = self.forgets_reads();
        self.reads.iter().filter(move |(_, read)| !forgets || read.is_kept)
    }
    /// Records that a range was read at a cut; of its rows these columns, or all. What only reads is not
    /// validated.
    pub fn record_read(
        &mut self,
        partition: PartitionId,
        table: TableId,
        range: KeyRange,
        columns: Option<&Arc<Vec<u16>>>,
        at: Rank,
    ) {
        if self.read_only {
            return;
        }
        let stored = match &self.catalog {
            Some(own) => own.granule(table, range),
            None => Some((table, range)),
        };
        // What the transaction itself has made, nobody else can have changed.
        let Some((table, range)) = stored else { return };
        let bytes = READ_BYTES + range.low.len() + range.high.as_ref().map_or(0, Key::len);
        let count = self.reads.len();
        let read = (partition, table, range, columns.cloned());
        let read = self.reads.entry(read).or_insert(WasRead { at, is_kept: false });
        read.at = at.min(read.at);
        read.is_kept |= self.keeps_reads;
        if self.reads.len() > count
            && let Some(memory) = &self.memory
            && let Err(error) = memory.grow(bytes)
        {
            self.refused = Some(error);
        }
    }

    /// The same for what has to be unchanged at every level: that there was no row in the way of a new one.
    pub fn record_kept(&mut self, partition: PartitionId, table: TableId, range: KeyRange, at: Rank) {
        let before = std::mem::replace(&mut self.keeps_reads, true);
        self.record_read(partition, table, range, None, at);
        self.keeps_reads = before;
    }
}
