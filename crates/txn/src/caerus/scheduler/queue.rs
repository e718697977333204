//! From a component's place to the turns of its members.
//!
//! KEEPS: what does not execute here is done as soon as it has its place; attempts of one request execute by id.

use super::super::cluster::Cluster;
use super::super::merger::{Component, Extra, Merger};
use super::super::options::Mutant;
use super::super::work::{Todo, Work};
use super::Scheduler;
use crate::graph::turns::{Turns, conflict_at};
use crate::graph::vertex::{Ref, State, Vertex};
use base::Rank;
use smallvec::SmallVec;

impl Scheduler {
    /// A component has its place.
    pub fn schedule(
        &mut self,
        cluster: &Cluster,
        merger: &mut Merger,
        members: &Component,
        rank: Rank,
        todo: &mut Todo<'_>,
    ) {
        let local = |at: &Ref| merger.vertex(*at).extra.local;
        match members[..] {
            [alone] if local(&alone) => self.queue_alone(cluster, merger, alone, todo),
            [alone] => self.done(merger, alone, rank, todo),
            _ => self.queue_component(cluster, merger, members, rank, todo),
        }
    }

    fn queue_alone(&mut self, cluster: &Cluster, merger: &mut Merger, at: Ref, todo: &mut Todo<'_>) {
        let planted = cluster.options.planted(Mutant::ForgetComponents);
        let enough = if planted { State::Executed } else { State::Done };
        if Turns::queue_alone(merger.graph_mut(), at, enough) {
            todo.work(Work::Execute(at));
        }
    }

    fn queue_component(
        &mut self,
        cluster: &Cluster,
        merger: &mut Merger,
        members: &Component,
        rank: Rank,
        todo: &mut Todo<'_>,
    ) {
        assert!(cluster.is_direct(), "no two wait for each other in ordered logs");
        let here: SmallVec<[Ref; 4]> =
            members.iter().copied().filter(|at| merger.vertex(*at).extra.local).collect();
        for &at in members {
            if !here.contains(&at) {
                self.done(merger, at, rank, todo);
            }
        }
        if here.is_empty() {
            return;
        }
        let conflict = |a: &Vertex<Extra>, b: &Vertex<Extra>| {
            conflict_here(cluster, a, b) && !cluster.options.planted(Mutant::ForgetComponents)
        };
        let ready = |at| todo.work(Work::Execute(at));
        self.turns.queue_component(merger.graph_mut(), members, &here, conflict, ready);
    }
}

fn conflict_here(cluster: &Cluster, a: &Vertex<Extra>, b: &Vertex<Extra>) -> bool {
    if a.extra.request.is_some() && a.extra.request == b.extra.request {
        return true;
    }
    let transactions = a.transaction.as_ref().zip(b.transaction.as_ref());
    let (a, b) = transactions.expect("entries carry whole transactions");
    conflict_at(&a.access, &b.access, |partition| cluster.is_local(partition))
}
