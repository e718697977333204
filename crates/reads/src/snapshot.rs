//! Snapshot rules: from a query's arrival to a cut that may be read.
//!
//! IN: what partitions answered, what has been applied here. OUT: questions to partitions, then one
//! [`Cut`] with its [`Freshness`]. KEEPS: a cut is handed out only when everything in it that touches
//! the query's partitions is decided and applied to the local columns.

pub mod batch_cut;
pub mod central_timestamp;
pub mod perseus;
pub mod rank;
pub mod safe_timestamp;
pub mod synchronous_replica;

use crate::batches::PublishedBatch;
use crate::graph::DependencyGraph;
use base::order::{Calibration, Close, Closed};
use base::txn::Granule;
use base::{Cut, Freshness, LogPosition, PartitionId, Rank, SqlError, Time, Token};
use std::collections::BTreeMap;

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
    /// The oracle's next timestamp.
    Timestamp,
    /// The vector of batches that is closed.
    Batches,
}

impl Ask {
    pub fn partition(&self) -> PartitionId {
        match self {
            Ask::Close(close) => close.partition,
            Ask::Calibrate(partition) => *partition,
            Ask::Timestamp | Ask::Batches => PartitionId(0),
        }
    }
}

/// A partition's answer. `waited_ns` is the time that the partition itself held it back.
#[derive(Clone, Debug)]
pub enum Told {
    Closed { partition: PartitionId, closed: Closed, waited_ns: u64 },
    Calibrated { partition: PartitionId, calibration: Calibration },
    Timestamp { rank: Rank },
    Batches { published: BTreeMap<PartitionId, PublishedBatch> },
}

impl Told {
    pub fn partition(&self) -> PartitionId {
        match self {
            Told::Closed { partition, .. } | Told::Calibrated { partition, .. } => *partition,
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
}

/// One query on its way to a cut.
pub trait SnapshotRule: Send {
    /// Questions that are still open; the node repeats them until they are answered.
    fn asks(&self) -> Vec<Ask>;
    /// Takes an answer; repeated ones are ignored.
    fn told(&mut self, now: Time, told: Told);
    /// Questions that the last answer led to, each handed out once.
    fn follow_up(&mut self) -> Vec<Ask> {
        Vec::new()
    }
    /// The cut, once it may be read. Errors: the token asks for something that cannot exist.
    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<(Cut, Freshness)>, SqlError>;
}

/// Freshness of a cut that became readable now: coordination is the time on the way, wait the rest.
fn freshness(
    meta: &QueryMeta,
    now: Time,
    complete_until: Time,
    coordination_ns: u64,
    view: &dyn ColumnView,
) -> Freshness {
    let total_ns = now.since(meta.arrived);
    let newest = meta.reads.keys().map(|p| view.newest(*p)).max().unwrap_or_default();
    Freshness {
        staleness_ns: meta.arrived.since(complete_until),
        coordination_ns: coordination_ns.min(total_ns),
        wait_ns: total_ns.saturating_sub(coordination_ns),
        newest_age_ns: now.since(newest.time()),
        age_ns: now.since(complete_until),
        arrived_at: meta.arrived,
    }
}
