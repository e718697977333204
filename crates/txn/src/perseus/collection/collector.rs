//! What a node knows of how far others are, and what of its own may go.
//!
//! IN: reports, vertices that are done. OUT: what to pass on, vertices to drop. KEEPS: the
//! watermark only grows, and never passes what this node has reported, unless it may be given up; a collected
//! transaction's id is remembered until its coordinator's floor passes it.

use super::super::message::Floor;
use crate::graph::seen::Seen;
use crate::graph::vertex::Ref;
use base::topology::Topology;
use base::{NodeId, PartitionId, Rank, Time, TxnId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

/// The partition whose node collects.
pub(super) const COLLECTED_AT: PartitionId = PartitionId(0);
/// Floors in one message at most: a node needs every coordinator's now and then, to save memory.
const FLOORS_MAX: usize = 64;

/// How far this node and others are, and what of this node may go with that.
#[derive(Clone, Debug)]
pub(in crate::perseus) struct Collection {
    /// Everything at or below is executed everywhere and read by nobody.
    watermark: Rank,
    /// Versions of rows below are collected here.
    released: Rank,
    /// How far this node has said that it is.
    reported: Rank,
    /// Ids of collected transactions.
    seen: Seen,
    /// Vertices learned from others, to make sure that each gets its place and goes.
    learned: Vec<Ref>,
    /// Done vertices, smallest rank first.
    heap: BinaryHeap<Reverse<(Rank, Ref)>>,
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
            released: Rank::ZERO,
            reported: Rank::ZERO,
            seen: Seen::default(),
            learned: Vec::new(),
            heap: BinaryHeap::new(),
            floor: None,
            gatherer,
            members: Gathering::of(members),
            regions: Gathering::of(regions),
        }
    }
    /// Entries kept, by what they are.
    pub fn held(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([
            ("words of collected ids", self.seen.words() as u64),
            ("vertices learned", self.learned.len() as u64),
            ("vertices to collect", self.heap.len() as u64),
        ])
    }
    pub fn set_floor(&mut self, floor: Option<Rank>) {
        self.floor = floor;
    }
    /// A vertex has executed here and may go once the watermark passes it.
    pub fn done(&mut self, rank: Rank, at: Ref) {
        self.heap.push(Reverse((rank, at)));
    }

    /// Everything at or below is executed everywhere and read by nobody.
    pub fn watermark(&self) -> Rank {
        self.watermark
    }
    /// The watermark is higher now. Who runs no partition (`may_be_given_up`) finds that the others went on without it.
    pub fn raise(&mut self, watermark: Rank, may_be_given_up: bool) {
        let is_released = watermark <= self.reported || may_be_given_up;
        assert!(is_released, "nothing is collected that this node has not released: {watermark}");
        self.watermark = watermark;
    }
    /// Versions of rows below this are collected here.
    pub fn released(&self) -> Rank {
        self.released
    }
    /// Whether versions up to this may go, which are kept; then they do.
    pub fn release(&mut self, below: Rank) -> bool {
        let is_more = self.released < below;
        self.released = below.max(self.released);
        is_more
    }
    /// The next vertex that has executed here and lies at or below the watermark; it goes.
    pub fn pop_collected(&mut self) -> Option<Ref> {
        let &Reverse((rank, at)) = self.heap.peek()?;
        if rank > self.watermark {
            return None;
        }
        self.heap.pop();
        Some(at)
    }
    /// Whether a transaction is collected, as far as its id is remembered.
    pub fn has_collected(&self, txn: TxnId) -> bool {
        self.seen.contains(txn)
    }
    pub fn collected(&mut self, txn: TxnId) {
        self.seen.insert(txn);
    }
    pub fn seen(&self) -> &Seen {
        &self.seen
    }
    /// What a checkpoint says.
    pub fn restore(&mut self, watermark: Rank, seen: Seen) {
        (self.watermark, self.seen) = (watermark, seen);
    }
    #[cfg(test)]
    pub fn seen_words(&self) -> usize {
        self.seen.words()
    }
    /// Ids that a gateway says are collected everywhere need not be remembered one by one.
    pub fn raise_floor(&mut self, floor: &Floor) {
        self.seen.raise_floor(floor.coordinator, floor.incarnation, floor.sequence);
    }
    /// A vertex is learned from another node.
    pub fn learn(&mut self, at: Ref) {
        self.learned.push(at);
    }
    /// Vertices learned from others that have no place yet.
    pub fn learned(&self) -> impl Iterator<Item = Ref> + '_ {
        self.learned.iter().copied()
    }
    pub fn keep_learned(&mut self, is_wanted: impl Fn(Ref) -> bool) {
        self.learned.retain(|at| is_wanted(*at));
    }

    /// Least cut that a reader of this node uses, if there is one.
    pub fn floor(&self) -> Option<Rank> {
        self.floor
    }
    /// Whom this node reports to.
    pub fn gatherer(&self) -> NodeId {
        self.gatherer
    }
    /// Who reports to this node as its region's gatherer.
    pub fn members(&self) -> &[NodeId] {
        &self.members.sources
    }
    /// The gatherers, at the collector.
    pub fn gatherers(&self) -> &[NodeId] {
        &self.regions.sources
    }
    /// This node reports that it is so far.
    pub fn report(&mut self, now: Time, done: Rank) {
        self.reported = self.reported.max(done);
        self.members.tick(now);
        self.regions.tick(now);
    }
    /// A former life of this node may have reported so much.
    pub fn promised(&mut self, done: Rank) {
        self.reported = self.reported.max(done);
    }
    /// A node of this region reports; what to pass on to the collector, if it is time.
    pub fn member_reports(
        &mut self,
        now: Time,
        (from, done, floors): (NodeId, Rank, Vec<Floor>),
        is_given_up: impl Fn(NodeId, Time) -> bool,
    ) -> Option<(Rank, Vec<Floor>)> {
        self.members.heard(now, from, done, floors);
        let least = self.members.pass_on(is_given_up)?;
        Some((least, self.members.some_floors()))
    }
    /// A gatherer reports; what to tell everybody, if it is time. Gatherers run partitions: none is given up.
    pub fn gatherer_reports(
        &mut self,
        now: Time,
        (from, done, floors): (NodeId, Rank, Vec<Floor>),
    ) -> Option<(Rank, Vec<Floor>)> {
        self.regions.heard(now, from, done, floors);
        let least = self.regions.pass_on(|_, _| false)?;
        Some((least, self.regions.some_floors()))
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
