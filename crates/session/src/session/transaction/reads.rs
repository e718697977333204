//! What an open transaction has read, and which of it COMMIT asks to be unchanged.

use super::Transaction;
use base::key::KeyRange;
use base::txn::Isolation;
use base::{Key, PartitionId, Rank, TableId};
use std::sync::Arc;

/// What was read: where, of which table or index, which keys, and which columns (`None`: all).
pub(super) type ReadKey = (PartitionId, TableId, KeyRange, Option<Arc<Vec<u16>>>);

/// How it was read.
#[derive(Clone, Copy)]
pub(super) struct WasRead {
    /// The earliest cut.
    at: Rank,
    /// The earliest cut at which somebody relied on it: it has to be unchanged since at every level.
    kept_at: Option<Rank>,
}

/// How a transaction reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Below SERIALIZABLE what it only reads may change meanwhile. With snapshot isolation it reads at one cut; at READ
    /// COMMITTED each of its statements reads at a new one.
    pub level: Isolation,
    /// A statement has begun that is to read at a new cut.
    pub wants_cut: bool,
    /// The cut that rows were read at last: what is changed now was seen there.
    pub seen_at: Rank,
    /// What is read now is validated at every level: somebody relies on it.
    pub keeps: bool,
    /// The transaction is one statement that inserts, and changes no row twice.
    pub is_lone: bool,
}

/// What an entry of what was read takes.
const READ_BYTES: usize = 200;

impl Transaction {
    /// Whether what it only reads may change. A change of the catalog rests on all that it has read.
    pub(super) fn forgets_reads(&self) -> bool {
        self.reading.level < Isolation::Serializable && self.catalog.is_none()
    }
    /// Whether each of its statements reads at a cut of its own.
    pub fn reads_anew(&self) -> bool {
        self.reading.level == Isolation::ReadCommitted && self.catalog.is_none()
    }
    /// Whether COMMIT will ask whether something has changed since an earlier cut.
    pub fn rests_on_its_cuts(&self) -> bool {
        self.has_writes() || self.validated_reads().next().is_some()
    }
    /// What COMMIT asks to be unchanged, beside rows that are written, and since which cut.
    pub(super) fn validated_reads(&self) -> impl Iterator<Item = (&ReadKey, Rank)> {
        let forgets = self.forgets_reads();
        self.reads.iter().filter_map(move |(key, read)| {
            let since = if forgets { read.kept_at } else { Some(read.at) };
            since.map(|since| (key, since))
        })
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
        let read = self.reads.entry(read).or_insert(WasRead { at, kept_at: None });
        read.at = at.min(read.at);
        if self.reading.keeps {
            read.kept_at = Some(read.kept_at.map_or(at, |kept_at| at.min(kept_at)));
        }
        if self.reads.len() > count
            && let Some(memory) = &self.memory
            && let Err(error) = memory.grow(bytes)
        {
            self.refused = Some(error);
        }
    }

    /// Tables and indexes of which it has read more than single keys.
    pub fn ranges_read(&self) -> impl Iterator<Item = TableId> + '_ {
        self.reads.keys().filter(|(_, _, range, _)| range.as_point().is_none()).map(|(_, table, _, _)| *table)
    }

    /// The same for what has to be unchanged at every level: that there was no row in the way of a new one.
    pub fn record_kept(&mut self, partition: PartitionId, table: TableId, range: KeyRange, at: Rank) {
        let before = std::mem::replace(&mut self.reading.keeps, true);
        self.record_read(partition, table, range, None, at);
        self.reading.keeps = before;
    }
}
