//! Schedules aimed at what a protocol relies on only now and then. Faults that are drawn independently of each other meet
//! in these ways in one of many thousands of seeds.
//!
//! | mix | what is aimed at |
//! |---|---|
//! | `take-overs` | what only few regions hold, or have promised, when a sequence changes its leader |
//! | `half-told` | what a transaction that is ended without effect came after, where only one participant knows |
//! | `silent-readers` | what a reader knows of partitions whose nodes have stopped waiting for it |
//!
//! KEEPS: no more regions are without their memory at a time than are to be survived, and none of the next before
//! those of the one before have had the time to come back; each schedule ends with every link open.

use super::Script;
use crate::world::Fault;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::{NodeId, PartitionId, RegionId};

impl Script {
    /// A sequence's leader is out of reach of most, and regions that know more than others lose their memory. `copies`
    /// is K.
    pub(super) fn take_overs(&mut self, topology: &Topology, copies: usize, rng: &mut Rng) {
        let widest_ns = topology.wan.widest_ns();
        let mut at_ns = rng.below(self.healed_after_ns / 2);
        // A region has to be left on the candidate's side that forgets what it promised.
        let may_forget = copies > 1 && topology.wan.region_count() > copies + 1;
        for _ in 0..rng.between(1, 2) {
            let end_ns = match may_forget && rng.chance(0.5) {
                true => self.forgotten_promise(topology, copies, at_ns, rng),
                false => self.last_copies(topology, copies, at_ns, rng),
            };
            self.steps.push((end_ns, Fault::Reconnect));
            self.healed_after_ns = self.healed_after_ns.max(end_ns);
            at_ns = end_ns + 25 * widest_ns + 500 * MS + rng.below(10 * widest_ns);
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// A leader reaches a few regions, at most K. Some of them lose their memory, and it may be cut off from all as they
    /// come back: then what was answered is where nobody can ask.
    fn last_copies(&mut self, topology: &Topology, copies: usize, at_ns: u64, rng: &mut Rng) -> u64 {
        let wan = &topology.wan;
        let widest_ns = wan.widest_ns();
        // Briefly: the leader is heard again before the others have elected another one.
        let is_brief = rng.chance(0.5);
        let mut others: Vec<RegionId> = (0..wan.region_count() as u16).map(RegionId).collect();
        rng.shuffle(&mut others);
        let leader = [others.pop().expect("there are regions")];
        if is_brief {
            // First one that has a donor near itself, so that it is back before the leader is.
            let is_near =
                |a: RegionId, b: RegionId| wan.round_trip_ns(a, b) < wan.round_trip_ns(a, leader[0]);
            let all = others.clone();
            others.sort_by_key(|region| !all.iter().any(|other| other != region && is_near(*region, *other)));
        }
        let reached = if is_brief { 1 } else { rng.between(1, copies as i64) as usize };
        let (reached, unreached) = others.split_at(reached);
        self.cut(at_ns, topology, &leader, unreached);
        if rng.chance(0.5) {
            self.cut(at_ns, topology, unreached, &leader);
        }
        let lost_at_ns = match is_brief {
            true => at_ns + widest_ns / 4 + rng.below(widest_ns / 2),
            false => at_ns + widest_ns / 2 + rng.below(5 * widest_ns),
        };
        let away_ns_max = if is_brief { widest_ns / 4 } else { 2 * widest_ns };
        let lost = rng.between(1, reached.len() as i64) as usize;
        for &region in &reached[..lost] {
            let crash_ns = lost_at_ns + rng.below(widest_ns / 8);
            self.forgets_between(topology, region, crash_ns, crash_ns + MS + rng.below(away_ns_max));
        }
        let end_ns = lost_at_ns
            + match is_brief {
                true => 3 * widest_ns / 2 + rng.below(2 * widest_ns),
                false => *rng.pick(&[3, 9, 16]) * widest_ns + rng.below(4 * widest_ns),
            };
        let after_ns_max = if is_brief { 1 } else { *rng.pick(&[1, widest_ns, 5 * widest_ns]) };
        let separated_ns = end_ns.min(lost_at_ns + rng.below(after_ns_max));
        if is_brief || rng.chance(0.75) {
            self.steps.push((separated_ns, Fault::Separate(nodes(topology, &leader))));
        }
        end_ns
    }

    /// A leader and K - 1 regions are cut off from the others, one of which is elected and is not heard again. A region
    /// that had promised to follow it loses its memory and comes back on the former leader's side; of those that it can
    /// ask only some know what it had promised.
    fn forgotten_promise(&mut self, topology: &Topology, copies: usize, at_ns: u64, rng: &mut Rng) -> u64 {
        let widest_ns = topology.wan.widest_ns();
        let count = topology.wan.region_count() as u16;
        let leader = RegionId(rng.below(u64::from(count)) as u16);
        // Regions stand for election in the order of their numbers.
        let candidate = RegionId((leader.0 + 1) % count);
        let mut others: Vec<RegionId> =
            (0..count).map(RegionId).filter(|region| ![leader, candidate].contains(region)).collect();
        rng.shuffle(&mut others);
        let (near, far) = others.split_at(copies - 1);
        let (near, far) = ([&[leader], near].concat(), [&[candidate], far].concat());
        self.cut(at_ns, topology, &near, &far);
        self.cut(at_ns, topology, &far, &near);
        // The candidate waits until the leader has been silent for long enough, asks whether others miss it too, and
        // asks for promises. What it says as a leader is lost.
        let asked_ns = at_ns + *rng.pick(&[3, 5]) * widest_ns + 30 * MS;
        let silent_ns = asked_ns + rng.below(5 * widest_ns / 2);
        self.cut(silent_ns, topology, &[candidate], &others);
        self.cut(silent_ns, topology, &[candidate], &near);
        let forgets = far[1];
        let crash_ns = silent_ns + rng.below(widest_ns / 2);
        let back_ns = crash_ns + MS + rng.below(widest_ns / 2);
        self.forgets_between(topology, forgets, crash_ns, back_ns);
        // It is on the other side now; the links between the others stay as they were.
        let rest: Vec<RegionId> = far.iter().copied().filter(|region| *region != forgets).collect();
        self.steps.push((back_ns, Fault::Reconnect));
        self.cut(back_ns, topology, &near, &rest);
        self.cut(back_ns, topology, &rest, &near);
        self.cut(back_ns, topology, &[candidate], &others);
        back_ns + 5 * widest_ns + rng.below(12 * widest_ns)
    }

    /// The node of the first partition, which clients keep to, does not hear how earlier transactions end: neither from
    /// the gateways nor from some of the other participants. What some gateways begin reaches it and not the participants
    /// that it does hear; then these gateways are lost. So they end without effect what came after what is undecided
    /// here, and what comes next knows of the latter by the former alone.
    pub(super) fn half_told(&mut self, topology: &Topology, rng: &mut Rng) {
        let widest_ns = topology.wan.widest_ns();
        let runs = |node: &NodeId| topology.partitions_at(*node).next().is_some();
        let serves = |node: &NodeId| runs(node) || !topology.nodes[usize::from(node.0)].subscribes.is_empty();
        let knows = topology.node_of(PartitionId(0));
        let mut others: Vec<NodeId> = topology.node_ids().filter(|n| runs(n) && *n != knows).collect();
        let mut gateways: Vec<NodeId> = topology.node_ids().filter(|node| !serves(node)).collect();
        rng.shuffle(&mut others);
        rng.shuffle(&mut gateways);
        // The last one lives.
        gateways.pop();
        let mut at_ns = rng.below(self.healed_after_ns / 2);
        while let Some(lost) = gateways.pop() {
            let (silent, heard) = others.split_at(rng.between(1, (others.len() as i64 - 1).max(1)) as usize);
            let mute = topology.node_ids().filter(|n| *n != lost && *n != knows && !heard.contains(n));
            let mute: Vec<NodeId> = mute.collect();
            for &from in &mute {
                self.steps.push((at_ns, Fault::CutOneWay { from, to: knows }));
            }
            let begun_ns = at_ns + rng.below(2 * widest_ns);
            for &to in heard {
                self.steps.push((begun_ns, Fault::CutOneWay { from: lost, to }));
            }
            // What it was told by others before, and commits, would decide it.
            for &to in silent.iter().filter(|_| rng.chance(0.3)) {
                self.steps.push((begun_ns, Fault::CutOneWay { from: lost, to }));
            }
            self.steps.push((begun_ns + 1 + rng.below(widest_ns / 2), Fault::Crash(lost)));
            self.kills.insert(lost);
            let end_ns = begun_ns + *rng.pick(&[6, 12, 25]) * widest_ns + 300 * MS;
            self.steps.push((end_ns, Fault::Reconnect));
            at_ns = end_ns + rng.below(5 * widest_ns);
        }
        self.healed_after_ns = self.healed_after_ns.max(at_ns);
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// Nodes that only read are out of reach of some others, for longer than anybody waits for them.
    pub(super) fn silent_readers(&mut self, topology: &Topology, rng: &mut Rng) {
        let is_reader = |node: &NodeId| {
            topology.partitions_at(*node).next().is_none()
                && !topology.nodes[usize::from(node.0)].subscribes.is_empty()
        };
        let readers: Vec<NodeId> = topology.node_ids().filter(is_reader).collect();
        if readers.is_empty() {
            return;
        }
        let mut at_ns = rng.below(100 * MS);
        for _ in 0..rng.between(2, 4) {
            let reader = *rng.pick(&readers);
            at_ns = match rng.chance(0.5) {
                true => self.one_silence(topology, reader, at_ns, rng),
                false => self.heard_again_in_turn(topology, reader, at_ns, rng),
            };
            self.steps.push((at_ns, Fault::Reconnect));
            at_ns += rng.below(500 * MS);
        }
        self.healed_after_ns = self.healed_after_ns.max(at_ns);
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// Some nodes are out of a reader's reach, or do not reach it.
    fn one_silence(&mut self, topology: &Topology, reader: NodeId, at_ns: u64, rng: &mut Rng) -> u64 {
        let others = topology.node_ids().filter(|node| *node != reader);
        let unreached: Vec<NodeId> = others.filter(|_| rng.chance(0.5)).collect();
        self.silence(at_ns, reader, &unreached, rng.chance(0.3));
        at_ns + 300 * MS + rng.below(1200 * MS)
    }

    /// The node that tells a reader what has been collected, and others, are out of its reach. Some that run partitions
    /// answer its queries until they are, too; they are heard again last. So a query may go on with what it heard of
    /// their partitions before, while what was executed there since has been collected.
    fn heard_again_in_turn(&mut self, topology: &Topology, reader: NodeId, at_ns: u64, rng: &mut Rng) -> u64 {
        let widest_ns = topology.wan.widest_ns();
        let near = topology.partitions_in(topology.region_of(reader)).next();
        let gatherer = topology.node_of(near.expect("every region has partitions"));
        let others = topology.node_ids().filter(|node| *node != reader && *node != gatherer);
        let (mut last, mut first): (Vec<NodeId>, Vec<NodeId>) =
            others.partition(|node| topology.partitions_at(*node).next().is_some() && rng.chance(0.5));
        first.push(gatherer);
        if last.is_empty() {
            last.extend(first.iter().find(|node| **node != gatherer));
            first.retain(|node| !last.contains(node));
        }
        self.silence(at_ns, reader, &first, false);
        // So long that they can have answered.
        let all_silent_ns = at_ns + widest_ns + rng.below(widest_ns);
        self.silence(all_silent_ns, reader, &last, false);
        let some_heard_ns = all_silent_ns + 300 * MS + rng.below(900 * MS);
        self.steps.push((some_heard_ns, Fault::Reconnect));
        self.silence(some_heard_ns, reader, &last, false);
        some_heard_ns + 300 * MS + rng.below(1200 * MS)
    }

    fn silence(&mut self, at_ns: u64, reader: NodeId, nodes: &[NodeId], is_deaf_only: bool) {
        for &node in nodes {
            self.steps.push((at_ns, Fault::CutOneWay { from: node, to: reader }));
            if !is_deaf_only {
                self.steps.push((at_ns, Fault::CutOneWay { from: reader, to: node }));
            }
        }
    }

    fn cut(&mut self, at_ns: u64, topology: &Topology, from: &[RegionId], to: &[RegionId]) {
        for from in nodes(topology, from) {
            for to in nodes(topology, to) {
                self.steps.push((at_ns, Fault::CutOneWay { from, to }));
            }
        }
    }
    fn forgets_between(&mut self, topology: &Topology, region: RegionId, crash_ns: u64, back_ns: u64) {
        for node in nodes(topology, &[region]) {
            self.steps.push((crash_ns, Fault::Crash(node)));
            self.steps.push((back_ns, Fault::Restart(node)));
        }
    }
}

/// The nodes of these regions.
fn nodes(topology: &Topology, regions: &[RegionId]) -> std::collections::BTreeSet<NodeId> {
    topology.node_ids().filter(|node| regions.contains(&topology.region_of(*node))).collect()
}
