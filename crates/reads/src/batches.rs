//! Batches of the transactions' order, and the manager that knows which are closed everywhere (Janus-HTAP).
//!
//! IN: how far each partition is safe; reports of all partitions at the manager. OUT: reports; the last barrier
//! below which nothing is missing anywhere. KEEPS: what is published only grows, and is an initial segment of
//! the serial order.
//!
//! Barriers stand in the order of transactions at regular intervals of rank, so that a transaction of several
//! partitions is in one batch, whenever each of them executed it. (Batches cut from each partition's log and
//! tied together by a graph of who spans whom do not get far: where there is always some transaction between
//! any two partitions, hardly any vector of log positions is closed.) A partition closes a batch once nothing
//! below its barrier can be missing there; the manager publishes the last barrier that all have closed.

use base::time::SECOND;
use base::{PartitionId, Rank};
use std::collections::BTreeMap;

/// A query reads at its barrier within this time from its arrival, or not at all, in ns.
pub const HOLD_NS: u64 = SECOND;

/// A partition's side.
#[derive(Debug, Default)]
pub struct Batcher {
    closed: Rank,
}

impl Batcher {
    /// Everything at or below `safe` is on the partition's stream: closes what that allows. Answers the last
    /// barrier closed, to be reported (again, if it is the same: reports get lost).
    pub fn close(&mut self, safe: Rank, interval_ns: u64) -> Rank {
        self.closed = self.closed.max(Rank(safe.0 / interval_ns * interval_ns));
        self.closed
    }
}

/// The manager's side.
#[derive(Debug)]
pub struct BatchManager(BTreeMap<PartitionId, Rank>);

impl BatchManager {
    pub fn new(partitions: impl Iterator<Item = PartitionId>) -> BatchManager {
        BatchManager(partitions.map(|p| (p, Rank::ZERO)).collect())
    }

    /// A partition has closed everything up to this barrier. Reports may come late, twice and out of order.
    pub fn report(&mut self, partition: PartitionId, barrier: Rank) {
        if let Some(closed) = self.0.get_mut(&partition) {
            *closed = barrier.max(*closed);
        }
    }

    /// The last barrier that all partitions have closed.
    pub fn published(&self) -> Rank {
        self.0.values().copied().min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_is_published_once_the_last_partition_has_closed_it() {
        let mut manager = BatchManager::new([PartitionId(0), PartitionId(1)].into_iter());
        let mut batchers = [Batcher::default(), Batcher::default()];
        manager.report(PartitionId(0), batchers[0].close(Rank(270), 50));
        assert_eq!(manager.published(), Rank::ZERO, "the other partition was silent");
        manager.report(PartitionId(1), batchers[1].close(Rank(199), 50));
        assert_eq!(manager.published(), Rank(150), "200 is not closed there");
        manager.report(PartitionId(1), batchers[1].close(Rank(310), 50));
        assert_eq!(manager.published(), Rank(250));
        manager.report(PartitionId(1), Rank(150));
        assert_eq!(manager.published(), Rank(250), "a late report changes nothing");
        assert_eq!(batchers[0].close(Rank(240), 50), Rank(250), "what is closed stays closed");
    }
}
