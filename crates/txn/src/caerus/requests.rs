//! Requests that clients repeat, at this gateway or another, because they got no answer.
//!
//! IN: transactions that carry a client's name for its request. KEEPS:
//! 1. of the attempts of one request the first in the order takes effect, at every copy; what comes later ends as
//!    that one did. Wherever two attempts take part they conflict, as if both wrote a row of that name, so all
//!    copies find the same one first;
//! 2. an end is kept [`Collection::keep_results_ns`]; whoever was issued before what may be forgotten is refused.
//!    What may be forgotten follows from a transaction's entries, so all copies refuse alike.
//!
//! [`Collection::keep_results_ns`]: super::options::Collection::keep_results_ns

use super::cluster::Cluster;
use super::merger::{Extra, Graph};
use super::message::Share;
use super::options::Mutant;
use crate::graph::vertex::State;
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

/// The request that an attempt is of.
fn request_of(cluster: &Cluster, extra: &Extra) -> Option<ClientRequest> {
    extra.request.filter(|_| !cluster.options.planted(Mutant::ForgetRequests))
}

/// Results at or below this may be forgotten where `collected` is.
fn forgotten(cluster: &Cluster, collected: Rank) -> Rank {
    Rank(collected.0.saturating_sub(cluster.options.collection.keep_results_ns))
}

impl Requests {
    /// An attempt came so late that an earlier one may be forgotten.
    pub fn is_too_late(&self, cluster: &Cluster, extra: &Extra) -> bool {
        let forgotten = forgotten(cluster, extra.collected);
        let issued = request_of(cluster, extra).map(|request| request.issued_at.rank());
        forgotten > Rank::ZERO && issued.is_some_and(|issued| issued <= forgotten + cluster.clock_bound_ns())
    }

    /// Whether another attempt of the request was the first at a partition.
    pub fn was_done(&self, cluster: &Cluster, extra: &Extra, partition: PartitionId) -> bool {
        request_of(cluster, extra).is_some_and(|request| self.ended.contains_key(&(partition, request)))
    }

    /// How the first attempt ended here, if this one is not the first.
    pub fn first_attempt(
        &self,
        cluster: &Cluster,
        extra: &Extra,
        transaction: &Transaction,
    ) -> Option<((TxnId, Rank), Share)> {
        let request = request_of(cluster, extra).filter(|_| !self.is_too_late(cluster, extra))?;
        let local = transaction.participants().filter(|p| cluster.is_local(*p));
        let known: Vec<_> = local.filter_map(|p| Some((p, self.ended.get(&(p, request))?))).collect();
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
    pub fn ended(
        &mut self,
        cluster: &Cluster,
        extra: &Extra,
        transaction: &Transaction,
        rank: Rank,
        share: &Share,
    ) {
        let Some(request) = request_of(cluster, extra) else { return };
        for partition in transaction.participants().filter(|p| cluster.is_local(*p)) {
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
            self.ended.insert((partition, request), Ended { first: transaction.id, rank, end });
            self.oldest.insert((rank, partition, request));
        }
    }

    /// Forgets results that nobody who may still execute here can ask for. `given_up`: versions up to there are gone.
    pub fn forget(&mut self, cluster: &Cluster, graph: &Graph, given_up: Rank) {
        if self.oldest.is_empty() {
            return;
        }
        let waiting = graph.iter().filter(|(_, vertex)| {
            vertex.extra.request.is_some() && vertex.extra.local && vertex.state < State::Executed
        });
        let held = waiting.map(|(_, vertex)| vertex.extra.collected);
        let limit = forgotten(cluster, held.fold(given_up, Rank::min));
        while let Some(&(rank, partition, request)) = self.oldest.first()
            && rank <= limit
        {
            self.oldest.pop_first();
            self.ended.remove(&(partition, request));
        }
    }
}
