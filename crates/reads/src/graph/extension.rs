//! What a set may include beyond what it must (PERSEUS §IV-B "dynamic snapshot").
//!
//! The paper drops single transactions whose updates would come late; a transaction that depends on them may stay, and
//! then the snapshot is not closed. Here a transaction that has arrived stays only if its whole closure
//! has: what is left out is closed under descendants, so what stays is closed under ancestors.

use super::closure::incomplete;
use super::{DependencyGraph, Known, Members, Missing, Vector};
use base::{PartitionId, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// When what is on its way should be here: `eta(partition, since, exchanges)`.
pub type Eta<'a> = &'a dyn Fn(PartitionId, Time, bool) -> Time;

impl DependencyGraph {
    /// The greatest closed set of what the partitions read have logged up to `limit` (what has arrived).
    pub fn extend(&self, limit: &Vector, known: &Known<'_>) -> Members {
        self.fitting(limit, known, &|_| false)
    }

    /// The same with what should be complete by a deadline, whether it is or not: what a cut would hold that
    /// waits until then. A member's eta* is the latest eta of anything its closure lacks.
    pub fn plan(&self, limit: &Vector, known: &Known<'_>, deadline: (Time, Eta<'_>)) -> Members {
        let (until, eta) = deadline;
        self.fitting(limit, known, &|m| eta(m.partition, m.since, m.exchanges) <= until)
    }

    /// Everything that has arrived, whether it fits or not: the fault of the printed protocol.
    pub fn arrived(&self, limit: &Vector, known: &Known<'_>) -> Members {
        self.fitting(limit, known, &|_| true)
    }

    /// Whatever has arrived and lacks nothing but what may be missing.
    fn fitting(
        &self,
        limit: &Vector,
        known: &Known<'_>,
        may_be_missing: &dyn Fn(&Missing) -> bool,
    ) -> Members {
        let complete = known.partitions.iter().map(|p| (known.low)(*p)).min();
        assert!(complete.is_none_or(|low| low <= known.base), "what is complete everywhere is in anyway");
        let mut dependents: BTreeMap<TxnId, Vec<TxnId>> = BTreeMap::new();
        let mut above: BTreeSet<TxnId> = BTreeSet::new();
        let mut late: Vec<TxnId> = Vec::new();
        let entries = limit.iter().flat_map(|(p, upto)| self.entries_above(*p, known.base, *upto));
        let mut stack: Vec<TxnId> = entries.map(|(_, txn)| txn).collect();
        while let Some(txn) = stack.pop() {
            let Some(state) = self.vertices.get(&txn) else { continue };
            if state.at_most <= known.base || !above.insert(txn) {
                continue;
            }
            let is_late = |missing: Missing| !may_be_missing(&missing);
            let session = known.sessions && state.after > known.base;
            if self.lacks(txn, state, known).any(is_late)
                || session && incomplete(state.after, known).any(is_late)
            {
                late.push(txn);
            }
            for ancestor in &state.dependencies {
                dependents.entry(*ancestor).or_default().push(txn);
                stack.push(*ancestor);
            }
        }
        while let Some(txn) = late.pop() {
            if above.remove(&txn) {
                late.extend(dependents.remove(&txn).into_iter().flatten());
            }
        }
        Members { base: known.base, above }
    }
}
