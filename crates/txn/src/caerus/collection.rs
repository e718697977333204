//! What may be forgotten, and when.
//!
//! KEEPS: a vertex with a place is dropped only when it is done here, no vertex without a place leads to
//! it, and the `low` of every sequence that orders it has passed its rank: an entry meets only what its own sequence
//! has ordered before, so no later entry's rank could depend on it.
//! Versions below the watermark may go: every node has executed everything up to there and no reader's cut,
//! now or later, is below. But an interactive transaction asks whether what it read has changed since, and
//! a copy that has forgotten a deletion could not tell; whether it is too late to ask must be decided alike
//! at every copy. So each entry says which watermark its sequencer knew, whoever read below that aborts
//! everywhere, and a copy forgets only what all sequences have said. An outcome goes when its gateway has
//! answered.
//!
//! The collector is whoever leads the first sequence: a region that is lost is replaced as its leader is, and the next
//! collector begins with nothing but what nodes report to it. It tells nothing before all of them have, or have been
//! silent for long, of those with copies no more than K regions' (who is cut off itself hears of fewer). What was told
//! is never taken back: every node keeps the largest it has heard, but none from a collector that does not lead any
//! more.

use super::cluster::Cluster;
use super::logs::Logs;
use super::merger::{Merger, cut_of};
use super::message::{Floor, Message, SequenceId, Term};
use super::state::{Caerus, Out};
use crate::engine::EngineEffect;
use base::{NodeId, Rank, RegionId, Time, TxnId};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// What may be forgotten here, and, at the collector, everywhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Collector {
    reported: Reported,
    /// Every node has executed everything up to here, and no reader's cut is below.
    watermark: Rank,
    /// Every copy has executed everything up to here.
    ready: Rank,
    /// Versions at or below this have been given up here.
    given_up: Rank,
    /// Least cut that a reader of this node uses.
    floor: Option<Rank>,
}

/// What the collector knows of each node.
#[derive(Clone, Debug, Default)]
struct Reported {
    /// It has collected since it led in this term.
    term: Term,
    reports: BTreeMap<NodeId, (Rank, Floor)>,
    /// Of those that keep copies.
    executed: BTreeMap<NodeId, Rank>,
    heard_at: BTreeMap<NodeId, Time>,
    /// Its own first report: from then on silence counts.
    began: Option<Time>,
}

/// How far one node is.
pub(super) struct Progress {
    pub done: Rank,
    pub executed: Option<Rank>,
    pub floor: Floor,
}

impl Collector {
    pub fn watermark(&self) -> Rank {
        self.watermark
    }
    pub fn ready(&self) -> Rank {
        self.ready
    }
    pub fn given_up(&self) -> Rank {
        self.given_up
    }
    /// Least cut that a reader of this node uses, if there is one.
    pub fn set_floor(&mut self, floor: Option<Rank>) {
        self.floor = floor;
    }
    /// Goes on where another node's copy is.
    pub fn take_over(&mut self, watermark: Rank, given_up: Rank) {
        self.watermark = self.watermark.max(watermark);
        self.given_up = given_up;
    }
    /// The collector tells what all nodes have in common.
    fn told(&mut self, watermark: Rank, ready: Rank) {
        self.watermark = self.watermark.max(watermark);
        self.ready = self.ready.max(ready);
    }
    /// Versions up to `below` may be given up; whether those are more than before.
    fn give_up(&mut self, below: Rank) -> bool {
        let is_more = below > self.given_up;
        self.given_up = self.given_up.max(below);
        is_more
    }

    /// A node tells the collector, who leads the first sequence in `term`, how far it is.
    fn heard(&mut self, now: Time, term: Term, from: NodeId, progress: Progress) {
        if self.reported.term != term {
            base::sometimes!("another node collects");
            self.reported = Reported { term, ..Reported::default() };
        }
        let Progress { done, executed, floor } = progress;
        let known = self.reported.reports.entry(from).or_insert((done, floor));
        // Links reorder. A node that began a new life may have lost its memory, and be behind where it was.
        match known.1.incarnation.cmp(&floor.incarnation) {
            Ordering::Less => known.0 = done,
            Ordering::Equal => known.0 = known.0.max(done),
            Ordering::Greater => {}
        }
        if (known.1.incarnation, known.1.sequence) < (floor.incarnation, floor.sequence) {
            known.1 = floor;
        }
        if let Some(executed) = executed {
            let known = self.reported.executed.entry(from).or_default();
            *known = executed.max(*known);
        }
        self.reported.heard_at.insert(from, now);
    }

    /// What all nodes have in common: the watermark, what every copy has executed, and whose transactions are answered.
    /// `None`: too few have told how far they are.
    fn in_common(&mut self, now: Time, cluster: &Cluster) -> Option<(Rank, Rank, Vec<Floor>)> {
        let began = *self.reported.began.get_or_insert(now);
        let (mut rank, mut ready) = (Rank::MAX, Rank::MAX);
        let mut missing: BTreeSet<RegionId> = BTreeSet::new();
        for node in cluster.topology.node_ids() {
            let heard_at = self.reported.heard_at.get(&node).copied().unwrap_or(began);
            match self.reported.reports.get(&node) {
                _ if now.since(heard_at) > cluster.options.silence_ns && cluster.may_be_missing(node) => {
                    base::sometimes!("collection goes on without a node that is silent");
                    if cluster.topology.copies_at(node).next().is_some() {
                        missing.insert(cluster.topology.region_of(node));
                    }
                }
                Some((done, _)) => {
                    rank = rank.min(*done);
                    ready = self.reported.executed.get(&node).map_or(ready, |executed| ready.min(*executed));
                }
                None => return None,
            }
        }
        if missing.len() > cluster.copies_of(cluster.first_sequence()) {
            base::sometimes!("a collector hears too few to collect");
            return None;
        }
        Some((rank, ready, self.reported.reports.values().map(|(_, floor)| *floor).collect()))
    }
}

/// Everything ranked at or below it has executed here, and nothing will that is; `None` where nothing does.
pub(super) fn executed_to(cluster: &Cluster, logs: &Logs, merger: &Merger) -> Option<Rank> {
    let ranking = cluster.ranking().into_iter().map(|n| logs.of(n));
    let lows = ranking.map(|log| log.low()).filter(|_| cluster.is_replica);
    lows.chain(merger.executed_to()).min()
}

impl Caerus {
    /// Drops vertices that nothing can depend on any more.
    pub(super) fn collect(&mut self, now: Time) {
        // Of a transaction that is long gone, or they will be asked for.
        self.scheduler.forget_early(now, self.cluster.options.retry_after_ns(&self.cluster.topology));
        let low_of = |n: SequenceId| (n, self.logs.of(n).low());
        let lows: BTreeMap<SequenceId, Rank> = self.cluster.ranking().into_iter().map(low_of).collect();
        // A silent sequence holds up those that it orders: its entries meet no others.
        let is_stuck = self.availability.suspects();
        self.merger.forget(&lows, is_stuck, self.collector.watermark);
        let graph = self.merger.graph();
        self.residences.forget(&|at| graph.get(at).is_some());
    }

    /// Tells the collector how far this node is.
    pub(super) fn report_progress(&mut self, now: Time, out: &mut Out) {
        let past = match self.cluster.is_unbounded() {
            // Cuts to come are told from what has executed.
            true if self.cluster.is_replica => Rank::MAX,
            true => self.collector.ready,
            false => (now - self.cluster.clock_bound_ns()).rank().previous(),
        };
        let executed = self.executed_to();
        let done = executed.into_iter().chain(self.collector.floor).fold(past, Rank::min);
        let TxnId { coordinator, incarnation, sequence } = self.gateway.unanswered(&self.cluster);
        let floor = Floor { coordinator, incarnation, sequence };
        let delays_ns = self.delays.at(self.cluster.me);
        let collector = self.leader_of(self.cluster.first_sequence());
        self.send(collector, Message::Progress { done, executed, floor, delays_ns }, out);
    }

    /// While this node is not whole collection waits for it, as long as it is heard.
    pub(super) fn report_absence(&mut self, out: &mut Out) {
        if !self.life.may_come_back() {
            return;
        }
        let TxnId { coordinator, incarnation, sequence } = self.gateway.unanswered(&self.cluster);
        let floor = Floor { coordinator, incarnation, sequence };
        let delays_ns = self.delays.at(self.cluster.me);
        for node in self.cluster.sequencers.clone().into_iter().flatten() {
            if node == self.cluster.me {
                continue;
            }
            let delays_ns = delays_ns.clone();
            let message =
                Message::Progress { done: Rank::ZERO, executed: Some(Rank::ZERO), floor, delays_ns };
            self.send(node, message, out);
        }
    }

    fn executed_to(&self) -> Option<Rank> {
        executed_to(&self.cluster, &self.logs, &self.merger)
    }

    pub(super) fn on_progress(
        &mut self,
        now: Time,
        from: NodeId,
        (done, executed): (Rank, Option<Rank>),
        floor: Floor,
        delays_ns: Vec<u64>,
        out: &mut Out,
    ) {
        let Some(term) = self.logs.of(self.cluster.first_sequence()).term() else { return };
        self.delays.set(from, delays_ns);
        self.collector.heard(now, term, from, Progress { done, executed, floor });
        if from != self.cluster.me {
            return;
        }
        let Some((rank, ready, floors)) = self.collector.in_common(now, &self.cluster) else { return };
        let delays_ns = self.delays.all();
        for node in self.cluster.topology.node_ids() {
            let (floors, delays_ns) = (floors.clone(), delays_ns.clone());
            let message = Message::Watermark { term, rank, ready, floors, delays_ns };
            self.send(node, message, out);
        }
    }

    pub(super) fn on_watermark(
        &mut self,
        term: Term,
        (rank, ready): (Rank, Rank),
        floors: &[Floor],
        out: &mut Out,
    ) {
        if term < self.logs.of(self.cluster.first_sequence()).led_in() {
            return;
        }
        for floor in floors {
            let Floor { coordinator, incarnation, sequence } = *floor;
            self.logs.raise_floor(&self.cluster, (coordinator, incarnation), sequence);
            let first = TxnId { coordinator, incarnation: 0, sequence: 0 };
            let end = TxnId { coordinator, incarnation, sequence };
            self.outcomes.forget(first..end);
        }
        self.collector.told(rank, ready);
        self.give_up(out);
        self.outcomes.forget_results(&self.cluster, self.merger.graph(), self.collector.given_up);
    }

    /// Gives up versions that no reader can want, and no transaction that reads its past either: all of
    /// those that may still come know what is gone, and those that are here hold on to what they read.
    pub(super) fn give_up(&mut self, out: &mut Out) {
        self.logs.collect_to(self.collector.watermark);
        self.logs.collect();
        let ranking = self.cluster.ranking().into_iter().map(|n| self.logs.of(n));
        let told = ranking.map(|log| log.collected()).filter(|_| self.cluster.is_replica);
        // Whoever waits to be merged may have read below what its sequence's next leader has told since.
        let unmerged = self.logs.iter().flat_map(|log| log.unmerged());
        let unmerged = unmerged.filter_map(|entry| cut_of(&entry.transaction)).min();
        let held = self.merger.read_below();
        // Others may have gone on without this node, and without its readers.
        let own = self.executed_to().into_iter().chain(self.collector.floor);
        let below = told.chain(held).chain(unmerged).chain(own).fold(self.collector.watermark, Rank::min);
        if self.collector.give_up(below) {
            out.push(EngineEffect::Collected { below });
        }
    }
}
