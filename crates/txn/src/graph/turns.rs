//! Whose turn it is to execute, at one node, once components have their places.
//!
//! IN: components with their places, executions. OUT: whose turn has come, who is done. KEEPS: a transaction waits for what
//! it depends on to be done, and for no other; members of one component execute by id where they conflict, and are done
//! together, when the last of them has executed.

use super::vertex::{Ref, State, Vertex, Vertices};
use base::txn::{AccessMode, AccessSet};
use base::{PartitionId, TxnId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What a vertex has to do with the turns of others.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Predecessors that must be done (or, in one component, executed) before it executes here.
    waits: u32,
    /// Who waits for this vertex to be done.
    dependents: SmallVec<[Ref; 2]>,
    /// Members of its component that wait for it to be executed.
    followers: SmallVec<[Ref; 1]>,
    /// Component of more than one member.
    group: Option<u32>,
}

impl Turn {
    /// It waits for nobody.
    pub fn has_come(&self) -> bool {
        self.waits == 0
    }
}

/// Components of several members that execute here.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    groups: BTreeMap<u32, Group>,
    groups_made: u32,
}

#[derive(Clone, Debug)]
struct Group {
    members: Vec<Ref>,
    unexecuted: usize,
}

impl Turns {
    /// A component of one member has its place: it waits until all that it depends on has come as far as `enough`.
    /// Whether its turn has come.
    pub fn queue_alone<X>(graph: &mut Vertices<X>, at: Ref, enough: State) -> bool {
        let deps = graph.live(at).deps.clone();
        let mut waits = 0;
        for dependency in deps {
            if let Some(ahead) = graph.get_mut(dependency)
                && ahead.transaction.is_some()
                && ahead.state < enough
                && dependency != at
            {
                ahead.turn.dependents.push(at);
                waits += 1;
            }
        }
        graph.live_mut(at).turn.waits = waits;
        waits == 0
    }

    /// A component of several members has its place, `here` being those that execute at this node: by id where they
    /// conflict, after everything that any member depends on, because a conflict may be visible only through another
    /// member's dependencies. Tells whose turn has come.
    pub fn queue_component<X>(
        &mut self,
        graph: &mut Vertices<X>,
        members: &[Ref],
        here: &[Ref],
        conflict: impl Fn(&Vertex<X>, &Vertex<X>) -> bool,
        mut ready: impl FnMut(Ref),
    ) {
        base::sometimes!("a component with several members executes");
        let outside = unfinished_outside(graph, members);
        let group = self.begin_group(here);
        for (nth, &at) in here.iter().enumerate() {
            let mut waits = outside.len() as u32;
            for &ahead in &outside {
                graph.live_mut(ahead).turn.dependents.push(at);
            }
            for &ahead in &here[..nth] {
                if conflict(graph.live(ahead), graph.live(at)) {
                    graph.live_mut(ahead).turn.followers.push(at);
                    waits += 1;
                }
            }
            let turn = &mut graph.live_mut(at).turn;
            (turn.group, turn.waits) = (Some(group), waits);
            if waits == 0 {
                ready(at);
            }
        }
    }

    fn begin_group(&mut self, members: &[Ref]) -> u32 {
        let number = self.groups_made;
        self.groups_made = self.groups_made.wrapping_add(1);
        self.groups.insert(number, Group { members: members.to_vec(), unexecuted: members.len() });
        number
    }

    /// A transaction has executed. Tells whose turn has come, and returns who is done with that.
    pub fn executed<X>(
        &mut self,
        graph: &mut Vertices<X>,
        at: Ref,
        mut ready: impl FnMut(Ref),
    ) -> SmallVec<[Ref; 1]> {
        let turn = &mut graph.live_mut(at).turn;
        let (group, followers) = (turn.group, std::mem::take(&mut turn.followers));
        for follower in followers {
            one_less(graph, follower, &mut ready);
        }
        let Some(number) = group else { return SmallVec::from_elem(at, 1) };
        let group = self.groups.get_mut(&number).expect("the component executes");
        group.unexecuted -= 1;
        if group.unexecuted > 0 {
            return SmallVec::new();
        }
        self.groups.remove(&number).expect("just found").members.into()
    }

    /// A transaction is done. Tells whose turn has come.
    pub fn done<X>(graph: &mut Vertices<X>, at: Ref, mut ready: impl FnMut(Ref)) {
        for dependent in std::mem::take(&mut graph.live_mut(at).turn.dependents) {
            one_less(graph, dependent, &mut ready);
        }
    }

    pub fn group_count(&self) -> usize {
        self.groups.len()
    }
}

fn one_less<X>(graph: &mut Vertices<X>, at: Ref, ready: &mut impl FnMut(Ref)) {
    let turn = &mut graph.live_mut(at).turn;
    turn.waits -= 1;
    if turn.waits == 0 {
        ready(at);
    }
}

/// What members of a component depend on outside it and has to be done first; each once.
fn unfinished_outside<X>(graph: &Vertices<X>, members: &[Ref]) -> Vec<Ref> {
    let is_ahead =
        |to: &Ref| graph.get(*to).is_some_and(|v| v.transaction.is_some() && v.state < State::Done);
    let mut outside: Vec<Ref> = Vec::new();
    for &at in members {
        let ahead = graph.live(at).deps.iter().filter(|to| !members.contains(to) && is_ahead(to));
        outside.extend(ahead);
    }
    outside.sort_unstable();
    outside.dedup();
    outside
}

/// Whether two transactions conflict at a partition of this node.
pub fn conflict_at(a: &AccessSet, b: &AccessSet, is_local: impl Fn(PartitionId) -> bool) -> bool {
    a.by_partition.keys().filter(|partition| is_local(**partition)).any(|partition| {
        a.at(*partition).iter().any(|mine| {
            b.at(*partition).iter().any(|other| {
                use AccessMode::Read;
                (mine.mode, other.mode) != (Read, Read) && mine.granule.overlaps(&other.granule)
            })
        })
    })
}

/// [`Turns`] as they travel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnsImage {
    groups: Vec<(u32, Vec<TxnId>, u64)>,
    groups_made: u32,
}

impl TurnsImage {
    pub fn of(turns: &Turns, id_of: &impl Fn(Ref) -> Option<TxnId>) -> TurnsImage {
        let group = |(number, group): (&u32, &Group)| {
            let members = group.members.iter().filter_map(|at| id_of(*at)).collect();
            (*number, members, group.unexecuted as u64)
        };
        TurnsImage { groups: turns.groups.iter().map(group).collect(), groups_made: turns.groups_made }
    }
    pub fn restored(self, at_of: &impl Fn(TxnId) -> Ref) -> Turns {
        let group = |(number, members, unexecuted): (u32, Vec<TxnId>, u64)| {
            let members = members.into_iter().map(at_of).collect();
            (number, Group { members, unexecuted: unexecuted as usize })
        };
        Turns { groups: self.groups.into_iter().map(group).collect(), groups_made: self.groups_made }
    }
}

/// A [`Turn`] as it travels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnImage {
    waits: u32,
    dependents: Vec<TxnId>,
    followers: Vec<TxnId>,
    group: Option<u32>,
}

impl TurnImage {
    pub fn of(turn: &Turn, id_of: &impl Fn(Ref) -> Option<TxnId>) -> TurnImage {
        let ids = |refs: &[Ref]| refs.iter().filter_map(|at| id_of(*at)).collect();
        TurnImage {
            waits: turn.waits,
            dependents: ids(&turn.dependents),
            followers: ids(&turn.followers),
            group: turn.group,
        }
    }
    pub fn restored(self, at_of: &impl Fn(TxnId) -> Ref) -> Turn {
        Turn {
            waits: self.waits,
            dependents: self.dependents.into_iter().map(at_of).collect(),
            followers: self.followers.into_iter().map(at_of).collect(),
            group: self.group,
        }
    }
}
