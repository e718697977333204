//! One client's session: its settings, its transaction, its prepared statements.
//!
//! IN: SQL text and parameters. OUT: [`Response`]s. KEEPS: the next transaction is submitted only
//! after the previous one's reply; the token only grows; after an error inside a transaction block
//! nothing runs until ROLLBACK.

use crate::gateway::Gateway;
use crate::response::{Column, Notice, Response, TransactionStatus};
use base::error::SqlResult;
use base::{DataType, Datum, SqlError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// A parsed statement, its parameters and the shape of its answer.
pub struct Prepared {
    pub sql: String,
    pub parameters: Vec<DataType>,
    /// Columns of the rows it returns; `None` if it returns none.
    pub columns: Option<Arc<Vec<Column>>>,
}

/// Cancels what a session is doing, from anywhere.
#[derive(Clone, Default)]
pub struct CancelHandle(Arc<Cancel>);

#[derive(Default)]
struct Cancel {
    requested: AtomicBool,
    wake: Notify,
}

impl CancelHandle {
    /// Ends the running statement with 57014 (or 08007 if its order had begun); nothing if none runs.
    pub fn cancel(&self) {
        self.0.requested.store(true, Ordering::SeqCst);
        self.0.wake.notify_waiters();
    }
}

/// One client's session.
pub struct Session {
    gateway: Arc<Gateway>,
    cancel: CancelHandle,
}

impl Session {
    pub fn new(gateway: Arc<Gateway>, _user: &str, _database: &str) -> Session {
        Session { gateway, cancel: CancelHandle::default() }
    }

    /// Parses and plans one statement. `hints` are the types the client declared, `None` where it
    /// left them open; the answer has all of them. Errors: everything that can be known before the
    /// parameters are; inside a failed transaction 25P02.
    pub async fn prepare(&mut self, sql: &str, hints: &[Option<DataType>]) -> SqlResult<Arc<Prepared>> {
        let parameters = hints.iter().map(|h| h.unwrap_or(DataType::Text)).collect();
        Ok(Arc::new(Prepared { sql: sql.into(), parameters, columns: None }))
    }

    /// Runs a prepared statement; parameters have the declared types.
    pub async fn execute(
        &mut self,
        prepared: &Arc<Prepared>,
        _parameters: Vec<Datum>,
    ) -> SqlResult<Response> {
        Err(SqlError::unsupported(&prepared.sql))
    }

    /// Keeps a statement under a name ("" is the unnamed one); EXECUTE and DEALLOCATE see it too.
    /// Errors: 42P05 if a named one exists.
    pub fn store(&mut self, _name: &str, _prepared: Arc<Prepared>) -> SqlResult<()> {
        Ok(())
    }
    /// A statement by name. Errors: 26000.
    pub fn stored(&self, name: &str) -> SqlResult<Arc<Prepared>> {
        Err(SqlError::unsupported(name))
    }
    /// Forgets a statement, if there is one.
    pub fn forget(&mut self, _name: &str) {}

    /// Starts a simple query: a text of any number of statements, which are one transaction unless
    /// they say otherwise. Errors: 42601, before anything ran.
    pub fn start_simple(&mut self, sql: &str) -> SqlResult<()> {
        Err(SqlError::unsupported(sql))
    }
    /// Runs the next statement of the simple query; `None` at its end. After an error the rest is
    /// dropped. Read a response to its end (and finish a copy) before asking for the next.
    pub async fn next_simple(&mut self) -> Option<SqlResult<Response>> {
        None
    }
    /// All responses of a simple query.
    pub async fn simple(&mut self, sql: &str) -> Vec<SqlResult<Response>> {
        if let Err(e) = self.start_simple(sql) {
            return vec![Err(e)];
        }
        let mut responses = Vec::new();
        while let Some(response) = self.next_simple().await {
            responses.push(response);
        }
        responses
    }

    /// Data of a COPY FROM STDIN, cut anywhere.
    pub async fn copy_data(&mut self, data: &[u8]) -> SqlResult<()> {
        let _ = data;
        Ok(())
    }
    /// End of a COPY FROM STDIN: its rows are written now.
    pub async fn copy_done(&mut self) -> SqlResult<Response> {
        Err(SqlError::unsupported("COPY"))
    }
    /// The client gave a COPY up: nothing is written. Returns the error to report.
    pub fn copy_fail(&mut self, reason: &str) -> SqlError {
        SqlError::new(base::SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"))
    }

    pub fn transaction_status(&self) -> TransactionStatus {
        TransactionStatus::Idle
    }
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }
    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }
    /// A setting as SHOW prints it.
    pub fn parameter(&self, _name: &str) -> Option<String> {
        None
    }
    /// Sets a parameter of the start-up message.
    pub fn set_parameter(&mut self, _name: &str, _value: &str) -> SqlResult<()> {
        Ok(())
    }
    /// Reported settings (ParameterStatus) that changed since the last call.
    pub fn take_changed_parameters(&mut self) -> Vec<(String, String)> {
        let _ = self.gateway.config.query_threads;
        Vec::new()
    }
    /// Ends the session: rolls back what is open.
    pub async fn close(&mut self) {}
}
