//! Rows that were there before an index: while it is being built their entries come late.
//!
//! IN: ranges of keys, each entered by an ordered transaction; the change of the catalog by which the index is read. OUT:
//! entries. KEEPS: once queries read the index, every row has its entry. A store that only follows another store's log
//! executes no such transactions; it enters all missing rows when it applies that change of the catalog. An entry that is
//! there already, because its row was written meanwhile, stays as it is. Of two rows with one entry of a unique index the one that
//! comes to it later is refused, be it entered or written: every store that decides this executes the same transactions in the
//! same order, and copies take the entries with them.

use crate::store::Store;
use crate::table::TableStore;
use base::key::KeyRange;
use base::{Key, Place, TableId};

impl Store {
    /// Writes the entry of a row that came late, unless it is there.
    pub(crate) fn write_late(&mut self, index: TableId, entry: &Key, key: &Key, place: Place) {
        if let Some(store) = self.index_mut(index) {
            store.enter(entry, key, place);
        }
    }

    /// All rows of these ranges have their entries in an index now.
    pub(crate) fn note_entered(&mut self, index: TableId, ranges: &[KeyRange]) {
        let Some(store) = self.index_mut(index) else { return };
        for range in ranges {
            store.has_entered(range);
        }
    }

    /// Rows, at most, that an index still lacks.
    pub fn late_rows(&self, index: TableId) -> u64 {
        let Some((table, index)) = self.index(index) else { return 0 };
        let Some(low) = index.late_from.clone() else { return 0 };
        let mut rows = 0;
        table.rows.scan(&KeyRange { low, high: None }, false, |_, slot| {
            rows += u64::from(slot.latest().is_some());
            true
        });
        rows
    }
}

impl TableStore {
    /// Enters every row that an index which is read from now on still lacks.
    pub(crate) fn enter_rest(&mut self, index: TableId, place: Place) {
        let TableStore { desc, rows, indexes, .. } = self;
        let store = indexes.iter_mut().find(|store| store.desc.id == index).expect("it is of this table");
        let Some(low) = store.begin_reading(place) else { return };
        rows.scan(&KeyRange { low, high: None }, false, |key, slot| {
            if let Some(row) = slot.latest() {
                store.enter(&desc.index_entry_of_row(&store.desc, row, key), key, place);
            }
            true
        });
    }
}
