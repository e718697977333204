//! What a transaction has made of rows: since a mark, or altogether.
//!
//! KEEPS: a row that went on under another key is one change, not a row that went and one that came.

use super::content::Buffered;
use super::{Savepoint, Transaction};
use crate::locks::RowLocks;
use base::error::{SqlResult, SqlState};
use base::schema::{Catalog, Table};
use base::{Datum, Key, SqlError, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

type Values = Option<Arc<Vec<Datum>>>;

/// A row as it was and as it is; `None`: it is not there.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    pub table: TableId,
    pub before: Values,
    pub after: Values,
}

/// A row that got another key, and where in the undo log it did.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    at: usize,
    table: TableId,
    from: Key,
    to: Key,
}

/// A point in what it has locked: how many rows here, and whether any elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockMark {
    taken: u64,
    has_remote: bool,
}

/// When deferrable constraints are checked, as far as SET CONSTRAINTS has said so: at COMMIT, or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deferrals {
    pub all: Option<bool>,
    pub named: BTreeMap<(TableId, String), bool>,
}

impl Transaction {
    /// Each table that it has written, as it was then.
    pub(in crate::session) fn tables_written(&self) -> impl Iterator<Item = &Arc<Table>> {
        let first = |from: TableId| self.writes.range((from, Key::new())..).next().map(|(_, b)| &b.table);
        std::iter::successors(first(TableId(0)), move |table| first(TableId(table.id.0 + 1)))
    }

    /// Buffered rows have the columns that their tables had when they were written. A transaction with a catalog of its own
    /// goes on with that. Errors: 40001 if the catalog describes a written table otherwise by now.
    pub fn check_written(&self, known: &Catalog) -> SqlResult<()> {
        if self.catalog.is_some() {
            return Ok(());
        }
        for table in self.tables_written() {
            let what = match known.table(table.id) {
                Some(now) if now.version == table.version => continue,
                Some(_) => "changed",
                None => "dropped",
            };
            let told = format!("the table \"{}\" was {what} while this transaction ran", table.name);
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, told)
                .hint("Run the transaction again.")
                .table(&table.name));
        }
        Ok(())
    }

    /// A point in its writes.
    pub fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Rows that were written since a mark, by their tables and keys.
    pub fn written_since(&self, mark: usize) -> impl Iterator<Item = &(TableId, Key)> {
        self.undo.iter().skip(mark).map(|(at, _, _)| at)
    }

    /// The row with one key goes on under another.
    pub fn note_move(&mut self, table: TableId, from: Key, to: Key) {
        self.moved.push(Moved { at: self.undo.len(), table, from, to });
    }

    /// Rows of the tables that are wanted, as they were at a mark and are now.
    pub fn changes_since(&self, mark: usize, is_wanted: impl Fn(TableId) -> bool) -> Vec<RowChange> {
        let mut rows: BTreeMap<(TableId, Key), (Values, Values)> = BTreeMap::new();
        for (at, before, _) in self.undo.iter().skip(mark) {
            if !is_wanted(at.0) || rows.contains_key(at) {
                continue;
            }
            let now = self.writes.get(at);
            let before = match before {
                Some(buffered) => buffered.values().cloned(),
                None => now.and_then(old_values),
            };
            rows.insert(at.clone(), (before, now.and_then(|b| b.values().cloned())));
        }
        let mut origins: BTreeMap<(TableId, Key), Key> = BTreeMap::new();
        for moved in self.moved.iter().filter(|moved| moved.at >= mark && is_wanted(moved.table)) {
            let first = origins.remove(&(moved.table, moved.from.clone()));
            origins.insert((moved.table, moved.to.clone()), first.unwrap_or_else(|| moved.from.clone()));
        }
        let mut changes = Vec::with_capacity(rows.len());
        for ((table, to), from) in origins {
            let before = rows.get_mut(&(table, from)).and_then(|row| row.0.take());
            let after = rows.get_mut(&(table, to)).and_then(|row| row.1.take());
            changes.push(RowChange { table, before, after });
        }
        let rest = rows.into_iter().map(|((table, _), (before, after))| RowChange { table, before, after });
        changes.extend(rest);
        changes.retain(|change| change.before != change.after);
        changes
    }

    /// Rows of the tables that are wanted, as they were before the transaction and are now. One that has another key now
    /// is a row that went and one that came.
    pub fn changes(&self, is_wanted: impl Fn(TableId) -> bool) -> Vec<RowChange> {
        let written = self.writes.iter().filter(|((table, _), _)| is_wanted(*table));
        let change = |((table, _), buffered): (&(TableId, Key), &Buffered)| RowChange {
            table: *table,
            before: old_values(buffered),
            after: buffered.values().cloned(),
        };
        written.map(change).collect()
    }

    /// Whether a constraint is checked at COMMIT.
    pub fn defers(&self, table: TableId, name: &str, initially: bool) -> bool {
        let named = self.deferrals.named.get(&(table, name.to_string())).copied();
        named.or(self.deferrals.all).unwrap_or(initially)
    }

    pub(super) fn lock_mark(&self) -> LockMark {
        let taken = self.locks.as_ref().map_or(0, RowLocks::taken);
        LockMark { taken, has_remote: self.remote_locks.is_some() }
    }

    /// Others go on with rows that were locked since a savepoint. Homes elsewhere give up all of a transaction's rows or none.
    pub(super) fn release_locks(&mut self, mark: LockMark) {
        if let Some(locks) = &mut self.locks {
            locks.release_since(mark.taken);
        }
        if !mark.has_remote {
            self.remote_locks = None;
        }
    }

    pub(super) fn forget_moves(&mut self, savepoint: &Savepoint) {
        self.moved.retain(|moved| moved.at < savepoint.undo);
        self.deferrals = savepoint.deferrals.clone();
    }
}

fn old_values(buffered: &Buffered) -> Values {
    buffered.old.as_ref().map(|content| content.values(&buffered.table).clone())
}
