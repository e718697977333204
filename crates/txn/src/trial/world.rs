//! A small world for an engine: nodes, clocks within their bound, links that lose, repeat and reorder, and a record of
//! everything that has to agree afterwards.
//!
//! IN: an engine's nodes ([`Subject`]), faults, what clients and readers ask. OUT: what they were answered, what was
//! streamed, a digest of all that nodes said. KEEPS: the same seed and the same calls give the same world. What only one
//! engine's tests need stands with them, as further methods of their world.

use super::disk::{Disks, Habits};
use super::executor::{Entry, Rows};
use crate::engine::{Answer, Answered, Engine, EngineEffect, Question, Unanswered};
use crate::timers::Alarms;
use base::hash::digest;
use base::order::{Close, CloseTicket, Closed, StreamItem};
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::txn::{AccessSet, ClientRequest, Granule, Submission};
use base::{NodeId, PartitionId, Rank, SqlError, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An engine that can be put into a world.
pub trait Subject: Engine + Sized {
    type Options: Clone;
    /// The world keeps a digest of what its nodes say.
    const IS_TRACED: bool;
    /// Whether a node goes on before whoever follows its logs needs a copy.
    const FALLS_OUT: bool = false;
    /// The node `me` in its first life.
    fn make(topology: Arc<Topology>, me: NodeId, options: Self::Options) -> Self;
    /// The same in a later life, before it takes what its disk has.
    fn reborn(_: Arc<Topology>, _: NodeId, _incarnation: u32, _: Self::Options) -> Self {
        panic!("this engine keeps no records")
    }
    /// The same of a node that was not there when the cluster was made.
    fn joining(_: Arc<Topology>, _: NodeId, _incarnation: u32, _: Self::Options) -> Self {
        panic!("nobody joins a cluster of this engine")
    }
    /// The same of a node that has lost its disk, before it takes what the new one has.
    fn replaced(_: Arc<Topology>, _: NodeId, _incarnation: u32, _: Self::Options) -> Self {
        panic!("this engine keeps no records")
    }
}

/// Faults of the links.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplication: f64,
    /// Up to this much is added to each delay, in ns.
    pub jitter_ns: u64,
}

pub enum Event<M> {
    Message {
        to: NodeId,
        from: NodeId,
        message: M,
    },
    /// With the node's time for it.
    Wake {
        node: NodeId,
        alarm: Time,
    },
    /// It has something left to do.
    GoOn {
        node: NodeId,
    },
    /// So many of a node's records are stable, in this life.
    Synced {
        node: NodeId,
        life: u32,
        records: usize,
    },
    /// A node that crashed comes back; and then starts.
    Restart {
        node: NodeId,
    },
    Start {
        node: NodeId,
    },
}

/// A call of an engine.
#[derive(Clone)]
pub enum Call<M> {
    Submit(Submission),
    Message(NodeId, M),
    Wake,
}

/// Messages for which this says false are lost.
pub type Passes<M> = Box<dyn FnMut(NodeId, NodeId, &M) -> bool>;

pub struct World<E: Subject> {
    pub topology: Arc<Topology>,
    pub nodes: Vec<E>,
    pub alarms: Vec<Alarms>,
    pub rows: Vec<Rows>,
    /// Clock reading − true time, in ns.
    pub skews: Vec<i64>,
    pub now: Time,
    pub events: BTreeMap<(Time, u64), Event<E::Message>>,
    sequence: u64,
    pub faults: Faults,
    pub rng: Rng,
    pub options: E::Options,
    /// Nodes that are down. What a node knew it still knows when it is back.
    pub dead: BTreeSet<NodeId>,
    /// Of these, those that come back without it.
    pub forgetful: BTreeSet<NodeId>,
    /// Nodes that have come back without what they knew, whether or not they are whole.
    pub forgot: BTreeSet<NodeId>,
    pub lives: u32,
    /// Nodes that hear each other only.
    pub cut_off: BTreeSet<NodeId>,
    pub passes: Passes<E::Message>,
    /// The name of what is submitted next.
    pub request: Option<ClientRequest>,
    pub submitted: BTreeMap<TxnId, (Time, Arc<AccessSet>, Rank)>,
    /// Submissions that repeat an earlier request.
    pub repeats: BTreeSet<TxnId>,
    pub answers: BTreeMap<TxnId, (Time, Answer)>,
    pub closes: BTreeMap<CloseTicket, (Time, NodeId, Close)>,
    pub closed: BTreeMap<CloseTicket, (Time, Result<Closed, SqlError>)>,
    /// Readers that find their cut, and what they found. A close of that cut follows at once, under the same ticket.
    pub finds: BTreeMap<CloseTicket, (Time, NodeId, PartitionId, Vec<Granule>)>,
    pub found: BTreeMap<CloseTicket, (Time, Rank)>,
    /// Of nodes with disks: cuts that readers were told to be closed, and what had executed there then; in all lives.
    pub shown: Vec<(Close, BTreeSet<TxnId>)>,
    /// Of nodes with disks: what they had executed when they crashed; and what of that was not there when whoever follows
    /// their logs could get a copy again.
    pub former: BTreeMap<(TxnId, PartitionId), Entry>,
    pub lacking: Vec<(NodeId, TxnId)>,
    pub streams: BTreeMap<(NodeId, PartitionId), Vec<StreamItem>>,
    pub watermarks: Vec<Rank>,
    pub messages: u64,
    /// A digest of all that nodes have asked of their hosts, in order.
    pub trace: u64,
    /// Every call of one node, in order.
    #[allow(clippy::type_complexity)]
    pub recorded: Option<(NodeId, Vec<(Time, Call<E::Message>)>)>,
    /// Counts what clients want done.
    pub wishes: i64,
    /// Where nodes keep what they record.
    pub disks: Option<Disks<E::Message>>,
}

impl<E: Subject> World<E> {
    pub fn with(seed: u64, topology: Topology, options: E::Options) -> World<E> {
        World::with_disks(seed, topology, options, None)
    }
    pub fn with_disks(
        seed: u64,
        topology: Topology,
        options: E::Options,
        habits: Option<Habits>,
    ) -> World<E> {
        topology.check();
        let topology = Arc::new(topology);
        let count = topology.nodes.len();
        let mut rng = Rng::new(seed).fork("world");
        // Far more than any delay, where there is no bound.
        let bound = if topology.unbounded_clocks { 900 * MS } else { topology.clock_bound_ns } as i64;
        let skews = (0..count).map(|_| rng.between(-bound, bound)).collect();
        let nodes = topology.node_ids().map(|n| E::make(topology.clone(), n, options.clone())).collect();
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
            options,
            dead: BTreeSet::new(),
            forgetful: BTreeSet::new(),
            forgot: BTreeSet::new(),
            lives: 1,
            cut_off: BTreeSet::new(),
            passes: Box::new(|_, _, _| true),
            request: None,
            submitted: BTreeMap::new(),
            repeats: BTreeSet::new(),
            answers: BTreeMap::new(),
            closes: BTreeMap::new(),
            closed: BTreeMap::new(),
            finds: BTreeMap::new(),
            found: BTreeMap::new(),
            shown: Vec::new(),
            former: BTreeMap::new(),
            lacking: Vec::new(),
            streams: BTreeMap::new(),
            watermarks: vec![Rank::ZERO; count],
            messages: 0,
            trace: 0,
            recorded: None,
            wishes: 0,
            disks: habits.map(|habits| Disks::new(seed, count, habits)),
        };
        for n in 0..count {
            let mut out = Vec::new();
            let clock = world.clock(NodeId(n as u16));
            world.nodes[n].start(clock, &mut out);
            world.effects(NodeId(n as u16), out);
        }
        world
    }

    // ---- time -------------------------------------------------------------------------------------

    pub fn clock(&self, node: NodeId) -> Time {
        Time((self.now.0 as i64 + self.skews[node.0 as usize]) as u64)
    }
    pub fn schedule(&mut self, at: Time, event: Event<E::Message>) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }
    /// Handles the next event; false if there is none before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= until) else {
            return false;
        };
        let ((at, _), event) = entry.remove_entry();
        self.now = at;
        let node = match &event {
            Event::Message { to: node, .. } | Event::Wake { node, .. } | Event::GoOn { node } => *node,
            Event::Synced { node, life, records } => {
                self.on_synced(*node, *life, *records);
                return true;
            }
            Event::Restart { node } => {
                self.restart(*node);
                return true;
            }
            Event::Start { node } => {
                self.start_again(*node);
                return true;
            }
        };
        if self.dead.contains(&node) {
            return true;
        }
        let (clock, n, mut out) = (self.clock(node), usize::from(node.0), Vec::new());
        match event {
            Event::Message { from, message, .. } => {
                self.record(node, clock, || Call::Message(from, message.clone()));
                self.nodes[n].message(clock, from, message, &mut self.rows[n], &mut out);
            }
            Event::Wake { alarm, .. } => {
                self.alarms[n].went_off(alarm);
                self.record(node, clock, || Call::Wake);
                self.nodes[n].wake(clock, &mut self.rows[n], &mut out);
            }
            Event::GoOn { .. } => {
                self.alarms[n].went_on();
                self.record(node, clock, || Call::Wake);
                self.nodes[n].wake(clock, &mut self.rows[n], &mut out);
            }
            Event::Synced { .. } | Event::Restart { .. } | Event::Start { .. } => unreachable!("see above"),
        }
        self.effects(node, out);
        true
    }
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = until;
    }
    pub fn run_for_ms(&mut self, ms: u64) {
        self.run_until(self.now + ms * MS);
    }

    // ---- clients and readers ----------------------------------------------------------------------

    pub fn hand_in(&mut self, node: u16, submission: Submission) -> TxnId {
        let (access, seen) = (submission.access.clone(), submission.token.rank);
        let (clock, n, mut out) = (self.clock(NodeId(node)), usize::from(node), Vec::new());
        self.record(NodeId(node), clock, || Call::Submit(submission.clone()));
        let txn = self.nodes[n].submit(clock, submission, &mut self.rows[n], &mut out);
        self.submitted.insert(txn, (self.now, access, seen));
        self.effects(NodeId(node), out);
        txn
    }
    /// Closes a cut at a node that has the partition.
    pub fn close_at(&mut self, ticket: CloseTicket, node: NodeId, close: Close) {
        self.closes.insert(ticket, (self.now, node, close.clone()));
        let answered = self.ask_at(node, self.clock(node), Question::Close { ticket, close });
        assert_eq!(answered, Ok(None), "the answer is an effect");
    }
    pub fn ask_at(
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
    pub fn answer(&self, txn: TxnId) -> &Answer {
        &self.answers.get(&txn).unwrap_or_else(|| panic!("{txn} is not answered")).1
    }

    // ---- nodes and links --------------------------------------------------------------------------

    fn record(&mut self, node: NodeId, clock: Time, call: impl FnOnce() -> Call<E::Message>) {
        if let Some((_, calls)) = self.recorded.as_mut().filter(|(recorded, _)| *recorded == node) {
            calls.push((clock, call()));
        }
    }
    pub fn effects(&mut self, node: NodeId, out: Vec<EngineEffect<E::Message>>) {
        if self.disks.is_some() {
            return self.effects_on_disk(node, out);
        }
        out.into_iter().for_each(|effect| self.tell(node, effect));
        self.arm(node);
    }
    pub(super) fn tell(&mut self, node: NodeId, effect: EngineEffect<E::Message>) {
        if E::IS_TRACED {
            self.note(node, &effect);
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
                self.close_at(ticket, node, Close { partition, rank, granules });
            }
            EngineEffect::Answered { ticket, result } => {
                let result = result.map(|answered| answered.closed().expect("it was asked to close"));
                if result.is_ok() && self.disks.is_some() {
                    let close = self.closes[&ticket].2.clone();
                    let log = self.rows[usize::from(node.0)].log.iter();
                    let here = log.filter(|entry| entry.partition == close.partition);
                    self.shown.push((close.clone(), here.map(|entry| entry.txn).collect()));
                }
                let told = self.closed.insert(ticket, (self.now, result));
                assert!(told.is_none(), "closed twice: {told:?}");
            }
            // What it has executed is what its donor had.
            EngineEffect::Restored => {
                if E::FALLS_OUT {
                    self.forgot.insert(node);
                    self.streams.retain(|(at, _), _| *at != node);
                }
                assert!(self.forgot.contains(&node) && !self.streams.keys().any(|(at, _)| *at == node));
                let rows = &self.rows[usize::from(node.0)];
                let here: BTreeSet<_> = rows.log.iter().map(|entry| (entry.txn, entry.partition)).collect();
                let former = self.former.keys().filter(|(_, p)| self.topology.node_of(*p) == node);
                let lacking = former.filter(|entry| !here.contains(entry)).map(|(txn, _)| (node, *txn));
                self.lacking.extend(lacking);
            }
            EngineEffect::Collected { below } => {
                let known = &mut self.watermarks[node.0 as usize];
                assert!(*known < below, "the watermark only grows");
                *known = below;
            }
            EngineEffect::Record(_) => {}
        }
    }
    fn note(&mut self, node: NodeId, effect: &EngineEffect<E::Message>) {
        let said = match effect {
            EngineEffect::Send { .. } => return,
            EngineEffect::Answered { ticket, result: Ok(Answered::Rank(rank)) } => {
                format!("latest {ticket:?} {rank:?}")
            }
            EngineEffect::Answered { ticket, result } => {
                let result =
                    result.as_ref().map(|answered| answered.closed().expect("it was asked to close"));
                format!("closed {ticket:?} {result:?}")
            }
            other => format!("{other:?}"),
        };
        self.trace = digest(&(self.trace, node, self.now, said));
    }
    /// Sets an alarm for when a node wants to be woken.
    pub fn arm(&mut self, node: NodeId) {
        let n = usize::from(node.0);
        if let Some(alarm) = self.alarms[n].arm(self.nodes[n].next_wake()) {
            let at = Time((alarm.0 as i64 - self.skews[n]).max(self.now.0 as i64) as u64);
            self.schedule(at, Event::Wake { node, alarm });
        }
        if self.alarms[n].go_on(self.nodes[n].goes_on()) {
            // Behind whatever waits for the node.
            let waits_ns = match self.rows[n].pauses_max {
                0 => 0,
                _ => digest(&(self.now, node)) % (self.faults.jitter_ns + 1),
            };
            self.schedule(self.now + waits_ns, Event::GoOn { node });
        }
    }
    pub fn send(&mut self, from: NodeId, to: NodeId, message: E::Message) {
        assert_ne!(from, to, "a node talks to itself without the network");
        self.messages += 1;
        let is_cut = self.cut_off.contains(&from) != self.cut_off.contains(&to);
        if is_cut || !(self.passes)(from, to, &message) || self.rng.chance(self.faults.loss) {
            return;
        }
        let copies = if self.rng.chance(self.faults.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let jitter_ns = self.rng.below(self.faults.jitter_ns + 1);
            let at = self.now + self.topology.one_way_ns(from, to) + jitter_ns;
            let bytes = base::codec::encode(&message);
            if E::IS_TRACED {
                self.trace = digest(&(self.trace, from, to, self.now, &bytes));
            }
            let message = base::codec::decode(&bytes).expect("what is written is read");
            self.schedule(at, Event::Message { to, from, message });
        }
    }
}
