//! What must hold of a store, as asserts. O(all versions): for tests and simulation.

use crate::entries::{IndexStore, Owner};
use crate::store::Store;
use crate::table::TableStore;
use crate::versions::Slot;
use base::{Key, Place, Row};
use std::collections::BTreeSet;

impl Store {
    /// Panics unless indexes agree with rows at every cut that can be read, places grow along every
    /// chain, and the counters count what is there.
    pub fn check_invariants(&self) {
        let (mut rows, mut versions, mut bytes, mut all_live_bytes) = (0, 0, 0, 0);
        let dropped = self.tables.dropped.iter().map(|(_, table)| table);
        for (table, is_dropped) in
            self.tables.now.values().map(|t| (t, false)).chain(dropped.map(|table| (table, true)))
        {
            let (mut live, mut live_bytes) = (0, 0);
            for (key, slot) in table.rows.iter() {
                check_chain(slot);
                live += u64::from(slot.latest().is_some());
                live_bytes += slot.latest().map_or(0, |row| (key.len() + row.len()) as u64);
                versions += slot.versions().count() as u64;
                bytes +=
                    slot.versions().map(|(_, r)| (key.len() + r.map_or(0, Row::len)) as u64).sum::<u64>();
                assert!(slot.place() <= table.newest, "{} changed after its newest place", table.desc.name);
            }
            let counted = (table.live, table.live_bytes);
            assert_eq!((live, live_bytes), counted, "live rows of {}", table.desc.name);
            rows += if is_dropped { 0 } else { live };
            all_live_bytes += if is_dropped { 0 } else { live_bytes };
            table.indexes.iter().for_each(|index| self.check_index(table, index));
        }
        let counted = self.counters();
        assert_eq!((rows, versions, bytes), (counted.rows, counted.versions, counted.bytes));
        assert_eq!(all_live_bytes, counted.live_bytes);
    }

    fn check_index(&self, table: &TableStore, index: &IndexStore) {
        index.entries.iter().for_each(|(_, slot)| check_chain(slot));
        index.homes.iter().for_each(|(_, slot)| check_chain(slot));
        let mut cuts: BTreeSet<Place> =
            table.rows.iter().flat_map(|(_, s)| s.versions().map(|v| v.0)).collect();
        cuts.insert(index.created);
        let first = index.created.max(Place::end_of(self.collected_below));
        cuts.insert(first);
        for cut in cuts.into_iter().filter(|cut| *cut >= first) {
            let expected: BTreeSet<(Key, Key)> = table
                .rows
                .iter()
                .filter_map(|(key, slot)| Some((key, slot.at(cut)?)))
                .map(|(key, row)| (table.desc.index_entry_of_row(&index.desc, row, &key), key))
                .collect();
            let found: BTreeSet<(Key, Key)> = index
                .entries
                .iter()
                .filter_map(|(entry, slot)| {
                    let owner = index.owner_key(&entry, slot.at(cut)?);
                    Some((entry, owner))
                })
                .collect();
            match index.desc.form.is_building {
                false => assert_eq!(found, expected, "index {} at {cut:?}", index.desc.name),
                true => assert!(found.is_subset(&expected), "index {} at {cut:?}", index.desc.name),
            }
        }
    }
}

fn check_chain<V>(slot: &Slot<V>) {
    let places: Vec<Place> = slot.versions().map(|(place, _)| place).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "places grow along a chain: {places:?}");
}

// An owner that is the entry's tail costs nothing beside the entry.
const _: () = assert!(size_of::<Option<Owner>>() <= 16);
