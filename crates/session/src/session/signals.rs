//! `pg_cancel_backend` and `pg_terminate_backend`: ending what another session does, or the session.
//!
//! A session is known by the process id that `pg_stat_activity` and `pg_backend_pid()` show, to all regions of its process.

use super::Session;
use crate::notifications::Ending;
use base::error::SqlResult;
use base::{Datum, SqlError, SqlState};
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks whether a session has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What becomes of another session, in the words of a refusal.
struct Wanted {
    verb: &'static str,
    of_superuser: &'static str,
    of_role: &'static str,
}

const CANCEL: Wanted = Wanted { verb: "cancel", of_superuser: "query", of_role: "query is being canceled" };
const TERMINATE: Wanted =
    Wanted { verb: "terminate", of_superuser: "process", of_role: "process is being terminated" };

impl Session {
    /// Errors: 42501.
    pub(super) fn cancel_other(&mut self, process: i64) -> SqlResult<Datum> {
        let Some(process) = self.session_named(process, &CANCEL)? else { return Ok(Datum::Bool(false)) };
        self.gateway.notifications.signal(process, None);
        Ok(Datum::Bool(true))
    }

    /// Waits so long until it has ended; 0: not at all. Errors: 22003, 42501.
    pub(super) async fn terminate_other(&mut self, process: i64, patience_ms: i64) -> SqlResult<Datum> {
        let Ok(patience) = u64::try_from(patience_ms).map(Duration::from_millis) else {
            return Err(SqlError::new(SqlState(*b"22003"), "\"timeout\" must not be negative"));
        };
        let Some(process) = self.session_named(process, &TERMINATE)? else { return Ok(Datum::Bool(false)) };
        let all = self.gateway.notifications.clone();
        all.signal(process, Some(Ending::Terminated));
        let until = Instant::now() + patience;
        while !patience.is_zero() && all.role_of(process).is_some() {
            if Instant::now() >= until {
                let told =
                    format!("backend with PID {process} did not terminate within {patience_ms} milliseconds");
                self.notice("WARNING", SqlState(*b"01000"), told);
                return Ok(Datum::Bool(false));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(Datum::Bool(true))
    }

    /// The process, if it is a session and this one may end it. A warning if it is none. Errors: 42501.
    fn session_named(&mut self, process: i64, wanted: &Wanted) -> SqlResult<Option<i32>> {
        let known = i32::try_from(process).ok();
        let known = known.and_then(|id| Some((id, self.gateway.notifications.role_of(id)?)));
        let Some((id, role)) = known else {
            let told = format!("PID {process} is not a PostgreSQL server process");
            self.notice("WARNING", SqlState(*b"01000"), told);
            return Ok(None);
        };
        let standing = self.standing();
        if standing.is_superuser {
            return Ok(Some(id));
        }
        let catalog = self.catalog();
        let is_superuser =
            role.is_none_or(|role| catalog.roles.roles.get(&role).is_some_and(|r| r.is_superuser));
        let why = match role {
            _ if is_superuser => {
                format!("must be a superuser to {} superuser {}", wanted.verb, wanted.of_superuser)
            }
            Some(role) if !standing.has.contains(&role) => {
                format!("must be a member of the role whose {}", wanted.of_role)
            }
            _ => return Ok(Some(id)),
        };
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, why))
    }
}
