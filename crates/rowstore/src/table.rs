//! One table's rows and index entries, with every version that a reader may still ask for.
//!
//! IN: a description of the table, rows and entries at their places. OUT: rows as they are now, or as they were at a cut.
//! KEEPS: secondary indexes agree with rows at every cut.

use crate::entries::{IndexStore, Owner};
use crate::versions::{Slot, VersionMap};
use base::key::KeyRange;
use base::schema::Table;
use base::topology::Topology;
use base::{Key, Place, Row, TableId};
use std::sync::Arc;

/// A table's rows here.
pub(crate) struct TableStore {
    pub desc: Arc<Table>,
    pub rows: VersionMap<Row>,
    pub indexes: Vec<IndexStore>,
    /// Latest place at which anything here changed.
    pub newest: Place,
    /// Rows now (not deleted), and their bytes with their keys.
    pub live: u64,
    pub live_bytes: u64,
}

impl TableStore {
    pub(crate) fn new(desc: Arc<Table>, topology: &Topology, created: Place) -> TableStore {
        let indexes = desc.indexes.iter().map(|i| IndexStore::new(&desc, i, topology, created)).collect();
        TableStore { desc, rows: VersionMap::default(), indexes, newest: created, live: 0, live_bytes: 0 }
    }
    /// The first row in a range that is not now as it was at `cut` in these columns, and where it changed
    /// last.
    pub(crate) fn differs_since(
        &self,
        range: &KeyRange,
        columns: &[u16],
        cut: Place,
    ) -> Option<(Key, Place)> {
        if self.newest <= cut {
            return None;
        }
        let is_same = |slot: &Slot<Row>| {
            let shown = |row: &Row| {
                let values = self.desc.complete(row);
                columns.iter().map(|c| values.get(usize::from(*c)).cloned()).collect::<Vec<_>>()
            };
            slot.place() <= cut || slot.at(cut).map(shown) == slot.latest().map(shown)
        };
        if let Some(key) = range.as_point() {
            let slot = self.rows.slot(key).filter(|slot| !is_same(slot))?;
            return Some((key.clone(), slot.place()));
        }
        let mut found = None;
        self.rows.scan(range, false, |key, slot| {
            if !is_same(slot) {
                found = Some((key.clone(), slot.place()));
            }
            found.is_none()
        });
        found
    }
    pub(crate) fn index(&self, id: TableId) -> Option<&IndexStore> {
        self.indexes.iter().find(|i| i.desc.id == id)
    }
    /// Visits rows of a range of entries in their order, or its reverse. `looks` is told each entry first, and answers
    /// whether to go on.
    pub(crate) fn scan_index(
        &self,
        index: TableId,
        (range, descending): (&KeyRange, bool),
        looks: &mut dyn FnMut(&Key) -> bool,
        owner_of: &dyn Fn(&Slot<Owner>) -> Option<&Owner>,
        row_of: &dyn Fn(&Slot<Row>) -> Option<&Row>,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let Some(index) = self.index(index) else { return };
        index.entries.scan(range, descending, |entry, slot| {
            if !looks(entry) {
                return false;
            }
            let Some(owner) = owner_of(slot) else { return true };
            let key = index.owner_key(entry, owner);
            let row = self.rows.slot(&key).and_then(row_of).expect("an entry leads to a row at every cut");
            visit(&key, row)
        });
    }
}
