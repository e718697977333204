//! Partitions of a transaction, and nodes: small sorted sets that rarely need the heap.

use base::topology::Topology;
use base::{NodeId, PartitionId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The partitions that take part, sorted.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Participants(SmallVec<[PartitionId; 8]>);

/// Their nodes, sorted, each once.
pub type Nodes = SmallVec<[NodeId; 8]>;

impl Participants {
    /// `partitions` must be sorted.
    pub fn of(partitions: impl Iterator<Item = PartitionId>) -> Participants {
        let partitions = Participants(partitions.collect());
        assert!(partitions.0.is_sorted(), "participants travel in order");
        partitions
    }
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = PartitionId> + '_ {
        self.0.iter().copied()
    }
    pub fn contains(&self, partition: PartitionId) -> bool {
        self.0.contains(&partition)
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn to_vec(&self) -> Vec<PartitionId> {
        self.0.to_vec()
    }
    pub fn nodes(&self, topology: &Topology) -> Nodes {
        let mut nodes: Nodes = self.iter().map(|p| topology.node_of(p)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// A set of nodes as bits. Nodes from 128 on do not fit: they are never in it, which costs messages,
/// not correctness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NodeSet(u128);

impl NodeSet {
    pub fn insert(&mut self, node: NodeId) {
        if node.0 < 128 {
            self.0 |= 1 << node.0;
        }
    }
    pub fn contains(self, node: NodeId) -> bool {
        node.0 < 128 && self.0 >> node.0 & 1 == 1
    }
    pub fn contains_all(self, nodes: &[NodeId]) -> bool {
        nodes.iter().all(|n| self.contains(*n))
    }
}
