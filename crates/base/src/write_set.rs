//! What a transaction did when it was evaluated against an older state, to be installed at its place in the order.
//!
//! For engines that execute first and order later. KEEPS: a [`WriteSet`] names final states, so installing it asks
//! nothing of the rows that are there; whoever orders makes sure that nothing it names, and as far as the isolation
//! level says so nothing that was read, has changed since ([`WriteSet::items`], [`Evaluated::reads`]).

use crate::txn::{ReadGranule, StatementResult};
use crate::{Key, PartitionId, Row, TableId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction as it would end if it were executed at a rank.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Evaluated {
    /// Rows to return, per participant and statement.
    pub results: BTreeMap<PartitionId, Vec<StatementResult>>,
    /// Everything that the outcome rests on, as of the rank.
    pub reads: Vec<ReadGranule>,
    /// By participant; [`WriteSet::is_empty`] of one that was only read.
    pub writes: BTreeMap<PartitionId, WriteSet>,
}

/// A transaction's writes at one partition.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WriteSet {
    /// Final states, one a row, in the order of a commit record.
    pub rows: Vec<RowState>,
    /// Owners of unique entries homed here whose rows may live elsewhere.
    pub homes: Vec<(UniqueEntry, Option<Key>)>,
    /// Such entries that their rows keep, though a row may move.
    pub kept: BTreeSet<UniqueEntry>,
    /// Entries homed anywhere that rows here give up, and the primary keys of these rows.
    pub left: Vec<(UniqueEntry, Key)>,
    /// Entries of unique indexes over the rows here that change owners.
    pub unique: BTreeSet<UniqueEntry>,
}

/// A unique index and an entry of it.
pub type UniqueEntry = (TableId, Key);

/// A row as a transaction leaves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowState {
    pub table: TableId,
    /// The table's version when the transaction was evaluated.
    pub schema_version: u64,
    pub key: Key,
    /// `None`: deleted.
    pub row: Option<Row>,
}

impl WriteSet {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.homes.is_empty() && self.left.is_empty()
    }
    /// What no other transaction may write between evaluation and installation: rows, and entries of unique
    /// indexes, old and new. An item may come twice.
    pub fn items(&self) -> impl Iterator<Item = (TableId, &Key)> {
        let rows = self.rows.iter().map(|state| (state.table, &state.key));
        let homes = self.homes.iter().map(|((index, entry), _)| (*index, entry));
        let left = self.left.iter().map(|((index, entry), _)| (*index, entry));
        let unique = self.unique.iter().chain(&self.kept).map(|(index, entry)| (*index, entry));
        rows.chain(homes).chain(left).chain(unique)
    }
}
