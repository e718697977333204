//! Which machines keep which node.

use base::NodeId;
use base::topology::{NodeSpec, PartitionSpec, Topology};

/// Every node's machines, the same everywhere and for ever. KEEPS: a machine keeps one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// By node.
    members: Vec<Vec<NodeId>>,
    /// By machine.
    nodes: Vec<NodeId>,
}

impl Groups {
    /// `copies` machines per node: node n's are n × copies and the following.
    pub fn of(nodes: usize, copies: u16) -> Groups {
        assert!(copies > 0, "a node without a machine");
        let ids = |n: u16| (n * copies..(n + 1) * copies).map(NodeId).collect();
        let nodes = nodes as u16;
        Groups {
            members: (0..nodes).map(ids).collect(),
            nodes: (0..nodes * copies).map(|m| NodeId(m / copies)).collect(),
        }
    }
    pub fn members(&self, node: NodeId) -> &[NodeId] {
        &self.members[node.0 as usize]
    }
    pub fn node_of(&self, machine: NodeId) -> NodeId {
        self.nodes[machine.0 as usize]
    }
    pub fn machines(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u16).map(NodeId)
    }
    /// A topology of machines, for the host that runs them: each where its node is.
    pub fn machines_of(&self, topology: &Topology) -> Topology {
        let spec = |m| {
            let node = &topology.nodes[self.node_of(m).0 as usize];
            NodeSpec { region: node.region, subscribes: node.subscribes.clone() }
        };
        let first = |node: &NodeId| self.members(*node)[0];
        let partitions = topology.partitions.iter().map(|p| PartitionSpec {
            region: p.region,
            node: first(&p.node),
            copies: p.copies.iter().map(first).collect(),
        });
        Topology {
            wan: topology.wan.clone(),
            nodes: self.machines().map(spec).collect(),
            partitions: partitions.collect(),
            clock_bound_ns: topology.clock_bound_ns,
            unbounded_clocks: topology.unbounded_clocks,
            spread_over: topology.spread_over,
            removed: topology.removed.clone(),
        }
    }
}
