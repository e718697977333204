//! The augmented dependency graph, as a dependency manager holds it (PERSEUS §IV).
//!
//! IN: the order streams of the subscribed partitions. OUT: which sets of transactions are closed.
//! KEEPS: the complete ancestor closure of every transaction logged here is here too, except vertices below the
//! collection watermark; those are executed at every participant, so any calibration that starts later
//! covers them.
//!
//! **What a query at level `regular` reads is a set of transactions** ([`Members`]): everything ranked up to a
//! base that is complete at all partitions read, and named transactions above it. It is closed: with a
//! transaction, all its ancestors are in, at every partition read where they take part. That is enough to read:
//! each writer of a key depends on the writer before it, so the versions of a key form one chain, a closed
//! set contains the first few of them, and "the newest version in the set" is well defined. It need not be a prefix
//! of any log. (Prefixes are closed too, but enlarge each other: a transaction in the prefix of A was
//! logged later at B, B's prefix up to there has others that are logged later at A, and if most
//! transactions span partitions this does not end. In a set, what a transaction lacks at other partitions has been
//! sent already.)
//!
//! Closure has two kinds of edges: dependencies, which also ordered the execution, and what a writer's
//! session had seen (`after`), which did not. The second is a rank: everything in a session's past is
//! ranked at or below it, so "everything at or below this rank" covers that past at partitions that the
//! session never touched. Ranks also cut every search short: no transaction is ranked above its descendants, so
//! below the base there is nothing to look for.
//!
//! Reading order: [`closure`] (what a set must include), [`extension`] (what it may), `table` (where it is kept).

pub mod closure;
pub mod extension;
mod table;

use base::order::{StreamItem, Vertex};
use base::{ClosedSet, LogPosition, PartitionId, Rank, Time, TxnId};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use table::{Log, VertexState, Vertices};

pub use closure::{Awaited, Closure, Missing};

/// Vertices with final dependencies, and where each was logged.
#[derive(Clone, Debug, Default)]
pub struct DependencyGraph {
    vertices: Vertices,
    logs: BTreeMap<PartitionId, Log>,
    collected_below: Rank,
    /// Reused between items.
    lowered: Vec<TxnId>,
}

/// Log positions, by partition.
pub type Vector = BTreeMap<PartitionId, LogPosition>;

/// A set of transactions: everything ranked at or below `base`, and these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    pub base: Rank,
    /// Also those that take part at no partition read.
    pub above: BTreeSet<TxnId>,
}

/// What a search may rely on.
pub struct Known<'a> {
    /// The partitions read.
    pub partitions: &'a BTreeSet<PartitionId>,
    /// Everything at or below it has arrived from every partition read, and is in the set.
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
                let state = self.vertices.or_new(now, *txn);
                state.participants = SmallVec::from_slice(participants);
                state.dependencies = SmallVec::from_slice(dependencies);
                state.after = *after;
                let at_most = state.at_most;
                if at_most < Rank::MAX {
                    self.lower(dependencies, at_most);
                }
            }
            StreamItem::Record(record) => {
                assert_eq!(record.partition, partition);
                self.logged(now, partition, record.position, record.txn, record.rank);
            }
            StreamItem::Low(_) => {}
        }
    }

    /// These transactions are ranked at or below this, and so are their ancestors.
    fn lower(&mut self, txns: &[TxnId], at_most: Rank) {
        let mut stack = std::mem::take(&mut self.lowered);
        stack.extend_from_slice(txns);
        while let Some(txn) = stack.pop() {
            let Some(state) = self.vertices.get_mut(&txn) else { continue };
            if at_most < state.at_most {
                state.at_most = at_most;
                stack.extend_from_slice(&state.dependencies);
            }
        }
        self.lowered = stack;
    }

    /// A copy has come whole. Its vertices came in any order, and some of their descendants were here before: nobody is
    /// ranked above these either.
    pub fn settle(&mut self) {
        let ranked = self.vertices.iter().filter(|state| state.at_most < Rank::MAX);
        let ranked: Vec<_> = ranked.map(|state| (state.dependencies.clone(), state.at_most)).collect();
        ranked.into_iter().for_each(|(dependencies, at_most)| self.lower(&dependencies, at_most));
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
        let state = self.vertices.or_new(now, txn);
        state.logged.insert(partition, position);
        debug_assert!(rank <= state.at_most, "nobody is ranked above its descendants");
        if rank < state.at_most {
            state.at_most = rank;
            let dependencies = state.dependencies.clone();
            self.lower(&dependencies, rank);
        }
        self.logs.entry(partition).or_default().insert(position, txn, rank);
    }

    /// Whether a partition has said that it logged a transaction; not known of what was collected.
    pub fn has_logged(&self, partition: PartitionId, txn: TxnId) -> bool {
        self.vertices.get(&txn).is_some_and(|state| state.logged.contains(partition))
    }

    /// Entries of a log up to a position that are ranked above `base`.
    pub fn entries_above(
        &self,
        partition: PartitionId,
        base: Rank,
        upto: LogPosition,
    ) -> impl Iterator<Item = (LogPosition, TxnId)> + '_ {
        self.logs.get(&partition).into_iter().flat_map(move |log| {
            let within = log.above(base).filter(move |(_, position)| *position <= upto);
            within.filter_map(|(_, position)| Some((position, log.get(position)?.0)))
        })
    }

    /// Entries of a log after a position.
    pub fn entries_after(
        &self,
        partition: PartitionId,
        position: LogPosition,
    ) -> impl Iterator<Item = (LogPosition, Rank)> + '_ {
        let log = self.logs.get(&partition).into_iter();
        log.flat_map(move |log| log.from(position.next()).map(|(at, _, rank)| (at, rank)))
    }

    /// What a partition logged there, and its rank; `None` if it was collected, or has not come.
    pub fn entry(&self, partition: PartitionId, position: LogPosition) -> Option<(TxnId, Rank)> {
        self.logs.get(&partition)?.get(position)
    }

    /// The members' places in the logs of the partitions read.
    pub fn places(&self, members: &Members, partitions: &BTreeSet<PartitionId>) -> ClosedSet {
        let mut above: BTreeMap<_, BTreeSet<_>> = partitions.iter().map(|p| (*p, BTreeSet::new())).collect();
        for state in members.above.iter().filter_map(|txn| self.vertices.get(txn)) {
            for (partition, position) in state.logged.iter() {
                if let Some(positions) = above.get_mut(&partition) {
                    positions.insert(position);
                }
            }
        }
        ClosedSet { base: members.base, above }
    }

    /// Largest rank of a partition's entries that are in a cut. What was collected counts as collected.
    pub fn newest(&self, partition: PartitionId, is_in: impl Fn(LogPosition, Rank) -> bool) -> Rank {
        let log = self.logs.get(&partition).into_iter();
        let newest = log.flat_map(Log::downwards).find(|(rank, at)| is_in(*at, *rank));
        newest.map_or(self.collected_below, |(rank, _)| rank)
    }

    /// Drops vertices with rank ≤ `below`: executed at every participant, and no cut in use is older.
    pub fn collect(&mut self, below: Rank) {
        self.collected_below = self.collected_below.max(below);
        self.vertices.retain(|state| state.at_most > below);
        self.logs.values_mut().for_each(|log| log.collect(below));
    }

    /// Forgets what one partition logged: its stream begins again.
    pub fn forget_log(&mut self, partition: PartitionId) {
        self.logs.remove(&partition);
        self.vertices.iter_mut().for_each(|state| state.logged.remove(partition));
    }

    /// Everything that a partition's stream has said and that is not collected, for a subscriber that begins
    /// here: vertices (also of others, as ancestors), and which of them the partition has logged where.
    pub fn copy_of(&self, partition: PartitionId) -> (Vec<Vertex>, Vec<(LogPosition, TxnId, Rank)>) {
        let vertex = |state: &VertexState| Vertex {
            txn: state.txn,
            participants: state.participants.to_vec(),
            dependencies: state.dependencies.to_vec(),
            after: state.after,
        };
        let mut vertices: Vec<Vertex> = self.vertices.iter().map(vertex).collect();
        vertices.sort_unstable_by_key(|vertex| vertex.txn);
        let log = self.logs.get(&partition).into_iter();
        let log = log.flat_map(|log| log.from(LogPosition(0)));
        (vertices, log.collect())
    }

    pub fn vertex_count(&self) -> usize {
        self.vertices.len()
    }
}

#[cfg(test)]
mod tests;
