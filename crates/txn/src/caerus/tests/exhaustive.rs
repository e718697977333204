//! Every order in which the messages of a few transactions can arrive.
//!
//! A node's state follows from the sequence of messages it got, so two schedules that give every node
//! the same sequence are one state and are explored once. Clocks stand still; nothing is batched.

use super::{access, conflict, moving, planted};
use crate::caerus::options::Batching;
use crate::caerus::{Caerus, Message, Mutant, Options, Timer};
use crate::engine::{Answer, Command, Engine, EngineEffect};
use crate::trial::OTHER;
use crate::trial::executor::Rows;
use crate::trial::explore::{self, Explored};
use base::hash::digest;
use base::topology::Topology;
use base::txn::{AccessSet, Submission, TxnProgram};
use base::wan::Wan;
use base::{NodeId, PartitionId, Place, Rank, RegionId, Time, Token, TxnId};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

#[derive(Clone)]
struct Node {
    engine: Caerus,
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
    /// Of these.
    moves: usize,
}

const NOW: Time = Time::from_ms(1000);

impl State {
    fn new(nodes: usize, options: &Options) -> State {
        let wan = Wan::preset("perseus3").unwrap().truncated(nodes);
        let topology = Arc::new(Topology::one_node_per_region(wan, 1).replicated());
        let batching = Batching { interval_ns: 0, ..Batching::default() };
        let options = Options { batching, append_delay_percent: 0, ..options.clone() };
        let node = |n| {
            let engine = Caerus::new(topology.clone(), n, 1, options.clone());
            Rc::new(Node { engine, rows: Rows::default(), history: 0, answers: BTreeMap::new() })
        };
        State { nodes: topology.node_ids().map(node).collect(), flying: Vec::new(), submitted: 0, moves: 0 }
    }
    fn with(&mut self, n: NodeId, act: impl FnOnce(&mut Node, &mut Vec<EngineEffect<Message>>)) {
        let mut out = Vec::new();
        let node = Rc::make_mut(&mut self.nodes[n.0 as usize]);
        act(node, &mut out);
        for effect in out {
            match effect {
                // Where nobody waits for copies, acknowledgements do not change what is ordered.
                EngineEffect::Send { message: Message::SubmitAck { .. }, .. } => {}
                EngineEffect::Send { message: Message::AppendAck { sequence, .. }, .. }
                    if node.engine.cluster.copies_of(sequence) == 0 => {}
                EngineEffect::Send { to, message } => self.flying.push((n, to, Rc::new(message))),
                EngineEffect::Answer(answer) => _ = node.answers.insert(answer.txn, answer),
                _ => {}
            }
        }
    }
    /// `move P R` moves a partition to a region, `table P R` the other table of it.
    fn submit(&mut self, n: u16, text: &str) {
        if let Some(wish) = text.strip_prefix("table ") {
            let (partition, region) = wish.split_once(' ').expect("a partition and a region");
            let (program, access) = moving(OTHER, &[partition.parse().unwrap()], region.parse().unwrap());
            return self.submit_program(n, program, access);
        }
        if let Some(wish) = text.strip_prefix("move ") {
            let (partition, region) = wish.split_once(' ').expect("a partition and a region");
            let (partition, to) =
                (PartitionId(partition.parse().unwrap()), RegionId(region.parse().unwrap()));
            return self.with(NodeId(n), |node, out| {
                let command = Command::MoveHome { partition, to };
                node.engine.admin(NOW, command, &mut node.rows, out).unwrap();
            });
        }
        let program = TxnProgram::Procedure { name: "update".into(), args: Vec::new() };
        self.submit_program(n, program, access(text));
    }
    fn submit_program(&mut self, n: u16, program: TxnProgram, access: AccessSet) {
        let (program, access) = (Arc::new(program), Arc::new(access));
        let submission = Submission {
            program,
            access,
            token: Token::default(),
            request: None,
            isolation: Default::default(),
        };
        self.with(NodeId(n), |node, out| {
            node.engine.submit(NOW, submission, &mut node.rows, out);
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
        self.flying.iter().position(|(_, _, message)| ends(message))
    }
    fn deliver(&mut self, nth: usize) {
        let (from, to, message) = self.flying.remove(nth);
        self.with(to, |node, out| {
            node.history = digest(&(node.history, from, format!("{message:?}")));
            node.engine.message(NOW, from, Message::clone(&message), &mut node.rows, out);
        });
    }
    /// Opens every gate, then compares what the regions did.
    fn judge(mut self) {
        for n in 0..self.nodes.len() {
            self.with(NodeId(n as u16), |node, out| {
                node.engine.remind(NOW + 10_000_000_000, Timer::Gate, &mut node.rows, out);
            });
        }
        let answered: usize = self.nodes.iter().map(|node| node.answers.len()).sum();
        // What met a move goes on with the next tick.
        let again: usize = self.nodes.iter().map(|node| node.engine.gateway.held_back_count()).sum();
        let transactions = self.submitted - again;
        assert_eq!(answered, transactions, "everything is answered");
        let mut places: BTreeMap<TxnId, Place> = BTreeMap::new();
        let mut values = None;
        for node in &self.nodes {
            node.engine.check_invariants();
            let log = &node.rows.log;
            for (i, later) in log.iter().enumerate() {
                let place = *places.entry(later.txn).or_insert(later.place);
                assert_eq!(place, later.place, "{} has one place", later.txn);
                for earlier in &log[..i] {
                    let a = earlier.transaction.access.at(earlier.partition);
                    if earlier.partition == later.partition
                        && conflict(a, later.transaction.access.at(later.partition))
                    {
                        assert!(earlier.place < later.place, "{} then {}", earlier.txn, later.txn);
                    }
                }
            }
            let copy = values.get_or_insert_with(|| node.rows.values.clone());
            assert_eq!(*copy, node.rows.values, "replicas are equal");
        }
        assert_eq!(places.len(), transactions - self.moves, "everything is executed");
        assert!(places.values().all(|place| place.rank > Rank::ZERO));
    }
}

/// What is delivered at once: an end of a transaction is for its gateway alone.
fn ends(message: &Message) -> bool {
    matches!(message, Message::Executed { .. })
}

/// Explores all schedules, or the first `limit` states; answers how many there were.
pub fn explore(nodes: usize, options: &Options, submissions: &[(u16, &str)], limit: usize) -> usize {
    let mut start = State::new(nodes, options);
    submissions.iter().for_each(|(node, text)| start.submit(*node, text));
    start.submitted = submissions.len();
    start.moves = submissions.iter().filter(|(_, text)| text.starts_with("move")).count();
    explore::explore(start, limit)
}

#[test]
fn every_order_of_two_transactions_in_two_regions() {
    for (a, b) in [("w0.1 w1.1", "w0.1 w1.1"), ("r0.1 w1.1", "w0.1 r1.1"), ("w0.1 r1.1", "w0.0-5 w1.0-5")] {
        let states = explore(2, &Options::default(), &[(0, a), (1, b)], usize::MAX);
        assert!(states > 10, "{states}");
    }
}

#[test]
fn every_order_of_three_transactions_in_two_regions() {
    for c in ["w0.1", "w1.1", "w0.1 w1.1", "r0.1", "r1.1 w0.2"] {
        let all = [(0, "w0.1 w1.1"), (1, "w1.1 w0.1"), (0, c)];
        let states = explore(2, &Options::default(), &all, usize::MAX);
        assert!(states > 30, "{states}");
    }
}

#[test]
fn every_order_of_a_ring_of_three() {
    let ring = [(0, "w0.1 w1.1"), (1, "w1.1 w2.1"), (2, "w2.1 w0.1")];
    let states = explore(3, &Options::default(), &ring, 20_000);
    assert!(states > 1000, "{states}");
}

#[test]
fn every_order_of_three_transactions_of_every_shape() {
    let shapes = ["w0.1", "w0.1 w1.1", "r0.1 w1.1", "w1.1 w2.1", "w0.1 w2.1"];
    for (i, a) in shapes.iter().enumerate() {
        for (j, b) in shapes.iter().enumerate().skip(i) {
            for c in &shapes[j..] {
                explore(3, &Options::default(), &[(0, a), (1, b), (2, c)], 800);
            }
        }
    }
}

#[test]
fn every_order_of_a_move_and_what_crosses_it() {
    for all in [
        &[(0, "move 0 1"), (0, "w0.1"), (1, "w0.1 w1.1")][..],
        &[(1, "move 0 1"), (0, "w0.1 w1.1"), (1, "w1.1 r0.1")],
        &[(0, "move 0 1"), (1, "move 1 0"), (0, "w0.1 w1.1")],
        &[(0, "table 0 1"), (0, "w0.101"), (1, "w0.1 w0.101 w1.1")],
        &[(1, "table 0 1"), (1, "table 1 0"), (0, "w0.101 w1.101")],
        &[(0, "table 0 1"), (1, "move 0 1"), (0, "w0.101")],
    ] {
        let states = explore(2, &Options::default(), all, 1_500);
        assert!(states > 100, "{states}");
    }
    let all = [(0, "move 0 1"), (1, "move 0 2"), (2, "w0.1 w2.1")];
    explore(3, &Options::default(), &all, 800);
    let all = [(0, "table 0 1"), (1, "table 0 2"), (2, "w0.101 w2.1")];
    explore(3, &Options::default(), &all, 800);
}

#[test]
#[should_panic]
fn the_write_rule_as_printed_is_caught() {
    let options = planted(Mutant::InvertedWriteWrite);
    explore(2, &options, &[(0, "w0.1 w1.1"), (1, "w0.1 w1.1")], usize::MAX);
}

#[test]
#[should_panic]
fn a_place_before_the_last_entry_is_caught() {
    let ring = [(0, "w0.1 w1.1"), (1, "w1.1 w2.1"), (2, "w2.1 w0.1")];
    explore(3, &planted(Mutant::PlaceIncomplete), &ring, usize::MAX);
}
