//! Statements that name tables and leave them as they are: LOCK TABLE, VACUUM, ANALYZE.

use super::Session;
use super::timeouts::for_lock;
use crate::locks::RowLocks;
use crate::response::Response;
use base::error::{SqlResult, SqlState};
use base::key::KeyRange;
use base::roles::{Object, Privileges};
use base::schema::Table;
use base::txn::Isolation;
use base::{Key, SqlError, TableId};
use sql::{names, temporary};
use sqlparser::ast::{self, LockTableMode};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Session {
    /// Errors: 42P01.
    pub(super) fn has_relation(&self, name: &ast::ObjectName) -> SqlResult<()> {
        let (catalog, path) = (self.catalog(), &self.settings.search_path);
        match names::find_relation(&catalog, path, &self.database, name) {
            Some(_) => Ok(()),
            None if names::parts(name)?.first().is_some_and(is_of_catalog) => Ok(()),
            None => names::find_table(&catalog, path, &self.database, name).map(|_| ()),
        }
    }

    /// LOCK TABLE. Modes that exclude no writer ask that nobody drops or alters the table meanwhile: a transaction fails
    /// rather than uses a table that was altered, so there is nothing to do for them. SHARE and what is stronger exclude
    /// writers: COMMIT finds all rows unchanged since the lock, or fails; those who want to lock rows here wait. Nobody
    /// waits to read, in any mode: in the serial order a reader comes before the transaction.
    ///
    /// Errors: 55P03, 42501, 42P01, and 0A000 where nothing that is read is validated.
    pub(super) async fn run_lock(&mut self, lock: &ast::Lock) -> SqlResult<Response> {
        let Some(open) = self.transaction.as_ref().filter(|t| !t.is_implicit) else {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        };
        let mode = lock.lock_mode.as_ref().unwrap_or(&LockTableMode::AccessExclusive);
        let validates = open.reading.level == Isolation::Serializable;
        let tables = self.locked_tables(lock, mode)?;
        if !excludes_writers(mode) {
            return Ok(Response::Command("LOCK TABLE".into()));
        }
        if !validates {
            let told = format!("LOCK TABLE in {mode} mode below isolation level SERIALIZABLE");
            let hint = "BEGIN ISOLATION LEVEL SERIALIZABLE: only there COMMIT asks whether rows that were read have changed.";
            return Err(SqlError::unsupported(told).hint(hint));
        }
        for table in &tables {
            self.lock_table(table, lock.nowait).await?;
        }
        // What was written before the lock is seen behind it.
        self.open().reading.wants_cut = true;
        let at = self.pinned().await?.1;
        let topology = self.cluster().topology().clone();
        for table in &tables {
            for partition in table.partitions(&topology) {
                self.open().record_kept(partition, table.id, KeyRange::all(), at);
            }
        }
        Ok(Response::Command("LOCK TABLE".into()))
    }

    /// Has those wait who want to lock rows of the table here.
    async fn lock_table(&mut self, table: &Table, at_once: bool) -> SqlResult<()> {
        let lock_ms = self.settings.timeouts.lock_ms;
        let locks = self.gateway.locks.clone();
        let locks = self.open().locks.get_or_insert_with(|| RowLocks::new(locks));
        if !at_once {
            return for_lock(lock_ms, locks.lock_whole(table.id)).await;
        }
        match locks.try_lock(table.id, &Key::new()) {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::LOCK_NOT_AVAILABLE,
                format!("could not obtain lock on relation \"{}\"", table.name),
            )),
        }
    }

    /// The tables that are named, and those that views among them read. Errors: 42P01, 42501.
    fn locked_tables(&self, lock: &ast::Lock, mode: &LockTableMode) -> SqlResult<Vec<Arc<Table>>> {
        let (catalog, path) = (self.catalog(), &self.settings.search_path);
        let standing = self.standing();
        let changes = Privileges::UPDATE | Privileges::DELETE | Privileges::TRUNCATE;
        let enough = match mode {
            LockTableMode::AccessShare => changes | Privileges::INSERT | Privileges::SELECT,
            LockTableMode::RowExclusive => changes | Privileges::INSERT,
            _ => changes,
        };
        let mut named = Vec::new();
        for target in &lock.tables {
            self.has_relation(&target.name)?;
            let found = names::find_relation(&catalog, path, &self.database, &target.name);
            let Some(shape) = found.map(base::views::Relation::shape) else { continue };
            let rights = catalog.roles.rights(&standing, &Object::Relation(shape.id)).held;
            if !standing.is_superuser && (rights & enough).is_empty() {
                return Err(sql::privileges::denied(sql::privileges::kind(shape), &shape.name));
            }
            named.push(shape.id);
        }
        let mut tables: BTreeMap<TableId, Arc<Table>> = BTreeMap::new();
        while let Some(id) = named.pop() {
            match catalog.relation(id) {
                Some(base::views::Relation::Table(table)) => drop(tables.insert(id, table.clone())),
                // No view reads itself, however indirectly.
                Some(base::views::Relation::View(view)) => named.extend(view.uses.keys()),
                None => {}
            }
        }
        Ok(tables.into_values().collect())
    }
}

/// Whether a name begins like those of the system catalog.
fn is_of_catalog(part: &String) -> bool {
    part.starts_with("pg_") && part != temporary::ALIAS && !temporary::is_temporary(part)
}

/// Whether nobody else may change rows of a table that is locked so.
fn excludes_writers(mode: &LockTableMode) -> bool {
    use LockTableMode as M;
    match mode {
        M::AccessShare | M::RowShare | M::RowExclusive | M::ShareUpdateExclusive => false,
        M::Share | M::ShareRowExclusive | M::Exclusive | M::AccessExclusive => true,
    }
}
