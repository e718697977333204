//! What a local client wants to read: rows, the result of a procedure that only reads, columns, or just a cut.
//!
//! IN: requests. OUT: what their cut depends on: level, token, tables, what is read at each partition.

use crate::request::{OpenSnapshot, ReadRows, ReadingCall, Reply};
use base::cut::Consistency;
use base::key::KeyRange;
use base::topology::Topology;
use base::txn::{Granule, RowRead};
use base::{PartitionId, Rank, SqlError, TableId, Token};
use std::collections::{BTreeMap, BTreeSet};

/// A read of a client, before its cut is known.
pub enum Goal {
    Rows(ReadRows),
    Call(ReadingCall),
    Columns(OpenSnapshot),
    Pin { level: Consistency, token: Token },
}

/// What is read, by partition.
pub type Granules = BTreeMap<PartitionId, Vec<Granule>>;

impl Goal {
    pub fn token(&self) -> &Token {
        match self {
            Goal::Rows(read) => &read.token,
            Goal::Call(call) => &call.token,
            Goal::Columns(open) => &open.token,
            Goal::Pin { token, .. } => token,
        }
    }
    pub fn level(&self) -> Consistency {
        match self {
            Goal::Rows(read) => read.consistency,
            // A procedure sees whatever was answered before it was called.
            Goal::Call(_) => Consistency::Regular,
            Goal::Columns(open) => open.consistency,
            Goal::Pin { level, .. } => *level,
        }
    }
    /// The cut of an open transaction.
    pub fn given(&self) -> Option<Rank> {
        match self {
            Goal::Rows(read) => read.at,
            Goal::Columns(open) => open.at,
            Goal::Call(_) | Goal::Pin { .. } => None,
        }
    }
    pub fn reads_table(&self, table: TableId) -> bool {
        match self {
            Goal::Rows(read) => read.reads.iter().any(|row_read| row_read.table == table),
            Goal::Columns(open) => open.tables.contains_key(&table),
            Goal::Call(_) | Goal::Pin { .. } => true,
        }
    }
    pub fn granules(&self, topology: &Topology) -> Granules {
        match self {
            Goal::Rows(read) => {
                let mut granules = Granules::new();
                for row_read in &read.reads {
                    granules.entry(row_read.partition).or_default().push(granule_of(row_read));
                }
                granules
            }
            Goal::Call(call) => {
                let granules = call.call.access.iter().map(|access| access.granule.clone());
                [(call.partition, granules.collect())].into()
            }
            Goal::Columns(open) => granules_of(open.tables.iter().map(|(table, of)| (*table, of))),
            Goal::Pin { .. } => topology.partition_ids().map(|p| (p, vec![Granule::Partition])).collect(),
        }
    }
    /// The answer if it cannot be read.
    pub fn refused(&self, error: SqlError) -> Reply {
        match self {
            Goal::Rows(_) | Goal::Call(_) => Reply::Rows(Err(error)),
            Goal::Columns(_) => Reply::Snapshot(Err(error)),
            Goal::Pin { .. } => Reply::Pinned(Err(error)),
        }
    }
}

/// Tables, as granules of the partitions where they are read.
pub fn granules_of<'a>(tables: impl Iterator<Item = (TableId, &'a BTreeSet<PartitionId>)>) -> Granules {
    let mut granules = Granules::new();
    for (table, partitions) in tables {
        for &partition in partitions {
            granules.entry(partition).or_default().push(Granule::Range(table, KeyRange::all()));
        }
    }
    granules
}

/// What a row read touches. Through an index, a row may have left or entered the range by a write that
/// names only its key, so the whole table is closed.
pub fn granule_of(read: &RowRead) -> Granule {
    match read.index {
        None => Granule::of(read.table, read.range.clone()),
        Some(_) => Granule::Range(read.table, KeyRange::all()),
    }
}
