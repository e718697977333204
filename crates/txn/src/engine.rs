//! The one contract between an ordering engine and the node that hosts it.
//!
//! IN: submissions at the gateway, messages, being woken, questions of readers, commands of the node.
//! OUT: [`EngineEffect`]s in order, and when to be woken next. KEEPS: every conflicting pair executes in the same order at every partition both touch;
//! `rank` agrees with that order; an answered transaction has `rank` below the true time of its answer;
//! a transaction submitted after that answer gets a larger rank.
//!
//! An engine is pure: data is reached through [`Executor`], time is an argument.

use base::order::{Calibration, Close, CloseTicket, Closed, StreamItem};
use base::process::Unreadable;
pub use base::txn::Applied;
use base::txn::{Gathered, Granule, Outcome, ReadGranule, Submission, Transaction};
use base::write_set::{Evaluated, WriteSet};
use base::{Key, NodeId, PartitionId, Place, Rank, RegionId, SqlError, TableId, Time, TxnId};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Partitions' data, as an engine needs it. One that orders first has transactions gather and apply at their places:
/// everything before that conflicts has been applied, nothing after it has. One that executes first evaluates them at
/// a rank, and installs at their places the write sets of those that it lets commit.
pub trait Executor {
    /// Reads at this partition and decides whether the transaction must abort.
    fn gather(&mut self, partition: PartitionId, transaction: &Transaction) -> Gathered;
    /// Writes at this partition. `exchange` holds every participant's values; none aborted.
    fn apply(
        &mut self,
        partition: PartitionId,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Applied;
    /// [`Executor::gather`] in steps of bounded length, for an engine that lets others have their turn in between: `None`: not
    /// done, ask again. What conflicts with the transaction must not be executed before it is done.
    fn gather_some(&mut self, partition: PartitionId, transaction: &Transaction) -> Option<Gathered> {
        Some(self.gather(partition, transaction))
    }
    /// [`Executor::apply`] likewise.
    fn apply_some(
        &mut self,
        partition: PartitionId,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Option<Applied> {
        Some(self.apply(partition, transaction, place, exchange))
    }
    /// What the transaction reads, answers and would write, at every participant, if it were executed over rows as of
    /// this rank; writes nothing. Errors: it must abort, and why; not all of its participants are here; the rank was
    /// collected; its program can only be executed at a place (a change of the catalog), or with this executor.
    fn evaluate(&mut self, _transaction: &Transaction, _at: Rank) -> Result<Evaluated, SqlError> {
        Err(SqlError::unsupported("evaluating a transaction at a rank with this executor"))
    }
    /// Writes at this partition what [`Executor::evaluate`] gave, at the transaction's place; `writes` holds every
    /// participant's. The same rows, index entries and commit record as of applying it there, provided that nothing
    /// it read or writes has changed since. Errors: a table has changed its description since; nothing was written.
    fn install(
        &mut self,
        _partition: PartitionId,
        _place: Place,
        _writes: &BTreeMap<PartitionId, WriteSet>,
    ) -> Result<Applied, SqlError> {
        Err(SqlError::unsupported("installing a write set with this executor"))
    }
    /// Whether nothing of what was read has changed up to now. Where this executor cannot tell: no.
    fn is_unchanged(&self, _read: &ReadGranule) -> bool {
        false
    }
    /// Whether a table, or the table of an index, is described in the catalog as it was at a rank. Where this executor cannot
    /// tell: no.
    fn is_described_as_at(&self, _partition: PartitionId, _table: TableId, _at: Rank) -> bool {
        false
    }
    /// Whether there is such a row now.
    fn has_row(&self, _partition: PartitionId, _table: TableId, _key: &Key) -> bool {
        false
    }
    /// Begins a copy of these partitions' rows as they are now, with whatever versions are kept, for a node; one that
    /// was under way for it ends. An executor whose rows nobody copies keeps the defaults.
    fn begin_copy(&mut self, _to: NodeId, _partitions: &[PartitionId]) {}
    /// The next block of the copy, of bounded size; `None`: that was all. Transactions that were applied since the copy
    /// began are not in it. Errors: the copy cannot be finished, or there is none.
    fn next_block(&mut self, _to: NodeId) -> Result<Option<(PartitionId, Vec<u8>)>, CopyEnded> {
        Ok(None)
    }
    /// Nobody takes the copy any more.
    fn end_copy(&mut self, _to: NodeId) {}
    /// Drops what is here of a partition.
    fn forget(&mut self, _partition: PartitionId) {}
    /// Takes the next block of another node's copy.
    fn restore(&mut self, _partition: PartitionId, _block: &[u8]) {}
}

/// A copy under way cannot be finished: another one has to be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEnded;

/// What an engine has to remember; numbered by it, with the version of its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: u8,
    pub version: u8,
    pub payload: Vec<u8>,
}

/// A transaction's end as its gateway learns it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What [`Engine::submit`] returned.
    pub submitted_as: TxnId,
    /// The transaction that took its place in the order. Another than `submitted_as` if the engine
    /// submitted it again after an attempt that ended without effect, or if it is a repeated request.
    pub txn: TxnId,
    /// Its place in the serial order (an aborted transaction has one too, without effect).
    pub rank: Rank,
    pub outcome: Outcome,
    /// Where the time went, in order: phase and ns.
    pub phases: Vec<(&'static str, u64)>,
    /// Regions that took part.
    pub regions: BTreeSet<base::RegionId>,
}

/// What an engine asks of its node.
#[derive(Debug)]
pub enum EngineEffect<M> {
    Send {
        to: NodeId,
        message: M,
    },
    /// The client may be told now: its rank lies in the past for every clock.
    Answer(Answer),
    /// Next item of a partition's stream, for its subscribers.
    Stream {
        partition: PartitionId,
        item: StreamItem,
    },
    /// Answers a [`Question`] that has this ticket, once; an error is a refusal (a cut too far in the future).
    Answered {
        ticket: CloseTicket,
        result: Result<Answered, SqlError>,
    },
    /// Has to be remembered beyond this process. Whatever the engine sends from now on waits until it is stable.
    Record(Record),
    /// The node had lost its memory and is whole again: rows are as [`Executor::restore`] has left them, positions of
    /// logs go on from there ([`Question::Calibration`]), and whoever follows them needs a copy.
    Restored,
    /// No cut at or below this rank is in use anywhere, and none will be: older versions may go.
    Collected {
        below: Rank,
    },
}

/// What a reader, or the node for its readers, wants to know of the order.
///
/// | question | answer | when |
/// |---|---|---|
/// | `Close`, `Latest` | [`Answered::Closed`], [`Answered::Rank`] | as [`EngineEffect::Answered`], possibly among the effects of the same call |
/// | `WillClose`, `Forget` | none | |
/// | all others | [`Answered::Calibration`] or [`Answered::Rank`] | at once, without effects |
///
/// Every engine answers `Close`, `Calibration` and `LeastCut`; of the others it may say that it does not
/// ([`Unanswered`]).
#[derive(Clone, Debug)]
pub enum Question {
    /// Closes a rank at a partition of this node, for what is read there.
    Close { ticket: CloseTicket, close: Close },
    /// A reader of this node asks the nearest copy, at another node, to close a rank: whatever else can be set going
    /// meanwhile.
    WillClose { partition: PartitionId, rank: Rank },
    /// A rank that is at least that of everything that was answered before this call and writes these granules of a
    /// partition of this node. For clusters whose clocks have no bound
    /// ([`base::topology::Topology::unbounded_clocks`]); no cut of such a cluster is below [`Question::LeastCut`].
    Latest { ticket: CloseTicket, partition: PartitionId, granules: Vec<Granule> },
    /// The reader of this ticket went away.
    Forget { ticket: CloseTicket },
    /// How far a partition of this node has executed. What comes later is ranked above the answer's `low`.
    Calibration { partition: PartitionId },
    /// A rank at or below which everything that touches the partition is on its stream, now and for good; as large as
    /// that can be without waiting.
    SafeRank { partition: PartitionId },
    /// A timestamp above the rank of everything answered so far, of the node that hands them out.
    Timestamp,
    /// See [`Question::Latest`].
    LeastCut,
}

impl Question {
    pub fn name(&self) -> &'static str {
        match self {
            Question::Close { .. } => "close",
            Question::WillClose { .. } => "will close",
            Question::Latest { .. } => "latest",
            Question::Forget { .. } => "forget",
            Question::Calibration { .. } => "calibration",
            Question::SafeRank { .. } => "safe rank",
            Question::Timestamp => "timestamp",
            Question::LeastCut => "least cut",
        }
    }
}

/// See [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    Closed(Closed),
    Calibration(Calibration),
    Rank(Rank),
}

impl Answered {
    pub fn closed(self) -> Result<Closed, Unanswered> {
        match self {
            Answered::Closed(closed) => Ok(closed),
            _ => Err(Unanswered { question: "close" }),
        }
    }
    pub fn calibration(self) -> Result<Calibration, Unanswered> {
        match self {
            Answered::Calibration(calibration) => Ok(calibration),
            _ => Err(Unanswered { question: "calibration" }),
        }
    }
    pub fn rank(self) -> Result<Rank, Unanswered> {
        match self {
            Answered::Rank(rank) => Ok(rank),
            _ => Err(Unanswered { question: "rank" }),
        }
    }
}

/// This engine, or this node of it, does not answer that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered {
    pub question: &'static str,
}

impl From<Unanswered> for SqlError {
    fn from(unanswered: Unanswered) -> SqlError {
        let error = SqlError::unsupported(format!("the question \"{}\" to this engine", unanswered.question));
        error.hint("Choose a way of reading that rests on what the cluster's engine can tell.")
    }
}

/// What an administrator has an engine do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Moves the ordering of a partition to another region, while everything goes on; answered like a transaction.
    /// Errors: there is no such partition or region, or the engine orders differently.
    MoveHome { partition: PartitionId, to: RegionId },
}

/// How an engine is, for reports and for checks.
#[derive(Clone, Debug, Default)]
pub struct EngineReport {
    /// What happened since the beginning, by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// Entries kept now, by what they are: for whoever checks that memory stays bounded.
    pub held: BTreeMap<&'static str, u64>,
    /// Messages refused since the beginning because no correct node sends them, by sender and reason.
    pub refused_messages: BTreeMap<(NodeId, &'static str), u64>,
    /// How each region is, as far as this node can tell; nothing with an engine that does not look.
    pub regions: Vec<RegionHealth>,
}

/// How a region is, as one node can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionState {
    Up,
    /// Nothing has been heard of what it orders for a while; what needs it waits.
    Suspected,
    /// The same for so long that what needs it is refused.
    Lost,
    /// Another region leads what it orders: it is lost, or has come back and is about to lead again. Nothing waits for it.
    TakenOver,
    /// The others have removed it and go on without it; it comes back with a copy.
    Removed,
    /// It answers nobody because of its clock. Only its own nodes know that; to others it is silent.
    Fenced,
}

impl RegionState {
    pub fn name(self) -> &'static str {
        match self {
            RegionState::Up => "up",
            RegionState::Suspected => "suspected",
            RegionState::Lost => "lost",
            RegionState::TakenOver => "taken over",
            RegionState::Removed => "removed",
            RegionState::Fenced => "fenced",
        }
    }
}

/// See [`EngineReport::regions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionHealth {
    pub region: RegionId,
    pub state: RegionState,
    pub silent_ns: u64,
    /// Transactions that cannot go on before it is back, and rows (or ranges) that they touch.
    pub blocked_transactions: u64,
    pub blocked_rows: u64,
    /// Transactions and readers refused at this node because of it, since the node began.
    pub refused: u64,
}

/// An engine's effects, first in, first out.
pub type EngineEffects<E> = Vec<EngineEffect<<E as Engine>::Message>>;

/// An ordering protocol at one node: coordinator for its gateway and participant for its partitions.
pub trait Engine {
    type Message: Serialize + DeserializeOwned + Clone + Debug + Send + 'static;

    /// First call in a node's life.
    fn start(&mut self, now: Time, out: &mut EngineEffects<Self>)
    where
        Self: Sized;
    /// Takes a client's transaction; its [`Answer`] comes later, exactly once.
    fn submit(
        &mut self,
        now: Time,
        submission: Submission,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> TxnId
    where
        Self: Sized;
    fn message(
        &mut self,
        now: Time,
        from: NodeId,
        message: Self::Message,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) where
        Self: Sized;
    /// When this node wants to be woken, as of now; asked after every call. `None`: not before something else happens.
    fn next_wake(&self) -> Option<Time>;
    /// Whether something is left of what was begun, and the engine wants to be woken as soon as all that waits for its
    /// host has had its turn; asked after every call.
    fn goes_on(&self) -> bool {
        false
    }
    /// That time has come. To be woken when there is nothing to do is harmless.
    fn wake(&mut self, now: Time, executor: &mut dyn Executor, out: &mut EngineEffects<Self>)
    where
        Self: Sized;
    /// Answers a reader; see [`Question`] for when. Errors: nobody can ask this engine that, and nothing was begun.
    fn ask(
        &mut self,
        now: Time,
        question: Question,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<Option<Answered>, Unanswered>
    where
        Self: Sized;
    /// Begins what a command wants; its [`Answer`] comes later, like a transaction's.
    fn admin(
        &mut self,
        now: Time,
        command: Command,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<TxnId, SqlError>
    where
        Self: Sized;
    /// This node's process is about to end: others are to lead what it leads, as far as they can. It goes on until they do.
    fn hand_over(&mut self, _now: Time, _executor: &mut dyn Executor, _out: &mut EngineEffects<Self>)
    where
        Self: Sized,
    {
    }
    /// How much this node leads that another one could.
    fn leads(&self) -> usize {
        0
    }
    /// Least cut that any current reader of this node uses; `None` if there is none. Needs nothing done at once.
    fn set_floor(&mut self, floor: Option<Rank>);
    /// The node came back and has repeated every call of its former lives, in order. Transactions submitted from now
    /// on belong to this `incarnation`, which is larger than any before.
    fn resume(&mut self, now: Time, incarnation: u32, out: &mut EngineEffects<Self>)
    where
        Self: Sized;
    /// So many of the records of this life are stable, counted in order.
    fn stable(
        &mut self,
        _now: Time,
        _records: u64,
        _executor: &mut dyn Executor,
        _out: &mut EngineEffects<Self>,
    ) where
        Self: Sized,
    {
    }
    /// All that records before this moment add up to, beside rows; of an engine that keeps records.
    fn image(&self) -> Vec<u8> {
        Vec::new()
    }
    /// Takes an image, before anything else. Errors: it cannot be read.
    fn restore(&mut self, _image: &[u8]) -> Result<(), Unreadable> {
        Err(Unreadable("this engine keeps no records".into()))
    }
    /// Takes a record behind the image, before the start. Errors: it cannot be read.
    fn replay(&mut self, _record: Record, _executor: &mut dyn Executor) -> Result<(), Unreadable> {
        Err(Unreadable("this engine keeps no records".into()))
    }
    /// All records have been taken; answers what this node's clock may have shown. What follows from them follows with
    /// the start.
    fn recovered(&mut self) -> Time {
        Time::ZERO
    }
    /// It has come back, and its logs may lack what those of its former lives had: [`EngineEffect::Restored`] comes once
    /// they do not. Until then nobody is to read what follows its logs.
    fn is_behind(&self) -> bool {
        false
    }
    /// Why this node answers nobody now; `None`: it does. (It has lost its memory and is not whole again.)
    fn absent(&self) -> Option<SqlError>;
    fn report(&self) -> EngineReport;
}
