//! What an open transaction has read, and which of it COMMIT asks to be unchanged.

use super::Transaction;
use base::key::KeyRange;
use base::txn::Isolation;
use base::{Key, PartitionId, Rank, TableId};
use std::collections::BTreeMap;
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

/// When tables were read as wholes.
pub struct WholeReads(BTreeMap<ReadKey, WasRead>);

fn is_whole((_, _, range, columns): &ReadKey) -> bool {
    columns.is_none() && range.low.is_empty() && range.high.is_none()
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
    /// Rows move into another table now: keys that they were not known to keep are not asked of them.
    pub moves_rows: bool,
    /// The catalog was changed, even if all of that is undone at COMMIT: the transaction is serializable.
    pub has_changed_catalog: bool,
}

/// What an entry of what was read takes.
const READ_BYTES: usize = 200;

impl Transaction {
    /// Notes whether it has changed the catalog.
    pub(in crate::session) fn note_catalog_changes(&mut self, has_some: bool) {
        self.reading.has_changed_catalog = has_some;
    }
    /// Whether what it only reads may change. A change of the catalog rests on all that it has read.
    pub(super) fn forgets_reads(&self) -> bool {
        self.reading.level < Isolation::Serializable && !self.reading.has_changed_catalog
    }
    /// Whether each of its statements reads at a cut of its own.
    pub fn reads_anew(&self) -> bool {
        self.reading.level == Isolation::ReadCommitted && !self.reading.has_changed_catalog
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
    /// Whether what it reads may have to be validated. A block that has become READ ONLY still commits what it wrote before.
    pub fn records_reads(&self) -> bool {
        !self.read_only || self.has_writes() || !self.schema.is_empty()
    }
    /// Whether it has to stay at its cut: what it has read is not recorded, so nobody would find out that it has changed.
    pub fn stays_at_its_cut(&self) -> bool {
        self.pin.is_some() && !self.records_reads()
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
        if !self.records_reads() {
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

    /// Which tables it has read as wholes so far, and when.
    pub fn whole_reads(&self) -> WholeReads {
        let whole = self.reads.iter().filter(|(key, _)| is_whole(key));
        WholeReads(whole.map(|(key, read)| (key.clone(), *read)).collect())
    }
    /// The rows that a query has found may be old, and it looks again: what it has read as wholes counts for nothing.
    pub fn forget_look(&mut self, before: WholeReads) {
        self.reads.retain(|key, _| !is_whole(key) || before.0.contains_key(key));
        self.reads.extend(before.0);
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
