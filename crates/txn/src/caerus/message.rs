//! What nodes tell each other, and what they remind themselves of.

pub use crate::share::Share;
use base::txn::{Gathered, Transaction};
use base::{NodeId, PartitionId, Rank, RegionId, Time, TxnId};
use serde::{Deserialize, Serialize};

/// A transaction's place in one region's partial sequence. The whole transaction travels in each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub transaction: Transaction,
    /// The transaction's rank is at least this.
    pub stamp: Rank,
    /// What the sequencer knew to be collected; whoever read below it aborts, at every copy.
    pub collected: Rank,
}

/// A gateway's transactions below `sequence` have been answered, those of earlier lives included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    pub coordinator: NodeId,
    pub incarnation: u32,
    pub sequence: u64,
}

/// Between nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Gateway → sequencer: order these; the `first`-th and following of this link, which is named by the
    /// gateway's life that opened it.
    Submit { incarnation: u32, first: u64, transactions: Vec<Transaction>, sent_at: Time },
    /// Sequencer → gateway: everything before `next` has arrived.
    SubmitAck { incarnation: u32, next: u64, gap: bool },
    /// Sequencer → replicas: entries `first..` of its region's sequence. Whatever comes behind them is
    /// stamped above `low`, and knows versions at or below `collected` to be gone. Entries before `stable`
    /// are in as many other regions as have to have them.
    Append {
        sequence: RegionId,
        first: u64,
        entries: Vec<Entry>,
        low: Rank,
        collected: Rank,
        stable: u64,
        sent_at: Time,
    },
    /// Replica → sequencer: everything before `next` has arrived.
    AppendAck { next: u64, gap: bool },
    /// Replica → sequencer of its own region: a reader needs a low of at least this.
    LowWanted { rank: Rank },
    /// Between the nodes of a region that take part in a transaction: what was read here.
    Reads { txn: TxnId, gathered: Vec<(PartitionId, Gathered)> },
    /// Your reads have not arrived.
    ReadsWanted { txn: TxnId },
    /// Node of the answering region → gateway.
    Executed { txn: TxnId, rank: Rank, share: Share },
    /// Gateway → answering region: how did it end?
    OutcomeWanted { txn: TxnId },
    /// Node → collector: what is at or below `done` has executed here and is read by nobody here.
    Progress { done: Rank, floor: Floor, delays_ns: Vec<u64> },
    /// Collector → nodes: the same of all nodes. `delays_ns[to][from]`, by region.
    Watermark { rank: Rank, floors: Vec<Floor>, delays_ns: Vec<Vec<u64>> },
}

/// Reminders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A batch's interval is over: what has gathered since goes out.
    Flush,
    /// Tell replicas how far this region's sequence is complete; ask again for what is overdue.
    Tick,
    /// A rank has passed into the past: answers may go out.
    Gate,
    /// Tell the collector how far this node is.
    Collect,
}
