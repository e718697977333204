//! Collection of old vertices by the rank watermark.
//!
//! A transaction's tag is its rank. Node q reports `done_q`: every later pts here exceeds it, everything
//! pre-accepted here at or below it has executed, every transaction coordinated here at or below it has
//! ended, and no reader here uses a cut at or below it. The watermark E is the least of these over all
//! nodes. A vertex with rank ≤ E may go everywhere: whoever has not executed has a
//! larger cts, so nobody's rank needs it any more. Epochs per node, as printed in the paper, are not
//! safe: two nodes may drop one vertex at different times and rank its successor differently.
//!
//! Reports are gathered in two steps, so that what one node hears and says grows with its region and with the
//! number of regions, not with the cluster: each region has a gatherer (it runs the region's first partition),
//! which passes the least of its members' reports on to the collector, one of the gatherers; E comes back the same
//! way. A report is a promise for good, and the least of some promises is one that all of them made, so a gatherer
//! may use old reports and the collector may miss some: E is late then, never too high. Whoever gathers passes
//! on as soon as everyone has reported anew, and with its own next report in any case.
//!
//! Gatherers run partitions, and need not move when they are lost: no watermark passes the report of a node
//! that runs a partition, which nobody else can give. While that node is gone nothing may be collected, whoever
//! gathers; when it is back (a durable one with all it knew, a group of machines after an election) it goes on.
//! Only those that run no partition are given up after their lease, and none of them gathers.
//!
//! KEEPS: what is collected has executed here and is nobody's dependency any more; its id is remembered until
//! its coordinator's floor passes it, so that a late duplicate is recognised.

pub(super) mod collector;

use self::collector::COLLECTED_AT;
use super::message::{Floor, Message};
use super::options::Mutant;
use super::state::Perseus;
use super::work::Out;
use crate::engine::EngineEffect;
use crate::graph::vertex::{Ref, State};
use base::{NodeId, Rank, Time, TxnId};

impl Perseus {
    /// How far this node is, for its region's gatherer.
    pub(super) fn report_progress(&mut self, now: Time, out: &mut Out) {
        self.record_ends(out);
        let done = self.done_rank(now).min(self.closed_max());
        self.close_everywhere(done);
        self.collection.report(now, done);
        let floors = self.collected_floors();
        if self.cluster.options.planted(Mutant::CollectAlone) {
            self.raise_watermark(done, out);
        }
        self.send(self.collection.gatherer(), Message::Progress { done, floors }, out);
        // What was learned and is still without a place has lost its search.
        self.keep_learned();
        let learned: Vec<Ref> = self.collection.learned().collect();
        self.search_later(learned);
    }

    /// What was learned and has its place, or is gone, need not be looked after.
    fn keep_learned(&mut self) {
        let is_final = |at: Ref| self.graph.get(at).is_some_and(|vertex| vertex.state == State::Final);
        self.collection.keep_learned(is_final);
    }

    fn done_rank(&self, now: Time) -> Rank {
        // No transaction submitted here later is ranked at or below this, by any participant's clock.
        let mut done = (now - self.cluster.clock_bound_ns()).rank().previous();
        if let Some(bound) = self.schedule.first() {
            done = done.min(bound.previous());
        }
        for coordination in self.gateway.coordinated() {
            done = done.min(coordination.bound().previous());
        }
        if let Some(floor) = self.collection.floor()
            && !self.cluster.options.planted(Mutant::CollectWithoutFloor)
        {
            done = done.min(floor.previous());
        }
        done
    }

    /// At a gatherer: a node of its region reports.
    pub(super) fn on_progress(
        &mut self,
        now: Time,
        from: NodeId,
        done: Rank,
        floors: Vec<Floor>,
        out: &mut Out,
    ) {
        let (topology, lease_ns) = (&self.cluster.topology, self.cluster.options.lease_ns);
        let is_given_up = |node, heard_at| {
            // It only reads. When it returns it finds that it was given up, and begins again.
            let is_lost = now.since(heard_at) > lease_ns && topology.partitions_at(node).next().is_none();
            if is_lost {
                base::sometimes!("collection goes on without a silent reader");
            }
            is_lost
        };
        let report = self.collection.member_reports(now, (from, done, floors), is_given_up);
        if let Some((done, floors)) = report {
            let delays_ns = self.measured.delays.at(self.cluster.me);
            let collector = self.cluster.topology.node_of(COLLECTED_AT);
            self.send(collector, Message::Gathered { done, floors, delays_ns }, out);
        }
    }

    /// At the collector: a region reports.
    pub(super) fn on_gathered(
        &mut self,
        now: Time,
        from: NodeId,
        done: Rank,
        floors: Vec<Floor>,
        delays_ns: Vec<u64>,
        out: &mut Out,
    ) {
        if from != self.cluster.me {
            self.measured.delays.set(from, delays_ns);
        }
        let report = self.collection.gatherer_reports(now, (from, done, floors));
        let Some((rank, floors)) = report else { return };
        let gatherers = self.collection.gatherers().to_vec();
        self.spread(gatherers, rank, &floors, &self.measured.delays.all(), out);
    }

    fn spread(
        &mut self,
        nodes: Vec<NodeId>,
        rank: Rank,
        floors: &[Floor],
        delays_ns: &[Vec<u64>],
        out: &mut Out,
    ) {
        for node in nodes {
            let (floors, delays_ns) = (floors.to_vec(), delays_ns.to_vec());
            self.send(node, Message::Watermark { rank, floors, delays_ns }, out);
        }
    }

    pub(super) fn on_watermark(
        &mut self,
        from: NodeId,
        rank: Rank,
        floors: &[Floor],
        delays_ns: Vec<Vec<u64>>,
        out: &mut Out,
    ) {
        if from == self.cluster.topology.node_of(COLLECTED_AT) {
            let members = self.collection.members().iter().copied();
            self.spread(members.filter(|n| *n != self.cluster.me).collect(), rank, floors, &delays_ns, out);
        }
        self.measured.delays.share(self.cluster.me, delays_ns);
        self.raise_watermark(rank, out);
        for floor in floors {
            self.collection.raise_floor(floor);
        }
        self.forget_below_floors();
    }

    /// It goes once the watermark passes its rank.
    pub(super) fn collect_later(&mut self, at: Ref, rank: Rank) {
        self.collection.done(rank, at);
    }
    /// A transaction that takes no part here is learned from another node.
    pub(super) fn is_learned(&mut self, at: Ref) {
        self.collection.learn(at);
    }
    /// A transaction turns out to be collected elsewhere.
    pub(super) fn is_collected(&mut self, txn: TxnId) {
        self.collection.collected(txn);
    }
    /// A former life of this node may have reported so much, and closed it.
    pub(super) fn has_promised(&mut self, done: Rank) {
        self.close_everywhere(done);
        self.collection.promised(done);
    }
    /// The least cut that a reader of this node uses, if there is one.
    pub(super) fn set_readers_floor(&mut self, floor: Option<Rank>) {
        self.collection.set_floor(floor);
    }

    /// Drops every vertex at or below the watermark.
    pub(super) fn raise_watermark(&mut self, rank: Rank, out: &mut Out) {
        if rank <= self.collection.watermark() {
            return;
        }
        self.collection.raise(rank, self.partitions.is_empty());
        // What is not ranked yet keeps what its dependencies mean for it.
        self.keep_learned();
        let learned: Vec<Ref> = self.collection.learned().collect();
        learned.into_iter().for_each(|at| self.inherit(at, rank));
        while let Some(at) = self.collection.pop_collected() {
            let txn = self.gone(at);
            self.collection.collected(txn);
        }
        self.forget_accesses();
        self.forget_results();
        self.collect_versions(out);
    }

    /// Old versions of rows go, but for those that a transaction has to look at which has read before it took its place
    /// here: what it finds is the same whenever it executes, in whichever life of this node.
    fn collect_versions(&mut self, out: &mut Out) {
        let watermark = self.collection.watermark();
        let needed = self.schedule.first_read().map_or(watermark, Rank::previous);
        let below = watermark.min(needed);
        if self.collection.release(below) {
            out.push(EngineEffect::Collected { below });
        }
    }
}
