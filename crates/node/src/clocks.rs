//! Is this node's clock right? What others' clocks show can tell that it is not.
//!
//! IN: when a question left, what the other clock showed when it answered, when the answer came. OUT: a verdict.
//! KEEPS: a node whose clock is kept is never taken out, as long as it hears of others and most of those it compares
//! itself with keep theirs; one whose clock is provably wrong against as many as it agrees with fences itself, and so
//! does one that has asked for long and got no answer: a clock strays, so what was measured once bounds it for a while
//! only. Questions are counted, not time: a node that stood still asks first.
//!
//! A question that leaves at `a` by the own clock, is answered at `b` by the other's, and comes back at `c` bounds how
//! far the other is ahead, whatever the way there and back took: it was at most `b − a` when the question left (the
//! message cannot have taken less than nothing, or than is known: [`ClockOptions::least_delays`]), and at least `b − c` when the answer came. Two clocks that are kept
//! within κ of true time differ by 2 κ at most: who is surely farther ahead or behind disagrees. So a clock that is
//! off by more than 3 κ + the one-way delay is found by whoever is that near. Everything that rests on ε stays true if
//! ε is at least that, plus what a clock strays between two questions: κ, what the machines' clock discipline really
//! keeps, has to be that much better than ε. By default κ = ε: nobody is ever taken out in error, and gross faults are
//! found.

use base::time::SECOND;
use base::topology::Topology;
use base::{NodeId, RegionId, Time};
use std::collections::BTreeMap;

/// Others near, and one in another region, if there are as many.
const NEAR: usize = 3;

/// How clocks are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOptions {
    /// How often others are asked, in ns.
    pub every_ns: u64,
    /// κ: machines keep their clocks within this of true time, in ns. `None`: within ε.
    pub kept_ns: Option<u64>,
    /// A node that has asked for so long and heard nobody fences itself, in ns. What a clock strays in that time has
    /// to fit into ε, too.
    pub checked_within_ns: u64,
    /// No message is faster than the topology says: so it is where delays are emulated. Otherwise it may take
    /// no time at all.
    pub least_delays: bool,
}

impl Default for ClockOptions {
    fn default() -> Self {
        ClockOptions { every_ns: SECOND, kept_ns: None, checked_within_ns: 20 * SECOND, least_delays: false }
    }
}

/// What one node knows of others' clocks.
#[derive(Clone, Debug)]
pub struct ClockMonitor {
    every_ns: u64,
    kept_ns: u64,
    /// Questions to all of them without an answer since that are too many, and how many there have been.
    unanswered_max: u64,
    unanswered: u64,
    peers: BTreeMap<NodeId, Peer>,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    /// No message there or back takes less, in ns.
    least_ns: u64,
    offset: Option<Offset>,
}

/// What a node knows of another's clock, for whoever looks after the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerClock {
    pub node: NodeId,
    /// How far it is ahead of the own clock, in ns (negative: behind): at least and at most.
    pub ahead_ns: (i64, i64),
    /// When that was found, by the own clock.
    pub at: Time,
}

/// How far another clock is ahead, in ns: at least when the answer came, at most when the question left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    least_ns: i64,
    most_ns: i64,
    at: Time,
}

/// What the comparison comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Right,
    /// Nobody has answered for so long, in ns.
    Unchecked {
        for_ns: u64,
    },
    /// Against these, each with a bound of how far it is ahead of this clock, in ns (negative: behind).
    Wrong {
        by: Vec<(NodeId, i64)>,
    },
}

impl ClockMonitor {
    /// `None` where nobody's clock matters, or there is nobody to compare with.
    pub fn new(topology: &Topology, me: NodeId, options: ClockOptions) -> Option<ClockMonitor> {
        // Replicas come and go, and promise nothing by their clocks.
        let others = topology.node_ids().filter(|node| *node != me && !topology.is_replica(*node));
        let mut others: Vec<NodeId> = others.collect();
        others.sort_by_key(|node| (topology.one_way_ns(me, *node), *node));
        let region = |node: &NodeId| -> RegionId { topology.region_of(*node) };
        let far = others.iter().skip(NEAR).find(|node| region(node) != topology.region_of(me)).copied();
        let asked: Vec<NodeId> = others.iter().take(NEAR).copied().chain(far).collect();
        if topology.clock_bound_ns == 0 || topology.unbounded_clocks || asked.is_empty() {
            return None;
        }
        let least_ns = |node| if options.least_delays { topology.one_way_ns(me, node) } else { 0 };
        Some(ClockMonitor {
            every_ns: options.every_ns,
            kept_ns: options.kept_ns.unwrap_or(topology.clock_bound_ns),
            unanswered_max: options.checked_within_ns.div_ceil(options.every_ns).max(1),
            unanswered: 0,
            peers: asked
                .into_iter()
                .map(|node| (node, Peer { least_ns: least_ns(node), offset: None }))
                .collect(),
        })
    }
    pub fn every_ns(&self) -> u64 {
        self.every_ns
    }
    /// Whom to ask.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.peers.keys().copied()
    }

    /// All of them are asked now.
    pub fn asks(&mut self) {
        self.unanswered += 1;
    }

    /// A question of `asked_at` was answered when the other clock showed `there`, and the answer is here.
    pub fn answered(&mut self, now: Time, from: NodeId, asked_at: Time, there: Time) {
        let Some(Peer { least_ns, offset }) = self.peers.get_mut(&from) else { return };
        if asked_at > now || offset.is_some_and(|known| known.at > asked_at) {
            return; // From a former life, or overtaken by a later one.
        }
        self.unanswered = 0;
        let ahead = |own: Time| there.0 as i64 - own.0 as i64;
        let way_ns = *least_ns as i64;
        *offset = Some(Offset { least_ns: ahead(now) + way_ns, most_ns: ahead(asked_at) - way_ns, at: now });
    }

    /// What was found lately.
    pub fn seen(&self) -> Vec<PeerClock> {
        let seen = self.peers.iter().filter_map(|(node, peer)| {
            let Offset { least_ns, most_ns, at } = peer.offset?;
            Some(PeerClock { node: *node, ahead_ns: (least_ns, most_ns), at })
        });
        seen.collect()
    }

    /// What is known of late, this node's own word included on its side.
    pub fn verdict(&self, now: Time) -> Verdict {
        if self.unanswered > self.unanswered_max {
            return Verdict::Unchecked { for_ns: self.unanswered * self.every_ns };
        }
        let apart_ns = 2 * self.kept_ns as i64;
        let lately = |offset: &Offset| now.since(offset.at) <= 8 * self.every_ns;
        let (mut by, mut agree) = (Vec::new(), 1);
        for (node, peer) in &self.peers {
            match peer.offset.filter(lately) {
                Some(offset) if offset.least_ns > apart_ns => by.push((*node, offset.least_ns)),
                Some(offset) if offset.most_ns < -apart_ns => by.push((*node, offset.most_ns)),
                Some(_) => agree += 1,
                None => {}
            }
        }
        // With as many on each side nobody knows who is right: then none of them goes on.
        if !by.is_empty() && by.len() >= agree { Verdict::Wrong { by } } else { Verdict::Right }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;
    use base::time::MS;
    use base::wan::Wan;

    fn topology(regions: usize, clock_bound_ns: u64) -> Topology {
        let wan = Wan::preset("perseus5").unwrap().truncated(regions);
        Topology { clock_bound_ns, ..Topology::one_node_per_region(wan, 1) }
    }

    /// Every node asks, once, over links with these delays; the clocks are off by this much.
    fn compare(
        errors_ns: &[i64],
        delay_ns: impl Fn(&mut Rng) -> u64,
        kept_ns: u64,
        seed: u64,
    ) -> Vec<Verdict> {
        let topology = topology(errors_ns.len(), kept_ns);
        let mut rng = Rng::new(seed);
        let begin = 1_000_000 * MS as i64;
        let judge = |n: usize| {
            let me = NodeId(n as u16);
            let mut monitor = ClockMonitor::new(&topology, me, ClockOptions::default()).unwrap();
            for peer in monitor.peers().collect::<Vec<_>>() {
                let there = begin + delay_ns(&mut rng) as i64;
                let back = there + delay_ns(&mut rng) as i64;
                let own = |at: i64| Time((at + errors_ns[n]) as u64);
                let shown = Time((there + errors_ns[usize::from(peer.0)]) as u64);
                monitor.answered(own(back), peer, own(begin), shown);
            }
            monitor.verdict(Time((begin + errors_ns[n]) as u64))
        };
        (0..errors_ns.len()).map(judge).collect()
    }

    #[test]
    fn kept_clocks_are_never_found_wrong_and_one_that_is_far_off_is() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed).fork("errors");
            let kept_ns = 3 * MS;
            let count = rng.between(3, 5) as usize;
            let mut errors: Vec<i64> =
                (0..count).map(|_| rng.between(-(kept_ns as i64), kept_ns as i64)).collect();
            let delay = |rng: &mut Rng| rng.below(10 * MS);
            assert!(compare(&errors, delay, kept_ns, seed).iter().all(|v| *v == Verdict::Right), "{seed}");
            let strays = rng.below(count as u64) as usize;
            let far_ns = (3 * kept_ns + 10 * MS) as i64;
            errors[strays] = if rng.chance(0.5) { far_ns } else { -far_ns };
            for (n, verdict) in compare(&errors, delay, kept_ns, seed).into_iter().enumerate() {
                assert_eq!(matches!(verdict, Verdict::Wrong { .. }), n == strays, "seed {seed}, node {n}");
            }
        }
    }

    #[test]
    fn where_delays_are_known_small_errors_are_found_however_far_others_are() {
        let topology = topology(3, 5 * MS);
        let way_ns = topology.one_way_ns(NodeId(0), NodeId(1));
        let other = |least_delays, off_ns: u64| {
            let options = ClockOptions { least_delays, ..ClockOptions::default() };
            let mut monitor = ClockMonitor::new(&topology, NodeId(0), options).unwrap();
            let sent = Time(100 * SECOND);
            monitor.answered(sent + 2 * way_ns, NodeId(1), sent, sent + way_ns + off_ns);
            (monitor.seen()[0].ahead_ns, monitor.verdict(sent + 2 * way_ns))
        };
        let off_ns = 30 * MS;
        assert_eq!(other(true, off_ns).0, (off_ns as i64, off_ns as i64));
        assert!(matches!(other(true, off_ns).1, Verdict::Wrong { .. }));
        assert!(way_ns > off_ns && other(false, off_ns).1 == Verdict::Right, "it may be the way back");
    }

    #[test]
    fn of_two_that_disagree_neither_goes_on() {
        let verdicts = compare(&[0, 50 * MS as i64], |_| MS, MS, 1);
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Wrong { .. })), "{verdicts:?}");
    }

    #[test]
    fn what_was_said_long_ago_or_in_another_life_does_not_count() {
        let topology = topology(3, MS);
        let mut monitor = ClockMonitor::new(&topology, NodeId(0), ClockOptions::default()).unwrap();
        let now = Time(100 * SECOND);
        for peer in [NodeId(1), NodeId(2)] {
            monitor.answered(now, peer, now - MS, now + SECOND);
        }
        assert!(matches!(monitor.verdict(now), Verdict::Wrong { .. }));
        assert_eq!(monitor.verdict(now + 10 * SECOND), Verdict::Right);
        monitor.answered(now, NodeId(1), now + 2 * SECOND, now);
        monitor.answered(now, NodeId(9), now, now);
        assert!(matches!(monitor.verdict(now), Verdict::Wrong { by } if by.len() == 2));
    }

    #[test]
    fn who_asks_in_vain_for_long_does_not_know_its_clock_and_one_answer_is_enough() {
        let topology = topology(3, MS);
        let options =
            ClockOptions { every_ns: SECOND, checked_within_ns: 5 * SECOND, ..ClockOptions::default() };
        let mut monitor = ClockMonitor::new(&topology, NodeId(0), options).unwrap();
        let now = Time(1000 * SECOND);
        for _ in 0..5 {
            monitor.asks();
            assert_eq!(monitor.verdict(now), Verdict::Right);
        }
        monitor.asks();
        assert_eq!(monitor.verdict(now), Verdict::Unchecked { for_ns: 6 * SECOND });
        // An answer of a former life is none.
        monitor.answered(now, NodeId(1), now + SECOND, now);
        assert_ne!(monitor.verdict(now), Verdict::Right);
        monitor.answered(now, NodeId(1), now, now);
        assert_eq!(monitor.verdict(now), Verdict::Right);
    }

    #[test]
    fn where_clocks_do_not_matter_nobody_asks() {
        assert!(ClockMonitor::new(&topology(3, 0), NodeId(0), ClockOptions::default()).is_none());
        assert!(ClockMonitor::new(&topology(1, MS), NodeId(0), ClockOptions::default()).is_none());
    }
}
