//! What a node remembers, and the loop that settles everything one event brings about.

use super::closing::closes::Closes;
use super::closure::inquiries::Inquiries;
use super::cluster::Cluster;
use super::collection::collector::Collection;
use super::gateway::Gateway;
use super::message::{Ballot, Message};
use super::options::Options;
use super::oracle::Oracle;
use super::partitions::Partitions;
use super::recorder::Recorder;
use super::recovery::Recoveries;
use super::reminders::Reminders;
use super::requests::Requests;
use super::schedule::Schedule;
use super::vertex::Graph;
use super::work::{Out, Work};
use crate::delays::Delays;
use crate::engine::{EngineEffect, Executor};
use crate::graph::vertex::{Ref, State};
use base::order::StreamItem;
use base::topology::Topology;
use base::{NodeId, PartitionId, Rank, Time, TxnId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The engine at one node: parts that own what they remember.
#[derive(Clone, Debug)]
pub struct Perseus {
    pub(super) cluster: Cluster,
    pub(super) gateway: Gateway,
    pub(super) requests: Requests,
    pub(super) recoveries: Recoveries,

    pub(super) partitions: Partitions,
    pub(super) graph: Graph,
    pub(super) inquiries: Inquiries,
    pub(super) schedule: Schedule,

    pub(super) closes: Closes,
    pub(super) oracle: Oracle,
    pub(super) collection: Collection,
    pub(super) recorder: Recorder,
    pub(super) measured: Measured,
    pub(super) reminders: Reminders,
    pub(super) work: VecDeque<Work>,
}

/// What was measured at this node so far.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub delays: Delays,
    /// Bytes of dependencies and fragments sent to other nodes' engines, and on streams to one subscriber
    /// each; counted with [`Options::measure_graph`].
    pub graph_bytes_sent: u64,
    pub graph_bytes_streamed: u64,
    /// Messages that no correct node sends, by sender and reason.
    pub refused: BTreeMap<(NodeId, &'static str), u64>,
}

impl Measured {
    fn new(topology: &Topology) -> Measured {
        Measured {
            delays: Delays::new(topology),
            graph_bytes_sent: 0,
            graph_bytes_streamed: 0,
            refused: BTreeMap::new(),
        }
    }
}

impl Perseus {
    /// An engine for `me` in its `incarnation`-th life.
    pub fn new(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Perseus {
        let cluster = Cluster { topology, me, options };
        let partitions = Partitions::new(&cluster);
        Perseus {
            gateway: Gateway::new(incarnation),
            requests: Requests::default(),
            recoveries: Recoveries::default(),
            graph: Graph::default(),
            inquiries: Inquiries::default(),
            schedule: Schedule::default(),
            closes: Closes::new(partitions.count()),
            partitions,
            oracle: Oracle::default(),
            collection: Collection::new(&cluster.topology, me),
            recorder: Recorder::default(),
            measured: Measured::new(&cluster.topology),
            reminders: Reminders::default(),
            work: VecDeque::new(),
            cluster,
        }
    }

    /// Vertices held now.
    pub fn vertex_count(&self) -> usize {
        self.graph.len()
    }
    /// Everything at or below this rank is collected.
    pub fn watermark(&self) -> Rank {
        self.collection.watermark()
    }
    /// Granules remembered by the conflict indexes.
    pub fn granule_count(&self) -> usize {
        self.partitions.conflicts.granule_count()
    }
    /// Transactions that take part here and have waited for a decision for longer than this: their keys
    /// are blocked. They stay so only while a participant is lost that may know the decision.
    pub fn stalled(&self, now: Time, longer_than_ns: u64) -> Vec<TxnId> {
        let waiting = self.graph.iter().map(|(_, vertex)| vertex).filter(|vertex| {
            vertex.state == State::PreAccepted && now.since(vertex.extra.received_at) > longer_than_ns
        });
        waiting.map(|vertex| vertex.id).collect()
    }

    pub(super) fn local_index(&self, partition: PartitionId) -> Option<usize> {
        self.partitions.index_of(partition)
    }

    pub(super) fn send(&mut self, to: NodeId, message: Message, out: &mut Out) {
        if to == self.cluster.me {
            self.do_later([Work::Deliver(message)]);
        } else {
            if self.cluster.options.measure_graph {
                self.measured.graph_bytes_sent += message.graph_bytes() as u64;
            }
            out.push(EngineEffect::Send { to, message });
        }
    }

    pub(super) fn do_later(&mut self, work: impl IntoIterator<Item = Work>) {
        self.work.extend(work);
    }
    /// Searches from these, which may have become executable.
    pub(super) fn search_later(&mut self, roots: impl IntoIterator<Item = Ref>) {
        self.do_later(roots.into_iter().map(Work::Search));
    }
    /// Executes these, whose turn has come.
    pub(super) fn execute_later(&mut self, ready: impl IntoIterator<Item = Ref>) {
        self.do_later(ready.into_iter().map(Work::Execute));
    }
    /// What is left to do next.
    pub(super) fn next_work(&mut self) -> Option<Work> {
        self.work.pop_front()
    }

    /// The next item of a partition's stream.
    pub(super) fn stream(&mut self, partition: PartitionId, item: StreamItem, out: &mut Out) {
        if let StreamItem::Vertex(vertex) = &item
            && self.cluster.options.measure_graph
        {
            self.measured.graph_bytes_streamed += base::codec::encoded_len(vertex) as u64 - 1;
        }
        out.push(EngineEffect::Stream { partition, item });
    }

    /// Whether a message of another node is handled; counts those that are not.
    pub(super) fn is_plausible(&mut self, now: Time, from: NodeId, message: &Message) -> bool {
        let Err(reason) = self.check(now, message) else { return true };
        base::sometimes!("a message that no correct node of perseus sends is refused");
        *self.measured.refused.entry((from, reason)).or_default() += 1;
        false
    }

    pub(super) fn handle(&mut self, now: Time, from: NodeId, message: Message, out: &mut Out) {
        match message {
            Message::PreAccept { payload, ballot, expected, sent_at } => {
                let delay_ns = now.since(sent_at);
                self.measured.delays.arrived(from, self.cluster.me, delay_ns);
                self.on_pre_accept(now, from, payload, ballot, expected, delay_ns, out)
            }
            Message::PreAcceptOk { txn, ballot, dependencies, pts, fragments, delay_ns, sent_at } => {
                self.measured.delays.arrived(from, self.cluster.me, now.since(sent_at));
                self.measured.delays.arrived(self.cluster.me, from, delay_ns);
                if ballot == Ballot::FIRST {
                    self.on_pre_accept_ok(now, from, txn, dependencies, pts, fragments, out)
                } else {
                    self.on_pre_accepted_late(from, txn, ballot, dependencies, pts, out)
                }
            }
            Message::Commit { txn, decision, fragments } => {
                self.on_commit(now, from, txn, decision, fragments, out)
            }
            Message::Recover { txn, participants, ballot, payload_wanted } => {
                self.on_recover(now, from, txn, participants, ballot, payload_wanted, out)
            }
            Message::RecoverOk { txn, ballot, report } => {
                self.on_recover_ok(now, from, txn, ballot, report, out)
            }
            Message::Accept { txn, participants, ballot, decision } => {
                self.on_accept(now, from, txn, participants, ballot, decision, out)
            }
            Message::AcceptOk { txn, ballot } => self.on_accept_ok(from, txn, ballot, out),
            Message::Refused { txn, ballot } => self.on_refused(txn, ballot),
            Message::Duplicate { txn, first } => self.on_duplicate(now, txn, first, out),
            Message::Attend { txn, request } => self.on_attend(from, txn, request, out),
            Message::Gone { txn } => self.on_gone(now, txn),
            Message::RemoteRead { txn, gathered, sent_at } => {
                self.measured.delays.arrived(from, self.cluster.me, now.since(sent_at));
                self.on_remote_read(txn, gathered)
            }
            Message::RemoteReadWanted { txn } => self.on_remote_read_wanted(now, from, txn, out),
            Message::Executed { txn, rank, share } => self.on_executed(now, from, txn, rank, share, out),
            Message::TimestampWanted { txn, at_least } => {
                self.on_timestamp_wanted(now, from, txn, at_least, out)
            }
            Message::Timestamp { txn, rank } => self.on_timestamp(now, txn, rank, out),
            Message::Inquire { vertices, watermark } => self.on_inquire(from, vertices, watermark, out),
            Message::InquireReply { known, watermark } => self.on_inquire_reply(known, watermark, out),
            Message::Progress { done, floors } => self.on_progress(now, from, done, floors, out),
            Message::Gathered { done, floors, delays_ns } => {
                self.on_gathered(now, from, done, floors, delays_ns, out)
            }
            Message::Watermark { rank, floors, delays_ns } => {
                self.on_watermark(from, rank, &floors, delays_ns, out)
            }
        }
    }

    /// Does everything that follows within this call, then sets the timers.
    pub(super) fn settle(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        self.look_at_image();
        while let Some(work) = self.next_work() {
            match work {
                Work::Deliver(message) => self.handle(now, self.cluster.me, message, out),
                Work::Search(root) => self.search(now, root, out),
                Work::Execute(at) => self.execute(now, at, executor, out),
            }
        }
        self.record_many_ends(out);
        self.look_at_logs(out);
        self.open_gate(now, out);
        self.arm_reminders();
    }
}
