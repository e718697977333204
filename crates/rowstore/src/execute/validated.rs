//! Interactive transactions: valid if nothing they read changed since.
//!
//! One that reads or writes much takes several steps, stage by stage.

use super::allowance::BYTES_A_UNIT;
use super::costs::Costs;
use super::declared::{name_of, undeclared_range};
use super::overlay::{Run, complete};
use super::violation::{check_row, conflict, duplicate, is_plainly_right, row_text};
use crate::store::Store;
use crate::table::TableStore;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::{Held, Placement, stale_schema};
use base::txn::{AccessMode, ReadGranule, Validated, ValidatedWrite, WriteKind};
use base::{Datum, Key, Place, Row, TableId};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Where a validated transaction goes on.
#[derive(Default)]
pub(crate) struct ValidatedAt {
    /// Reads that are checked, of all participants.
    reads: usize,
    pub writes: WritesAt,
}

/// Where the writes of a validated transaction go on. Uniqueness holds for the final state: so all writes are looked at
/// first, then unique entries homed here are taken, then every row gives up its unique entries, then every row is put.
#[derive(Default)]
pub(crate) struct WritesAt {
    stage: Stage,
    /// Writes that were looked at.
    seen: usize,
    /// The last row of the stage that is done.
    last: Option<(TableId, Key)>,
    /// How rows end that have to be looked at more than once.
    ends: BTreeMap<(TableId, Key), End>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Look,
    EnterHomes,
    Depart,
    Put,
    Done,
}

impl Stage {
    fn next(self) -> Stage {
        match self {
            Stage::Look => Stage::EnterHomes,
            Stage::EnterHomes => Stage::Depart,
            Stage::Depart => Stage::Put,
            Stage::Put | Stage::Done => Stage::Done,
        }
    }
}

/// How a row ends.
#[derive(Default)]
struct End {
    values: Option<Vec<Datum>>,
    /// The last write of it that concerns this partition, by its number.
    here: Option<usize>,
}

impl Store {
    /// Checks reads, from where it was; whether that was all.
    pub(super) fn check_reads(
        &self,
        run: &mut Run<'_>,
        reads: &[ReadGranule],
        done: &mut usize,
    ) -> SqlResult<bool> {
        while let Some(read) = reads.get(*done) {
            if run.allowance.is_spent() {
                return Ok(false);
            }
            *done += 1;
            if read.partition != self.partition {
                continue;
            }
            run.spend(1);
            if !run.declared.has_range(read.table, &read.range, AccessMode::Read) {
                return Err(undeclared_range(&self.catalog, read.table));
            }
            self.check_read(read)?;
        }
        Ok(true)
    }

    /// Whether nothing of what was read here has changed up to now. What was read below what is collected may have.
    pub fn is_unchanged(&self, read: &ReadGranule) -> bool {
        // Not by way of an error: its text would cost more than the look.
        read.at >= self.collected_below && self.changed_since(read).is_some_and(|(_, newer)| newer.is_none())
    }

    /// The table of what was read, and what of it has changed since, with where; `None`: there is no such table any more.
    fn changed_since(&self, read: &ReadGranule) -> Option<(&TableStore, Option<(Key, Place)>)> {
        let table = self.table(read.table).or_else(|| self.index(read.table).map(|(table, _)| table))?;
        let cut = Place::end_of(read.at);
        let newer = match &read.columns {
            Some(columns) if table.desc.id == read.table => table.differs_since(&read.range, columns, cut),
            _ => self.newer_than(read.table, &read.range, cut),
        };
        Some((table, newer))
    }

    fn check_read(&self, read: &ReadGranule) -> SqlResult<()> {
        let read_at = read.at;
        if read_at < self.collected_below {
            // Deletions may have been forgotten: "unchanged" could not be told from "deleted".
            return Err(SqlError::new(
                SqlState::SERIALIZATION_FAILURE,
                "could not serialize access: the transaction's snapshot is too old",
            )
            .detail(format!(
                "It was read at rank {read_at}; at partition {} versions below rank {} are collected.",
                self.partition, self.collected_below
            ))
            .hint("Retry the transaction."));
        }
        let (table, newer) = self.changed_since(read).ok_or_else(stale_schema)?;
        match newer {
            None => Ok(()),
            Some((key, by)) => {
                let what = if table.desc.id == read.table {
                    row_text(&table.desc, &key, table.rows.slot(&key).and_then(|slot| slot.last_seen()))
                } else {
                    format!("entry {key:?} of {}", name_of(&self.catalog, read.table))
                };
                Err(conflict(&table.desc, &what, by, read_at))
            }
        }
    }
}

impl<'a> Run<'a> {
    /// Checks reads, then takes writes, from where it was; whether that was all.
    pub(super) fn validate(&mut self, validated: &Validated, at: &mut ValidatedAt) -> SqlResult<bool> {
        let store = self.store;
        Ok(store.check_reads(self, &validated.reads, &mut at.reads)?
            && self.take_writes(&validated.writes, &mut at.writes)?)
    }

    /// Takes all writes.
    pub(super) fn take_all(&mut self, writes: &[ValidatedWrite]) -> SqlResult<()> {
        let is_done = self.take_writes(writes, &mut WritesAt::default())?;
        assert!(is_done, "one step is enough");
        Ok(())
    }

    /// Takes writes, from where it was; whether that was all.
    pub(super) fn take_writes(&mut self, writes: &[ValidatedWrite], at: &mut WritesAt) -> SqlResult<bool> {
        while at.stage != Stage::Done {
            let is_over = match at.stage {
                Stage::Look => self.look_at(writes, at)?,
                stage => self.go_through(stage, writes, at)?,
            };
            if !is_over {
                return Ok(false);
            }
            at.stage = at.stage.next();
            at.last = None;
        }
        Ok(true)
    }

    /// Finds out how rows end. What has neither indexes nor checks is put at once.
    fn look_at(&mut self, writes: &[ValidatedWrite], at: &mut WritesAt) -> SqlResult<bool> {
        let mut costs = Costs::default();
        while let Some(write) = writes.get(at.seen) {
            if self.allowance.is_spent() {
                return Ok(false);
            }
            let nth = at.seen;
            at.seen += 1;
            let table = self.find(write.table);
            let Some(table) = table.filter(|t| t.desc.version == write.schema_version) else {
                return Err(stale_schema());
            };
            self.allowance
                .spend(costs.of(table) + write.row.as_ref().map_or(0, Row::len) as u64 / BYTES_A_UNIT);
            if let Some(row) = &write.row
                && table.desc.key_of_row(row) != write.key
            {
                return Err(SqlError::internal(format!("a row of {} under another key", table.desc.name)));
            }
            let is_here = write.partition == self.store.partition
                || matches!(table.desc.placement, Placement::Replicated);
            // Without indexes and checks the values are not needed.
            if let Some(row) = write.row.as_ref().filter(|_| table.indexes.is_empty())
                && is_plainly_right(&table.desc, row)
            {
                if is_here {
                    self.put_plainly(table, write, row)?;
                }
                continue;
            }
            let values = write.row.as_ref().map(|row| complete(table, row)).transpose()?;
            // A row that moves to another partition is removed there and put here: it ends as it is put.
            let end = at.ends.entry((write.table, write.key.clone())).or_default();
            end.values = end.values.take().or(values);
            if is_here {
                end.here = Some(nth);
            }
        }
        Ok(true)
    }

    fn put_plainly(&mut self, table: &'a TableStore, write: &ValidatedWrite, row: &Row) -> SqlResult<()> {
        let before: Option<Row> = self.stored(table, &write.key).cloned();
        if write.kind == WriteKind::Insert && before.is_some() {
            return Err(duplicate(&table.desc, None, &complete(table, row)?));
        }
        self.put(table, write.key.clone(), before.as_ref(), Some((row.clone(), &[])))
    }

    /// Goes on with a stage that looks at the ends of rows, in their order.
    fn go_through(&mut self, stage: Stage, writes: &[ValidatedWrite], at: &mut WritesAt) -> SqlResult<bool> {
        let WritesAt { last, ends, .. } = at;
        let from = last.take().map_or(Bound::Unbounded, Bound::Excluded);
        for (row @ (id, key), end) in ends.range((from, Bound::Unbounded)) {
            let table = self.find(*id).expect("it was looked at");
            self.spend(1 + table.indexes.len() as u64);
            let here = end.here.map(|nth| &writes[nth]);
            match (stage, here) {
                (Stage::EnterHomes, _) => self.enter_homes(table, key, end, ends)?,
                (Stage::Depart, Some(write)) => self.check_and_depart(table, write, end)?,
                (Stage::Put, Some(write)) => self.put_end(table, write, end)?,
                _ => {}
            }
            if self.allowance.is_spent() {
                *last = Some(row.clone());
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn enter_homes(
        &mut self,
        table: &TableStore,
        key: &Key,
        end: &End,
        ends: &BTreeMap<(TableId, Key), End>,
    ) -> SqlResult<()> {
        let Some(values) = &end.values else { return Ok(()) };
        let id = table.desc.id;
        for index in table.indexes.iter().filter(|index| !index.local) {
            let entry = |values: &[Datum], key: &Key| table.desc.index_entry(&index.desc, values, key);
            let entered = entry(values, key);
            let leaves = |owner: &Key| {
                let end = ends.get(&(id, owner.clone()));
                end.is_some_and(|end| end.values.as_ref().is_none_or(|v| entry(v, owner) != entered))
            };
            self.enter_home(table, index, values, key, leaves)?;
        }
        Ok(())
    }

    fn check_and_depart(&mut self, table: &TableStore, write: &ValidatedWrite, end: &End) -> SqlResult<()> {
        let values = write.row.as_ref().and(end.values.as_deref());
        if let Some(values) = values {
            // Statements have held against every check what they wrote. What a change of the schema writes anew was there
            // before those that are not validated.
            let held = if self.changed.is_some() { Held::ToValidated } else { Held::ToAll };
            check_row(&table.desc, values, held)?;
            if write.kind == WriteKind::Insert && self.stored(table, &write.key).is_some() {
                return Err(duplicate(&table.desc, None, values));
            }
        }
        self.depart(table, &write.key, values);
        Ok(())
    }

    fn put_end(&mut self, table: &'a TableStore, write: &ValidatedWrite, end: &End) -> SqlResult<()> {
        let before: Option<Row> = self.stored(table, &write.key).cloned();
        let values = end.values.as_deref();
        let after = write.row.clone().map(|row| (row, values.expect("a row has values")));
        match before.is_some() || after.is_some() {
            true => self.put(table, write.key.clone(), before.as_ref(), after),
            false => Ok(()),
        }
    }

    /// A row that changes gives up the unique entries that its new state does not have.
    fn depart(&mut self, table: &TableStore, key: &Key, after: Option<&[Datum]>) {
        let Some(before) = self.stored(table, key) else { return };
        for index in table.indexes.iter().filter(|index| index.desc.unique && index.local) {
            let old = table.desc.index_entry_of_row(&index.desc, before, key);
            let new = after.map(|values| table.desc.index_entry(&index.desc, values, key));
            if index.has_single_owner(&old)
                && new.as_ref() != Some(&old)
                && self.unique_owner(index, &old).as_ref() == Some(key)
            {
                self.prepared.overlay.owners.entry(index.desc.id).or_default().insert(old, None);
            }
        }
    }
}
