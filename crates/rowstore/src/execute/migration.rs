//! A change of the catalog together with rows.
//!
//! IN: rows as tables will describe them after the change. KEEPS: reads are validated against the tables as
//! they are; constraints hold for the final state, so a row that the transaction writes is checked as
//! written, and all others as they are.

use crate::store::Store;
use crate::table::TableStore;
use base::schema::{Catalog, Index, Table};
use base::txn::Validated;
use base::{Key, Place, Rank, Row, TableId, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows that a transaction writes.
#[derive(Default)]
pub(crate) struct Written<'a>(BTreeMap<TableId, BTreeMap<&'a Key, Option<&'a Row>>>);

impl<'a> Written<'a> {
    /// Those of tables that are there already: what becomes of all others does not depend on them.
    pub fn of(rows: &'a Validated, store: &Store) -> Written<'a> {
        let is_there = |id: &TableId| store.table(*id).is_some();
        let writes = rows.writes.iter().filter(|write| is_there(&write.table));
        Written::of_rows(writes.map(|write| (write.table, &write.key, write.row.as_ref())))
    }
    pub fn of_rows(rows: impl Iterator<Item = (TableId, &'a Key, Option<&'a Row>)>) -> Written<'a> {
        let mut written = Written::default();
        for (table, key, row) in rows {
            written.0.entry(table).or_default().insert(key, row);
        }
        written
    }

    /// Rows of a table that it leaves alone.
    pub fn untouched<'s>(&'s self, table: &'s TableStore) -> impl Iterator<Item = (Key, &'s Row)> + 's {
        let own = self.0.get(&table.desc.id);
        let rows = table.rows.iter().filter_map(|(key, slot)| Some((key, slot.latest()?)));
        rows.filter(move |(key, _)| own.is_none_or(|own| !own.contains_key(key)))
    }

    /// Rows that have the same entry in an index as before: those that are left alone, and those whose
    /// new state has it too. All others enter as they are written.
    pub fn keeping<'s>(
        &'s self,
        table: &'s TableStore,
        desc: &'s Table,
        index: &'s Index,
    ) -> impl Iterator<Item = (Key, &'s Row)> + 's {
        let own = self.0.get(&table.desc.id);
        let rows = table.rows.iter().filter_map(|(key, slot)| Some((key, slot.latest()?)));
        rows.filter(move |(key, row)| match own.and_then(|own| own.get(key)) {
            None => true,
            Some(None) => false,
            Some(Some(new)) => {
                desc.index_entry_of_row(index, new, key) == desc.index_entry_of_row(index, row, key)
            }
        })
    }

    /// Keys written in a table, with their new rows.
    fn in_table(&self, id: TableId) -> impl Iterator<Item = (&'a Key, Option<&'a Row>)> + '_ {
        self.0.get(&id).into_iter().flatten().map(|(key, row)| (*key, *row))
    }
}

impl Store {
    /// Tables that are written and not as they were, as far as whoever writes these rows will ask: the rows
    /// themselves, their index entries, and new indexes.
    pub(super) fn changed_tables(
        &self,
        next: &Catalog,
        rows: &Validated,
        written: &Written<'_>,
    ) -> BTreeMap<TableId, TableStore> {
        let ids: BTreeSet<TableId> = rows.writes.iter().map(|write| write.table).collect();
        let descs = ids.into_iter().filter_map(|id| next.table(id));
        let is_new = |desc: &&Arc<Table>| self.table(desc.id).is_none_or(|t| t.desc != **desc);
        descs.filter(is_new).map(|desc| (desc.id, self.changed_table(desc, written))).collect()
    }

    fn changed_table(&self, desc: &Arc<Table>, written: &Written<'_>) -> TableStore {
        // The place is irrelevant: the store is dropped once the rows are checked.
        let place = Place::new(Rank::ZERO, TxnId::MIN);
        let mut made = TableStore::new(desc.clone(), &self.topology, place);
        let Some(old) = self.table(desc.id) else { return made };
        for (key, _) in written.in_table(desc.id) {
            if let Some(row) = old.rows.latest(key) {
                made.rows.write(key, Some(row.clone()), place);
            }
        }
        for index in &mut made.indexes {
            let Some(known) = old.index(index.desc.id) else {
                let added = index.desc.clone();
                for (key, row) in written.keeping(old, desc, &added) {
                    index.follow(desc, &key, None, Some(row), place, &mut |_, _| ());
                }
                continue;
            };
            for (key, row) in written.in_table(desc.id) {
                for row in old.rows.latest(key).into_iter().chain(row) {
                    let entry = desc.index_entry_of_row(&index.desc, row, key);
                    if let Some(owner) = known.entries.latest(&entry) {
                        index.entries.write(&entry, Some(owner.clone()), place);
                    }
                    if let Some(owner) = known.homes.latest(&entry) {
                        index.homes.write(&entry, Some(owner.clone()), place);
                    }
                }
            }
        }
        made
    }
}
