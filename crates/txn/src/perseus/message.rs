//! What nodes tell each other, and what they remind themselves of.

use crate::graph::participants::Participants;
pub use crate::share::Share;
use base::txn::{Gathered, Transaction};
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

/// A coordinator's transactions below `floor` are collected everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    pub coordinator: NodeId,
    pub incarnation: u32,
    pub sequence: u64,
}

/// Between nodes. One message serves all partitions that a node has in a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Coordinator → participant: where does it stand with you?
    PreAccept {
        transaction: Transaction,
        /// When it is expected to be complete at its last participant; 0 inside one region.
        expected: Rank,
        sent_at: Time,
    },
    /// Participant → coordinator. Stored; a duplicate request gets the same answer.
    PreAcceptOk {
        txn: TxnId,
        dependencies: Vec<Dependency>,
        pts: Rank,
        /// Vertices of the dependencies' closure that another participant may lack.
        fragments: Vec<Fragment>,
        /// What the request's one-way delay was, by both clocks.
        delay_ns: u64,
        sent_at: Time,
    },
    /// Coordinator → participant: the union of dependencies, the largest pts.
    Commit {
        txn: TxnId,
        dependencies: Vec<Dependency>,
        cts: Rank,
        fragments: Vec<Fragment>,
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
    /// Node → collector.
    Progress {
        done: Rank,
        /// One for each life of the node.
        floors: Vec<Floor>,
        /// One-way delays of what arrived here, by region of the sender.
        delays_ns: Vec<u64>,
    },
    /// Collector → nodes: everything at or below this rank is executed everywhere and read by nobody.
    Watermark {
        rank: Rank,
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

/// Reminders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A rank has passed into the past: answers may go out.
    Gate,
    /// Something may have been lost; ask again.
    Retry,
    /// Tell the collector how far this node is.
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
}
