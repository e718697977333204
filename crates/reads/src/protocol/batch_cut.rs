//! Batch cuts (Janus-HTAP): fetch the last barrier that is closed everywhere, wait until it is applied.
//!
//! See [`crate::batches`]. Each barrier is an initial segment of the serial order, so queries are serializable. What was
//! answered after the last batch closed is not in it, and a session's token is not looked at.
//!
//! Batch cuts are old, and a query may read one for a while after it has learned of it. That holds up nothing but
//! the merging of columns, each node for itself: what the engine keeps for conflicts (and tells others with every
//! transaction) need not wait for readers of ranks.

use super::{CENTRAL, ReadProtocol, Report};
use crate::batches::{BatchManager, Batcher, HOLD_NS};
use crate::rule::{Ask, Followed, Progress, QueryMeta, Readable, Rule, Told, View};
use base::order::StreamItem;
use base::topology::Topology;
use base::{NodeId, PartitionId, Rank, SqlError, SqlState, Time};
use std::collections::{BTreeMap, VecDeque};

/// The batches of a node's partitions.
pub struct BatchCuts {
    every_ns: u64,
    /// How far each partition here is safe, as its stream says.
    announced: BTreeMap<PartitionId, Rank>,
    batchers: BTreeMap<PartitionId, Batcher>,
    /// At the central node.
    manager: Option<BatchManager>,
    /// What was collected lately, and when; columns keep it for a while.
    spared: VecDeque<(Time, Rank)>,
    spared_below: Rank,
}

impl BatchCuts {
    pub fn new(every_ns: u64, me: NodeId, topology: &Topology) -> BatchCuts {
        let is_central = topology.node_of(CENTRAL) == me;
        BatchCuts {
            every_ns,
            announced: BTreeMap::new(),
            batchers: topology.partitions_at(me).map(|p| (p, Batcher::default())).collect(),
            manager: is_central.then(|| BatchManager::new(topology.partition_ids())),
            spared: VecDeque::new(),
            spared_below: Rank::ZERO,
        }
    }
}

impl ReadProtocol for BatchCuts {
    fn strong(&self, meta: QueryMeta, clock_bound_ns: u64, _: &dyn View) -> Option<Followed> {
        // Columns below are spared for long enough.
        let floor = (meta.arrived - 2 * clock_bound_ns).rank();
        Some(Followed { rule: Box::new(BatchCutQuery::new(meta)), floor })
    }
    fn is_local(&self) -> bool {
        true
    }
    fn announces_every_ns(&self) -> Option<u64> {
        Some(self.every_ns)
    }
    fn streamed(&mut self, partition: PartitionId, _: Option<u64>, item: &StreamItem) {
        if let StreamItem::Low(rank) = item {
            let announced = self.announced.entry(partition).or_default();
            *announced = (*announced).max(*rank);
        }
    }
    fn report(&mut self) -> Report {
        let mut barriers = Vec::new();
        for (partition, safe) in &self.announced {
            if let Some(batcher) = self.batchers.get_mut(partition) {
                barriers.push((*partition, batcher.close(*safe, self.every_ns)));
            }
        }
        Report::Barriers(barriers)
    }
    fn reported(&mut self, partition: PartitionId, barrier: Rank) {
        if let Some(manager) = &mut self.manager {
            manager.report(partition, barrier);
        }
    }
    fn published(&self) -> Option<Rank> {
        self.manager.as_ref().map(BatchManager::published)
    }
    /// A barrier is published about as early as what it closes may be collected; sparing it for twice the time that a
    /// query has leaves room for reports that are lost. A query whose barrier lies below all the same is refused by the
    /// columns.
    fn spare(&mut self, now: Time, below: Rank) -> Rank {
        self.spared.push_back((now, below));
        while let Some((_, rank)) = self.spared.pop_front_if(|(at, _)| *at + 2 * HOLD_NS <= now) {
            self.spared_below = rank;
        }
        self.spared_below
    }
}

/// A query at the manager's barrier.
pub struct BatchCutQuery {
    meta: QueryMeta,
    published: Option<Rank>,
    coordination_ns: u64,
}

impl BatchCutQuery {
    pub fn new(meta: QueryMeta) -> BatchCutQuery {
        BatchCutQuery { meta, published: None, coordination_ns: 0 }
    }
}

impl Rule for BatchCutQuery {
    fn asks(&self) -> Vec<Ask> {
        match self.published {
            None => vec![Ask::Batches],
            Some(_) => Vec::new(),
        }
    }

    fn told(&mut self, now: Time, told: Told) {
        let Told::Batches { published } = told else { return };
        if self.published.is_none() {
            self.published = Some(published);
            self.coordination_ns = now.since(self.meta.arrived);
        }
    }

    fn progress(&mut self, now: Time, view: &dyn View) -> Result<Progress, SqlError> {
        let Some(published) = self.published else { return Ok(Progress::Choosing) };
        if now.since(self.meta.arrived) > HOLD_NS {
            let error = SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the batches that this query was to read have been superseded while it waited",
            );
            return Err(error.hint("Run the query again."));
        }
        if published == Rank::ZERO || self.meta.reads.keys().any(|p| view.low(*p) < published) {
            return Ok(Progress::Applying);
        }
        let (meta, complete_until) = (&self.meta, published.time());
        let readable = Readable::at(meta, now, published, complete_until, self.coordination_ns, view);
        Ok(Progress::Readable(readable))
    }
}
