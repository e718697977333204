//! Whom accesses conflict with, at each partition of this node.
//!
//! IN: accesses of transactions, in the order of pre-acceptance. OUT: whom an access conflicts with. KEEPS: two
//! transactions that conflict at a partition are connected by conflicts that were reported.

use super::super::vertex::Graph;
use crate::graph::conflict::{ConflictIndex, Flaws, Image};
use crate::graph::vertex::Ref;
use base::txn::Access;
use base::{PartitionId, TxnId};

/// The conflict indexes of this node's partitions.
#[derive(Clone, Debug)]
pub(in crate::perseus) struct Conflicts {
    /// By the partitions' numbers here.
    all: Vec<(PartitionId, ConflictIndex)>,
    /// Reused: whom a PreAccept conflicts with.
    met: Vec<Ref>,
    flaws: Flaws,
}

impl Conflicts {
    /// Empty indexes of these partitions.
    pub fn new(partitions: impl Iterator<Item = PartitionId>, flaws: Flaws) -> Conflicts {
        let all = partitions.map(|id| (id, ConflictIndex::with_flaws(flaws))).collect();
        Conflicts { all, met: Vec::new(), flaws }
    }

    /// A transaction takes its place in the conflict index; adds whom its accesses conflict with to `met`.
    pub fn install(&mut self, local: usize, graph: &Graph, at: Ref, accesses: &[Access], met: &mut Vec<Ref>) {
        let (id, index) = &mut self.all[local];
        while let Some(table) = index.unordered_table(accesses) {
            let live = graph.iter().filter_map(|(_, vertex)| vertex.transaction.as_ref());
            index.order_table(table, live.flat_map(|transaction| transaction.access.at(*id)));
        }
        index.install(at, accesses, &|at| graph.get(at).is_some(), met);
    }
    /// An empty list for whom a transaction meets, to be given back: a transaction allocates none.
    pub fn lend_list(&mut self) -> Vec<Ref> {
        let mut met = std::mem::take(&mut self.met);
        met.clear();
        met
    }
    /// The list that was lent comes back.
    pub fn take_back(&mut self, met: Vec<Ref>) {
        self.met = met;
    }

    /// Forgets accesses of transactions that are gone.
    pub fn forget(&mut self, graph: &Graph) {
        self.all.iter_mut().for_each(|(_, index)| index.forget(&|at| graph.get(at).is_some()));
    }
    /// The same, although they may be few.
    #[cfg(test)]
    pub fn forget_now(&mut self, graph: &Graph) {
        self.all.iter_mut().for_each(|(_, index)| index.forget_now(&|at| graph.get(at).is_some()));
    }
    /// Granules remembered.
    pub fn granule_count(&self) -> usize {
        self.all.iter().map(|(_, index)| index.len()).sum()
    }

    /// One partition's index, as a checkpoint has it.
    pub fn image(&self, local: usize, id_of: &impl Fn(Ref) -> Option<TxnId>) -> Image {
        self.all[local].1.image(id_of)
    }
    /// Indexes are as a checkpoint says.
    pub fn restore(&mut self, images: impl Iterator<Item = Image>, at_of: &impl Fn(TxnId) -> Ref) {
        for ((_, index), image) in self.all.iter_mut().zip(images) {
            *index = ConflictIndex::restored(image, self.flaws, at_of);
        }
    }
}
