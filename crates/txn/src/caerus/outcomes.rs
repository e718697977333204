//! How transactions ended, as far as somebody may still ask.
//!
//! IN: ends of transactions that executed here, and what their gateways have answered since. OUT: a transaction's
//! [`Fate`], for its gateway; the end of a named request's first attempt (see `requests`). KEEPS:
//! 1. an end that was told is told again, word for word, until its gateway's floor has passed the transaction;
//! 2. a transaction that executed here, and whose end is not known because this node lost its memory since, has the end
//!    "not known", and never another one;
//! 3. a client that was told that the outcome is not known, while its transaction was in flight, is told nothing
//!    else when that ends.

use super::cluster::Cluster;
use super::merger::{Extra, Graph};
use super::message::Share;
use super::requests::{Kept, Requests, unknown};
use base::txn::Transaction;
use base::{PartitionId, Rank, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// What took effect, and its rank: another transaction if this one repeated a request; and this node's share of it.
pub(super) type End = ((TxnId, Rank), Share);

/// What this node can say of a transaction's end.
pub(super) enum Fate {
    Ended(End),
    /// It has not executed here, or somebody else is to be asked.
    Open,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes {
    /// Ends that gateways may ask for.
    ends: BTreeMap<TxnId, End>,
    /// Ends of named requests.
    requests: Requests,
    /// Transactions in flight of this gateway whose clients have been told that the outcome is not known.
    obscured: BTreeSet<TxnId>,
}

impl Outcomes {
    /// A transaction that executed here and is the first attempt of its request, or the only one, ended so.
    pub fn ended(
        &mut self,
        cluster: &Cluster,
        extra: &Extra,
        transaction: &Transaction,
        rank: Rank,
        share: Share,
    ) -> End {
        self.requests.ended(cluster, extra, transaction, rank, &share);
        ((transaction.id, rank), share)
    }
    /// Remembers how a transaction ended, for its gateway.
    pub fn remember(&mut self, txn: TxnId, end: End) {
        self.ends.insert(txn, end);
    }
    /// How a transaction ended, for its gateway. `forgotten_at`: this node has lost its memory and executed the
    /// transaction, at this rank, as others' copy or its own log shows.
    pub fn fate(&self, txn: TxnId, forgotten_at: impl FnOnce() -> Option<Rank>) -> Fate {
        if let Some(end) = self.ends.get(&txn) {
            return Fate::Ended(end.clone());
        }
        match forgotten_at() {
            Some(rank) => Fate::Ended(((txn, rank), Share::Aborted(unknown()))),
            None => Fate::Open,
        }
    }
    /// Gateways know how these ended.
    pub fn forget(&mut self, ended: std::ops::Range<TxnId>) {
        let answered: Vec<TxnId> = self.ends.range(ended).map(|(txn, _)| *txn).collect();
        answered.iter().for_each(|txn| _ = self.ends.remove(txn));
    }

    /// Whether an attempt came so late that an earlier one may be forgotten.
    pub fn is_too_late(&self, cluster: &Cluster, extra: &Extra) -> bool {
        self.requests.is_too_late(cluster, extra)
    }
    /// Whether another attempt of the request was the first at a partition.
    pub fn was_done(&self, cluster: &Cluster, extra: &Extra, partition: PartitionId) -> bool {
        self.requests.was_done(cluster, extra, partition)
    }
    /// How the first attempt of the request ended here, if this one is not the first.
    pub fn first_attempt(&self, cluster: &Cluster, extra: &Extra, transaction: &Transaction) -> Option<End> {
        self.requests.first_attempt(cluster, extra, transaction)
    }
    /// Forgets results of named requests that nobody who may still execute here can ask for. `given_up`: versions up
    /// to there are gone.
    pub fn forget_results(&mut self, cluster: &Cluster, graph: &Graph, given_up: Rank) {
        self.requests.forget(cluster, graph, given_up);
    }

    /// The client of a transaction in flight is told that the outcome is not known; whether that is news.
    pub fn obscure(&mut self, txn: TxnId) -> bool {
        self.obscured.insert(txn)
    }
    pub fn is_obscured(&self, txn: TxnId) -> bool {
        self.obscured.contains(&txn)
    }
    /// A transaction of this gateway has ended; whether its client has been told already that nobody knows how.
    pub fn was_obscured(&mut self, txn: TxnId) -> bool {
        self.obscured.remove(&txn)
    }
    pub fn obscured_count(&self) -> usize {
        self.obscured.len()
    }

    /// Ends that are remembered for gateways.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    #[cfg(test)]
    pub fn request_count(&self) -> usize {
        self.requests.len()
    }
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// What another node goes on from.
    pub fn image(&self) -> Vec<Kept> {
        self.requests.image()
    }
    /// Forgets what was merged or taken over.
    pub fn forget_merged(&mut self) {
        self.requests = Requests::default();
    }
    /// Goes on from another node's.
    pub fn take_over(&mut self, requests: Vec<Kept>) {
        self.requests.take_over(requests);
    }
}
