//! The node itself: routes events to the engine, the readers and the stores, and their effects out.
//!
//! IN: [`Event`]s. OUT: [`Effect`](base::process::Effect)s. KEEPS: a record reaches local columns before
//! any reader is told that its partition has closed over it; a request gets exactly one reply; a cut in
//! use is a floor for collection.

use crate::data::Data;
use crate::floors::Floors;
use crate::message::{AnswerBody, Message, Question, QuestionId, Timer};
use crate::questions::{Asked, Owner, Purpose, Questions, Serving};
use crate::request::*;
use crate::streams::{Incoming, Outgoing, Streams};
use base::cut::Consistency;
use base::key::KeyRange;
use base::order::{Close, StreamItem};
use base::process::{Effects, Event, Process};
use base::time::MS;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{Granule, Outcome, RowRead};
use base::{Cut, LogPosition, NodeId, PartitionId, Rank, RequestId, SqlError, SqlState, Time, Token, TxnId};
use colstore::{ColumnStore, MergedSegment};
use reads::graph::DependencyGraph;
use reads::snapshot::perseus::RegularQuery;
use reads::snapshot::rank::RankQuery;
use reads::snapshot::{Ask, ColumnView, QueryMeta, SnapshotRule, Told};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use txn::engine::{Answer, Engine, EngineEffect, EngineEffects};

/// How a node behaves; the defaults suit a real cluster, tests draw their own.
#[derive(Clone, Debug)]
pub struct Options {
    /// Records for remote subscribers gather this long before they are sent.
    pub flush_ns: u64,
    /// How often a partition tells how far it is complete.
    pub low_interval_ns: u64,
    /// How often versions are collected and columns merged.
    pub maintain_interval_ns: u64,
    /// Versions that one merge of columns takes on at most.
    pub merge_rows_max: usize,
    /// A token may lie this far ahead of the clock (beyond ε), not more: one bad token would be
    /// inherited by every later writer of its keys.
    pub token_ahead_max_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            flush_ns: 2 * MS,
            low_interval_ns: 20 * MS,
            maintain_interval_ns: 20 * MS,
            merge_rows_max: 65_536,
            token_ahead_max_ns: 2_000 * MS,
        }
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
    submitted: BTreeMap<TxnId, (RequestId, Time)>,
    queries: BTreeMap<RequestId, Query>,
    row_reads: BTreeMap<RequestId, RowReadState>,
    pins: BTreeMap<PinId, Rank>,
    floors: Floors,
    floor_told: Option<Rank>,
    low_pending: BTreeSet<PartitionId>,
    flush_armed: bool,
    resend_armed: bool,
    /// A merge of columns is being computed.
    merging: bool,
    counters: Counters,
    /// Reused between steps.
    effects: EngineEffects<E>,
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
    collected_below: Rank,
}

struct Query {
    rule: Box<dyn SnapshotRule>,
    open: OpenSnapshot,
    floor: Rank,
}

struct RowReadState {
    at: Rank,
    arrived: Time,
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
        for partition in topology.partitions_at(id) {
            let remote = topology.subscribers_of(partition).filter(|n| *n != id);
            streams.outgoing.insert(partition, Outgoing::new(remote));
        }
        for &partition in &topology.nodes[id.0 as usize].subscribes {
            if topology.node_of(partition) != id {
                streams.incoming.insert(partition, Incoming::default());
            }
        }
        let data = Data::new(topology.clone(), procedures, topology.partitions_at(id));
        let subscribes = topology.nodes[id.0 as usize].subscribes.iter().copied();
        let columns = Columns {
            store: ColumnStore::new(subscribes, Arc::default()),
            graph: DependencyGraph::default(),
            low: BTreeMap::new(),
            collected_below: Rank::ZERO,
        };
        Node {
            id,
            topology,
            options,
            engine,
            data,
            columns,
            streams,
            questions: Questions::default(),
            submitted: BTreeMap::new(),
            queries: BTreeMap::new(),
            row_reads: BTreeMap::new(),
            pins: BTreeMap::new(),
            floors: Floors::default(),
            floor_told: None,
            low_pending: BTreeSet::new(),
            flush_armed: false,
            resend_armed: false,
            merging: false,
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
                let txn = self.engine.submit(now, submission, &mut self.data, &mut effects);
                self.submitted.insert(txn, (id, now));
                self.engine_effects(now, effects, out);
            }
            Request::ReadRows(read) => self.read_rows(now, id, read, out),
            Request::OpenSnapshot(open) => self.open_snapshot(now, id, open, out),
            Request::Pin { token, .. } => {
                let pinned = self.check_token(now, &token).map(|()| {
                    let rank = token.rank.max(now.rank() + self.topology.clock_bound_ns);
                    let pin = self.questions.next_pin();
                    self.pins.insert(pin, rank);
                    self.floors.hold(rank);
                    (pin, rank)
                });
                self.tell_floor();
                out.reply(id, Reply::Pinned(pinned));
            }
            Request::Unpin(pin) => {
                if let Some(rank) = self.pins.remove(&pin) {
                    self.floors.release(rank);
                    self.tell_floor();
                }
                out.reply(id, Reply::Unpinned);
            }
            Request::Catalog => out.reply(id, Reply::Catalog(self.data.catalog())),
            Request::Status => out.reply(id, Reply::Status(Box::new(self.status(now)))),
        }
    }

    fn check_token(&self, now: Time, token: &Token) -> Result<(), SqlError> {
        let latest = now.rank() + self.topology.clock_bound_ns + self.options.token_ahead_max_ns;
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

    /// The cut of a strong read that arrives now.
    fn strong_cut(&self, now: Time, token: &Token) -> Rank {
        token.rank.max(now.rank() + self.topology.clock_bound_ns)
    }

    fn read_rows(&mut self, now: Time, id: RequestId, read: ReadRows, out: &mut Effects<Self>) {
        if let Err(error) = self.check_token(now, &read.token) {
            return out.reply(id, Reply::Rows(Err(error)));
        }
        let at = read.at.unwrap_or_else(|| self.strong_cut(now, &read.token));
        let mut by_partition: BTreeMap<PartitionId, (Vec<usize>, Vec<RowRead>)> = BTreeMap::new();
        let slots = read.reads.len();
        for (slot, row_read) in read.reads.into_iter().enumerate() {
            let group = by_partition.entry(row_read.partition).or_default();
            group.0.push(slot);
            group.1.push(row_read);
        }
        self.floors.hold(at);
        self.tell_floor();
        let mut state = RowReadState {
            at,
            arrived: now,
            open: BTreeMap::new(),
            rows: vec![Vec::new(); slots],
            coordination_ns: 0,
            waited_ns: 0,
        };
        let mut asks = Vec::with_capacity(by_partition.len());
        for (partition, (slots, reads)) in by_partition {
            let question = self.questions.next_question();
            state.open.insert(question, slots);
            asks.push((question, partition, Question::Rows { at, reads }));
        }
        self.row_reads.insert(id, state);
        for (question, partition, what) in asks {
            self.ask(now, question, partition, what, Owner::Read(id), out);
        }
        self.finish_row_read(now, id, out);
    }

    fn finish_row_read(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        if self.row_reads.get(&id).is_none_or(|state| !state.open.is_empty()) {
            return;
        }
        let state = self.row_reads.remove(&id).expect("was found");
        self.floors.release(state.at);
        self.tell_floor();
        let total_ns = now.since(state.arrived);
        let freshness = base::Freshness {
            coordination_ns: state.coordination_ns,
            wait_ns: total_ns.saturating_sub(state.coordination_ns),
            arrived_at: state.arrived,
            ..Default::default()
        };
        let rows = Rows { at: state.at, reads: state.rows, token: Token::at(state.at), freshness };
        out.reply(id, Reply::Rows(Ok(rows)));
    }

    fn open_snapshot(&mut self, now: Time, id: RequestId, open: OpenSnapshot, out: &mut Effects<Self>) {
        if let Err(error) = self.check_open(now, &open) {
            return out.reply(id, Reply::Snapshot(Err(error)));
        }
        let mut reads: BTreeMap<PartitionId, Vec<Granule>> = BTreeMap::new();
        for (&table, partitions) in &open.tables {
            for &partition in partitions {
                reads.entry(partition).or_default().push(Granule::Range(table, KeyRange::all()));
            }
        }
        let meta = QueryMeta { arrived: now, token: open.token.clone(), reads };
        let (rule, floor): (Box<dyn SnapshotRule>, Rank) = match (open.at, open.consistency) {
            (None, Consistency::Regular) => (Box::new(RegularQuery::new(meta)), self.columns.collected_below),
            (at, consistency) => {
                let query = match (at, consistency) {
                    (Some(at), _) => RankQuery::at(meta, at),
                    (None, Consistency::Rss) => RankQuery::strong(meta, self.topology.clock_bound_ns),
                    (None, _) => RankQuery::local(meta, &self.columns),
                };
                let cut = query.cut();
                (Box::new(query), cut)
            }
        };
        self.floors.hold(floor);
        self.tell_floor();
        let asks = rule.asks();
        self.queries.insert(id, Query { rule, open, floor });
        for ask in asks {
            let partition = ask.partition();
            let what = match ask {
                Ask::Close(close) => Question::Close(close),
                Ask::Calibrate(_) => Question::Calibrate,
            };
            let question = self.questions.next_question();
            self.ask(now, question, partition, what, Owner::Query(id), out);
        }
        self.finish_query(now, id, out);
    }

    fn check_open(&self, now: Time, open: &OpenSnapshot) -> Result<(), SqlError> {
        self.check_token(now, &open.token)?;
        match open.tables.values().flatten().find(|p| !self.subscribes(**p)) {
            Some(partition) => Err(SqlError::unsupported(format!(
                "a query over partition {partition}, whose columns node {} does not keep,",
                self.id
            ))
            .hint("Connect to a node that subscribes to the partition.")),
            None => Ok(()),
        }
    }

    /// Hands out the snapshot if its cut has become readable.
    fn finish_query(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        let Some(query) = self.queries.get_mut(&id) else { return };
        let result = match query.rule.ready(now, &self.columns) {
            Ok(None) => return,
            Ok(Some((cut, freshness))) => {
                let token = match &cut {
                    Cut::Rank(rank) => Token::at(*rank),
                    Cut::Vector(positions) => {
                        // Ancestors of what was seen are ranked no higher than it.
                        let newest = positions.keys().map(|p| self.columns.newest(*p)).max();
                        Token { rank: newest.unwrap_or_default(), positions: positions.clone() }
                    }
                    Cut::Epoch(_) => Token::default(),
                };
                let store = &mut self.columns.store;
                let tables = query.open.tables.iter().map(|(&table, partitions)| {
                    store.snapshot(&cut, table, partitions).map(|snapshot| (table, Arc::new(snapshot)))
                });
                let tables = tables.collect::<Result<BTreeMap<_, _>, _>>();
                tables.and_then(|tables| {
                    let catalog = store.catalog_at(&cut)?;
                    Ok(Snapshot { tables, catalog, cut, token, freshness })
                })
            }
            Err(error) => Err(error),
        };
        let query = self.queries.remove(&id).expect("was found");
        self.floors.release(query.floor);
        self.questions.forget(id);
        self.tell_floor();
        out.reply(id, Reply::Snapshot(result));
    }

    fn finish_queries(&mut self, now: Time, out: &mut Effects<Self>) {
        let open: Vec<RequestId> = self.queries.keys().copied().collect();
        open.into_iter().for_each(|id| self.finish_query(now, id, out));
    }

    fn vanished(&mut self, id: RequestId) {
        self.questions.forget(id);
        if let Some(query) = self.queries.remove(&id) {
            self.floors.release(query.floor);
        }
        if let Some(read) = self.row_reads.remove(&id) {
            self.floors.release(read.at);
        }
        self.tell_floor();
    }

    /// Collection spares the cuts in use, and whatever the columns here may still lack: cuts of queries to
    /// come begin where every copy is complete, whatever their level.
    fn tell_floor(&mut self) {
        let subscribed = self.topology.nodes[self.id.0 as usize].subscribes.iter();
        let complete = subscribed.map(|p| self.columns.low(*p)).min();
        let floor = self.floors.least().into_iter().chain(complete).min();
        if floor != self.floor_told {
            self.floor_told = floor;
            self.engine.set_floor(floor);
        }
    }

    // ---- questions --------------------------------------------------------------------------------

    fn ask(
        &mut self,
        now: Time,
        question: QuestionId,
        partition: PartitionId,
        what: Question,
        owner: Owner,
        out: &mut Effects<Self>,
    ) {
        let node = self.topology.node_of(partition);
        if node == self.id {
            self.questions.asked.insert(question, Asked { partition, what: what.clone(), owner });
            return self.serve(now, self.id, question, partition, what, out);
        }
        self.questions.asked.insert(question, Asked { partition, what: what.clone(), owner });
        self.send(node, Message::Ask { question, partition, what }, out);
        out.timer(Timer::Repeat { question }, now + self.patience_ns(node));
    }

    fn repeat(&mut self, now: Time, question: QuestionId, out: &mut Effects<Self>) {
        let Some(asked) = self.questions.asked.get(&question) else { return };
        let (partition, what) = (asked.partition, asked.what.clone());
        let node = self.topology.node_of(partition);
        self.send(node, Message::Ask { question, partition, what }, out);
        out.timer(Timer::Repeat { question }, now + self.patience_ns(node));
    }

    /// How long silence of a node is taken for delay rather than loss.
    fn patience_ns(&self, node: NodeId) -> u64 {
        3 * self.topology.one_way_ns(self.id, node) + 20 * MS
    }

    fn serve(
        &mut self,
        now: Time,
        from: NodeId,
        question: QuestionId,
        partition: PartitionId,
        what: Question,
        out: &mut Effects<Self>,
    ) {
        if self.topology.partitions.get(partition.0 as usize).is_none_or(|p| p.node != self.id) {
            return; // Not ours: a peer with another topology. Silence, never a guess.
        }
        let (rank, granules) = match &what {
            Question::Calibrate => {
                let calibration = self.engine.calibrate(partition);
                return self.answer(
                    now,
                    from,
                    question,
                    partition,
                    0,
                    Ok(AnswerBody::Calibrated(calibration)),
                    out,
                );
            }
            Question::Close(close) => (close.rank, close.granules.clone()),
            Question::Rows { at, reads } => (*at, reads.iter().map(granule_of).collect()),
        };
        if !self.questions.serving_for.insert((from, question)) {
            base::sometimes!("a question is repeated while it is being answered");
            return;
        }
        let ticket = self.questions.next_ticket();
        let purpose = Purpose::Answer { to: from, question, what };
        self.questions.serving.insert(ticket, Serving { purpose, partition, since: now });
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.close(now, ticket, Close { partition, rank, granules }, &mut effects);
        self.engine_effects(now, effects, out);
    }

    fn closed(
        &mut self,
        now: Time,
        ticket: base::order::CloseTicket,
        result: Result<base::order::Closed, SqlError>,
        out: &mut Effects<Self>,
    ) {
        let Some(serving) = self.questions.serving.remove(&ticket) else { return };
        let partition = serving.partition;
        match serving.purpose {
            Purpose::Low(rank) => {
                self.low_pending.remove(&partition);
                if result.is_ok() {
                    self.stream(now, partition, StreamItem::Low(rank), out);
                }
            }
            Purpose::Answer { to, question, what } => {
                self.questions.serving_for.remove(&(to, question));
                let answer = result.and_then(|closed| match what {
                    Question::Rows { at, reads } => {
                        self.data.read(partition, at, &reads).map(AnswerBody::Rows)
                    }
                    _ => Ok(AnswerBody::Closed(closed)),
                });
                if to != self.id {
                    // Records first: the asker waits for them anyway.
                    self.flush(now, out);
                }
                self.answer(now, to, question, partition, now.since(serving.since), answer, out);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn answer(
        &mut self,
        now: Time,
        to: NodeId,
        question: QuestionId,
        partition: PartitionId,
        waited_ns: u64,
        answer: Result<AnswerBody, SqlError>,
        out: &mut Effects<Self>,
    ) {
        if to == self.id {
            return self.told(now, question, partition, waited_ns, answer, out);
        }
        self.send(to, Message::Told { question, partition, waited_ns, answer }, out);
    }

    fn told(
        &mut self,
        now: Time,
        question: QuestionId,
        partition: PartitionId,
        waited_ns: u64,
        answer: Result<AnswerBody, SqlError>,
        out: &mut Effects<Self>,
    ) {
        let Some(asked) = self.questions.asked.remove(&question) else { return };
        if asked.partition != partition {
            return;
        }
        match (asked.owner, answer) {
            (Owner::Query(id), Ok(body)) => {
                let Some(query) = self.queries.get_mut(&id) else { return };
                match body {
                    AnswerBody::Closed(closed) => {
                        query.rule.told(now, Told::Closed { partition, closed, waited_ns })
                    }
                    AnswerBody::Calibrated(calibration) => {
                        query.rule.told(now, Told::Calibrated { partition, calibration })
                    }
                    AnswerBody::Rows(_) => return,
                }
                self.finish_query(now, id, out);
            }
            (Owner::Query(id), Err(error)) => {
                if self.queries.contains_key(&id) {
                    self.vanished(id);
                    out.reply(id, Reply::Snapshot(Err(error)));
                }
            }
            (Owner::Read(id), Ok(AnswerBody::Rows(rows))) => {
                let Some(state) = self.row_reads.get_mut(&id) else { return };
                let on_the_way_ns = now.since(state.arrived).saturating_sub(waited_ns);
                state.coordination_ns = state.coordination_ns.max(on_the_way_ns);
                state.waited_ns = state.waited_ns.max(waited_ns);
                let slots = state.open.remove(&question).unwrap_or_default();
                for (slot, rows) in slots.into_iter().zip(rows) {
                    state.rows[slot] = rows;
                }
                self.finish_row_read(now, id, out);
            }
            (Owner::Read(_), Ok(_)) => {}
            (Owner::Read(id), Err(error)) => {
                if self.row_reads.contains_key(&id) {
                    self.vanished(id);
                    out.reply(id, Reply::Rows(Err(error)));
                }
            }
        }
    }

    // ---- the engine's effects ---------------------------------------------------------------------

    fn engine_effects(&mut self, now: Time, mut effects: EngineEffects<E>, out: &mut Effects<Self>) {
        let mut records = false;
        for effect in effects.drain(..) {
            match effect {
                EngineEffect::Send { to, message } => self.send(to, Message::Engine(message), out),
                EngineEffect::Timer { at, timer } => out.timer(Timer::Engine(timer), at),
                EngineEffect::Answer(answer) => self.answered(now, answer, out),
                EngineEffect::Stream { partition, item } => {
                    records = true;
                    self.stream(now, partition, item, out);
                }
                EngineEffect::Closed { ticket, result } => self.closed(now, ticket, result, out),
                EngineEffect::Collected { below } => {
                    self.columns.collected_below = self.columns.collected_below.max(below);
                    self.columns.graph.collect(below);
                    self.data.collect_below(below);
                }
            }
        }
        // Effects that came meanwhile have a buffer of their own; keep the larger.
        if self.effects.capacity() < effects.capacity() {
            self.effects = effects;
        }
        if records {
            self.finish_queries(now, out);
        }
    }

    fn answered(&mut self, now: Time, answer: Answer, out: &mut Effects<Self>) {
        let Some((id, arrived)) = self.submitted.remove(&answer.txn) else { return };
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
                token: Token::at(answer.rank),
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

    // ---- streams ----------------------------------------------------------------------------------

    /// A partition of this node goes on: local columns at once, remote ones with the next flush.
    fn stream(&mut self, now: Time, partition: PartitionId, item: StreamItem, out: &mut Effects<Self>) {
        if self.subscribes(partition) {
            self.columns.receive(partition, &item);
        }
        let outgoing = self.streams.outgoing.get_mut(&partition).expect("streams only its own partitions");
        outgoing.push(item);
        if !outgoing.is_settled() && !self.flush_armed {
            self.flush_armed = true;
            out.timer(Timer::Flush, now + self.options.flush_ns);
        }
    }

    fn flush(&mut self, now: Time, out: &mut Effects<Self>) {
        self.send_batches(now, false, out);
        if !self.resend_armed && !self.streams.is_settled() {
            self.resend_armed = true;
            out.timer(Timer::Resend, now + 50 * MS);
        }
    }

    /// Sends what is new to remote subscribers; `again` also repeats what they have not acknowledged in
    /// time.
    fn send_batches(&mut self, now: Time, again: bool, out: &mut Effects<Self>) {
        let (topology, me) = (self.topology.clone(), self.id);
        let patience_ns = |node| 3 * topology.one_way_ns(me, node) + 50 * MS;
        let mut messages = Vec::new();
        for (&partition, outgoing) in &mut self.streams.outgoing {
            let batches =
                if again { outgoing.resend(now, &patience_ns) } else { outgoing.unsent(now, &patience_ns) };
            for (node, first, items) in batches {
                messages.push((node, Message::Stream { partition, first, items }));
            }
        }
        messages.into_iter().for_each(|(node, message)| self.send(node, message, out));
    }

    fn receive_stream(
        &mut self,
        now: Time,
        from: NodeId,
        partition: PartitionId,
        first: u64,
        items: Vec<StreamItem>,
        out: &mut Effects<Self>,
    ) {
        let Some(incoming) = self.streams.incoming.get_mut(&partition) else { return };
        let ready = incoming.receive(first, items);
        let next = incoming.next();
        ready.iter().for_each(|item| self.columns.receive(partition, item));
        self.send(from, Message::StreamAck { partition, next }, out);
        if !ready.is_empty() {
            self.finish_queries(now, out);
        }
    }

    // ---- timers -----------------------------------------------------------------------------------

    fn timer(&mut self, now: Time, timer: Timer<E::Timer>, out: &mut Effects<Self>) {
        match timer {
            Timer::Engine(timer) => {
                let mut effects = std::mem::take(&mut self.effects);
                self.engine.timer(now, timer, &mut self.data, &mut effects);
                self.engine_effects(now, effects, out);
            }
            Timer::Repeat { question } => self.repeat(now, question, out),
            Timer::Flush => {
                self.flush_armed = false;
                self.flush(now, out);
            }
            Timer::Resend => {
                self.resend_armed = false;
                self.send_batches(now, true, out);
                if !self.streams.is_settled() {
                    self.resend_armed = true;
                    out.timer(Timer::Resend, now + 50 * MS);
                }
            }
            Timer::Low => {
                let partitions: Vec<_> = self.topology.partitions_at(self.id).collect();
                for partition in partitions {
                    self.publish_low(now, partition, out);
                }
                self.tell_floor();
                out.timer(Timer::Low, now + self.options.low_interval_ns);
            }
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
        if !self.low_pending.insert(partition) {
            return;
        }
        let (rank, ticket) = (now.rank(), self.questions.next_ticket());
        self.questions.serving.insert(ticket, Serving { purpose: Purpose::Low(rank), partition, since: now });
        let mut effects = std::mem::take(&mut self.effects);
        let close = Close { partition, rank, granules: vec![Granule::Partition] };
        self.engine.close(now, ticket, close, &mut effects);
        self.engine_effects(now, effects, out);
    }

    fn status(&self, now: Time) -> Status {
        let rows = self.data.counters();
        let columns = self.columns.store.status();
        let subscribed = self.topology.nodes[self.id.0 as usize].subscribes.iter();
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
            collected_below: self.columns.collected_below,
            applied: subscribed.map(|p| (*p, self.columns.store.applied(*p))).collect(),
        }
    }
}

/// What a row read touches. Through an index, a row may have left or entered the range by a write that
/// names only its key, so the whole table is closed.
fn granule_of(read: &RowRead) -> Granule {
    match read.index {
        None => Granule::of(read.table, read.range.clone()),
        Some(_) => Granule::Range(read.table, KeyRange::all()),
    }
}

impl Columns {
    fn receive(&mut self, partition: PartitionId, item: &StreamItem) {
        self.graph.receive(partition, item);
        match item {
            StreamItem::Record(record) => self.store.apply(record),
            StreamItem::Low(rank) => {
                let low = self.low.entry(partition).or_default();
                *low = (*low).max(*rank);
            }
            StreamItem::Vertex(_) => {}
        }
    }
}

impl ColumnView for Columns {
    fn applied(&self, partition: PartitionId) -> LogPosition {
        self.store.applied(partition).0
    }
    fn newest(&self, partition: PartitionId) -> Rank {
        self.store.applied(partition).1
    }
    fn low(&self, partition: PartitionId) -> Rank {
        self.low.get(&partition).copied().unwrap_or_default()
    }
    fn graph(&self) -> &DependencyGraph {
        &self.graph
    }
}

impl<E: Engine> Process for Node<E> {
    type Message = Message<E::Message>;
    type Timer = Timer<E::Timer>;
    type Request = Request;
    type Reply = Reply;
    type Computed = MergedSegment;

    fn step(&mut self, now: Time, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Start => {
                self.tell_floor();
                let mut effects = std::mem::take(&mut self.effects);
                self.engine.start(now, &mut effects);
                self.engine_effects(now, effects, out);
                out.timer(Timer::Low, now + self.options.low_interval_ns);
                out.timer(Timer::Maintain, now + self.options.maintain_interval_ns);
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
                Message::Stream { partition, first, items } => {
                    self.receive_stream(now, from, partition, first, items, out)
                }
                Message::StreamAck { partition, next } => {
                    let patience_ns = self.patience_ns(from);
                    if let Some(outgoing) = self.streams.outgoing.get_mut(&partition) {
                        outgoing.acknowledged(now, from, next, patience_ns);
                    }
                }
            },
            Event::Timer(timer) => self.timer(now, timer, out),
            Event::Request { id, request } => self.request(now, id, request, out),
            Event::Vanished { id } => self.vanished(id),
            Event::Computed(merged) => {
                self.columns.store.install(merged);
                self.merging = false;
                self.merge(out);
            }
            Event::Persisted(_) => {}
        }
    }
}
