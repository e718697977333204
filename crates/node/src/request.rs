//! What a local client may ask of a node, and what it is told. Replies stay inside the process that hosts
//! the node, but for rows that a replica in another process has read; a durable node writes requests to its log
//! ([`crate::durable`]).

use crate::clocks::PeerClock;
use crate::locks::{LockEvent, LockOwner, RowName, WishName};
use crate::message::Call;
use base::cut::{Consistency, Freshness};
use base::schema::Catalog;
use base::txn::{Outcome, RowRead, Submission};
use base::{
    Cut, Key, LogPosition, NodeId, PartitionId, Rank, RegionId, Row, SqlError, TableId, Time, Token, TxnId,
};
use colstore::{TableSnapshot, Wanted};
use reads::replica::ReadPolicy;
use rowstore::Counters;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use txn::any::EngineKind;
pub use txn::engine::{RegionHealth, RegionState};
pub use txn::survival::{Guarantee, Survival};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Order and execute a transaction.
    Submit(Submission),
    /// Order what is homed with a partition in another region, while everything goes on; answered like a
    /// transaction. Tables of it that moved by themselves stay where they are.
    MoveHome {
        partition: PartitionId,
        to: RegionId,
    },
    /// Rows of one or more partitions at one cut.
    ReadRows(ReadRows),
    /// A procedure that only reads, at a strong cut; it is not ordered and holds up nobody.
    Call(ReadingCall),
    /// An immutable snapshot of column copies, for one query.
    OpenSnapshot(OpenSnapshot),
    /// Fixes a cut for an interactive transaction and keeps its versions alive until [`Request::Unpin`].
    /// At `rss` and `regular` the cut holds everything answered before; at `session` and `stale` it is the latest
    /// that is complete at this node already, or at `session` the session's token if that is later: reading what is
    /// complete waits for nobody's decision.
    Pin {
        consistency: Consistency,
        token: Token,
    },
    Unpin(PinId),
    /// The catalog as this node knows it.
    Catalog,
    /// How many rows of a table are here, as of now.
    CountRows(TableId),
    /// Counters and gauges.
    Status,
    /// Lock rows at their home, in another region, after whoever came there before ([`crate::locks`]).
    LockRows(LockRows),
    /// A transaction that had rows locked at another home is over.
    UnlockRows {
        home: NodeId,
        owner: LockOwner,
    },
    /// The gateway serves locks on rows homed here; answered once there is something to do. `begins`: it has not
    /// done so before.
    ServeLocks {
        begins: bool,
    },
    /// Its answer to [`LockEvent::Want`]: the rows are locked (after waiting for others, if so), or never can be.
    LockServed {
        name: WishName,
        result: Result<bool, SqlError>,
    },
    /// As [`Request::ReadRows`], under another policy than the node's own where it keeps replicas of the rows.
    ReadRowsUnder {
        policy: ReadPolicy,
        read: ReadRows,
    },
    /// The process is about to end: other nodes are to lead what this one leads.
    HandOver,
}

/// Rows to lock together at their home.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LockRows {
    pub home: NodeId,
    pub owner: LockOwner,
    /// They are locked in this order.
    pub rows: Vec<RowName>,
    /// The longest wait; `None`: as long as the home is heard of.
    pub patience_ns: Option<u64>,
}

/// Rows are locked at their home.
#[derive(Clone, Copy, Debug)]
pub struct Locked {
    /// A cut at this rank holds whatever was answered before they were; `None`: clocks do not tell.
    pub at: Option<Rank>,
    /// After waiting for others.
    pub waited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PinId(pub u64);

/// A read of rows: exact at the cut, like everything else here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadRows {
    /// A pinned cut; `None` chooses one by `consistency` and `token`.
    pub at: Option<Rank>,
    /// As for [`Request::Pin`]. Rows are read at the nearest copy, whatever the level,
    /// or at a replica that this node keeps of them, as [`crate::node::Kept::policy`] says.
    pub consistency: Consistency,
    pub token: Token,
    pub reads: Vec<RowRead>,
}

/// A call of a registered procedure that declared reads only, all of them at one partition. It is answered
/// with [`Reply::Rows`]: one read, whose rows have empty keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadingCall {
    pub partition: PartitionId,
    pub call: Call,
    pub token: Token,
}

/// What a query is about to read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenSnapshot {
    /// A pinned cut; `None` chooses one by `consistency` and `token`.
    pub at: Option<Rank>,
    pub consistency: Consistency,
    pub token: Token,
    /// Tables, each with the partitions whose rows can matter.
    pub tables: BTreeMap<TableId, BTreeSet<PartitionId>>,
    /// What will be looked at of tables; of others, everything. Partitions whose columns other readers keep send no
    /// more than this.
    pub wanted: BTreeMap<TableId, Wanted>,
}

pub enum Reply {
    /// An error here means that nothing was ordered.
    Submitted(Result<Submitted, SqlError>),
    Rows(Result<Rows, SqlError>),
    Snapshot(Result<Snapshot, SqlError>),
    Pinned(Result<(PinId, Rank), SqlError>),
    Unpinned,
    Catalog(Arc<Catalog>),
    RowCount(u64),
    Status(Box<Status>),
    /// `None`: the home was silent, or it took too long; nothing is locked.
    Locked(Result<Option<Locked>, SqlError>),
    LockEvents(Vec<LockEvent>),
    Noted,
}

/// A transaction's end.
#[derive(Clone, Debug)]
pub struct Submitted {
    pub txn: TxnId,
    pub rank: Rank,
    pub outcome: Outcome,
    /// For the session: its next reads and writes come after this transaction.
    pub token: Token,
    /// Where the time went: phase and ns.
    pub phases: Vec<(&'static str, u64)>,
    pub regions: BTreeSet<RegionId>,
    pub latency_ns: u64,
}

/// Rows per [`RowRead`], in key order (or its reverse).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rows {
    pub at: Rank,
    pub reads: Vec<Vec<(Key, Row)>>,
    pub token: Token,
    pub freshness: Freshness,
    /// Other nodes that were asked.
    pub asked: BTreeSet<NodeId>,
}

/// Immutable columns at one cut.
#[derive(Clone)]
pub struct Snapshot {
    pub cut: Cut,
    /// One per table asked for, already filtered to the cut and the partitions.
    pub tables: BTreeMap<TableId, Arc<TableSnapshot>>,
    /// Catalog at the cut; a plan made with other table versions must be made again.
    pub catalog: Arc<Catalog>,
    pub token: Token,
    pub freshness: Freshness,
    /// Who gave what, if other readers took part.
    pub sources: Vec<Source>,
    /// Other nodes that were asked: readers, or who runs the partitions.
    pub asked: BTreeSet<NodeId>,
}

/// One reader's part in a query over several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub reader: NodeId,
    pub partitions: BTreeSet<PartitionId>,
    /// Rows and bytes that were sent for it; 0 for the coordinator's own.
    pub rows: u64,
    pub bytes: u64,
    /// From the query's arrival until the part was readable, and how long the reader itself had waited.
    pub opened_ns: u64,
    pub waited_ns: u64,
}

/// How a node's replicas of rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaReport {
    /// Everything at or below it is applied; `None`: a copy is arriving.
    pub complete: Option<Rank>,
    pub rows: u64,
    /// Questions to partitions, and how many of them what was published answered.
    pub fetches_sent: u64,
    pub fetches_loaded: u64,
    /// So was the last one.
    pub loads: bool,
}

/// A node's counters and gauges.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub now: Time,
    pub commits: u64,
    /// By SQLSTATE.
    pub aborts: BTreeMap<String, u64>,
    pub messages_sent: u64,
    /// Of the partitions that run here.
    pub rows: Counters,
    pub column_rows: u64,
    pub column_bytes: u64,
    pub graph_vertices: u64,
    /// What superseded versions of rows take that somebody may still read, or that wait to be collected: about.
    /// Those of columns are not counted: they stay until a merge is worth it, whoever reads.
    pub old_version_bytes: u64,
    pub collected_below: Rank,
    /// Versions below that rank are still on their way out.
    pub is_collecting: bool,
    /// What is known of other nodes' clocks; nothing where nobody's clock matters.
    pub clocks: Vec<PeerClock>,
    /// Why the node has fenced itself.
    pub out: Option<SqlError>,
    /// Per subscribed partition: position and rank applied to the column copy.
    pub applied: BTreeMap<PartitionId, (LogPosition, Rank)>,
}
