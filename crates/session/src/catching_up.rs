//! The first moments of a gateway: its node may have come back with its records, and executes again what was executed
//! before. Until it has, its catalog lacks tables, roles and passwords that clients were told of.
//!
//! KEEPS: a session begins once the node knows everything that was answered before the gateway began, wherever that was; or,
//! where that cannot be known because other regions do not answer, some seconds after the gateway has begun.

use crate::gateway::Gateway;
use crate::session::Session;
use base::Time;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// So long sessions wait for a node that cannot hear from others.
const WITHIN: Duration = Duration::from_secs(5);
/// Between two questions that were answered with an error.
const PAUSE: Duration = Duration::from_millis(50);

/// Whether a gateway's node knows what was answered before the gateway began.
pub(crate) struct CatchingUp {
    since: Time,
    done: OnceCell<()>,
}

impl CatchingUp {
    pub fn new(since: Time) -> CatchingUp {
        CatchingUp { since, done: OnceCell::new() }
    }
}

impl Gateway {
    /// Waits until sessions may begin; answers whether the node knows everything that was answered before.
    pub async fn catch_up(self: &Arc<Self>) -> bool {
        let CatchingUp { since, done } = &self.catching_up;
        if !done.initialized() {
            let gone = Duration::from_nanos(self.cluster.now().since(*since));
            let newest = async || {
                // An error is as good as no answer: somebody is missing.
                while Session::internal(self.clone()).newest_catalog().await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
            };
            _ = tokio::time::timeout(WITHIN.saturating_sub(gone), done.get_or_init(newest)).await;
        }
        done.initialized()
    }
}
