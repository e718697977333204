//! Requests that clients repeat, at this gateway or another, because they got no answer.
//!
//! IN: transactions that carry a client's name for its request. KEEPS:
//! 1. of the attempts of one request the first in the order takes effect, at every copy; what comes later ends as
//!    that one did. Wherever two attempts take part they conflict, as if both wrote a row of that name, so all
//!    copies find the same one first;
//! 2. an end is kept [`Options::keep_results_ns`]; whoever was issued before what may be forgotten is refused.
//!    What may be forgotten follows from a transaction's entries, so all copies refuse alike.
//!
//! [`Options::keep_results_ns`]: super::Options::keep_results_ns

use super::message::Share;
use super::options::Mutant;
use super::state::Caerus;
use crate::graph::vertex::{Ref, State};
use base::txn::{Access, AccessMode, ClientRequest, Granule, StatementResult, Transaction};
use base::{Datum, Key, PartitionId, Rank, SqlError, SqlState, TableId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// No table has this number.
const REQUESTS: TableId = TableId(u32::MAX);

/// What this node remembers of named requests, by partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    ended: BTreeMap<(PartitionId, ClientRequest), Ended>,
    oldest: BTreeSet<(Rank, PartitionId, ClientRequest)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ended {
    first: TxnId,
    rank: Rank,
    end: Result<Vec<StatementResult>, SqlError>,
}

/// How a request ended at a partition, as it travels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    partition: PartitionId,
    request: ClientRequest,
    ended: Ended,
}

impl Requests {
    pub fn image(&self) -> Vec<Kept> {
        let kept = self.ended.iter();
        kept.map(|((partition, request), ended)| Kept {
            partition: *partition,
            request: *request,
            ended: ended.clone(),
        })
        .collect()
    }
    pub fn take_over(&mut self, kept: Vec<Kept>) {
        for Kept { partition, request, ended } in kept {
            self.oldest.insert((ended.rank, partition, request));
            self.ended.insert((partition, request), ended);
        }
    }
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.ended.len()
    }
}

/// What an attempt of the request is taken to write wherever it takes part.
pub(super) fn name_of(request: ClientRequest) -> Access {
    let key = Key::of(&[Datum::Int(request.client as i64), Datum::Int(request.number as i64)]);
    Access { granule: Granule::Key(REQUESTS, key), mode: AccessMode::Write }
}

/// Nobody can say how the first attempt ended.
pub(super) fn unknown() -> SqlError {
    SqlError::new(
        SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
        "the outcome of the transaction is not known any more",
    )
    .detail(
        "It took effect completely or not at all, and its result was forgotten or is of other partitions.",
    )
    .hint("Look at the data before you repeat the request under a new name.")
}

impl Caerus {
    fn request_of(&self, at: Ref) -> Option<ClientRequest> {
        let request = self.graph.live(at).extra.request;
        request.filter(|_| !self.options.planted(Mutant::ForgetRequests))
    }

    /// Results at or below this may be forgotten where `collected` is.
    fn forgotten(&self, collected: Rank) -> Rank {
        Rank(collected.0.saturating_sub(self.options.keep_results_ns))
    }

    /// An attempt came so late that an earlier one may be forgotten.
    pub(super) fn is_too_late(&self, at: Ref) -> bool {
        let forgotten = self.forgotten(self.graph.live(at).extra.collected);
        let issued = self.request_of(at).map(|request| request.issued_at.rank());
        forgotten > Rank::ZERO && issued.is_some_and(|issued| issued <= forgotten + self.clock_bound_ns())
    }

    /// Whether another attempt of the request was the first at a partition.
    pub(super) fn was_done(&self, at: Ref, partition: PartitionId) -> bool {
        self.request_of(at).is_some_and(|request| self.requests.ended.contains_key(&(partition, request)))
    }

    /// How the first attempt ended here, if this one is not the first.
    pub(super) fn first_attempt(&self, at: Ref, transaction: &Transaction) -> Option<((TxnId, Rank), Share)> {
        let request = self.request_of(at).filter(|_| !self.is_too_late(at))?;
        let local = transaction.participants().filter(|p| self.partition(*p).local);
        let known: Vec<_> =
            local.filter_map(|p| Some((p, self.requests.ended.get(&(p, request))?))).collect();
        let (_, Ended { first, rank, .. }) = known.first()?;
        base::sometimes!("a repeated request gets the end of its first attempt");
        let results: Result<Vec<_>, SqlError> =
            known.iter().map(|(p, ended)| Ok((*p, ended.end.clone()?))).collect();
        let share = match results {
            Ok(results) => Share::Committed(results),
            Err(error) => Share::Aborted(error),
        };
        Some(((*first, *rank), share))
    }

    /// An attempt that is the first of its request ended here.
    pub(super) fn request_ended(&mut self, at: Ref, txn: TxnId, rank: Rank, share: &Share) {
        let Some(request) = self.request_of(at) else { return };
        let transaction = self.graph.live(at).transaction.clone().expect("entries carry whole transactions");
        for partition in transaction.participants() {
            if !self.partition(partition).local {
                continue;
            }
            let end = match share {
                Share::Committed(results) => {
                    let own = results.iter().find(|(p, _)| *p == partition);
                    Ok(own.map(|(_, results)| results.clone()).unwrap_or_default())
                }
                // Others know as little.
                Share::Aborted(error) if error.state == SqlState::TRANSACTION_RESOLUTION_UNKNOWN => return,
                Share::Aborted(error) => Err(error.clone()),
                Share::Noop => unreachable!("every place has an end"),
            };
            self.requests.ended.insert((partition, request), Ended { first: txn, rank, end });
            self.requests.oldest.insert((rank, partition, request));
        }
    }

    /// Forgets results that nobody who may still execute here can ask for.
    pub(super) fn forget_results(&mut self) {
        if self.requests.oldest.is_empty() {
            return;
        }
        let waiting = self.graph.iter().filter(|(_, vertex)| {
            vertex.extra.request.is_some() && vertex.extra.local && vertex.state < State::Executed
        });
        let held = waiting.map(|(_, vertex)| vertex.extra.collected);
        let limit = self.forgotten(held.fold(self.given_up, Rank::min));
        while let Some(&(rank, partition, request)) = self.requests.oldest.first()
            && rank <= limit
        {
            self.requests.oldest.pop_first();
            self.requests.ended.remove(&(partition, request));
        }
    }
}
