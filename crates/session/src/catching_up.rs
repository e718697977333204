//! The first moments of a gateway: its node may have come back with its records, and executes again what was executed
//! before. Until it has, its catalog lacks tables, roles and passwords that clients were told of.
//!
//! KEEPS: a session begins once the node knows everything that was answered before the gateway began, wherever that was; or,
//! where that cannot be known because other regions do not answer, some seconds after the gateway has begun, and one second
//! after the client came.

use base::Time;
use std::time::Duration;
use tokio::sync::OnceCell;

/// So long sessions wait for a node that cannot hear from others.
pub(crate) const WITHIN: Duration = Duration::from_secs(5);
/// So long one waits at least: the first client of a gateway may come late, and the answer takes a round trip.
pub(crate) const AT_LEAST: Duration = Duration::from_secs(1);
/// Between two questions that were answered with an error.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Whether a gateway's node knows what was answered before the gateway began.
pub(crate) struct CatchingUp {
    pub since: Time,
    pub done: OnceCell<()>,
}

impl CatchingUp {
    pub fn new(since: Time) -> CatchingUp {
        CatchingUp { since, done: OnceCell::new() }
    }
}
