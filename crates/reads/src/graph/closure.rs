//! What a vector has to include: the least closed vector at or above a required one.
//!
//! KEEPS: with a transaction, all its ancestors are in, and everything its writer's session had seen, at
//! every partition of the vector where they take part. Ancestors are followed *through* vertices that touch
//! none of these partitions.

use super::{DependencyGraph, Known, Vector, VertexState};
use base::{LogPosition, PartitionId, Rank, Time, TxnId};
use std::collections::BTreeSet;

/// Where a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closure {
    /// Closed. `members`: the transactions in it that were looked at.
    Done { vector: Vector, members: BTreeSet<TxnId> },
    /// Streams must bring these first; more may follow.
    Waiting(Vec<Missing>),
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
    /// The record of this transaction, which is ranked no higher than this.
    Record(TxnId, Rank),
    /// Everything at or below this rank, which a session had seen.
    Low(Rank),
}

impl DependencyGraph {
    /// The least vector ≥ `required` over the same partitions that is closed and holds `known.base`.
    pub fn close(&self, required: &Vector, known: &Known<'_>) -> Closure {
        let mut vector = required.clone();
        self.raise_to(&mut vector, known.base);
        let mut looked_at: Vector = vector.keys().map(|p| (*p, LogPosition(0))).collect();
        let mut members: BTreeSet<TxnId> = BTreeSet::new();
        let mut missing = Vec::new();
        let mut after = known.base;
        loop {
            let mut stack: Vec<(TxnId, Rank)> = Vec::new();
            for (partition, &position) in &vector {
                let from = looked_at.insert(*partition, position).unwrap_or_default();
                // Every ancestor of the rest lies at or below the base as well.
                stack.extend(self.entries_above(*partition, known.base, from, position));
            }
            if stack.is_empty() {
                return Closure::Done { vector, members };
            }
            while let Some((txn, at_most)) = stack.pop() {
                // Below the watermark: executed everywhere before this query's calibration.
                let Some(state) = self.vertices.get(&txn) else { continue };
                let rank = state.rank.unwrap_or(at_most);
                if rank <= known.base || !members.insert(txn) {
                    continue;
                }
                if known.sessions {
                    after = after.max(state.after);
                }
                for &partition in &state.participants {
                    let Some(edge) = vector.get_mut(&partition) else { continue };
                    match state.logged.get(&partition) {
                        // Its vertex came again, with a later child from elsewhere, after it had been collected.
                        None if rank <= (known.low)(partition) => {}
                        None => missing.push(Missing {
                            partition,
                            awaited: Awaited::Record(txn, rank),
                            since: state.arrived,
                            exchanges: state.participants.len() > 1,
                        }),
                        // The prefix drags in everything before it.
                        Some(&position) => *edge = position.max(*edge),
                    }
                }
                stack.extend(state.dependencies.iter().filter(|d| !members.contains(d)).map(|d| (*d, rank)));
            }
            if after > known.base {
                let short = vector.keys().filter(|p| (known.low)(**p) < after);
                missing.extend(short.map(|partition| Missing {
                    partition: *partition,
                    awaited: Awaited::Low(after),
                    since: Time(after.0),
                    exchanges: false,
                }));
                self.raise_to(&mut vector, after);
            }
            if !missing.is_empty() {
                return Closure::Waiting(missing);
            }
        }
    }

    /// Whether this has not arrived yet; cheaper than a search.
    pub fn is_missing(&self, missing: &Missing, known: &Known<'_>) -> bool {
        let low = (known.low)(missing.partition);
        match missing.awaited {
            Awaited::Low(rank) => low < rank,
            Awaited::Record(txn, at_most) => {
                let logged = |state: &VertexState| state.logged.contains_key(&missing.partition);
                low < at_most && self.vertices.get(&txn).is_some_and(|state| !logged(state))
            }
        }
    }

    /// Whether a vector is closed; what [`DependencyGraph::close`] and [`DependencyGraph::extend`] answer is
    /// held against it. Transactions are looked at in the order of their ranks: one whose own rank is not known
    /// lies at or below the lowest of its descendants', which is then found first.
    pub fn is_closed(&self, vector: &Vector, known: &Known<'_>) -> bool {
        let entries = |(partition, position): (&PartitionId, &LogPosition)| {
            self.entries_above(*partition, known.base, LogPosition(0), *position)
        };
        let mut open: BTreeSet<(Rank, TxnId)> =
            vector.iter().flat_map(entries).map(|(txn, rank)| (rank, txn)).collect();
        let mut seen = BTreeSet::new();
        let mut after = known.base;
        while let Some((at_most, txn)) = open.pop_first() {
            let Some(state) = self.vertices.get(&txn) else { continue };
            let rank = state.rank.unwrap_or(at_most);
            if rank <= known.base || !seen.insert(txn) {
                continue;
            }
            if known.sessions {
                after = after.max(state.after);
            }
            let is_in = |partition: &PartitionId| match (vector.get(partition), state.logged.get(partition)) {
                (None, _) => true,
                (Some(_), None) => rank <= (known.low)(*partition),
                (Some(edge), Some(position)) => position <= edge,
            };
            if !state.participants.iter().all(is_in) {
                return false;
            }
            open.extend(state.dependencies.iter().map(|d| (rank, *d)));
        }
        vector.iter().all(|(partition, position)| {
            after <= known.base
                || (known.low)(*partition) >= after
                    && self.last_up_to(*partition, after).is_none_or(|last| last <= *position)
        })
    }

    pub(super) fn raise_to(&self, vector: &mut Vector, rank: Rank) {
        for (partition, position) in vector {
            *position = self.last_up_to(*partition, rank).unwrap_or_default().max(*position);
        }
    }

    /// Entries of a log with positions in `(after, upto]` that are ranked above `base`.
    pub(super) fn entries_above(
        &self,
        partition: PartitionId,
        base: Rank,
        after: LogPosition,
        upto: LogPosition,
    ) -> impl Iterator<Item = (TxnId, Rank)> + '_ {
        let log = self.logs.get(&partition).into_iter();
        log.flat_map(move |log| {
            let late = log.by_rank.range((base.next(), LogPosition(0))..);
            let within = late.filter(move |(_, position)| after < *position && *position <= upto);
            within.map(|(rank, position)| (log.entries[position].0, *rank))
        })
    }
}
