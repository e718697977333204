//! Who is where: regions, partitions, nodes, and how good their clocks are.

use crate::wan::Wan;
use crate::{NodeId, PartitionId, RegionId};
use serde::{Deserialize, Serialize};

/// The cluster's shape; the same at every node. Changing it is a cluster operation, not a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    pub wan: Wan,
    /// Indexed by [`NodeId`].
    pub nodes: Vec<NodeSpec>,
    /// Indexed by [`PartitionId`].
    pub partitions: Vec<PartitionSpec>,
    /// ε: every node's clock is within this of true time, in ns. 0 inside one process.
    pub clock_bound_ns: u64,
}

/// One server process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpec {
    pub region: RegionId,
    /// Partitions whose columns this node keeps; empty if it does no analytics.
    pub subscribes: Vec<PartitionId>,
}

/// One shard of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSpec {
    pub region: RegionId,
    /// The node that runs it.
    pub node: NodeId,
}

impl Topology {
    /// One node per region that runs `partitions_per_region` partitions, accepts clients and keeps
    /// a column copy of the whole database.
    pub fn one_node_per_region(wan: Wan, partitions_per_region: u16) -> Topology {
        let regions = wan.region_count() as u16;
        let count = regions * partitions_per_region;
        let all: Vec<PartitionId> = (0..count).map(PartitionId).collect();
        let nodes = (0..regions).map(|r| NodeSpec { region: RegionId(r), subscribes: all.clone() }).collect();
        let partitions = (0..count)
            .map(|p| p / partitions_per_region)
            .map(|r| PartitionSpec { region: RegionId(r), node: NodeId(r) })
            .collect();
        Topology { wan, nodes, partitions, clock_bound_ns: 0 }
    }

    pub fn region_of(&self, node: NodeId) -> RegionId {
        self.nodes[node.0 as usize].region
    }
    pub fn node_of(&self, partition: PartitionId) -> NodeId {
        self.partitions[partition.0 as usize].node
    }
    pub fn region_of_partition(&self, partition: PartitionId) -> RegionId {
        self.partitions[partition.0 as usize].region
    }
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u16).map(NodeId)
    }
    pub fn partition_ids(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partitions.len() as u16).map(PartitionId)
    }
    /// Partitions that a node runs, in order.
    pub fn partitions_at(&self, node: NodeId) -> impl Iterator<Item = PartitionId> + '_ {
        self.partition_ids().filter(move |p| self.node_of(*p) == node)
    }
    /// Partitions of a region, in order.
    pub fn partitions_in(&self, region: RegionId) -> impl Iterator<Item = PartitionId> + '_ {
        self.partition_ids().filter(move |p| self.region_of_partition(*p) == region)
    }
    /// Nodes that keep columns of this partition.
    pub fn subscribers_of(&self, partition: PartitionId) -> impl Iterator<Item = NodeId> + '_ {
        self.node_ids().filter(move |n| self.nodes[n.0 as usize].subscribes.contains(&partition))
    }
    pub fn region_named(&self, name: &str) -> Option<RegionId> {
        self.wan.regions.iter().position(|r| r == name).map(|r| RegionId(r as u16))
    }
    pub fn region_name(&self, region: RegionId) -> &str {
        &self.wan.regions[region.0 as usize]
    }
    /// Nominal one-way delay between two nodes, in ns; 0 to oneself.
    pub fn one_way_ns(&self, a: NodeId, b: NodeId) -> u64 {
        if a == b { 0 } else { self.wan.one_way_ns(self.region_of(a), self.region_of(b)) }
    }
    /// Panics unless ids are dense, regions exist and every partition has a node in its own region.
    pub fn check(&self) {
        let regions = self.wan.region_count() as u16;
        for node in &self.nodes {
            assert!(node.region.0 < regions, "{} has no latency row", node.region);
            assert!(node.subscribes.iter().all(|p| (p.0 as usize) < self.partitions.len()));
        }
        for partition in &self.partitions {
            assert_eq!(self.region_of(partition.node), partition.region);
        }
    }
}
