//! Executions that take several steps of a node. Engine `caerus` and its baselines have such; `perseus` has none yet.
//!
//! IN: what a step of the executor gives. OUT: what is done of an execution, and which one goes on next. KEEPS: what was
//! gathered or applied at a partition is not done there again; whoever has rested longest goes on first.

use crate::graph::vertex::Ref;
use base::txn::{Applied, Gathered};
use base::{PartitionId, TxnId};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// What the partitions of this node have read.
pub(crate) type Reads = SmallVec<[(PartitionId, Gathered); 1]>;

/// Executions that have begun here and are not done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished {
    begun: BTreeMap<TxnId, Partial>,
    resting: VecDeque<Ref>,
}

/// What is done of an execution at the partitions of this node, one after another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partial {
    has_begun: bool,
    has_gathered: bool,
    gathered: Reads,
    applied: SmallVec<[(PartitionId, Applied); 1]>,
}

impl Unfinished {
    /// What was done of an execution in earlier steps; nothing of one that begins.
    pub fn take(&mut self, at: Ref, txn: TxnId) -> Partial {
        if self.begun.is_empty() {
            return Partial::default();
        }
        let Some(partial) = self.begun.remove(&txn) else { return Partial::default() };
        self.resting.retain(|other| *other != at);
        partial
    }
    /// A step is over, and the execution is not.
    pub fn rest(&mut self, at: Ref, txn: TxnId, partial: Partial) {
        base::sometimes!("an execution takes several steps");
        let is_known = self.begun.insert(txn, partial).is_some();
        assert!(!is_known, "{txn}: what was done so far is taken along");
        self.resting.push_back(at);
    }
    /// Which one goes on.
    pub fn next(&self) -> Option<Ref> {
        self.resting.front().copied()
    }
    pub fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }
    pub fn clear(&mut self) {
        *self = Unfinished::default();
    }
}

impl Partial {
    /// Whether this is the first step; true once.
    pub fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }
    /// Its reads are known: nothing has to be asked of the executor, or it was asked before.
    pub fn set_reads(&mut self, reads: Reads) {
        (self.gathered, self.has_gathered) = (reads, true);
    }
    /// Goes on reading at these partitions; whether that is done.
    pub fn gather(
        &mut self,
        partitions: impl Iterator<Item = PartitionId>,
        mut gather: impl FnMut(PartitionId) -> Option<Gathered>,
    ) -> bool {
        if self.has_gathered {
            return true;
        }
        for partition in partitions.skip(self.gathered.len()) {
            let Some(gathered) = gather(partition) else { return false };
            self.gathered.push((partition, gathered));
        }
        self.has_gathered = true;
        true
    }
    /// All that was read here. Who takes it and does not finish gives it back ([`Partial::set_reads`]).
    pub fn take_reads(&mut self) -> Reads {
        std::mem::take(&mut self.gathered)
    }
    /// Goes on writing at these partitions; what was applied at each, once all are.
    pub fn apply(
        &mut self,
        partitions: impl Iterator<Item = PartitionId>,
        mut apply: impl FnMut(PartitionId) -> Option<Applied>,
    ) -> Option<SmallVec<[(PartitionId, Applied); 1]>> {
        for partition in partitions.skip(self.applied.len()) {
            self.applied.push((partition, apply(partition)?));
        }
        Some(std::mem::take(&mut self.applied))
    }
}
