//! Turns of a session that others of its thread wait for: how long a text may be that is read at once, what it takes, and
//! how many rows a statement works on, or asks for, before the next connection goes on.

/// A text of so many bytes is read and lowered in well under a millisecond.
pub(crate) const SHORT_BYTES: usize = 2048;

/// What a text takes while it is planned, with its tokens and copies of its tree: each sign outside of literals ends a
/// token. Measured from 1.0 to 1.2 KiB a sign for long lists of values, conditions and rows, and 28 KiB a SELECT, of which
/// there are two trees.
pub(super) fn tree_bytes(sql: &str) -> usize {
    const SELECT: &[u8] = b"select";
    let (mut signs, mut selects, mut is_quoted) = (0, 0, false);
    for (at, byte) in sql.bytes().enumerate() {
        is_quoted ^= byte == b'\'';
        signs += usize::from(!is_quoted && !byte.is_ascii_alphanumeric());
        if !is_quoted && matches!(byte, b's' | b'S') {
            let word = sql.as_bytes().get(at..at + SELECT.len());
            selects += usize::from(word.is_some_and(|word| word.eq_ignore_ascii_case(SELECT)));
        }
    }
    3 * sql.len() + 1024 * signs + (28 << 10) * selects
}

/// Rows that a statement works on before other connections of its thread have their turn.
const ROWS_A_TURN: usize = 256;

/// Lets other connections of this thread go on after every so many rows.
pub(super) async fn give_way(row: usize) {
    if row % ROWS_A_TURN == ROWS_A_TURN - 1 {
        tokio::task::yield_now().await;
    }
}

/// Reads of rows that a node is asked for in one step.
pub(super) const READS_AT_ONCE: usize = 1_000;
