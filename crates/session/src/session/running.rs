//! What the running statement has beside its transaction: memory for rows that were read, and what it has begun to add to a
//! table.

use super::Session;
use analytics::RowsMemory;
use base::SqlError;
use base::error::SqlResult;
use sql::ddl::Later;

/// All of that; void between statements.
#[derive(Default)]
pub(super) struct Running {
    /// What its rows take that were read one by one.
    read: Option<RowsMemory>,
    /// What it adds to a table in several transactions.
    later: Option<Later>,
}

impl Session {
    /// Reserves what rows take that were read. Errors: 53200.
    pub(super) fn reserve_read(&mut self, bytes: usize) -> SqlResult<()> {
        let gateway = &self.gateway;
        let read = &mut self.running.read;
        read.get_or_insert_with(|| gateway.rows_memory("rows that a statement reads")).grow(bytes)
    }
    /// Keeps what rows take until the statement ends.
    pub(super) fn hold_read(&mut self, memory: RowsMemory) {
        self.running.read = Some(memory);
    }
    /// Gives it back: the rows are gone, or go on to the client.
    pub(super) fn release_read(&mut self) -> Option<RowsMemory> {
        self.running.read.take()
    }

    /// The statement adds something to a table in several transactions, or does so no more.
    pub(super) fn note_later(&mut self, later: Option<Later>) {
        self.running.later = later;
    }
    pub(super) fn take_later(&mut self) -> Option<Later> {
        self.running.later.take()
    }

    /// A statement failed or was given up: what it alone has opened ends. Answers what it ends with.
    pub(super) async fn give_up_implicit(&mut self, error: SqlError) -> SqlError {
        if self.transaction.as_ref().is_some_and(|t| t.is_implicit) {
            self.roll_back().await;
        }
        // Locks of a transaction that a lone statement took.
        self.end_lone_locks().await;
        self.abandon_later(error).await
    }
}
