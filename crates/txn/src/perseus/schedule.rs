//! What was pre-accepted here and has not executed.
//!
//! IN: lower bounds of ranks, components with their places, executions. OUT: who may still be ranked at or below a cut;
//! when all of a component has executed. KEEPS: a transaction is pending from its PreAccept to its execution, under one
//! bound.

use crate::graph::vertex::Ref;
use base::Rank;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    /// Pre-accepted and not executed here, by the lower bound of their cts.
    pending: BTreeSet<(Rank, u32)>,
    groups: BTreeMap<u32, Group>,
    groups_made: u32,
}

/// A component with several members here.
#[derive(Clone, Debug)]
struct Group {
    members: Vec<Ref>,
    unexecuted: usize,
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
    /// It has executed, or gives way to somebody else under its name.
    pub fn remove(&mut self, bound: Rank, at: Ref) {
        if !self.pending.is_empty() {
            self.pending.remove(&(bound, at.slot));
        }
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

    /// The members of a component are to execute; its number.
    pub fn begin_group(&mut self, members: &[Ref]) -> u32 {
        let number = self.groups_made;
        self.groups_made += 1;
        self.groups.insert(number, Group { members: members.to_vec(), unexecuted: members.len() });
        number
    }
    /// A member has executed; all members if it was the last of them.
    pub fn executed_in(&mut self, number: u32) -> Option<Vec<Ref>> {
        let group = self.groups.get_mut(&number).expect("the component executes");
        group.unexecuted -= 1;
        if group.unexecuted > 0 {
            return None;
        }
        self.groups.remove(&number).map(|group| group.members)
    }
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }
}
