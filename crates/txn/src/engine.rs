//! The one contract between an ordering engine and the node that hosts it.
//!
//! IN: submissions at the gateway, messages and timers, questions of readers. OUT: [`EngineEffect`]s in
//! order. KEEPS: every conflicting pair executes in the same order at every partition both touch;
//! `rank` agrees with that order; an answered transaction has `rank` below the true time of its answer;
//! a transaction submitted after that answer gets a larger rank.
//!
//! An engine is pure: data is reached through [`Executor`], time is an argument.

use base::order::{Calibration, Close, CloseTicket, Closed, StreamItem};
pub use base::txn::Applied;
use base::txn::{Gathered, Granule, Outcome, Submission, Transaction};
use base::{NodeId, PartitionId, Place, Rank, RegionId, SqlError, Time, TxnId};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// A partition's data, as an engine needs it. Both calls happen at the transaction's place: everything
/// before it that conflicts has been applied, nothing after it has.
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
pub enum EngineEffect<M, T> {
    Send {
        to: NodeId,
        message: M,
    },
    Timer {
        at: Time,
        timer: T,
    },
    /// The client may be told now: its rank lies in the past for every clock.
    Answer(Answer),
    /// Next item of a partition's stream, for its subscribers.
    Stream {
        partition: PartitionId,
        item: StreamItem,
    },
    /// Answers [`Engine::close`]; an error is a refusal (a cut too far in the future).
    Closed {
        ticket: CloseTicket,
        result: Result<Closed, SqlError>,
    },
    /// The node had lost its memory and is whole again: rows are as [`Executor::restore`] has left them, positions of
    /// logs go on from there ([`Engine::calibrate`]), and whoever follows them needs a copy.
    Restored,
    /// Answers [`Engine::find_latest`].
    Latest {
        ticket: CloseTicket,
        rank: Rank,
    },
    /// No cut at or below this rank is in use anywhere, and none will be: older versions may go.
    Collected {
        below: Rank,
    },
}

/// How a region is, as one node can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionState {
    Up,
    /// Nothing has been heard of what it orders for a while; what needs it waits.
    Suspected,
    /// The same for so long that what needs it is refused.
    Lost,
    /// It answers nobody because of its clock. Only its own nodes know that; to others it is silent.
    Fenced,
}

impl RegionState {
    pub fn name(self) -> &'static str {
        match self {
            RegionState::Up => "up",
            RegionState::Suspected => "suspected",
            RegionState::Lost => "lost",
            RegionState::Fenced => "fenced",
        }
    }
}

/// See [`Engine::regions`].
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
pub type EngineEffects<E> = Vec<EngineEffect<<E as Engine>::Message, <E as Engine>::Timer>>;

/// An ordering protocol at one node: coordinator for its gateway and participant for its partitions.
pub trait Engine {
    type Message: Serialize + DeserializeOwned + Clone + Debug + Send + 'static;
    type Timer: Clone + Debug + Send + 'static;

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
    /// Moves the ordering of a partition to another region, while everything goes on; answered like a
    /// transaction. Errors: there is no such partition or region, or the engine orders differently.
    fn move_home(
        &mut self,
        _now: Time,
        _partition: PartitionId,
        _to: RegionId,
        _executor: &mut dyn Executor,
        _out: &mut EngineEffects<Self>,
    ) -> Result<TxnId, SqlError>
    where
        Self: Sized,
    {
        Err(SqlError::unsupported("moving homes with this engine"))
    }
    fn message(
        &mut self,
        now: Time,
        from: NodeId,
        message: Self::Message,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) where
        Self: Sized;
    fn timer(
        &mut self,
        now: Time,
        timer: Self::Timer,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) where
        Self: Sized;
    /// Closes a rank at a partition of this node, for what is read there; answered by
    /// [`EngineEffect::Closed`], possibly at once.
    fn close(&mut self, now: Time, ticket: CloseTicket, close: Close, out: &mut EngineEffects<Self>)
    where
        Self: Sized;
    /// A reader of this node asks the nearest copy, at another node, to close a rank: whatever else can be
    /// set going meanwhile.
    fn will_close(&mut self, _now: Time, _partition: PartitionId, _rank: Rank, _out: &mut EngineEffects<Self>)
    where
        Self: Sized,
    {
    }
    /// Finds a rank that is at least that of everything that was answered before this call and writes these granules
    /// of a partition of this node; answered by [`EngineEffect::Latest`]. For clusters whose clocks have no bound
    /// ([`base::topology::Topology::unbounded_clocks`]); no cut of such a cluster is below [`Engine::least_cut`].
    fn find_latest(
        &mut self,
        _now: Time,
        _ticket: CloseTicket,
        _partition: PartitionId,
        _granules: Vec<Granule>,
        _executor: &mut dyn Executor,
        _out: &mut EngineEffects<Self>,
    ) where
        Self: Sized,
    {
        unreachable!("this engine is not made where clocks have no bound")
    }
    /// See [`Engine::find_latest`].
    fn least_cut(&self) -> Rank {
        Rank::ZERO
    }
    /// The reader of this ticket went away.
    fn forget_close(&mut self, ticket: CloseTicket);
    /// The node came back and has repeated every call of its former lives, in order. Timers set before
    /// are gone; transactions submitted from now on belong to this `incarnation`, which is larger than any
    /// before.
    fn resume(&mut self, now: Time, incarnation: u32, out: &mut EngineEffects<Self>)
    where
        Self: Sized;
    /// What happened since the beginning, by name: for reports.
    fn counters(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }
    /// Entries kept now, by what they are: for whoever checks that memory stays bounded.
    fn held(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }
    /// Messages refused since the beginning because no correct node sends them, by sender and reason.
    fn refused_messages(&self) -> BTreeMap<(NodeId, &'static str), u64> {
        BTreeMap::new()
    }
    /// How each region is, as far as this node can tell; nothing with an engine that does not look.
    fn regions(&self) -> Vec<RegionHealth> {
        Vec::new()
    }
    /// Why this node answers nobody now; `None`: it does. (It has lost its memory and is not whole again.)
    fn absent(&self) -> Option<SqlError> {
        None
    }
    /// How far a partition of this node has executed. What comes later is ranked above the answer's `low`.
    fn calibrate(&mut self, now: Time, partition: PartitionId) -> Calibration;
    /// A rank at or below which everything that touches the partition is on its stream, now and for good;
    /// as large as that can be without waiting. `None`: this engine cannot tell without waiting.
    fn safe_rank(&mut self, _now: Time, _partition: PartitionId) -> Option<Rank> {
        None
    }
    /// A timestamp above the rank of everything answered so far, if timestamps are handed out centrally and
    /// this node is the one that does; `None` otherwise.
    fn timestamp(&mut self, _now: Time) -> Option<Rank> {
        None
    }
    /// Least cut that any current reader of this node uses; `None` if there is none.
    fn set_floor(&mut self, floor: Option<Rank>);
}
