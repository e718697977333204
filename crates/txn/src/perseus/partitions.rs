//! The partitions of this node: their numbers here, what conflicts there, how far their logs are.
//!
//! IN: a checkpoint. OUT: partitions' numbers, their images. KEEPS: a partition has the same number in every part that
//! keeps something for each.

use super::cluster::Cluster;
use super::execution::logs::Logs;
use super::options::Mutant;
use super::participant::conflicts::Conflicts;
use crate::graph::conflict::{self, Flaws};
use crate::graph::vertex::Ref;
use base::process::Unreadable;
use base::{LogPosition, PartitionId, Rank, TxnId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug)]
pub(super) struct Partitions {
    /// By their numbers here.
    ids: Vec<PartitionId>,
    /// Their numbers, by partition id.
    local: Vec<Option<u8>>,
    /// Worked by `participant`.
    pub conflicts: Conflicts,
    /// Worked by `execution`.
    pub logs: Logs,
}

/// A partition as a checkpoint has it.
#[derive(Serialize, Deserialize)]
pub(super) struct PartitionImage {
    id: PartitionId,
    index: conflict::Image,
    position: LogPosition,
    rank_max: Rank,
}

impl Partitions {
    pub fn new(Cluster { topology, me, options }: &Cluster) -> Partitions {
        let forget_readers = options.planted(Mutant::MissingAntiDependency);
        let flaws = Flaws { forget_readers, ..Flaws::default() };
        let ids: Vec<PartitionId> = topology.partitions_at(*me).collect();
        assert!(ids.len() <= 64, "a node runs at most 64 partitions");
        let mut local = vec![None; topology.partitions.len()];
        for (n, id) in ids.iter().enumerate() {
            local[id.0 as usize] = Some(n as u8);
        }
        let conflicts = Conflicts::new(ids.iter().copied(), flaws);
        let logs = Logs::new(ids.iter().map(|id| topology.subscribers_of(*id).next().is_some()));
        Partitions { ids, local, conflicts, logs }
    }

    /// A partition's number here, if it is run by this node.
    pub fn index_of(&self, partition: PartitionId) -> Option<usize> {
        self.local[partition.0 as usize].map(usize::from)
    }
    /// How many partitions this node runs.
    pub fn count(&self) -> usize {
        self.ids.len()
    }
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
    /// How far a partition's log is: the position of the last record, and the largest rank of any.
    pub fn log(&self, partition: PartitionId) -> (LogPosition, Rank) {
        self.logs.end(self.index_of(partition).expect("the partition is run by this node"))
    }

    /// This node's partitions, as a checkpoint has them.
    pub fn image(&self, id_of: &impl Fn(Ref) -> Option<TxnId>) -> Vec<PartitionImage> {
        let image = |(local, id): (usize, &PartitionId)| {
            let (position, rank_max) = self.logs.end(local);
            PartitionImage { id: *id, index: self.conflicts.image(local, id_of), position, rank_max }
        };
        self.ids.iter().enumerate().map(image).collect()
    }
    /// Errors: these are not the partitions of this node.
    pub fn restore(
        &mut self,
        images: Vec<PartitionImage>,
        at_of: &impl Fn(TxnId) -> Ref,
    ) -> Result<(), Unreadable> {
        if !images.iter().map(|image| image.id).eq(self.ids.iter().copied()) {
            return Err(Unreadable("a checkpoint has other partitions than this node".into()));
        }
        self.logs.restore(images.iter().map(|image| (image.position, image.rank_max)));
        self.conflicts.restore(images.into_iter().map(|image| image.index), at_of);
        Ok(())
    }
}
