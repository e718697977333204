//! The end of a front end that is told before: nobody new is let in, and sessions end where nothing of them is lost.
//!
//! KEEPS: a statement that has begun is answered before its session ends, as long as the process lives; a session that
//! ends here has been told 57P01, a newcomer 57P03, and neither had begun what it is told so for.

use base::error::{SqlError, SqlState};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    /// Sessions end as soon as they are in no transaction.
    AfterTransactions,
    /// Sessions end after the statement that they are at.
    AfterStatements,
}

/// Whether a front end comes to its end.
pub struct Drain {
    stage: watch::Sender<Stage>,
}

impl Default for Drain {
    fn default() -> Self {
        Drain { stage: watch::Sender::new(Stage::Open) }
    }
}

/// How often it is looked whether sessions are left.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Drain {
    /// Errors: 57P03, nobody is let in any more.
    pub fn check_open(&self) -> Result<(), SqlError> {
        match *self.stage.borrow() {
            Stage::Open => Ok(()),
            _ => Err(SqlError::new(SqlState::CANNOT_CONNECT_NOW, "the database system is shutting down")
                .hint("Connect to another node.")),
        }
    }
    /// Ends once a session that waits for its client's next message has to end. `is_open`: a transaction of it is.
    pub async fn ends(&self, is_open: bool) -> SqlError {
        let least = if is_open { Stage::AfterStatements } else { Stage::AfterTransactions };
        let mut stage = self.stage.subscribe();
        // The sender lives as long as this does.
        _ = stage.wait_for(|stage| *stage >= least).await;
        SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
            .hint("Connect to another node.")
    }
    /// Ends sessions: those in a transaction after it, or after so long at the end of their statement. Waits until none
    /// is left, as long again at most; answers how many are.
    pub async fn run(&self, patience: Duration, left: impl Fn() -> usize) -> usize {
        for stage in [Stage::AfterTransactions, Stage::AfterStatements] {
            self.stage.send_replace(stage);
            let begin = Instant::now();
            while left() > 0 && begin.elapsed() < patience {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn sessions_end_after_their_transactions_and_late_ones_after_their_statement() {
        let drain = Drain::default();
        assert!(drain.check_open().is_ok());
        let (idle, open) = (Cell::new(None), Cell::new(None));
        let begin = Instant::now();
        let ends = async |is_open| {
            let error = drain.ends(is_open).await;
            assert_eq!(error.state, SqlState::ADMIN_SHUTDOWN);
            Some(begin.elapsed())
        };
        let left = || [&idle, &open].iter().filter(|at| at.get().is_none()).count();
        let (left_in_the_end, (), ()) = tokio::join!(
            drain.run(Duration::from_millis(200), left),
            async { idle.set(ends(false).await) },
            async { open.set(ends(true).await) },
        );
        assert_eq!(left_in_the_end, 0);
        let (early, late) = (idle.get().unwrap(), open.get().unwrap());
        assert!(early < late && late >= Duration::from_millis(200), "{early:?} {late:?}");
        assert_eq!(drain.check_open().unwrap_err().state, SqlState::CANNOT_CONNECT_NOW);
    }
}
