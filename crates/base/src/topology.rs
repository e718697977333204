//! The cluster's layout: regions, partitions, nodes, and the bound of their clocks.

use crate::time::SECOND;
use crate::wan::Wan;
use crate::{NodeId, PartitionId, Rank, RegionId, Time};
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
    /// No bound is known: clocks may show anything, as long as they go forward. `clock_bound_ns` is 0 then, and
    /// says nothing. A property of the cluster, fixed when it is created: one node that relied on a bound would
    /// break what another one promises.
    pub unbounded_clocks: bool,
    /// Rows that nothing else places are spread by hash over so many regions, the first ones; 0: over all. It is what it
    /// was when the cluster was made, so that rows stay where they are when a region joins.
    pub spread_over: u16,
    /// Regions that have left the cluster, in that order. Their numbers stay theirs, and so do those of their nodes.
    pub removed: Vec<Removed>,
}

/// A region that has left the cluster. Its rows stay in their partitions, which its heir runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub region: RegionId,
    pub heir: RegionId,
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
    /// Whose rows it has; where it is run as well, unless that region has left the cluster.
    pub region: RegionId,
    /// The node that runs it.
    pub node: NodeId,
    /// Nodes of other regions that keep a copy and execute everything it takes part in; none where an
    /// engine keeps one replica.
    pub copies: Vec<NodeId>,
}

impl Topology {
    /// These nodes and partitions, with clocks that are always right.
    pub fn of(wan: Wan, nodes: Vec<NodeSpec>, partitions: Vec<PartitionSpec>) -> Topology {
        Topology {
            wan,
            nodes,
            partitions,
            clock_bound_ns: 0,
            unbounded_clocks: false,
            spread_over: 0,
            removed: Vec::new(),
        }
    }
    /// One node per region that runs `partitions_per_region` partitions, accepts clients and keeps
    /// a column copy of the whole database.
    pub fn one_node_per_region(wan: Wan, partitions_per_region: u16) -> Topology {
        let regions = wan.region_count() as u16;
        let count = regions * partitions_per_region;
        let all: Vec<PartitionId> = (0..count).map(PartitionId).collect();
        let nodes = (0..regions).map(|r| NodeSpec { region: RegionId(r), subscribes: all.clone() }).collect();
        let partitions = (0..count)
            .map(|p| p / partitions_per_region)
            .map(|r| PartitionSpec { region: RegionId(r), node: NodeId(r), copies: Vec::new() })
            .collect();
        Topology::of(wan, nodes, partitions)
    }

    /// The same cluster with a copy of every partition in every region: a full replica each, spread over
    /// the nodes that run partitions there.
    pub fn replicated(mut self) -> Topology {
        let running = |topology: &Topology, region| -> Vec<NodeId> {
            let mut nodes: Vec<NodeId> =
                topology.partitions_in(region).map(|p| topology.node_of(p)).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        let regions: Vec<RegionId> = (0..self.wan.region_count() as u16).map(RegionId).collect();
        let by_region: Vec<Vec<NodeId>> = regions.iter().map(|r| running(&self, *r)).collect();
        for (n, partition) in self.partitions.iter_mut().enumerate() {
            let others = by_region
                .iter()
                .enumerate()
                .filter(|(r, nodes)| *r != usize::from(partition.region.0) && !nodes.is_empty());
            partition.copies = others.map(|(_, nodes)| nodes[n % nodes.len()]).collect();
        }
        self
    }
    /// The same cluster without a region: its heir runs its partitions, and it lies where its heir does, so that no
    /// timeout follows from how far away it was. Replicas come later ([`Topology::with_replicas`]).
    pub fn without(mut self, removed: Removed) -> Topology {
        let Removed { region, heir } = removed;
        assert_ne!(region, heir, "a region is no heir of itself");
        let leaves = |topology: &Topology, node: NodeId| topology.region_of(node) == region;
        let by_heir = |copies: &[NodeId]| copies.iter().copied().find(|node| self.region_of(*node) == heir);
        let runs = |spec: &PartitionSpec| match leaves(&self, spec.node) {
            true => {
                by_heir(&spec.copies).or_else(|| self.sequencer_of(heir)).expect("its heir runs partitions")
            }
            false => spec.node,
        };
        let partition = |spec: &PartitionSpec| {
            let node = runs(spec);
            let stays = |copy: &NodeId| *copy != node && !leaves(&self, *copy);
            PartitionSpec { node, copies: spec.copies.iter().copied().filter(stays).collect(), ..*spec }
        };
        let partitions = self.partitions.iter().map(partition).collect();
        self.partitions = partitions;
        let mut read = Vec::new();
        for node in self.nodes.iter_mut().filter(|node| node.region == region) {
            read.append(&mut node.subscribes);
        }
        let (gone, near) = (usize::from(region.0), usize::from(heir.0));
        let round_trips = &mut self.wan.round_trip_ns;
        round_trips[gone] = round_trips[near].clone();
        for row in round_trips.iter_mut() {
            row[gone] = row[near];
        }
        self.removed.push(removed);
        // Columns that only a node there kept are kept where the partition is run from now on.
        for partition in read {
            if self.subscribers_of(partition).next().is_none() {
                let node = usize::from(self.node_of(partition).0);
                self.nodes[node].subscribes.push(partition);
                self.nodes[node].subscribes.sort_unstable();
            }
        }
        self
    }
    /// Whether a region has left the cluster.
    pub fn is_removed(&self, region: RegionId) -> bool {
        self.removed.iter().any(|removed| removed.region == region)
    }
    /// Where what a region would run or order is run and ordered: there, or at its heir's.
    pub fn successor(&self, region: RegionId) -> RegionId {
        self.removed.iter().fold(region, |at, removed| if at == removed.region { removed.heir } else { at })
    }
    /// Regions that have not left the cluster, in order.
    pub fn regions(&self) -> impl Iterator<Item = RegionId> + '_ {
        (0..self.wan.region_count() as u16).map(RegionId).filter(|region| !self.is_removed(*region))
    }
    /// The same cluster with so many more nodes in each region, which run nothing and follow every partition: read-only
    /// replicas. They come behind all other nodes.
    pub fn with_replicas(mut self, per_region: u16) -> Topology {
        let all: Vec<PartitionId> = self.partition_ids().collect();
        let regions: Vec<RegionId> = self.regions().collect();
        for region in regions {
            let replica = || NodeSpec { region, subscribes: all.clone() };
            self.nodes.extend((0..per_region).map(|_| replica()));
        }
        self
    }
    /// Whether a node runs no partition and has no copy of any.
    pub fn is_replica(&self, node: NodeId) -> bool {
        self.copies_at(node).next().is_none() && !self.is_removed(self.region_of(node))
    }
    /// Whether some partition has more than one copy.
    pub fn is_replicated(&self) -> bool {
        self.partitions.iter().any(|p| !p.copies.is_empty())
    }
    /// Whether a node executes what a partition takes part in.
    pub fn holds(&self, node: NodeId, partition: PartitionId) -> bool {
        let partition = &self.partitions[partition.0 as usize];
        partition.node == node || partition.copies.contains(&node)
    }
    /// Partitions of which a node keeps a copy, those it runs included, in order.
    pub fn copies_at(&self, node: NodeId) -> impl Iterator<Item = PartitionId> + '_ {
        self.partition_ids().filter(move |p| self.holds(node, *p))
    }
    /// Where a node reads a partition: at its own copy, else at one in its region, else where it is run.
    pub fn copy_near(&self, partition: PartitionId, node: NodeId) -> NodeId {
        let spec = &self.partitions[partition.0 as usize];
        let region = self.region_of(node);
        let copies = || std::iter::once(spec.node).chain(spec.copies.iter().copied());
        let own = copies().find(|n| *n == node);
        own.or_else(|| copies().find(|n| self.region_of(*n) == region)).unwrap_or(spec.node)
    }
    /// The node that orders what is homed in a region: the first that runs a partition there.
    pub fn sequencer_of(&self, region: RegionId) -> Option<NodeId> {
        self.partitions_in(region).map(|p| self.node_of(p)).min()
    }

    /// The latest rank that anything in this cluster can have, asked at a node whose clock shows `now`; `ahead_ns`: how
    /// far ranks may lie in the future.
    pub fn latest_rank(&self, now: Time, ahead_ns: u64) -> Rank {
        match self.unbounded_clocks {
            // Clocks may be off by anything, within reason.
            true => now.rank() + 10 * 365 * 24 * 3600 * SECOND,
            false => now.rank() + self.clock_bound_ns + ahead_ns,
        }
    }
    /// Regions over which rows are spread that nothing else places.
    pub fn spread(&self) -> u16 {
        match self.spread_over {
            0 => self.wan.region_count() as u16,
            regions => regions,
        }
    }
    pub fn region_of(&self, node: NodeId) -> RegionId {
        self.nodes[node.0 as usize].region
    }
    pub fn node_of(&self, partition: PartitionId) -> NodeId {
        self.partitions[partition.0 as usize].node
    }
    /// Where a partition is run.
    pub fn region_of_partition(&self, partition: PartitionId) -> RegionId {
        self.successor(self.partitions[partition.0 as usize].region)
    }
    /// Nodes in order, those of regions that have left the cluster left out.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        let is_there = |spec: &NodeSpec| !self.is_removed(spec.region);
        let there: Vec<bool> = self.nodes.iter().map(is_there).collect();
        (0..).map(NodeId).zip(there).filter(|(_, is_there)| *is_there).map(|(node, _)| node)
    }
    pub fn partition_ids(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partitions.len() as u16).map(PartitionId)
    }
    /// Partitions that a node runs, in order.
    pub fn partitions_at(&self, node: NodeId) -> impl Iterator<Item = PartitionId> + '_ {
        self.partition_ids().filter(move |p| self.node_of(*p) == node)
    }
    /// Partitions with the rows of a region, in order, wherever they are run.
    pub fn partitions_of(&self, region: RegionId) -> impl Iterator<Item = PartitionId> + '_ {
        self.partition_ids().filter(move |p| self.partitions[usize::from(p.0)].region == region)
    }
    /// Partitions that a region runs, in order.
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
    /// Panics unless ids are dense, regions exist, every partition has a node in its own region and at
    /// most one copy in any other.
    pub fn check(&self) {
        let regions = self.wan.region_count() as u16;
        assert!(self.spread_over <= regions, "rows are spread over regions that exist");
        for node in &self.nodes {
            assert!(node.region.0 < regions, "{} has no latency row", node.region);
            assert!(node.subscribes.iter().all(|p| (p.0 as usize) < self.partitions.len()));
        }
        for Removed { region, heir } in &self.removed {
            assert!(region.0 < regions && heir.0 < regions, "{region} left, and {heir} has what it had");
        }
        for partition in &self.partitions {
            assert_eq!(self.region_of(partition.node), self.successor(partition.region));
            let mut regions: Vec<RegionId> = partition.copies.iter().map(|n| self.region_of(*n)).collect();
            regions.push(self.region_of(partition.node));
            regions.sort_unstable();
            assert!(regions.windows(2).all(|pair| pair[0] != pair[1]), "one copy a region");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_over_the_regions_that_a_cluster_was_made_with() {
        let topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
        assert_eq!(topology.spread(), 3);
        let topology = Topology { spread_over: 2, ..topology };
        topology.check();
        assert_eq!(topology.spread(), 2);
    }

    #[test]
    fn what_a_region_had_is_run_by_its_heir_under_the_same_numbers() {
        let wan = Wan::uniform("test", &["a", "b", "c", "d"], 1, 40);
        let whole = Topology::one_node_per_region(wan, 2).replicated();
        let region = |n: u16| RegionId(n);
        let without_b = whole.clone().without(Removed { region: region(1), heir: region(3) });
        let left = without_b.without(Removed { region: region(3), heir: region(0) }).with_replicas(1);
        left.check();
        assert_eq!(left.regions().collect::<Vec<_>>(), [region(0), region(2)]);
        assert_eq!([0, 1, 2, 3].map(|n| left.successor(region(n)).0), [0, 0, 2, 0], "the heir's heir");
        assert_eq!(left.partitions_in(region(0)).count(), 6);
        assert_eq!(left.partitions_of(region(1)).collect::<Vec<_>>(), [PartitionId(2), PartitionId(3)]);
        assert!([1, 3].iter().all(|n| left.sequencer_of(region(*n)).is_none()));
        assert_eq!(left.node_ids().map(|node| node.0).collect::<Vec<_>>(), [0, 2, 4, 5]);
        assert!(left.is_replica(NodeId(4)) && !left.is_replica(NodeId(1)));
        assert_eq!(left.wan.round_trip_ns(region(1), region(2)), 40);
        assert_eq!(left.wan.round_trip_ns(region(3), region(0)), 1, "it is where its heir is");
    }

    #[test]
    fn columns_that_only_a_node_kept_that_leaves_are_kept_by_its_heir() {
        let mut topology = Topology::one_node_per_region(Wan::uniform("test", &["a", "b", "c"], 1, 40), 1);
        for n in 0..3 {
            topology.nodes[n].subscribes = vec![PartitionId(n as u16)];
        }
        let left = topology.without(Removed { region: RegionId(2), heir: RegionId(0) });
        assert_eq!(left.nodes[0].subscribes, [PartitionId(0), PartitionId(2)]);
        assert_eq!(left.nodes[1].subscribes, [PartitionId(1)]);
        assert!(left.nodes[2].subscribes.is_empty());
    }

    #[test]
    fn replicas_come_last_and_run_nothing() {
        let wan = Wan::preset("perseus3").unwrap();
        let topology = Topology::one_node_per_region(wan, 2).replicated().with_replicas(2);
        topology.check();
        let replicas: Vec<NodeId> = topology.node_ids().filter(|node| topology.is_replica(*node)).collect();
        assert_eq!(replicas, (3..9).map(NodeId).collect::<Vec<_>>());
        for replica in replicas {
            let feeds = topology.partition_ids().map(|p| topology.copy_near(p, replica));
            let region = topology.region_of(replica);
            assert!(feeds.into_iter().all(|node| node != replica && topology.region_of(node) == region));
        }
    }

    #[test]
    fn a_replicated_cluster_keeps_a_copy_of_everything_in_every_region() {
        let wan = Wan::preset("perseus3").unwrap();
        let mut topology = Topology::one_node_per_region(wan, 2);
        assert!(!topology.is_replicated());
        // A second node in region 1, and a gateway in region 2.
        topology.nodes.push(NodeSpec { region: RegionId(1), subscribes: Vec::new() });
        topology.nodes.push(NodeSpec { region: RegionId(2), subscribes: Vec::new() });
        topology.partitions[3].node = NodeId(3);
        let topology = topology.replicated();
        topology.check();
        for partition in topology.partition_ids() {
            for node in topology.node_ids() {
                let near = topology.copy_near(partition, node);
                assert_eq!(topology.region_of(near), topology.region_of(node));
                assert!(topology.holds(near, partition));
            }
        }
        assert_eq!(topology.copies_at(NodeId(0)).count(), 6);
        assert_eq!(topology.copies_at(NodeId(1)).count() + topology.copies_at(NodeId(3)).count(), 6);
        assert_eq!(topology.copies_at(NodeId(4)).count(), 0);
        assert_eq!(topology.sequencer_of(RegionId(1)), Some(NodeId(1)));
    }
}
