//! What a set has to include: the least closed set that holds what is required.
//!
//! KEEPS: with a transaction, all its ancestors are in, and everything its writer's session had seen, at
//! every partition read where they take part. Ancestors are followed *through* vertices that touch none of
//! these partitions.

use super::{DependencyGraph, Known, Members, VertexState};
use base::{ClosedSet, PartitionId, Rank, Time, TxnId};
use std::collections::BTreeSet;

/// Where a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closure {
    Closed(Members),
    /// A stream must bring this first; more may follow.
    Waiting(Missing),
}

/// Something that a stream has to bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub partition: PartitionId,
    pub awaited: Awaited,
    /// Since when it is known to be on its way.
    pub since: Time,
    /// Nodes exchange reads before it executes.
    pub exchanges: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The record of this transaction.
    Record(TxnId),
    /// Everything at or below this rank, which a session had seen.
    Low(Rank),
}

impl DependencyGraph {
    /// The least closed set with everything at or below `known.base` and with what is required.
    pub fn close(&self, required: impl IntoIterator<Item = TxnId>, known: &Known<'_>) -> Closure {
        let mut base = known.base;
        let mut above: BTreeSet<TxnId> = BTreeSet::new();
        let mut stack: Vec<TxnId> = required.into_iter().collect();
        while let Some(txn) = stack.pop() {
            // Below the watermark: executed everywhere before this query's calibration.
            let Some(state) = self.vertices.get(&txn) else { continue };
            if state.at_most <= base || !above.insert(txn) {
                continue;
            }
            if let Some(missing) = self.lacks(txn, state, known).next() {
                return Closure::Waiting(missing);
            }
            // What a session had seen is an initial segment: it raises the base, once it is complete.
            if known.sessions && state.after > base {
                if let Some(missing) = incomplete(state.after, known).next() {
                    return Closure::Waiting(missing);
                }
                base = state.after;
            }
            stack.extend_from_slice(&state.dependencies);
        }
        above.retain(|txn| self.vertices.get(txn).is_some_and(|state| state.at_most > base));
        Closure::Closed(Members { base, above })
    }

    /// All records that the least closed set lacks, as far as its members are known here.
    pub fn lacking(
        &self,
        required: impl IntoIterator<Item = TxnId>,
        known: &Known<'_>,
    ) -> BTreeSet<(PartitionId, TxnId)> {
        let mut lacking = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut stack: Vec<TxnId> = required.into_iter().collect();
        while let Some(txn) = stack.pop() {
            let Some(state) = self.vertices.get(&txn) else { continue };
            if state.at_most <= known.base || !seen.insert(txn) {
                continue;
            }
            lacking.extend(self.lacks(txn, state, known).map(|missing| (missing.partition, txn)));
            stack.extend_from_slice(&state.dependencies);
        }
        lacking
    }

    /// Records of this transaction that have not come from partitions read. (Of one that is complete there by
    /// rank none is missing: its vertex came again, with a later child from elsewhere, after its collection.)
    pub(super) fn lacks<'a>(
        &self,
        txn: TxnId,
        state: &'a VertexState,
        known: &'a Known<'a>,
    ) -> impl Iterator<Item = Missing> + use<'a> {
        let read = state.participants.iter().filter(|p| known.partitions.contains(p));
        let unlogged = read.filter(|p| !state.logged.contains(**p) && (known.low)(**p) < state.at_most);
        unlogged.map(move |partition| Missing {
            partition: *partition,
            awaited: Awaited::Record(txn),
            since: state.arrived,
            exchanges: state.participants.len() > 1,
        })
    }

    /// Whether this has not arrived yet; cheaper than a search.
    pub fn is_missing(&self, missing: &Missing, known: &Known<'_>) -> bool {
        match missing.awaited {
            Awaited::Low(rank) => (known.low)(missing.partition) < rank,
            Awaited::Record(txn) => self.vertices.get(&txn).is_some_and(|state| {
                self.lacks(txn, state, known).any(|lacking| lacking.partition == missing.partition)
            }),
        }
    }

    /// Whether a set is closed; what [`DependencyGraph::close`] and [`DependencyGraph::extend`] answer is held
    /// against it. It goes by places in logs, as a reader does.
    pub fn is_closed(&self, set: &ClosedSet, known: &Known<'_>) -> bool {
        let places = set.above.iter().flat_map(|(p, positions)| positions.iter().map(move |at| (p, at)));
        let Some(named) = places.map(|(p, at)| Some(self.entry(*p, *at)?.0)).collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        let mut stack = named;
        let mut seen = BTreeSet::new();
        while let Some(txn) = stack.pop() {
            let Some(state) = self.vertices.get(&txn) else { continue };
            if state.at_most <= set.base || !seen.insert(txn) {
                continue;
            }
            let is_in =
                |partition: &PartitionId| match (set.above.get(partition), state.logged.get(*partition)) {
                    (None, _) => true,
                    (Some(_), None) => state.at_most <= (known.low)(*partition),
                    (Some(positions), Some(position)) => positions.contains(&position),
                };
            if !state.participants.iter().all(is_in) || known.sessions && state.after > set.base {
                return false;
            }
            stack.extend_from_slice(&state.dependencies);
        }
        set.above.keys().all(|partition| set.base <= (known.low)(*partition))
    }
}

/// Partitions read that are not complete up to this rank.
pub(super) fn incomplete<'a>(rank: Rank, known: &'a Known<'a>) -> impl Iterator<Item = Missing> + use<'a> {
    let short = known.partitions.iter().filter(move |p| (known.low)(**p) < rank);
    short.map(move |partition| Missing {
        partition: *partition,
        awaited: Awaited::Low(rank),
        since: rank.time(),
        exchanges: false,
    })
}
