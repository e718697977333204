//! The same database among other nodes: a region more or less, another K, other distances.
//!
//! IN: a node that has come back with what its disk has, and the [`Point`] at which all nodes of the cluster stopped. OUT:
//! the same node as a node of the other cluster. Nothing but this node's memory is looked at, and no message is sent.
//!
//! A *point* is where every sequence ends. All nodes stop at the same one: each has merged and executed all entries before
//! it, has them on its disk, and has nothing under way ([`Caerus::point`]). The command that stops the nodes compares what each of
//! them says, and stops none before all say the same. Regions keep their numbers; new ones come behind them. That of a region
//! that leaves stays empty: its sequence has ended, and its node is none any more.
//!
//! KEEPS:
//! 1. every sequence goes on where it ended, and nothing of it is replaced: what was merged is executed at every old node,
//!    with the same place, and is in the copy that a new node takes;
//! 2. ids of transactions are never used again: a node counts its lives on, and a new node's number never named a gateway;
//! 3. what is homed somewhere stays there; a new region's sequence and partitions begin empty. Only what is homed in a region
//!    that leaves is homed at its heir's from then on; its rows stay in their partitions;
//! 4. the next leader of a sequence stamps above every closed timestamp that a leader of the old membership has told;
//! 5. nobody of the old membership goes on once a node serves clients under the new one.
//!
//! Why nothing answered is lost, repeated or reordered. What was answered rests on entries before the point (nothing was
//! under way), so (1) has it at every old node: in N copies, where K + 1 were enough. What a gateway had answered under a
//! name is in the image like everything that follows from entries. Places follow from stamps and from the graph; both are
//! in the image, and are the same at all nodes, so later entries get the same places everywhere. A later transaction that
//! conflicts with an earlier one depends on it or comes when it is collected, as ever. One that does not conflict gets
//! the later rank because its stamp is above the clock of its sequencer, which goes on above the old one's ceiling.
//!
//! Why homes can change with a region that leaves. An entry that is ordered later waits for the conflicting transactions that
//! its home's sequence has ordered before it, and the heir's sequence begins with the former home's record of those
//! ([`super::homes::Resided::inherited`]). No entry names the former home any more: nothing is under way, and gateways have been
//! told of nothing yet. Readers close at the heir's sequence, which stamps above every stamp that the former home's leader has
//! told (4). A home that was never moved follows from the new topology, so that transactions need not name it.
//!
//! Why promises can be forgotten. A term says whom a node follows. Nobody leads at the point, every log is the same, and
//! (5) nobody leads in an old term again; so terms begin anew: a region's number says which terms it may lead in, and that
//! changes with the count of regions. What leaders told readers outlives them: with K > 0 the next leader has heard one of
//! those who granted it. The quorums of another K or of more regions need not meet the old grants, so each node
//! takes over the largest of all nodes ([`Point::told`], [`Point::collected`]).
//!
//! (5) is the host's: a node that was stopped for a change refuses to start as before; one that has changed takes no
//! message of a node that has not, or that stopped elsewhere; and it serves nobody before it has heard, in this
//! membership, every node of the old one. None of those can go back then.
//!
//! A new node begins like one that has lost its memory (see `rejoin`), with two differences: it has nothing that it could have
//! forgotten, so it comes with K = 0 as well, where its own sequence is empty and others keep for it what is behind the
//! copy; and it says so.

use super::cluster::Cluster;
use super::records::Checkpoint;
use super::rejoin::life::Life;
use super::routing::Routing;
use super::state::Caerus;
use crate::engine::{Engine, Executor};
use crate::log::{Grant, Term};
use base::process::Unreadable;
use base::topology::Topology;
use base::{NodeId, PartitionId, Rank, RegionId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where all nodes of a cluster stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Point {
    /// Of each sequence: how many entries it has.
    pub ends: Vec<u64>,
    /// No node has told a later closed timestamp, nor a later rank up to which versions may be given up.
    pub told: Rank,
    pub collected: Rank,
}

impl Point {
    /// Whether it is the same place of all sequences.
    pub fn is_at(&self, ends: &[u64]) -> bool {
        self.ends == ends
    }
    /// As far as another node knows that stopped at the same place.
    pub fn and(self, other: &Point) -> Point {
        let (told, collected) = (self.told.max(other.told), self.collected.max(other.collected));
        Point { told, collected, ..self }
    }
}

impl Caerus {
    /// Where this node is, if nothing is under way here and its disk has all of it.
    pub fn point(&self) -> Option<Point> {
        if !self.is_settled() || self.life.donor.goes_on() || self.routing() != Routing::Direct {
            return None;
        }
        let ends = self.logs.iter().map(|log| log.point()).collect::<Option<Vec<u64>>>()?;
        let told = self.logs.iter().map(|log| log.told_at_most()).fold(Grant::default(), Grant::max);
        let collected = told.collected.max(self.collector.watermark()).max(self.collector.given_up());
        Some(Point { ends, told: told.closed, collected })
    }

    /// This node, which has come back and has not started, as a node of another cluster: see the module. `executor` has
    /// the rows as of the checkpoint. Errors: it did not stop at that point, or the clusters do not follow each other.
    pub fn changed_to(
        mut self,
        topology: Arc<Topology>,
        mut options: super::Options,
        at: &Point,
        executor: &mut dyn Executor,
    ) -> Result<Caerus, Unreadable> {
        self.check_follows(&topology)?;
        self.go_to(at, executor)?;
        options.records = self.cluster.options.records;
        let (me, life) = (self.cluster.me, self.life.born());
        let mut next = Caerus::with(Cluster::new(topology, me, options), life, true);
        let checkpoint = next.extended(self.checkpointed(), at)?;
        next.stand_as(checkpoint)?;
        next.life.recorded.is_back = true;
        Ok(next)
    }

    /// The node of a new region, in its `incarnation`-th life: it takes a copy before anybody is answered.
    pub fn joining(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: super::Options) -> Caerus {
        let cluster = Cluster::new(topology, me, options);
        let (survives, donors) = (cluster.survives(), cluster.donors());
        let refused = if donors.is_empty() { cluster.refused() } else { None };
        // With K = 0 nobody else could lead its sequence, and nobody has.
        let mut engine = Caerus::with(cluster, incarnation, !survives);
        engine.life = Life::beginning(incarnation, refused);
        if survives {
            engine.reborn(me, incarnation);
        }
        engine
    }

    /// Errors: nodes or partitions would be others under the same numbers.
    fn check_follows(&self, next: &Topology) -> Result<(), Unreadable> {
        let here = &self.cluster.topology;
        let kept = next.wan.regions.get(..here.wan.region_count());
        if next.is_removed(self.cluster.region) {
            let name = here.region_name(self.cluster.region);
            return Err(Unreadable(format!(
                "region {name} has left the cluster, so its node does not go on"
            )));
        }
        if next.removed.get(..here.removed.len()) != Some(&here.removed[..]) {
            return Err(Unreadable("a region that has left the cluster does not come back into it".into()));
        }
        if self.routing() != Routing::Direct || kept != Some(&here.wan.regions[..]) {
            return Err(Unreadable(format!(
                "a cluster of regions {} cannot become one of regions {}: regions stay in their order, and new ones come last",
                here.wan.regions.join(", "),
                next.wan.regions.join(", ")
            )));
        }
        let is_kept = |p: PartitionId| {
            let run_at = here.region_of_partition(p);
            next.partitions.get(usize::from(p.0)).is_some_and(|spec| match next.is_removed(run_at) {
                true => next.region_of(spec.node) == next.successor(run_at),
                false => spec.node == here.node_of(p),
            })
        };
        match here.partition_ids().find(|p| !is_kept(*p)) {
            None => Ok(()),
            Some(partition) => Err(Unreadable(format!("{partition} would be run by another node"))),
        }
    }

    /// Merges and executes what this node had merged when it stopped. Errors: it stopped somewhere else.
    fn go_to(&mut self, at: &Point, executor: &mut dyn Executor) -> Result<(), Unreadable> {
        let ends: Vec<u64> = self.logs.iter().map(|log| log.end()).collect();
        let elsewhere =
            |what: String| Unreadable(format!("it was not stopped where the others were: {what}"));
        if !at.is_at(&ends) {
            return Err(elsewhere(format!(
                "its sequences end at {ends:?}, and those of all at {:?}",
                at.ends
            )));
        }
        // What comes of it was said in a former life.
        let (now, mut out) = (self.life.recorded.clock, Vec::new());
        self.start(now, &mut out);
        for sequence in self.cluster.running() {
            self.log(sequence, &mut out, |log, _| log.all_is_stable());
        }
        self.catch_up(now, &mut out);
        self.settle(now, executor, &mut out);
        while self.is_unfinished() {
            self.go_on(now, executor, &mut out);
        }
        // Who begins a change again and again is not ahead of the others by that.
        self.has_shown_at_most(now);
        match self.merger.has_executed_all() {
            true => Ok(()),
            false => Err(elsewhere(format!(
                "{} transactions are not in all of their sequences",
                self.merger.unordered()
            ))),
        }
    }

    /// What a node of a smaller cluster was, with the beginnings of what this one has beside.
    fn extended(&self, before: Checkpoint, at: &Point) -> Result<Checkpoint, Unreadable> {
        let Checkpoint { mut image, logs, mut lives, clock, reads } = before;
        let begins = self.checkpointed();
        let topology = &self.cluster.topology;
        let heir = |region: RegionId| topology.is_removed(region).then(|| topology.successor(region));
        image.partitions = image.partitions.into_iter().map(|copied| copied.inherited(&heir)).collect();
        image.sequences.extend(begins.image.sequences.into_iter().skip(image.sequences.len()));
        image.partitions.extend(begins.image.partitions.into_iter().skip(image.partitions.len()));
        let floor = Grant { closed: at.told, collected: at.collected };
        let count = logs.len();
        let anew = |(home, kept): (Term, crate::log::Kept<_>)| kept.begun_anew(home, floor);
        let kept: Option<Vec<_>> = (0..).zip(logs).map(anew).collect();
        let mut logs = kept.ok_or_else(|| Unreadable("a sequence is not merged to its end".into()))?;
        logs.extend(begins.logs.into_iter().skip(count));
        lives.retain(|node, _| usize::from(node.0) < count);
        Ok(Checkpoint { image, logs, lives, clock, reads })
    }
}
