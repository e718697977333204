//! A small world for the engine: nodes, clocks within their bound, links that lose, repeat and reorder,
//! and a record of everything that has to agree afterwards.
//!
//! Suggested reading order: this file, the modules below.

mod deaths;
mod exhaustive;
mod footprint;
mod judge;
mod latency;
mod mutants;
mod oracle;
mod random;
mod recovery;
mod repeats;
mod scenarios;

use super::{Message, Mutant, Options, Perseus};
use crate::engine::{Answer, Answered, Engine, EngineEffect, Question, Unanswered};
use crate::timers::Alarms;
use crate::trial::executor::Rows;
use crate::trial::{access, conflict};
use base::order::{Close, CloseTicket, Closed, StreamItem};
use base::rng::Rng;
use base::time::MS;
use base::topology::{NodeSpec, Topology};
use base::txn::{AccessSet, ClientRequest, Granule, Submission, TxnProgram};
use base::wan::Wan;
use base::{Datum, NodeId, PartitionId, Rank, RegionId, SqlError, Time, Token, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Faults of the links.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    loss: f64,
    duplication: f64,
    /// Up to this much is added to each delay, in ns.
    jitter_ns: u64,
}

enum Event {
    Message {
        to: NodeId,
        from: NodeId,
        message: Message,
    },
    /// With the node's time for it.
    Wake {
        node: NodeId,
        alarm: Time,
    },
}

struct World {
    topology: Arc<Topology>,
    nodes: Vec<Perseus>,
    alarms: Vec<Alarms>,
    rows: Vec<Rows>,
    /// Clock reading − true time, in ns.
    skews: Vec<i64>,
    now: Time,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    faults: Faults,
    rng: Rng,
    /// Messages for which this says false are lost.
    passes: fn(NodeId, NodeId, &Message) -> bool,
    submitted: BTreeMap<TxnId, (Time, Arc<AccessSet>, Rank)>,
    answers: BTreeMap<TxnId, (Time, Answer)>,
    closes: BTreeMap<CloseTicket, (Time, Close)>,
    closed: BTreeMap<CloseTicket, (Time, Result<Closed, SqlError>)>,
    streams: BTreeMap<PartitionId, Vec<StreamItem>>,
    watermarks: Vec<Rank>,
    messages: u64,
    /// Another filter, with memory.
    filter: Filter,
    /// Nodes that are down for good.
    dead: BTreeSet<NodeId>,
    /// Nodes that nobody reaches and that reach nobody.
    cut: BTreeSet<NodeId>,
    /// Submissions that repeat an earlier request.
    repeats: BTreeSet<TxnId>,
    /// Counts what clients want done.
    wishes: i64,
    /// Every call of one node, in order.
    recorded: Option<(NodeId, Vec<(Time, Call)>)>,
}

/// A call of an engine.
#[derive(Clone)]
enum Call {
    Submit(Submission),
    Message(NodeId, Message),
    Wake,
}

type Filter = Option<Box<dyn FnMut(NodeId, NodeId, &Message) -> bool>>;

impl World {
    /// `partitions` per region, one node each region, `perseus3` distances.
    fn new(seed: u64, regions: usize, partitions: u16, clock_bound_ns: u64, options: Options) -> World {
        let wan = Wan::preset("perseus3").unwrap().truncated(regions);
        let mut topology = Topology::one_node_per_region(wan, partitions);
        topology.clock_bound_ns = clock_bound_ns;
        World::with(seed, topology, options)
    }
    /// One partition in each of three regions, and `gateways` nodes without any, from node 3 on.
    fn with_gateways(seed: u64, gateways: u16, options: Options) -> World {
        let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
        for n in 0..gateways {
            topology.nodes.push(NodeSpec { region: RegionId(n % 3), subscribes: Vec::new() });
        }
        World::with(seed, topology, options)
    }
    fn with(seed: u64, topology: Topology, options: Options) -> World {
        topology.check();
        let topology = Arc::new(topology);
        let count = topology.nodes.len();
        let mut rng = Rng::new(seed).fork("world");
        let bound = topology.clock_bound_ns as i64;
        let skews = (0..count).map(|_| rng.between(-bound, bound)).collect();
        let node = |n| Perseus::new(topology.clone(), n, 1, options.clone());
        let mut world = World {
            nodes: topology.node_ids().map(node).collect(),
            alarms: vec![Alarms::default(); count],
            rows: (0..count).map(|_| Rows::default()).collect(),
            skews,
            topology,
            now: Time::from_ms(1000),
            events: BTreeMap::new(),
            sequence: 0,
            faults: Faults::default(),
            rng,
            passes: |_, _, _| true,
            submitted: BTreeMap::new(),
            answers: BTreeMap::new(),
            closes: BTreeMap::new(),
            closed: BTreeMap::new(),
            streams: BTreeMap::new(),
            watermarks: vec![Rank::ZERO; count],
            messages: 0,
            filter: None,
            dead: BTreeSet::new(),
            cut: BTreeSet::new(),
            repeats: BTreeSet::new(),
            wishes: 0,
            recorded: None,
        };
        for n in 0..count {
            let mut out = Vec::new();
            let clock = world.clock(NodeId(n as u16));
            world.nodes[n].start(clock, &mut out);
            world.effects(NodeId(n as u16), out);
        }
        world
    }
    fn clock(&self, node: NodeId) -> Time {
        Time((self.now.0 as i64 + self.skews[node.0 as usize]) as u64)
    }
    fn schedule(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    fn submit(&mut self, node: u16, access: AccessSet) -> TxnId {
        self.submit_as(node, "update", access, Token::default())
    }
    fn submit_as(&mut self, node: u16, name: &str, access: AccessSet, token: Token) -> TxnId {
        self.wishes += 1;
        let args = vec![Datum::Int(self.wishes)];
        let program = Arc::new(TxnProgram::Procedure { name: name.into(), args });
        self.hand_in(node, Submission { program, access: Arc::new(access), token, request: None })
    }
    /// A submission with a name, to be handed in as often as one likes.
    fn wish(&mut self, access: AccessSet) -> Submission {
        self.wishes += 1;
        let args = vec![Datum::Int(self.wishes)];
        let program = Arc::new(TxnProgram::Procedure { name: "update".into(), args });
        let (client, number, issued_at) = (7, self.wishes as u64, self.now);
        let request = Some(ClientRequest { client, number, issued_at });
        Submission { program, access: Arc::new(access), token: Token::default(), request }
    }
    fn repeat(&mut self, node: u16, submission: &Submission) -> TxnId {
        let txn = self.hand_in(node, submission.clone());
        self.repeats.insert(txn);
        txn
    }
    fn hand_in(&mut self, node: u16, submission: Submission) -> TxnId {
        let (access, seen) = (submission.access.clone(), submission.token.rank);
        let mut out = Vec::new();
        let clock = self.clock(NodeId(node));
        let n = node as usize;
        self.record(NodeId(node), clock, || Call::Submit(submission.clone()));
        let txn = self.nodes[n].submit(clock, submission, &mut self.rows[n], &mut out);
        self.submitted.insert(txn, (self.now, access, seen));
        self.effects(NodeId(node), out);
        txn
    }
    fn close(&mut self, ticket: u64, partition: u16, rank: Rank, granules: Vec<Granule>) {
        let node = self.topology.node_of(PartitionId(partition));
        let (ticket, clock) = (CloseTicket(ticket), self.clock(node));
        let close = Close { partition: PartitionId(partition), rank, granules };
        self.closes.insert(ticket, (self.now, close.clone()));
        let answered = self.ask_at(node, clock, Question::Close { ticket, close });
        assert_eq!(answered, Ok(None), "the answer is an effect");
    }
    fn ask_at(
        &mut self,
        node: NodeId,
        clock: Time,
        question: Question,
    ) -> Result<Option<Answered>, Unanswered> {
        let (n, mut out) = (usize::from(node.0), Vec::new());
        let answered = self.nodes[n].ask(clock, question, &mut self.rows[n], &mut out);
        self.effects(node, out);
        answered
    }

    fn record(&mut self, node: NodeId, clock: Time, call: impl FnOnce() -> Call) {
        if let Some((_, calls)) = self.recorded.as_mut().filter(|(recorded, _)| *recorded == node) {
            calls.push((clock, call()));
        }
    }
    fn effects(&mut self, node: NodeId, out: Vec<EngineEffect<Message>>) {
        for effect in out {
            match effect {
                EngineEffect::Restored => unreachable!("this engine takes no copies"),
                EngineEffect::Send { to, message } => self.send(node, to, message),
                EngineEffect::Answer(answer) => {
                    let told = self.answers.insert(answer.submitted_as, (self.now, answer));
                    assert!(told.is_none(), "answered twice: {told:?}");
                }
                EngineEffect::Stream { partition, item } => {
                    self.streams.entry(partition).or_default().push(item)
                }
                EngineEffect::Answered { ticket, result } => {
                    let result = result.map(|answered| match answered {
                        Answered::Closed(closed) => closed,
                        other => panic!("{ticket:?} is told {other:?}"),
                    });
                    let told = self.closed.insert(ticket, (self.now, result));
                    assert!(told.is_none(), "closed twice: {told:?}");
                }
                EngineEffect::Collected { below } => {
                    let known = &mut self.watermarks[node.0 as usize];
                    assert!(*known < below, "the watermark only grows");
                    *known = below;
                }
            }
        }
        let n = usize::from(node.0);
        if let Some(alarm) = self.alarms[n].arm(self.nodes[n].next_wake()) {
            let at = Time((alarm.0 as i64 - self.skews[n]).max(self.now.0 as i64) as u64);
            self.schedule(at, Event::Wake { node, alarm });
        }
    }
    fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        assert_ne!(from, to, "a node talks to itself without the network");
        self.messages += 1;
        if self.cut.contains(&from) || self.cut.contains(&to) {
            return;
        }
        if let Some(filter) = &mut self.filter
            && !filter(from, to, &message)
        {
            return;
        }
        if !(self.passes)(from, to, &message) || self.rng.chance(self.faults.loss) {
            return;
        }
        let copies = if self.rng.chance(self.faults.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let jitter_ns = self.rng.below(self.faults.jitter_ns + 1);
            let at = self.now + self.topology.one_way_ns(from, to) + jitter_ns;
            let bytes = base::codec::encode(&message);
            let message = base::codec::decode(&bytes).expect("what is written is read");
            self.schedule(at, Event::Message { to, from, message });
        }
    }
    /// Handles the next event; false if there is none before `until`.
    fn step(&mut self, until: Time) -> bool {
        let Some(entry) = self.events.first_entry() else { return false };
        if entry.key().0 > until {
            return false;
        }
        let ((at, _), event) = entry.remove_entry();
        self.now = at;
        let mut out = Vec::new();
        let node = match event {
            Event::Message { to: node, .. } | Event::Wake { node, .. } if self.dead.contains(&node) => {
                return true;
            }
            Event::Message { to, from, message } => {
                let (clock, n) = (self.clock(to), to.0 as usize);
                self.record(to, clock, || Call::Message(from, message.clone()));
                self.nodes[n].message(clock, from, message, &mut self.rows[n], &mut out);
                to
            }
            Event::Wake { node, alarm } => {
                let (clock, n) = (self.clock(node), node.0 as usize);
                self.alarms[n].went_off(alarm);
                self.record(node, clock, || Call::Wake);
                self.nodes[n].wake(clock, &mut self.rows[n], &mut out);
                node
            }
        };
        self.effects(node, out);
        true
    }
    fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = until;
    }
    fn run_for_ms(&mut self, ms: u64) {
        self.run_until(self.now + ms * MS);
    }
    fn answer(&self, txn: TxnId) -> &Answer {
        &self.answers.get(&txn).unwrap_or_else(|| panic!("{txn} is not answered")).1
    }
    /// Nothing is kept of transactions that have ended long ago.
    fn check_empty(&mut self) {
        for node in &mut self.nodes {
            assert_eq!(node.vertex_count(), 0);
            assert_eq!(node.schedule.pending_count() + node.schedule.turns.group_count(), 0);
            assert_eq!(node.gateway.under_way() + node.gateway.answer_counts().0, 0);
            assert_eq!(node.recoveries.len() + node.requests.attended_count(), 0);
            assert_eq!(node.inquiries.len() + node.reminders.deadline_count(), 0);
            assert_eq!(node.closes.len(), 0);
            node.partitions.forget_now(&node.graph);
            assert_eq!(node.granule_count(), 0);
        }
    }
    fn check_invariants(&self) {
        self.nodes.iter().for_each(Perseus::check_invariants);
    }
}

fn planted(mutant: Mutant) -> Options {
    Options { mutant: Some(mutant), ..Options::default() }
}
