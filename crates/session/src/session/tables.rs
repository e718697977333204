//! Statements that name tables and leave them as they are: LOCK TABLE, VACUUM, ANALYZE.

use super::Session;
use crate::response::Response;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::roles::{Object, Privileges};
use sql::names;
use sqlparser::ast;

impl Session {
    /// Errors: 42P01.
    pub(super) fn has_relation(&self, name: &ast::ObjectName) -> SqlResult<()> {
        let (catalog, path) = (self.catalog(), &self.settings.search_path);
        match names::find_relation(&catalog, path, &self.database, name) {
            Some(_) => Ok(()),
            None if names::parts(name)?.first().is_some_and(|part| part.starts_with("pg_")) => Ok(()),
            None => names::find_table(&catalog, path, &self.database, name).map(|_| ()),
        }
    }

    /// ACCESS SHARE asks that nobody drops a table that is being read. A block reads at its cut, and fails rather than
    /// reads something else; so there is nothing to lock. Errors: 0A000 for all other modes.
    pub(super) fn run_lock(&mut self, lock: &ast::Lock) -> SqlResult<Response> {
        if self.transaction.as_ref().is_none_or(|t| t.is_implicit) {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        if !matches!(lock.lock_mode, Some(ast::LockTableMode::AccessShare)) {
            let mode = lock.lock_mode.as_ref().map_or("ACCESS EXCLUSIVE".to_string(), ToString::to_string);
            return Err(SqlError::unsupported(format!("LOCK TABLE in {mode} mode")).hint(
                "Transactions are serializable without it; SELECT … FOR UPDATE makes others wait for rows.",
            ));
        }
        let (catalog, path) = (self.catalog(), &self.settings.search_path);
        let standing = self.standing();
        for target in &lock.tables {
            self.has_relation(&target.name)?;
            let found = names::find_relation(&catalog, path, &self.database, &target.name);
            let Some(shape) = found.map(base::views::Relation::shape) else { continue };
            let rights = catalog.roles.rights(&standing, &Object::Relation(shape.id)).held;
            let enough = Privileges::SELECT
                | Privileges::INSERT
                | Privileges::UPDATE
                | Privileges::DELETE
                | Privileges::TRUNCATE;
            if !standing.is_superuser && (rights & enough).is_empty() {
                return Err(sql::privileges::denied(sql::privileges::kind(shape), &shape.name));
            }
        }
        Ok(Response::Command("LOCK TABLE".into()))
    }
}
