//! A procedure over rows as of a cut, with its own writes over them and not in the store.
//!
//! KEEPS: it sees what it would see at a place, if the newest rows were those of the cut; a touch outside the declared
//! set ends it with an error.

use super::declared::Declared;
use super::procedure::undeclared;
use crate::store::Store;
use base::error::{SqlError, SqlResult};
use base::key::KeyRange;
use base::txn::procedure::{Exchange, RowAccess, RowView};
use base::txn::{AccessMode, Transaction};
use base::write_set::RowState;
use base::{Datum, Key, Place, Row, TableId};
use std::cell::RefCell;
use std::collections::BTreeMap;

type Read = Vec<(TableId, KeyRange)>;

struct Rehearsal<'a> {
    store: &'a Store,
    declared: Declared<'a>,
    cut: Place,
    /// Final states so far, and the tables and keys in the order in which they were written first.
    written: BTreeMap<TableId, BTreeMap<Key, Option<Row>>>,
    order: Vec<(TableId, Key)>,
    read: RefCell<Read>,
    outside: RefCell<Option<SqlError>>,
}

impl Store {
    fn rehearsal<'a>(&'a self, transaction: &'a Transaction, cut: Place) -> Rehearsal<'a> {
        Rehearsal {
            store: self,
            declared: Declared::new(transaction.access.at(self.partition)),
            cut,
            written: BTreeMap::new(),
            order: Vec::new(),
            read: RefCell::default(),
            outside: RefCell::default(),
        }
    }

    /// The first half: what it gathers, and what it read.
    pub(super) fn rehearse_gather(
        &self,
        transaction: &Transaction,
        cut: Place,
        name: &str,
        args: &[Datum],
    ) -> SqlResult<(Vec<Datum>, Read)> {
        let rehearsal = self.rehearsal(transaction, cut);
        let values = self.procedures.get(name)?.gather(args, &self.context(&self.catalog), &rehearsal);
        rehearsal.outside.into_inner().map_or(values, Err).map(|values| (values, rehearsal.read.into_inner()))
    }

    /// The second half: rows to return, final states in the order of a commit record, and what it read.
    pub(super) fn rehearse_apply(
        &self,
        transaction: &Transaction,
        cut: Place,
        name: &str,
        args: &[Datum],
        exchange: &Exchange,
    ) -> SqlResult<(Vec<Row>, Vec<RowState>, Read)> {
        let mut rehearsal = self.rehearsal(transaction, cut);
        let context = self.context(&self.catalog);
        let rows = self.procedures.get(name)?.apply(args, &context, exchange, &mut rehearsal);
        let Rehearsal { mut written, order, read, outside, .. } = rehearsal;
        if let Some(error) = outside.into_inner() {
            return Err(error);
        }
        let states = order.into_iter().map(|(table, key)| {
            let schema_version = self.table(table).map_or(0, |table| table.desc.version);
            let row = written.get_mut(&table).and_then(|rows| rows.remove(&key)).expect("written once here");
            RowState { table, schema_version, key, row }
        });
        Ok((rows, states.collect(), read.into_inner()))
    }
}

impl Rehearsal<'_> {
    fn report(&self, error: SqlError) {
        self.outside.borrow_mut().get_or_insert(error);
    }
    fn note(&self, id: TableId, range: KeyRange) {
        self.read.borrow_mut().push((id, range));
    }

    /// A row as it is for the transaction.
    fn get_seen(&self, table: TableId, key: &Key) -> Option<Row> {
        match self.written.get(&table).and_then(|rows| rows.get(key)) {
            Some(own) => own.clone(),
            None => self.store.get_at(table, key, self.cut).cloned(),
        }
    }
}

impl RowView for Rehearsal<'_> {
    fn get(&self, table: TableId, key: &Key) -> Option<Row> {
        if !self.declared.has_key(table, key, AccessMode::Read) {
            self.report(undeclared(self.store, table, key));
            return None;
        }
        self.note(table, KeyRange::point(key.clone()));
        self.get_seen(table, key)
    }

    fn scan(
        &self,
        id: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        self.note(id, range.clone());
        let outside = |error| self.report(error);
        let (store, declared, cut) = (self.store, &self.declared, Some(self.cut));
        let index = store.index(id);
        let own = self.written.get(&index.map_or(id, |(table, _)| table.desc.id));
        let note_row = |key: &Key| {
            // The entry alone does not say what is in the row's other columns.
            if let Some((table, _)) = index {
                self.note(table.desc.id, KeyRange::point(key.clone()));
            }
        };
        let Some(own) = own else {
            return store.scan_declared(declared, cut, id, range, descending, &outside, &mut |key, row| {
                note_row(key);
                visit(key, row)
            });
        };
        // In the order of keys, or of entries of the index.
        let position = |key: &Key, row: &Row| match index {
            Some((table, index)) => table.desc.index_entry_of_row(&index.desc, row, key),
            None => key.clone(),
        };
        let mut rows: BTreeMap<Key, (Key, Row)> = BTreeMap::new();
        store.scan_declared(declared, cut, id, range, false, &outside, &mut |key, row| {
            note_row(key);
            if !own.contains_key(key) {
                rows.insert(position(key, row), (key.clone(), row.clone()));
            }
            true
        });
        let own = own.iter().filter_map(|(key, row)| Some((key, row.as_ref()?)));
        let own = own.map(|(key, row)| (position(key, row), (key.clone(), row.clone())));
        rows.extend(own.filter(|(position, _)| range.contains(position)));
        let mut show = |(key, row): &(Key, Row)| visit(key, row);
        match descending {
            true => _ = rows.values().rev().all(&mut show),
            false => _ = rows.values().all(&mut show),
        }
    }
}

impl RowAccess for Rehearsal<'_> {
    fn write(&mut self, id: TableId, key: Key, row: Option<Row>) {
        if !self.declared.has_key(id, &key, AccessMode::Write) {
            return self.report(undeclared(self.store, id, &key));
        }
        let before = self.get_seen(id, &key);
        let Some(table) = self.store.table(id) else { return self.report(undeclared(self.store, id, &key)) };
        for index in &table.indexes {
            if !index.local {
                let name = &table.desc.name;
                return self.report(SqlError::internal(format!(
                    "a procedure cannot write {name}: unique elsewhere"
                )));
            }
            let entry = |row: &Row| table.desc.index_entry_of_row(&index.desc, row, &key);
            let (old, new) = (before.as_ref().map(entry), row.as_ref().map(entry));
            if let Some(new) = new.filter(|new| old.as_ref() != Some(new))
                && !self.declared.has_key(index.desc.id, &new, AccessMode::Write)
            {
                return self.report(undeclared(self.store, index.desc.id, &new));
            }
        }
        if self.written.entry(id).or_default().insert(key.clone(), row).is_none() {
            self.order.push((id, key));
        }
    }
}
