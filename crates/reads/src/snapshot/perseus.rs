//! `regular`: per-query cuts closed under dependencies (PERSEUS §IV, as repaired).
//!
//! After the query arrived, each partition it reads is asked how far it has executed. The answers form
//! a vector of log positions, which is extended until it is closed under ancestors. That gives, per
//! query: atomic transactions, every ancestor, and every conflicting writer that had been answered.
//!
//! A token carries a rank. An ancestor of what the session has seen may have to be seen at partitions that
//! the session never touched, and no ancestor is ranked above its descendant; so with a token each
//! partition is asked to close the token's rank, and its log's end then covers the ancestors too.
//!
//! It does not give one order for all queries. Two non-conflicting writers T1@A, T2@B and two queries
//! that calibrate A and B at different moments see them in opposite orders (a long fork), although each
//! cut is closed. The paper claims regular sequential serializability for this; it takes rank cuts
//! ([`super::rank`]) to get it.

use super::{Ask, ColumnView, QueryMeta, SnapshotRule, Told, freshness};
use crate::graph::Closure;
use base::order::Close;
use base::{Cut, Freshness, LogPosition, PartitionId, Rank, SqlError, Time};
use std::collections::BTreeMap;

/// A query at a vector cut.
pub struct RegularQuery {
    meta: QueryMeta,
    calibrated: BTreeMap<PartitionId, LogPosition>,
    coordination_ns: u64,
}

impl RegularQuery {
    pub fn new(meta: QueryMeta) -> RegularQuery {
        RegularQuery { meta, calibrated: BTreeMap::new(), coordination_ns: 0 }
    }
}

impl SnapshotRule for RegularQuery {
    fn asks(&self) -> Vec<Ask> {
        let open = self.meta.reads.keys().filter(|p| !self.calibrated.contains_key(p));
        let rank = self.meta.token.rank;
        if rank == Rank::ZERO {
            return open.map(|p| Ask::Calibrate(*p)).collect();
        }
        let close = |p: &PartitionId| Close { partition: *p, rank, granules: self.meta.reads[p].clone() };
        open.map(|p| Ask::Close(close(p))).collect()
    }

    fn told(&mut self, now: Time, told: Told) {
        // Asked and answered after the arrival, so everything answered before it is executed there.
        let (partition, position, waited_ns) = match told {
            Told::Calibrated { partition, calibration } => (partition, calibration.position, 0),
            Told::Closed { partition, closed, waited_ns } => (partition, closed.position, waited_ns),
            Told::Timestamp { .. } | Told::Batches { .. } => return,
        };
        if self.calibrated.insert(partition, position).is_none() {
            let on_the_way_ns = now.since(self.meta.arrived).saturating_sub(waited_ns);
            self.coordination_ns = self.coordination_ns.max(on_the_way_ns);
        }
    }

    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<(Cut, Freshness)>, SqlError> {
        if self.calibrated.len() < self.meta.reads.len() {
            return Ok(None);
        }
        let mut required = self.calibrated.clone();
        for (partition, position) in &mut required {
            *position =
                (*position).max(self.meta.token.positions.get(partition).copied().unwrap_or_default());
        }
        if required.iter().any(|(p, position)| view.applied(*p) < *position) {
            return Ok(None);
        }
        match view.graph().close(&required, &|p| view.low(p)) {
            Closure::Waiting { .. } => Ok(None),
            Closure::Done(vector) => {
                assert!(required.iter().all(|(p, position)| vector[p] >= *position));
                if vector.iter().any(|(p, position)| view.applied(*p) < *position) {
                    return Ok(None);
                }
                let fresh = freshness(&self.meta, now, self.meta.arrived, self.coordination_ns, view);
                Ok(Some((Cut::Vector(vector), fresh)))
            }
        }
    }
}
