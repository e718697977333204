//! The augmented dependency graph, as a dependency manager holds it (PERSEUS §IV).
//!
//! IN: the order streams of the subscribed partitions. OUT: which vectors of log positions are closed.
//! KEEPS: whoever is logged here has its whole ancestor closure here too, except vertices below the
//! collection watermark; those are executed at every participant, so any calibration that starts later
//! covers them.
//!
//! Closure has two kinds of edges: dependencies, which also ordered the execution, and what a writer's
//! session had seen (`after`), which did not. The second is a rank: everything in a session's past is
//! ranked at or below it, so "everything at or below this rank" covers that past at partitions that the
//! session never touched. Ranks also cut every search short: nobody is ranked above its descendants, so
//! below a rank that is complete at all partitions asked for (`base`) there is nothing to look for.
//!
//! Reading order: [`closure`] (what a vector must include), [`extension`] (what it may).

pub mod closure;
pub mod extension;

use base::order::{StreamItem, Vertex};
use base::{LogPosition, PartitionId, Rank, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

pub use closure::{Awaited, Closure, Missing};

/// Vertices with final dependencies, and where each was logged.
#[derive(Clone, Debug, Default)]
pub struct DependencyGraph {
    vertices: BTreeMap<TxnId, VertexState>,
    logs: BTreeMap<PartitionId, Log>,
    collected_below: Rank,
}

#[derive(Clone, Debug, Default)]
struct VertexState {
    participants: Vec<PartitionId>,
    dependencies: Vec<TxnId>,
    after: Rank,
    logged: BTreeMap<PartitionId, LogPosition>,
    rank: Option<Rank>,
    /// When its order arrived here.
    arrived: Time,
}

/// What one partition logged, as far as it is not collected.
#[derive(Clone, Debug, Default)]
struct Log {
    entries: BTreeMap<LogPosition, (TxnId, Rank)>,
    by_rank: BTreeSet<(Rank, LogPosition)>,
}

/// Log positions, by partition.
pub type Vector = BTreeMap<PartitionId, LogPosition>;

/// What a search for closure may rely on.
pub struct Known<'a> {
    /// Everything at or below it has arrived from every partition of the vector, and is part of the cut.
    pub base: Rank,
    /// Everything at or below it has arrived from this partition.
    pub low: &'a dyn Fn(PartitionId) -> Rank,
    /// What writers' sessions had seen counts; off only to show what is lost without.
    pub sessions: bool,
}

impl DependencyGraph {
    /// Takes an item of a partition's order stream.
    pub fn receive(&mut self, now: Time, partition: PartitionId, item: &StreamItem) {
        match item {
            StreamItem::Vertex(Vertex { txn, participants, dependencies, after }) => {
                let state = self.vertex(now, *txn);
                state.participants.clone_from(participants);
                state.dependencies.clone_from(dependencies);
                state.after = *after;
            }
            StreamItem::Record(record) => {
                assert_eq!(record.partition, partition);
                self.logged(now, partition, record.position, record.txn, record.rank);
            }
            StreamItem::Low(_) => {}
        }
    }

    fn vertex(&mut self, now: Time, txn: TxnId) -> &mut VertexState {
        self.vertices.entry(txn).or_insert_with(|| VertexState { arrived: now, ..VertexState::default() })
    }

    /// A transaction stands in a partition's log.
    pub fn logged(
        &mut self,
        now: Time,
        partition: PartitionId,
        position: LogPosition,
        txn: TxnId,
        rank: Rank,
    ) {
        let state = self.vertex(now, txn);
        state.logged.insert(partition, position);
        state.rank = Some(rank);
        let log = self.logs.entry(partition).or_default();
        log.entries.insert(position, (txn, rank));
        log.by_rank.insert((rank, position));
    }

    /// Last position of a partition's log with a rank up to this one, unless it was collected.
    fn last_up_to(&self, partition: PartitionId, rank: Rank) -> Option<LogPosition> {
        let log = self.logs.get(&partition)?;
        let last = log.entries.iter().rev().find(|(_, (_, logged))| *logged <= rank);
        last.map(|(position, _)| *position)
    }

    /// Largest rank that is part of a cut at this partition: of a rank cut if `at_most` is given, else of the
    /// log's prefix. What was collected counts as collected.
    pub fn newest(&self, partition: PartitionId, upto: LogPosition, at_most: Rank) -> Rank {
        let ranks = self.logs.get(&partition).into_iter().flat_map(|log| {
            let within = log.by_rank.range(..=(at_most, LogPosition(u64::MAX)));
            within.rev().find(|(_, position)| *position <= upto).map(|(rank, _)| *rank)
        });
        ranks.max().unwrap_or(self.collected_below).min(at_most)
    }

    /// Drops vertices with rank ≤ `below`: executed at every participant, and no cut in use is older.
    pub fn collect(&mut self, below: Rank) {
        self.collected_below = self.collected_below.max(below);
        self.vertices.retain(|_, state| state.rank.is_none_or(|rank| rank > below));
        for log in self.logs.values_mut() {
            while let Some(&(rank, position)) = log.by_rank.first() {
                if rank > below {
                    break;
                }
                log.by_rank.pop_first();
                log.entries.remove(&position);
            }
        }
    }

    /// Forgets what one partition logged: its stream begins again.
    pub fn forget_log(&mut self, partition: PartitionId) {
        self.logs.remove(&partition);
        for state in self.vertices.values_mut() {
            state.logged.remove(&partition);
        }
    }

    /// Everything that a partition's stream has said and that is not collected, for a subscriber that begins
    /// here: vertices (also of others, as ancestors), and which of them the partition has logged where.
    pub fn copy_of(&self, partition: PartitionId) -> (Vec<Vertex>, Vec<(LogPosition, TxnId, Rank)>) {
        let vertex = |(txn, state): (&TxnId, &VertexState)| Vertex {
            txn: *txn,
            participants: state.participants.clone(),
            dependencies: state.dependencies.clone(),
            after: state.after,
        };
        let log = self.logs.get(&partition).into_iter().flat_map(|log| log.entries.iter());
        let log = log.map(|(position, (txn, rank))| (*position, *txn, *rank)).collect();
        (self.vertices.iter().map(vertex).collect(), log)
    }

    pub fn vertex_count(&self) -> usize {
        self.vertices.len()
    }
}

#[cfg(test)]
mod tests;
