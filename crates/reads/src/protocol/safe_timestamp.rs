//! Safe timestamps (F1 Lightning): read at once, at what the whole cluster has announced.
//!
//! Every partition announces, in regular intervals, a rank at or below which nothing is missing on its stream.
//! The least of them over *all* partitions is an initial segment of the serial order that is complete here, so
//! a query reads it without asking anybody. It lags by a one-way delay, an interval and the age of the oldest
//! undecided transaction anywhere; a writer that has been answered meanwhile is not seen.

use super::{ReadProtocol, Report};
use crate::rule::{Ask, Followed, Progress, QueryMeta, Readable, Rule, Told, View};
use base::order::StreamItem;
use base::{PartitionId, Rank, SqlError, Time};
use std::collections::BTreeMap;

/// What a node announces of its partitions.
pub struct SafeTimestamps {
    every_ns: u64,
    /// How far each partition here is safe, as its stream says.
    announced: BTreeMap<PartitionId, Rank>,
}

impl SafeTimestamps {
    pub fn new(every_ns: u64) -> SafeTimestamps {
        SafeTimestamps { every_ns, announced: BTreeMap::new() }
    }
}

impl ReadProtocol for SafeTimestamps {
    fn strong(&self, meta: QueryMeta, _: u64, view: &dyn View) -> Option<Followed> {
        Some(Followed { rule: Box::new(SafeTimestampQuery::new(meta)), floor: view.safe() })
    }
    fn is_local(&self) -> bool {
        true
    }
    fn announces_every_ns(&self) -> Option<u64> {
        Some(self.every_ns)
    }
    fn hears_of_all(&self) -> bool {
        true
    }
    fn streamed(&mut self, partition: PartitionId, _: Option<u64>, item: &StreamItem) {
        if let StreamItem::Low(rank) = item {
            let announced = self.announced.entry(partition).or_default();
            *announced = (*announced).max(*rank);
        }
    }
    fn report(&mut self) -> Report {
        Report::Safe(self.announced.iter().map(|(partition, rank)| (*partition, *rank)).collect())
    }
    fn floor(&self, view: &dyn View) -> Option<Rank> {
        Some(view.safe())
    }
}

/// A query at the cluster's safe rank.
pub struct SafeTimestampQuery {
    meta: QueryMeta,
}

impl SafeTimestampQuery {
    pub fn new(meta: QueryMeta) -> SafeTimestampQuery {
        SafeTimestampQuery { meta }
    }
}

impl Rule for SafeTimestampQuery {
    fn asks(&self) -> Vec<Ask> {
        Vec::new()
    }

    fn told(&mut self, _: Time, _: Told) {}

    fn progress(&mut self, now: Time, view: &dyn View) -> Result<Progress, SqlError> {
        let cut = view.safe();
        if cut == Rank::ZERO || cut < self.meta.token.rank {
            return Ok(Progress::Choosing);
        }
        assert!(self.meta.reads.keys().all(|p| view.low(*p) >= cut), "what is safe has arrived here");
        Ok(Progress::Readable(Readable::at(&self.meta, now, cut, cut.time(), 0, view)))
    }
}
