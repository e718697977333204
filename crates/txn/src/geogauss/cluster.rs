//! What a node knows of its cluster from the start.

use super::options::Options;
use base::topology::Topology;
use base::{NodeId, Rank, RegionId, SqlError, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub topology: Arc<Topology>,
    /// This node.
    pub me: NodeId,
    pub options: Options,
}

impl Cluster {
    /// Every node is a member: it keeps a copy of everything, executes what its clients submit, and merges epochs.
    /// Errors: a node keeps a part only (0A000).
    pub fn check(topology: &Topology) -> Result<(), SqlError> {
        let lacks = |node: NodeId| topology.partition_ids().any(|p| !topology.holds(node, p));
        match topology.node_ids().find(|node| lacks(*node)) {
            None => Ok(()),
            Some(node) => {
                let what =
                    format!("engine geogauss with a node that does not keep every partition ({node:?})");
                Err(SqlError::unsupported(what).hint("Run one node in each region."))
            }
        }
    }
    pub fn members(&self) -> impl Iterator<Item = NodeId> + use<> {
        self.topology.node_ids()
    }
    /// The others, nearest first.
    pub fn donors(&self) -> Vec<NodeId> {
        let mut donors: Vec<NodeId> = self.others().collect();
        donors.sort_by_key(|node| (self.topology.one_way_ns(self.me, *node), *node));
        donors
    }
    pub fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        self.topology.node_ids().filter(move |node| *node != me)
    }
    /// `None`: clocks have no bound, and answers do not wait for them.
    pub fn clock_bound_ns(&self) -> Option<u64> {
        (!self.topology.unbounded_clocks).then_some(self.topology.clock_bound_ns)
    }
    /// No cut or token of this cluster is later.
    pub fn latest_cut(&self, now: Time) -> Rank {
        let ahead_ns = 3 * self.topology.clock_bound_ns + self.options.future_max_ns(&self.topology);
        self.topology.latest_rank(now, ahead_ns)
    }
    /// Everybody takes part in every epoch.
    pub fn regions(&self) -> BTreeSet<RegionId> {
        self.members().map(|node| self.topology.region_of(node)).collect()
    }
}
