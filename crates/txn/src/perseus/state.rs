//! What a node remembers, and the loop that settles everything one event brings about.

use super::closing::Closing;
use super::collection::Collection;
use super::coordinator::{Coordination, Origin};
use super::message::{Ballot, Deadline, Decision, Message, Share, Timer};
use super::options::Options;
use super::recovery::Recovery;
use super::requests::{Attendance, Requests};
use crate::delays::Delays;
use crate::engine::{Answer, EngineEffect, Executor};
use crate::graph::conflict::{ConflictIndex, Flaws};
use crate::graph::vertex::{Ref, State, Vertices};
use crate::timers::Timers;
use base::order::CloseTicket;
use base::topology::Topology;
use base::txn::{ClientRequest, Gathered};
use base::{LogPosition, NodeId, PartitionId, Rank, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub(super) type Out = Vec<EngineEffect<Message>>;

/// The engine at one node.
#[derive(Clone, Debug)]
pub struct Perseus {
    pub(super) topology: Arc<Topology>,
    pub(super) me: NodeId,
    pub(super) incarnation: u32,
    pub(super) options: Options,
    pub(super) sequence: u64,
    pub(super) partitions: Vec<Partition>,
    /// Index into `partitions`, by partition id.
    pub(super) local: Vec<Option<u8>>,
    pub(super) graph: Vertices<Extra>,
    pub(super) groups: BTreeMap<u32, Group>,
    pub(super) groups_made: u32,
    /// Pre-accepted and not executed here, by the lower bound of their cts.
    pub(super) pending: BTreeSet<(Rank, u32)>,
    pub(super) coordinating: BTreeMap<TxnId, Coordination>,
    /// Attempts under way, with the submissions that they belong to.
    pub(super) origins: BTreeMap<TxnId, Origin>,
    /// Transactions that this node recovers.
    pub(super) recovering: BTreeMap<TxnId, Recovery>,
    pub(super) requests: Requests,
    /// First attempts of repeated requests whose ends this gateway waits for.
    pub(super) attending: BTreeMap<TxnId, Attendance>,
    pub(super) inquiries: BTreeMap<TxnId, u32>,
    pub(super) deadlines: BTreeMap<(Time, Deadline), u32>,
    /// Answers whose rank does not lie in the past yet.
    pub(super) gate: BTreeMap<(Rank, TxnId), Answer>,
    pub(super) timers: Timers<Timer>,
    /// Largest rank answered here: what is submitted here later is ranked above it.
    pub(super) answered: Rank,
    pub(super) closes: BTreeMap<CloseTicket, Closing>,
    /// Closes to look at again when this slot changes.
    pub(super) close_waits: BTreeMap<u32, Vec<CloseTicket>>,
    pub(super) floor: Option<Rank>,
    /// Largest timestamp handed out here; see [`super::oracle`].
    pub(super) handed_out: Rank,
    pub(super) collection: Collection,
    pub(super) delays: Delays,
    pub(super) work: VecDeque<Work>,
    pub(super) counts: Counts,
    /// Reused: whom a PreAccept conflicts with.
    pub(super) scratch: Vec<Ref>,
}

/// What happened at this node so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Recoveries led from here, attempts counted.
    pub recoveries: u64,
    /// Decisions made here that a transaction ends without effect.
    pub noops: u64,
    /// Transactions of this gateway that have ended with effect or an abort.
    pub answered: u64,
    /// Bytes of dependencies and fragments sent to other nodes' engines, and on streams to one subscriber
    /// each; counted with [`Options::measure_graph`].
    pub graph_bytes_sent: u64,
    pub graph_bytes_streamed: u64,
}

/// One partition of this node.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    pub id: PartitionId,
    pub index: ConflictIndex,
    /// Every later pts here is larger.
    pub closed: Rank,
    pub position: LogPosition,
    pub rank_max: Rank,
    /// Somebody reads the stream.
    pub streams: bool,
}

/// What this engine keeps beside a vertex.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    pub received_at: Time,
    /// Own lower bound, as answered to PreAccept.
    pub pts: Rank,
    /// It ends without effect.
    pub noop: bool,
    /// Present for transactions that take part at several nodes.
    pub remote: Option<Box<Remote>>,
}

/// A transaction between nodes, at one of its participants (or at a node that was asked about it).
#[derive(Clone, Debug, Default)]
pub(super) struct Remote {
    /// The stored answer to PreAccept.
    pub answer: Option<Message>,
    pub exchange: BTreeMap<PartitionId, Gathered>,
    /// Own reads are in the exchange.
    pub gathered: bool,
    /// The stored end.
    pub share: Option<Share>,
    /// Nodes that asked for its final dependencies.
    pub inquirers: Vec<NodeId>,
    /// No older ballot decides here.
    pub promised: Option<Ballot>,
    /// What a recovery wants to commit.
    pub accepted: Option<(Ballot, Decision)>,
    /// Whoever has the promised ballot was told that this node does not pre-accept it, or has gone on to a
    /// proposal: a late copy of their PreAccept changes nothing.
    pub barred: bool,
    /// It was not pre-accepted here; its place is kept for whoever recovers it.
    pub placeholder: bool,
    /// Somebody else recovers it: leave them in peace until then.
    pub patient_until: Time,
    /// The client's name for it.
    pub request: Option<ClientRequest>,
}

impl Remote {
    /// The ballot that decides here.
    pub fn ballot(&self) -> Ballot {
        self.promised.unwrap_or(Ballot::FIRST)
    }
}

/// A component with several members here.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub members: Vec<Ref>,
    pub unexecuted: usize,
}

/// What is left to do within the current call.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A message to oneself.
    Deliver(Message),
    /// A final transaction may have become executable.
    Search(Ref),
    /// All predecessors are done.
    Execute(Ref),
}

impl Perseus {
    /// An engine for `me` in its `incarnation`-th life.
    pub fn new(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Perseus {
        let flaws = Flaws {
            forget_readers: options.planted(super::options::Mutant::MissingAntiDependency),
            ..Flaws::default()
        };
        let mut local = vec![None; topology.partitions.len()];
        let mut partitions = Vec::new();
        for id in topology.partitions_at(me) {
            local[id.0 as usize] = Some(partitions.len() as u8);
            partitions.push(Partition {
                id,
                index: ConflictIndex::with_flaws(flaws),
                closed: Rank::ZERO,
                position: LogPosition(0),
                rank_max: Rank::ZERO,
                streams: topology.subscribers_of(id).next().is_some(),
            });
        }
        assert!(partitions.len() <= 64, "a node runs at most 64 partitions");
        Perseus {
            me,
            incarnation,
            sequence: 0,
            partitions,
            local,
            graph: Vertices::default(),
            groups: BTreeMap::new(),
            groups_made: 0,
            pending: BTreeSet::new(),
            coordinating: BTreeMap::new(),
            origins: BTreeMap::new(),
            recovering: BTreeMap::new(),
            requests: Requests::default(),
            attending: BTreeMap::new(),
            inquiries: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            gate: BTreeMap::new(),
            timers: Timers::default(),
            answered: Rank::ZERO,
            closes: BTreeMap::new(),
            close_waits: BTreeMap::new(),
            floor: None,
            handed_out: Rank::ZERO,
            collection: Collection::new(&topology, me),
            delays: Delays::new(&topology),
            work: VecDeque::new(),
            counts: Counts::default(),
            scratch: Vec::new(),
            topology,
            options,
        }
    }

    /// Vertices held now.
    pub fn vertex_count(&self) -> usize {
        self.graph.len()
    }
    /// Everything at or below this rank is collected.
    pub fn watermark(&self) -> Rank {
        self.collection.watermark
    }
    /// Granules remembered by the conflict indexes.
    pub fn granule_count(&self) -> usize {
        self.partitions.iter().map(|p| p.index.len()).sum()
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
        self.local[partition.0 as usize].map(usize::from)
    }
    pub(super) fn partition(&self, partition: PartitionId) -> &Partition {
        let index = self.local_index(partition).expect("the partition is run by this node");
        &self.partitions[index]
    }
    pub(super) fn clock_bound_ns(&self) -> u64 {
        self.topology.clock_bound_ns
    }

    pub(super) fn send(&mut self, to: NodeId, message: Message, out: &mut Out) {
        if to == self.me {
            self.work.push_back(Work::Deliver(message));
        } else {
            if self.options.measure_graph {
                self.counts.graph_bytes_sent += message.graph_bytes() as u64;
            }
            out.push(EngineEffect::Send { to, message });
        }
    }

    /// Asks again at `at` if the deadline still means something then.
    pub(super) fn remember(&mut self, at: Time, deadline: Deadline, attempt: u32) {
        self.deadlines.insert((at, deadline), attempt);
    }

    pub(super) fn handle(&mut self, now: Time, from: NodeId, message: Message, out: &mut Out) {
        match message {
            Message::PreAccept { payload, ballot, expected, sent_at } => {
                let delay_ns = now.since(sent_at);
                self.delays.arrived(from, self.me, delay_ns);
                self.on_pre_accept(now, from, payload, ballot, expected, delay_ns, out)
            }
            Message::PreAcceptOk { txn, ballot, dependencies, pts, fragments, delay_ns, sent_at } => {
                self.delays.arrived(from, self.me, now.since(sent_at));
                self.delays.arrived(self.me, from, delay_ns);
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
            Message::Gone { txn } => self.on_gone(now, txn, out),
            Message::RemoteRead { txn, gathered, sent_at } => {
                self.delays.arrived(from, self.me, now.since(sent_at));
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
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Deliver(message) => self.handle(now, self.me, message, out),
                Work::Search(root) => self.search(now, root, out),
                Work::Execute(at) => self.execute(now, at, executor, out),
            }
        }
        self.open_gate(now, out);
        self.arm_retry();
    }

    /// The reply gate opens for the next answer then.
    pub(super) fn gate_at(&mut self, at: Time) {
        self.timers.set_by(at, Timer::Gate);
    }

    /// Makes sure that the earliest deadline is looked at.
    pub(super) fn arm_retry(&mut self) {
        if let Some(((at, _), _)) = self.deadlines.first_key_value() {
            self.timers.set_by(*at, Timer::Retry);
        }
    }

    /// Asks again for whatever is overdue.
    pub(super) fn retry(&mut self, now: Time, out: &mut Out) {
        while let Some(entry) = self.deadlines.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ((_, deadline), attempt) = entry.remove_entry();
            let again = match deadline {
                Deadline::Coordination(txn) => self.retry_coordination(now, txn, out),
                Deadline::Exchange(txn) => self.retry_exchange(txn, out),
                Deadline::Inquiry(txn) => self.retry_inquiry(txn, out),
                Deadline::Recovery(txn) => self.retry_recovery(now, txn, out),
                Deadline::Attendance(txn) => self.retry_attendance(txn, out),
            };
            if again {
                let pause = self.options.retry_after_ns(&self.topology) << (attempt + 1).min(16);
                let at = now + pause.min(self.options.retry_max_ns);
                self.remember(at, deadline, attempt + 1);
            }
        }
    }
}
