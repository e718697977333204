//! What the running statement has beside its transaction: memory for rows that were read, and an index that it builds.

use super::Session;
use super::building::Building;
use analytics::RowsMemory;
use base::SqlError;
use base::error::SqlResult;

/// All of that; void between statements.
#[derive(Default)]
pub(super) struct Running {
    /// What its rows take that were read one by one.
    read: Option<RowsMemory>,
    /// The index that it builds in steps.
    building: Option<Building>,
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

    /// The statement makes an index, or none.
    pub(super) fn note_build(&mut self, building: Option<Building>) {
        self.running.building = building;
    }
    pub(super) fn take_build(&mut self) -> Option<Building> {
        self.running.building.take()
    }

    /// A statement failed or was given up: what it alone has opened ends. Answers what it ends with.
    pub(super) async fn give_up_implicit(&mut self, error: SqlError) -> SqlError {
        if self.transaction.as_ref().is_some_and(|t| t.is_implicit) {
            self.roll_back().await;
        }
        self.abandon_build(error).await
    }
}
