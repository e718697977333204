//! Every order in which the messages of a few transactions can arrive.
//!
//! A node's state follows from the sequence of messages it got, so two schedules that give every node
//! the same sequence are one state and are explored once. Clocks stand still.

use super::{access, conflict, planted};
use crate::engine::{Answer, Engine, EngineEffect};
use crate::perseus::{Message, Mutant, Options, Perseus, Timer};
use crate::trial::executor::Rows;
use crate::trial::explore::{self, Explored};
use base::hash::digest;
use base::topology::Topology;
use base::txn::{Submission, TxnProgram};
use base::wan::Wan;
use base::{NodeId, Time, Token, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

#[derive(Clone)]
struct Node {
    engine: Perseus,
    rows: Rows,
    /// Of everything that was delivered here, in order.
    history: u64,
    answers: BTreeMap<TxnId, Answer>,
}

#[derive(Clone)]
struct State {
    nodes: Vec<Rc<Node>>,
    /// From, to, message; sorted by nothing but insertion.
    flying: Vec<(NodeId, NodeId, Rc<Message>)>,
    submitted: usize,
    at_once: fn(&Message) -> bool,
}

const NOW: Time = Time::from_ms(1000);

impl State {
    fn new(nodes: usize, options: &Options, at_once: fn(&Message) -> bool) -> State {
        let wan = Wan::preset("perseus3").unwrap().truncated(nodes);
        let topology = Arc::new(Topology::one_node_per_region(wan, 1));
        let node = |n| {
            let engine = Perseus::new(topology.clone(), n, 1, options.clone());
            Rc::new(Node { engine, rows: Rows::default(), history: 0, answers: BTreeMap::new() })
        };
        State { nodes: topology.node_ids().map(node).collect(), flying: Vec::new(), submitted: 0, at_once }
    }
    fn with(&mut self, n: NodeId, act: impl FnOnce(&mut Node, &mut Vec<EngineEffect<Message>>)) {
        let mut out = Vec::new();
        let node = Rc::make_mut(&mut self.nodes[n.0 as usize]);
        act(node, &mut out);
        for effect in out {
            match effect {
                EngineEffect::Send { to, message } => self.flying.push((n, to, Rc::new(message))),
                EngineEffect::Answer(answer) => _ = node.answers.insert(answer.submitted_as, answer),
                _ => {}
            }
        }
    }
    fn submit(&mut self, n: u16, text: &str) {
        let program = Arc::new(TxnProgram::Procedure { name: "update".into(), args: Vec::new() });
        let submission = Submission {
            program,
            access: Arc::new(access(text)),
            token: Token::default(),
            request: None,
            isolation: Default::default(),
        };
        self.with(NodeId(n), |node, out| {
            node.engine.submit(NOW, submission, &mut node.rows, out);
        });
    }
    fn arrive(&mut self, from: NodeId, to: NodeId, message: Rc<Message>) {
        self.with(to, |node, out| {
            node.history = digest(&(node.history, from, format!("{message:?}")));
            node.engine.message(NOW, from, Message::clone(&message), &mut node.rows, out);
        });
    }
}

impl Explored for State {
    fn key(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.history).collect()
    }
    fn flying(&self) -> usize {
        self.flying.len()
    }
    fn at_once(&self) -> Option<usize> {
        self.flying.iter().position(|(_, _, message)| (self.at_once)(message))
    }
    fn deliver(&mut self, nth: usize) {
        let (from, to, message) = self.flying.remove(nth);
        self.arrive(from, to, message);
    }
    /// Opens every gate, then compares what the nodes did.
    fn judge(mut self) {
        for n in 0..self.nodes.len() {
            self.with(NodeId(n as u16), |node, out| {
                node.engine.remind(NOW + 10_000_000_000, Timer::Gate, &mut node.rows, out);
            });
        }
        let answered: usize = self.nodes.iter().map(|node| node.answers.len()).sum();
        assert_eq!(answered, self.submitted, "everything is answered");
        for node in &self.nodes {
            node.engine.check_invariants();
            let log = &node.rows.log;
            for (i, later) in log.iter().enumerate() {
                for earlier in &log[..i] {
                    let a = earlier.transaction.access.at(earlier.partition);
                    if conflict(a, later.transaction.access.at(later.partition)) {
                        assert!(earlier.place < later.place, "{} then {}", earlier.txn, later.txn);
                    }
                }
            }
        }
    }
}

/// What is delivered at once: an end of a transaction is for its coordinator alone.
fn ends(message: &Message) -> bool {
    matches!(message, Message::Executed { .. })
}

/// Ends, and reads: what is left is the ordering itself.
fn ends_and_reads(message: &Message) -> bool {
    matches!(message, Message::Executed { .. } | Message::RemoteRead { .. })
}

/// Explores all schedules, or the first `limit` states; answers how many there were.
fn explore(
    nodes: usize,
    options: &Options,
    submissions: &[(u16, &str)],
    at_once: fn(&Message) -> bool,
    limit: usize,
) -> usize {
    let mut start = State::new(nodes, options, at_once);
    submissions.iter().for_each(|(node, text)| start.submit(*node, text));
    start.submitted = submissions.len();
    explore::explore(start, limit)
}

#[test]
fn every_order_of_two_transactions_on_two_nodes() {
    for (a, b) in [("w0.1 w1.1", "w0.1 w1.1"), ("r0.1 w1.1", "w0.1 r1.1"), ("w0.1 r1.1", "w0.0-5 w1.0-5")] {
        let states = explore(2, &Options::default(), &[(0, a), (1, b)], ends, usize::MAX);
        assert!(states > 100, "{states}");
    }
}

#[test]
fn every_order_of_a_ring_of_three() {
    let ring = [(0, "w0.1 w1.1"), (1, "w1.1 w2.1"), (2, "w2.1 w0.1")];
    let states = explore(3, &Options::default(), &ring, ends_and_reads, usize::MAX);
    assert!(states > 1000, "{states}");
}

#[test]
fn every_order_of_three_transactions_of_every_shape() {
    let shapes = ["w0.1", "w0.1 w1.1", "r0.1 w1.1", "w1.1 w2.1", "w0.1 w2.1"];
    for (i, a) in shapes.iter().enumerate() {
        for (j, b) in shapes.iter().enumerate().skip(i) {
            for c in &shapes[j..] {
                explore(3, &Options::default(), &[(0, a), (1, b), (2, c)], ends_and_reads, 1500);
            }
        }
    }
}

#[test]
#[should_panic]
fn a_coordinator_that_trusts_one_participant_is_caught() {
    let options = planted(Mutant::FirstAnswerOnly);
    explore(2, &options, &[(0, "w0.1 w1.1"), (1, "w0.1 w1.1")], ends, usize::MAX);
}

#[test]
#[should_panic]
fn a_coordinator_that_cuts_cycles_is_caught() {
    let options = planted(Mutant::CutCycles);
    // Both edges point from the smaller id to the larger one if the latter came first at both nodes.
    explore(3, &options, &[(0, "w1.1 w2.1"), (1, "w1.1 w2.1")], ends, usize::MAX);
}

#[test]
#[should_panic]
fn executing_before_the_closure_is_final_is_caught() {
    let ring = [(0, "w0.1 w1.1"), (1, "w1.1 w2.1"), (2, "w2.1 w0.1")];
    explore(3, &planted(Mutant::ExecuteBeforeFinal), &ring, ends_and_reads, usize::MAX);
}

#[test]
fn every_order_with_one_message_repeated() {
    // Whatever arrives once may arrive again at any later time.
    let submissions = [(0, "w0.1 w1.1"), (1, "w0.1 w1.1")];
    let mut start = State::new(2, &Options::default(), |_| false);
    start.submitted = submissions.len();
    submissions.iter().for_each(|(node, text)| start.submit(*node, text));
    let mut known = BTreeSet::from([(start.key(), None)]);
    // The message that is repeated, until it is.
    let mut todo = vec![(start, None::<(NodeId, NodeId, Rc<Message>)>)];
    let mut repeated = 0;
    while let Some((state, spare)) = todo.pop() {
        let digest_of = |spare: &Option<(NodeId, NodeId, Rc<Message>)>| {
            spare.as_ref().map(|(from, to, message)| digest(&(from, to, format!("{message:?}"))))
        };
        if state.flying.is_empty() && spare.is_none() {
            state.judge();
            continue;
        }
        let mut nexts = Vec::new();
        for nth in 0..state.flying.len() {
            let mut next = state.clone();
            let copy = next.flying[nth].clone();
            next.deliver(nth);
            if spare.is_none() && repeated < 3000 {
                repeated += 1;
                nexts.push((next.clone(), Some(copy)));
            }
            nexts.push((next, spare.clone()));
        }
        if let Some((from, to, message)) = spare {
            let mut next = state.clone();
            next.arrive(from, to, message);
            nexts.push((next, None));
        }
        for (next, spare) in nexts {
            if known.len() < 6000 && known.insert((next.key(), digest_of(&spare))) {
                todo.push((next, spare));
            }
        }
    }
    assert!(repeated > 500, "{repeated}");
}
