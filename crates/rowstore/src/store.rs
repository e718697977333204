//! One partition's rows, with every version that a reader may still ask for.
//!
//! IN: rows written at a place. OUT: rows as they are now (for execution), or as they were at a cut (for
//! readers). KEEPS: secondary indexes agree with rows at every cut; a read at a rank includes every tie;
//! a cut below [`Store::collected_below`] is refused, never answered from what is left.

use crate::copy::Block;
use crate::entries::IndexStore;
use crate::garbage::GarbageKind;
use crate::planted::Mutant;
use crate::table::TableStore;
use crate::tables::{Counters, Tables, Wrote};
use base::codec::{self, DecodeError};
use base::commit::{Change, RowWrite};
use base::error::{SqlError, SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::{Key, PartitionId, Place, Rank, Row, TableId};
use std::collections::VecDeque;
use std::sync::Arc;

/// The rows of one partition.
pub struct Store {
    pub(crate) partition: PartitionId,
    pub(crate) topology: Arc<Topology>,
    pub(crate) procedures: Arc<Procedures>,
    pub(crate) catalog: Arc<Catalog>,
    /// Earlier catalogs, each with the place up to which it was valid (excluded).
    pub(crate) catalogs: VecDeque<(Place, Arc<Catalog>)>,
    pub(crate) tables: Tables,
    pub(crate) collected_below: Rank,
    pub(crate) prepared: crate::execute::PreparedSet,
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
            tables: Tables::default(),
            collected_below: Rank::ZERO,
            prepared: Default::default(),
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
    /// Whether a table, or the table of an index, has the description that it had at a cut. Of a cut that was collected: no.
    pub fn is_described_as_at(&self, table: TableId, cut: Rank) -> bool {
        let owner = || self.index(table).map(|(owner, _)| owner);
        let Some(now) = self.table(table).or_else(owner) else { return false };
        let then = self.catalog_at(cut).ok().and_then(|catalog| catalog.table(now.desc.id));
        then.is_some_and(|then| then.version == now.desc.version)
    }
    /// Cuts below this rank can no longer be read.
    pub fn collected_below(&self) -> Rank {
        self.collected_below
    }
    pub fn counters(&self) -> Counters {
        self.tables.counters()
    }

    /// Rows of a table, as of now.
    pub fn row_count(&self, table: TableId) -> u64 {
        self.tables.get(table).map_or(0, |table| table.live)
    }

    /// Whether a table has such a row, as of now.
    pub fn has_row(&self, table: TableId, key: &Key) -> bool {
        self.tables.get(table).is_some_and(|table| table.rows.latest(key).is_some())
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
        self.tables.get(id)
    }
    /// The table and index with this index id, as of now.
    pub(crate) fn index(&self, id: TableId) -> Option<(&TableStore, &IndexStore)> {
        self.tables.index(id)
    }
    /// The table with this id as a cut sees it: it may have been dropped since.
    pub(crate) fn table_at(&self, id: TableId, cut: Place) -> Option<&TableStore> {
        self.tables.get_at(id, cut)
    }

    /// The newest version of a row.
    pub fn get(&self, table: TableId, key: &Key) -> Option<&Row> {
        self.tables.get(table)?.rows.latest(key)
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
        let Some(table) = self.tables.with_index_at(index, cut) else { return };
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
        let Some(table) = self.tables.get(table) else { return };
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
        if let Some(table) = self.tables.get(id) {
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
        if self.tables.get(id).or_else(|| self.index(id).map(|(t, _)| t)).is_none_or(quiet) {
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
        self.tables.write_row((id, key), row, place, passes_by)
    }
    /// The store of an index.
    pub(crate) fn index_mut(&mut self, id: TableId) -> Option<&mut IndexStore> {
        self.tables.index_mut(id)
    }
    /// Sets or removes an entry of a unique index whose home is here.
    pub(crate) fn write_home(&mut self, index: TableId, entry: &Key, owner: Option<&Key>, place: Place) {
        self.tables.write_home(index, entry, owner, place);
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

    /// Refuses cuts below `below` from now on and visits up to `budget` superseded keys. No cut in use lies below it, now or
    /// ever. Answers whether there is more to do; call again, with the same or a later rank.
    pub fn collect(&mut self, below: Rank, budget: usize) -> bool {
        self.collected_below = self.collected_below.max(below);
        let watermark = Place::end_of(self.collected_below);
        while self.catalogs.front().is_some_and(|(until, _)| *until <= watermark) {
            self.catalogs.pop_front();
        }
        self.tables.collect(watermark, budget)
    }
    /// Whether something can be collected that was not yet.
    pub fn is_collecting(&self) -> bool {
        self.tables.is_collecting(Place::end_of(self.collected_below))
    }

    /// Takes the next block of another store's copy; with the first, the present contents are dropped. Errors: it is
    /// no such block.
    pub fn restore(&mut self, block: &[u8]) -> Result<(), DecodeError> {
        match codec::decode(block)? {
            Block::Begins { collected_below, catalog, catalogs, tables } => {
                *self = self.emptied();
                self.collected_below = collected_below;
                self.catalogs = catalogs.into_iter().collect();
                for id in tables {
                    let Some(desc) = catalog.table(id) else { continue };
                    self.tables.own_indexes(desc);
                }
                self.catalog = catalog;
            }
            Block::Table { desc, dropped, newest, indexes } => {
                // The catalog's own description where it has one: changes look for it by address.
                let known = self.catalog.tables.get(&desc.id).filter(|_| dropped.is_none()).cloned();
                let mut table = TableStore::new(known.unwrap_or(desc), &self.topology, Place::default());
                table.newest = newest;
                for (index, (created, late_from)) in table.indexes.iter_mut().zip(indexes) {
                    (index.created, index.late_from) = (created, late_from);
                }
                self.tables.restore_table(table, dropped);
            }
            Block::Rows(chains) => self.tables.restore_rows(chains),
            Block::Entries { nth, chains } => {
                self.tables.restore_entries(nth, chains, GarbageKind::Entry, |index| &mut index.entries);
            }
            Block::Homes { nth, chains } => {
                self.tables.restore_entries(nth, chains, GarbageKind::Home, |index| &mut index.homes);
            }
            Block::Ends => self.tables.end_restoring(),
        }
        Ok(())
    }
}
