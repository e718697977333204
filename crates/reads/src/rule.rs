//! Rules: how the cut of one read is chosen, and when it is complete.
//!
//! IN: what partitions answered, what has been applied here. OUT: questions to partitions, then one
//! [`Cut`] with its [`Freshness`] ([`Readable`]). KEEPS: a cut is handed out only when everything in it that touches
//! the query's partitions is decided and applied to the local columns.
//!
//! Which rule a read gets is decided in one place: [`levels`], by its level, and [`crate::protocol`], by how the nodes of
//! its cluster read.

pub mod levels;
pub mod perseus;
pub mod printed;
pub mod rank;

use crate::graph::DependencyGraph;
use base::cut::CutChoice;
use base::order::{Calibration, Close, Closed};
use base::txn::Granule;
use base::{Cut, Freshness, LogPosition, PartitionId, Rank, SqlError, TableId, Time, Token, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// A query, as far as choosing its cut is concerned.
#[derive(Clone, Debug)]
pub struct QueryMeta {
    pub arrived: Time,
    pub token: Token,
    /// What it reads, by partition.
    pub reads: BTreeMap<PartitionId, Vec<Granule>>,
}

/// A question to a partition, or to a central service (which lives where partition 0 does).
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    Close(Close),
    Calibrate(PartitionId),
    /// How late a cut has to be to hold everything that was answered and writes these granules.
    Latest(PartitionId, Vec<Granule>),
    /// To send the record of a transaction as soon as the partition has it, with whatever is before it.
    Record(PartitionId, TxnId),
    /// The oracle's next timestamp.
    Timestamp,
    /// The last barrier below which every partition is complete.
    Batches,
    /// A rank that these close for what is read, and up to where their logs have to be applied for it
    /// ([`crate::replica`]); shared with other reads of the same partitions.
    Fetch(Vec<PartitionId>),
}

impl Ask {
    pub fn partition(&self) -> PartitionId {
        match self {
            Ask::Close(close) => close.partition,
            Ask::Calibrate(partition) | Ask::Latest(partition, _) | Ask::Record(partition, _) => *partition,
            Ask::Timestamp | Ask::Batches => PartitionId(0),
            Ask::Fetch(partitions) => partitions[0],
        }
    }
}

/// A partition's answer. `waited_ns` is the time that the partition itself held it back.
#[derive(Clone, Debug)]
pub enum Told {
    /// `through`: closed up to here too, as far as the log's end.
    Closed {
        partition: PartitionId,
        closed: Closed,
        through: Rank,
        waited_ns: u64,
    },
    Calibrated {
        partition: PartitionId,
        calibration: Calibration,
    },
    Latest {
        partition: PartitionId,
        rank: Rank,
    },
    Timestamp {
        rank: Rank,
    },
    Batches {
        published: Rank,
    },
    /// By all that are read: positions up to which their logs have to be applied.
    Fetched {
        rank: Rank,
        needs: BTreeMap<PartitionId, LogPosition>,
        waited_ns: u64,
        /// From what the partition publishes: nobody was asked.
        is_loaded: bool,
    },
}

impl Told {
    pub fn partition(&self) -> PartitionId {
        match self {
            Told::Closed { partition, .. }
            | Told::Calibrated { partition, .. }
            | Told::Latest { partition, .. } => *partition,
            Told::Timestamp { .. } | Told::Batches { .. } | Told::Fetched { .. } => PartitionId(0),
        }
    }
}

/// What a node knows of its copies, as rules see it.
pub trait View {
    /// Last log position of a partition that is applied here.
    fn applied(&self, partition: PartitionId) -> LogPosition;
    /// Largest rank applied here.
    fn newest(&self, partition: PartitionId) -> Rank;
    /// Everything at or below this rank is applied here.
    fn low(&self, partition: PartitionId) -> Rank;
    fn graph(&self) -> &DependencyGraph;
    /// Everything at or below this rank, at every partition of the cluster, is complete as far as partitions
    /// have announced it; 0 if they do not.
    fn safe(&self) -> Rank {
        Rank::ZERO
    }
    /// Whether any set handed out here has held this entry of a partition's log.
    fn was_issued(&self, _partition: PartitionId, _position: LogPosition, _rank: Rank) -> bool {
        false
    }
    /// When a record should be here whose order has been known here `since`; see [`crate::estimate`].
    fn eta(&self, _partition: PartitionId, since: Time, _exchanges: bool) -> Time {
        since
    }
    /// Only for [`printed`]: updates that have not been merged, and when each is here.
    fn unmerged(&self, _partition: PartitionId) -> Vec<(LogPosition, Time)> {
        Vec::new()
    }
    /// Cuts below this rank cannot be read from this copy: its history begins here.
    fn begins_at(&self, _partition: PartitionId) -> Rank {
        Rank::ZERO
    }
    /// Older versions of columns than at this rank may be gone.
    fn collected_below(&self) -> Rank {
        Rank::ZERO
    }
    /// Up to where the columns here have everything of this partition; `None`: its copy is not here, or arrives.
    fn complete(&self, partition: PartitionId) -> Option<Rank>;
    /// The rank of the last change of tables that are read, if it is above this one.
    fn changed_above(&self, _rank: Rank, _is_read: &dyn Fn(TableId) -> bool) -> Option<Rank> {
        None
    }
    /// No cut below it may be chosen, where clocks have no bound.
    fn least_cut(&self) -> Rank {
        Rank::ZERO
    }
}

/// How far a cut may be moved up while its query waits for what it needs (PERSEUS §IV-B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dynamic {
    /// Not at all: the least cut that the level allows.
    Off,
    /// To what else has arrived when all that is needed has: waiting for the rest ends at that moment, and the
    /// longest essential delay is the threshold.
    #[default]
    Essential,
    /// As the paper's Alg. 2 with a threshold: sets also wait for what should be here this long after
    /// the query's arrival.
    Threshold { ns: u64 },
}

/// Faults that tests plant in the way a cut is chosen. Each is something that the printed protocol gets wrong,
/// or that is easy to get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// What arrives late is left out, and what depends on it is not.
    KeepDescendants,
    /// A session's token counts where the session was, not for ancestors elsewhere.
    TokenWithoutAncestors,
    /// What writers' sessions had seen is not followed. (Not a fault of the paper: it knows only conflicts.)
    NoSessionEdges,
    /// A calibration that is under way serves queries that arrive later.
    CalibrateBeforeArrival,
    /// A rank cut is moved up to what has arrived, closed or not.
    RaiseUnclosed,
    /// The cut of a query over several readers is closed at the coordinator's partitions only.
    CloseAtCoordinatorOnly,
    /// The other readers of a query choose cuts of their own.
    OwnCutAtEachReader,
    /// A reader whose lease is over goes on with what it has.
    ReadAfterLease,
    /// A read at a replica of rows is served with a question that was under way when it arrived.
    JoinFetchUnderWay,
    /// The tracker does not learn what is written.
    ForgetWrites,
}

impl Mutant {
    /// Those that a campaign's runs reach: nodes keep no replicas of rows there (`sim/tests/worlds/replicas.rs` does).
    pub const ALL: [Mutant; 8] = [
        Mutant::KeepDescendants,
        Mutant::TokenWithoutAncestors,
        Mutant::NoSessionEdges,
        Mutant::CalibrateBeforeArrival,
        Mutant::RaiseUnclosed,
        Mutant::CloseAtCoordinatorOnly,
        Mutant::OwnCutAtEachReader,
        Mutant::ReadAfterLease,
    ];
}

/// The cut of one read: how it is chosen, closed and waited for. The steps follow each other in the order of
/// [`Progress`]; a rule may skip some, and never goes back.
pub trait Rule: Send {
    /// Questions that are still open; the node repeats them until they are answered.
    fn asks(&self) -> Vec<Ask>;
    /// Takes an answer; repeated ones are ignored.
    fn told(&mut self, now: Time, told: Told);
    /// Questions that the last answer led to, or the last look at what is here, each handed out once.
    fn follow_up(&mut self) -> Vec<Ask> {
        Vec::new()
    }
    /// The rank at which data is read that other nodes close and read by themselves, once it is known. `None` as well:
    /// such a read cannot follow this rule.
    fn chosen(&self, _view: &dyn View) -> Option<Chosen> {
        None
    }
    /// Only for [`printed`]: what has to be merged before the query runs.
    fn to_merge(&self) -> Option<&BTreeSet<(PartitionId, LogPosition)>> {
        None
    }
    /// How far the cut is in the columns here. Errors: the token asks for something that cannot exist.
    fn progress(&mut self, now: Time, view: &dyn View) -> Result<Progress, SqlError>;
}

/// How far a read over columns is.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Nobody knows yet which cut it will be.
    Choosing,
    /// Some partition has not said that nothing can be added to the cut any more.
    Closing,
    /// Something in the cut has not arrived here.
    Applying,
    Readable(Readable),
}

/// A cut that is one rank, and how it was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub rank: Rank,
    pub choice: CutChoice,
}

impl Chosen {
    /// Up to when everything is in the cut, for a read that arrived then.
    pub fn complete_until(&self, arrived: Time) -> Time {
        match self.choice {
            // A rank that was found by asking says nothing about time, but whatever had been answered is in there.
            CutChoice::Calibrated => arrived,
            _ => self.rank.time(),
        }
    }
}

/// A rule, and the rank from which on nothing may be collected while it is followed.
pub struct Followed {
    pub rule: Box<dyn Rule>,
    pub floor: Rank,
}

/// A cut that may be read now.
#[derive(Clone, Debug)]
pub struct Readable {
    pub cut: Cut,
    /// For the session: its next reads and writes come after what the cut holds.
    pub token: Token,
    pub freshness: Freshness,
}

impl Readable {
    /// A rank cut.
    pub(crate) fn at(
        meta: &QueryMeta,
        now: Time,
        rank: Rank,
        complete_until: Time,
        coordination_ns: u64,
        view: &dyn View,
    ) -> Readable {
        let newest = |p: &PartitionId| view.graph().newest(*p, |_, logged| logged <= rank).min(rank);
        let newest = meta.reads.keys().map(newest).max().unwrap_or_default();
        Readable {
            cut: Cut::Rank(rank),
            token: Token::at(rank),
            freshness: freshness(meta.arrived, now, newest, complete_until, coordination_ns),
        }
    }
}

/// Freshness of a cut that became readable now: coordination is the time on the way, wait the rest. `newest` is
/// the largest rank in it.
pub fn freshness(
    arrived: Time,
    now: Time,
    newest: Rank,
    complete_until: Time,
    coordination_ns: u64,
) -> Freshness {
    let total_ns = now.since(arrived);
    Freshness {
        staleness_ns: arrived.since(complete_until),
        coordination_ns: coordination_ns.min(total_ns),
        wait_ns: total_ns.saturating_sub(coordination_ns),
        newest_age_ns: now.since(newest.time()),
        age_ns: now.since(complete_until),
        choice: CutChoice::Given,
        last: None,
        other_readers: 0,
        arrived_at: arrived,
    }
}
