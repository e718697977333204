//! Batch cuts (Janus-HTAP): fetch the last closed vector of batches, wait until it is applied.
//!
//! See [`crate::batches`]. Published vectors grow, so queries are totally ordered; each is closed, so it is
//! serializable. What was answered after the last batch closed is not in it, and a session's token is not
//! looked at.

use super::{Ask, ColumnView, QueryMeta, SnapshotRule, Told, freshness};
use crate::batches::{HOLD_NS, PublishedBatch};
use base::{Cut, Freshness, LogPosition, PartitionId, SqlError, SqlState, Time};
use std::collections::BTreeMap;

/// A query at the manager's vector.
pub struct BatchCutQuery {
    meta: QueryMeta,
    published: Option<BTreeMap<PartitionId, PublishedBatch>>,
    coordination_ns: u64,
}

impl BatchCutQuery {
    pub fn new(meta: QueryMeta) -> BatchCutQuery {
        BatchCutQuery { meta, published: None, coordination_ns: 0 }
    }
}

impl SnapshotRule for BatchCutQuery {
    fn asks(&self) -> Vec<Ask> {
        match self.published {
            None => vec![Ask::Batches],
            Some(_) => Vec::new(),
        }
    }

    fn told(&mut self, now: Time, told: Told) {
        let Told::Batches { published } = told else { return };
        if self.published.is_none() {
            self.published = Some(published);
            self.coordination_ns = now.since(self.meta.arrived);
        }
    }

    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<(Cut, Freshness)>, SqlError> {
        let Some(published) = &self.published else { return Ok(None) };
        if now.since(self.meta.arrived) > HOLD_NS {
            let error = SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the batches that this query was to read have been superseded while it waited",
            );
            return Err(error.hint("Run the query again."));
        }
        let of = |p: &PartitionId| published.get(p).copied().unwrap_or_default();
        let vector: BTreeMap<PartitionId, LogPosition> =
            self.meta.reads.keys().map(|p| (*p, of(p).end)).collect();
        if vector.iter().any(|(p, end)| view.applied(*p) < *end) {
            return Ok(None);
        }
        let complete_until = self.meta.reads.keys().map(|p| of(p).closed_at).min().unwrap_or(now);
        let cut = Cut::Vector(vector);
        let fresh = freshness(&self.meta, now, &cut, complete_until, self.coordination_ns, view);
        Ok(Some((cut, fresh)))
    }
}
