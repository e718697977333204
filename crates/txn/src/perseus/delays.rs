//! One-way delays between nodes: a high percentile, as measured by what arrives.
//!
//! Starts from the topology's nominal delays. A larger sample pulls the estimate up quickly, a smaller
//! one lets it sink slowly, so that it settles near the 95th percentile.

use base::NodeId;
use base::topology::Topology;

/// `one_way_ns[to][from]`.
#[derive(Debug)]
pub(super) struct Delays {
    one_way_ns: Vec<Vec<u64>>,
}

impl Delays {
    pub fn new(topology: &Topology) -> Delays {
        let row = |to| topology.node_ids().map(|from| topology.one_way_ns(from, to)).collect();
        Delays { one_way_ns: topology.node_ids().map(row).collect() }
    }
    /// Something sent by `from` took this long to reach `to`.
    pub fn arrived(&mut self, from: NodeId, to: NodeId, sample_ns: u64) {
        if from == to {
            return;
        }
        let estimate = &mut self.one_way_ns[to.0 as usize][from.0 as usize];
        if sample_ns > *estimate {
            *estimate += (sample_ns - *estimate) / 4;
        } else {
            *estimate -= (*estimate - sample_ns) / 64;
        }
    }
    pub fn one_way_ns(&self, from: NodeId, to: NodeId) -> u64 {
        self.one_way_ns[to.0 as usize][from.0 as usize]
    }
    /// What has been measured at `me`.
    pub fn at(&self, me: NodeId) -> Vec<u64> {
        self.one_way_ns[me.0 as usize].clone()
    }
    pub fn all(&self) -> Vec<Vec<u64>> {
        self.one_way_ns.clone()
    }
    pub fn set(&mut self, to: NodeId, delays_ns: Vec<u64>) {
        if delays_ns.len() == self.one_way_ns.len() {
            self.one_way_ns[to.0 as usize] = delays_ns;
        }
    }
    /// Takes over what others measured; `me` knows better what reaches it.
    pub fn share(&mut self, me: NodeId, delays_ns: Vec<Vec<u64>>) {
        for (to, row) in delays_ns.into_iter().enumerate() {
            if to != me.0 as usize && to < self.one_way_ns.len() {
                self.set(NodeId(to as u16), row);
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
        assert_eq!(delays.one_way_ns(b, a), 50 * MS);
    }
}
