//! Rows as a transaction buffers and sees them.

use super::Transaction;
use analytics::{OwnRows, row_bytes};
use base::schema::Table;
use base::{Datum, Key, Rank, Row, TableId};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// A buffered row.
#[derive(Clone)]
pub(super) struct Buffered {
    pub(super) table: Arc<Table>,
    /// The row at the cut, if it was there.
    pub(super) old: Option<Content>,
    /// `None`: deleted.
    pub(super) new: Option<Content>,
    /// The cut at which the transaction saw it when it changed it first.
    pub(super) seen_at: Rank,
}

/// A row's content; its values are built when somebody looks at them.
#[derive(Clone)]
pub(super) struct Content {
    pub(super) packed: Option<Row>,
    values: OnceLock<Arc<Vec<Datum>>>,
}

impl Content {
    pub(super) fn of(values: Arc<Vec<Datum>>) -> Content {
        Content { packed: None, values: OnceLock::from(values) }
    }
    pub(super) fn packed(row: Row) -> Content {
        Content { packed: Some(row), values: OnceLock::new() }
    }
    pub(super) fn values(&self, table: &Table) -> &Arc<Vec<Datum>> {
        let packed = || self.packed.as_ref().expect("content is packed where it has no values");
        self.values.get_or_init(|| Arc::new(table.complete(packed())))
    }
    /// The same row of a table that has more columns now.
    pub(super) fn widened(&self, table: &Table) -> Content {
        match &self.packed {
            Some(row) => Content::packed(row.clone()),
            None => {
                let mut values =
                    self.values.get().expect("content has values where it is not packed").to_vec();
                let missing = table.columns.iter().skip(values.len()).map(|c| c.missing.clone());
                values.extend(missing.collect::<Vec<_>>());
                Content::of(Arc::new(values))
            }
        }
    }
    /// Memory that it takes, shared or not.
    pub(super) fn bytes(&self) -> usize {
        let values = self.values.get().map_or(0, |values| row_bytes(values));
        values + self.packed.as_ref().map_or(0, Row::len)
    }
    pub(super) fn row(&self) -> Row {
        match (&self.packed, self.values.get()) {
            (Some(row), _) => row.clone(),
            (None, values) => Row::of(values.expect("content has values where it is not packed")),
        }
    }
}

impl Buffered {
    pub(super) fn values(&self) -> Option<&Arc<Vec<Datum>>> {
        self.new.as_ref().map(|content| content.values(&self.table))
    }
}

/// A row as a transaction sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenRow {
    pub key: Key,
    pub values: Arc<Vec<Datum>>,
    /// The stored row that the values are of, all or some.
    pub packed: Option<Row>,
}

impl SeenRow {
    pub fn new(key: Key, values: Arc<Vec<Datum>>) -> SeenRow {
        SeenRow { key, values, packed: None }
    }
}

impl OwnRows for Transaction {
    fn written_tables(&self) -> BTreeSet<TableId> {
        self.writes.keys().map(|(t, _)| *t).collect()
    }
    fn each_written(&self, table: TableId, each: &mut dyn FnMut(&Key, Option<&Arc<Vec<Datum>>>)) {
        self.buffer_of(table).for_each(|(key, new)| each(key, new));
    }
}
