//! What was pre-accepted here and has not executed.
//!
//! IN: lower bounds of ranks, places, executions. OUT: who may still be ranked at or below a cut, whose turn has come.
//! KEEPS: a transaction is pending from its PreAccept to its execution, under one bound.

use crate::graph::turns::Turns;
use crate::graph::vertex::Ref;
use base::Rank;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    /// Pre-accepted and not executed here, by the lower bound of their cts.
    pending: BTreeSet<(Rank, u32)>,
    /// What was read at a rank before it is executed, by these that have not executed.
    read_at: BTreeSet<(Rank, u32)>,
    /// What has its place and has not executed.
    pub turns: Turns,
}

impl Schedule {
    /// It waits to execute, and is ranked no lower than this.
    pub fn wait(&mut self, bound: Rank, at: Ref) {
        self.pending.insert((bound, at.slot));
    }
    pub fn raise(&mut self, at: Ref, from: Rank, to: Rank) {
        self.pending.remove(&(from, at.slot));
        self.pending.insert((to, at.slot));
    }
    /// It has executed, or gives way to another transaction under its name.
    pub fn remove(&mut self, bound: Rank, at: Ref) {
        if !self.pending.is_empty() {
            self.pending.remove(&(bound, at.slot));
        }
    }
    /// It has read at this rank; versions from there on are needed until it has executed.
    pub fn has_read(&mut self, rank: Rank, at: Ref) {
        self.read_at.insert((rank, at.slot));
    }
    pub fn needs_no_more(&mut self, rank: Rank, at: Ref) {
        self.read_at.remove(&(rank, at.slot));
    }
    /// The least rank at which a transaction that has not executed here has read.
    pub fn first_read(&self) -> Option<Rank> {
        self.read_at.first().map(|(rank, _)| *rank)
    }
    /// What a checkpoint says.
    pub fn restore(&mut self, turns: Turns) {
        self.turns = turns;
    }
    pub fn contains(&self, bound: Rank, at: Ref) -> bool {
        self.pending.contains(&(bound, at.slot))
    }
    /// Those whose bound is at most `rank`; each with it, the least first.
    pub fn pending_to(&self, rank: Rank) -> impl Iterator<Item = (Rank, u32)> + '_ {
        self.pending.range(..=(rank, u32::MAX)).copied()
    }
    /// The least bound.
    pub fn first(&self) -> Option<Rank> {
        self.pending.first().map(|(bound, _)| *bound)
    }
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }
}
