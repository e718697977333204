//! The interface between ordering and reading: what a partition streams, and what a reader may ask of it.
//!
//! `txn` produces these types, `reads` and the column copies consume them; neither crate depends on the other.

use crate::commit::CommitRecord;
use crate::txn::Granule;
use crate::{LogPosition, PartitionId, Rank, TxnId};
use serde::{Deserialize, Serialize};

/// A partition's stream to a subscriber: FIFO, without gaps, resumable by index.
///
/// KEEPS: a record is preceded by the vertices of its whole ancestor closure, except those below the
/// collection watermark; so a node that has a record can enumerate its ancestors (PERSEUS Lemma 1, as
/// it holds at execution).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StreamItem {
    Vertex(Vertex),
    Record(CommitRecord),
    /// Everything at or below this rank that touches the partition is in the stream already.
    Low(Rank),
}

/// A transaction in the augmented dependency graph, with its final dependencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vertex {
    pub txn: TxnId,
    pub participants: Vec<PartitionId>,
    pub dependencies: Vec<TxnId>,
    /// Its session had seen everything up to this rank. Whoever reads it reads that too, although nobody
    /// waits for it before executing this one. 0: the session was new.
    pub after: Rank,
}

/// A reader's question: "is everything up to `rank` that writes these granules decided and executed?"
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Close {
    pub partition: PartitionId,
    pub rank: Rank,
    /// What will be read here. Writers of anything else are not waited for.
    pub granules: Vec<Granule>,
}

/// Names a [`Close`] at the node that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CloseTicket(pub u64);

/// The answer: from now on no transaction that writes those granules appears at or below the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// End of the partition's log: a column copy that has applied up to here has everything.
    pub position: LogPosition,
}

/// How far a partition has executed (PERSEUS §IV-B "calibration").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    pub position: LogPosition,
    /// Largest rank executed here.
    pub rank: Rank,
    /// Everything at or below this rank that touches the partition is in the log up to `position`, and
    /// nothing will be added there. Never ahead of the partition's clock, so that asking delays no writer.
    pub low: Rank,
}
