//! Which nodes a cluster has beside one in each region.

use base::rng::Rng;
use base::topology::{NodeSpec, Topology};
use base::{NodeId, PartitionId, RegionId};

/// Leaves analytics to the nodes that run partitions, or gives it to nodes of its own (PERSEUS §III): one or two
/// in each region, each with columns of some partitions, all of its region's among them between the two.
pub(super) fn deploy_readers(topology: &mut Topology, always: bool, rng: &mut Rng) {
    let kind = rng.below(3);
    if kind == 0 && !always {
        return;
    }
    for region in (0..topology.wan.region_count() as u16).map(RegionId) {
        let own: Vec<PartitionId> = topology.partitions_in(region).collect();
        let others: Vec<PartitionId> =
            topology.partition_ids().filter(|p| topology.region_of_partition(*p) != region).collect();
        let some = |rng: &mut Rng, of: &[PartitionId]| -> Vec<PartitionId> {
            of.iter().copied().filter(|_| rng.chance(0.5)).collect()
        };
        for nth in 0..rng.between(1, 2) as usize {
            let mut subscribes: Vec<PartitionId> = if nth == 0 { own.clone() } else { some(rng, &own) };
            subscribes.extend(some(rng, &others));
            if !subscribes.is_empty() {
                topology.nodes.push(NodeSpec { region, subscribes });
            }
        }
    }
    if kind == 2 {
        // Those that order keep no columns at all.
        for partition in topology.partitions.clone() {
            topology.nodes[partition.node.0 as usize].subscribes.clear();
        }
    }
}

/// Gives each region's last partition a node of its own.
pub(super) fn split_regions(topology: &mut Topology) {
    for region in 0..topology.wan.region_count() as u16 {
        let region = RegionId(region);
        let last = topology.partitions_in(region).last().expect("every region has partitions");
        let subscribes = topology.nodes[region.0 as usize].subscribes.clone();
        topology.partitions[last.0 as usize].node = NodeId(topology.nodes.len() as u16);
        topology.nodes.push(NodeSpec { region, subscribes });
    }
}
