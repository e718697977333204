//! A transaction's own writes, not yet in the store.

use super::Prepared;
use super::allowance::{Allowance, BYTES_A_UNIT};
use super::declared::{Declared, Order, mentions, undeclared_key, undeclared_range};
use super::violation;
use crate::entries::{IndexStore, Owner};
use crate::planted::{self, Mutant};
use crate::store::Store;
use crate::table::TableStore;
use crate::versions::{Slot, VersionMap};
use base::error::{SqlError, SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::{Placement, stale_schema};
use base::txn::{AccessMode, StatementResult, Transaction};
use base::{Datum, Key, Place, Row, TableId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// What one transaction writes at a partition at most: alike for every copy, whatever memory it has.
const WRITTEN_BYTES_MAX: usize = 1 << 30;

/// Final states so far, by table and key.
#[derive(Default)]
pub(crate) struct Overlay {
    pub rows: BTreeMap<TableId, BTreeMap<Key, Option<Row>>>,
    /// Owners of unique entries of rows that live here, as far as they changed.
    pub owners: BTreeMap<TableId, BTreeMap<Key, Option<Key>>>,
    /// Owners of unique entries homed here, as far as they changed.
    pub homes: BTreeMap<TableId, BTreeMap<Key, Option<Key>>>,
    /// Unique entries homed here that their row keeps, though it may move.
    pub kept: BTreeSet<(TableId, Key)>,
    /// What comes late into indexes that are being built.
    pub entered: BTreeMap<TableId, Entered>,
    /// Of all states that rows were given.
    bytes: usize,
}

/// Rows that were there before an index.
#[derive(Default)]
pub(crate) struct Entered {
    /// Their entries, with their primary keys.
    pub entries: BTreeMap<Key, Key>,
    /// All rows of these ranges have their entries afterwards.
    pub ranges: Vec<KeyRange>,
}

impl Overlay {
    /// Rows and entries written.
    pub fn len(&self) -> usize {
        self.rows.values().map(BTreeMap::len).sum::<usize>()
            + self.homes.values().map(BTreeMap::len).sum::<usize>()
            + self.entered.values().map(|entered| entered.entries.len()).sum::<usize>()
    }
    /// Takes out what is of these tables and indexes.
    pub fn split_off(&mut self, is_wanted: impl Fn(TableId) -> bool) -> Overlay {
        fn part<V>(
            all: &mut BTreeMap<TableId, V>,
            is_wanted: &impl Fn(TableId) -> bool,
        ) -> BTreeMap<TableId, V> {
            all.extract_if(.., |id, _| is_wanted(*id)).collect()
        }
        Overlay {
            rows: part(&mut self.rows, &is_wanted),
            owners: part(&mut self.owners, &is_wanted),
            homes: part(&mut self.homes, &is_wanted),
            kept: self.kept.extract_if(.., |(index, _)| is_wanted(*index)).collect(),
            entered: part(&mut self.entered, &is_wanted),
            bytes: 0,
        }
    }
    /// Counts bytes that are written. Errors: it is too much.
    fn count(&mut self, bytes: usize) -> SqlResult<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > WRITTEN_BYTES_MAX { Err(too_much()) } else { Ok(()) }
    }
}

/// One transaction being prepared.
pub(crate) struct Run<'a> {
    pub store: &'a Store,
    /// Tables as they will be, in the place of the store's: those that the transaction itself changes.
    pub changed: Option<&'a BTreeMap<TableId, TableStore>>,
    pub transaction: &'a Transaction,
    pub declared: Declared<'a>,
    pub prepared: Prepared,
    /// What is left of this step.
    pub allowance: Allowance,
    /// Rows are seen as of here; `None`: the newest.
    pub cut: Option<Place>,
    /// What was read, as far as somebody asks.
    pub reads: RefCell<Vec<(TableId, KeyRange)>>,
}

/// A run between two steps.
pub(crate) struct Paused {
    order: Order,
    prepared: Prepared,
}

impl<'a> Run<'a> {
    pub fn new(store: &'a Store, transaction: &'a Transaction) -> Run<'a> {
        let declared = Declared::new(transaction.access.at(store.partition));
        let (prepared, reads) = (Prepared::default(), RefCell::default());
        let allowance = Allowance::WHOLE;
        Run { store, changed: None, transaction, declared, prepared, allowance, cut: None, reads }
    }

    /// Goes on where an earlier step has ended.
    pub fn resumed(store: &'a Store, transaction: &'a Transaction, paused: Paused) -> Run<'a> {
        let Paused { order, prepared } = paused;
        let declared = Declared::ordered(transaction.access.at(store.partition), order);
        let (allowance, reads) = (Allowance::WHOLE, RefCell::default());
        Run { store, changed: None, transaction, declared, prepared, allowance, cut: None, reads }
    }
    /// Work was done in this step.
    pub fn spend(&mut self, units: u64) {
        self.allowance.spend(units);
    }
    /// A statement is done.
    pub fn answer(&mut self, result: StatementResult) {
        self.prepared.results.push(result);
    }
    /// What the next step goes on with.
    pub fn pause(self) -> Paused {
        Paused { order: self.declared.into_order(), prepared: self.prepared }
    }

    /// The same over rows as they were, keeping what is read.
    pub fn at(store: &'a Store, transaction: &'a Transaction, cut: Place) -> Run<'a> {
        Run { cut: Some(cut), ..Run::new(store, transaction) }
    }

    /// The table with this id.
    pub fn find(&self, id: TableId) -> Option<&'a TableStore> {
        self.changed.and_then(|changed| changed.get(&id)).or_else(|| self.store.table(id))
    }

    /// The table, if it is as it was when the transaction was planned.
    pub fn table(&self, id: TableId, schema_version: u64) -> SqlResult<&'a TableStore> {
        self.find(id).filter(|t| t.desc.version == schema_version).ok_or_else(stale_schema)
    }

    /// Whether this participant's results count: rows of a replicated table are the same at all.
    pub fn reports(&self, table: &TableStore) -> bool {
        !matches!(table.desc.placement, Placement::Replicated)
            || self
                .transaction
                .access
                .by_partition
                .iter()
                .find(|(_, accesses)| mentions(accesses, table.desc.id))
                .is_none_or(|(first, _)| *first == self.store.partition)
    }

    fn note(&self, id: TableId, range: impl FnOnce() -> KeyRange) {
        if self.cut.is_some() {
            self.reads.borrow_mut().push((id, range()));
        }
    }
    fn seen<'t, V: Clone>(&self, slot: &'t Slot<V>) -> Option<&'t V> {
        self.cut.map_or_else(|| slot.latest(), |cut| slot.at(cut))
    }
    fn stored_in<'t, V: Clone>(&self, map: &'t VersionMap<V>, id: TableId, key: &Key) -> Option<&'t V> {
        self.note(id, || KeyRange::point(key.clone()));
        map.slot(key).and_then(|slot| self.seen(slot))
    }
    /// The row as it was before the transaction.
    pub fn stored<'t>(&self, table: &'t TableStore, key: &Key) -> Option<&'t Row> {
        self.stored_in(&table.rows, table.desc.id, key)
    }

    /// The row as the transaction sees it.
    pub fn row(&self, table: &'a TableStore, key: &Key) -> Option<&Row> {
        match self.prepared.overlay.rows.get(&table.desc.id).and_then(|rows| rows.get(key)) {
            Some(own) => own.as_ref(),
            None => self.stored(table, key),
        }
    }

    /// The next rows of a range in key order, as the transaction sees them, after a look at so many keys of the store
    /// at most; and the first key that is left of the range.
    #[allow(clippy::type_complexity)]
    pub fn rows_from(
        &self,
        table: &'a TableStore,
        range: &KeyRange,
        keys_max: usize,
    ) -> SqlResult<(Vec<(Key, Row)>, Option<Key>)> {
        let id = table.desc.id;
        if !self.declared.has_range(id, range, AccessMode::Read) {
            return Err(undeclared_range(&self.store.catalog, id));
        }
        if let Some(key) = range.as_point() {
            let row = self.row(table, key).map(|row| (key.clone(), row.clone()));
            return Ok((row.into_iter().collect(), None));
        }
        self.note(id, || range.clone());
        let own = self.prepared.overlay.rows.get(&id).filter(|rows| !rows.is_empty());
        let (mut found, mut keys_left, mut next) = (Vec::new(), keys_max, None);
        table.rows.scan(range, false, |key, slot| {
            if keys_left == 0 {
                next = Some(key.clone());
                return false;
            }
            keys_left -= 1;
            if let Some(row) = self.seen(slot)
                && own.is_none_or(|own| !own.contains_key(key))
            {
                found.push((key.clone(), row.clone()));
            }
            true
        });
        if let Some(own) = own {
            let until = next.as_ref().or(range.high.as_ref());
            let until = until.map_or(Bound::Unbounded, Bound::Excluded);
            if !range.is_empty() {
                let inside = own.range((Bound::Included(&range.low), until));
                found.extend(inside.filter_map(|(key, row)| Some((key.clone(), row.clone()?))));
                found.sort_by(|(a, _), (b, _)| a.cmp(b));
            }
        }
        Ok((found, next))
    }

    /// Primary key of the row that holds a unique entry among the rows here.
    pub fn unique_owner(&self, index: &IndexStore, entry: &Key) -> Option<Key> {
        match self.prepared.overlay.owners.get(&index.desc.id).and_then(|owners| owners.get(entry)) {
            Some(own) => own.clone(),
            None => self.owner_in(index, &index.entries, entry),
        }
    }

    fn owner_in(&self, index: &IndexStore, entries: &VersionMap<Owner>, entry: &Key) -> Option<Key> {
        self.stored_in(entries, index.desc.id, entry).map(|owner| index.owner_key(entry, owner))
    }

    /// Takes a new state of a row that lives here. `values` are those of `after`.
    ///
    /// Errors: a row or entry outside the declared set; a unique entry that another row holds.
    pub fn put(
        &mut self,
        table: &'a TableStore,
        key: Key,
        before: Option<&Row>,
        after: Option<(Row, &[Datum])>,
    ) -> SqlResult<()> {
        let id = table.desc.id;
        if !self.declared.has_key(id, &key, AccessMode::Write) {
            return Err(undeclared_key(&self.store.catalog, id, &key));
        }
        for index in &table.indexes {
            let old = before.map(|row| table.desc.index_entry_of_row(&index.desc, row, &key));
            let new = after.as_ref().map(|(_, values)| table.desc.index_entry(&index.desc, values, &key));
            if old == new {
                continue;
            }
            if let Some(old) = old {
                self.leave(table, index, old, &key)?;
            }
            if let Some(new) = new {
                let values = after.as_ref().expect("it has an entry").1;
                self.enter(table, index, new, &key, values)?;
            }
        }
        let row = after.map(|(row, _)| row);
        let overlay = &mut self.prepared.overlay;
        let bytes = key.len() + row.as_ref().map_or(0, Row::len);
        overlay.count(bytes)?;
        overlay.rows.entry(id).or_default().insert(key, row);
        self.spend(bytes as u64 / BYTES_A_UNIT);
        Ok(())
    }

    /// Takes the entry of a row that was there before the index. Errors: another row has it.
    pub fn enter_late(&mut self, table: &TableStore, id: TableId, key: Key, row: &Row) -> SqlResult<()> {
        let index = table.index(id).ok_or_else(stale_schema)?;
        let earlier = table.rows.slot(&key).filter(|_| self.store.planted(Mutant::EnterEarlierRow));
        let row = earlier.and_then(planted::before_last).unwrap_or(row);
        let entry = table.desc.index_entry_of_row(&index.desc, row, &key);
        let owner = match index.has_single_owner(&entry) {
            true => self.unique_owner(index, &entry),
            false => index.entries.latest(&entry).map(|_| key.clone()),
        };
        match owner {
            Some(owner) if owner == key => return Ok(()),
            Some(_) if !self.store.planted(Mutant::EnterUnchecked) => {
                return Err(violation::duplicate(&table.desc, Some(&index.desc), &complete(table, row)?));
            }
            _ => {}
        }
        if index.has_single_owner(&entry) {
            if !self.declared.has_key(id, &entry, AccessMode::Write) {
                return Err(undeclared_key(&self.store.catalog, id, &entry));
            }
            let owners = self.prepared.overlay.owners.entry(id).or_default();
            owners.insert(entry.clone(), Some(key.clone()));
        }
        self.prepared.overlay.count(entry.len() + key.len())?;
        self.prepared.overlay.entered.entry(id).or_default().entries.insert(entry, key);
        Ok(())
    }

    /// All rows of a range have their entries in an index once the transaction is executed.
    pub fn has_entered(&mut self, index: TableId, range: &KeyRange) {
        self.prepared.overlay.entered.entry(index).or_default().ranges.push(range.clone());
    }

    /// A row gives up an index entry.
    fn leave(&mut self, table: &TableStore, index: &IndexStore, entry: Key, key: &Key) -> SqlResult<()> {
        if !index.has_single_owner(&entry) {
            return Ok(());
        }
        if index.local {
            if self.unique_owner(index, &entry).as_ref() == Some(key) {
                self.prepared.overlay.owners.entry(index.desc.id).or_default().insert(entry, None);
            }
            return Ok(());
        }
        let home = table.desc.locate_entry(&entry, &self.store.topology);
        if !self.transaction.access.by_partition.contains_key(&home) {
            return Err(undeclared_key(&self.store.catalog, index.desc.id, &entry));
        }
        self.prepared.departures.extend([
            Datum::Int(i64::from(index.desc.id.0)),
            Datum::Bytes(Arc::from(entry.as_bytes())),
            Datum::Bytes(Arc::from(key.as_bytes())),
        ]);
        Ok(())
    }

    /// A row takes an index entry.
    fn enter(
        &mut self,
        table: &TableStore,
        index: &IndexStore,
        entry: Key,
        key: &Key,
        values: &[Datum],
    ) -> SqlResult<()> {
        let id = index.desc.id;
        // Readers of the index order themselves by its entries, and so does uniqueness. An index whose
        // uniqueness is decided elsewhere has its entries declared there.
        if index.local && !self.declared.has_key(id, &entry, AccessMode::Write) {
            return Err(undeclared_key(&self.store.catalog, id, &entry));
        }
        if index.local && index.has_single_owner(&entry) {
            let is_checked = !index.desc.form.is_building || !self.store.planted(Mutant::WriteUnchecked);
            if is_checked && self.unique_owner(index, &entry).is_some_and(|owner| owner != *key) {
                return Err(violation::duplicate(&table.desc, Some(&index.desc), values));
            }
            self.prepared.overlay.owners.entry(id).or_default().insert(entry, Some(key.clone()));
        }
        Ok(())
    }

    /// Takes the entry of a row that may live anywhere, if the entry's home is here.
    /// `leaves` answers whether the present owner gives the entry up in this transaction.
    pub fn enter_home(
        &mut self,
        table: &TableStore,
        index: &IndexStore,
        values: &[Datum],
        key: &Key,
        leaves: impl Fn(&Key) -> bool,
    ) -> SqlResult<()> {
        let entry = table.desc.index_entry(&index.desc, values, key);
        if index.local
            || !index.has_single_owner(&entry)
            || table.desc.locate_entry(&entry, &self.store.topology) != self.store.partition
        {
            return Ok(());
        }
        let id = index.desc.id;
        let taken = self.prepared.overlay.homes.get(&id).and_then(|homes| homes.get(&entry));
        let owner = match taken {
            Some(own) => own.clone(),
            None => self.owner_in(index, &index.homes, &entry).filter(|owner| !leaves(owner)),
        };
        match owner {
            Some(owner) if owner == *key => {
                self.prepared.overlay.kept.insert((id, entry));
                return Ok(());
            }
            Some(_) => return Err(violation::duplicate(&table.desc, Some(&index.desc), values)),
            None => {}
        }
        if !self.declared.has_key(id, &entry, AccessMode::Write) {
            return Err(undeclared_key(&self.store.catalog, id, &entry));
        }
        self.prepared.overlay.homes.entry(id).or_default().insert(entry, Some(key.clone()));
        Ok(())
    }
}

/// A row as values; a row with more values than columns was made for another table.
pub(crate) fn complete(table: &TableStore, row: &Row) -> SqlResult<Vec<Datum>> {
    let mut values: Vec<Datum> = Vec::with_capacity(table.desc.columns.len());
    values.extend(row.values());
    if values.len() > table.desc.columns.len() {
        return Err(SqlError::new(
            SqlState::INTERNAL_ERROR,
            format!("a row of {} values for relation \"{}\"", values.len(), table.desc.name),
        ));
    }
    let missing = &table.desc.columns[values.len()..];
    values.extend(missing.iter().map(|c| c.missing.clone()));
    Ok(values)
}

fn too_much() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the transaction writes too much")
        .detail(format!("A transaction writes at most {WRITTEN_BYTES_MAX} bytes of rows at one partition."))
        .hint("Write fewer rows in one transaction.")
}
