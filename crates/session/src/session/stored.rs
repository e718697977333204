//! Prepared statements that a session keeps under names.

use super::{Prepared, Session};
use base::SqlError;
use base::error::{SqlResult, SqlState};
use std::sync::Arc;

/// Statements that a session may keep under names, and bytes of their texts.
const PREPARED_MAX: usize = 5_000;
const PREPARED_BYTES_MAX: usize = 8 << 20;

impl Session {
    /// Keeps a statement under a name ("" is the unnamed one); EXECUTE and DEALLOCATE see it too.
    /// Errors: 42P05 if a named one exists.
    pub fn store(&mut self, name: &str, prepared: Arc<Prepared>) -> SqlResult<()> {
        if !name.is_empty() && self.prepared.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        if !name.is_empty() {
            let bytes = self.prepared_bytes + prepared.sql.len();
            if self.prepared.len() >= PREPARED_MAX || bytes > PREPARED_BYTES_MAX {
                return Err(SqlError::new(
                    SqlState::CONFIGURATION_LIMIT_EXCEEDED,
                    "too many prepared statements",
                )
                .detail(format!(
                    "One session may keep {PREPARED_MAX} statements under names, of {PREPARED_BYTES_MAX} bytes of \
                     text together."
                ))
                .hint("DEALLOCATE those that are not needed any more."));
            }
            self.prepared_bytes = bytes;
        }
        self.prepared.insert(name.into(), prepared);
        Ok(())
    }

    /// A statement by name. Errors: 26000.
    pub fn stored(&self, name: &str) -> SqlResult<Arc<Prepared>> {
        self.prepared.get(name).cloned().ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    /// Forgets a statement, if there is one.
    pub fn forget(&mut self, name: &str) {
        let forgotten = self.prepared.remove(name).filter(|_| !name.is_empty());
        self.prepared_bytes -= forgotten.map_or(0, |prepared| prepared.sql.len());
    }

    pub(super) fn forget_all(&mut self) {
        self.prepared.clear();
        self.prepared_bytes = 0;
    }
}
