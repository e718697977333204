//! What a vector may include beyond what it must (PERSEUS §IV-B "dynamic snapshot").
//!
//! The paper drops single transactions whose updates would come late; whoever depends on them may stay, and
//! the snapshot is not closed any more. Here the log's predecessor counts as an ancestor too, and what is
//! dropped is a suffix of each log: an entry stays only if its whole closure does, so what is dropped is
//! closed under descendants.

use super::{DependencyGraph, Known, Vector};
use base::{LogPosition, PartitionId, Rank, Time, TxnId};
use std::collections::BTreeSet;

/// When what is on its way should be here: `eta(partition, since, exchanges)`.
pub type Eta<'a> = &'a dyn Fn(PartitionId, Time, bool) -> Time;

impl DependencyGraph {
    /// The greatest closed vector between `closed` and `limit` (what has arrived). `members` of `closed` are
    /// not looked at again.
    pub fn extend(
        &self,
        closed: &Vector,
        limit: &Vector,
        members: &BTreeSet<TxnId>,
        known: &Known<'_>,
    ) -> Vector {
        self.extend_within(closed, limit, members, known, None)
    }

    /// The same with entries that should be complete by `deadline`, whether they are or not: what a cut would
    /// hold that waits until then. eta* of an entry is the latest eta of anything its closure lacks.
    pub fn plan(
        &self,
        closed: &Vector,
        limit: &Vector,
        members: &BTreeSet<TxnId>,
        known: &Known<'_>,
        deadline: (Time, Eta<'_>),
    ) -> Vector {
        self.extend_within(closed, limit, members, known, Some(deadline))
    }

    fn extend_within(
        &self,
        closed: &Vector,
        limit: &Vector,
        members: &BTreeSet<TxnId>,
        known: &Known<'_>,
        deadline: Option<(Time, Eta<'_>)>,
    ) -> Vector {
        let mut vector: Vector = closed
            .iter()
            .map(|(p, position)| (*p, *limit.get(p).unwrap_or(position).max(position)))
            .collect();
        loop {
            let mut fitting = members.clone();
            let mut shorter = None;
            'search: for (&partition, &upto) in &vector {
                let Some(log) = self.logs.get(&partition) else { continue };
                let optional =
                    log.entries.range(closed[&partition].next()..=upto.max(closed[&partition].next()));
                for (&position, &(txn, rank)) in optional.filter(|(position, _)| **position <= upto) {
                    if rank > known.base && !self.fits(txn, rank, &vector, known, &mut fitting, deadline) {
                        shorter = Some((partition, LogPosition(position.0 - 1)));
                        break 'search;
                    }
                }
            }
            match shorter {
                Some((partition, position)) => vector.insert(partition, position),
                None => return vector,
            };
        }
    }

    /// Whether a transaction's closure lies inside the vector. `fitting` holds whoever was found to fit, and
    /// gets more of them.
    pub(super) fn fits(
        &self,
        txn: TxnId,
        rank: Rank,
        vector: &Vector,
        known: &Known<'_>,
        fitting: &mut BTreeSet<TxnId>,
        deadline: Option<(Time, Eta<'_>)>,
    ) -> bool {
        let in_time = |partition, since, exchanges| {
            deadline.is_some_and(|(until, eta)| eta(partition, since, exchanges) <= until)
        };
        let mut found = BTreeSet::new();
        let mut after = known.base;
        let mut stack = vec![(txn, rank)];
        while let Some((txn, at_most)) = stack.pop() {
            if fitting.contains(&txn) {
                continue;
            }
            let Some(state) = self.vertices.get(&txn) else { continue };
            let rank = state.rank.unwrap_or(at_most);
            if rank <= known.base || !found.insert(txn) {
                continue;
            }
            if known.sessions {
                after = after.max(state.after);
            }
            let fits = state.participants.iter().all(|partition| {
                vector.get(partition).is_none_or(|edge| match state.logged.get(partition) {
                    None => {
                        rank <= (known.low)(*partition)
                            || in_time(*partition, state.arrived, state.participants.len() > 1)
                    }
                    Some(position) => position <= edge,
                })
            });
            if !fits {
                return false;
            }
            stack.extend(state.dependencies.iter().map(|d| (*d, rank)));
        }
        let has_session = after <= known.base
            || vector.iter().all(|(partition, position)| {
                ((known.low)(*partition) >= after || in_time(*partition, after.time(), false))
                    && self.last_up_to(*partition, after).is_none_or(|last| last <= *position)
            });
        if has_session {
            fitting.extend(found);
        }
        has_session
    }
}
