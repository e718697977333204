//! What nodes say to each other, and every timer with a sentence.
//!
//! | command | from | to | carries | when |
//! |---|---|---|---|---|
//! | `Engine` | engine | engine | the engine's own message | the engine says so; see its `message` module |
//! | `Ask` | reader | node with the partition | a [`Question`] and its number | a query needs it; again until answered |
//! | `Told` | node with the partition | reader | the answer or an error, how long it was held back | the answer is known |
//! | `Stream` | node with the partition | subscriber | commit records and closed timestamps, numbered | records have gathered, or after a silence, from the last acknowledgement on |
//! | `StreamAck` | subscriber | node with the partition | the number up to which it has everything | periodically; renews the subscriber's lease |
//! | `Scan` | coordinator of a query | another reader | open a part at the query's cut, fetch pieces of it, release it | no reader has all columns that the query reads; again until answered |
//! | `Scanned` | reader | coordinator of a query | waiting, opened, a piece of rows, lost, or an error | answers `Scan` |
//! | `Clock` | node | node | `Ask`: its clock; `Tell`: both clocks | periodically, so that a node finds out that its clock is wrong |
//! | `Lock` | gateway, home of rows | home of rows, gateway | row locks wanted, queued, granted, refused or released | a transaction locks rows whose home is another region |
//! | `Reader` | node with the partition | readers, manager | safe timestamps, or barriers of batches | only with a baseline's rule of reading |

use crate::locks::{LockMessage, WishName};
use crate::streams::{Ack, Feed};
use base::order::{Calibration, Close, Closed};
use base::schema::Catalog;
use base::txn::{Access, Granule, RowRead};
use base::{Datum, Key, LogPosition, PartitionId, Rank, Row, SqlError, TableId, Time, TxnId};
use colstore::{TableStatistics, Wanted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names a question at the node that asked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QuestionId(pub u64);

/// Tells a node's lives apart, by when they began: after a restart what did not conflict may have another order in its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Life(pub Time);

/// Between two nodes. `M` is the engine's own language.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message<M> {
    Engine(M),
    /// A reader asks; repeated until answered.
    Ask {
        question: QuestionId,
        partition: PartitionId,
        what: Question,
    },
    /// `waited_ns`: how long the partition held the answer back.
    Told {
        question: QuestionId,
        partition: PartitionId,
        /// Of the sender: positions in its log mean nothing in an earlier one's.
        life: Life,
        waited_ns: u64,
        answer: Result<AnswerBody, SqlError>,
    },
    /// Items `first..` of a generation of a partition's stream to this subscriber.
    Stream {
        partition: PartitionId,
        generation: u32,
        /// Of the sender.
        life: Life,
        /// The sender has collected up to here: what the items say of dependencies, they say of those above it.
        collected: Rank,
        first: u64,
        items: Vec<Feed>,
    },
    /// How far a subscriber is; said now and then in any case, which keeps its lease.
    StreamAck {
        partition: PartitionId,
        ack: Ack,
    },
    /// A query's coordinator to another reader; repeated until answered.
    Scan {
        scan: QuestionId,
        what: ScanRequest,
    },
    /// A reader to a query's coordinator.
    Scanned {
        scan: QuestionId,
        what: Scanned,
    },
    /// Only in clusters that read as another system does.
    Reader(ReaderMessage),
    Clock(ClockMessage),
    /// Row locks between regions.
    Lock(LockMessage),
}

/// How far clocks are apart; see [`crate::clocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockMessage {
    /// What does your clock show? Mine showed this.
    Ask { sent_at: Time },
    /// This, when you had asked at that.
    Tell { sent_at: Time, there: Time },
}

/// What a query's coordinator asks of another reader (PERSEUS §IV-B, Alg. 2 and 3); see [`crate::node`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ScanRequest {
    /// Open this part of the query: close its cut for what is read, wait for the columns.
    Open(ScanPart),
    /// Send pieces of what was opened, some of them from this number on.
    Fetch { from: u32 },
    /// The coordinator has all it wants, or has given up.
    Release,
}

/// One reader's part of a query: what to read, at the one cut of the whole query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanPart {
    pub at: Rank,
    pub tables: BTreeMap<TableId, ScanTable>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanTable {
    pub partitions: BTreeSet<PartitionId>,
    pub wanted: Wanted,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Scanned {
    /// Not open yet: the reader waits for partitions or for its columns.
    Waiting,
    Opened(Opened),
    /// Rows of one table, or none.
    Piece {
        number: u32,
        table: TableId,
        rows: Option<Vec<u8>>,
    },
    /// The reader does not know this scan, or does not any more.
    Lost,
    Refused(SqlError),
}

/// A part of a query is readable: immutable from now on, for as long as the reader keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// How many pieces its rows are in.
    pub pieces: u32,
    /// At the cut.
    pub catalog: Arc<Catalog>,
    pub statistics: BTreeMap<TableId, TableStatistics>,
    /// Largest rank in the cut of what was read here.
    pub newest: Rank,
    /// How long the reader waited, for partitions and for its columns, messages to partitions not counted.
    pub waited_ns: u64,
}

/// What other systems' ways of reading need said; see [`reads::protocol`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ReaderMessage {
    /// Nothing at or below these ranks is missing at these partitions, nor ever will be.
    Safe { ranks: Vec<(PartitionId, Rank)> },
    /// Partition → manager: everything up to this barrier is closed there.
    Batch { partition: PartitionId, barrier: Rank },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Question {
    Close(Close),
    Calibrate,
    /// How late a cut has to be to hold everything that was answered before and writes these.
    Latest(Vec<Granule>),
    /// The oracle's next timestamp.
    Timestamp,
    /// The last barrier below which every partition is complete.
    Batches,
    /// Told once every copy of the partition has this transaction.
    Replicated(TxnId),
    /// Told once the partition has logged this transaction, behind its record on the stream.
    Record(TxnId),
    /// Close `at` for what the reads touch, then read.
    Rows {
        at: Rank,
        reads: Vec<RowRead>,
    },
    /// Close `at` for what the call declared, then run it.
    Call {
        at: Rank,
        call: Call,
    },
    /// Close `at` for `closed`; the last writers of these, and of `watched`, then. For reads at replicas.
    Fetch {
        at: Rank,
        /// What is published may answer, with another cut that is not below this one; `None`: one cut for several
        /// partitions is wanted.
        least: Option<Rank>,
        closed: Vec<Granule>,
        /// Entries of indexes.
        watched: Vec<Granule>,
    },
}

/// A call of a registered procedure that only reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub name: String,
    pub args: Vec<Datum>,
    /// What it declared.
    pub access: Vec<Access>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AnswerBody {
    /// `through`: the log's end covers everything up to here too.
    Closed {
        closed: Closed,
        through: Rank,
    },
    Calibrated(Calibration),
    Latest(Rank),
    Timestamp(Rank),
    Batches(Rank),
    Replicated,
    /// The record is on its way, ahead of this.
    Streamed,
    /// Per read, rows in its order.
    Rows(Vec<Vec<(Key, Row)>>),
    /// Positions of the commit records that wrote these last, or later ones; in the order of the question.
    Fetched(Vec<LogPosition>),
    /// The same from what the partition publishes: it is closed at this rank.
    Loaded {
        at: Rank,
        positions: Vec<LogPosition>,
    },
}

/// Every timer of a node.
#[derive(Clone, Debug)]
pub enum Timer {
    /// The engine wanted to be woken at this time.
    Engine(Time),
    /// The engine has something left to do.
    EngineOn,
    /// A question was silent too long; ask again.
    Repeat { question: QuestionId },
    /// A reader was silent too long; ask it again, or another one.
    Scan { scan: QuestionId },
    /// Go on with reads of rows that take more than a step.
    ReadOn,
    /// Go on with copies, and with what has arrived on streams, that take more than a step.
    StreamOn,
    /// Ask for a calibration for the queries that came soon after the last time.
    Calibrate { partition: PartitionId },
    /// Ask for the reads at replicas that came soon after the last time.
    Fetch { partitions: Vec<PartitionId> },
    /// Some read at a replica may have waited for long.
    FallBack,
    /// Send what has gathered for remote subscribers.
    Flush,
    /// Acknowledge what has arrived on streams meanwhile.
    Ack,
    /// A subscriber has not acknowledged; send again from where it stands.
    Resend,
    /// Publish how far each partition is complete, for readers that do not ask.
    Low,
    /// Tell those who feed this node that it is there; let go of subscribers that were silent for too long.
    Lease,
    /// Announce how far partitions are safe, or close their batches.
    Announce,
    /// The home of rows was silent; ask it again to lock them.
    RepeatWish { wish: QuestionId },
    /// A transaction of another region has had rows locked here for too long.
    LockLease { name: WishName },
    /// Ask others what their clocks show.
    Clock,
    /// Collect old versions and merge columns, a bounded amount at a time.
    Maintain,
}
