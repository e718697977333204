//! Statements that are transactions of their own: executed again when they met another transaction.
//!
//! KEEPS: a conflict with another transaction is never the client's business. A statement that reads whole tables meets
//! every writer of theirs, so from its second execution on it locks those tables: the gateway's single statements, and
//! those at the tables' homes, wait until it is over. Locks decide who waits and never what is right, so one that
//! cannot be had costs an execution.

use super::timeouts::for_lock;
use super::{Session, is_stale};
use crate::locks::RowLocks;
use crate::remote_locks::RemoteLocks;
use base::error::{SqlResult, SqlState};
use base::schema::Table;
use base::{Key, NodeId, SqlError, TableId};
use std::collections::BTreeSet;
use std::time::Duration;

/// Executions of a statement that has to read before it writes. With back-off, so many take most of a minute. Its
/// timeout or a cancel ends it earlier.
pub(super) const ATTEMPTS: usize = 512;
/// Executions in a row that COMMIT refuses for a unique key until the client is told.
const TAKEN_MAX: usize = 3;
/// How long a statement that has others wait leaves to those that were under way before it reads.
const UNDER_WAY: Duration = Duration::from_millis(10);
/// Longest pause between two executions, drawn at random below it.
const PAUSE_MS_MAX: u64 = 200;

/// How often a statement was executed, and what came in its way.
#[derive(Default)]
pub(super) struct Attempts {
    pub count: usize,
    /// Of the last executions, those that COMMIT refused for a unique key.
    taken: usize,
    /// Tables of which it read ranges when it was executed last.
    contested: BTreeSet<TableId>,
}

impl Attempts {
    /// So many executions at most.
    pub fn at_most(patience: usize) -> Attempts {
        Attempts { count: ATTEMPTS - patience, ..Attempts::default() }
    }
    pub fn are_left(&self) -> bool {
        self.count < ATTEMPTS
    }

    /// What COMMIT refused an execution for. A unique key was taken since the cut: executed anew, the statement sees who
    /// has it. One that does not look there never will.
    fn refused(&mut self, mut error: SqlError) -> SqlError {
        self.taken = if error.state == SqlState::UNIQUE_VIOLATION { self.taken + 1 } else { 0 };
        if (1..TAKEN_MAX).contains(&self.taken) && self.are_left() {
            error.state = SqlState::SERIALIZATION_FAILURE;
        }
        error
    }
}

impl Session {
    /// Begins a transaction for one execution of a statement.
    pub(super) async fn begin_attempt(&mut self, read_only: bool, attempts: &Attempts) {
        self.begin(read_only, true);
        self.mark_advisory();
        let contested = attempts.contested.iter().filter_map(|id| self.known.table(*id));
        for table in contested.cloned().collect::<Vec<_>>() {
            let _ = self.lock_whole_afar(&table).await;
            let _ = self.lock_whole(table.id).await;
        }
        if !attempts.contested.is_empty() {
            tokio::time::sleep(UNDER_WAY).await;
        }
    }

    /// Has writers at the homes of a table wait for a statement that reads all of it.
    async fn lock_whole_afar(&mut self, table: &Table) -> SqlResult<()> {
        let partitions = table.partitions(self.cluster().topology());
        let homes: BTreeSet<NodeId> =
            partitions.into_iter().filter_map(|at| self.home_elsewhere(table, at)).collect();
        for home in homes {
            let (gateway, lock_ms) = (self.gateway.clone(), self.settings.timeouts.lock_ms);
            let remote = self.open().remote_locks.get_or_insert_with(|| RemoteLocks::new(&gateway));
            let waiting = remote.lock(home, vec![(table.id, Key::new())], false);
            if for_lock(lock_ms, waiting).await?.is_some_and(|locked| locked.waited) {
                self.gateway.contention.note(table.id, self.gateway.cluster.now());
            }
        }
        Ok(())
    }

    /// Ends a statement's own transaction: commits, or says that it is to be executed again (`None`).
    pub(super) async fn settle<T>(
        &mut self,
        result: SqlResult<T>,
        attempts: &mut Attempts,
    ) -> SqlResult<Option<T>> {
        attempts.count += 1;
        let contested = self.contested();
        let ended = match result {
            Ok(written) => self.end_implicit().await.map(|()| written).map_err(|e| attempts.refused(e)),
            Err(error) => {
                attempts.taken = 0;
                self.roll_back().await;
                Err(error)
            }
        };
        match ended {
            Ok(written) => Ok(Some(written)),
            Err(e) if is_transient(&e) && attempts.are_left() => {
                // What was read is gone with the attempt, and so are its locks.
                self.release_read();
                self.give_up_since_mark().await;
                attempts.contested = contested;
                self.pause(attempts.count).await;
                Ok(None)
            }
            Err(e) => {
                if is_stale(&e) {
                    // It is planned again, and executed again.
                    self.give_up_since_mark().await;
                }
                Err(e)
            }
        }
    }

    /// Waits before a statement is executed again: the more often it was, the longer, and not as long as
    /// whoever it met.
    async fn pause(&self, attempts: usize) {
        let longest_ms = (1u64 << attempts.min(16)).min(PAUSE_MS_MAX);
        let pause_us = (longest_ms * 1000) as f64 * self.gateway.node.generators.random_fraction();
        // The first time at once: whoever came between has been answered by now.
        if attempts > 1 {
            tokio::time::sleep(Duration::from_micros(pause_us as u64)).await;
        }
    }

    /// Tables that another execution should have for itself: those of which this one has read ranges.
    fn contested(&self) -> BTreeSet<TableId> {
        let Some(open) = &self.transaction else { return BTreeSet::new() };
        let table_of = |id| self.known.index(id).map_or(id, |(table, _)| table.id);
        open.ranges_read().map(table_of).collect()
    }

    /// A statement that reads a whole table conflicts with every writer of it: after a conflict the writers wait.
    pub(super) async fn lock_whole(&mut self, table: TableId) -> SqlResult<()> {
        let locks = self.gateway.locks.clone();
        let locks = self.open().locks.get_or_insert_with(|| RowLocks::new(locks));
        locks.lock_whole(table).await.map(|_| ())
    }

    /// Lets a statement that has locked a table go first.
    pub(super) async fn pass_whole(&self, table: &Table) -> SqlResult<()> {
        match self.gateway.locks.is_empty() {
            true => Ok(()),
            false => for_lock(self.settings.timeouts.lock_ms, self.gateway.locks.pass_whole(table.id)).await,
        }
    }
}

/// Whether a statement of its own may succeed when it is executed again: it met another transaction.
pub(super) fn is_transient(error: &SqlError) -> bool {
    (is_conflict(error) && !is_stale(error)) || error.state == SqlState::DEADLOCK_DETECTED
}

pub(super) fn is_conflict(error: &SqlError) -> bool {
    error.state == SqlState::SERIALIZATION_FAILURE
}
