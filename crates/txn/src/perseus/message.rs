//! What nodes tell each other, and what they remind themselves of.
//!
//! One message serves all partitions that a node has in a transaction. Every message may be lost, repeated or reordered;
//! its sender asks again until it is answered ([`Deadline`]). "Recoverer" is a participant that takes a transaction over
//! because its coordinator is silent.
//!
//! | command | from | to | carries | when |
//! |---|---|---|---|---|
//! | `PreAccept` | coordinator | participants | the transaction, ballot, expected time of completion | a client submits; again until answered |
//! | `PreAcceptOk` | participant | coordinator | dependencies, `pts`, what others may lack of their closure, one-way delay | the transaction has its place in the participant's conflict index |
//! | `Commit` | coordinator, recoverer | participants | the union of the dependencies, the largest `pts`, no-op or not | every participant has answered |
//! | `RemoteRead` | participant | participants | what its partitions read | all dependencies have executed there |
//! | `RemoteReadWanted` | participant | participant | id | its reads are overdue |
//! | `Executed` | participant | coordinator | rank, its share of the result | the transaction has executed there |
//! | `Inquire` | any node | participant | vertices by name, watermark | final dependencies of a vertex are missing |
//! | `InquireReply` | participant | who asked | final dependencies, or "collected" | it knows them |
//! | `Recover` | recoverer | participants | a ballot above the coordinator's | the coordinator has been silent for too long |
//! | `RecoverOk` | participant | recoverer | what it knows of the transaction | it has promised the ballot |
//! | `Accept` | recoverer | participants | the decision to be committed | all reports are there and none is final |
//! | `AcceptOk` | participant | recoverer | ballot | it has stored the decision |
//! | `Refused` | participant | coordinator, recoverer | the ballot that it has promised | a message came with a lower ballot |
//! | `Duplicate` | participant | coordinator | the first attempt of the same request | another attempt of a named request stands there |
//! | `Attend` | gateway of a repeated request | participant | the request's name | it needs the outcome of the first attempt |
//! | `Gone` | participant | coordinator | id | the coordinator asks for a transaction that was collected after it was given up |
//! | `Progress` | node | gatherer of its region | rank up to which it has executed, floors of its ids | periodically |
//! | `Gathered` | gatherer | collector | the least of its region, one-way delays measured there | periodically |
//! | `Watermark` | collector | gatherers, then nodes | rank below which everything may be forgotten, delays between regions | periodically |
//! | `TimestampWanted` | coordinator | oracle | a lower bound | only in the baseline with a central timestamp oracle |
//! | `Timestamp` | oracle | coordinator | rank | the same |

use crate::graph::participants::Participants;
pub use crate::share::Share;
use base::txn::{ClientRequest, Gathered, Transaction};
use base::{NodeId, PartitionId, Rank, Time, TxnId};
use serde::{Deserialize, Serialize};

/// A dependency by name; its participants travel along, so that anyone can ask about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    pub txn: TxnId,
    pub participants: Participants,
}

/// A vertex with final dependencies, on its way to a node that may lack it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragment {
    pub txn: TxnId,
    pub participants: Participants,
    /// Without those that the sender had collected.
    pub dependencies: Vec<Dependency>,
    pub cts: Rank,
    /// It ends without effect.
    pub noop: bool,
    /// If the sender knows it.
    pub rank: Option<Rank>,
    /// What the sender knows of the rank because of dependencies, collected ones included.
    pub inherited: Rank,
    /// All the named dependencies are part of `inherited`.
    pub complete: bool,
    /// Dependencies were collected that are not part of `inherited`; their ranks go up to this.
    pub lost: Rank,
    /// Dependencies up to this rank cannot affect this vertex's: a participant had not executed it when
    /// the watermark was here.
    pub dominates: Rank,
    /// What its session had seen.
    pub after: Rank,
}

/// What a node answers about a vertex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Known {
    Final(Fragment),
    /// Collected: its rank lies at or below the watermark.
    Below(TxnId),
}

/// Who may decide a transaction; a higher ballot supersedes a lower one. [`Ballot::FIRST`] is its
/// coordinator's; whoever recovers takes a round of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ballot {
    pub round: u32,
    pub node: NodeId,
}

impl Ballot {
    pub const FIRST: Ballot = Ballot { round: 0, node: NodeId(0) };
}

/// Where a transaction goes: final once it is committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The union of what participants reported.
    pub dependencies: Vec<Dependency>,
    /// The largest pts.
    pub cts: Rank,
    /// It ends without effect: a participant never learned of it. It keeps its place in the graph,
    /// because others may depend on it.
    pub noop: bool,
}

/// What a participant knows of a transaction that somebody recovers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// It was not pre-accepted here, and no ballot below the promised one can change that.
    Unknown {
        /// It is not ranked below this, whatever becomes of it.
        pts: Rank,
        /// Another attempt of the same request stands here: this one must end without effect.
        claimed: bool,
    },
    PreAccepted {
        dependencies: Vec<Dependency>,
        pts: Rank,
        /// If it was asked for.
        payload: Option<Payload>,
    },
    /// By a recovery at this ballot.
    Accepted {
        ballot: Ballot,
        decision: Decision,
    },
    Final(Decision),
}

/// What it takes to pre-accept a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    pub transaction: Transaction,
    pub request: Option<ClientRequest>,
}

/// A coordinator's transactions below `floor` are collected everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    pub coordinator: NodeId,
    pub incarnation: u32,
    pub sequence: u64,
}

/// Between nodes; the table at the top of this file says who sends what, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Coordinator → participant: where does it stand with you?
    PreAccept {
        payload: Payload,
        ballot: Ballot,
        /// When it is expected to be complete at its last participant; 0 inside one region.
        expected: Rank,
        sent_at: Time,
    },
    /// Participant → coordinator. Stored; a duplicate request gets the same answer.
    PreAcceptOk {
        txn: TxnId,
        ballot: Ballot,
        dependencies: Vec<Dependency>,
        pts: Rank,
        /// Vertices of the dependencies' closure that another participant may lack.
        fragments: Vec<Fragment>,
        /// What the request's one-way delay was, by both clocks.
        delay_ns: u64,
        sent_at: Time,
    },
    /// Coordinator (or who recovers) → participant.
    Commit {
        txn: TxnId,
        decision: Decision,
        fragments: Vec<Fragment>,
    },
    /// Who recovers → participant: promise me this ballot, and what do you know?
    Recover {
        txn: TxnId,
        participants: Participants,
        ballot: Ballot,
        payload_wanted: bool,
    },
    RecoverOk {
        txn: TxnId,
        ballot: Ballot,
        report: Report,
    },
    /// Who recovers → participant: this is what I am going to commit.
    Accept {
        txn: TxnId,
        participants: Participants,
        ballot: Ballot,
        decision: Decision,
    },
    AcceptOk {
        txn: TxnId,
        ballot: Ballot,
    },
    /// Participant → who asked: a higher ballot is promised.
    Refused {
        txn: TxnId,
        ballot: Ballot,
    },
    /// Participant → coordinator: this transaction's request stands here already, as `first`; `None`: it
    /// is so old that its result may have been forgotten.
    Duplicate {
        txn: TxnId,
        first: Option<Dependency>,
    },
    /// Gateway of a repeated request → participant: how did the first attempt end with you?
    Attend {
        txn: TxnId,
        request: ClientRequest,
    },
    /// Participant → coordinator: collected; the coordinator was given up in the meantime.
    Gone {
        txn: TxnId,
    },
    /// Participant → participants: what was read there.
    RemoteRead {
        txn: TxnId,
        gathered: Vec<(PartitionId, Gathered)>,
        sent_at: Time,
    },
    /// Participant → participant: your reads have not arrived.
    RemoteReadWanted {
        txn: TxnId,
    },
    /// Participant → coordinator.
    Executed {
        txn: TxnId,
        rank: Rank,
        share: Share,
    },
    /// Anyone → participant: what are the final dependencies of these?
    Inquire {
        vertices: Vec<Dependency>,
        watermark: Rank,
    },
    InquireReply {
        known: Vec<Known>,
        watermark: Rank,
    },
    /// Node → its region's gatherer.
    Progress {
        done: Rank,
        /// One for each life of the node.
        floors: Vec<Floor>,
    },
    /// Gatherer → collector: the least of what its region reports.
    Gathered {
        done: Rank,
        /// Some of the region's, in turn.
        floors: Vec<Floor>,
        /// One-way delays of what arrived at the gatherer, by region of the sender.
        delays_ns: Vec<u64>,
    },
    /// Collector → gatherers → nodes: everything at or below this rank is executed everywhere and read by nobody.
    Watermark {
        rank: Rank,
        /// Some of all, in turn.
        floors: Vec<Floor>,
        /// `delays_ns[to][from]`, by region.
        delays_ns: Vec<Vec<u64>>,
    },
    /// Coordinator → oracle: a timestamp for this transaction, not below this.
    TimestampWanted {
        txn: TxnId,
        at_least: Rank,
    },
    /// Oracle → coordinator.
    Timestamp {
        txn: TxnId,
        rank: Rank,
    },
}

impl Message {
    /// Bytes of the dependency graph in it: what an engine without one would not send.
    pub fn graph_bytes(&self) -> usize {
        // Less the version.
        fn bytes(value: &impl Serialize) -> usize {
            base::codec::encoded_len(value) - 1
        }
        match self {
            Message::PreAcceptOk { dependencies, fragments, .. } => bytes(dependencies) + bytes(fragments),
            Message::Commit { decision, fragments, .. } => bytes(&decision.dependencies) + bytes(fragments),
            Message::RecoverOk { report: Report::PreAccepted { dependencies, .. }, .. } => {
                bytes(dependencies)
            }
            Message::RecoverOk { report: Report::Accepted { decision, .. }, .. }
            | Message::RecoverOk { report: Report::Final(decision), .. }
            | Message::Accept { decision, .. } => bytes(&decision.dependencies),
            Message::Inquire { vertices, .. } => bytes(vertices),
            Message::InquireReply { known, .. } => bytes(known),
            _ => 0,
        }
    }
}

/// Reminders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A rank has passed into the past: answers may go out.
    Gate,
    /// Something may have been lost; ask again.
    Retry,
    /// Tell the gatherer how far this node is.
    Collect,
}

/// What is asked again if nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deadline {
    /// PreAccept or Commit, by the coordinator.
    Coordination(TxnId),
    /// Other participants' reads.
    Exchange(TxnId),
    /// Final dependencies.
    Inquiry(TxnId),
    /// A pre-accepted transaction whose coordinator may be lost.
    Recovery(TxnId),
    /// The end of a repeated request's first attempt.
    Attendance(TxnId),
    /// Another attempt after this one, which ended without effect.
    Again(TxnId),
}
