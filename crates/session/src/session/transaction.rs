//! An interactive transaction: its cut, what was read and when, and a buffer of writes.
//!
//! KEEPS: every row shown to the client was read at a cut with the buffer laid over it; cuts do not go
//! back, and only rows that are read to be written are read at a new one; every granule read is recorded
//! with its cut once it was asked for; savepoints are lengths of the undo log.

mod changes;
mod content;
mod entries;
mod parts;
mod reads;
mod saying;
#[cfg(test)]
mod tests;

use super::catalog::OwnCatalog;
use super::settings::Settings;
use super::turns::ROWS_AT_ONCE;
use crate::locks::RowLocks;
use crate::notifications::Said;
use crate::remote_locks::RemoteLocks;
use analytics::{RowsMemory, SnapshotGuard};
use base::error::SqlResult;
use base::key::KeyRange;
use base::schema::{Index, SchemaAction, Table};
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, Granule, ReadGranule, Validated, ValidatedWrite, WriteKind};
use base::{Datum, Key, Rank, Row, SqlError, TableId};
pub(super) use changes::{Deferrals, RowChange};
pub(super) use content::SeenRow;
use content::{Buffered, Content};
use entries::Entries;
use node::request::PinId;
pub use parts::PartRows;
use parts::Parts;
pub use reads::Reading;
use reads::{ReadKey, WasRead};
use saying::Saying;
use sql::lower::access;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What ROLLBACK TO goes back to.
#[derive(Clone, Debug)]
struct Savepoint {
    name: String,
    /// Lengths of the undo log, of the changes to the schema, and of what was said.
    undo: usize,
    schema: usize,
    settings: Arc<Settings>,
    deferrals: Deferrals,
    said: usize,
    locks: changes::LockMark,
}

/// One transaction in progress.
pub struct Transaction {
    /// What keeps versions alive, from the first statement that reads or writes on: the first cut.
    pub pin: Option<(PinId, Rank)>,
    /// Notes that it is held.
    pub snapshot: Option<SnapshotGuard>,
    /// The newest cut that rows were read at.
    pub cut: Rank,
    pub read_only: bool,
    pub reading: Reading,
    /// None of the statements that it will have writes, as far as they are known.
    pub only_reads: bool,
    /// Made by a simple query of several statements, or by one statement that has to read before it writes.
    pub is_implicit: bool,
    /// An error happened; only ROLLBACK is left.
    pub has_failed: bool,
    /// µs since 2000-01-01, what `now()` says.
    pub now_us: i64,
    reads: BTreeMap<ReadKey, WasRead>,
    /// Changed by [`Transaction::buffer`] alone.
    writes: BTreeMap<(TableId, Key), Buffered>,
    entries: Entries,
    /// What the buffer said before, and the bytes that each write has reserved.
    undo: Vec<((TableId, Key), Option<Buffered>, usize)>,
    /// Rows that got other keys.
    moved: Vec<changes::Moved>,
    /// What SET CONSTRAINTS has said.
    pub deferrals: Deferrals,
    savepoints: Vec<Savepoint>,
    /// What buffered rows and recorded reads take; `None`: nobody counts.
    pub memory: Option<RowsMemory>,
    /// There was no memory for what was read.
    refused: Option<SqlError>,
    /// Rows that others of this gateway wait for.
    pub locks: Option<RowLocks>,
    /// Rows that others wait for at their homes elsewhere.
    pub remote_locks: Option<RemoteLocks>,
    /// Tables with rows homed elsewhere that were read to be written.
    pub wrote_afar: BTreeSet<TableId>,
    /// Changes of the catalog, ordered at COMMIT.
    pub schema: Vec<SchemaAction>,
    /// The catalog with them, and the one it began with.
    pub catalog: Option<OwnCatalog>,
    /// A statement of several parts is running.
    pub parts: Option<Box<Parts>>,
    /// What LISTEN and NOTIFY have said.
    pub said: Saying,
}

/// What an entry of the buffer takes besides its values.
const WRITE_BYTES: usize = 320;
/// An entry of a unique index: two keys and their place in a map.
const ENTRY_BYTES: usize = 160;

impl Transaction {
    pub fn new(read_only: bool, is_implicit: bool, now_us: i64) -> Transaction {
        Transaction {
            pin: None,
            snapshot: None,
            cut: Rank::ZERO,
            read_only,
            reading: Reading::default(),
            only_reads: false,
            is_implicit,
            has_failed: false,
            now_us,
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            entries: Entries::default(),
            undo: Vec::new(),
            moved: Vec::new(),
            deferrals: Deferrals::default(),
            savepoints: Vec::new(),
            memory: None,
            refused: None,
            locks: None,
            remote_locks: None,
            wrote_afar: BTreeSet::new(),
            schema: Vec::new(),
            catalog: None,
            parts: None,
            said: Saying::default(),
        }
    }

    /// An error happened. Others need not wait for what will be rolled back, unless a savepoint can be gone
    /// back to.
    pub fn fail(&mut self) {
        self.has_failed = true;
        self.end_parts();
        if self.savepoints.is_empty() {
            self.locks = None;
            self.remote_locks = None;
        }
    }

    /// Whether it has read or written anything, or changed the catalog.
    pub fn has_begun(&self) -> bool {
        self.pin.is_some() || self.has_writes() || !self.schema.is_empty()
    }
    /// Whether rows were written.
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }
    /// Whether rows were read that have to be found unchanged.
    pub fn has_reads(&self) -> bool {
        !self.reads.is_empty()
    }
    /// Whether COMMIT has something to send: rows, or reads at several cuts, which must come out as one.
    /// What was read at one cut alone is serializable as it is.
    pub fn needs_validation(&self) -> bool {
        self.has_writes() || !self.reads_anew() && self.validated_reads().any(|(_, at)| at != self.cut)
    }
    /// So much to commit that it is put together aside.
    pub fn is_large(&self) -> bool {
        self.reads.len() + self.writes.len() > ROWS_AT_ONCE
    }
    pub fn writes_to(&self, table: TableId) -> bool {
        let from = (table, Key::new());
        self.writes.range(from..).next().is_some_and(|((t, _), _)| *t == table)
    }
    /// Errors: its snapshot was given up (72000).
    pub fn check_snapshot(&self) -> SqlResult<()> {
        self.snapshot.as_ref().map_or(Ok(()), SnapshotGuard::check)
    }

    /// Errors: what was read took more memory than there was (53200).
    pub fn check_memory(&self) -> SqlResult<()> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// The buffer's say on a key: `None` if it says nothing.
    pub fn buffered(&self, table: TableId, key: &Key) -> Option<Option<&Arc<Vec<Datum>>>> {
        self.writes.get(&(table, key.clone())).map(|b| b.values())
    }

    /// How many of a table's buffered rows may stand in the way of rows read from a range of keys.
    pub fn written_in(&self, table: TableId, index: Option<&Index>, range: &KeyRange) -> u64 {
        match index {
            None => self.own_rows(table, range).count() as u64,
            // Where a row stood in an index before it was written is not kept.
            Some(_) => self.buffer_of(table).count() as u64,
        }
    }

    /// The buffer's rows with keys in a range.
    fn own_rows<'a>(
        &'a self,
        table: TableId,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (&'a Key, &'a Buffered)> {
        let own = self.writes.range((table, range.low.clone())..);
        own.take_while(move |((t, key), _)| *t == table && range.contains(key)).map(|((_, key), b)| (key, b))
    }

    /// Whether the buffer has a say on a key.
    pub fn is_buffered(&self, table: TableId, key: &Key) -> bool {
        self.writes.contains_key(&(table, key.clone()))
    }

    /// Lays the buffer over rows read from one range of a table or index. Rows stay in the order of the
    /// range's keys, or its reverse. Answers whether the buffer had a say.
    pub fn overlay(
        &self,
        table: &Table,
        index: Option<&Index>,
        range: &KeyRange,
        descending: bool,
        rows: &mut Vec<SeenRow>,
    ) -> bool {
        if !self.writes_to(table.id) {
            return false;
        }
        let seen = |key: &Key, buffered: &Buffered| {
            let values = buffered.values()?.clone();
            Some(SeenRow::new(key.clone(), values))
        };
        let Some(index) = index else {
            let mut own = self.own_rows(table.id, range).peekable();
            if own.peek().is_none() {
                return false;
            }
            rows.retain(|row| !self.writes.contains_key(&(table.id, row.key.clone())));
            let before = rows.len();
            rows.extend(own.filter_map(|(key, buffered)| seen(key, buffered)));
            if rows.len() > before {
                rows.sort_by(|a, b| if descending { b.key.cmp(&a.key) } else { a.key.cmp(&b.key) });
            }
            return true;
        };
        rows.retain(|row| !self.writes.contains_key(&(table.id, row.key.clone())));
        let entry = |row: &SeenRow| table.index_entry(index, &row.values, &row.key);
        let all = KeyRange::all();
        let own = self.own_rows(table.id, &all).filter_map(|(key, buffered)| seen(key, buffered));
        let before = rows.len();
        rows.extend(own.filter(|row| range.contains(&entry(row))));
        if rows.len() > before {
            rows.sort_by_cached_key(entry);
            if descending {
                rows.reverse();
            }
        }
        true
    }

    /// Buffered states of a table's rows: key and new values, `None` for deleted ones.
    pub fn buffer_of(&self, table: TableId) -> impl Iterator<Item = (&Key, Option<&Arc<Vec<Datum>>>)> {
        let from = (table, Key::new());
        let own = self.writes.range(from..).take_while(move |((t, _), _)| *t == table);
        own.map(|((_, key), b)| (key, b.values()))
    }

    /// The buffered row that has this entry of a unique index: its key and its values.
    pub fn owner_of(&self, table: TableId, index: TableId, entry: Key) -> Option<(&Key, &Arc<Vec<Datum>>)> {
        let key = self.entries.owner(index, entry)?;
        Some((key, self.writes.get(&(table, key.clone()))?.values()?))
    }

    /// Buffers a new row. The caller made sure that none with this key is seen. Errors: 53200.
    pub fn insert(&mut self, table: &Arc<Table>, key: Key, values: Vec<Datum>) -> SqlResult<()> {
        let old = self.writes.get(&(table.id, key.clone())).and_then(|b| b.old.clone());
        self.put(table, key, old, Some(Content::of(Arc::new(values))))
    }

    /// Buffers the new state of a row that is seen. Errors: 53200.
    pub fn change(
        &mut self,
        table: &Arc<Table>,
        key: Key,
        seen: &Arc<Vec<Datum>>,
        new: Option<Vec<Datum>>,
    ) -> SqlResult<()> {
        let old = match self.writes.get(&(table.id, key.clone())) {
            Some(buffered) => buffered.old.clone(),
            None => Some(Content::of(seen.clone())),
        };
        self.put(table, key, old, new.map(|new| Content::of(Arc::new(new))))
    }

    /// Buffers the new state of a row that was stored, neither of them unpacked. Errors: 53200.
    pub fn change_packed(&mut self, table: &Arc<Table>, key: Key, stored: &Row, new: Row) -> SqlResult<()> {
        let old = match self.writes.get(&(table.id, key.clone())) {
            Some(buffered) => buffered.old.clone(),
            None => Some(Content::packed(stored.clone())),
        };
        self.put(table, key, old, Some(Content::packed(new)))
    }

    fn put(
        &mut self,
        table: &Arc<Table>,
        key: Key,
        old: Option<Content>,
        new: Option<Content>,
    ) -> SqlResult<()> {
        let contents = [&old, &new].into_iter().flatten().map(Content::bytes);
        let unique = table.indexes.iter().filter(|index| index.unique).count();
        let bytes = WRITE_BYTES + 2 * key.len() + unique * ENTRY_BYTES + contents.sum::<usize>();
        if let Some(memory) = &self.memory {
            memory.grow(bytes)?;
        }
        let at = (table.id, key);
        // A row that came and went inside the transaction was never there.
        let before = match (&old, &new) {
            (None, None) => self.buffer(at.clone(), None),
            _ => {
                let seen_at = self.writes.get(&at).map_or(self.reading.seen_at, |before| before.seen_at);
                self.buffer(at.clone(), Some(Buffered { table: table.clone(), old, new, seen_at }))
            }
        };
        self.undo.push((at, before, bytes));
        Ok(())
    }

    /// Puts a row into the buffer, or takes it out of it; answers what was there.
    fn buffer(&mut self, at: (TableId, Key), row: Option<Buffered>) -> Option<Buffered> {
        let before = self.writes.remove(&at);
        if let Some(before) = &before {
            self.entries.leave(&at.1, before);
        }
        if let Some(row) = row {
            self.entries.take(&at.1, &row);
            self.writes.insert(at, row);
        }
        before
    }

    /// Buffered rows follow their tables: they get the columns that were added, or go with the table.
    pub(super) fn adopt(&mut self) {
        let Some(own) = &self.catalog else { return };
        let now = own.now.clone();
        let is_old = |(_, b): &(&(TableId, Key), &Buffered)| {
            now.table(b.table.id).is_none_or(|table| !Arc::ptr_eq(table, &b.table))
        };
        let old: Vec<(TableId, Key)> = self.writes.iter().filter(is_old).map(|(at, _)| at.clone()).collect();
        for at in old {
            let buffered = self.writes[&at].clone();
            let before = match now.table(at.0) {
                None => self.buffer(at.clone(), None),
                Some(table) => {
                    let follow = |content: &Content| content.widened(table);
                    let next = Buffered {
                        table: table.clone(),
                        old: buffered.old.as_ref().map(follow),
                        new: buffered.new.as_ref().map(follow),
                        seen_at: buffered.seen_at,
                    };
                    self.buffer(at.clone(), Some(next))
                }
            };
            self.undo.push((at, before, 0));
        }
    }

    /// Forgets what was written to a table, whose rows end with the transaction.
    pub(super) fn forget_rows(&mut self, table: TableId) {
        let written: Vec<(TableId, Key)> =
            self.buffer_of(table).map(|(key, _)| (table, key.clone())).collect();
        for at in written {
            self.buffer(at, None);
        }
    }

    pub fn savepoint(&mut self, name: String, settings: Arc<Settings>) {
        let (undo, schema) = (self.undo.len(), self.schema.len());
        let (deferrals, said) = (self.deferrals.clone(), self.said.len());
        let locks = self.lock_mark();
        self.savepoints.push(Savepoint { name, undo, schema, settings, deferrals, said, locks });
    }
    /// Forgets a savepoint and those after it; false if there is none of this name.
    pub fn release(&mut self, name: &str) -> bool {
        let Some(at) = self.savepoints.iter().rposition(|s| s.name == name) else { return false };
        self.savepoints.truncate(at);
        true
    }
    /// LISTEN, UNLISTEN or NOTIFY, for COMMIT. Errors: 53200, 54000.
    pub fn say(&mut self, said: Said) -> SqlResult<()> {
        self.said.add(said, self.memory.as_ref())
    }
    /// Undoes what was written since a savepoint, which stays. Answers its settings; `None` if there is none of this name.
    pub fn rollback_to(&mut self, name: &str) -> Option<Arc<Settings>> {
        let at = self.savepoints.iter().rposition(|s| s.name == name)?;
        let savepoint = self.savepoints[at].clone();
        self.forget_moves(&savepoint);
        self.release_locks(savepoint.locks);
        let Savepoint { undo, schema, settings, said, .. } = savepoint;
        self.said.truncate(said, self.memory.as_ref());
        self.savepoints.truncate(at + 1);
        while self.undo.len() > undo {
            let (key, before, bytes) = self.undo.pop().expect("longer than the mark");
            if let Some(memory) = &self.memory {
                memory.shrink(bytes);
            }
            self.buffer(key, before);
        }
        if self.schema.len() > schema {
            let mut actions = std::mem::take(&mut self.schema);
            actions.truncate(schema);
            let own = self.catalog.take().expect("changes come with their catalog");
            self.note_catalog_changes(!actions.is_empty());
            if !actions.is_empty() {
                self.rebuild(own.base, actions).expect("these changes were taken before");
                self.adopt();
            }
        }
        self.has_failed = false;
        Some(settings)
    }

    /// The program of COMMIT and its access set.
    pub fn validated(&self, topology: &Topology) -> (Validated, AccessSet) {
        let mut access = AccessSet::default();
        let mut reads = Vec::with_capacity(self.reads.len());
        for ((partition, table, range, columns), at) in self.validated_reads() {
            access.add(*partition, Granule::of(*table, range.clone()), AccessMode::Read);
            reads.push(ReadGranule {
                partition: *partition,
                table: *table,
                range: range.clone(),
                columns: columns.as_deref().cloned(),
                at,
            });
        }
        let mut writes = Vec::with_capacity(self.writes.len());
        for ((_, key), buffered) in &self.writes {
            let table = self.committed(&buffered.table);
            let state = buffered.new.as_ref().or(buffered.old.as_ref()).expect("there or was there");
            let homes = match (&state.packed, table.partition_column()) {
                (Some(row), Some(column)) => {
                    let place = table.complete_some(row, &[column as u16]);
                    access::homes(table, &place, topology)
                }
                _ => access::homes(table, state.values(table), topology),
            };
            if let Some(old) = buffered.old.as_ref().filter(|_| !table.indexes.is_empty()) {
                // Departing entries that live elsewhere are removed there; the next owner of a unique one declares it.
                let departs = |i: &Index| i.unique || !table.index_is_local(i, topology);
                let (old, was_at) = (old.values(table), access::homes(table, old.values(table), topology));
                access::write_entries(&mut access, table, old, key, topology, &was_at, departs);
            }
            match &buffered.new {
                Some(new) if !table.indexes.is_empty() => {
                    access::write_row(&mut access, table, new.values(table), key, topology)
                }
                _ => homes.iter().for_each(|p| access.write_key(*p, table.id, key.clone())),
            }
            if self.forgets_reads() && buffered.old.is_some() {
                // A row that is written is as it was in the block's snapshot, or as the statement saw it that changed it.
                let at = if self.reads_anew() { buffered.seen_at } else { self.cut };
                for &partition in &homes {
                    let range = KeyRange::point(key.clone());
                    access.add(partition, Granule::of(table.id, range.clone()), AccessMode::Read);
                    reads.push(ReadGranule { partition, table: table.id, range, columns: None, at });
                }
            }
            let kind = if buffered.old.is_none() { WriteKind::Insert } else { WriteKind::Put };
            let row = buffered.new.as_ref().map(Content::row);
            for partition in homes {
                writes.push(ValidatedWrite {
                    partition,
                    table: table.id,
                    schema_version: table.version,
                    key: key.clone(),
                    kind,
                    row: row.clone(),
                });
            }
        }
        access.normalize();
        (Validated { reads, writes }, access)
    }
}
