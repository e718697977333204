//! A whole partition in blocks, for a copy that begins with nothing.
//!
//! IN: blocks of another copy of the same partition, in order. OUT: the blocks of this one, of bounded size each.
//! KEEPS: a store that has taken all blocks of another answers every cut, every question for what has changed since
//! and every later transaction as that one does: versions travel with their places, deletions among them.

use crate::store::{Garbage, GarbageKind, IndexStore, Owner, Store, TableStore};
use crate::versions::{Slot, VersionMap};
use base::codec::{self, DecodeError};
use base::schema::{Catalog, Table};
use base::{Key, Place, Rank, Row, TableId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A block is full once its keys and values are this long.
const BLOCK_BYTES: usize = 64 << 10;

/// Versions of some keys, oldest first.
type Chains<V> = Vec<(Key, Vec<(Place, Option<V>)>)>;

#[derive(Serialize, Deserialize)]
enum Block {
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
        created: Vec<Place>,
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

impl Store {
    /// Everything that is here.
    pub fn copy(&self) -> Vec<Vec<u8>> {
        let mut blocks = vec![codec::encode(&Block::Begins {
            collected_below: self.collected_below,
            catalog: self.catalog.clone(),
            catalogs: self.catalogs.iter().cloned().collect(),
            tables: self.tables.keys().copied().collect(),
        })];
        let tables = self.tables.values().map(|table| (None, table));
        let dropped = self.dropped.iter().map(|(place, table)| (Some(*place), table));
        for (dropped, table) in tables.chain(dropped) {
            let created = table.indexes.iter().map(|index| index.created).collect();
            let (desc, newest) = (table.desc.clone(), table.newest);
            blocks.push(codec::encode(&Block::Table { desc, dropped, newest, created }));
            in_blocks(&table.rows, Row::len, |chains| blocks.push(codec::encode(&Block::Rows(chains))));
            for (nth, index) in table.indexes.iter().enumerate() {
                let length = |owner: &Owner| match owner {
                    Owner::Tail => 0,
                    Owner::Key(key) => key.len(),
                };
                in_blocks(&index.entries, length, |chains| {
                    blocks.push(codec::encode(&Block::Entries { nth, chains }));
                });
                in_blocks(&index.homes, length, |chains| {
                    blocks.push(codec::encode(&Block::Homes { nth, chains }));
                });
            }
        }
        blocks.push(codec::encode(&Block::Ends));
        blocks
    }

    /// Takes the next block of another store's copy; with the first, whatever is here is forgotten. Errors: it is
    /// no such block.
    pub fn restore(&mut self, block: &[u8]) -> Result<(), DecodeError> {
        match codec::decode(block)? {
            Block::Begins { collected_below, catalog, catalogs, tables } => {
                *self = Store::new(self.partition, self.topology.clone(), self.procedures.clone());
                self.collected_below = collected_below;
                self.catalogs = catalogs.into_iter().collect();
                for id in tables {
                    let Some(desc) = catalog.table(id) else { continue };
                    self.index_owner.extend(desc.indexes.iter().map(|index| (index.id, id)));
                }
                self.catalog = catalog;
            }
            Block::Table { desc, dropped, newest, created } => {
                // The catalog's own description where it has one: changes look for it by address.
                let known = self.catalog.tables.get(&desc.id).filter(|_| dropped.is_none()).cloned();
                self.restoring = known.as_ref().map(|desc| desc.id);
                let mut table = TableStore::new(known.unwrap_or(desc), &self.topology, Place::default());
                table.newest = newest;
                table.indexes.iter_mut().zip(created).for_each(|(index, created)| index.created = created);
                match dropped {
                    Some(place) => self.dropped.push((place, table)),
                    None => drop(self.tables.insert(table.desc.id, table)),
                }
            }
            Block::Rows(chains) => self.restore_rows(chains),
            Block::Entries { nth, chains } => {
                self.restore_entries(nth, chains, GarbageKind::Entry, |index| &mut index.entries);
            }
            Block::Homes { nth, chains } => {
                self.restore_entries(nth, chains, GarbageKind::Home, |index| &mut index.homes);
            }
            Block::Ends => {
                // Visited in the order in which it became garbage.
                self.garbage.make_contiguous().sort_by_key(|garbage| garbage.place);
                self.restoring = None;
            }
        }
        Ok(())
    }

    /// The table whose blocks arrive.
    fn restored(&mut self) -> Option<&mut TableStore> {
        match self.restoring {
            Some(id) => self.tables.get_mut(&id),
            None => self.dropped.last_mut().map(|(_, table)| table),
        }
    }

    fn restore_rows(&mut self, chains: Chains<Row>) {
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
                garbage.push(Garbage { place, table: id, kind: GarbageKind::Row, key: key.clone() });
            });
        }
        self.counters = counters;
        self.garbage.extend(garbage.into_iter().filter(|_| !is_dropped));
    }

    fn restore_entries(
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
                garbage.push(Garbage { place, table: id, kind, key: key.clone() });
            });
        }
        self.garbage.extend(garbage.into_iter().filter(|_| !is_dropped));
    }
}

/// Hands out the versions of a map, so many keys at a time that a block is full.
fn in_blocks<V: Clone>(map: &VersionMap<V>, length: impl Fn(&V) -> usize, mut full: impl FnMut(Chains<V>)) {
    let (mut chains, mut bytes): (Chains<V>, usize) = (Vec::new(), 0);
    for (key, slot) in map.iter() {
        let versions: Vec<(Place, Option<V>)> =
            Slot::versions(slot).map(|(place, value)| (place, value.cloned())).collect();
        let values: usize =
            versions.iter().map(|(_, value)| value.as_ref().map_or(0, &length) + size_of::<Place>()).sum();
        bytes += key.len() + values;
        chains.push((key, versions));
        if bytes >= BLOCK_BYTES {
            bytes = 0;
            full(std::mem::take(&mut chains));
        }
    }
    if !chains.is_empty() {
        full(chains);
    }
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
