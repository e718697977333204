//! What sessions of a gateway have to know of one another's temporary tables.

use tokio::sync::{Mutex, MutexGuard, Notify};

pub(crate) struct TemporaryTables {
    /// When the gateway began, in µs: tells its sessions from those of its former lives.
    pub life: i64,
    /// A session has ended.
    pub ended: Notify,
    /// Sessions of a gateway take turns to change temporary tables: all but one of them would change a catalog that is
    /// another one by then, and wait again.
    turn: Mutex<()>,
}

impl TemporaryTables {
    pub fn new(life: i64) -> TemporaryTables {
        TemporaryTables { life, ended: Notify::new(), turn: Mutex::new(()) }
    }
    /// Waits until it is a session's turn.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}
