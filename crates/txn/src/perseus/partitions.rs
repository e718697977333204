//! The partitions of this node: what conflicts there, what is closed there, how far their logs are.
//!
//! IN: accesses of transactions, closed ranks, executions. OUT: whom an access conflicts with, positions of log records.
//! KEEPS: what is closed only grows; positions of a log are dense.

use super::cluster::Cluster;
use super::options::Mutant;
use super::vertex::Graph;
use crate::graph::conflict::{self, ConflictIndex, Flaws};
use crate::graph::vertex::Ref;
use base::process::Unreadable;
use base::txn::Access;
use base::{LogPosition, PartitionId, Rank, TxnId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug)]
pub(super) struct Partitions {
    all: Vec<Partition>,
    /// Index into `all`, by partition id.
    local: Vec<Option<u8>>,
    /// Reused: whom a PreAccept conflicts with.
    pub met: Vec<Ref>,
    flaws: Flaws,
}

/// One partition of this node.
#[derive(Clone, Debug)]
struct Partition {
    id: PartitionId,
    index: ConflictIndex,
    /// Every later pts here is larger.
    closed: Rank,
    position: LogPosition,
    rank_max: Rank,
    /// Somebody reads the stream.
    streams: bool,
}

/// A partition as a checkpoint has it.
#[derive(Serialize, Deserialize)]
pub(super) struct PartitionImage {
    pub id: PartitionId,
    pub index: conflict::Image,
    pub position: LogPosition,
    pub rank_max: Rank,
}

/// A life's log has fewer records than two to this.
const LIFE_BITS: u32 = 36;

impl Partitions {
    pub fn new(Cluster { topology, me, options }: &Cluster) -> Partitions {
        let forget_readers = options.planted(Mutant::MissingAntiDependency);
        let flaws = Flaws { forget_readers, ..Flaws::default() };
        let mut local = vec![None; topology.partitions.len()];
        let mut all = Vec::new();
        for id in topology.partitions_at(*me) {
            local[id.0 as usize] = Some(all.len() as u8);
            all.push(Partition {
                id,
                index: ConflictIndex::with_flaws(flaws),
                closed: Rank::ZERO,
                position: LogPosition(0),
                rank_max: Rank::ZERO,
                streams: topology.subscribers_of(id).next().is_some(),
            });
        }
        assert!(all.len() <= 64, "a node runs at most 64 partitions");
        Partitions { all, local, met: Vec::new(), flaws }
    }

    /// A partition's number here, if it is run by this node.
    pub fn index_of(&self, partition: PartitionId) -> Option<usize> {
        self.local[partition.0 as usize].map(usize::from)
    }
    fn of(&self, partition: PartitionId) -> &Partition {
        &self.all[self.index_of(partition).expect("the partition is run by this node")]
    }
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How far a partition's log is: the position of the last record, and the largest rank of any.
    pub fn log(&self, partition: PartitionId) -> (LogPosition, Rank) {
        let partition = self.of(partition);
        (partition.position, partition.rank_max)
    }
    /// A transaction of this rank is the next record.
    pub fn append(&mut self, local: usize, rank: Rank) -> LogPosition {
        let partition = &mut self.all[local];
        partition.position = partition.position.next();
        partition.rank_max = partition.rank_max.max(rank);
        partition.position
    }
    /// Somebody reads its stream.
    pub fn is_streamed(&self, local: usize) -> bool {
        self.all[local].streams
    }

    /// Every later pts there is larger than this.
    pub fn closed(&self, local: usize) -> Rank {
        self.all[local].closed
    }
    pub fn close(&mut self, partition: PartitionId, rank: Rank) {
        let local = self.index_of(partition).expect("a partition is closed where it runs");
        self.all[local].closed = self.all[local].closed.max(rank);
    }
    pub fn close_all(&mut self, rank: Rank) {
        self.all.iter_mut().for_each(|partition| partition.closed = partition.closed.max(rank));
    }
    /// A life begins. The former ones may have told of more records than were repeated: positions begin beyond all of
    /// theirs.
    pub fn come_back(&mut self, life: u32) {
        let begin = LogPosition(u64::from(life) << LIFE_BITS);
        for partition in &mut self.all {
            partition.position = partition.position.max(begin);
        }
    }
    /// Copies that are made from now on hold transactions of ranks up to this: no cut below it is read from them.
    pub fn begin_copies(&mut self, highest: Rank) {
        self.all.iter_mut().for_each(|partition| partition.rank_max = partition.rank_max.max(highest));
    }
    /// What is closed everywhere here.
    pub fn closed_everywhere(&self) -> Option<Rank> {
        self.all.iter().map(|partition| partition.closed).min()
    }

    /// A transaction takes its place in the conflict index; adds whom its accesses conflict with to `met`.
    pub fn install(&mut self, local: usize, graph: &Graph, at: Ref, accesses: &[Access], met: &mut Vec<Ref>) {
        let Partition { id, index, .. } = &mut self.all[local];
        while let Some(table) = index.unordered_table(accesses) {
            let live = graph.iter().filter_map(|(_, vertex)| vertex.transaction.as_ref());
            index.order_table(table, live.flat_map(|transaction| transaction.access.at(*id)));
        }
        index.install(at, accesses, &|at| graph.get(at).is_some(), met);
    }
    /// The same, as a checkpoint has them.
    pub fn image(&self, id_of: &impl Fn(Ref) -> Option<TxnId>) -> Vec<PartitionImage> {
        let image = |partition: &Partition| PartitionImage {
            id: partition.id,
            index: partition.index.image(id_of),
            position: partition.position,
            rank_max: partition.rank_max,
        };
        self.all.iter().map(image).collect()
    }
    /// Errors: these are not the partitions of this node.
    pub fn restore(
        &mut self,
        images: Vec<PartitionImage>,
        at_of: &impl Fn(TxnId) -> Ref,
    ) -> Result<(), Unreadable> {
        if !images.iter().map(|image| image.id).eq(self.all.iter().map(|partition| partition.id)) {
            return Err(Unreadable("a checkpoint has other partitions than this node".into()));
        }
        for (partition, image) in self.all.iter_mut().zip(images) {
            partition.index = ConflictIndex::restored(image.index, self.flaws, at_of);
            (partition.position, partition.rank_max) = (image.position, image.rank_max);
        }
        Ok(())
    }
    /// Forgets accesses of transactions that are gone.
    pub fn forget(&mut self, graph: &Graph) {
        self.all.iter_mut().for_each(|partition| partition.index.forget(&|at| graph.get(at).is_some()));
    }
    /// The same, although they may be few.
    #[cfg(test)]
    pub fn forget_now(&mut self, graph: &Graph) {
        self.all.iter_mut().for_each(|partition| partition.index.forget_now(&|at| graph.get(at).is_some()));
    }
    /// Granules remembered by the conflict indexes.
    pub fn granule_count(&self) -> usize {
        self.all.iter().map(|partition| partition.index.len()).sum()
    }
}
