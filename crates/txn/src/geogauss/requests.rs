//! How named requests ended: a client that repeats one, at any gateway, gets the end of the attempt that took effect.
//!
//! IN: ends of attempts, in the order in which epochs decide them. KEEPS: all members remember the same, because it
//! follows from published epochs; of the attempts of a request one takes effect at most; an end is kept
//! `keep_results_ns`, and an attempt that is so late that an earlier one may be forgotten fails everywhere.

use base::txn::{ClientRequest, Outcome};
use base::{Rank, SqlError, SqlState, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Who took effect, at which rank, and what its client was told.
pub(super) type End = (TxnId, Rank, Outcome);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Requests {
    ended: BTreeMap<ClientRequest, End>,
    oldest: BTreeSet<(Rank, ClientRequest)>,
}

impl Requests {
    pub fn ended(&mut self, request: ClientRequest, end: End) {
        self.oldest.insert((end.1, request));
        self.ended.insert(request, end);
    }
    pub fn end(&self, request: ClientRequest) -> Option<&End> {
        self.ended.get(&request)
    }
    /// An attempt that asks to commit at this rank comes so late that an earlier one may be forgotten.
    pub fn is_too_late(request: ClientRequest, rank: Rank, keep_ns: u64) -> bool {
        request.issued_at.rank().0.saturating_add(keep_ns) < rank.0
    }
    /// Everything up to this rank is published. An attempt may be issued by a clock that is ahead of ranks, by less than
    /// what is kept: twice as long will do.
    pub fn forget(&mut self, rank: Rank, keep_ns: u64) {
        let limit = Rank(rank.0.saturating_sub(keep_ns.saturating_mul(2)));
        while let Some(&(at, request)) = self.oldest.first()
            && at < limit
        {
            self.oldest.pop_first();
            self.ended.remove(&request);
        }
    }
    pub fn len(&self) -> usize {
        self.ended.len()
    }
}

/// Nobody can say how the first attempt ended.
pub(super) fn unknown() -> SqlError {
    let message = "the outcome of the transaction is not known any more";
    SqlError::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, message)
        .detail("It took effect completely or not at all, and its result was forgotten.")
        .hint("Look at the data before you repeat the request under a new name.")
}
