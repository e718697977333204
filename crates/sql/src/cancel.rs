//! Cancelling a statement: by the client's request or by its timeout.

use base::error::SqlResult;
use base::{SqlError, SqlState};
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Cancels what a session is doing, from anywhere.
#[derive(Clone, Default)]
pub struct CancelHandle(Arc<Cancel>);

/// Memory that is reserved for a statement's tree, given back with the last reference to it.
pub type TreeMemory = Arc<dyn Any + Send + Sync>;

#[derive(Default)]
struct Cancel {
    requested: AtomicBool,
    wake: Notify,
    /// When the running statement's time is over; `None`: never.
    deadline: Mutex<Option<Instant>>,
    /// The memory that the running text's tree takes; a computation that outlives its statement keeps it.
    tree: Mutex<Option<TreeMemory>>,
}

impl CancelHandle {
    /// Ends the running statement with 57014 (or 08007 if its order had begun); nothing if none runs.
    pub fn cancel(&self) {
        self.0.requested.store(true, Ordering::SeqCst);
        self.0.wake.notify_waiters();
    }

    /// A statement begins: earlier requests are void, and its timeout (0: none) runs from now.
    pub fn begin(&self, timeout_ms: u64) {
        self.0.requested.store(false, Ordering::SeqCst);
        *self.0.deadline.lock().expect("no panic while set") = deadline(timeout_ms);
    }

    /// The tree of the text that is run now, or none.
    pub fn hold(&self, tree: Option<TreeMemory>) {
        *self.0.tree.lock().expect("no panic while set") = tree;
    }

    pub fn tree(&self) -> Option<TreeMemory> {
        self.0.tree.lock().expect("no panic while read").clone()
    }

    /// When the running statement's time is over.
    pub fn deadline(&self) -> Option<Instant> {
        *self.0.deadline.lock().expect("no panic while read")
    }

    /// Errors: 57014 if the statement has to end.
    pub fn check(&self) -> SqlResult<()> {
        if self.0.requested.load(Ordering::SeqCst) {
            return Err(canceled("user request"));
        }
        match self.deadline() {
            Some(deadline) if deadline <= Instant::now() => Err(canceled("statement timeout")),
            _ => Ok(()),
        }
    }

    /// Waits until the statement has to end.
    pub async fn wait(&self) -> SqlError {
        self.wait_until(self.deadline()).await
    }

    /// Waits for a request or for the deadline.
    pub async fn wait_until(&self, deadline: Option<Instant>) -> SqlError {
        let requested = async {
            loop {
                let woken = self.0.wake.notified();
                if self.0.requested.load(Ordering::SeqCst) {
                    return;
                }
                woken.await;
            }
        };
        let Some(deadline) = deadline else {
            requested.await;
            return canceled("user request");
        };
        match tokio::time::timeout_at(deadline, requested).await {
            Ok(()) => canceled("user request"),
            Err(_) => canceled("statement timeout"),
        }
    }
}

fn canceled(why: &str) -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}"))
}

/// When a timeout that starts now ends; `None` for 0, which is none.
pub fn deadline(timeout_ms: u64) -> Option<Instant> {
    (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms))
}
