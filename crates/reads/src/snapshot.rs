//! Snapshot rules: from a query's arrival to a cut that may be read.
//!
//! IN: what partitions answered, what has been applied here. OUT: questions to partitions, then one
//! [`Cut`] with its [`Freshness`] ([`Readable`]). KEEPS: a cut is handed out only when everything in it that touches
//! the query's partitions is decided and applied to the local columns.

pub mod batch_cut;
pub mod central_timestamp;
pub mod perseus;
pub mod printed;
pub mod rank;
pub mod safe_timestamp;
pub mod synchronous_replica;

use crate::graph::DependencyGraph;
use base::cut::CutChoice;
use base::order::{Calibration, Close, Closed};
use base::txn::Granule;
use base::{Cut, Freshness, LogPosition, PartitionId, Rank, SqlError, Time, Token, TxnId};
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
}

impl Ask {
    pub fn partition(&self) -> PartitionId {
        match self {
            Ask::Close(close) => close.partition,
            Ask::Calibrate(partition) | Ask::Latest(partition, _) | Ask::Record(partition, _) => *partition,
            Ask::Timestamp | Ask::Batches => PartitionId(0),
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
}

impl Told {
    pub fn partition(&self) -> PartitionId {
        match self {
            Told::Closed { partition, .. }
            | Told::Calibrated { partition, .. }
            | Told::Latest { partition, .. } => *partition,
            Told::Timestamp { .. } | Told::Batches { .. } => PartitionId(0),
        }
    }
}

/// The node's column copies, as rules see them.
pub trait ColumnView {
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
}

/// One query on its way to a cut.
pub trait SnapshotRule: Send {
    /// Questions that are still open; the node repeats them until they are answered.
    fn asks(&self) -> Vec<Ask>;
    /// Takes an answer; repeated ones are ignored.
    fn told(&mut self, now: Time, told: Told);
    /// Questions that the last answer led to, or the last look at what is here, each handed out once.
    fn follow_up(&mut self) -> Vec<Ask> {
        Vec::new()
    }
    /// Only for [`printed`]: what has to be merged before the query runs.
    fn to_merge(&self) -> Option<&BTreeSet<(PartitionId, LogPosition)>> {
        None
    }
    /// The cut, once it may be read. Errors: the token asks for something that cannot exist.
    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<Readable>, SqlError>;
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
    fn at(
        meta: &QueryMeta,
        now: Time,
        rank: Rank,
        complete_until: Time,
        coordination_ns: u64,
        view: &dyn ColumnView,
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
