//! A statement of several parts (WITH whose queries write) in an open transaction.
//!
//! KEEPS: what a part reads was there before the statement; what it writes meets what the other parts have written. A row
//! that one part has changed is not changed by another.

use super::Transaction;
use super::content::Buffered;
use base::schema::Catalog;
use base::{Datum, Key, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows that stand for a part that was run.
pub type PartRows = Vec<Arc<Vec<Datum>>>;

/// Such a statement under way.
pub struct Parts {
    /// The catalog with a table for the rows of each part.
    pub catalog: Arc<Catalog>,
    pub rows: BTreeMap<TableId, PartRows>,
    /// Where in the undo log the statement began.
    mark: usize,
    /// What was written since, while a part reads; the last write first.
    hidden: Vec<((TableId, Key), Option<Buffered>, usize)>,
    /// Rows that the parts before this one have written.
    changed: BTreeSet<(TableId, Key)>,
}

impl Transaction {
    /// A statement begins; answers its mark.
    pub fn begin_parts(&mut self, catalog: Arc<Catalog>) -> usize {
        let mark = self.mark();
        let (rows, hidden, changed) = Default::default();
        self.parts = Some(Box::new(Parts { catalog, rows, mark, hidden, changed }));
        mark
    }

    /// A part begins: it reads what was there before the statement.
    pub fn hide_parts(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        while self.undo.len() > parts.mark {
            let (at, before, bytes) = self.undo.pop().expect("longer than the mark");
            let written = self.buffer(at.clone(), before);
            parts.changed.insert(at.clone());
            parts.hidden.push((at, written, bytes));
        }
        self.parts = Some(parts);
    }

    /// The part has read: it writes beside what the others have written.
    pub fn show_parts(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        while let Some((at, written, bytes)) = parts.hidden.pop() {
            let before = self.buffer(at.clone(), written);
            self.undo.push((at, before, bytes));
        }
        self.parts = Some(parts);
    }

    /// The statement is over.
    pub fn end_parts(&mut self) {
        self.show_parts();
        self.parts = None;
    }

    /// Whether another part of the statement has changed a row.
    pub fn is_changed_by_parts(&self, table: TableId, key: &Key) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.changed.contains(&(table, key.clone())))
    }

    /// What stands for a part in those behind it.
    pub fn keep_part(&mut self, table: TableId, rows: PartRows) {
        if let Some(parts) = &mut self.parts {
            parts.rows.insert(table, rows);
        }
    }
}
