//! Prepared statements: how they are made, and those that a session keeps under names.

use super::programs::Programs;
use super::trees::kept_bytes;
use super::{Prepared, Session};
use crate::gateway::Gateway;
use analytics::RowsMemory;
use analytics::activity::Opened;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sql::interrupt;
use sql::types::ParameterType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Statements that a session may keep under names, and bytes of their texts.
const PREPARED_MAX: usize = 5_000;
const PREPARED_BYTES_MAX: usize = 8 << 20;
/// What plans of named statements take up to here counts for no memory of queries: what drivers keep is never refused.
const PLANS_FREE_BYTES: usize = 32 << 20;

/// What a session keeps.
#[derive(Default)]
pub(super) struct Stored {
    statements: BTreeMap<String, Arc<Prepared>>,
    /// Bytes of the texts of named ones.
    bytes: usize,
    plans: Plans,
    /// Functions in PL/pgSQL that it has called.
    pub programs: Programs,
}

/// What plans of named statements take. KEEPS: what they take beyond [`PLANS_FREE_BYTES`] is reserved.
#[derive(Default)]
struct Plans {
    bytes: usize,
    reserved: Option<RowsMemory>,
}

impl Plans {
    /// Errors: 53200.
    fn add(&mut self, bytes: usize, gateway: &Gateway) -> SqlResult<()> {
        let total = self.bytes + bytes;
        if total > PLANS_FREE_BYTES {
            let memory = self.reserved.get_or_insert_with(|| gateway.rows_memory("prepared statements"));
            memory.grow((total - PLANS_FREE_BYTES).saturating_sub(memory.bytes()))?;
        }
        self.bytes = total;
        Ok(())
    }

    fn remove(&mut self, bytes: usize) {
        self.bytes -= bytes;
        if let Some(memory) = &self.reserved {
            memory.shrink(memory.bytes().saturating_sub(self.bytes.saturating_sub(PLANS_FREE_BYTES)));
        }
    }
}

impl Session {
    /// Parses and plans one statement. `hints` are the types the client declared, `None` where it
    /// left them open; the answer has all of them. Errors: everything that can be known before the
    /// parameters are; inside a failed transaction 25P02.
    pub async fn prepare(&mut self, sql: &str, hints: &[Option<ParameterType>]) -> SqlResult<Arc<Prepared>> {
        let cancel = self.cancel.clone();
        cancel.begin(self.settings.statement_timeout_ms);
        let gateway = self.gateway.clone();
        let result = self.reserve_tree(sql).and_then(|()| {
            interrupt::for_text(gateway.threads(), &cancel, sql.len(), || self.prepare_now(sql, hints))
        });
        cancel.hold(None);
        if result.is_err() {
            self.note_failure();
        }
        result
    }

    fn prepare_now(&mut self, sql: &str, hints: &[Option<ParameterType>]) -> SqlResult<Arc<Prepared>> {
        let sql::parse::Request { mut statements, notices } = sql::parse::request(sql)?;
        self.tell_cut(notices);
        if statements.len() > 1 {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let statement = statements.pop();
        self.look_up_catalog();
        if let Some(statement) = &statement {
            self.refuse_if_failed(statement)?;
        }
        Prepared::new(self, sql, statement, hints).map(Arc::new)
    }

    /// Keeps a statement under a name ("" is the unnamed one); EXECUTE and DEALLOCATE see it too.
    /// Errors: 42P05 if a named one exists; 53200, 53400.
    pub fn store(&mut self, name: &str, prepared: Arc<Prepared>) -> SqlResult<()> {
        if !name.is_empty() && self.prepared.statements.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        if !name.is_empty() {
            let bytes = self.prepared.bytes + prepared.sql.len();
            if self.prepared.statements.len() >= PREPARED_MAX || bytes > PREPARED_BYTES_MAX {
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
            self.prepared.plans.add(kept_bytes(&prepared.sql), &self.gateway)?;
            self.prepared.bytes = bytes;
        }
        self.prepared.statements.insert(name.into(), prepared);
        Ok(())
    }

    /// A statement by name. Errors: 26000.
    pub fn stored(&self, name: &str) -> SqlResult<Arc<Prepared>> {
        self.prepared.statements.get(name).cloned().ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    /// Forgets a statement, if there is one.
    pub fn forget(&mut self, name: &str) {
        if let Some(forgotten) = self.prepared.statements.remove(name).filter(|_| !name.is_empty()) {
            self.prepared.bytes -= forgotten.sql.len();
            self.prepared.plans.remove(kept_bytes(&forgotten.sql));
        }
    }

    /// Says what this session has open, if its queries ask for that.
    pub(super) fn show_opened(&self) {
        if !self.activity.asks_what_is_open() {
            return;
        }
        let named = self.prepared.statements.iter().filter(|(name, _)| !name.is_empty());
        *self.activity.opened() = Opened {
            cursors: self.cursors.iter().map(|(name, cursor)| cursor.row(name)).collect(),
            prepared: named.map(|(name, prepared)| prepared.row(name)).collect(),
        };
    }

    pub(super) fn forget_all(&mut self) {
        self.prepared = Stored::default();
    }
}
