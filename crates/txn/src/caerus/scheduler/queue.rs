//! Who waits for whom to execute.
//!
//! KEEPS: a transaction waits for what it depends on to be done, and for no other; members of one component execute by
//! id where they conflict.

use super::super::cluster::Cluster;
use super::super::merger::{Component, Merger};
use super::super::options::Mutant;
use super::super::work::{Todo, Work};
use super::{Group, Scheduler};
use crate::graph::vertex::{Ref, State};
use base::Rank;
use base::txn::AccessMode;
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
        let deps = merger.vertex(at).deps.clone();
        let mut waits = 0;
        for to in deps {
            if merger.graph().get(to).is_some_and(|ahead| ahead.state < enough) {
                merger.scheduled(to).dependents.push(at);
                waits += 1;
            }
        }
        merger.scheduled(at).waits = waits;
        if waits == 0 {
            todo.work(Work::Execute(at));
        }
    }

    /// Members of one component execute by id where they conflict, after everything that any of them
    /// depends on: a conflict may be visible only through another member's dependencies.
    fn queue_component(
        &mut self,
        cluster: &Cluster,
        merger: &mut Merger,
        members: &Component,
        rank: Rank,
        todo: &mut Todo<'_>,
    ) {
        assert!(cluster.is_direct(), "no two wait for each other in ordered logs");
        base::sometimes!("a component with several members executes");
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
        let mut outside: Vec<Ref> = Vec::new();
        for &at in members {
            let ahead = merger.vertex(at).deps.iter().filter(|to| {
                !members.contains(to) && merger.graph().get(**to).is_some_and(|v| v.state < State::Done)
            });
            outside.extend(ahead);
        }
        outside.sort_unstable();
        outside.dedup();
        let group = self.groups_made;
        self.groups_made = self.groups_made.wrapping_add(1);
        self.groups.insert(group, Group { members: here.to_vec(), unexecuted: here.len() });
        for (nth, &at) in here.iter().enumerate() {
            merger.scheduled(at).group = Some(group);
            let mut waits = outside.len() as u32;
            for &ahead in &outside {
                merger.scheduled(ahead).dependents.push(at);
            }
            for &ahead in &here[..nth] {
                let planted = cluster.options.planted(Mutant::ForgetComponents);
                if conflict_here(cluster, merger, ahead, at) && !planted {
                    merger.scheduled(ahead).followers.push(at);
                    waits += 1;
                }
            }
            merger.scheduled(at).waits = waits;
            if waits == 0 {
                todo.work(Work::Execute(at));
            }
        }
    }
}

fn conflict_here(cluster: &Cluster, merger: &Merger, a: Ref, b: Ref) -> bool {
    let request = |at| merger.vertex(at).extra.request;
    if request(a).is_some() && request(a) == request(b) {
        return true;
    }
    let access = |at| &merger.vertex(at).transaction.as_ref().expect("it takes part here").access;
    let (a, b) = (access(a), access(b));
    let local = a.by_partition.keys().filter(|p| cluster.is_local(**p));
    local.into_iter().any(|partition| {
        a.at(*partition).iter().any(|mine| {
            b.at(*partition).iter().any(|other| {
                use AccessMode::Read;
                (mine.mode, other.mode) != (Read, Read) && mine.granule.overlaps(&other.granule)
            })
        })
    })
}
