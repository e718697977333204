//! Writing a transaction's final states at its place, a number of rows at a time.
//!
//! KEEPS: unique entries are left before they are taken, and a row's index entries are written with it.

use super::allowance::Allowance;
use super::overlay::{Entered, Overlay};
use super::{Prepared, departures};
use crate::store::Store;
use crate::tables::Wrote;
use base::commit::{Change, RowWrite};
use base::txn::{Gathered, StatementResult};
use base::write_set::UniqueEntry;
use base::{Key, PartitionId, Place, Row, TableId};
use std::collections::{BTreeMap, BTreeSet, btree_map};

/// What is left to be written, and what became of the rows so far.
pub(super) struct Writing<L, H, R> {
    /// Entries that their rows leave.
    pub left: L,
    /// Entries of those that are kept all the same.
    pub kept: BTreeSet<UniqueEntry>,
    /// Owners of unique entries homed here.
    pub homes: H,
    pub rows: R,
    /// Entries that come late, by index.
    pub entered: BTreeMap<TableId, Entered>,
    pub written: Vec<RowWrite>,
}

/// What is written of a transaction that was computed here.
pub(super) type WritingPrepared =
    Writing<std::vec::IntoIter<(UniqueEntry, Key)>, Flat<Option<Key>>, Flat<Option<Row>>>;

impl WritingPrepared {
    pub fn of(overlay: Overlay, left: Vec<(UniqueEntry, Key)>) -> WritingPrepared {
        let Overlay { rows, homes, kept, entered, .. } = overlay;
        let (homes, rows) = (Flat::of(homes), Flat::of(rows));
        Writing { left: left.into_iter(), kept, homes, rows, entered, written: Vec::new() }
    }
}

/// The entries of maps by table or index, one after another.
pub(super) struct Flat<V> {
    tables: btree_map::IntoIter<TableId, BTreeMap<Key, V>>,
    current: Option<(TableId, btree_map::IntoIter<Key, V>)>,
}

impl<V> Flat<V> {
    fn of(maps: BTreeMap<TableId, BTreeMap<Key, V>>) -> Flat<V> {
        Flat { tables: maps.into_iter(), current: None }
    }
}

impl<V> Iterator for Flat<V> {
    type Item = ((TableId, Key), V);

    fn next(&mut self) -> Option<((TableId, Key), V)> {
        loop {
            if let Some((table, entries)) = &mut self.current
                && let Some((key, value)) = entries.next()
            {
                return Some(((*table, key), value));
            }
            let (table, entries) = self.tables.next()?;
            self.current = Some((table, entries.into_iter()));
        }
    }
}

impl Store {
    /// Begins to write what was computed. `exchange` holds every participant's values.
    pub(super) fn begin_writing(
        &self,
        prepared: Prepared,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> (Vec<StatementResult>, WritingPrepared) {
        let others = exchange.iter().filter(|(partition, _)| **partition != self.partition);
        let others = others.map(|(_, gathered)| match gathered {
            Gathered::Values(values) => values.as_slice(),
            Gathered::Abort(error) => panic!("applied although a participant aborted: {error}"),
        });
        let left: Vec<_> = others.chain([prepared.departures.as_slice()]).flat_map(departures).collect();
        (prepared.results, Writing::of(prepared.overlay, left))
    }

    /// Goes on writing; whether that was all.
    pub(super) fn write_some<L, H, R>(
        &mut self,
        writing: &mut Writing<L, H, R>,
        place: Place,
        mut allowance: Allowance,
    ) -> bool
    where
        L: Iterator<Item = (UniqueEntry, Key)>,
        H: Iterator<Item = (UniqueEntry, Option<Key>)>,
        R: Iterator<Item = ((TableId, Key), Option<Row>)>,
    {
        while !allowance.is_spent() {
            allowance.spend(1);
            if let Some((entry, key)) = writing.left.next() {
                if !writing.kept.contains(&entry) {
                    self.leave_home(entry.0, &entry.1, &key, place);
                }
            } else if let Some(((index, entry), owner)) = writing.homes.next() {
                self.write_home(index, &entry, owner.as_ref(), place);
            } else if let Some(((table, key), row)) = writing.rows.next() {
                allowance.spend(self.table(table).map_or(0, |table| table.indexes.len() as u64));
                if let Wrote::Version(before) = self.write_row(table, &key, row.clone(), place) {
                    writing.written.push(RowWrite { table, key, change: Change::of(before, row) });
                }
            } else if let Some(mut next) = writing.entered.first_entry() {
                let index = *next.key();
                match next.get_mut().entries.pop_first() {
                    Some((entry, key)) => self.write_late(index, &entry, &key, place),
                    None => self.note_entered(index, &next.remove().ranges),
                }
            } else {
                return true;
            }
        }
        false
    }

    /// Writes all of it.
    pub(super) fn write_all<L, H, R>(&mut self, mut writing: Writing<L, H, R>, place: Place) -> Vec<RowWrite>
    where
        L: Iterator<Item = (UniqueEntry, Key)>,
        H: Iterator<Item = (UniqueEntry, Option<Key>)>,
        R: Iterator<Item = ((TableId, Key), Option<Row>)>,
    {
        let is_done = self.write_some(&mut writing, place, Allowance::WHOLE);
        assert!(is_done, "one step is enough");
        writing.written
    }

    /// Removes an entry homed here if it still leads to the row that goes away.
    fn leave_home(&mut self, index: TableId, entry: &Key, key: &Key, place: Place) {
        let owner = self.index(index).and_then(|(_, index)| index.home_owner(entry));
        if owner.as_ref() == Some(key) {
            self.write_home(index, entry, None, place);
        }
    }
}
