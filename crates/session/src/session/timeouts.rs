//! How long a statement, a transaction and a silent client may take, and when they began.
//!
//! The front end asks for deadlines and ends the connection at them; `statement_timeout` and `lock_timeout` end
//! the statement only.

use super::Session;
use base::error::SqlResult;
use base::{SqlError, SqlState};
use sql::lower::bind::Times;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// When a connection ends, and what its client is told.
#[derive(Clone, Debug)]
pub struct Deadline {
    pub at: Instant,
    pub error: SqlError,
}

impl Session {
    /// When the open transaction and the statement began. A statement outside a block is a transaction of its own.
    pub(super) fn times(&self) -> Times {
        let statement_us = self.activity.now().query_us.unwrap_or_else(|| self.gateway.now_us());
        let transaction_us = self.transaction.as_ref().map_or(statement_us, |open| open.now_us);
        Times { transaction_us, statement_us }
    }

    /// When the connection ends if its client stays silent.
    pub fn idle_deadline(&self) -> Option<Deadline> {
        let timeouts = &self.settings.timeouts;
        let idle = match self.transaction {
            Some(_) => deadline(
                timeouts.idle_in_transaction_ms,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout",
            ),
            None => deadline(
                timeouts.idle_session_ms,
                SqlState::IDLE_SESSION_TIMEOUT,
                "terminating connection due to idle-session timeout",
            ),
        };
        let open = self.transaction.as_ref().and_then(|_| self.work_deadline());
        idle.into_iter().chain(open).min_by_key(|deadline| deadline.at)
    }

    /// When the connection ends, busy or not: the open transaction, or the one that a statement makes now, may
    /// not take longer.
    pub fn work_deadline(&self) -> Option<Deadline> {
        let timeout_ms = self.settings.timeouts.transaction_ms;
        let message = "terminating connection due to transaction timeout";
        let mut deadline = deadline(timeout_ms, SqlState::TRANSACTION_TIMEOUT, message)?;
        if let Some(transaction) = &self.transaction {
            let open_us = u64::try_from(self.gateway.now_us() - transaction.now_us).unwrap_or(0);
            let left_us = (timeout_ms * 1_000).saturating_sub(open_us);
            deadline.at = Instant::now() + Duration::from_micros(left_us);
        }
        Some(deadline)
    }

    /// When a statement that starts now has taken as long as `statement_timeout` allows.
    pub fn statement_deadline(&self) -> Option<Instant> {
        sql::cancel::deadline(self.settings.statement_timeout_ms)
    }

    /// Ends when the running statement is cancelled, or at the deadline.
    pub async fn interrupted(&self, deadline: Option<Instant>) -> SqlError {
        self.cancel.wait_until(deadline).await
    }

    /// Whether a transaction was handed on whose outcome will not be known.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }
}

/// When a timeout that starts now ends; `None` for 0, which is none.
fn deadline(timeout_ms: u64, state: SqlState, message: &str) -> Option<Deadline> {
    let at = sql::cancel::deadline(timeout_ms)?;
    Some(Deadline { at, error: SqlError::new(state, message) })
}

/// Waits for a row lock as long as `lock_timeout` allows (0: without end). Errors: 55P03.
pub(super) async fn for_lock<T>(timeout_ms: u64, wait: impl Future<Output = SqlResult<T>>) -> SqlResult<T> {
    let Some(deadline) = sql::cancel::deadline(timeout_ms) else { return wait.await };
    match tokio::time::timeout_at(deadline, wait).await {
        Ok(result) => result,
        Err(_) => {
            let message = "canceling statement due to lock timeout";
            Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message))
        }
    }
}
