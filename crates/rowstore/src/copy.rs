//! A partition in blocks, for a copy that starts empty.
//!
//! IN: blocks of another copy of the same partition, in order ([`Store::restore`]). OUT: the blocks of this one, of bounded
//! size each, one at a time: versions that were written since the copy began are left out, so all blocks are of one moment.
//! KEEPS: a store that has taken all blocks of another answers every cut, every question for what has changed since
//! and every later transaction as that one does: versions travel with their places, deletions among them.

use crate::entries::{IndexStore, Owner};
use crate::garbage::{GarbageKind, Superseded};
use crate::store::Store;
use crate::table::TableStore;
use crate::tables::Tables;
use crate::versions::{Slot, VersionMap};
use base::codec;
use base::key::KeyRange;
use base::schema::{Catalog, Placement, Table};
use base::{Key, Place, Rank, Row, TableId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// A block is full once its keys and values are this long.
const BLOCK_BYTES: usize = 64 << 10;

/// Versions of some keys, oldest first.
pub(crate) type Chains<V> = Vec<(Key, Vec<(Place, Option<V>)>)>;

/// A part of a copy.
#[derive(Serialize, Deserialize)]
pub(crate) enum Block {
    Begins {
        collected_below: Rank,
        catalog: Arc<Catalog>,
        catalogs: Vec<(Place, Arc<Catalog>)>,
        tables: Vec<TableId>,
    },
    /// A table of the catalog (`dropped`: which is gone, since when); what follows is of it.
    Table {
        desc: Arc<Table>,
        dropped: Option<Place>,
        newest: Place,
        /// Of each index, since when there is it, and from which key on rows are still to be entered.
        indexes: Vec<(Place, Option<Key>)>,
    },
    Rows(Chains<Row>),
    /// Of the table's `nth` index.
    Entries {
        nth: usize,
        chains: Chains<Owner>,
    },
    Homes {
        nth: usize,
        chains: Chains<Owner>,
    },
    Ends,
}

/// A copy of a store as it was when the copy began, under way: blocks are made one at a time, while transactions go on.
#[derive(Debug)]
pub struct CopyPlan {
    catalog: Arc<Catalog>,
    sections: VecDeque<Section>,
    /// Where the first section goes on.
    from: Key,
}

/// The catalog has changed since the copy began: it cannot be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOutdated;

#[derive(Debug)]
enum Section {
    Block(Vec<u8>),
    Rows(Which),
    Entries(Which, usize),
    Homes(Which, usize),
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Live(TableId),
    Dropped(TableId, Place),
}

impl Store {
    /// Begins a copy of what is here now.
    pub fn begin_copy(&self) -> CopyPlan {
        let block = |block| Section::Block(codec::encode(&block));
        let mut sections = VecDeque::from([block(Block::Begins {
            collected_below: self.collected_below,
            catalog: self.catalog.clone(),
            catalogs: self.catalogs.iter().cloned().collect(),
            tables: self.tables.now.keys().copied().collect(),
        })]);
        let tables = self.tables.now.iter().map(|(id, table)| (None, Which::Live(*id), table));
        let dropped = self.tables.dropped.iter();
        let dropped =
            dropped.map(|(place, table)| (Some(*place), Which::Dropped(table.desc.id, *place), table));
        for (dropped, which, table) in tables.chain(dropped) {
            let indexes = table.indexes.iter();
            let indexes = indexes.map(|index| (index.created, index.late_from.clone())).collect();
            let (desc, newest) = (table.desc.clone(), table.newest);
            sections.push_back(block(Block::Table { desc, dropped, newest, indexes }));
            sections.push_back(Section::Rows(which));
            for nth in 0..table.indexes.len() {
                sections.extend([Section::Entries(which, nth), Section::Homes(which, nth)]);
            }
        }
        sections.push_back(block(Block::Ends));
        CopyPlan { catalog: self.catalog.clone(), sections, from: Key::new() }
    }

    /// The same without rows of tables that have a part in each partition: what another partition begins with.
    pub fn begin_copy_of_replicated(&self) -> CopyPlan {
        let mut plan = self.begin_copy();
        let is_replicated = |which: &Which| {
            self.copied(*which).is_some_and(|table| table.desc.placement == Placement::Replicated)
        };
        plan.sections.retain(|section| match section {
            Section::Block(_) => true,
            Section::Rows(which) | Section::Entries(which, _) | Section::Homes(which, _) => {
                is_replicated(which)
            }
        });
        plan
    }

    /// The next block of a copy; `None`: that was all. `is_newer` tells of places whether they were written after the
    /// copy began; nothing may have been collected since. Errors: see [`CopyOutdated`].
    pub fn copy_more(
        &self,
        plan: &mut CopyPlan,
        is_newer: &dyn Fn(&Place) -> bool,
    ) -> Result<Option<Vec<u8>>, CopyOutdated> {
        if !Arc::ptr_eq(&plan.catalog, &self.catalog) {
            return Err(CopyOutdated);
        }
        while let Some(section) = plan.sections.front_mut() {
            let length_of = |owner: &Owner| match owner {
                Owner::Tail => 0,
                Owner::Key(key) => key.len(),
            };
            let (block, next) = match section {
                Section::Block(bytes) => (Some(std::mem::take(bytes)), None),
                Section::Rows(which) => match self.copied(*which) {
                    Some(table) => {
                        let (chains, next) = block_of(&table.rows, &plan.from, Row::len, is_newer);
                        ((!chains.is_empty()).then(|| codec::encode(&Block::Rows(chains))), next)
                    }
                    None => (None, None),
                },
                Section::Entries(which, nth) | Section::Homes(which, nth)
                    if self.copied(*which).is_none() =>
                {
                    _ = nth;
                    (None, None)
                }
                Section::Entries(which, nth) => {
                    let index = &self.copied(*which).expect("just seen").indexes[*nth];
                    let (chains, next) = block_of(&index.entries, &plan.from, length_of, is_newer);
                    let block = Block::Entries { nth: *nth, chains };
                    (Some(codec::encode(&block)), next)
                }
                Section::Homes(which, nth) => {
                    let index = &self.copied(*which).expect("just seen").indexes[*nth];
                    let (chains, next) = block_of(&index.homes, &plan.from, length_of, is_newer);
                    let block = Block::Homes { nth: *nth, chains };
                    (Some(codec::encode(&block)), next)
                }
            };
            match next {
                Some(next) => plan.from = next,
                None => {
                    plan.from = Key::new();
                    plan.sections.pop_front();
                }
            }
            if block.is_some() {
                return Ok(block);
            }
        }
        Ok(None)
    }

    fn copied(&self, which: Which) -> Option<&TableStore> {
        match which {
            Which::Live(id) => self.tables.get(id),
            Which::Dropped(id, at) => {
                let mut dropped = self.tables.dropped.iter();
                dropped.find(|(place, table)| *place == at && table.desc.id == id).map(|(_, table)| table)
            }
        }
    }
}

impl Tables {
    /// The table whose blocks arrive.
    fn restored(&mut self) -> Option<&mut TableStore> {
        match self.restoring {
            Some(id) => self.now.get_mut(&id),
            None => self.dropped.last_mut().map(|(_, table)| table),
        }
    }

    /// Takes a table without rows; what follows is of it. `dropped`: since when it is gone.
    pub(crate) fn restore_table(&mut self, table: TableStore, dropped: Option<Place>) {
        self.restoring = dropped.is_none().then_some(table.desc.id);
        match dropped {
            Some(place) => self.dropped.push((place, table)),
            None => drop(self.now.insert(table.desc.id, table)),
        }
    }

    /// Takes rows of the table whose blocks arrive.
    pub(crate) fn restore_rows(&mut self, chains: Chains<Row>) {
        let is_dropped = self.restoring.is_none();
        let (mut garbage, mut counters) = (Vec::new(), self.counters);
        let Some(table) = self.restored() else { return };
        let id = table.desc.id;
        for (key, versions) in chains {
            for (_, row) in &versions {
                counters.versions += 1;
                counters.bytes += (key.len() + row.as_ref().map_or(0, Row::len)) as u64;
            }
            let live = versions.last().and_then(|(_, row)| row.as_ref());
            table.live += u64::from(live.is_some());
            let live_bytes = live.map_or(0, |row| (key.len() + row.len()) as u64);
            table.live_bytes += live_bytes;
            if !is_dropped {
                counters.rows += u64::from(live.is_some());
                counters.live_bytes += live_bytes;
            }
            restore_chain(&mut table.rows, &key, versions, |place| {
                garbage.push(Superseded { place, table: id, kind: GarbageKind::Row, key: key.clone() });
            });
        }
        self.counters = counters;
        garbage.into_iter().filter(|_| !is_dropped).for_each(|superseded| self.garbage.push(superseded));
    }

    /// The same of entries of its `nth` index.
    pub(crate) fn restore_entries(
        &mut self,
        nth: usize,
        chains: Chains<Owner>,
        kind: fn(TableId) -> GarbageKind,
        map: fn(&mut IndexStore) -> &mut VersionMap<Owner>,
    ) {
        let is_dropped = self.restoring.is_none();
        let mut garbage = Vec::new();
        let Some(table) = self.restored() else { return };
        let id = table.desc.id;
        let Some(index) = table.indexes.get_mut(nth) else { return };
        let kind = kind(index.desc.id);
        for (key, versions) in chains {
            restore_chain(map(index), &key, versions, |place| {
                garbage.push(Superseded { place, table: id, kind, key: key.clone() });
            });
        }
        garbage.into_iter().filter(|_| !is_dropped).for_each(|superseded| self.garbage.push(superseded));
    }

    /// That was all.
    pub(crate) fn end_restoring(&mut self) {
        self.garbage.sort();
        self.restoring = None;
    }
}

/// The versions of a map's keys from one on that were written before a copy began, so many keys that a block is full,
/// and the key to go on with.
fn block_of<V: Clone>(
    map: &VersionMap<V>,
    from: &Key,
    length: impl Fn(&V) -> usize,
    is_newer: &dyn Fn(&Place) -> bool,
) -> (Chains<V>, Option<Key>) {
    let (mut chains, mut bytes, mut next): (Chains<V>, usize, Option<Key>) = (Vec::new(), 0, None);
    let range = KeyRange { low: from.clone(), high: None };
    map.scan(&range, false, |key, slot| {
        let versions = Slot::versions(slot).filter(|(place, _)| !is_newer(place));
        let versions: Vec<(Place, Option<V>)> =
            versions.map(|(place, value)| (place, value.cloned())).collect();
        let values: usize =
            versions.iter().map(|(_, value)| value.as_ref().map_or(0, &length) + size_of::<Place>()).sum();
        // What is not copied costs a look.
        bytes += key.len() + values.max(size_of::<Place>());
        if !versions.is_empty() {
            chains.push((key.clone(), versions));
        }
        if bytes >= BLOCK_BYTES {
            next = Some(key.successor());
        }
        next.is_none()
    });
    (chains, next)
}

/// Writes a key's versions one after the other, as they were written there.
fn restore_chain<V: Clone>(
    map: &mut VersionMap<V>,
    key: &Key,
    versions: Vec<(Place, Option<V>)>,
    mut garbage: impl FnMut(Place),
) {
    for (place, value) in versions {
        if map.write(key, value, place).leaves_garbage {
            garbage(place);
        }
    }
}
