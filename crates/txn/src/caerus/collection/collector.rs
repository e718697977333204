//! What may be forgotten here, and, at the collector, everywhere: see the module above.

use super::super::cluster::Cluster;
use super::super::logs::Logs;
use super::super::merger::Merger;
use super::super::message::{Floor, Term};
use base::{NodeId, Rank, RegionId, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// What may be forgotten here, and, at the collector, everywhere.
#[derive(Clone, Debug, Default)]
pub struct Collector {
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
pub struct Progress {
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
    /// Least cut that a reader of this node uses, if there is one.
    pub fn floor(&self) -> Option<Rank> {
        self.floor
    }
    /// Goes on where another node's copy is.
    pub fn take_over(&mut self, watermark: Rank, given_up: Rank) {
        self.watermark = self.watermark.max(watermark);
        self.given_up = given_up;
    }
    /// The collector tells what all nodes have in common.
    pub fn told(&mut self, watermark: Rank, ready: Rank) {
        self.watermark = self.watermark.max(watermark);
        self.ready = self.ready.max(ready);
    }
    /// Versions up to `below` may be given up; whether those are more than before.
    pub fn give_up(&mut self, below: Rank) -> bool {
        let is_more = below > self.given_up;
        self.given_up = self.given_up.max(below);
        is_more
    }

    /// A node tells the collector, who leads the first sequence in `term`, how far it is.
    pub fn heard(&mut self, now: Time, term: Term, from: NodeId, progress: Progress) {
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
    pub fn in_common(&mut self, now: Time, cluster: &Cluster) -> Option<(Rank, Rank, Vec<Floor>)> {
        let began = *self.reported.began.get_or_insert(now);
        let (mut rank, mut ready) = (Rank::MAX, Rank::MAX);
        let mut missing: BTreeSet<RegionId> = BTreeSet::new();
        for node in cluster.topology.node_ids() {
            let heard_at = self.reported.heard_at.get(&node).copied().unwrap_or(began);
            match self.reported.reports.get(&node) {
                _ if now.since(heard_at) > cluster.options.collection.silence_ns
                    && cluster.may_be_missing(node) =>
                {
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
pub fn executed_to(cluster: &Cluster, logs: &Logs, merger: &Merger) -> Option<Rank> {
    let ranking = cluster.ranking().into_iter().map(|n| logs.of(n));
    let closed = ranking.map(|log| log.closed()).filter(|_| cluster.is_replica);
    closed.chain(merger.executed_to()).min()
}
