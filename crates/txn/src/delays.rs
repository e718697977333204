//! One-way delays between regions: a high percentile, as measured by what arrives. They say when a
//! transaction that spans regions should be complete, and so where it is ranked.
//!
//! Starts from the topology's nominal delays. A larger sample pulls the estimate up quickly, a smaller
//! one lets it sink slowly, so that it settles near the 95th percentile.

use base::topology::Topology;
use base::{NodeId, RegionId};

/// Where a transaction that spans regions is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutureRanks {
    /// Now, like any other.
    Off,
    /// At its expected completion.
    Measured,
    /// At this many per cent of the way to its expected completion.
    Scaled { percent: u64 },
    /// Anywhere up to twice as far, by the transaction's id and this seed.
    Random { seed: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Delays {
    region_of: Vec<RegionId>,
    /// `one_way_ns[to][from]`.
    one_way_ns: Vec<Vec<u64>>,
}

impl Delays {
    pub fn new(topology: &Topology) -> Delays {
        let regions = topology.wan.region_count() as u16;
        let row = |to| (0..regions).map(|from| topology.wan.one_way_ns(RegionId(from), to)).collect();
        Delays {
            region_of: topology.nodes.iter().map(|node| node.region).collect(),
            one_way_ns: (0..regions).map(|to| row(RegionId(to))).collect(),
        }
    }
    fn region(&self, node: NodeId) -> usize {
        usize::from(self.region_of[node.0 as usize].0)
    }
    /// Something sent by `from` took this long to reach `to`.
    pub fn arrived(&mut self, from: NodeId, to: NodeId, sample_ns: u64) {
        if from == to {
            return;
        }
        let (from, to) = (self.region(from), self.region(to));
        let estimate = &mut self.one_way_ns[to][from];
        if sample_ns > *estimate {
            *estimate += (sample_ns - *estimate) / 4;
        } else {
            *estimate -= (*estimate - sample_ns) / 64;
        }
    }
    /// 0 to oneself.
    pub fn one_way_ns(&self, from: NodeId, to: NodeId) -> u64 {
        if from == to { 0 } else { self.one_way_ns[self.region(to)][self.region(from)] }
    }
    /// What arrives in the region of `me`, by region of origin.
    pub fn at(&self, me: NodeId) -> Vec<u64> {
        self.one_way_ns[self.region(me)].clone()
    }
    pub fn all(&self) -> Vec<Vec<u64>> {
        self.one_way_ns.clone()
    }
    /// Takes over what was measured in another node's region.
    pub fn set(&mut self, to: NodeId, delays_ns: Vec<u64>) {
        let to = self.region(to);
        if delays_ns.len() == self.one_way_ns.len() {
            self.one_way_ns[to] = delays_ns;
        }
    }
    /// Takes over what others measured; `me` knows better what reaches its region.
    pub fn share(&mut self, me: NodeId, delays_ns: Vec<Vec<u64>>) {
        let own = self.region(me);
        if delays_ns.len() == self.one_way_ns.len() {
            for (to, row) in delays_ns.into_iter().enumerate() {
                if to != own && row.len() == self.one_way_ns.len() {
                    self.one_way_ns[to] = row;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::MS;
    use base::wan::Wan;

    #[test]
    fn the_estimate_follows_the_tail_of_what_is_measured() {
        let topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
        let mut delays = Delays::new(&topology);
        let (a, b) = (NodeId(0), NodeId(1));
        assert_eq!(delays.one_way_ns(a, b), 50 * MS);
        // 50 to 70 ms, uniformly.
        for i in 0..2000u64 {
            delays.arrived(a, b, 50 * MS + (i * 7919 % 1000) * 20 * MS / 1000);
        }
        let settled = delays.one_way_ns(a, b);
        assert!((62 * MS..70 * MS).contains(&settled), "{settled}");
        assert_eq!((delays.one_way_ns(b, a), delays.one_way_ns(a, a)), (50 * MS, 0));
    }
}
