//! Rows that follow another store's log: a read-only replica of a partition.
//!
//! IN: the partition's commit records in the order of its log, from its beginning or from a copy of its rows. OUT: the
//! same answers at every cut that the replica has all records of; which entries of indexes a record concerns. KEEPS: rows
//! of a copy stand at the beginning of time, and cuts before the copy was taken are refused.

use crate::execute::migration::Written;
use crate::store::Store;
use crate::table::TableStore;
use base::commit::{Change, CommitRecord};
use base::schema::Catalog;
use base::{Key, Place, Rank, Row, TableId};
use std::sync::Arc;

impl Store {
    /// An empty replica, for a copy whose cuts begin at `rank`; what was here before is void.
    pub fn begin_following(&mut self, catalog: &Arc<Catalog>, rank: Rank) {
        let mut store = self.emptied();
        store.collected_below = rank;
        store.catalog = catalog.clone();
        for desc in catalog.tables.values() {
            store.tables.insert(TableStore::new(desc.clone(), &store.topology, Place::default()));
        }
        *self = store;
    }

    /// Rows of the copy.
    pub fn follow_rows(&mut self, table: TableId, rows: &[(Key, Row)]) {
        for (key, row) in rows {
            self.write_row(table, key, Some(row.clone()), Place::default());
        }
    }

    /// Applies the next record of the log.
    pub fn follow(&mut self, record: &CommitRecord) {
        let place = record.place();
        let rows: Vec<(TableId, &Key, Option<Row>)> = record
            .writes
            .iter()
            .map(|w| (w.table, &w.key, self.becomes(w.table, &w.key, &w.change)))
            .collect();
        if let Some(change) = &record.schema {
            let written = rows.iter().map(|(table, key, row)| (*table, *key, row.as_ref()));
            self.apply_schema(change, &Written::of_rows(written), place);
        }
        for (table, key, row) in rows {
            self.write_row(table, key, row, place);
        }
    }

    /// A row after a change.
    fn becomes(&self, table: TableId, key: &Key, change: &Change) -> Option<Row> {
        match change {
            Change::Delete => None,
            Change::Put(row) | Change::Update { row, .. } => Some(row.clone()),
            Change::Patch(patch) => {
                let before = self.get(table, key);
                let after = before.and_then(|before| before.patched(patch));
                Some(after.unwrap_or_else(|| panic!("{key:?} of {table} is patched and was not there")))
            }
        }
    }

    /// The entries of indexes that lead to rows which a record writes, before it and after it. The record has been
    /// applied here.
    pub fn entries_of(&self, record: &CommitRecord, visit: &mut dyn FnMut(TableId, &Key)) {
        for write in &record.writes {
            let Some(table) = self.tables.get(write.table).filter(|table| !table.indexes.is_empty()) else {
                continue;
            };
            let Some(slot) = table.rows.slot(&write.key) else { continue };
            let is_before = |place: Place| place < record.place();
            let before =
                slot.versions().filter(|(place, _)| is_before(*place)).max_by_key(|(place, _)| *place);
            let before = before.and_then(|(_, row)| row);
            for row in before.into_iter().chain(slot.at(record.place())) {
                for index in &table.indexes {
                    let entry = table.desc.index_entry_of_row(&index.desc, row, &write.key);
                    visit(index.desc.id, &entry);
                }
            }
        }
    }
}
