//! Turns of a session that others of its thread wait for: what a text takes while it is planned, and
//! how long a statement works on rows, or how many it asks for, before the next connection goes on.

use super::Session;
use base::error::SqlResult;
use sql::interrupt::SHORT_BYTES;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Session {
    /// Reserves memory for the tree of a long text, until the next text comes. Errors: 53200.
    pub(super) fn reserve_tree(&self, sql: &str) -> SqlResult<()> {
        self.cancel.hold(None);
        if sql.len() > SHORT_BYTES {
            let memory = self.gateway.rows_memory("a statement's text");
            memory.grow(tree_bytes(sql))?;
            self.cancel.hold(Some(Arc::new(memory)));
        }
        Ok(())
    }
}

/// What a text takes while it is planned, with its tokens and copies of its tree: each sign outside of literals ends a
/// token, and each comma in the text of an array an element that becomes a value of a list. Measured from 1.0 to 1.2 KiB a
/// sign for long lists of values, conditions and rows, and 28 KiB a SELECT, of which there are two trees.
fn tree_bytes(sql: &str) -> usize {
    const SELECT: &[u8] = b"select";
    let (mut signs, mut selects, mut is_quoted, mut is_array) = (0, 0, false, false);
    for (at, byte) in sql.bytes().enumerate() {
        if byte == b'\'' {
            is_quoted = !is_quoted;
            is_array = is_quoted && sql.as_bytes().get(at + 1) == Some(&b'{');
        }
        signs += usize::from(match is_quoted {
            true => is_array && byte == b',',
            false => !byte.is_ascii_alphanumeric(),
        });
        if !is_quoted && matches!(byte, b's' | b'S') {
            let word = sql.as_bytes().get(at..at + SELECT.len());
            selects += usize::from(word.is_some_and(|word| word.eq_ignore_ascii_case(SELECT)));
        }
    }
    3 * sql.len() + 1024 * signs + (28 << 10) * selects
}

/// How long a statement works on rows before other connections of its thread have their turn.
const TURN: Duration = Duration::from_micros(250);

/// A turn of a statement that works on many rows.
pub(super) struct Turn(Instant);

impl Turn {
    pub(super) fn begin() -> Turn {
        Turn(Instant::now())
    }

    /// Lets other connections of this thread go on if they have waited for a whole turn. Called after each row.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_becomes_is_counted() {
        let bytes = |sql: &str| tree_bytes(sql) - 3 * sql.len();
        assert_eq!(bytes("1,2,3"), 2 << 10);
        assert_eq!(bytes("'1,2,3'"), 1 << 10, "the quote that closes");
        assert_eq!(bytes("'{1,2,3}'"), 3 << 10, "elements of an array");
        assert_eq!(bytes("x'a{,'"), 1 << 10, "a brace inside a text");
        assert_eq!(bytes("select 1"), (28 << 10) + 1024);
    }
}
