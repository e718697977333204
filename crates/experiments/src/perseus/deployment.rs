//! The machines: five data centres of TP nodes and analytical nodes, and what their work costs.

use base::time::{MS, SECOND, US};
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId};
use serde_json::{Value, json};
use sim::world::network::{Jitter, LinkFaults, Links};
use sim::world::{Cost, Setup, Wire};

/// ε of every clock, in ns.
pub const CLOCK_BOUND_NS: u64 = MS;
/// What work costs. KiB are as measured from the real code (`node/examples/shipping.rs`, `docs/benchmarks.md`), rounded
/// up; an event of any kind costs what is about the mean of them, half of what a whole transaction of TPC-C takes where
/// it meets nobody; a message more than its write to a loopback, which no network is.
pub const COST: Cost = Cost {
    event_ns: 20 * US,
    kilobyte_ns: 3 * US,
    encode_kilobyte_ns: 4 * US,
    send_ns: 2 * US,
    load_ns: 3 * US,
    send_kilobyte_ns: US / 10,
    computation_ns: 5 * MS,
    cores: 24,
};
const INSIDE: Jitter = Jitter::Tail { half_ns: 50 * US };
const ACROSS: Jitter = Jitter::Tail { half_ns: MS };

/// How columns are spread over a data centre's analytical nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Analytics {
    /// As many nodes as there are data centres, each with the columns of one (the paper's).
    PerDataCentre,
    /// One node with the columns of all: a global query needs no second node.
    Whole,
    /// Only of a data centre's own partitions, each node with the columns of so many TP nodes.
    LocalGroups { nodes_each: u16 },
    /// None: nothing is shipped.
    None,
}

/// The cluster's shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deployment {
    pub tp_nodes: u16,
    pub analytics: Analytics,
    /// Round trips across data centres, in ns.
    pub across_ns: u64,
    /// Jitter across data centres, each way.
    pub jitter: Jitter,
    /// What work costs is so many times [`COST`].
    pub cost_times: u64,
    /// That run the data centres' event loops. Figures do not depend on it.
    pub threads: usize,
}

impl Deployment {
    pub fn new(tp_nodes: u16, analytics: Analytics) -> Deployment {
        Deployment { tp_nodes, analytics, across_ns: 100 * MS, jitter: ACROSS, cost_times: 1, threads: 1 }
    }

    pub fn topology(&self) -> Topology {
        let preset = Wan::preset("perseus5").expect("a preset");
        let names: Vec<&str> = preset.regions.iter().map(String::as_str).collect();
        let wan = Wan::uniform("perseus5", &names, 2 * MS, self.across_ns);
        let regions: Vec<RegionId> = (0..names.len() as u16).map(RegionId).collect();
        let (mut nodes, mut partitions) = (Vec::new(), Vec::new());
        for &region in &regions {
            for _ in 0..self.tp_nodes {
                let node = NodeId(nodes.len() as u16);
                nodes.push(NodeSpec { region, subscribes: Vec::new() });
                partitions.push(PartitionSpec { region, node, copies: Vec::new() });
            }
        }
        let of =
            |region: RegionId| (0..self.tp_nodes).map(move |n| PartitionId(region.0 * self.tp_nodes + n));
        for &region in &regions {
            match self.analytics {
                Analytics::PerDataCentre => {
                    nodes.extend(regions.iter().map(|r| NodeSpec { region, subscribes: of(*r).collect() }));
                }
                Analytics::Whole => {
                    let subscribes = (0..partitions.len() as u16).map(PartitionId).collect();
                    nodes.push(NodeSpec { region, subscribes });
                }
                Analytics::LocalGroups { nodes_each } => {
                    let own: Vec<PartitionId> = of(region).collect();
                    let groups = own.chunks(usize::from(nodes_each));
                    nodes.extend(groups.map(|group| NodeSpec { region, subscribes: group.to_vec() }));
                }
                Analytics::None => {}
            }
        }
        Topology { clock_bound_ns: CLOCK_BOUND_NS, ..Topology::of(wan, nodes, partitions) }
    }

    pub fn setup(&self, seed: u64) -> Setup {
        let class = |jitter| LinkFaults { jitter, in_order: true, ..LinkFaults::default() };
        let links = Links { inside: class(INSIDE), across: class(self.jitter) };
        Setup { links, cost: self.cost(), wire: Wire::Measured, ..Setup::calm(self.topology(), seed) }
    }

    fn cost(&self) -> Cost {
        let times = self.cost_times;
        Cost {
            event_ns: times * COST.event_ns,
            kilobyte_ns: times * COST.kilobyte_ns,
            send_ns: times * COST.send_ns,
            encode_kilobyte_ns: times * COST.encode_kilobyte_ns,
            send_kilobyte_ns: times * COST.send_kilobyte_ns,
            ..COST
        }
    }

    /// The node that answers local queries of a data centre.
    pub fn local_analyst(&self, topology: &Topology, region: RegionId) -> NodeId {
        let home = topology.partitions_in(region).next().expect("every data centre has a partition");
        let keeps = |n: &NodeId| topology.nodes[n.0 as usize].subscribes.contains(&home);
        let mut here = topology.node_ids().filter(|n| topology.region_of(*n) == region);
        here.find(keeps).expect("every data centre has columns of its own partitions")
    }

    pub fn conditions(&self) -> Vec<(&'static str, Value)> {
        let cost = self.cost();
        let analytics = match self.analytics {
            Analytics::PerDataCentre => "5, each with the columns of one data centre's TP nodes",
            Analytics::Whole => "1, with the columns of all TP nodes",
            Analytics::LocalGroups { .. } => "one for every 20 TP nodes of its own",
            Analytics::None => "none",
        };
        vec![
            ("round trips inside / across (ms)", json!(format!("2 / {}, and jitter", self.across_ns / MS))),
            ("TP nodes per data centre, one partition each", json!(self.tp_nodes)),
            ("analytical nodes per data centre", json!(analytics)),
            ("clock bound (ms)", json!(CLOCK_BOUND_NS as f64 / 1e6)),
            ("replicas per partition", json!(1)),
            ("cost of an event (µs)", json!(cost.event_ns as f64 / 1e3)),
            ("cost of a message sent (µs)", json!(cost.send_ns as f64 / 1e3)),
            ("cost of a KiB received (µs)", json!(cost.kilobyte_ns as f64 / 1e3)),
            (
                "cost of a KiB encoded, once for all receivers (µs)",
                json!(cost.encode_kilobyte_ns as f64 / 1e3),
            ),
            ("cost of a KiB sent, to each (µs)", json!(cost.send_kilobyte_ns as f64 / 1e3)),
        ]
    }
}

/// Warm-up and measurement, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub warm_up_ns: u64,
    pub measured_ns: u64,
}

impl Window {
    pub fn seconds(warm_up: u64, measured: u64) -> Window {
        Window { warm_up_ns: warm_up * SECOND, measured_ns: measured * SECOND }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_centre_holds_a_full_copy_whatever_its_nodes() {
        for analytics in [Analytics::PerDataCentre, Analytics::Whole] {
            let deployment = Deployment::new(3, analytics);
            let topology = deployment.topology();
            topology.check();
            for partition in topology.partition_ids() {
                assert_eq!(topology.subscribers_of(partition).count(), 5);
            }
            let local = deployment.local_analyst(&topology, RegionId(2));
            assert_eq!(topology.region_of(local), RegionId(2));
        }
    }
}
