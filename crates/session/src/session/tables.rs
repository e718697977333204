//! Statements that name tables and leave them as they are: LOCK TABLE, VACUUM, ANALYZE, REINDEX, CLUSTER.

use super::Session;
use super::timeouts::for_lock;
use crate::locks::RowLocks;
use crate::response::Response;
use base::error::{SqlResult, SqlState};
use base::key::KeyRange;
use base::roles::{Object, Privileges};
use base::schema::{AccessMethod, Table};
use base::txn::Isolation;
use base::views::Relation;
use base::{Key, SqlError, TableId};
use sql::parse::{Cluster, Indexed, Reindex};
use sql::{names, temporary};
use sqlparser::ast::{self, LockTableMode};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Session {
    /// Errors: 42P01.
    pub(super) fn has_relation(&self, name: &ast::ObjectName) -> SqlResult<()> {
        let (catalog, path) = (self.catalog(), &self.settings.search_path);
        match names::find_relation(&catalog, path, &self.database.name, name) {
            Some(_) => Ok(()),
            None if names::parts(name)?.first().is_some_and(is_of_catalog) => Ok(()),
            None => names::find_table(&catalog, path, &self.database.name, name).map(|_| ()),
        }
    }

    /// VACUUM, and what stands for another statement of maintenance. Errors: 42P01, 25001 for one of several, and those of REINDEX.
    pub(super) fn run_vacuum(&self, vacuum: &ast::VacuumStatement) -> SqlResult<Response> {
        if let Some(reindex) = vacuum.table_name.as_ref().and_then(sql::parse::reindex) {
            return self.run_reindex(&reindex);
        }
        if let Some(cluster) = vacuum.table_name.as_ref().and_then(sql::parse::cluster) {
            return self.run_cluster(&cluster);
        }
        self.refuse_in_block("VACUUM")?;
        vacuum.table_name.iter().try_for_each(|name| self.has_relation(name))?;
        Ok(Response::Command("VACUUM".into()))
    }

    /// REINDEX: entries are never wrong, so there is nothing to make anew. Errors: 42P01, 42809, 3F000, 42501 for what is not
    /// the role's own, 25001 for what PostgreSQL runs outside of transactions alone.
    fn run_reindex(&self, reindex: &Reindex) -> SqlResult<Response> {
        let is_alone = match reindex.what {
            _ if reindex.is_concurrent => Some("CONCURRENTLY"),
            Indexed::Index | Indexed::Table => None,
            what => Some(what.word()),
        };
        let is_in_block = self.transaction.as_ref().is_some_and(|t| !t.is_implicit);
        if let Some(word) = is_alone.filter(|_| is_in_block) {
            let told = format!("REINDEX {word} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, told));
        }
        let catalog = self.catalog();
        let (object, shown) = match reindex.what {
            Indexed::Index => self.reindexed_index(&reindex.name)?,
            Indexed::Table => self.reindexed_table(&reindex.name)?,
            Indexed::Schema => {
                let name = names::parts(&reindex.name)?.join(".");
                if !catalog.schemas.contains(&name) {
                    let told = format!("schema \"{name}\" does not exist");
                    return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, told));
                }
                (Object::Schema(name.clone()), format!("schema {name}"))
            }
            Indexed::Database | Indexed::System => {
                let name = names::parts(&reindex.name)?.join(".");
                if name != self.database.name {
                    let told = "can only reindex the currently open database";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
                }
                (Object::Database(self.database.id), format!("database {name}"))
            }
        };
        match catalog.roles.owns(&self.standing(), &object) {
            true => Ok(Response::Command("REINDEX".into())),
            false => {
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of {shown}")))
            }
        }
    }

    /// CLUSTER: rows are in the order of the primary key, and stay so. Errors: 42P01, 42704, 42809, 42501, 0A000 for an index
    /// that PostgreSQL cannot order rows by, 25001 for what it runs outside of transactions alone.
    fn run_cluster(&self, cluster: &Cluster) -> SqlResult<Response> {
        let Some(name) = &cluster.table else {
            self.refuse_in_block("CLUSTER")?;
            return Ok(Response::Command("CLUSTER".into()));
        };
        let (object, shown) = self.reindexed_table(name)?;
        let catalog = self.catalog();
        let Object::Relation(id) = object else {
            return Err(SqlError::internal("a table is a relation"));
        };
        let table = sql::partitions::root(&catalog, id).or_else(|| catalog.table(id));
        let table = table.ok_or_else(|| SqlError::internal("it has been found"))?;
        if table.id == id && table.partitioning.is_some() {
            self.refuse_in_block("CLUSTER")?;
        }
        if !catalog.roles.owns(&self.standing(), &object) {
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of {shown}")));
        }
        cluster.index.as_ref().map_or(Ok(()), |index| can_order(table, index))?;
        Ok(Response::Command("CLUSTER".into()))
    }

    fn reindexed_table(&self, name: &ast::ObjectName) -> SqlResult<(Object, String)> {
        let (catalog, path) = (self.catalog(), &self.settings.search_path);
        let found = names::find_relation(&catalog, path, &self.database.name, name).map(Relation::shape);
        if let Some(shape) = found.filter(|shape| sql::partitions::partition(&catalog, shape.id).is_some()) {
            return Ok((Object::Relation(shape.id), format!("table {}", shape.name)));
        }
        match names::find_table(&catalog, path, &self.database.name, name) {
            Ok(table) => Ok((Object::Relation(table.id), format!("table {}", table.name))),
            Err(missing) => {
                let word = names::parts(name)?.pop().unwrap_or_default();
                let is_other = names::find_relation(&catalog, path, &self.database.name, name).is_some()
                    || self.reindexed_index(name).is_ok();
                let told = format!("\"{word}\" is not a table or materialized view");
                Err(if is_other { SqlError::new(SqlState(*b"42809"), told) } else { missing })
            }
        }
    }

    /// The table of an index, whose owner is the index's.
    fn reindexed_index(&self, name: &ast::ObjectName) -> SqlResult<(Object, String)> {
        let catalog = self.catalog();
        let (schema, word) = names::qualified(name, &self.database.name)?;
        let schemas = schema.map_or_else(|| self.settings.search_path.clone(), |schema| vec![schema]);
        let has_it = |table: &&Arc<Table>| {
            let is_key = table.primary_key_name == word && !table.columns[table.primary_key[0]].hidden;
            schemas.contains(&table.schema) && (is_key || table.indexes.iter().any(|i| i.name == word))
        };
        if let Some(table) = catalog.tables.values().find(has_it) {
            return Ok((Object::Relation(table.id), format!("index {word}")));
        }
        let is_other = names::find_relation(&catalog, &schemas, &self.database.name, name).is_some();
        Err(match is_other {
            true => SqlError::new(SqlState(*b"42809"), format!("\"{word}\" is not an index")),
            false => SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{word}\" does not exist")),
        })
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
        let open = self.open();
        open.reading.wants_cut = !open.stays_at_its_cut();
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
            let found = names::find_relation(&catalog, path, &self.database.name, &target.name);
            let Some(shape) = found.map(base::views::Relation::shape) else { continue };
            let rights = catalog.roles.rights(&standing, &Object::Relation(shape.id)).held;
            if !standing.is_superuser && (rights & enough).is_empty() {
                return Err(sql::privileges::denied(sql::privileges::kind(&catalog, shape), &shape.name));
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

/// Errors: 42704, 0A000 for an index that CLUSTER cannot order a table by.
fn can_order(table: &Table, index: &str) -> SqlResult<()> {
    let is_key = index == table.primary_key_name && !table.columns[table.primary_key[0]].hidden;
    if is_key {
        return Ok(());
    }
    let Some(found) = table.indexes.iter().find(|known| known.name == index) else {
        let told = format!("index \"{index}\" for table \"{}\" does not exist", table.name);
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told));
    };
    let told = match (&found.form.predicate, found.form.method) {
        (Some(_), _) => format!("cannot cluster on partial index \"{index}\""),
        (None, AccessMethod::Btree | AccessMethod::Gist) => return Ok(()),
        (None, _) => {
            let why = "access method does not support clustering";
            format!("cannot cluster on index \"{index}\" because {why}")
        }
    };
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told))
}
