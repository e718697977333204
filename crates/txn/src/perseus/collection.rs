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

use super::message::{Floor, Message};
use super::options::Mutant;
use super::state::{Out, Perseus, Work};
use crate::engine::EngineEffect;
use crate::graph::seen::Seen;
use crate::graph::vertex::{Ref, State};
use base::topology::Topology;
use base::{NodeId, PartitionId, Rank, Time, TxnId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::ops::Bound;

/// The partition whose node collects.
const COLLECTED_AT: PartitionId = PartitionId(0);
/// Floors in one message at most: a node needs every coordinator's now and then, to save memory.
const FLOORS_MAX: usize = 64;

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
    /// Least cut that a reader of this node uses, if there is one.
    floor: Option<Rank>,
    /// Whom this node reports to.
    gatherer: NodeId,
    /// Reports of this region's nodes, where they are gathered.
    members: Gathering,
    /// Reports of gatherers, at the collector.
    regions: Gathering,
}

/// Reports of some nodes, on their way up.
#[derive(Clone, Debug, Default)]
struct Gathering {
    /// Who reports here; nobody at a node that does not gather.
    sources: Vec<NodeId>,
    /// The latest of each.
    reports: BTreeMap<NodeId, Rank>,
    heard_at: BTreeMap<NodeId, Time>,
    /// This node's own first report.
    began: Option<Time>,
    /// Who has reported since the last time that this was passed on.
    fresh: BTreeSet<NodeId>,
    /// Passed on since this node's own last report, or to be passed on with what is here.
    told: bool,
    overdue: bool,
    /// How many were given up when that was looked at last.
    given_up: usize,
    floors: BTreeMap<(NodeId, u32), u64>,
    /// The floor that was passed on last.
    floor_told: Option<(NodeId, u32)>,
}

impl Gathering {
    fn of(sources: Vec<NodeId>) -> Gathering {
        Gathering { sources, ..Gathering::default() }
    }
    /// This node reports again.
    fn tick(&mut self, now: Time) {
        self.began.get_or_insert(now);
        self.overdue = !std::mem::take(&mut self.told);
    }
    fn heard(&mut self, now: Time, from: NodeId, done: Rank, floors: Vec<Floor>) {
        let report = self.reports.entry(from).or_default();
        *report = done.max(*report);
        self.heard_at.insert(from, now);
        self.fresh.insert(from);
        for floor in floors {
            let known = self.floors.entry((floor.coordinator, floor.incarnation)).or_default();
            *known = floor.sequence.max(*known);
        }
    }
    /// What to pass on now: the least report of all that are not given up.
    fn pass_on(&mut self, is_given_up: impl Fn(NodeId, Time) -> bool) -> Option<Rank> {
        // Silence from the start counts from this node's own first report.
        let began = self.began?;
        // Looking at everyone whenever someone reports would cost the square of their number.
        if self.fresh.len() + self.given_up < self.sources.len() && !self.overdue {
            return None;
        }
        let (mut least, mut all_fresh, mut given_up) = (Rank::MAX, true, 0);
        for node in &self.sources {
            if is_given_up(*node, self.heard_at.get(node).copied().unwrap_or(began)) {
                given_up += 1;
                continue;
            }
            least = least.min(*self.reports.get(node)?);
            all_fresh &= self.fresh.contains(node);
        }
        self.given_up = given_up;
        if !all_fresh && !self.overdue {
            return None;
        }
        self.fresh.clear();
        self.told = true;
        self.overdue = false;
        Some(least)
    }
    /// The next floors in turn.
    fn some_floors(&mut self) -> Vec<Floor> {
        let after = self.floor_told.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.floors.range((after, Bound::Unbounded)).chain(&self.floors);
        let count = self.floors.len().min(FLOORS_MAX);
        let floors = rest.take(count).map(|(&(coordinator, incarnation), &sequence)| Floor {
            coordinator,
            incarnation,
            sequence,
        });
        let floors: Vec<Floor> = floors.collect();
        self.floor_told = floors.last().map(|floor| (floor.coordinator, floor.incarnation));
        floors
    }
}

/// Whom a node reports to: who runs the first partition of its region; the collector if there is none.
fn gatherer_of(topology: &Topology, node: NodeId) -> NodeId {
    let region = topology.region_of(node);
    let mut runs_here = topology.partition_ids().map(|p| topology.node_of(p));
    runs_here.find(|n| topology.region_of(*n) == region).unwrap_or(topology.node_of(COLLECTED_AT))
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
    pub fn new(topology: &Topology, me: NodeId) -> Collection {
        let gatherer = gatherer_of(topology, me);
        let collector = topology.node_of(COLLECTED_AT);
        let (mut members, mut regions) = (Vec::new(), Vec::new());
        if gatherer == me {
            members.extend(topology.node_ids().filter(|node| gatherer_of(topology, *node) == me));
        }
        if collector == me {
            regions.extend(topology.node_ids().filter(|node| gatherer_of(topology, *node) == *node));
        }
        Collection {
            watermark: Rank::ZERO,
            reported: Rank::ZERO,
            seen: Seen::default(),
            learned: Vec::new(),
            heap: BinaryHeap::new(),
            own: Vec::new(),
            floor: None,
            gatherer,
            members: Gathering::of(members),
            regions: Gathering::of(regions),
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
    pub fn set_floor(&mut self, floor: Option<Rank>) {
        self.floor = floor;
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
    /// How far this node is, for its region's gatherer.
    pub(super) fn report_progress(&mut self, now: Time, out: &mut Out) {
        let done = self.done_rank(now);
        self.partitions.close_all(done);
        self.collection.reported = self.collection.reported.max(done);
        let floors = self.collection.own_floors(self.cluster.me);
        if self.cluster.options.planted(Mutant::CollectAlone) {
            self.raise_watermark(done, out);
        }
        self.collection.members.tick(now);
        self.collection.regions.tick(now);
        self.send(self.collection.gatherer, Message::Progress { done, floors }, out);
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
        let mut done = (now - self.cluster.clock_bound_ns()).rank().previous();
        if let Some(bound) = self.schedule.first() {
            done = done.min(bound.previous());
        }
        for coordination in self.gateway.coordinated() {
            done = done.min(coordination.bound.previous());
        }
        if let Some(floor) = self.collection.floor
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
        self.collection.members.heard(now, from, done, floors);
        let (topology, lease_ns) = (self.cluster.topology.clone(), self.cluster.options.lease_ns);
        let least = self.collection.members.pass_on(|node, heard_at| {
            // It only reads. When it returns it finds that it was given up, and begins again.
            let is_lost = now.since(heard_at) > lease_ns && topology.partitions_at(node).next().is_none();
            if is_lost {
                base::sometimes!("collection goes on without a silent reader");
            }
            is_lost
        });
        if let Some(done) = least {
            let floors = self.collection.members.some_floors();
            let delays_ns = self.delays.at(self.cluster.me);
            let collector = topology.node_of(COLLECTED_AT);
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
            self.delays.set(from, delays_ns);
        }
        self.collection.regions.heard(now, from, done, floors);
        // Gatherers run partitions: none is given up.
        let Some(rank) = self.collection.regions.pass_on(|_, _| false) else { return };
        let floors = self.collection.regions.some_floors();
        self.spread(self.collection.regions.sources.clone(), rank, &floors, &self.delays.all(), out);
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
            let members = self.collection.members.sources.iter().copied();
            self.spread(members.filter(|n| *n != self.cluster.me).collect(), rank, floors, &delays_ns, out);
        }
        self.delays.share(self.cluster.me, delays_ns);
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
            let collected = &mut graph.live_mut(at).extra.collected;
            collected.inherited = collected.inherited.max(inherited);
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
        self.partitions.forget(&self.graph);
        self.forget_results();
        out.push(EngineEffect::Collected { below: rank });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathering(count: u16) -> Gathering {
        let mut gathering = Gathering::of((0..count).map(NodeId).collect());
        gathering.tick(Time(1));
        gathering
    }
    fn reports(gathering: &mut Gathering, node: u16, done: u64) -> Option<u64> {
        gathering.heard(Time(2), NodeId(node), Rank(done), Vec::new());
        gathering.pass_on(|_, _| false).map(|rank| rank.0)
    }

    #[test]
    fn the_least_promise_goes_on_once_everyone_has_made_one_and_again_once_everyone_made_a_new_one() {
        let mut gathering = gathering(3);
        assert_eq!(reports(&mut gathering, 0, 50), None, "two have said nothing");
        assert_eq!(reports(&mut gathering, 2, 30), None);
        assert_eq!(reports(&mut gathering, 1, 40), Some(30));
        assert_eq!(reports(&mut gathering, 2, 90), None);
        assert_eq!(reports(&mut gathering, 1, 20), None, "late, and a promise is for good");
        assert_eq!(reports(&mut gathering, 0, 60), Some(40));
    }

    #[test]
    fn a_lost_report_makes_the_next_one_late_and_not_higher() {
        let mut gathering = gathering(2);
        reports(&mut gathering, 0, 10);
        assert_eq!(reports(&mut gathering, 1, 10), Some(10));
        // Two rounds of its own in which the other is not heard.
        gathering.tick(Time(3));
        assert_eq!(reports(&mut gathering, 0, 20), None);
        gathering.tick(Time(4));
        assert_eq!(reports(&mut gathering, 0, 30), Some(10));
    }

    #[test]
    fn who_is_given_up_holds_up_nobody() {
        let mut gathering = gathering(2);
        gathering.heard(Time(2), NodeId(0), Rank(10), Vec::new());
        assert_eq!(gathering.pass_on(|node, _| node == NodeId(1)), Some(Rank(10)));
        assert_eq!(gathering.given_up, 1);
        gathering.heard(Time(3), NodeId(0), Rank(20), Vec::new());
        assert_eq!(gathering.pass_on(|node, _| node == NodeId(1)), Some(Rank(20)), "at once");
    }

    #[test]
    fn every_floor_has_its_turn() {
        let mut gathering = gathering(1);
        let floors = (0..3 * FLOORS_MAX as u16 / 2).map(|n| Floor {
            coordinator: NodeId(n),
            incarnation: 1,
            sequence: 7,
        });
        let floors: Vec<Floor> = floors.collect();
        gathering.heard(Time(2), NodeId(0), Rank(10), floors.clone());
        let mut told: BTreeSet<NodeId> = BTreeSet::new();
        for _ in 0..2 {
            let some = gathering.some_floors();
            assert_eq!(some.len(), FLOORS_MAX);
            told.extend(some.iter().map(|floor| floor.coordinator));
        }
        assert_eq!(told.len(), floors.len());
    }

    #[test]
    fn each_region_has_one_gatherer_and_the_collector_is_one() {
        use base::topology::{NodeSpec, PartitionSpec};
        let mut topology = Topology::one_node_per_region(base::wan::Wan::preset("perseus3").unwrap(), 1);
        let region = |n| base::RegionId(n);
        for n in [0, 1, 1] {
            topology.nodes.push(NodeSpec { region: region(n), subscribes: Vec::new() });
        }
        topology.partitions.push(PartitionSpec { region: region(1), node: NodeId(4), copies: Vec::new() });
        // Region 2 loses its partition: its node reports to the collector.
        topology.partitions[2].node = NodeId(0);
        let gatherers: Vec<u16> = topology.node_ids().map(|node| gatherer_of(&topology, node).0).collect();
        assert_eq!(gatherers, [0, 1, 0, 0, 1, 1]);
        assert_eq!(Collection::new(&topology, NodeId(0)).regions.sources, [NodeId(0), NodeId(1)]);
        assert!(Collection::new(&topology, NodeId(4)).members.sources.is_empty());
    }
}
