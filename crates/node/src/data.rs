//! The rows of this node's partitions, as its engine and its readers reach them.

use crate::locks::RowName;
use crate::replicas::Replicas;
use base::commit::CommitRecord;
use base::process::Unreadable;
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{AccessMode, Applied, Gathered, Granule, ReadGranule, Transaction};
use base::write_set::{Evaluated, WriteSet};
use base::{Datum, Key, NodeId, PartitionId, Place, Rank, Row, SqlError, SqlState, TableId, TxnId};
use rowstore::{Begun, CopyOutdated, CopyPlan, Counters, LiveRows, Store, Unfinished};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use txn::engine::{CopyEnded, Executor};

/// Versions removed at most in one maintenance step, per partition.
const COLLECT_VERSIONS_MAX: usize = 20_000;

pub struct Data {
    stores: BTreeMap<PartitionId, Store>,
    collect_below: Rank,
    /// Rows that are written are noted.
    notes_writes: bool,
    written: Vec<Written>,
    /// Copies that other nodes take. Versions are not collected meanwhile.
    copies: BTreeMap<NodeId, OpenCopy>,
    /// Copies of rows that fill columns, here or at a subscriber. Nor are versions collected meanwhile.
    row_copies: BTreeMap<(PartitionId, NodeId), RowCopy>,
    /// What one step of a transaction's execution does at most, in units of about a microsecond.
    units_a_step: u64,
    /// What is under way at each partition.
    unfinished: BTreeMap<PartitionId, Unfinished>,
    /// Transactions that are applied in several steps, and at how many partitions they are done. They are not executed
    /// yet, so copies that begin meanwhile leave them out.
    applying: BTreeMap<TxnId, usize>,
    /// Rows of partitions that run elsewhere.
    pub replicas: Replicas,
}

/// A copy under way, and what was applied since it began.
struct OpenCopy {
    plans: VecDeque<(PartitionId, CopyPlan)>,
    since: BTreeSet<TxnId>,
}

/// A copy of a partition's rows under way, what was applied there since it began, and up to where it is complete.
struct RowCopy {
    rows: LiveRows,
    since: BTreeSet<TxnId>,
    low: Rank,
}

/// The next piece of a copy of rows.
pub enum RowPiece {
    Rows(TableId, Vec<(Key, Row)>),
    /// That was all; complete up to this rank.
    Ends {
        low: Rank,
    },
    /// The catalog has changed: another copy has to be begun.
    Outdated,
}

/// Rank and gateway of a transaction, and the rows that it wrote.
pub type Written = (Rank, NodeId, Vec<RowName>);

impl Data {
    pub fn new(
        topology: Arc<Topology>,
        procedures: Arc<Procedures>,
        partitions: impl Iterator<Item = PartitionId>,
    ) -> Data {
        let store = |p| (p, Store::new(p, topology.clone(), procedures.clone()));
        Data {
            stores: partitions.map(store).collect(),
            collect_below: Rank::ZERO,
            notes_writes: false,
            written: Vec::new(),
            copies: BTreeMap::new(),
            row_copies: BTreeMap::new(),
            units_a_step: u64::MAX,
            unfinished: BTreeMap::new(),
            applying: BTreeMap::new(),
            replicas: Replicas::none(),
        }
    }
    /// Executes in steps of so many units of work at most, about a microsecond each.
    pub fn in_steps_of(self, units: u64) -> Data {
        Data { units_a_step: units, ..self }
    }
    /// With a fault planted in all stores here.
    #[cfg(feature = "mutants")]
    pub fn with_mutant(self, mutant: Option<rowstore::Mutant>) -> Data {
        let stores = self.stores.into_iter().map(|(p, store)| (p, store.with_mutant(mutant)));
        Data { stores: stores.collect(), ..self }
    }
    pub fn following(self, replicas: Replicas) -> Data {
        Data { replicas, ..self }
    }
    /// A commit record of a partition here goes out.
    pub fn track(&mut self, record: &CommitRecord) {
        self.replicas.trackers.record(record, &self.stores[&record.partition]);
    }

    pub fn store(&self, partition: PartitionId) -> &Store {
        self.stores.get(&partition).unwrap_or_else(|| panic!("{partition} does not live here"))
    }

    fn store_mut(&mut self, partition: PartitionId) -> &mut Store {
        self.stores.get_mut(&partition).unwrap_or_else(|| panic!("{partition} does not live here"))
    }

    /// The catalog as of the last change executed here. A change takes part in every partition, so any
    /// of them will do.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.any_store().map_or_else(Arc::default, |store| store.catalog().clone())
    }

    /// Of a partition of this node, or else of one that it follows: a change of the catalog takes part in all.
    fn any_store(&self) -> Option<&Store> {
        self.stores.values().next().or_else(|| self.replicas.any_store())
    }

    /// The rank of the last change of these tables in [`Data::catalog`], if it is above this one.
    pub fn changed_above(&self, rank: Rank, is_wanted: impl Fn(TableId) -> bool) -> Option<Rank> {
        self.any_store().and_then(|store| store.changed_above(rank, is_wanted))
    }

    /// Whether the catalog is still this one.
    pub fn has_catalog(&self, known: &Arc<Catalog>) -> bool {
        self.any_store().is_none_or(|store| Arc::ptr_eq(store.catalog(), known))
    }

    /// Rows of a table that are here, as of now.
    pub fn row_count(&self, table: TableId) -> u64 {
        let followed = self.replicas.partitions().filter_map(|partition| self.replicas.store(partition));
        self.stores.values().chain(followed).map(|store| store.row_count(table)).sum()
    }

    /// Whether rows that transactions write are noted from now on.
    pub fn note_writes(&mut self, notes: bool) {
        self.notes_writes = notes;
    }
    pub fn has_written(&self) -> bool {
        !self.written.is_empty()
    }
    /// What was noted since this was asked last.
    pub fn take_written(&mut self) -> Vec<Written> {
        std::mem::take(&mut self.written)
    }

    pub fn collect_below(&mut self, below: Rank) {
        self.collect_below = self.collect_below.max(below);
    }

    /// A bounded amount of collection.
    pub fn maintain(&mut self) {
        self.replicas.maintain();
        if !self.copies.is_empty() || !self.row_copies.is_empty() {
            return;
        }
        for store in self.stores.values_mut() {
            store.collect(self.collect_below, COLLECT_VERSIONS_MAX);
        }
    }

    /// Whether there is something left to do for [`Data::maintain`].
    pub fn is_collecting(&self) -> bool {
        self.stores
            .values()
            .any(|store| store.collected_below() < self.collect_below || store.is_collecting())
    }

    // ---- another topology ---------------------------------------------------------------------------

    /// Partitions that are new begin with the catalog and with what every partition has. Errors: rows would be elsewhere.
    pub fn extend(&mut self, before: &Topology, after: &Topology) -> Result<(), Unreadable> {
        self.check_places(before, after)?;
        let known = PartitionId(before.partitions.len() as u16);
        let mut new = self.stores.split_off(&known);
        if let Some(first) = self.stores.values().next() {
            let mut plan = first.begin_copy_of_replicated();
            while let Ok(Some(block)) = first.copy_more(&mut plan, &|_| false) {
                for store in new.values_mut() {
                    store.restore(&block).map_err(|error| Unreadable(error.to_string()))?;
                }
            }
        }
        self.stores.append(&mut new);
        Ok(())
    }
    fn check_places(&self, before: &Topology, after: &Topology) -> Result<(), Unreadable> {
        let catalog = self.catalog();
        for table in catalog.tables.values() {
            if let Some(index) = table.index_that_moves(before, after) {
                return Err(Unreadable(format!(
                    "unique index {} of table {} is kept in another way with one partition than with several; drop it \
                     first, and create it again afterwards",
                    index.name, table.name
                )));
            }
        }
        let named: Vec<_> = catalog.tables.values().filter(|table| table.is_placed_by_name()).collect();
        if named.is_empty() || before.wan.regions == after.wan.regions {
            return Ok(());
        }
        for store in self.stores.values() {
            let mut copy = store.begin_rows();
            while let Ok(Some((id, rows))) = store.more_rows(&mut copy, usize::MAX, &|_| false) {
                let Some(table) = named.iter().find(|table| table.id == id) else { continue };
                let Some(column) = table.partition_column() else { continue };
                let value = |row: &Row| table.value_of(row, column);
                let moves = |row: &Row| table.locate(&value(row), before) != table.locate(&value(row), after);
                if let Some((_, row)) = rows.iter().find(|(_, row)| moves(row)) {
                    let named = match value(row) {
                        Datum::Text(name) => format!("'{name}'"),
                        other => format!("{other:?}"),
                    };
                    return Err(Unreadable(format!(
                        "rows of table {} with {} = {named} would belong to the new region of that name, and they are \
                         in another one; delete them first, and insert them again afterwards",
                        table.name, table.columns[column].name
                    )));
                }
            }
        }
        Ok(())
    }

    // ---- copies of rows ---------------------------------------------------------------------------

    /// Begins a copy of a partition's rows as they are now, complete up to `low`, for columns at a node; one that was
    /// under way for them ends. Answers the catalog of the copy.
    pub fn begin_rows(&mut self, partition: PartitionId, to: NodeId, low: Rank) -> Arc<Catalog> {
        let rows = self.store(partition).begin_rows();
        let catalog = rows.catalog().clone();
        self.row_copies.insert((partition, to), RowCopy { rows, since: self.begun(), low });
        catalog
    }
    /// Goes on with it, after a look at so many keys at most; `None`: there is none.
    pub fn more_rows(&mut self, partition: PartitionId, to: NodeId, keys_max: usize) -> Option<RowPiece> {
        let RowCopy { rows, since, low } = self.row_copies.get_mut(&(partition, to))?;
        let is_newer = |place: &Place| since.contains(&place.txn);
        let piece = match self.stores[&partition].more_rows(rows, keys_max, &is_newer) {
            Ok(Some((table, rows))) => return Some(RowPiece::Rows(table, rows)),
            Ok(None) => RowPiece::Ends { low: *low },
            Err(CopyOutdated) => RowPiece::Outdated,
        };
        self.row_copies.remove(&(partition, to));
        Some(piece)
    }
    /// Ends copies that nobody takes any more.
    pub fn retain_row_copies(&mut self, is_taken: impl Fn(PartitionId, NodeId) -> bool) {
        self.row_copies.retain(|(partition, to), _| is_taken(*partition, *to));
    }
    /// A transaction was applied: copies that began before it leave it out.
    fn leave_out(&mut self, partition: PartitionId, txn: TxnId) {
        self.copies.values_mut().for_each(|copy| _ = copy.since.insert(txn));
        let here = self.row_copies.iter_mut().filter(|((of, _), _)| *of == partition);
        here.for_each(|(_, copy)| _ = copy.since.insert(txn));
    }

    /// Transactions of which something is applied, though not all.
    fn begun(&self) -> BTreeSet<TxnId> {
        self.applying.keys().copied().collect()
    }
    /// A step of a transaction's application is over; `is_done`: at this partition it was the last.
    fn stepped(&mut self, transaction: &Transaction, is_done: bool) {
        let here = transaction.participants().filter(|p| self.stores.contains_key(p)).count();
        if here == 1 && is_done && self.applying.is_empty() {
            return;
        }
        let done = self.applying.entry(transaction.id).or_default();
        *done += usize::from(is_done);
        if *done == here {
            self.applying.remove(&transaction.id);
        }
    }
    /// A transaction is applied: what it wrote is noted, if anybody asks.
    fn note(&mut self, transaction: &Transaction, partition: PartitionId, place: Place) {
        if !self.notes_writes {
            return;
        }
        let writes = transaction.access.at(partition).iter().filter(|a| a.mode == AccessMode::Write);
        let rows = writes.filter_map(|access| match &access.granule {
            Granule::Key(table, key) => Some((*table, key.clone())),
            _ => None,
        });
        self.written.push((place.rank, transaction.id.coordinator, rows.collect()));
    }

    pub fn counters(&self) -> Counters {
        self.stores.values().fold(Counters::default(), |sum, store| {
            let one = store.counters();
            Counters {
                rows: sum.rows + one.rows,
                versions: sum.versions + one.versions,
                bytes: sum.bytes + one.bytes,
                live_bytes: sum.live_bytes + one.live_bytes,
                garbage: sum.garbage + one.garbage,
            }
        })
    }
}

impl Executor for Data {
    fn gather(&mut self, partition: PartitionId, transaction: &Transaction) -> Gathered {
        self.store_mut(partition).gather(transaction)
    }

    fn apply(
        &mut self,
        partition: PartitionId,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Applied {
        self.note(transaction, partition, place);
        self.leave_out(partition, transaction.id);
        self.store_mut(partition).apply(transaction, place, exchange)
    }

    fn gather_some(&mut self, partition: PartitionId, transaction: &Transaction) -> Option<Gathered> {
        let units = self.units_a_step;
        let unfinished = self.unfinished.entry(partition).or_default();
        let store = self.stores.get_mut(&partition);
        let store = store.unwrap_or_else(|| panic!("{partition} does not live here"));
        store.gather_some(unfinished, transaction, units)
    }

    fn apply_some(
        &mut self,
        partition: PartitionId,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Option<Applied> {
        self.leave_out(partition, transaction.id);
        let units = self.units_a_step;
        let unfinished = self.unfinished.entry(partition).or_default();
        let store = self.stores.get_mut(&partition);
        let store = store.unwrap_or_else(|| panic!("{partition} does not live here"));
        let applied = store.apply_some(unfinished, transaction, place, exchange, units);
        self.stepped(transaction, applied.is_some());
        if applied.is_some() {
            self.note(transaction, partition, place);
        }
        applied
    }

    fn evaluate(&mut self, transaction: &Transaction, at: Rank) -> Result<Evaluated, SqlError> {
        let participants: Vec<PartitionId> = transaction.participants().collect();
        if let Some(elsewhere) = participants.iter().find(|p| !self.stores.contains_key(p)) {
            let message = format!("a transaction is evaluated where there is a copy of {elsewhere}");
            return Err(SqlError::internal(message));
        }
        let begun = participants.iter().map(|p| (*p, self.store(*p).begin_evaluation(transaction, at)));
        let begun: Vec<(PartitionId, Result<Begun, SqlError>)> = begun.collect();
        // Whoever must retry is told so, rather than what it would have run into.
        let refusals = begun.iter().filter_map(|(_, begun)| begun.as_ref().err());
        if let Some(error) = refusals.min_by_key(|error| error.state != SqlState::SERIALIZATION_FAILURE) {
            return Err(error.clone());
        }
        let begun: BTreeMap<PartitionId, Begun> =
            begun.into_iter().map(|(p, begun)| (p, begun.expect("nobody refused"))).collect();
        let exchange = begun.iter().map(|(p, begun)| (*p, begun.values.clone())).collect();
        let mut evaluated = Evaluated::default();
        for (partition, begun) in begun {
            let store = self.store(partition);
            let here = store.finish_evaluation(transaction, at, begun, &exchange)?;
            evaluated.results.insert(partition, here.results);
            evaluated.reads.extend(here.reads);
            evaluated.writes.insert(partition, here.writes);
        }
        Ok(evaluated)
    }

    fn install(
        &mut self,
        partition: PartitionId,
        place: Place,
        writes: &BTreeMap<PartitionId, WriteSet>,
    ) -> Result<Applied, SqlError> {
        let applied = self.store_mut(partition).install_writes(place, writes)?;
        if self.notes_writes {
            let rows = applied.writes.iter().map(|write| (write.table, write.key.clone()));
            self.written.push((place.rank, place.txn.coordinator, rows.collect()));
        }
        self.leave_out(partition, place.txn);
        Ok(applied)
    }

    fn is_unchanged(&self, read: &ReadGranule) -> bool {
        self.store(read.partition).is_unchanged(read)
    }
    fn is_described_as_at(&self, partition: PartitionId, table: TableId, at: Rank) -> bool {
        self.store(partition).is_described_as_at(table, at)
    }
    fn has_row(&self, partition: PartitionId, table: TableId, key: &Key) -> bool {
        self.store(partition).has_row(table, key)
    }

    fn begin_copy(&mut self, to: NodeId, partitions: &[PartitionId]) {
        let plans = partitions.iter().map(|p| (*p, self.store(*p).begin_copy())).collect();
        self.copies.insert(to, OpenCopy { plans, since: self.begun() });
    }
    fn next_block(&mut self, to: NodeId) -> Result<Option<(PartitionId, Vec<u8>)>, CopyEnded> {
        let OpenCopy { plans, since } = self.copies.get_mut(&to).ok_or(CopyEnded)?;
        while let Some((partition, plan)) = plans.front_mut() {
            let (store, partition) = (&self.stores[partition], *partition);
            let is_newer = |place: &Place| since.contains(&place.txn);
            match store.copy_more(plan, &is_newer) {
                Ok(Some(block)) => return Ok(Some((partition, block))),
                Ok(None) => _ = plans.pop_front(),
                Err(CopyOutdated) => return Err(CopyEnded),
            }
        }
        Ok(None)
    }
    fn end_copy(&mut self, to: NodeId) {
        self.copies.remove(&to);
    }
    fn restore(&mut self, partition: PartitionId, block: &[u8]) {
        // The first block forgets what was here.
        self.unfinished.remove(&partition);
        let taken = self.store_mut(partition).restore(block);
        taken
            .unwrap_or_else(|e| panic!("a block of {partition} that another node wrote cannot be read: {e}"));
    }
}

#[cfg(test)]
mod tests;
