//! The node itself: routes events to the engine, the readers and the stores, and their effects out.
//!
//! IN: [`Event`]s. OUT: [`Effect`](base::process::Effect)s. KEEPS: a record reaches local columns before
//! any reader is told that its partition has closed over it; a request gets exactly one reply; a cut in
//! use is a floor for collection.
//!
//! | part | owns |
//! |---|---|
//! | [`Reads`] | reads under way, pins, floors, the rule of each level |
//! | [`Columns`] | column copies, the dependency graph, how far each copy is |
//! | [`Data`] | rows, of its partitions and of replicas |
//! | [`Streams`] | order streams to and from other nodes |
//! | [`Questions`] | what was asked, here and elsewhere, and is not answered |
//! | [`Gateway`] | transactions of local clients |
//! | [`RemoteLocks`] | row locks between regions |
//! | `Watch` | this node's clock beside others' |
//! | `Told` | what the engine has said of itself, a checkpoint that is written or taken |
//!
//! The files here join them: each says what one kind of event leads to.

mod announcing;
mod asking;
mod calibrating;
mod clock;
mod copying;
mod gathering;
mod locking;
mod options;
mod ordering;
mod reading;
mod recording;
mod rejoining;
mod replicating;
mod scanning;
mod status;
mod streaming;

#[cfg(feature = "mutants")]
pub use options::Mutants;
pub use options::{Kept, Options, Steps, Streaming};
pub use reads::rule::levels::{choice_at, rests_on_clocks};

use crate::clocks::ClockMonitor;
use crate::columns::{Columns, Here};
use crate::data::Data;
use crate::durable::Replicable;
use crate::gateway::Gateway;
use crate::locks::RemoteLocks;
use crate::message::{AnswerBody, Life, Message, Question, QuestionId, ScanRequest, Scanned, Timer};
use crate::questions::Questions;
use crate::read::goal::Goal;
use crate::read::under_way::Reads;
use crate::read::{Read, ReadId};
use crate::replicas::Replicas;
use crate::request::*;
use crate::streams::{Outgoing, Streams};
use base::process::{Effects, Event, Process, Published};
use base::time::MS;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{Granule, Submission};
use base::{NodeId, PartitionId, Rank, RegionId, RequestId, SqlError, SqlState, TableId, Time, Token, TxnId};
use colstore::{ColumnStore, MergedSegment};
use reads::graph::DependencyGraph;
use reads::protocol::ReadProtocol;
use reads::replica::tracker::Memory;
use reads::rule::levels::Levels;
use reads::rule::{Mutant, View};
use reads::share::Reuse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use txn::engine::{Answer, Engine, EngineEffect, EngineEffects};

/// One server.
pub struct Node<E: Engine> {
    id: NodeId,
    topology: Arc<Topology>,
    options: Options,
    engine: E,
    data: Data,
    columns: Columns,
    streams: Streams,
    questions: Questions,
    reads: Reads,
    /// How the cluster's nodes read together.
    protocol: Box<dyn ReadProtocol>,
    gateway: Gateway,
    locks: RemoteLocks,
    watch: Option<clock::Watch>,
    messages_sent: u64,
    /// What the engine has said of itself.
    told: ordering::Told<E>,
}

impl<E: Engine> Node<E> {
    /// A node in its first event's state. `engine` must have been made for the same id and topology.
    pub fn new(
        id: NodeId,
        topology: Arc<Topology>,
        procedures: Arc<Procedures>,
        engine: E,
        options: Options,
    ) -> Node<E> {
        topology.check();
        let protocol = options.protocol(id, &topology);
        let planted = options.planted();
        let levels = Levels::new(&topology, options.dynamic, planted);
        let monitor = options.clocks.and_then(|clocks| ClockMonitor::new(&topology, id, clocks));
        let reuse = match planted {
            Some(Mutant::JoinFetchUnderWay) => Reuse::LateArrivals,
            _ => Reuse::Strict,
        };
        let replicas = Replicas::new(id, &topology, &procedures, options.kept.rows, reuse);
        let data = Data::new(topology.clone(), procedures, topology.copies_at(id))
            .in_steps_of(options.steps.units)
            .following(replicas);
        #[cfg(feature = "mutants")]
        let data = data.with_mutant(options.mutants.rows);
        Node {
            data,
            columns: Columns::new(id, &topology, &options, protocol.hears_of_all()),
            streams: Streams::new(id, &topology),
            questions: Questions::default(),
            reads: Reads::new(levels, planted == Some(Mutant::CalibrateBeforeArrival)),
            protocol,
            gateway: Gateway::default(),
            locks: RemoteLocks::default(),
            watch: monitor.map(clock::Watch::new),
            messages_sent: 0,
            told: ordering::Told::default(),
            id,
            topology,
            options,
            engine,
        }
    }

    /// Partitions of this node publish in this memory what reads at replicas in other processes look up. For a node that has
    /// not begun; its partitions' trackers are as large as [`Kept::tracker`] says.
    pub fn publishing_in(mut self, lent: BTreeMap<PartitionId, Arc<dyn Memory>>) -> Node<E> {
        self.data.replicas.trackers.publish_in(lent);
        self
    }

    pub fn id(&self) -> NodeId {
        self.id
    }
    pub fn engine(&self) -> &E {
        &self.engine
    }
    /// The rows of a partition of this node, for replica agreement checks.
    pub fn store(&self, partition: PartitionId) -> &rowstore::Store {
        self.data.store(partition)
    }
    /// The rows that are kept here of a partition that runs elsewhere.
    pub fn replica(&self, partition: PartitionId) -> Option<&rowstore::Store> {
        self.data.replicas.store(partition)
    }
    /// Questions that reads at replicas of this node have asked partitions so far.
    pub fn fetches_sent(&self) -> u64 {
        self.data.replicas.fetches_sent
    }
    /// Those of them that were answered by what partitions have published, without a step of theirs.
    pub fn fetches_loaded(&self) -> u64 {
        self.data.replicas.fetches_loaded
    }
    /// The catalog as of the last change executed here.
    pub fn catalog(&self) -> Arc<base::schema::Catalog> {
        self.data.catalog()
    }
    /// Whether [`Node::catalog`] is still this one.
    pub fn has_catalog(&self, known: &Arc<base::schema::Catalog>) -> bool {
        self.data.has_catalog(known)
    }
    /// Messages that the engine has refused because no correct node sends them, by sender and reason.
    pub fn refused_messages(&self) -> BTreeMap<(NodeId, &'static str), u64> {
        self.engine.report().refused_messages
    }
    /// How each region is, as far as this node can tell.
    pub fn regions(&self) -> Vec<RegionHealth> {
        let is_out = self.watch.as_ref().is_some_and(|watch| watch.out.is_some());
        let mut regions = self.engine.report().regions;
        let here = self.topology.region_of(self.id);
        if let Some(own) = regions.iter_mut().find(|health| is_out && health.region == here) {
            own.state = RegionState::Fenced;
        }
        regions
    }
    pub fn columns(&self) -> &ColumnStore {
        self.columns.store()
    }
    /// Whether the columns here have everything up to this rank, of every partition that they are kept of.
    pub fn is_complete_to(&self, rank: Rank) -> bool {
        self.subscribed().iter().all(|p| self.columns.complete(*p).is_some_and(|low| low >= rank))
    }

    /// Partitions whose columns are kept here.
    fn subscribed(&self) -> &[PartitionId] {
        &self.topology.nodes[self.id.0 as usize].subscribes
    }
    fn subscribes(&self, partition: PartitionId) -> bool {
        self.subscribed().contains(&partition)
    }
    /// What is here, as rules of reading see it.
    fn here(&self) -> Here<'_> {
        Here { columns: &self.columns, data: &self.data, least_cut: self.told.least_cut }
    }

    // ---- requests ---------------------------------------------------------------------------------

    fn request(&mut self, now: Time, id: RequestId, request: Request, out: &mut Effects<Self>) {
        match request {
            Request::Submit(submission) => self.submit(now, id, submission, out),
            Request::MoveHome { partition, to } => self.move_home(now, id, (partition, to), out),
            Request::ReadRows(read) => self.read_rows(now, id, read, self.options.kept.policy, out),
            Request::ReadRowsUnder { policy, read } => self.read_rows(now, id, read, policy, out),
            Request::Call(call) => self.read(now, id, Goal::Call(call), out),
            Request::OpenSnapshot(open) => self.read(now, id, Goal::Columns(open), out),
            Request::Pin { consistency, token } => {
                self.read(now, id, Goal::Pin { level: consistency, token }, out)
            }
            Request::Unpin(pin) => {
                if self.reads.unpin(pin) {
                    self.tell_floor();
                }
                out.reply(id, Reply::Unpinned);
            }
            Request::Catalog => out.reply(id, Reply::Catalog(self.data.catalog())),
            Request::CountRows(table) => out.reply(id, Reply::RowCount(self.data.row_count(table))),
            Request::Status => out.reply(id, Reply::Status(Box::new(self.status(now)))),
            Request::LockRows(lock) => self.lock_rows(now, id, lock, out),
            Request::UnlockRows { home, owner } => {
                self.unlock_rows(home, owner, out);
                out.reply(id, Reply::Noted);
            }
            Request::HandOver => self.hand_over(now, id, out),
            Request::ServeLocks { begins } => self.serve_locks(id, begins, out),
            Request::LockServed { name, result } => {
                self.lock_served(now, name, result, out);
                out.reply(id, Reply::Noted);
            }
        }
    }

    fn check_token(&self, now: Time, token: &Token) -> Result<(), SqlError> {
        // What is not named comes from this process itself.
        if token.incarnation.is_named() {
            token.check(self.options.incarnation)?;
        }
        let latest = self.topology.latest_rank(now, self.options.token_ahead_max_ns);
        if token.rank > latest {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("token {} lies in the future", token.rank),
            )
            .detail(format!("This node accepts tokens up to {latest}."))
            .hint("Use a token that SHOW meridian.token returned in this cluster."));
        }
        Ok(())
    }

    fn send(&mut self, to: NodeId, message: Message<E::Message>, out: &mut Effects<Self>) {
        debug_assert_ne!(to, self.id, "what stays here takes no message");
        self.messages_sent += 1;
        out.send(to, message);
    }

    fn send_all(&mut self, to: Vec<NodeId>, message: Message<E::Message>, out: &mut Effects<Self>) {
        debug_assert!(!to.contains(&self.id), "what stays here takes no message");
        self.messages_sent += to.len() as u64;
        out.send_all(to, message);
    }

    // ---- timers -----------------------------------------------------------------------------------

    fn timer(&mut self, now: Time, timer: Timer, out: &mut Effects<Self>) {
        match timer {
            Timer::Engine(at) => self.wake_engine(now, Some(at), out),
            Timer::EngineOn => self.wake_engine(now, None, out),
            Timer::Repeat { question } => self.repeat(now, question, out),
            Timer::Scan { scan } => self.repeat_scan(now, scan, out),
            Timer::ReadOn => self.read_on(now, out),
            Timer::StreamOn => self.stream_on(now, out),
            Timer::Fetch { partitions } => self.fetch_again(now, partitions, out),
            Timer::FallBack => self.fall_back_late(now, out),
            Timer::Calibrate { partition } => self.calibrate_again(now, partition, out),
            Timer::Flush => {
                self.streams.flush_armed = false;
                self.flush(now, out);
            }
            Timer::Ack => {
                let streams = std::mem::take(&mut self.streams.unacknowledged);
                streams.into_iter().for_each(|partition| self.acknowledge(partition, out));
            }
            Timer::Resend => {
                self.streams.resend_armed = false;
                self.send_batches(now, true, out);
                if !self.streams.is_settled() {
                    self.streams.resend_armed = true;
                    out.timer(Timer::Resend, now + streaming::RESEND_NS);
                }
            }
            Timer::Low => self.publish_lows(now, out),
            Timer::Announce => self.announce(now, out),
            Timer::RepeatWish { wish } => self.repeat_wish(now, wish, out),
            Timer::LockLease { name } => self.end_lease(name, out),
            Timer::Clock => unreachable!("what is about clocks is handled before"),
            Timer::Lease => self.keep_leases(now, out),
            Timer::Maintain => {
                self.data.maintain();
                self.merge(out);
                out.timer(Timer::Maintain, now + self.options.maintain_interval_ns);
            }
        }
    }

    /// Starts the next merge of columns that is worth doing; one at a time.
    fn merge(&mut self, out: &mut Effects<Self>) {
        if let Some(job) = self.columns.next_merge(self.options.merge_rows_max) {
            out.compute(move || job.run());
        }
    }
}

impl<E: Engine> Replicable for Node<E> {
    fn lost(&mut self, _: Time, of: &dyn Fn(RequestId) -> bool, _: &mut Effects<Self>) {
        let open = self.reads.of_clients().into_iter().filter(|id| of(*id));
        open.for_each(|id| self.vanished(id));
        self.locks = RemoteLocks::default();
        self.reads.unpin_all(of);
        self.tell_floor();
    }
}

impl<E: Engine> Process for Node<E> {
    type Message = Message<E::Message>;
    type Timer = Timer;
    type Request = Request;
    type Reply = Reply;
    type Computed = MergedSegment;

    fn step(&mut self, now: Time, event: Event<Self>, out: &mut Effects<Self>) {
        let Some(event) = self.watch(now, event, out) else { return };
        let Some(event) = self.while_absent(now, event, out) else { return };
        match event {
            Event::Start => {
                self.questions.begin(now);
                self.data.replicas.trackers.board.begin(now);
                self.tell_floor();
                self.begin_ordering(now, out);
                self.begin_streams(now, out);
                out.timer(Timer::Low, now + self.options.streaming.low_interval_ns);
                out.timer(Timer::Maintain, now + self.options.maintain_interval_ns);
                self.begin_announcing(now, out);
                self.begin_watch(now, out);
            }
            Event::Message { from, message } => match message {
                Message::Engine(message) => self.engine_message(now, from, message, out),
                Message::Ask { question, partition, what } => {
                    self.serve(now, from, question, partition, what, out)
                }
                Message::Told { question, partition, life, waited_ns, answer } => {
                    if !self.is_ahead_of_stream(partition, life, &answer) {
                        self.told(now, question, partition, waited_ns, answer, out)
                    }
                }
                Message::Stream { partition, generation, life, collected, first, items } => {
                    self.receive_stream(now, partition, (generation, life, collected), first, items, out)
                }
                Message::Scan { scan, what } => self.on_scan(now, from, scan, what, out),
                Message::Scanned { scan, what } => self.on_scanned(now, from, scan, what, out),
                Message::Reader(message) => self.on_announced(now, message, out),
                Message::Lock(message) => self.on_lock(now, from, message, out),
                Message::Clock(_) => unreachable!("what is about clocks is handled before"),
                Message::StreamAck { partition, ack } => {
                    self.subscriber_is_at(now, from, partition, ack, out)
                }
            },
            Event::Timer(timer) => self.timer(now, timer, out),
            Event::Request { id, request } => self.request(now, id, request, out),
            Event::Vanished { id } => {
                self.forget_wishes(id, out);
                self.vanished(id)
            }
            Event::Computed(merged) => {
                self.columns.merged(merged);
                self.merge(out);
            }
            Event::Stable { records } => self.records_are_stable(now, records, out),
            Event::Persisted(_) => {}
        }
        self.publish(now, out);
    }

    fn published(&self) -> Option<Arc<dyn Published<Self::Message>>> {
        let board = &self.data.replicas.trackers.board;
        (!board.is_empty()).then(|| board.clone() as Arc<dyn Published<Self::Message>>)
    }
}
