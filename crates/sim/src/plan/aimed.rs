//! Schedules aimed at what a protocol relies on only now and then. Faults that are drawn independently of each other meet
//! in these ways in one of many thousands of seeds.
//!
//! | mix | what is aimed at |
//! |---|---|
//! | `take-overs` | what only few regions hold, or have promised, when a sequence changes its leader |
//! | `silent-readers` | what a reader knows of partitions whose nodes have stopped waiting for it |
//!
//! KEEPS: no more regions are without their memory at a time than are to be survived, and none of the next before
//! those of the one before have had the time to come back; each schedule ends with every link open.

use super::Script;
use crate::world::Fault;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::{NodeId, RegionId};

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

    /// Nodes that only read are out of reach of some others, for longer than anybody waits for them.
    pub(super) fn silent_readers(&mut self, topology: &Topology, rng: &mut Rng) {
        let reads = |node: &NodeId| {
            topology.partitions_at(*node).next().is_none()
                && !topology.nodes[usize::from(node.0)].subscribes.is_empty()
        };
        let readers: Vec<NodeId> = topology.node_ids().filter(reads).collect();
        if readers.is_empty() {
            return;
        }
        let mut at_ns = rng.below(100 * MS);
        for _ in 0..rng.between(2, 4) {
            let reader = *rng.pick(&readers);
            let unreached: Vec<NodeId> =
                topology.node_ids().filter(|node| *node != reader && rng.chance(0.5)).collect();
            let is_deaf_only = rng.chance(0.3);
            let cut = |script: &mut Script, at_ns: u64, nodes: &[NodeId]| {
                for &node in nodes {
                    script.steps.push((at_ns, Fault::CutOneWay { from: node, to: reader }));
                    if !is_deaf_only {
                        script.steps.push((at_ns, Fault::CutOneWay { from: reader, to: node }));
                    }
                }
            };
            if rng.chance(0.5) {
                cut(self, at_ns, &unreached);
            } else {
                // Some have answered a query before they are out of reach, and are heard again last: what depends on
                // what they have done meanwhile is heard of before.
                let (last, first): (Vec<NodeId>, Vec<NodeId>) =
                    unreached.into_iter().partition(|_| rng.chance(0.5));
                cut(self, at_ns, &first);
                at_ns += rng.below(2 * topology.wan.widest_ns());
                cut(self, at_ns, &last);
                at_ns += 300 * MS + rng.below(900 * MS);
                self.steps.push((at_ns, Fault::Reconnect));
                cut(self, at_ns, &last);
            }
            at_ns += 300 * MS + rng.below(1200 * MS);
            self.steps.push((at_ns, Fault::Reconnect));
            at_ns += rng.below(500 * MS);
        }
        self.healed_after_ns = self.healed_after_ns.max(at_ns);
        self.steps.sort_by_key(|(at, _)| *at);
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
