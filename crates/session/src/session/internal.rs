//! Sessions of a gateway's own, in which it reads and writes the system's tables.

use super::Session;
use crate::gateway::Gateway;
use crate::response::Response;
use base::databases::{DatabaseId, MERIDIAN};
use base::error::{SqlResult, SqlState};
use base::schema::{SchemaAction, SchemaChange};
use base::{Datum, SqlError};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Where the system's tables are. Schemas of users have other names, and none of these tables is shown.
pub(super) const SCHEMA: &str = sql::catalog::SYSTEM_SCHEMA;

impl Session {
    /// A session of the gateway's own, which no client knows of.
    pub(crate) fn internal(gateway: Arc<Gateway>) -> Session {
        Session::internal_of(gateway, MERIDIAN)
    }

    /// The same in a database.
    pub(crate) fn internal_of(gateway: Arc<Gateway>, database: DatabaseId) -> Session {
        let mut session = Session::new(gateway, base::roles::ROOT_NAME, database);
        session.told.listener.is_nobodys();
        session.gateway.node.sessions.close(session.activity.process);
        session.login.is_internal = true;
        session
    }

    /// The schema of tables that only the system writes.
    pub(crate) async fn make_system_schema(&mut self) -> SqlResult<()> {
        loop {
            self.look_up_catalog();
            if self.known.schemas.iter().any(|schema| schema == SCHEMA) {
                return Ok(());
            }
            let actions = vec![SchemaAction::CreateSchema(SCHEMA.into())];
            match self
                .submit_schema(SchemaChange {
                    database: self.database.id,
                    base_version: self.known.version,
                    actions,
                })
                .await
            {
                Err(error) if super::is_stale(&error) => self.refresh_catalog().await?,
                ended => return ended,
            }
        }
    }

    /// The rows of a text's last statement. Boxed: a session that waits for this runs a session.
    pub(super) fn said(
        &mut self,
        sql: String,
    ) -> Pin<Box<dyn Future<Output = SqlResult<Vec<Vec<Datum>>>> + Send + '_>> {
        Box::pin(async move {
            self.start_simple(&sql)?;
            let mut rows = Vec::new();
            while let Some(response) = self.next_simple().await {
                if let Response::Rows(mut found) = response? {
                    rows = found.stream.collect().await?;
                }
            }
            Ok(rows)
        })
    }
}

impl Gateway {
    /// Waits before a row is changed again that others have changed: the longer the more often.
    pub(super) async fn pause_after(&self, attempt: usize) {
        let longest_us = 500.0 * (1 << attempt.min(7)) as f64;
        let pause_us = longest_us * self.node.generators.random_fraction();
        tokio::time::sleep(Duration::from_micros(pause_us as u64)).await;
    }
}

pub(super) fn is_missing(error: &SqlError) -> bool {
    [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(&error.state)
}

/// Another transaction has changed the row meanwhile, or made it.
pub(super) fn is_retried(error: &SqlError) -> bool {
    let retried = [
        SqlState::SERIALIZATION_FAILURE,
        SqlState::DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
        SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
    ];
    retried.contains(&error.state)
}
