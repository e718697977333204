//! Questions to participants about vertices that closures lack.
//!
//! KEEPS: a vertex is asked about once at a time.

use base::TxnId;
use std::collections::BTreeMap;

/// Vertices that were asked about, and how often each was asked about again.
#[derive(Clone, Debug, Default)]
pub(in crate::perseus) struct Inquiries {
    attempts: BTreeMap<TxnId, usize>,
}

impl Inquiries {
    /// Asks about a vertex, unless it was asked about already; whether it does.
    pub fn begin(&mut self, txn: TxnId) -> bool {
        self.attempts.insert(txn, 0).is_none()
    }
    /// Asks once more, unless there is an answer; how often it did.
    pub fn again(&mut self, txn: TxnId) -> Option<usize> {
        let attempt = self.attempts.get_mut(&txn)?;
        *attempt += 1;
        Some(*attempt)
    }
    /// Nothing has to be asked about it any more.
    pub fn settled(&mut self, txn: TxnId) {
        self.attempts.remove(&txn);
    }
    pub fn open(&self) -> impl Iterator<Item = TxnId> + '_ {
        self.attempts.keys().copied()
    }
    pub fn len(&self) -> usize {
        self.attempts.len()
    }
}
