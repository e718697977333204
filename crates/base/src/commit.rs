//! The order, emitted as data: analytics, replicas, change feeds and backup consume one stream.

use crate::schema::SchemaChange;
use crate::{Key, LogPosition, PartitionId, Place, Rank, Row, TableId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One transaction's effect at one partition, as it stands in that partition's log.
///
/// KEEPS: positions of one partition are dense, from 1. Conflicting transactions appear in the order
/// of their places; others may not: a reader at a rank cut filters by rank, never by position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommitRecord {
    pub txn: TxnId,
    pub rank: Rank,
    pub partition: PartitionId,
    pub position: LogPosition,
    /// Rows written here, in order; empty for a reader or an aborted transaction.
    pub writes: Vec<RowWrite>,
    /// Tables written here.
    pub touched: BTreeSet<TableId>,
    /// A change of the catalog, taking effect at this place.
    pub schema: Option<SchemaChange>,
}

impl CommitRecord {
    pub fn place(&self) -> Place {
        Place::new(self.rank, self.txn)
    }
}

/// One row's new state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowWrite {
    pub table: TableId,
    pub key: Key,
    /// `None` deletes it.
    pub row: Option<Row>,
}
