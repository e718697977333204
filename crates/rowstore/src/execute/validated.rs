//! Interactive transactions: valid if nothing they read changed since.

use super::Prepared;
use super::declared::{name_of, undeclared_range};
use super::overlay::{Run, complete};
use super::violation::{check_row, conflict, duplicate, is_plainly_right, row_text};
use crate::store::{Store, TableStore};
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::{Placement, stale_schema};
use base::txn::{AccessMode, ReadGranule, Transaction, Validated, ValidatedWrite, WriteKind};
use base::{Datum, Key, Place, Row, TableId};
use std::collections::BTreeMap;

impl Store {
    pub(super) fn validate(&self, transaction: &Transaction, validated: &Validated) -> SqlResult<Prepared> {
        let mut run = Run::new(self, transaction);
        self.check_reads(&run, &validated.reads)?;
        run.take_writes(&validated.writes)?;
        Ok(run.prepared)
    }

    pub(super) fn check_reads(&self, run: &Run<'_>, reads: &[ReadGranule]) -> SqlResult<()> {
        for read in reads.iter().filter(|read| read.partition == self.partition) {
            if !run.declared.has_range(read.table, &read.range, AccessMode::Read) {
                return Err(undeclared_range(&self.catalog, read.table));
            }
            self.check_read(read)?;
        }
        Ok(())
    }

    /// Whether nothing of what was read here has changed up to now. What was read below what is collected may have.
    pub fn is_unchanged(&self, read: &ReadGranule) -> bool {
        self.check_read(read).is_ok()
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
        let table = self.table(read.table).or_else(|| self.index(read.table).map(|(table, _)| table));
        let table = table.ok_or_else(stale_schema)?;
        let cut = Place::end_of(read_at);
        let newer = match &read.columns {
            Some(columns) if table.desc.id == read.table => table.differs_since(&read.range, columns, cut),
            _ => self.newer_than(read.table, &read.range, cut),
        };
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
    pub(super) fn take_writes(&mut self, writes: &'a [ValidatedWrite]) -> SqlResult<()> {
        // Uniqueness holds for the final state: all entries are removed before any is added.
        let mut ends: BTreeMap<(TableId, &Key), Option<Vec<Datum>>> = BTreeMap::new();
        let mut here: BTreeMap<(TableId, &Key), &ValidatedWrite> = BTreeMap::new();
        let mut plain = Vec::new();
        let partition = self.store.partition;
        let is_here = |table: &TableStore, write: &ValidatedWrite| {
            write.partition == partition || matches!(table.desc.placement, Placement::Replicated)
        };
        for write in writes {
            let table = self.find(write.table);
            let Some(table) = table.filter(|t| t.desc.version == write.schema_version) else {
                return Err(stale_schema());
            };
            if let Some(row) = &write.row
                && table.desc.key_of_row(row) != write.key
            {
                return Err(SqlError::internal(format!("a row of {} under another key", table.desc.name)));
            }
            let is_here = is_here(table, write);
            // Without indexes and checks the values are not needed.
            if let Some(row) = write.row.as_ref().filter(|_| table.indexes.is_empty())
                && is_plainly_right(&table.desc, row)
            {
                if is_here {
                    plain.push((table, write));
                }
                continue;
            }
            let values = write.row.as_ref().map(|row| complete(table, row)).transpose()?;
            // A row that moves to another partition is removed there and put here: it ends as it is put.
            let end = ends.entry((write.table, &write.key)).or_default();
            *end = end.take().or(values);
            if is_here {
                here.insert((write.table, &write.key), write);
            }
        }
        for (table, write) in plain {
            let before: Option<Row> = self.stored(table, &write.key).cloned();
            if write.kind == WriteKind::Insert && before.is_some() {
                let values = complete(table, write.row.as_ref().expect("a plain write has a row"))?;
                return Err(duplicate(&table.desc, None, &values));
            }
            let after = write.row.clone().map(|row| (row, &[][..]));
            self.put(table, write.key.clone(), before.as_ref(), after)?;
        }
        for ((id, key), values) in &ends {
            let table = self.find(*id).expect("seen above");
            let Some(values) = values else { continue };
            for index in table.indexes.iter().filter(|index| !index.local) {
                let entry = |values: &[Datum], key: &Key| table.desc.index_entry(&index.desc, values, key);
                let entered = entry(values, key);
                let leaves = |owner: &Key| {
                    let end = ends.get(&(*id, owner));
                    end.is_some_and(|end| end.as_ref().is_none_or(|v| entry(v, owner) != entered))
                };
                self.enter_home(table, index, values, key, leaves)?;
            }
        }
        // First every departure, then every arrival.
        for ((id, key), write) in &here {
            let table = self.find(*id).expect("seen above");
            let values = write.row.as_ref().and(ends[&(*id, *key)].as_deref());
            if let Some(values) = values {
                check_row(&table.desc, values)?;
                if write.kind == WriteKind::Insert && self.stored(table, key).is_some() {
                    return Err(duplicate(&table.desc, None, values));
                }
            }
            self.depart(table, key, values);
        }
        for ((id, key), write) in &here {
            let table = self.find(*id).expect("seen above");
            let before: Option<Row> = self.stored(table, key).cloned();
            let values = ends[&(*id, *key)].as_deref();
            let after = write.row.clone().map(|row| (row, values.expect("a row has values")));
            if before.is_some() || after.is_some() {
                self.put(table, (*key).clone(), before.as_ref(), after)?;
            }
        }
        Ok(())
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
