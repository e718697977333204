//! Synchronous replicas (Spanner-RSS with replicas for analytics): read what is here.
//!
//! A writer is answered only after every column copy of its partitions has applied it. So whatever was answered
//! is here already, and the newest rank applied here is a cut that includes it; what remains is to wait until
//! nothing at or below that rank can follow. Queries ask nobody. Writers pay.

use super::{Ask, ColumnView, QueryMeta, Readable, SnapshotRule, Told};
use base::{Rank, SqlError, Time};

/// A query at the newest rank applied here when it arrived.
pub struct SynchronousReplicaQuery {
    meta: QueryMeta,
    cut: Rank,
}

impl SynchronousReplicaQuery {
    pub fn new(meta: QueryMeta, view: &dyn ColumnView) -> SynchronousReplicaQuery {
        let newest = meta.reads.keys().map(|p| view.newest(*p)).max().unwrap_or_default();
        // Where little is written the newest is old, and older versions than what is complete may be gone.
        let complete = meta.reads.keys().map(|p| view.low(*p)).min().unwrap_or_default();
        let cut = newest.max(complete).max(meta.token.rank);
        SynchronousReplicaQuery { meta, cut }
    }

    pub fn cut(&self) -> Rank {
        self.cut
    }
}

impl SnapshotRule for SynchronousReplicaQuery {
    fn asks(&self) -> Vec<Ask> {
        Vec::new()
    }

    fn told(&mut self, _: Time, _: Told) {}

    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<Readable>, SqlError> {
        if self.meta.reads.keys().any(|p| view.low(*p) < self.cut) {
            return Ok(None);
        }
        // Whatever was answered before the query arrived is in: nothing is stale.
        Ok(Some(Readable::at(&self.meta, now, self.cut, self.meta.arrived, 0, view)))
    }
}
