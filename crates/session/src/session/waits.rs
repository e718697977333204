//! `WAIT FOR LSN '…'`: waits until what a token of another session names can be read here.
//!
//! KEEPS: a wait is over once this node has everything that the token names, or its time is over; whatever the session reads
//! afterwards comes after the token.

use super::Session;
use super::own_calls::OwnFunction;
use super::settings::{durations, parse_token};
use crate::response::{Response, RowStream, Rows};
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};
use sql::lower::Projection;
use sql::parse::WAIT_FOR as FUNCTION;
use sql::types::Column;
use std::sync::Arc;
use std::time::Duration;

pub(super) const WAIT_FOR: OwnFunction =
    OwnFunction { name: FUNCTION, arguments: &["text", "text", "boolean"], last: None, over_rows: false };

/// One such call.
pub struct WaitForPlan {
    /// The token, the longest wait, whether a wait that is over is no error.
    arguments: Projection,
    pub columns: Arc<Vec<Column>>,
}

impl WaitForPlan {
    pub(super) fn new(arguments: Projection, names: Vec<String>) -> WaitForPlan {
        let columns = names.into_iter().map(|name| Column::new(name, DataType::Text)).collect();
        WaitForPlan { arguments, columns: Arc::new(columns) }
    }
}

/// How often it is looked whether the wait is over.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// A token that is farther ahead of the clock was never given to a session.
const AHEAD_MAX_NS: u64 = 2 * base::time::SECOND;

impl Session {
    pub(super) async fn run_wait_for(
        &mut self,
        plan: &WaitForPlan,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        if self.transaction.as_ref().is_some_and(|open| !open.is_implicit || open.has_begun()) {
            let message = "WAIT FOR cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let arguments = self.constant_row(&plan.arguments, parameters)?;
        let [Datum::Text(text), Datum::Text(timeout), Datum::Bool(no_throw)] = &arguments[..] else {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "WAIT FOR needs one position"));
        };
        let wrong = |message: String| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("Use a token that SHOW meridian.token returned in this cluster.")
        };
        let token =
            parse_token(text).ok_or_else(|| wrong(format!("invalid position \"{text}\" to wait for")))?;
        let cluster = self.gateway.cluster.clone();
        if token.incarnation.is_named() {
            token.check(cluster.incarnation())?;
        }
        if token.rank > cluster.topology().latest_rank(cluster.now(), AHEAD_MAX_NS) {
            return Err(wrong(format!("position {text} lies in the future")));
        }
        let timeout_ms = durations::milliseconds("TIMEOUT", timeout)?;
        let arrives = async {
            while !cluster.is_complete_to(token.rank) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let longest = if timeout_ms == 0 { Duration::MAX } else { Duration::from_millis(timeout_ms) };
        let has_arrived = tokio::time::timeout(longest, arrives).await.is_ok();
        if !has_arrived && !*no_throw {
            let message = format!("timed out while waiting for position {text}");
            return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
        }
        // Also after a wait that is over: its reads wait for what is missing.
        self.saw(&token);
        let status = Datum::text(if has_arrived { "success" } else { "timeout" });
        let stream = RowStream::values(vec![vec![status]]);
        Ok(Response::Rows(Rows { columns: plan.columns.clone(), stream, tag: "WAIT" }))
    }
}
