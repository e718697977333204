//! A panic in what a transaction computes, which is a defect of ours, aborts that transaction and nothing else.
//!
//! Executed again after a restart, the transaction would panic again: without this one statement could stop a node for
//! ever. Whatever computes only reads the store, so nothing has to be undone; and every copy computes from the same rows,
//! so it aborts at all of them. Should only one of them panic, from a defect of that copy, they differ from then on; without
//! this, that node would have stopped. A panic while rows are written stops the node, and so does one in the second half
//! of a procedure, which computes while it writes.

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
        let what = "internal error: a panic while the statement was executed";
        let hint = "The logs of the nodes that executed it have the panic.";
        SqlError::new(SqlState::INTERNAL_ERROR, what).hint(hint)
    })
}
