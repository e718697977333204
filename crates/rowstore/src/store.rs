//! One partition's rows, with every version that a reader may still ask for.
//!
//! IN: rows written at a place. OUT: rows as they are now (for execution), or as they were at a cut (for
//! readers). KEEPS: secondary indexes agree with rows at every cut; a read at a rank includes every tie;
//! a cut below [`Store::collected_below`] is refused, never answered from what is left.

use crate::entries::{IndexStore, Owner};
use crate::planted::Mutant;
use crate::versions::{Slot, VersionMap};
use base::commit::{Change, RowWrite};
use base::error::{SqlError, SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::{Catalog, Table};
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::{Key, PartitionId, Place, Rank, Row, TableId};
use std::collections::{BTreeMap, VecDeque};
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

/// Something superseded or deleted: its key is visited once `place` is behind every reader.
pub(crate) struct Garbage {
    pub place: Place,
    pub table: TableId,
    pub kind: GarbageKind,
    pub key: Key,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GarbageKind {
    Row,
    /// Index entries, by index number in the table's list of stores.
    Entry(TableId),
    Home(TableId),
}

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

/// The rows of one partition.
pub struct Store {
    pub(crate) partition: PartitionId,
    pub(crate) topology: Arc<Topology>,
    pub(crate) procedures: Arc<Procedures>,
    pub(crate) catalog: Arc<Catalog>,
    /// Earlier catalogs, each with the place up to which it was valid (excluded).
    pub(crate) catalogs: VecDeque<(Place, Arc<Catalog>)>,
    pub(crate) tables: BTreeMap<TableId, TableStore>,
    /// Dropped tables that older cuts may still read, with the place of the drop.
    pub(crate) dropped: Vec<(Place, TableStore)>,
    /// Which table an index belongs to.
    pub(crate) index_owner: BTreeMap<TableId, TableId>,
    pub(crate) garbage: VecDeque<Garbage>,
    pub(crate) collected_below: Rank,
    pub(crate) counters: Counters,
    pub(crate) prepared: crate::execute::PreparedSet,
    /// The table whose blocks arrive, while another store's copy does; `None`: the last that was dropped.
    pub(crate) restoring: Option<TableId>,
    /// A planted fault; never in production.
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<Mutant>,
}

impl Store {
    /// An empty partition with an empty catalog.
    pub fn new(partition: PartitionId, topology: Arc<Topology>, procedures: Arc<Procedures>) -> Store {
        Store {
            partition,
            topology,
            procedures,
            catalog: Arc::default(),
            catalogs: VecDeque::new(),
            tables: BTreeMap::new(),
            dropped: Vec::new(),
            index_owner: BTreeMap::new(),
            garbage: VecDeque::new(),
            collected_below: Rank::ZERO,
            counters: Counters::default(),
            prepared: Default::default(),
            restoring: None,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
    /// The same partition as it was before its first transaction.
    pub(crate) fn emptied(&self) -> Store {
        let store = Store::new(self.partition, self.topology.clone(), self.procedures.clone());
        #[cfg(feature = "mutants")]
        let store = store.with_mutant(self.mutant);
        store
    }
    /// The same with a planted fault.
    #[cfg(feature = "mutants")]
    pub fn with_mutant(self, mutant: Option<Mutant>) -> Store {
        Store { mutant, ..self }
    }
    #[cfg(feature = "mutants")]
    pub(crate) fn planted(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
    #[cfg(not(feature = "mutants"))]
    pub(crate) fn planted(&self, _: Mutant) -> bool {
        false
    }
    pub fn partition(&self) -> PartitionId {
        self.partition
    }
    /// The catalog as of the last change executed here.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
    /// The rank of the last change of any of these tables, if it is above this one: a plan that was made with
    /// [`Store::catalog`] does not fit the rows at cuts below it.
    pub fn changed_above(&self, rank: Rank, is_wanted: impl Fn(TableId) -> bool) -> Option<Rank> {
        let later = self.catalogs.iter().rev().take_while(|(until, _)| until.rank > rank);
        let last = { later }.find(|(_, before)| self.catalog.has_changed_since(before, &is_wanted));
        last.map(|(until, _)| until.rank)
    }
    /// The catalog at a cut.
    pub fn catalog_at(&self, cut: Rank) -> SqlResult<&Arc<Catalog>> {
        self.check_cut(cut)?;
        let cut = Place::end_of(cut);
        let earlier = self.catalogs.iter().find(|(until, _)| cut < *until);
        Ok(earlier.map_or(&self.catalog, |(_, catalog)| catalog))
    }
    /// Cuts below this rank can no longer be read.
    pub fn collected_below(&self) -> Rank {
        self.collected_below
    }
    pub fn counters(&self) -> Counters {
        Counters { garbage: self.garbage.len() as u64, ..self.counters }
    }

    /// Rows of a table, as of now.
    pub fn row_count(&self, table: TableId) -> u64 {
        self.tables.get(&table).map_or(0, |table| table.live)
    }

    /// Whether a table has such a row, as of now.
    pub fn has_row(&self, table: TableId, key: &Key) -> bool {
        self.tables.get(&table).is_some_and(|table| table.rows.latest(key).is_some())
    }

    /// Refuses a cut whose versions may be gone.
    pub(crate) fn check_cut(&self, cut: Rank) -> SqlResult<()> {
        if cut < self.collected_below {
            return Err(SqlError::new(SqlState::SNAPSHOT_TOO_OLD, "snapshot too old")
                .detail(format!(
                    "The read is at rank {cut}; at partition {} versions below rank {} are collected.",
                    self.partition, self.collected_below
                ))
                .hint("Start a new transaction."));
        }
        Ok(())
    }

    /// The table with this id, as of now.
    pub(crate) fn table(&self, id: TableId) -> Option<&TableStore> {
        self.tables.get(&id)
    }
    /// The table and index with this index id, as of now.
    pub(crate) fn index(&self, id: TableId) -> Option<(&TableStore, &IndexStore)> {
        let table = self.tables.get(self.index_owner.get(&id)?)?;
        Some((table, table.index(id)?))
    }
    /// The table with this id as a cut sees it: it may have been dropped since.
    pub(crate) fn table_at(&self, id: TableId, cut: Place) -> Option<&TableStore> {
        let dropped = self.dropped.iter().find(|(place, table)| table.desc.id == id && cut < *place);
        dropped.map(|(_, table)| table).or_else(|| self.tables.get(&id))
    }

    /// The newest version of a row.
    pub fn get(&self, table: TableId, key: &Key) -> Option<&Row> {
        self.tables.get(&table)?.rows.latest(key)
    }
    /// A row at a cut; [`Place::end_of`] a rank includes its ties.
    pub fn get_at(&self, table: TableId, key: &Key, cut: Place) -> Option<&Row> {
        self.table_at(table, cut)?.rows.slot(key)?.at(cut)
    }
    /// Rows of a range at a cut, in key order or its reverse; `visit` answers whether to go on.
    pub fn scan_at(
        &self,
        table: TableId,
        range: &KeyRange,
        cut: Place,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let Some(table) = self.table_at(table, cut) else { return };
        table.rows.scan(range, descending, |key, slot| slot.at(cut).is_none_or(|row| visit(key, row)));
    }
    /// The same through a secondary index: `range` is over entries, rows come with their primary keys.
    pub fn scan_index_at(
        &self,
        index: TableId,
        range: &KeyRange,
        cut: Place,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let in_dropped = self.dropped.iter().map(|(place, table)| (*place, table));
        let table = in_dropped
            .filter(|(place, _)| cut < *place)
            .map(|(_, table)| table)
            .find(|table| table.index(index).is_some())
            .or_else(|| self.tables.get(self.index_owner.get(&index)?));
        let Some(table) = table else { return };
        let range = (range, descending);
        table.scan_index(index, range, &mut |_| true, &|s| s.at(cut), &|s| s.at(cut), visit);
    }
    /// Newest rows of a range.
    pub fn scan(
        &self,
        table: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let Some(table) = self.tables.get(&table) else { return };
        table.rows.scan(range, descending, |key, slot| slot.latest().is_none_or(|row| visit(key, row)));
    }
    /// Newest rows through a secondary index.
    pub fn scan_index(
        &self,
        index: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let Some((table, _)) = self.index(index) else { return };
        let range = (range, descending);
        table.scan_index(index, range, &mut |_| true, &|s| s.latest(), &|s| s.latest(), visit);
    }
    /// Place of the newest version in a range of a table or index, deletions included; `None` if there is
    /// no version at all. Deletions below [`Store::collected_below`] are forgotten.
    pub fn newest_place_in(&self, table: TableId, range: &KeyRange) -> Option<Place> {
        let mut newest = None;
        self.for_versions_in(table, range, &mut |_, place| {
            newest = newest.max(Some(place));
            true
        });
        newest
    }
    /// Visits the newest place of every key in a range of a table or index.
    fn for_versions_in(&self, id: TableId, range: &KeyRange, visit: &mut dyn FnMut(&Key, Place) -> bool) {
        if let Some(table) = self.tables.get(&id) {
            match range.as_point() {
                Some(key) => _ = table.rows.slot(key).map(|slot| visit(key, slot.place())),
                None => table.rows.scan(range, false, |key, slot| visit(key, slot.place())),
            }
        } else if let Some((_, index)) = self.index(id) {
            index.entries.scan(range, false, |key, slot| visit(key, slot.place()));
            index.homes.scan(range, false, |key, slot| visit(key, slot.place()));
        }
    }
    /// The first key in a range of a table or index that changed after `cut`, and where it did.
    pub(crate) fn newer_than(&self, id: TableId, range: &KeyRange, cut: Place) -> Option<(Key, Place)> {
        let quiet = |table: &TableStore| table.newest <= cut;
        if self.tables.get(&id).or_else(|| self.index(id).map(|(t, _)| t)).is_none_or(quiet) {
            return None;
        }
        let mut found = None;
        self.for_versions_in(id, range, &mut |key, place| {
            if place > cut && found.is_none() {
                found = Some((key.clone(), place));
            }
            found.is_none()
        });
        found
    }

    /// Writes one row at a place, its index entries with it.
    pub(crate) fn write_row(&mut self, id: TableId, key: &Key, row: Option<Row>, place: Place) -> Wrote {
        let passes_by = self.planted(Mutant::WritePastIndex);
        let Store { tables, garbage, counters, .. } = self;
        let table = tables.get_mut(&id).unwrap_or_else(|| panic!("{id} is written after it was dropped"));
        let size = row.as_ref().map_or(0, Row::len);
        let is_live = row.is_some();
        let replaced = match table.indexes.is_empty() {
            true => table.rows.write(key, row, place),
            false => {
                let replaced = table.rows.write(key, row.clone(), place);
                let mut dead = |kind, key: &Key| {
                    garbage.push_back(Garbage { place, table: id, kind, key: key.clone() });
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
            garbage.push_back(Garbage { place, table: id, kind: GarbageKind::Row, key: key.clone() });
        }
        if replaced.added_version { Wrote::Version(replaced.before) } else { Wrote::OwnAgain }
    }

    /// The store of an index.
    pub(crate) fn index_mut(&mut self, id: TableId) -> Option<&mut IndexStore> {
        let table = self.tables.get_mut(self.index_owner.get(&id)?)?;
        table.indexes.iter_mut().find(|index| index.desc.id == id)
    }

    /// Sets or removes an entry of a unique index whose home is here.
    pub(crate) fn write_home(&mut self, index: TableId, entry: &Key, owner: Option<&Key>, place: Place) {
        let Some(id) = self.index_owner.get(&index) else { return };
        let table = self.tables.get_mut(id).expect("an index has a table");
        table.newest = table.newest.max(place);
        let store = table.indexes.iter_mut().find(|i| i.desc.id == index).expect("owned by this table");
        let owner = owner.map(|key| Owner::Key(Box::new(key.clone())));
        if store.homes.write(entry, owner, place).leaves_garbage {
            let kind = GarbageKind::Home(index);
            self.garbage.push_back(Garbage { place, table: *id, kind, key: entry.clone() });
        }
    }

    /// Takes rows from elsewhere (a checkpoint, a peer) as if written at `place`.
    pub fn install(&mut self, writes: &[RowWrite], place: Place) {
        for write in writes {
            let row = match &write.change {
                Change::Put(row) | Change::Update { row, .. } => Some(row.clone()),
                Change::Patch(patch) => {
                    let before = self.get(write.table, &write.key);
                    Some(before.and_then(|row| row.patched(patch)).expect("a patch follows its row"))
                }
                Change::Delete => None,
            };
            self.write_row(write.table, &write.key, row, place);
        }
    }
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
