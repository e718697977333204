//! Collection of old vertices by the rank watermark.
//!
//! A transaction's tag is its rank. Node q reports `done_q`: every later pts here exceeds it, everything
//! pre-accepted here at or below it has executed, every transaction coordinated here at or below it has
//! ended, and no reader here uses a cut at or below it. The watermark E is the least of these over all
//! nodes; one of them, the collector, gathers them. A vertex with rank ≤ E may go everywhere: whoever has not executed has a
//! larger cts, so nobody's rank needs it any more. Epochs per node, as printed in the paper, are not
//! safe: two nodes may drop one vertex at different times and rank its successor differently.
//!
//! The collector runs partition 0, and need not move when it is lost: no watermark passes the report of a node
//! that runs a partition, which nobody else can give. While that node is gone nothing may be collected, whoever
//! gathers; when it is back (a durable one with all it knew, a group of machines after an election) it goes on.
//! Only those that run no partition are given up after their lease, and none of them collects.
//!
//! KEEPS: what is collected has executed here and is nobody's dependency any more; its id is remembered until
//! its coordinator's floor passes it, so that a late duplicate is recognised.

use super::message::{Floor, Message};
use super::options::Mutant;
use super::state::{Out, Perseus, Work};
use crate::engine::EngineEffect;
use crate::graph::seen::Seen;
use crate::graph::vertex::{Ref, State};
use base::{NodeId, PartitionId, Rank, Time, TxnId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The partition whose node gathers reports.
const COLLECTED_AT: PartitionId = PartitionId(0);

#[derive(Clone, Debug)]
pub(super) struct Collection {
    /// Everything at or below is executed everywhere and read by nobody.
    pub watermark: Rank,
    /// How far this node has said that it is.
    reported: Rank,
    /// Ids of collected transactions.
    pub seen: Seen,
    /// Vertices learned from others, to make sure that each gets its place and goes.
    pub learned: Vec<Ref>,
    /// Done vertices, smallest rank first.
    heap: BinaryHeap<Reverse<(Rank, Ref)>>,
    /// Transactions of this gateway, by life.
    own: Vec<Life>,
    /// At the collector: the latest report of each node.
    reports: BTreeMap<NodeId, Rank>,
    /// At the collector: when each node reported last.
    heard_at: BTreeMap<NodeId, Time>,
    began: Option<Time>,
    floors: BTreeMap<(NodeId, u32), u64>,
}

/// What one life of this gateway submitted.
#[derive(Clone, Debug)]
struct Life {
    incarnation: u32,
    /// Everything before this sequence has ended and lies below the watermark.
    floor: u64,
    /// Ranks of those that ended, from `floor` on.
    ranks: VecDeque<Rank>,
}

impl Collection {
    pub fn new() -> Collection {
        Collection {
            watermark: Rank::ZERO,
            reported: Rank::ZERO,
            seen: Seen::default(),
            learned: Vec::new(),
            heap: BinaryHeap::new(),
            own: Vec::new(),
            reports: BTreeMap::new(),
            heard_at: BTreeMap::new(),
            began: None,
            floors: BTreeMap::new(),
        }
    }
    /// Entries kept, by what they are.
    pub fn held(&self) -> BTreeMap<&'static str, u64> {
        let own: usize = self.own.iter().map(|life| life.ranks.len()).sum();
        BTreeMap::from([
            ("words of collected ids", self.seen.words() as u64),
            ("vertices learned", self.learned.len() as u64),
            ("vertices to collect", self.heap.len() as u64),
            ("ranks of own transactions", own as u64),
        ])
    }
    /// The next own transaction exists.
    pub fn begun(&mut self, txn: TxnId) {
        if self.own.last().is_none_or(|life| life.incarnation != txn.incarnation) {
            self.own.push(Life { incarnation: txn.incarnation, floor: 1, ranks: VecDeque::new() });
        }
        self.own.last_mut().expect("just pushed").ranks.push_back(Rank::MAX);
    }
    /// An own transaction has ended at every participant.
    pub fn finished(&mut self, txn: TxnId, rank: Rank) {
        let life = self.own.iter_mut().rev().find(|life| life.incarnation == txn.incarnation);
        let life = life.expect("it was submitted here");
        life.ranks[(txn.sequence - life.floor) as usize] = rank;
    }
    /// A vertex has executed here and may go once the watermark passes it.
    pub fn done(&mut self, rank: Rank, at: Ref) {
        self.heap.push(Reverse((rank, at)));
    }
    /// Below which sequence of which life everything of this gateway is collected.
    fn own_floors(&mut self, me: NodeId) -> Vec<Floor> {
        for life in &mut self.own {
            while life.ranks.front().is_some_and(|rank| *rank <= self.watermark) {
                life.ranks.pop_front();
                life.floor += 1;
            }
        }
        let floor =
            |life: &Life| Floor { coordinator: me, incarnation: life.incarnation, sequence: life.floor };
        self.own.iter().map(floor).collect()
    }
}

impl Perseus {
    /// How far this node is, for the collector.
    pub(super) fn report(&mut self, now: Time, out: &mut Out) {
        let done = self.done_rank(now);
        for partition in &mut self.partitions {
            partition.closed = partition.closed.max(done);
        }
        self.collection.reported = self.collection.reported.max(done);
        let floors = self.collection.own_floors(self.me);
        if self.options.planted(Mutant::CollectAlone) {
            self.raise_watermark(done, out);
        }
        let delays_ns = self.delays.at(self.me);
        let collector = self.topology.node_of(COLLECTED_AT);
        self.send(collector, Message::Progress { done, floors, delays_ns }, out);
        // What was learned and is still without a place has lost its search.
        let learned = std::mem::take(&mut self.collection.learned);
        for at in learned {
            if self.graph.get(at).is_some_and(|vertex| vertex.state == State::Final) {
                self.collection.learned.push(at);
                self.work.push_back(Work::Search(at));
            }
        }
    }

    fn done_rank(&self, now: Time) -> Rank {
        // No transaction submitted here later is ranked at or below this, by any participant's clock.
        let mut done = (now - self.clock_bound_ns()).rank().previous();
        if let Some((bound, _)) = self.pending.first() {
            done = done.min(bound.previous());
        }
        for coordination in self.coordinating.values() {
            done = done.min(coordination.bound.previous());
        }
        if let Some(floor) = self.floor
            && !self.options.planted(Mutant::CollectWithoutFloor)
        {
            done = done.min(floor.previous());
        }
        done
    }

    pub(super) fn on_progress(
        &mut self,
        now: Time,
        from: NodeId,
        done: Rank,
        floors: Vec<Floor>,
        delays_ns: Vec<u64>,
        out: &mut Out,
    ) {
        if from != self.me {
            self.delays.set(from, delays_ns);
        }
        let collection = &mut self.collection;
        let report = collection.reports.entry(from).or_default();
        *report = done.max(*report);
        for floor in floors {
            let known = collection.floors.entry((floor.coordinator, floor.incarnation)).or_default();
            *known = floor.sequence.max(*known);
        }
        collection.heard_at.insert(from, now);
        if from != self.me {
            return;
        }
        // Silence from the start counts from the collector's own first report.
        let began = *collection.began.get_or_insert(now);
        let mut rank = Rank::MAX;
        for node in self.topology.node_ids() {
            let heard_at = collection.heard_at.get(&node).copied().unwrap_or(began);
            let runs_partitions = self.topology.partitions_at(node).next().is_some();
            match collection.reports.get(&node) {
                // It only reads. When it returns it finds that it was given up, and begins again.
                _ if !runs_partitions && now.since(heard_at) > self.options.lease_ns => {
                    base::sometimes!("collection goes on without a silent reader");
                }
                Some(done) => rank = rank.min(*done),
                None => return,
            }
        }
        let floors: Vec<Floor> = collection
            .floors
            .iter()
            .map(|(&(coordinator, incarnation), &sequence)| Floor { coordinator, incarnation, sequence })
            .collect();
        for node in self.topology.node_ids() {
            let (floors, delays_ns) = (floors.clone(), self.delays.all());
            self.send(node, Message::Watermark { rank, floors, delays_ns }, out);
        }
    }

    pub(super) fn on_watermark(&mut self, rank: Rank, floors: &[Floor], out: &mut Out) {
        self.raise_watermark(rank, out);
        for floor in floors {
            self.collection.seen.raise_floor(floor.coordinator, floor.incarnation, floor.sequence);
        }
        self.forget_below_floors();
    }

    /// Drops every vertex at or below the watermark.
    pub(super) fn raise_watermark(&mut self, rank: Rank, out: &mut Out) {
        if rank <= self.collection.watermark {
            return;
        }
        // Whoever runs no partition may be given up, and finds that the others went on without it.
        let within = rank <= self.collection.reported || self.partitions.is_empty();
        assert!(within, "nothing is collected that this node has not released: {rank}");
        self.collection.watermark = rank;
        // What is not ranked yet keeps what its dependencies mean for it.
        let graph = &mut self.graph;
        self.collection.learned.retain(|at| graph.get(*at).is_some_and(|v| v.state == State::Final));
        for &at in &self.collection.learned {
            let deps = &graph.live(at).deps;
            let ranks = deps.iter().filter_map(|dependency| graph.get(*dependency)).filter_map(|parent| {
                parent.rank.filter(|parent_rank| parent.state >= State::Emitted && *parent_rank <= rank)
            });
            let inherited = ranks.max().map_or(Rank::ZERO, Rank::next);
            let vertex = graph.live_mut(at);
            vertex.inherited = vertex.inherited.max(inherited);
        }
        while let Some(Reverse((rank, at))) = self.collection.heap.peek().copied() {
            if rank > self.collection.watermark {
                break;
            }
            self.collection.heap.pop();
            let vertex = self.graph.remove(at);
            assert_eq!(vertex.state, State::Done, "{} executed before it is collected", vertex.id);
            self.collection.seen.insert(vertex.id);
        }
        let graph = &self.graph;
        for partition in &mut self.partitions {
            partition.index.forget(&|at| graph.get(at).is_some());
        }
        self.forget_results();
        out.push(EngineEffect::Collected { below: rank });
    }
}
