//! Turns of a session that others of its thread wait for: how long a statement or a program works, or how many rows it asks
//! for, before the next connection goes on.

use std::time::{Duration, Instant};

/// How long a statement works on rows, or a program on statements, before other connections of its thread have their turn.
const TURN: Duration = Duration::from_micros(250);

/// A turn of a statement that works on many rows, or of a program.
pub(super) struct Turn(Instant);

impl Turn {
    pub(super) fn begin() -> Turn {
        Turn(Instant::now())
    }

    /// Lets other connections of this thread go on if they have waited for a whole turn. Called after each row or step.
    pub(super) async fn give_way(&mut self) {
        if self.0.elapsed() >= TURN {
            tokio::task::yield_now().await;
            self.0 = Instant::now();
        }
    }
}

/// Transactions of more rows are put together aside.
pub(super) const ROWS_AT_ONCE: usize = 256;

/// Reads of rows that a node is asked for in one step.
pub(super) const READS_AT_ONCE: usize = 256;
