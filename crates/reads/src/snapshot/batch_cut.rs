//! Batch cuts (Janus-HTAP): fetch the last barrier that is closed everywhere, wait until it is applied.
//!
//! See [`crate::batches`]. Each barrier is an initial segment of the serial order, so queries are serializable. What was answered after the last batch closed is not in it, and a session's token is not
//! looked at.

use super::{Ask, ColumnView, QueryMeta, Readable, SnapshotRule, Told};
use crate::batches::HOLD_NS;
use base::{Rank, SqlError, SqlState, Time};

/// A query at the manager's barrier.
pub struct BatchCutQuery {
    meta: QueryMeta,
    published: Option<Rank>,
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

    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<Readable>, SqlError> {
        let Some(published) = self.published else { return Ok(None) };
        if now.since(self.meta.arrived) > HOLD_NS {
            let error = SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the batches that this query was to read have been superseded while it waited",
            );
            return Err(error.hint("Run the query again."));
        }
        if published == Rank::ZERO || self.meta.reads.keys().any(|p| view.low(*p) < published) {
            return Ok(None);
        }
        let (meta, complete_until) = (&self.meta, published.time());
        Ok(Some(Readable::at(meta, now, published, complete_until, self.coordination_ns, view)))
    }
}
