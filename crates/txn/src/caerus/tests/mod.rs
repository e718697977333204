//! A small world for the engine: nodes, clocks within their bound, links that lose, repeat and reorder,
//! and a record of everything that has to agree afterwards.
//!
//! Suggested reading order: this file, the modules below.

mod availability;
mod baselines;
mod calibrating;
mod collecting;
mod exhaustive;
mod flushing;
mod homes;
mod judge;
mod latency;
mod mutants;
mod plausibility;
mod random;
mod readers;
mod recovery;
mod rejoin;
mod repeats;
mod resting;
mod scenarios;
mod traces;

use super::{Caerus, Message, Mutant, Options, SequenceId};
use crate::engine::{Answer, Answered, Command, Engine, EngineEffect, Question};
use crate::timers::Alarms;
use crate::trial::executor::Rows;
use crate::trial::{access, conflict};
use base::hash::digest;
use base::order::{Close, CloseTicket, Closed, StreamItem};
use base::rng::Rng;
use base::schema::{MoveHome, SchemaAction, SchemaChange};
use base::time::MS;
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, ClientRequest, Granule, Outcome, Submission, TxnProgram};
use base::wan::Wan;
use base::{Datum, NodeId, PartitionId, Rank, RegionId, SqlError, SqlState, TableId, Time, Token, TxnId};
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
    nodes: Vec<Caerus>,
    alarms: Vec<Alarms>,
    rows: Vec<Rows>,
    /// Clock reading − true time, in ns.
    skews: Vec<i64>,
    now: Time,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    faults: Faults,
    rng: Rng,
    /// Nodes that are down. What a node knew it still knows when it is back.
    dead: BTreeSet<NodeId>,
    /// Of these, those that come back without it.
    forgetful: BTreeSet<NodeId>,
    /// Nodes that have come back without what they knew, whether or not they are whole.
    forgot: BTreeSet<NodeId>,
    options: Options,
    /// Nodes that hear each other only.
    cut_off: BTreeSet<NodeId>,
    lives: u32,
    /// The name of what is submitted next.
    request: Option<ClientRequest>,
    /// Messages for which this says false are lost.
    passes: Box<dyn Fn(NodeId, NodeId, &Message) -> bool>,
    submitted: BTreeMap<TxnId, (Time, Arc<AccessSet>, Rank)>,
    answers: BTreeMap<TxnId, (Time, Answer)>,
    closes: BTreeMap<CloseTicket, (Time, NodeId, Close)>,
    closed: BTreeMap<CloseTicket, (Time, Result<Closed, SqlError>)>,
    /// Readers that find their cut, and what they found. A close of that cut follows at once, under the same ticket.
    finds: BTreeMap<CloseTicket, (Time, NodeId, PartitionId, Vec<Granule>)>,
    found: BTreeMap<CloseTicket, (Time, Rank)>,
    streams: BTreeMap<(NodeId, PartitionId), Vec<StreamItem>>,
    watermarks: Vec<Rank>,
    messages: u64,
    /// A digest of all that nodes have asked of their hosts, in order.
    trace: u64,
}

impl World {
    /// `partitions` per region, one node each region, `perseus3` distances.
    fn new(seed: u64, regions: usize, partitions: u16, clock_bound_ns: u64, options: Options) -> World {
        let wan = Wan::preset("perseus3").unwrap().truncated(regions);
        let mut topology = Topology::one_node_per_region(wan, partitions).replicated();
        topology.clock_bound_ns = clock_bound_ns;
        World::with(seed, topology, options)
    }
    fn with(seed: u64, topology: Topology, options: Options) -> World {
        topology.check();
        let topology = Arc::new(topology);
        let count = topology.nodes.len();
        let mut rng = Rng::new(seed).fork("world");
        // Far more than any delay, where there is no bound.
        let bound = if topology.unbounded_clocks { 900 * MS } else { topology.clock_bound_ns } as i64;
        let skews = (0..count).map(|_| rng.between(-bound, bound)).collect();
        let make = |n| Caerus::new(topology.clone(), n, 1, options.clone());
        let nodes = topology.node_ids().map(make).collect();
        let mut world = World {
            nodes,
            alarms: vec![Alarms::default(); count],
            rows: (0..count).map(|_| Rows::default()).collect(),
            skews,
            topology,
            now: Time::from_ms(1000),
            events: BTreeMap::new(),
            sequence: 0,
            faults: Faults::default(),
            rng,
            dead: BTreeSet::new(),
            forgetful: BTreeSet::new(),
            forgot: BTreeSet::new(),
            options: options.clone(),
            cut_off: BTreeSet::new(),
            lives: 1,
            request: None,
            passes: Box::new(|_, _, _| true),
            submitted: BTreeMap::new(),
            answers: BTreeMap::new(),
            closes: BTreeMap::new(),
            closed: BTreeMap::new(),
            finds: BTreeMap::new(),
            found: BTreeMap::new(),
            streams: BTreeMap::new(),
            watermarks: vec![Rank::ZERO; count],
            messages: 0,
            trace: 0,
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

    fn submit(&mut self, node: u16, text: &str) -> TxnId {
        self.submit_as(node, "update", access(text), Token::default())
    }
    fn submit_as(&mut self, node: u16, name: &str, access: AccessSet, token: Token) -> TxnId {
        let program = TxnProgram::Procedure { name: name.into(), args: vec![Datum::Int(1)] };
        self.submit_program(node, program, access, token)
    }
    fn submit_program(&mut self, node: u16, program: TxnProgram, access: AccessSet, token: Token) -> TxnId {
        let (access, program) = (Arc::new(access), Arc::new(program));
        let seen = token.rank;
        let submission = Submission { program, access: access.clone(), token, request: self.request.take() };
        let mut out = Vec::new();
        let clock = self.clock(NodeId(node));
        let n = node as usize;
        let txn = self.nodes[n].submit(clock, submission, &mut self.rows[n], &mut out);
        self.submitted.insert(txn, (self.now, access, seen));
        self.effects(NodeId(node), out);
        txn
    }
    /// An attempt of a client's request.
    fn attempt(&mut self, node: u16, request: ClientRequest, text: &str) -> TxnId {
        self.request = Some(request);
        self.submit(node, text)
    }
    /// Moves a partition's home.
    fn move_home(&mut self, node: u16, partition: u16, to: u16) -> Result<TxnId, SqlError> {
        let (clock, n, mut out) = (self.clock(NodeId(node)), usize::from(node), Vec::new());
        let (partition, to) = (PartitionId(partition), RegionId(to));
        let command = Command::MoveHome { partition, to };
        let result = self.nodes[n].admin(clock, command, &mut self.rows[n], &mut out);
        self.effects(NodeId(node), out);
        result
    }
    /// Moves a table of some partitions, as a change of the catalog does.
    fn move_table(&mut self, node: u16, table: TableId, partitions: &[u16], to: u16) -> TxnId {
        let (program, access) = moving(table, partitions, to);
        self.submit_program(node, program, access, Token::default())
    }
    /// A name for a request.
    fn named(&mut self) -> ClientRequest {
        ClientRequest { client: 7, number: self.rng.below(u64::MAX), issued_at: self.now }
    }
    /// Closes at the copy that lies nearest to `reader`.
    fn close(&mut self, ticket: u64, reader: u16, partition: u16, rank: Rank, granules: Vec<Granule>) {
        let partition = PartitionId(partition);
        let node = self.topology.copy_near(partition, NodeId(reader));
        let (ticket, clock) = (CloseTicket(ticket), self.clock(node));
        let close = Close { partition, rank, granules };
        self.closes.insert(ticket, (self.now, node, close.clone()));
        if node != NodeId(reader) {
            self.will_close(reader, partition, rank);
        }
        self.ask_at(node, clock, Question::Close { ticket, close });
    }

    fn ask_at(&mut self, node: NodeId, clock: Time, question: Question) -> Option<Answered> {
        let (n, mut out) = (usize::from(node.0), Vec::new());
        let answered = self.nodes[n].ask(clock, question, &mut self.rows[n], &mut out);
        self.effects(node, out);
        answered.expect("this engine answers that")
    }

    /// Finds a cut at the copy that lies nearest to `reader`, and closes it there.
    fn find(&mut self, ticket: u64, reader: u16, partition: u16, granules: Vec<Granule>) {
        let partition = PartitionId(partition);
        let node = self.topology.copy_near(partition, NodeId(reader));
        let (ticket, clock) = (CloseTicket(ticket), self.clock(node));
        self.finds.insert(ticket, (self.now, node, partition, granules.clone()));
        self.ask_at(node, clock, Question::Latest { ticket, partition, granules });
    }

    /// A reader's question is about to leave for the nearest copy.
    fn will_close(&mut self, reader: u16, partition: PartitionId, rank: Rank) {
        let reader = NodeId(reader);
        self.ask_at(reader, self.clock(reader), Question::WillClose { partition, rank });
    }

    fn effects(&mut self, node: NodeId, out: Vec<EngineEffect<Message>>) {
        for effect in out {
            let said = match &effect {
                EngineEffect::Send { .. } => None,
                EngineEffect::Answered { ticket, result: Ok(Answered::Rank(rank)) } => {
                    Some(format!("latest {ticket:?} {rank:?}"))
                }
                EngineEffect::Answered { ticket, result } => {
                    let result = result.as_ref().map(|answered| match answered {
                        Answered::Closed(closed) => *closed,
                        other => panic!("{other:?}"),
                    });
                    Some(format!("closed {ticket:?} {result:?}"))
                }
                other => Some(format!("{other:?}")),
            };
            if let Some(said) = said {
                self.trace = digest(&(self.trace, node, self.now, said));
            }
            match effect {
                EngineEffect::Send { to, message } => self.send(node, to, message),
                EngineEffect::Answer(answer) => {
                    let told = self.answers.insert(answer.submitted_as, (self.now, answer));
                    assert!(told.is_none(), "answered twice: {told:?}");
                }
                EngineEffect::Stream { partition, item } => {
                    self.streams.entry((node, partition)).or_default().push(item)
                }
                EngineEffect::Answered { ticket, result: Ok(Answered::Rank(rank)) } => {
                    let told = self.found.insert(ticket, (self.now, rank));
                    assert!(told.is_none(), "found twice: {told:?}");
                    let (_, node, partition, granules) = self.finds[&ticket].clone();
                    self.close(ticket.0, node.0, partition.0, rank, granules);
                }
                EngineEffect::Answered { ticket, result } => {
                    let result = result.map(|answered| match answered {
                        Answered::Closed(closed) => closed,
                        other => panic!("{ticket:?} is told {other:?}"),
                    });
                    let told = self.closed.insert(ticket, (self.now, result));
                    assert!(told.is_none(), "closed twice: {told:?}");
                }
                EngineEffect::Restored => self.restored(node),
                EngineEffect::Collected { below } => {
                    let known = &mut self.watermarks[node.0 as usize];
                    assert!(*known < below, "the watermark only grows");
                    *known = below;
                }
            }
        }
        self.arm(node);
    }
    /// Sets an alarm for when a node wants to be woken.
    fn arm(&mut self, node: NodeId) {
        let n = usize::from(node.0);
        if let Some(alarm) = self.alarms[n].arm(self.nodes[n].next_wake()) {
            let at = Time((alarm.0 as i64 - self.skews[n]).max(self.now.0 as i64) as u64);
            self.schedule(at, Event::Wake { node, alarm });
        }
    }
    fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        assert_ne!(from, to, "a node talks to itself without the network");
        self.messages += 1;
        let cut = self.cut_off.contains(&from) != self.cut_off.contains(&to);
        if cut || !(self.passes)(from, to, &message) || self.rng.chance(self.faults.loss) {
            return;
        }
        let copies = if self.rng.chance(self.faults.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let jitter_ns = self.rng.below(self.faults.jitter_ns + 1);
            let at = self.now + self.topology.one_way_ns(from, to) + jitter_ns;
            let bytes = base::codec::encode(&message);
            self.trace = digest(&(self.trace, from, to, self.now, &bytes));
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
        let (Event::Message { to: at, .. } | Event::Wake { node: at, .. }) = &event;
        if self.dead.contains(at) {
            return true;
        }
        let node = match event {
            Event::Message { to, from, message } => {
                let (clock, n) = (self.clock(to), to.0 as usize);
                self.nodes[n].message(clock, from, message, &mut self.rows[n], &mut out);
                to
            }
            Event::Wake { node, alarm } => {
                let (clock, n) = (self.clock(node), node.0 as usize);
                self.alarms[n].went_off(alarm);
                self.nodes[n].wake(clock, &mut self.rows[n], &mut out);
                node
            }
        };
        self.effects(node, out);
        true
    }
    fn nodes_of(&self, region: u16) -> BTreeSet<NodeId> {
        let nodes = self.topology.node_ids();
        nodes.filter(|node| self.topology.region_of(*node).0 == region).collect()
    }
    fn kill(&mut self, region: u16) {
        let nodes = self.nodes_of(region);
        self.dead.extend(nodes);
    }
    /// Everybody who is down comes back with what it knew, and all links work again.
    fn heal(&mut self) {
        self.cut_off.clear();
        for node in std::mem::take(&mut self.dead) {
            self.lives += 1;
            let is_its = |event: &Event| matches!(event, Event::Wake { node: at, .. } if *at == node);
            self.events.retain(|_, event| !is_its(event));
            self.alarms[usize::from(node.0)] = Alarms::default();
            let mut out = Vec::new();
            let clock = self.clock(node);
            if self.forgetful.remove(&node) {
                self.forget(node);
                self.nodes[node.0 as usize].start(clock, &mut out);
            } else {
                self.nodes[node.0 as usize].resume(clock, self.lives, &mut out);
            }
            self.effects(node, out);
        }
    }
    /// A region is lost with all it knew.
    fn lose(&mut self, region: u16) {
        let nodes = self.nodes_of(region);
        self.forgetful.extend(&nodes);
        self.dead.extend(nodes);
    }
    /// What a node knew is gone, and whoever it had to do with.
    fn forget(&mut self, node: NodeId) {
        let n = node.0 as usize;
        self.nodes[n] = Caerus::rejoining(self.topology.clone(), node, self.lives, self.options.clone());
        self.rows[n] = Rows::default();
        self.watermarks[n] = Rank::ZERO;
        self.streams.retain(|(at, _), _| *at != node);
        let gone: Vec<CloseTicket> =
            self.closes.iter().filter(|(_, (_, at, _))| *at == node).map(|(ticket, _)| *ticket).collect();
        for ticket in gone {
            self.closes.remove(&ticket);
            self.closed.remove(&ticket);
        }
        self.forgot.insert(node);
    }
    /// A node is whole again: what it has executed is what its donor had.
    fn restored(&mut self, node: NodeId) {
        assert!(self.forgot.contains(&node) && !self.streams.keys().any(|(at, _)| *at == node));
    }
    /// A transaction whose gateway lost its memory before it could answer.
    fn is_forgotten(&self, txn: TxnId) -> bool {
        self.forgot.contains(&txn.coordinator)
            && txn.incarnation < self.nodes[txn.coordinator.0 as usize].life.born()
    }
    fn cut_off(&mut self, region: u16) {
        let nodes = self.nodes_of(region);
        self.cut_off.extend(nodes);
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
    /// Whether its client knows how a transaction ended. Who is told that a region is not available does not.
    fn has_ended(&self, txn: &TxnId) -> bool {
        let silent = [SqlState::CANNOT_CONNECT_NOW, SqlState::TRANSACTION_RESOLUTION_UNKNOWN];
        let is_silent =
            |outcome: &Outcome| matches!(outcome, Outcome::Aborted(e) if silent.contains(&e.state));
        self.answers.get(txn).is_some_and(|(_, answer)| !is_silent(&answer.outcome))
    }
    fn latency_ms(&self, txn: TxnId) -> f64 {
        self.answers[&txn].0.since(self.submitted[&txn].0) as f64 / MS as f64
    }
    /// The order in which transactions executed at a node's copy of a partition.
    fn order(&self, node: u16, partition: u16) -> Vec<TxnId> {
        let log = self.rows[node as usize].log.iter();
        log.filter(|entry| entry.partition.0 == partition).map(|entry| entry.txn).collect()
    }
    /// Nothing is kept of transactions that have ended long ago.
    fn check_empty(&mut self) {
        for node in &mut self.nodes {
            assert_eq!(node.vertex_count(), 0);
            assert!(node.merger.is_settled() && node.gateway.is_empty() && node.scheduler.is_empty());
            assert!(node.outcomes.is_empty());
            assert!(node.readers.is_empty());
            assert!(node.logs.is_empty());
            for sequence in (0..node.logs.len() as u16).map(SequenceId) {
                let words = node.logs.seen(sequence).words();
                assert!(words < node.cluster.topology.nodes.len() + self.lives as usize);
            }
            let graph = node.merger.graph();
            node.residences.forget_now(&|at| graph.get(at).is_some());
            assert_eq!(node.granule_count(), 0);
        }
    }
    fn check_invariants(&self) {
        self.nodes.iter().for_each(Caerus::check_invariants);
    }
}

/// A change of the catalog that moves a table, over all of these partitions.
fn moving(table: TableId, partitions: &[u16], to: u16) -> (TxnProgram, AccessSet) {
    let mut access = AccessSet::default();
    let partitions: Vec<PartitionId> = partitions.iter().copied().map(PartitionId).collect();
    partitions.iter().for_each(|p| access.add(*p, Granule::Partition, AccessMode::Write));
    let moved = MoveHome { table, ids: vec![table], partitions, to: RegionId(to) };
    (
        TxnProgram::Schema(SchemaChange { base_version: 0, actions: vec![SchemaAction::MoveHome(moved)] }),
        access,
    )
}

fn planted(mutant: Mutant) -> Options {
    Options { mutant: Some(mutant), ..Options::default() }
}
