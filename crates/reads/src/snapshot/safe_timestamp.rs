//! Safe timestamps (F1 Lightning): read at once, at what the whole cluster has announced.
//!
//! Every partition announces, in regular intervals, a rank at or below which nothing is missing on its stream.
//! The least of them over *all* partitions is an initial segment of the serial order that is complete here, so
//! a query reads it without asking anybody. It lags by a one-way delay, an interval and the age of the oldest
//! undecided transaction anywhere; a writer that has been answered meanwhile is not seen.

use super::{Ask, ColumnView, QueryMeta, Readable, SnapshotRule, Told};
use base::{Rank, SqlError, Time};

/// A query at the cluster's safe rank.
pub struct SafeTimestampQuery {
    meta: QueryMeta,
}

impl SafeTimestampQuery {
    pub fn new(meta: QueryMeta) -> SafeTimestampQuery {
        SafeTimestampQuery { meta }
    }
}

impl SnapshotRule for SafeTimestampQuery {
    fn asks(&self) -> Vec<Ask> {
        Vec::new()
    }

    fn told(&mut self, _: Time, _: Told) {}

    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<Readable>, SqlError> {
        let cut = view.safe();
        if cut == Rank::ZERO || cut < self.meta.token.rank {
            return Ok(None);
        }
        assert!(self.meta.reads.keys().all(|p| view.low(*p) >= cut), "what is safe has arrived here");
        Ok(Some(Readable::at(&self.meta, now, cut, cut.time(), 0, view)))
    }
}
