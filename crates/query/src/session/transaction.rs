//! An interactive transaction: a cut, what was read at it, and a buffer of writes.
//!
//! KEEPS: every row shown to the client was read at the one cut with the buffer laid over it; every
//! granule read is recorded once it was asked for; savepoints are lengths of the undo log.

use crate::lower::access;
use base::key::KeyRange;
use base::schema::{Catalog, Index, SchemaAction, Table};
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, Granule, ReadGranule, Validated, ValidatedWrite, WriteKind};
use base::{Datum, Key, PartitionId, Rank, Row, TableId};
use node::request::PinId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One transaction in progress.
pub struct Transaction {
    /// The cut, from the first statement that reads or writes.
    pub pin: Option<(PinId, Rank)>,
    pub read_only: bool,
    /// Made by a simple query of several statements, or by one statement that has to read before it writes.
    pub is_implicit: bool,
    /// An error happened; only ROLLBACK is left.
    pub has_failed: bool,
    /// µs since 2000-01-01, what `now()` says.
    pub now_us: i64,
    reads: BTreeSet<(PartitionId, TableId, KeyRange)>,
    writes: BTreeMap<(TableId, Key), Buffered>,
    undo: Vec<((TableId, Key), Option<Buffered>)>,
    savepoints: Vec<(String, usize, usize)>,
    /// Changes of the catalog, ordered at COMMIT.
    pub schema: Vec<SchemaAction>,
    /// The catalog with them, and the version it began with.
    pub catalog: Option<(u64, Arc<Catalog>)>,
}

/// A buffered row.
#[derive(Clone)]
struct Buffered {
    table: Arc<Table>,
    /// The row at the cut, if it was there.
    old: Option<Arc<Vec<Datum>>>,
    /// `None`: deleted.
    new: Option<Arc<Vec<Datum>>>,
}

/// A row as a transaction sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenRow {
    pub key: Key,
    pub values: Arc<Vec<Datum>>,
}

impl Transaction {
    pub fn new(read_only: bool, is_implicit: bool, now_us: i64) -> Transaction {
        Transaction {
            pin: None,
            read_only,
            is_implicit,
            has_failed: false,
            now_us,
            reads: BTreeSet::new(),
            writes: BTreeMap::new(),
            undo: Vec::new(),
            savepoints: Vec::new(),
            schema: Vec::new(),
            catalog: None,
        }
    }

    /// Whether COMMIT has something to send.
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }
    pub fn writes_to(&self, table: TableId) -> bool {
        let from = (table, Key::new());
        self.writes.range(from..).next().is_some_and(|((t, _), _)| *t == table)
    }
    /// Tables with buffered rows.
    pub fn written_tables(&self) -> BTreeSet<TableId> {
        self.writes.keys().map(|(t, _)| *t).collect()
    }

    /// Records that a range was read.
    pub fn record_read(&mut self, partition: PartitionId, table: TableId, range: KeyRange) {
        self.reads.insert((partition, table, range));
    }

    /// The buffer's say on a key: `None` if it says nothing.
    pub fn buffered(&self, table: TableId, key: &Key) -> Option<Option<&Arc<Vec<Datum>>>> {
        self.writes.get(&(table, key.clone())).map(|b| b.new.as_ref())
    }

    /// Lays the buffer over rows read from one range of a table or index. Rows stay in the order of the
    /// range's keys, or its reverse.
    pub fn overlay(
        &self,
        table: &Table,
        index: Option<&Index>,
        range: &KeyRange,
        descending: bool,
        rows: &mut Vec<SeenRow>,
    ) {
        if !self.writes_to(table.id) {
            return;
        }
        rows.retain(|row| !self.writes.contains_key(&(table.id, row.key.clone())));
        let entry = |key: &Key, values: &[Datum]| match index {
            None => key.clone(),
            Some(index) => table.index_entry(index, values, key),
        };
        let from = (table.id, Key::new());
        let own = self.writes.range(from..).take_while(|((t, _), _)| *t == table.id);
        let mut added = false;
        for ((_, key), buffered) in own {
            let Some(values) = &buffered.new else { continue };
            if range.contains(&entry(key, values)) {
                rows.push(SeenRow { key: key.clone(), values: values.clone() });
                added = true;
            }
        }
        if added {
            rows.sort_by_cached_key(|row| entry(&row.key, &row.values));
            if descending {
                rows.reverse();
            }
        }
    }

    /// Buffered states of a table's rows: key and new values, `None` for deleted ones.
    pub fn buffer_of(&self, table: TableId) -> impl Iterator<Item = (&Key, Option<&Arc<Vec<Datum>>>)> {
        let from = (table, Key::new());
        let own = self.writes.range(from..).take_while(move |((t, _), _)| *t == table);
        own.map(|((_, key), b)| (key, b.new.as_ref()))
    }

    /// Buffers a new row. The caller made sure that none with this key is seen.
    pub fn insert(&mut self, table: &Arc<Table>, key: Key, values: Vec<Datum>) {
        let old = self.writes.get(&(table.id, key.clone())).and_then(|b| b.old.clone());
        self.put(table, key, old, Some(Arc::new(values)));
    }

    /// Buffers the new state of a row that is seen.
    pub fn change(&mut self, table: &Arc<Table>, key: Key, seen: &Arc<Vec<Datum>>, new: Option<Vec<Datum>>) {
        let old = match self.writes.get(&(table.id, key.clone())) {
            Some(buffered) => buffered.old.clone(),
            None => Some(seen.clone()),
        };
        self.put(table, key, old, new.map(Arc::new));
    }

    fn put(
        &mut self,
        table: &Arc<Table>,
        key: Key,
        old: Option<Arc<Vec<Datum>>>,
        new: Option<Arc<Vec<Datum>>>,
    ) {
        let at = (table.id, key);
        // A row that came and went inside the transaction was never there.
        let before = match (&old, &new) {
            (None, None) => self.writes.remove(&at),
            _ => self.writes.insert(at.clone(), Buffered { table: table.clone(), old, new }),
        };
        self.undo.push((at, before));
    }

    pub fn savepoint(&mut self, name: String) {
        self.savepoints.push((name, self.undo.len(), self.schema.len()));
    }
    /// Forgets a savepoint and those after it; false if there is none of this name.
    pub fn release(&mut self, name: &str) -> bool {
        let Some(at) = self.savepoints.iter().rposition(|(n, ..)| n == name) else { return false };
        self.savepoints.truncate(at);
        true
    }
    /// Undoes what was written since a savepoint, which stays; false if there is none of this name.
    pub fn rollback_to(&mut self, name: &str) -> bool {
        let Some(at) = self.savepoints.iter().rposition(|(n, ..)| n == name) else { return false };
        let (_, undo, schema) = self.savepoints[at].clone();
        self.savepoints.truncate(at + 1);
        while self.undo.len() > undo {
            let (key, before) = self.undo.pop().expect("longer than the mark");
            match before {
                Some(buffered) => self.writes.insert(key, buffered),
                None => self.writes.remove(&key),
            };
        }
        if self.schema.len() > schema {
            self.schema.truncate(schema);
            self.catalog = None;
        }
        self.has_failed = false;
        true
    }

    /// The program of COMMIT and its access set.
    pub fn validated(&self, topology: &Topology) -> (Validated, AccessSet) {
        let (_, read_at) = self.pin.expect("a transaction that wrote has a cut");
        let mut access = AccessSet::default();
        let mut reads = Vec::with_capacity(self.reads.len());
        for (partition, table, range) in &self.reads {
            access.add(*partition, Granule::of(*table, range.clone()), AccessMode::Read);
            reads.push(ReadGranule { partition: *partition, table: *table, range: range.clone() });
        }
        let mut writes = Vec::with_capacity(self.writes.len());
        for ((_, key), buffered) in &self.writes {
            let table = &buffered.table;
            if let Some(old) = &buffered.old {
                // Departing entries that live elsewhere are removed there.
                for index in table.indexes.iter().filter(|i| !table.index_is_local(i, topology)) {
                    let entry = table.index_entry(index, old, key);
                    access.write_key(table.locate_entry(&entry, topology), index.id, entry);
                }
            }
            let state = buffered.new.as_ref().or(buffered.old.as_ref()).expect("there or was there");
            let homes = access::homes(table, state, topology);
            match &buffered.new {
                Some(values) => access::write_row(&mut access, table, values, key, topology),
                None => homes.iter().for_each(|p| access.write_key(*p, table.id, key.clone())),
            }
            let kind = if buffered.old.is_none() { WriteKind::Insert } else { WriteKind::Put };
            for partition in homes {
                writes.push(ValidatedWrite {
                    partition,
                    table: table.id,
                    schema_version: table.version,
                    key: key.clone(),
                    kind,
                    row: buffered.new.as_ref().map(|v| Row::of(v)),
                });
            }
        }
        access.normalize();
        (Validated { read_at, reads, writes }, access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::schema::{Column, Identity, Placement};
    use base::{DataType, RegionId};

    fn table() -> Arc<Table> {
        let column = |name: &str| Column {
            name: name.into(),
            data_type: DataType::Integer,
            not_null: true,
            default: None,
            missing: Datum::Null,
            identity: Identity::No,
            hidden: false,
        };
        Arc::new(Table {
            id: TableId(1),
            schema: "public".into(),
            name: "t".into(),
            version: 1,
            columns: vec![column("a"), column("b")],
            primary_key: vec![0],
            primary_key_name: "t_pkey".into(),
            indexes: Vec::new(),
            checks: Vec::new(),
            placement: Placement::Home(RegionId(0)),
        })
    }
    fn row(a: i64, b: i64) -> Vec<Datum> {
        vec![Datum::Int(a), Datum::Int(b)]
    }
    fn key(a: i64) -> Key {
        Key::of(&[Datum::Int(a)])
    }
    fn seen(t: &Transaction, at_cut: &[(i64, i64)]) -> Vec<i64> {
        let mut rows: Vec<SeenRow> =
            at_cut.iter().map(|(a, b)| SeenRow { key: key(*a), values: Arc::new(row(*a, *b)) }).collect();
        t.overlay(&table(), None, &KeyRange::all(), false, &mut rows);
        rows.iter().map(|r| r.values[1].int()).collect()
    }

    #[test]
    fn the_buffer_covers_the_cut_and_savepoints_uncover_it() {
        let table = table();
        let cut = [(1, 10), (2, 20), (3, 30)];
        let mut t = Transaction::new(false, false, 0);
        t.change(&table, key(2), &Arc::new(row(2, 20)), Some(row(2, 21)));
        t.savepoint("s".into());
        t.change(&table, key(1), &Arc::new(row(1, 10)), None);
        t.insert(&table, key(4), row(4, 40));
        assert_eq!(seen(&t, &cut), [21, 30, 40]);
        t.change(&table, key(4), &Arc::new(row(4, 40)), None);
        assert_eq!(seen(&t, &cut), [21, 30]);
        assert!(t.rollback_to("s"));
        assert_eq!(seen(&t, &cut), [10, 21, 30]);
        assert!(t.release("s") && !t.rollback_to("s"));
    }

    #[test]
    fn a_row_that_came_and_went_is_not_written() {
        let table = table();
        let mut t = Transaction::new(false, false, 0);
        t.insert(&table, key(4), row(4, 40));
        t.change(&table, key(4), &Arc::new(row(4, 40)), None);
        assert!(!t.has_writes());
        // One that was there and came back is put, not inserted.
        t.pin = Some((PinId(1), Rank(5)));
        t.change(&table, key(1), &Arc::new(row(1, 10)), None);
        t.insert(&table, key(1), row(1, 11));
        let topology = Topology::one_node_per_region(base::wan::Wan::preset("local").unwrap(), 1);
        let (validated, _) = t.validated(&topology);
        assert_eq!(validated.writes.len(), 1);
        assert_eq!(validated.writes[0].kind, WriteKind::Put);
    }
}
