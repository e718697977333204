//! What was pre-accepted here and has not executed.
//!
//! IN: lower bounds of ranks, places, executions. OUT: who may still be ranked at or below a cut, whose turn has come.
//! KEEPS: a transaction is pending from its PreAccept to its execution, under one bound.

use super::options::Mutant;
use super::participant::read_at;
use super::state::Perseus;
use super::vertex::Extra;
use crate::graph::turns::{Turns, conflict_at};
use crate::graph::vertex::{Ref, State, Vertex};
use base::Rank;
use smallvec::SmallVec;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    /// Pre-accepted and not executed here, by the lower bound of their cts.
    pending: BTreeSet<(Rank, u32)>,
    /// What was read at a rank before it is executed, by these that have not executed.
    read_at: BTreeSet<(Rank, u32)>,
    /// What has its place and has not executed.
    turns: Turns,
}

impl Schedule {
    /// It waits to execute, and is ranked no lower than this.
    fn wait(&mut self, bound: Rank, at: Ref) {
        self.pending.insert((bound, at.slot));
    }
    fn raise(&mut self, at: Ref, from: Rank, to: Rank) {
        self.pending.remove(&(from, at.slot));
        self.pending.insert((to, at.slot));
    }
    /// It has executed, or gives way to somebody else under its name.
    fn remove(&mut self, bound: Rank, at: Ref) {
        if !self.pending.is_empty() {
            self.pending.remove(&(bound, at.slot));
        }
    }
    /// It has read at this rank; versions from there on are needed until it has executed.
    fn has_read(&mut self, rank: Rank, at: Ref) {
        self.read_at.insert((rank, at.slot));
    }
    fn needs_no_more(&mut self, rank: Rank, at: Ref) {
        self.read_at.remove(&(rank, at.slot));
    }
    /// The least rank at which a transaction that has not executed here has read.
    pub fn first_read(&self) -> Option<Rank> {
        self.read_at.first().map(|(rank, _)| *rank)
    }
    pub fn turns(&self) -> &Turns {
        &self.turns
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

impl Perseus {
    /// The bound under which a transaction waits. A lower bound of its cts is not always raised to it; see Rule 2.
    fn waiting_bound(&self, at: Ref) -> Rank {
        let vertex = self.graph.live(at);
        if self.cluster.options.lower_bounds { vertex.bound } else { vertex.extra.pts }
    }
    /// A transaction waits until it executes.
    pub(super) fn waits(&mut self, at: Ref) {
        self.schedule.wait(self.waiting_bound(at), at);
    }
    /// What is to be executed has its cts, which was bounded by this.
    pub(super) fn waits_from(&mut self, at: Ref, bound: Rank) {
        let cts = self.waiting_bound(at);
        if bound < cts && self.cluster.options.lower_bounds {
            self.schedule.raise(at, bound, cts);
        }
    }
    /// Versions that a transaction has read are needed until it has executed.
    pub(super) fn needs_what_it_read(&mut self, at: Ref) {
        if let Some(rank) = self.graph.live(at).transaction.as_ref().and_then(read_at) {
            self.schedule.has_read(rank, at);
        }
    }
    /// It has executed, or gives way to somebody else under its name.
    pub(super) fn waits_no_more(&mut self, at: Ref) {
        if let Some(rank) = self.graph.live(at).transaction.as_ref().and_then(read_at) {
            self.schedule.needs_no_more(rank, at);
        }
        self.schedule.remove(self.waiting_bound(at), at);
    }

    pub(super) fn queue_alone(&mut self, at: Ref) {
        let planted = self.cluster.options.planted(Mutant::ForgetComponents);
        if Turns::queue_alone(&mut self.graph, at, if planted { State::Executed } else { State::Done }) {
            self.execute_later([at]);
        }
    }

    pub(super) fn queue_component(&mut self, members: &[Ref]) {
        let Perseus { cluster, partitions, graph, .. } = self;
        let conflict = |a: &Vertex<Extra>, b: &Vertex<Extra>| {
            let transactions = a.transaction.as_ref().zip(b.transaction.as_ref());
            let (a, b) = transactions.expect("both take part here");
            conflict_at(&a.access, &b.access, |partition| partitions.index_of(partition).is_some())
                && !cluster.options.planted(Mutant::ForgetComponents)
        };
        let mut ready: SmallVec<[Ref; 4]> = SmallVec::new();
        self.schedule.turns.queue_component(graph, members, members, conflict, |at| ready.push(at));
        self.execute_later(ready);
    }

    /// It has executed at this rank: others have their turns, and who is done with that may be collected.
    pub(super) fn end_turn(&mut self, at: Ref, rank: Rank) {
        let mut ready: SmallVec<[Ref; 2]> = SmallVec::new();
        let done = self.schedule.turns.executed(&mut self.graph, at, |at| ready.push(at));
        self.execute_later(ready);
        for member in done {
            self.is_done(member, rank);
            let mut ready: SmallVec<[Ref; 2]> = SmallVec::new();
            Turns::done(&mut self.graph, member, |at| ready.push(at));
            self.execute_later(ready);
        }
    }
}
