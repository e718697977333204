//! The tables of a partition as they are now, and those that were dropped; what of them waits to be collected.
//!
//! IN: tables as the catalog describes them, rows and entries at their places, a watermark. OUT: tables; old versions that
//! go. KEEPS: counters count what is there; collection visits each superseded or deleted version once, when no reader
//! can ask for it any more; no answer at a cut at or above the watermark changes.

use crate::entries::{IndexStore, Owner};
use crate::garbage::{Garbage, GarbageKind, Superseded};
use crate::table::TableStore;
use base::schema::Table;
use base::{Key, Place, Row, TableId};
use std::collections::BTreeMap;

/// What a write of a row did.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// A row that does not exist was deleted.
    Nothing,
    /// There is a new version; what the row was before.
    Version(Option<Row>),
    /// The transaction had written the row before.
    OwnAgain,
}

/// Gauges of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Rows as of now.
    pub rows: u64,
    /// Versions of rows kept, deletions included.
    pub versions: u64,
    /// Encoded bytes of those versions with their keys, without the maps that hold them.
    pub bytes: u64,
    /// The part of `bytes` that is of rows as of now.
    pub live_bytes: u64,
    /// Superseded versions and deletions that wait to be collected.
    pub garbage: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.rows += other.rows;
        self.versions += other.versions;
        self.bytes += other.bytes;
        self.live_bytes += other.live_bytes;
        self.garbage += other.garbage;
    }
}

/// The tables of one partition.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) now: BTreeMap<TableId, TableStore>,
    /// Dropped tables that older cuts may still read, with the place of the drop.
    pub(crate) dropped: Vec<(Place, TableStore)>,
    /// Which table an index belongs to.
    index_owner: BTreeMap<TableId, TableId>,
    pub(crate) garbage: Garbage,
    pub(crate) counters: Counters,
    /// The table whose blocks arrive, while another store's copy does; `None`: the last that was dropped.
    pub(crate) restoring: Option<TableId>,
}

impl Tables {
    pub fn counters(&self) -> Counters {
        Counters { garbage: self.garbage.len() as u64, ..self.counters }
    }
    /// The table with this id, as of now.
    pub fn get(&self, id: TableId) -> Option<&TableStore> {
        self.now.get(&id)
    }
    /// The table and index with this index id, as of now.
    pub fn index(&self, id: TableId) -> Option<(&TableStore, &IndexStore)> {
        let table = self.now.get(self.index_owner.get(&id)?)?;
        Some((table, table.index(id)?))
    }
    /// The table with this id as a cut sees it: it may have been dropped since.
    pub fn get_at(&self, id: TableId, cut: Place) -> Option<&TableStore> {
        let dropped = self.dropped.iter().find(|(place, table)| table.desc.id == id && cut < *place);
        dropped.map(|(_, table)| table).or_else(|| self.now.get(&id))
    }
    /// The table that an index belongs to as a cut sees it.
    pub fn with_index_at(&self, index: TableId, cut: Place) -> Option<&TableStore> {
        let mut dropped = self.dropped.iter().filter(|(place, _)| cut < *place).map(|(_, table)| table);
        dropped
            .find(|table| table.index(index).is_some())
            .or_else(|| self.now.get(self.index_owner.get(&index)?))
    }

    // ---- what the catalog says --------------------------------------------------------------------

    /// These indexes belong to this table, which is there or is about to come.
    pub fn own_indexes(&mut self, desc: &Table) {
        self.index_owner.extend(desc.indexes.iter().map(|index| (index.id, desc.id)));
    }
    /// There is another table.
    pub fn insert(&mut self, table: TableStore) {
        self.own_indexes(&table.desc);
        self.now.insert(table.desc.id, table);
    }
    /// A table is no longer there for cuts from a place on.
    pub fn drop_table(&mut self, id: TableId, place: Place) {
        let table = self.now.remove(&id).expect("a table is dropped where it is");
        self.index_owner.retain(|_, owner| *owner != id);
        self.counters.rows -= table.live;
        self.counters.live_bytes -= table.live_bytes;
        self.dropped.push((place, table));
    }
    /// A table becomes as this describes it.
    pub fn alter(&mut self, desc: &Table, alter: impl FnOnce(&mut TableStore)) {
        alter(self.now.get_mut(&desc.id).expect("a table is altered where it is"));
        let is_left = |index: &TableId| desc.indexes.iter().any(|known| known.id == *index);
        self.index_owner.retain(|index, owner| *owner != desc.id || is_left(index));
        self.own_indexes(desc);
    }
    /// Tables that were made with their rows come in the place of empty ones.
    pub fn adopt(&mut self, made: Tables) {
        for (id, made) in made.now {
            let known = self.now.get_mut(&id).expect("the change makes it");
            *known = TableStore { desc: known.desc.clone(), ..made };
        }
        self.garbage.append(made.garbage);
        self.counters += made.counters;
    }

    // ---- rows and entries -------------------------------------------------------------------------

    /// Writes one row at a place, its index entries with it. `passes_by`: but for indexes that are being built, which is a
    /// planted fault.
    pub fn write_row(
        &mut self,
        (id, key): (TableId, &Key),
        row: Option<Row>,
        place: Place,
        passes_by: bool,
    ) -> Wrote {
        let Tables { now, garbage, counters, .. } = self;
        let table = now.get_mut(&id).unwrap_or_else(|| panic!("{id} is written after it was dropped"));
        let size = row.as_ref().map_or(0, Row::len);
        let is_live = row.is_some();
        let replaced = match table.indexes.is_empty() {
            true => table.rows.write(key, row, place),
            false => {
                let replaced = table.rows.write(key, row.clone(), place);
                let mut dead = |kind, key: &Key| {
                    garbage.push(Superseded { place, table: id, kind, key: key.clone() });
                };
                let before = replaced.before.as_ref();
                for index in table.indexes.iter_mut().filter(|i| !(passes_by && i.desc.form.is_building)) {
                    index.follow(&table.desc, key, before, row.as_ref(), place, &mut dead);
                }
                replaced
            }
        };
        if !replaced.added_version && replaced.before.is_none() && !is_live {
            return Wrote::Nothing;
        }
        table.newest = table.newest.max(place);
        let was_live = replaced.before.is_some();
        table.live = table.live + u64::from(is_live) - u64::from(was_live);
        counters.rows = counters.rows + u64::from(is_live) - u64::from(was_live);
        let bytes_of = |is_there: bool, size: usize| if is_there { (key.len() + size) as u64 } else { 0 };
        let before = bytes_of(was_live, replaced.before.as_ref().map_or(0, Row::len));
        let after = bytes_of(is_live, size);
        table.live_bytes = table.live_bytes + after - before;
        counters.live_bytes = counters.live_bytes + after - before;
        counters.bytes += size as u64;
        if replaced.added_version {
            counters.versions += 1;
            counters.bytes += key.len() as u64;
        } else {
            counters.bytes -= replaced.before.as_ref().map_or(0, Row::len) as u64;
        }
        if replaced.leaves_garbage {
            garbage.push(Superseded { place, table: id, kind: GarbageKind::Row, key: key.clone() });
        }
        if replaced.added_version { Wrote::Version(replaced.before) } else { Wrote::OwnAgain }
    }

    /// The store of an index.
    pub fn index_mut(&mut self, id: TableId) -> Option<&mut IndexStore> {
        let table = self.now.get_mut(self.index_owner.get(&id)?)?;
        table.indexes.iter_mut().find(|index| index.desc.id == id)
    }

    /// Sets or removes an entry of a unique index whose home is here.
    pub fn write_home(&mut self, index: TableId, entry: &Key, owner: Option<&Key>, place: Place) {
        let Some(id) = self.index_owner.get(&index) else { return };
        let table = self.now.get_mut(id).expect("an index has a table");
        table.newest = table.newest.max(place);
        let store = table.indexes.iter_mut().find(|i| i.desc.id == index).expect("owned by this table");
        let owner = owner.map(|key| Owner::Key(Box::new(key.clone())));
        if store.homes.write(entry, owner, place).leaves_garbage {
            let kind = GarbageKind::Home(index);
            self.garbage.push(Superseded { place, table: *id, kind, key: entry.clone() });
        }
    }

    // ---- collection -------------------------------------------------------------------------------

    /// Drops what no cut above the watermark can read, and visits up to `budget` superseded keys. Answers whether there is
    /// more to do.
    ///
    /// Versions are visited in the order in which they were superseded, which is nearly the order of their ranks: one that
    /// lies later than the watermark holds the ones behind it back until the watermark has passed it.
    pub fn collect(&mut self, watermark: Place, budget: usize) -> bool {
        for (_, table) in self.dropped.extract_if(.., |(place, _)| *place <= watermark) {
            for (key, slot) in table.rows.iter() {
                for (_, row) in slot.versions() {
                    self.counters.versions -= 1;
                    self.counters.bytes -= (key.len() + row.map_or(0, Row::len)) as u64;
                }
            }
        }
        for _ in 0..budget {
            let Some(superseded) = self.garbage.next_due(watermark) else { return false };
            self.visit(superseded, watermark);
        }
        self.is_collecting(watermark)
    }
    /// Whether something can be collected that was not yet.
    pub fn is_collecting(&self, watermark: Place) -> bool {
        self.garbage.is_due(watermark)
    }

    fn visit(&mut self, superseded: Superseded, watermark: Place) {
        // A dropped table takes its garbage along.
        let Some(table) = self.now.get_mut(&superseded.table) else { return };
        let counters = &mut self.counters;
        match superseded.kind {
            GarbageKind::Row => table.rows.trim(&superseded.key, watermark, |row| {
                counters.versions -= 1;
                counters.bytes -= (superseded.key.len() + row.as_ref().map_or(0, Row::len)) as u64;
            }),
            GarbageKind::Entry(id) => {
                let index = table.indexes.iter_mut().find(|i| i.desc.id == id);
                index.into_iter().for_each(|i| i.entries.trim(&superseded.key, watermark, |_| ()));
            }
            GarbageKind::Home(id) => {
                let index = table.indexes.iter_mut().find(|i| i.desc.id == id);
                index.into_iter().for_each(|i| i.homes.trim(&superseded.key, watermark, |_| ()));
            }
        }
    }
}
