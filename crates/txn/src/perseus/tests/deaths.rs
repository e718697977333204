//! Orders in which the messages of a few transactions can arrive while their coordinator dies, at any step,
//! and while participants lose patience, at any step.
//!
//! As in `exhaustive`, schedules that give every node the same sequence of events (and lose the same
//! messages) are one state. There are too many of them to visit all: transitions are tried in random order,
//! depth first, up to a number of states.

use super::{access, conflict};
use crate::engine::{Answer, Engine, EngineEffect};
use crate::graph::vertex::State as Phase;
use crate::perseus::{Message, Mutant, Options, Perseus, Timer, Unfinished};
use crate::trial::executor::Rows;
use crate::trial::panics;
use base::hash::digest;
use base::rng::Rng;
use base::time::SECOND;
use base::topology::{NodeSpec, Topology};
use base::txn::{Submission, TxnProgram};
use base::wan::Wan;
use base::{Datum, NodeId, PartitionId, Place, RegionId, Time, Token, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

#[derive(Clone)]
struct Node {
    engine: Perseus,
    rows: Rows,
    history: u64,
    ticks: u64,
    answers: BTreeMap<TxnId, Answer>,
}

#[derive(Clone)]
struct State {
    nodes: Vec<Rc<Node>>,
    flying: Vec<(NodeId, NodeId, Rc<Message>)>,
    dead: Option<NodeId>,
    /// Of what was lost with it.
    lost: u64,
    /// Times that a node may still lose patience while messages are under way.
    impatience: u32,
    /// Times that everybody has lost patience.
    rounds: u32,
}

/// More than any deadline.
const TICK: u64 = 100 * SECOND;

impl State {
    /// `regions` nodes with a partition each, and one gateway.
    fn new(regions: usize, options: &Options) -> State {
        let wan = Wan::preset("perseus3").unwrap().truncated(regions);
        let mut topology = Topology::one_node_per_region(wan, 1);
        topology.nodes.push(NodeSpec { region: RegionId(0), subscribes: Vec::new() });
        // A node's clock shows how often it has lost patience, so clocks are as far apart as that.
        topology.clock_bound_ns = 30 * TICK;
        let topology = Arc::new(topology);
        let node = |n| {
            let engine = Perseus::new(topology.clone(), n, 1, options.clone());
            Rc::new(Node { engine, rows: Rows::default(), history: 0, ticks: 0, answers: BTreeMap::new() })
        };
        let nodes = topology.node_ids().map(node).collect();
        State { nodes, flying: Vec::new(), dead: None, lost: 0, impatience: 1, rounds: 0 }
    }
    fn with(&mut self, n: NodeId, act: impl FnOnce(Time, &mut Node, &mut Vec<EngineEffect<Message>>)) {
        let mut out = Vec::new();
        let node = Rc::make_mut(&mut self.nodes[n.0 as usize]);
        let now = Time::from_ms(1000) + node.ticks * TICK;
        act(now, node, &mut out);
        for effect in out {
            match effect {
                EngineEffect::Send { to, message } if Some(to) != self.dead => {
                    self.flying.push((n, to, Rc::new(message)));
                }
                EngineEffect::Answer(answer) => _ = node.answers.insert(answer.submitted_as, answer),
                _ => {}
            }
        }
    }
    fn submit(&mut self, n: u16, nth: usize, text: &str) {
        let args = vec![Datum::Int(nth as i64)];
        let program = Arc::new(TxnProgram::Procedure { name: "update".into(), args });
        let (access, token) = (Arc::new(access(text)), Token::default());
        let submission = Submission { program, access, token, request: None, isolation: Default::default() };
        self.with(NodeId(n), |now, node, out| {
            node.engine.submit(now, submission, &mut node.rows, out);
        });
    }
    fn deliver(&mut self, nth: usize) {
        let (from, to, message) = self.flying.remove(nth);
        self.with(to, |now, node, out| {
            node.history = digest(&(node.history, from, format!("{message:?}")));
            node.engine.message(now, from, Message::clone(&message), &mut node.rows, out);
        });
    }
    fn tick(&mut self, n: NodeId) {
        self.with(n, |now, node, out| {
            node.ticks += 1;
            node.history = digest(&(node.history, node.ticks));
            node.engine.remind(now + TICK, Timer::Retry, &mut node.rows, out);
        });
    }
    /// The node dies; of what it has sent, only the chosen messages arrive.
    fn die(&mut self, n: NodeId, survives: impl Fn(usize) -> bool) {
        self.dead = Some(n);
        let mut nth = 0;
        let mut lost = self.lost;
        self.flying.retain(|(from, to, message)| {
            let sent = *from == n;
            let kept = *to != n && (!sent || survives(nth));
            nth += usize::from(sent);
            if !kept {
                lost = lost.wrapping_add(digest(&(from, to, format!("{message:?}"))));
            }
            kept
        });
        self.lost = lost;
    }
    fn living(&self) -> impl Iterator<Item = NodeId> + use<> {
        let (count, dead) = (self.nodes.len() as u16, self.dead);
        (0..count).map(NodeId).filter(move |n| Some(*n) != dead)
    }
    fn is_settled(&self) -> bool {
        self.living().all(|n| {
            let engine = &self.nodes[n.0 as usize].engine;
            engine.schedule.pending_count() == 0
                && engine.gateway.under_way() == 0
                && engine.recoveries.len() == 0
        })
    }
    fn unsettled(&self) -> Vec<String> {
        let look = |n: NodeId| {
            let engine = &self.nodes[n.0 as usize].engine;
            let stalled = engine.stalled(Time::MAX, 0);
            let coordinated: Vec<_> = engine.gateway.coordinated_ids().collect();
            let led: Vec<_> = engine.recoveries.ids().collect();
            let deadlines: Vec<_> = engine.reminders.deadlines().collect();
            format!("{n}: {stalled:?}, coordinates {coordinated:?}, recovers {led:?}, {deadlines:?}")
        };
        self.living().map(look).collect()
    }
    fn key(&self) -> (Vec<u64>, Option<NodeId>, u64) {
        (self.nodes.iter().map(|node| node.history).collect(), self.dead, self.lost)
    }
    /// What a state can become.
    fn nexts(&self) -> Vec<State> {
        let mut nexts = Vec::new();
        for nth in 0..self.flying.len() {
            let mut next = self.clone();
            next.deliver(nth);
            while let Some(nth) = next.flying.iter().position(|(_, _, message)| at_once(message)) {
                next.deliver(nth);
            }
            nexts.push(next);
        }
        let gateway = NodeId(self.nodes.len() as u16 - 1);
        if self.dead.is_none() {
            let sent = self.flying.iter().filter(|(from, _, _)| *from == gateway).count();
            for survivors in 0..1 << sent.min(3) {
                let mut next = self.clone();
                next.die(gateway, |nth| survivors >> nth & 1 == 1);
                nexts.push(next);
            }
        }
        if self.impatience > 0 && !self.flying.is_empty() {
            for n in self.living() {
                let mut next = self.clone();
                next.impatience -= 1;
                next.tick(n);
                nexts.push(next);
            }
        }
        if self.flying.is_empty() {
            // Nothing happens any more by itself: patience ends here, then there.
            assert!(self.rounds < 30, "no progress: {:?} dead, {:?}", self.dead, self.unsettled());
            let mut next = self.clone();
            next.rounds += 1;
            for n in self.living() {
                next.tick(n);
                if u32::from(n.0) == self.rounds % 4 {
                    break;
                }
            }
            nexts.push(next);
        }
        nexts
    }
    /// Everything that began has ended, in one way and one order.
    fn judge(&self, submitted: &[(u16, &str)]) {
        let mut places: BTreeMap<TxnId, Place> = BTreeMap::new();
        let mut at: BTreeMap<TxnId, BTreeSet<PartitionId>> = BTreeMap::new();
        let mut ends: BTreeMap<TxnId, (bool, base::Rank, BTreeSet<TxnId>)> = BTreeMap::new();
        for node in &self.nodes {
            node.engine.check_invariants();
            for (_, vertex) in node.engine.graph.iter() {
                assert_ne!(vertex.state, Phase::PreAccepted, "{} is undecided", vertex.id);
                if vertex.state >= Phase::Final {
                    let deps = vertex.deps.iter().map(|at| node.engine.graph.live(*at).id).collect();
                    let end = (vertex.extra.noop, vertex.bound, deps);
                    let other = ends.entry(vertex.id).or_insert_with(|| end.clone());
                    assert_eq!(*other, end, "{} has one end, and the same dependencies", vertex.id);
                }
            }
            for (i, later) in node.rows.log.iter().enumerate() {
                let place = places.entry(later.txn).or_insert(later.place);
                assert_eq!(*place, later.place, "{} has one place", later.txn);
                assert!(at.entry(later.txn).or_default().insert(later.partition), "{} ran twice", later.txn);
                for earlier in &node.rows.log[..i] {
                    let mine = later.transaction.access.at(later.partition);
                    if conflict(earlier.transaction.access.at(later.partition), mine) {
                        assert!(earlier.place < later.place, "{} then {}", earlier.txn, later.txn);
                    }
                }
            }
        }
        let mut wishes = BTreeSet::new();
        for entry in self.nodes.iter().flat_map(|node| &node.rows.log) {
            let all: BTreeSet<PartitionId> = entry.transaction.participants().collect();
            assert_eq!(at[&entry.txn], all, "{} took effect everywhere", entry.txn);
            wishes.insert((entry.txn, format!("{:?}", entry.transaction.program)));
        }
        let once: BTreeSet<&String> = wishes.iter().map(|(_, wish)| wish).collect();
        assert_eq!(once.len(), wishes.len(), "what a client wants is done once: {wishes:?}");
        let alive = submitted.iter().filter(|(n, _)| Some(NodeId(*n)) != self.dead).count();
        let mut answered = 0;
        for n in self.living() {
            let mut state = self.clone();
            let late = Time(1_000_000 * SECOND);
            state.with(n, |_, node, out| node.engine.remind(late, Timer::Gate, &mut node.rows, out));
            answered += state.nodes[n.0 as usize].answers.len();
        }
        assert_eq!(answered, alive, "whoever lives is answered");
    }
}

/// Ends and reads order nothing.
fn at_once(message: &Message) -> bool {
    matches!(message, Message::Executed { .. } | Message::RemoteRead { .. } | Message::Refused { .. })
}

fn options(unfinished: Unfinished, mutant: Option<Mutant>) -> Options {
    Options { unfinished, mutant, ..Options::default() }
}

/// Visits up to `limit` states; answers how many runs came to an end.
fn explore(regions: usize, options: &Options, submitted: &[(u16, &str)], limit: usize, seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let mut start = State::new(regions, options);
    for (nth, (node, text)) in submitted.iter().enumerate() {
        start.submit(*node, nth, text);
    }
    let mut known = BTreeSet::from([start.key()]);
    let mut todo = vec![start];
    let mut ended = 0;
    while let Some(state) = todo.pop() {
        if state.flying.is_empty() && state.is_settled() {
            state.judge(submitted);
            ended += 1;
            continue;
        }
        if known.len() >= limit {
            // Whatever is left is followed along one way only.
            todo.truncate(50);
        }
        let mut nexts = state.nexts();
        rng.shuffle(&mut nexts);
        if known.len() >= limit {
            nexts.truncate(1);
        }
        for next in nexts {
            if known.insert(next.key()) {
                todo.push(next);
            }
        }
    }
    ended
}

#[test]
fn every_death_of_a_lone_coordinator() {
    for unfinished in [Unfinished::Complete, Unfinished::Abandon] {
        let ended = explore(2, &options(unfinished, None), &[(2, "w0.1 w1.1")], 6000, 1);
        assert!(ended > 20, "{ended}");
    }
}

#[test]
fn deaths_among_conflicting_transactions() {
    let cases: [&[(u16, &str)]; 3] = [
        &[(2, "w0.1 w1.1"), (1, "w0.1 w1.1")],
        &[(2, "w0.1 w1.1"), (0, "w0.1 r1.1"), (1, "w1.1")],
        &[(2, "w0.1 w1.1"), (2, "w1.1 r0.1")],
    ];
    for (nth, case) in cases.iter().enumerate() {
        for unfinished in [Unfinished::Complete, Unfinished::Abandon] {
            let ended = explore(2, &options(unfinished, None), case, 2500, nth as u64);
            assert!(ended > 10, "{ended}");
        }
    }
}

#[test]
fn deaths_in_a_ring_of_three() {
    let ring = [(3, "w0.1 w1.1"), (1, "w1.1 w2.1"), (2, "w2.1 w0.1")];
    for unfinished in [Unfinished::Complete, Unfinished::Abandon] {
        let ended = explore(3, &options(unfinished, None), &ring, 2500, 5);
        assert!(ended > 10, "{ended}");
    }
}

#[test]
fn what_is_planted_in_recovery_is_caught() {
    let cases: [&[(u16, &str)]; 2] =
        [&[(3, "w0.1 w1.1 w2.1")], &[(3, "w0.1 w1.1 w2.1"), (1, "w0.1 w1.1 w2.1")]];
    let caught = |mutant| {
        (0..40).any(|seed| {
            let unfinished = [Unfinished::Complete, Unfinished::Abandon][seed as usize % 2];
            let case = cases[seed as usize / 2 % 2];
            panics(|| _ = explore(3, &options(unfinished, Some(mutant)), case, 1200, seed))
        })
    };
    let mutants = [Mutant::RecoverFromMajority, Mutant::BallotNotPromised, Mutant::UnknownIsEmpty];
    let missed: Vec<Mutant> = mutants.into_iter().filter(|mutant| !caught(*mutant)).collect();
    assert!(missed.is_empty(), "{missed:?} go unnoticed");
}
