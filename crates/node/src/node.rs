//! The node itself: routes events to the engine, the readers and the stores, and their effects out.
//!
//! IN: [`Event`]s. OUT: [`Effect`](base::process::Effect)s. KEEPS: a record reaches local columns before
//! any reader is told that its partition has closed over it; a request gets exactly one reply; a cut in
//! use is a floor for collection.

mod asking;
mod calibrating;
mod clock;
mod copying;
mod engine;
mod finding;
mod gathering;
mod holding;
mod locking;
mod reading;
mod rejoining;
mod rivals;
mod scanning;
mod streaming;

pub use finding::rests_on_clocks;

use crate::clocks::{ClockMonitor, ClockOptions};
use crate::data::Data;
use crate::durable::Replicable;
use crate::floors::Floors;
use crate::locks::RemoteLocks;
use crate::message::{Message, Question, QuestionId, Timer};
use crate::printed::PrintedCopy;
use crate::questions::{Purpose, Questions, Serving};
use crate::request::*;
use crate::streams::{Incoming, Outgoing, Streams};
use base::cut::Incarnation;
use base::order::Close;
use base::process::{Effects, Event, Process};
use base::time::MS;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{Granule, Outcome};
use base::{NodeId, PartitionId, Rank, RequestId, SqlError, SqlState, TableId, Time, Token, TxnId};
use colstore::{ColumnStore, MergedSegment};
use reads::calibration::Calibrations;
use reads::estimate::DelayEstimates;
use reads::graph::DependencyGraph;
use reads::rival::Rival;
use reads::snapshot::perseus::Issued;
use reads::snapshot::printed::Printed;
use reads::snapshot::{ColumnView, Dynamic, SnapshotRule};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use txn::engine::{Answer, Answered, Command, Engine, EngineEffect, EngineEffects};
use txn::timers::Alarms;

/// How a node behaves; the defaults suit a real cluster, tests draw their own.
#[derive(Clone, Debug)]
pub struct Options {
    /// Records for remote subscribers gather this long before they are sent, but never longer than until the next
    /// answer to a reader elsewhere or the next low. Strong reads ask, others read up to a low: only who waits
    /// for neither (a synchronous replica) needs them sooner.
    pub flush_ns: u64,
    /// What arrives on streams is acknowledged this long after the first of it; a sender waits longer before it
    /// sends again. Every word is an event for a partition, and it only lets go of memory by it.
    pub ack_ns: u64,
    /// How often a partition tells how far it is complete.
    pub low_interval_ns: u64,
    /// How often versions are collected and columns merged.
    pub maintain_interval_ns: u64,
    /// Versions that one merge of columns takes on at most.
    pub merge_rows_max: usize,
    /// A token may lie this far ahead of the clock (beyond ε), not more: one bad token would be
    /// inherited by every later writer of its keys.
    pub token_ahead_max_ns: u64,
    /// Names the life of the cluster's logs, the same at every node: tokens of another are refused. A host that can
    /// begin afresh names each beginning. Not named: tokens say nothing of it and are believed.
    pub incarnation: Incarnation,
    /// Read as another system does, instead of by levels; the same at every node of a cluster.
    pub rival: Option<Rival>,
    /// A subscriber that was silent for longer holds up nobody any more, and gets a copy when it returns.
    pub lease_ns: u64,
    /// A transaction of another region may keep rows locked here so long, and three round trips on top.
    pub lock_lease_ns: u64,
    /// Rows of other readers that one query may gather here, in bytes of memory; beyond it the query ends with 53200.
    pub gather_bytes_max: u64,
    /// Columns of subscribed partitions are kept here; off for a node that only follows their order, where every
    /// query is refused.
    pub keeps_columns: bool,
    /// How far cuts are moved up while their queries wait.
    pub dynamic: Dynamic,
    /// Queries at `rss` and `regular` run by the published algorithm, which keeps no promise; for comparison.
    pub printed: Option<Printed>,
    /// How the clocks of nodes are watched where they matter; `None`: not at all.
    pub clocks: Option<ClockOptions>,
    /// A fault in how cuts are chosen; never in production.
    #[cfg(feature = "mutants")]
    pub mutant: Option<reads::snapshot::Mutant>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            flush_ns: 20 * MS,
            ack_ns: 100 * MS,
            low_interval_ns: 20 * MS,
            maintain_interval_ns: 20 * MS,
            merge_rows_max: 65_536,
            token_ahead_max_ns: 2_000 * MS,
            incarnation: Incarnation::default(),
            rival: None,
            lease_ns: 10 * base::time::SECOND,
            lock_lease_ns: base::time::SECOND,
            gather_bytes_max: 1 << 30,
            keeps_columns: true,
            dynamic: Dynamic::default(),
            printed: None,
            clocks: Some(ClockOptions::default()),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

impl Options {
    #[cfg(feature = "mutants")]
    fn planted(&self) -> Option<reads::snapshot::Mutant> {
        self.mutant
    }
    #[cfg(not(feature = "mutants"))]
    fn planted(&self) -> Option<reads::snapshot::Mutant> {
        None
    }
}

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
    calibrations: Calibrations<RequestId>,
    submitted: BTreeMap<TxnId, (RequestId, Time)>,
    queries: BTreeMap<RequestId, Query>,
    row_reads: BTreeMap<RequestId, RowReadState>,
    /// Reads whose cut is being found, where clocks have no bound.
    findings: BTreeMap<RequestId, finding::Finding>,
    /// Queries over columns of several readers that this node coordinates; and whose part each scan is.
    gathers: BTreeMap<RequestId, gathering::Gather>,
    gathering: BTreeMap<QuestionId, RequestId>,
    /// Parts of queries, mostly of other coordinators, that are read here.
    scans: BTreeMap<scanning::ScanKey, scanning::Scan>,
    /// Each with the request that made it.
    pins: BTreeMap<PinId, (Rank, RequestId)>,
    /// Row locks between regions.
    locks: RemoteLocks,
    floors: Floors,
    floor_told: Option<Rank>,
    low_pending: BTreeSet<PartitionId>,
    /// Streams on which something has arrived that is not acknowledged; a timer is set while there are any.
    unacknowledged: BTreeSet<PartitionId>,
    armed: Armed,
    /// A merge of columns is being computed.
    merging: bool,
    rival: Option<rivals::RivalState>,
    watch: Option<clock::Watch>,
    counters: Counters,
    /// Reused between steps.
    effects: EngineEffects<E>,
}

/// What an old version of a row takes in memory besides its bytes.
const OLD_VERSION_BYTES: u64 = 96;

/// Timers that are set: one of each.
#[derive(Default)]
struct Armed {
    flush: bool,
    resend: bool,
    engine: Alarms,
}

#[derive(Default)]
struct Counters {
    commits: u64,
    aborts: BTreeMap<String, u64>,
    messages_sent: u64,
}

/// What this node's analytics know: the column copies and the dependency manager beside them.
struct Columns {
    store: ColumnStore,
    graph: DependencyGraph,
    low: BTreeMap<PartitionId, Rank>,
    /// What partitions whose columns are not kept here announced, if they do.
    heard: BTreeMap<PartitionId, Rank>,
    /// What sets handed out here have held.
    issued: BTreeMap<PartitionId, Issued>,
    /// Where a copy's history begins, if that is not the log's beginning.
    begins_at: BTreeMap<PartitionId, Rank>,
    delays: DelayEstimates,
    /// A copy of these partitions is arriving; nothing of them can be read.
    arriving: BTreeSet<PartitionId>,
    /// The storage of the printed protocol, in clusters that run it.
    printed: Option<PrintedCopy>,
    collected_below: Rank,
}

struct Query {
    rule: Box<dyn SnapshotRule>,
    open: OpenSnapshot,
    floor: Rank,
}

struct RowReadState {
    cut: reading::RowCut,
    /// Per question, which of the request's reads it carries.
    open: BTreeMap<QuestionId, Vec<usize>>,
    rows: Vec<Vec<(base::Key, base::Row)>>,
    coordination_ns: u64,
    waited_ns: u64,
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
        let mut streams = Streams::default();
        for partition in topology.copies_at(id) {
            let remote = topology.subscribers_of(partition);
            let remote = remote.filter(|n| *n != id && topology.copy_near(partition, *n) == id);
            streams.outgoing.insert(partition, Outgoing::new(remote));
            if !topology.nodes[id.0 as usize].subscribes.contains(&partition) {
                streams.published.insert(partition, DependencyGraph::default());
            }
        }
        for &partition in &topology.nodes[id.0 as usize].subscribes {
            if topology.copy_near(partition, id) != id {
                streams.incoming.insert(partition, Incoming::default());
            }
        }
        let data = Data::new(topology.clone(), procedures, topology.copies_at(id));
        let subscribes = topology.nodes[id.0 as usize].subscribes.iter().copied();
        let unsubscribed =
            topology.partition_ids().filter(|p| !topology.nodes[id.0 as usize].subscribes.contains(p));
        let heard = match options.rival {
            Some(Rival::SafeTimestamp) => unsubscribed.map(|p| (p, Rank::ZERO)).collect(),
            _ => BTreeMap::new(),
        };
        let rival = options.rival.map(|kind| rivals::RivalState::new(kind, id, &topology));
        let columns = Columns {
            store: ColumnStore::with_options(
                subscribes,
                Arc::default(),
                colstore::Options { follows_only: !options.keeps_columns, ..colstore::Options::default() },
            ),
            graph: DependencyGraph::default(),
            low: BTreeMap::new(),
            heard,
            issued: BTreeMap::new(),
            begins_at: BTreeMap::new(),
            delays: DelayEstimates::new(
                topology.partition_ids().map(|p| (p, topology.one_way_ns(topology.copy_near(p, id), id))),
            ),
            arriving: BTreeSet::new(),
            printed: options.printed.map(|p| PrintedCopy::new(p, &topology.nodes[id.0 as usize].subscribes)),
            collected_below: Rank::ZERO,
        };
        let monitor = options.clocks.and_then(|clocks| ClockMonitor::new(&topology, id, clocks));
        let serve_late_arrivals = options.planted() == Some(reads::snapshot::Mutant::CalibrateBeforeArrival);
        Node {
            id,
            topology,
            options,
            engine,
            data,
            columns,
            streams,
            questions: Questions::default(),
            calibrations: Calibrations::new(serve_late_arrivals),
            submitted: BTreeMap::new(),
            queries: BTreeMap::new(),
            row_reads: BTreeMap::new(),
            findings: BTreeMap::new(),
            gathers: BTreeMap::new(),
            gathering: BTreeMap::new(),
            scans: BTreeMap::new(),
            pins: BTreeMap::new(),
            locks: RemoteLocks::default(),
            floors: Floors::default(),
            floor_told: None,
            low_pending: BTreeSet::new(),
            unacknowledged: BTreeSet::new(),
            armed: Armed::default(),
            merging: false,
            rival,
            watch: monitor.map(clock::Watch::new),
            counters: Counters::default(),
            effects: Vec::new(),
        }
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
        &self.columns.store
    }

    fn subscribes(&self, partition: PartitionId) -> bool {
        self.topology.nodes[self.id.0 as usize].subscribes.contains(&partition)
    }

    // ---- requests ---------------------------------------------------------------------------------

    fn request(&mut self, now: Time, id: RequestId, request: Request, out: &mut Effects<Self>) {
        match request {
            Request::Submit(submission) => {
                if let Err(error) = self.check_token(now, &submission.token) {
                    return out.reply(id, Reply::Submitted(Err(error)));
                }
                let mut effects = std::mem::take(&mut self.effects);
                let partitions =
                    self.rival.as_ref().map(|_| submission.access.by_partition.keys().copied().collect());
                let txn = self.engine.submit(now, submission, &mut self.data, &mut effects);
                self.submitted.insert(txn, (id, now));
                if let (Some(rival), Some(partitions)) = (&mut self.rival, partitions) {
                    rival.submitted(txn, partitions);
                }
                self.engine_effects(now, effects, out);
            }
            Request::MoveHome { partition, to } => {
                let mut effects = std::mem::take(&mut self.effects);
                let command = Command::MoveHome { partition, to };
                match self.engine.admin(now, command, &mut self.data, &mut effects) {
                    Ok(txn) => _ = self.submitted.insert(txn, (id, now)),
                    Err(error) => out.reply(id, Reply::Submitted(Err(error))),
                }
                self.engine_effects(now, effects, out);
            }
            Request::ReadRows(read) => self.read_rows(now, id, read, out),
            Request::Call(call) => self.call(now, id, call, out),
            Request::OpenSnapshot(open) => self.open_snapshot(now, id, open, out),
            Request::Pin { consistency, token } => {
                let everything = self.topology.partition_ids();
                let chosen = self
                    .check_token(now, &token)
                    .and_then(|()| self.choose_cut(now, consistency, &token, everything, |_| true));
                match chosen {
                    Ok(None) => {
                        let everything = self.topology.partition_ids();
                        let all = everything.map(|p| (p, vec![Granule::Partition])).collect();
                        let rank = token.rank;
                        self.find_cut(now, id, Request::Pin { consistency, token }, all, rank, out);
                    }
                    chosen => {
                        let pinned = chosen.map(|rank| self.pin(id, rank.expect("just looked")));
                        out.reply(id, Reply::Pinned(pinned));
                    }
                }
            }
            Request::Unpin(pin) => {
                if let Some((rank, _)) = self.pins.remove(&pin) {
                    self.floors.release(rank);
                    self.tell_floor();
                }
                out.reply(id, Reply::Unpinned);
            }
            Request::Catalog => out.reply(id, Reply::Catalog(self.data.catalog())),
            Request::Status => out.reply(id, Reply::Status(Box::new(self.status(now)))),
            Request::LockRows(lock) => self.lock_rows(now, id, lock, out),
            Request::UnlockRows { home, owner } => {
                self.unlock_rows(home, owner, out);
                out.reply(id, Reply::Noted);
            }
            Request::ServeLocks { begins } => self.serve_locks(id, begins, out),
            Request::LockServed { name, result } => {
                self.lock_served(now, name, result, out);
                out.reply(id, Reply::Noted);
            }
        }
    }

    fn pin(&mut self, id: RequestId, rank: Rank) -> (PinId, Rank) {
        let pin = self.questions.next_pin();
        self.pins.insert(pin, (rank, id));
        self.floors.hold(rank);
        self.tell_floor();
        (pin, rank)
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

    fn vanished(&mut self, id: RequestId) {
        self.questions.forget(id);
        self.forget_calibrations(id);
        if let Some(query) = self.queries.remove(&id) {
            self.floors.release(query.floor);
        }
        if let Some(read) = self.row_reads.remove(&id) {
            self.floors.release(read.cut.at);
        }
        self.findings.remove(&id);
        self.drop_gather(id);
        self.tell_floor();
    }

    /// Collection spares the cuts in use, and whatever the columns here may still lack: cuts of queries to
    /// come begin where every copy is complete, whatever their level.
    fn tell_floor(&mut self) {
        let subscribed = self.topology.nodes[self.id.0 as usize].subscribes.iter();
        let complete = subscribed.map(|p| self.columns.low(*p)).min();
        let mut floor = self.floors.least().into_iter().chain(complete).min();
        if let Some(rival) = &self.rival {
            let safe =
                (rival.kind == Rival::SafeTimestamp && complete.is_some()).then(|| self.columns.safe());
            floor = floor.into_iter().chain(safe).min();
        }
        if floor != self.floor_told {
            self.floor_told = floor;
            self.engine.set_floor(floor);
        }
    }

    fn answered(&mut self, now: Time, answer: Answer, out: &mut Effects<Self>) {
        let Some((id, arrived)) = self.submitted.remove(&answer.submitted_as) else { return };
        match &answer.outcome {
            Outcome::Committed { .. } => self.counters.commits += 1,
            Outcome::Aborted(error) => {
                *self.counters.aborts.entry(error.state.as_str().to_string()).or_default() += 1;
            }
        }
        out.reply(
            id,
            Reply::Submitted(Ok(Submitted {
                txn: answer.txn,
                rank: answer.rank,
                outcome: answer.outcome,
                token: Token::at(answer.rank).of(self.options.incarnation),
                phases: answer.phases,
                regions: answer.regions,
                latency_ns: now.since(arrived),
            })),
        );
    }

    fn send(&mut self, to: NodeId, message: Message<E::Message>, out: &mut Effects<Self>) {
        debug_assert_ne!(to, self.id, "what stays here takes no message");
        self.counters.messages_sent += 1;
        out.send(to, message);
    }

    fn send_all(&mut self, to: Vec<NodeId>, message: Message<E::Message>, out: &mut Effects<Self>) {
        debug_assert!(!to.contains(&self.id), "what stays here takes no message");
        self.counters.messages_sent += to.len() as u64;
        out.send_all(to, message);
    }

    // ---- timers -----------------------------------------------------------------------------------

    fn timer(&mut self, now: Time, timer: Timer, out: &mut Effects<Self>) {
        match timer {
            Timer::Engine(at) => self.wake_engine(now, at, out),
            Timer::Repeat { question } => self.repeat(now, question, out),
            Timer::Scan { scan } => self.repeat_scan(now, scan, out),
            Timer::Calibrate { partition } => self.calibrate_again(now, partition, out),
            Timer::Flush => {
                self.armed.flush = false;
                self.flush(now, out);
            }
            Timer::Ack => {
                let streams = std::mem::take(&mut self.unacknowledged);
                streams.into_iter().for_each(|partition| self.acknowledge(partition, out));
            }
            Timer::Resend => {
                self.armed.resend = false;
                self.send_batches(now, true, out);
                if !self.streams.is_settled() {
                    self.armed.resend = true;
                    out.timer(Timer::Resend, now + streaming::RESEND_NS);
                }
            }
            Timer::Low => {
                let partitions: Vec<_> = self.topology.copies_at(self.id).collect();
                // Safe ranks are announced instead.
                if !matches!(self.options.rival, Some(Rival::SafeTimestamp | Rival::BatchCut)) {
                    for partition in partitions {
                        self.publish_low(now, partition, out);
                    }
                }
                self.tell_floor();
                self.flush(now, out);
                out.timer(Timer::Low, now + self.options.low_interval_ns);
            }
            Timer::Rival => self.rival_tick(now, out),
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
        if self.merging {
            return;
        }
        let plan = self.columns.store.plan_merge(self.options.merge_rows_max, self.columns.collected_below);
        if let Some(job) = plan {
            self.merging = true;
            out.compute(move || job.run());
        }
    }

    fn publish_low(&mut self, now: Time, partition: PartitionId, out: &mut Effects<Self>) {
        if self.topology.unbounded_clocks {
            // A clock that is ahead would drive the others.
            let low = self.calibration(now, partition).low;
            return self.stream(now, partition, base::order::StreamItem::Low(low), out);
        }
        if !self.low_pending.insert(partition) {
            return;
        }
        let (rank, ticket) = (now.rank(), self.questions.next_ticket());
        self.questions.serving.insert(ticket, Serving { purpose: Purpose::Low(rank), partition, since: now });
        let close = Close { partition, rank, granules: vec![Granule::Partition] };
        let effects = self.close_rank(now, ticket, close);
        self.engine_effects(now, effects, out);
    }

    fn status(&self, now: Time) -> Status {
        let rows = self.data.counters();
        let columns = self.columns.store.status();
        let subscribed = self.topology.nodes[self.id.0 as usize].subscribes.iter();
        // Entries that wait for collection name their keys.
        let old_rows = rows.bytes.saturating_sub(rows.live_bytes)
            + (rows.versions.saturating_sub(rows.rows) + rows.garbage) * OLD_VERSION_BYTES;
        Status {
            now,
            commits: self.counters.commits,
            aborts: self.counters.aborts.clone(),
            messages_sent: self.counters.messages_sent,
            rows: rows.rows,
            row_versions: rows.versions,
            row_bytes: rows.bytes,
            column_rows: columns.rows as u64,
            column_bytes: columns.bytes as u64,
            graph_vertices: self.columns.graph.vertex_count() as u64,
            old_version_bytes: old_rows,
            collected_below: self.columns.collected_below,
            is_collecting: self.data.is_collecting(),
            clocks: self.watch.iter().flat_map(|watch| watch.monitor.seen()).collect(),
            out: self.watch.as_ref().and_then(|watch| watch.out.clone()),
            applied: subscribed.map(|p| (*p, self.columns.store.applied(*p))).collect(),
        }
    }
}

impl<E: Engine> Replicable for Node<E> {
    fn lost(&mut self, _: Time, of: &dyn Fn(RequestId) -> bool, _: &mut Effects<Self>) {
        let open = self.queries.keys().chain(self.row_reads.keys()).chain(self.gathers.keys());
        let open = open.chain(self.findings.keys());
        let open: Vec<RequestId> = open.copied().filter(|id| of(*id)).collect();
        open.into_iter().for_each(|id| self.vanished(id));
        self.locks = RemoteLocks::default();
        let pins = std::mem::take(&mut self.pins);
        let (gone, kept) = pins.into_iter().partition(|(_, (_, id))| of(*id));
        self.pins = kept;
        let gone: BTreeMap<PinId, (Rank, RequestId)> = gone;
        gone.into_values().for_each(|(rank, _)| self.floors.release(rank));
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
                self.tell_floor();
                let mut effects = std::mem::take(&mut self.effects);
                self.engine.start(now, &mut effects);
                self.engine_effects(now, effects, out);
                self.begin_streams(now, out);
                out.timer(Timer::Low, now + self.options.low_interval_ns);
                out.timer(Timer::Maintain, now + self.options.maintain_interval_ns);
                self.arm_rival(now, out);
                self.begin_watch(now, out);
            }
            Event::Message { from, message } => match message {
                Message::Engine(message) => {
                    let mut effects = std::mem::take(&mut self.effects);
                    self.engine.message(now, from, message, &mut self.data, &mut effects);
                    self.engine_effects(now, effects, out);
                }
                Message::Ask { question, partition, what } => {
                    self.serve(now, from, question, partition, what, out)
                }
                Message::Told { question, partition, waited_ns, answer } => {
                    self.told(now, question, partition, waited_ns, answer, out)
                }
                Message::Stream { partition, generation, collected, first, items } => {
                    self.receive_stream(now, partition, (generation, collected), first, items, out)
                }
                Message::Scan { scan, what } => self.on_scan(now, from, scan, what, out),
                Message::Scanned { scan, what } => self.on_scanned(now, from, scan, what, out),
                Message::Rival(message) => self.on_rival(now, message, out),
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
                self.columns.store.install(merged);
                self.merging = false;
                self.merge(out);
            }
            Event::Persisted(_) => {}
        }
    }
}
