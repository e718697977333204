//! A panic in what a transaction computes, which is a defect of ours, aborts that transaction and nothing else.
//!
//! Executed again after a restart, the transaction would panic again: without this one statement could stop a node for
//! ever. Whatever computes only reads the store, so nothing has to be undone; and every copy computes from the same rows,
//! so it aborts at all of them. A panic while rows are written is another matter: it stops the node.

use base::TxnId;
use base::error::{SqlError, SqlResult, SqlState};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Computes what a transaction does. Errors: its own; a panic (XX000, with the same text wherever it is executed).
pub(super) fn contained<T>(transaction: TxnId, compute: impl FnOnce() -> SqlResult<T>) -> SqlResult<T> {
    let detail = || format!("Transaction {transaction} was rolled back everywhere.");
    caught(compute).unwrap_or_else(|error| Err(error.detail(detail())))
}

/// The same for a call that only reads.
pub(super) fn contained_read<T>(compute: impl FnOnce() -> SqlResult<T>) -> SqlResult<T> {
    caught(compute).unwrap_or_else(Err)
}

fn caught<T>(compute: impl FnOnce() -> T) -> SqlResult<T> {
    // What was computed so far is dropped, and the store is only read.
    catch_unwind(AssertUnwindSafe(compute)).map_err(|_| {
        let what = "internal error: the server met a defect of its own while it executed the statement";
        let hint = "The logs of the nodes that executed it have the panic.";
        SqlError::new(SqlState::INTERNAL_ERROR, what).hint(hint)
    })
}
