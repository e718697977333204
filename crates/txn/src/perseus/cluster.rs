//! What a node knows of its cluster from the start.

use super::options::Options;
use base::topology::Topology;
use base::{NodeId, Rank, Time};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub topology: Arc<Topology>,
    /// This node.
    pub me: NodeId,
    pub options: Options,
}

impl Cluster {
    pub fn clock_bound_ns(&self) -> u64 {
        self.topology.clock_bound_ns
    }
    /// No cut or token of this cluster is later.
    pub fn latest_cut(&self, now: Time) -> Rank {
        now.rank() + 3 * self.clock_bound_ns() + self.options.future_max_ns(&self.topology)
    }
}
