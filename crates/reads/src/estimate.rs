//! Estimates when records in transit will arrive: from measured round trips and the number of one-way trips that are
//! left (PERSEUS §IV-B).
//!
//! A transaction whose order is known here, and whose record at partition p is not, has one one-way trip before it,
//! from p to here; if its participants exchange reads, possibly one more. Starts from the
//! topology's distances. A longer sample pulls an estimate up quickly, a shorter one lets it sink slowly: too
//! low an estimate costs nothing here (optional waits are given up), too high a one only freshness.

use base::{PartitionId, Time};
use std::collections::BTreeMap;

/// One-way delays from partitions to this node.
#[derive(Clone, Debug, Default)]
pub struct DelayEstimates {
    one_way_ns: BTreeMap<PartitionId, u64>,
}

impl DelayEstimates {
    pub fn new(nominal_ns: impl Iterator<Item = (PartitionId, u64)>) -> DelayEstimates {
        DelayEstimates { one_way_ns: nominal_ns.collect() }
    }
    /// A question to this partition came back after this long, without what the partition waited for.
    pub fn round_trip(&mut self, partition: PartitionId, ns: u64) {
        let sample_ns = ns / 2;
        let estimate = self.one_way_ns.entry(partition).or_insert(sample_ns);
        match sample_ns > *estimate {
            true => *estimate += (sample_ns - *estimate) / 4,
            false => *estimate -= (*estimate - sample_ns) / 16,
        }
    }
    pub fn one_way_ns(&self, partition: PartitionId) -> u64 {
        self.one_way_ns.get(&partition).copied().unwrap_or_default()
    }
    /// When a record of this partition should be here whose order has been known here `since`.
    pub fn eta(&self, partition: PartitionId, since: Time, exchanges: bool) -> Time {
        since + (1 + u64::from(exchanges)) * self.one_way_ns(partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_rises_at_once_and_sinks_slowly() {
        let p = PartitionId(3);
        let mut delays = DelayEstimates::new([(p, 1000)].into_iter());
        assert_eq!(delays.eta(p, Time(5), false), Time(1005));
        assert_eq!(delays.eta(p, Time(5), true), Time(2005));
        delays.round_trip(p, 4000);
        assert_eq!(delays.one_way_ns(p), 1250);
        delays.round_trip(p, 2000);
        assert_eq!(delays.one_way_ns(p), 1235);
        assert_eq!(delays.one_way_ns(PartitionId(9)), 0);
    }
}
