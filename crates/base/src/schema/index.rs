//! Secondary indexes, and what of them is computed.
//!
//! An index keeps values of its table's columns, and nothing else: an expression among its keys is a generated column of the
//! table that is hidden, and so is a predicate, which is the index's last column: true in rows that the index is about and
//! null in others. Entries with a null are never equal, so a unique index says nothing of the others, and since these have
//! entries too, any condition on the columns in front may be looked up in it. Of an index that is NULLS NOT DISTINCT entries
//! with nulls among their keys are equal, but for those outside the predicate.
//!
//! KEEPS: a hidden generated column belongs to one index.

use super::{Identity, Table};
use crate::{Datum, Key, Row, TableId};
use serde::{Deserialize, Serialize};

/// A secondary index. Entries are encoded `columns` followed by the primary key, or for a unique index
/// without nulls that differ from each other the columns alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    pub id: TableId,
    pub name: String,
    pub columns: Vec<usize>,
    pub unique: bool,
    /// Declared as a constraint rather than as an index.
    pub constraint: bool,
    pub form: IndexForm,
}

/// What was declared of an index beside its columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IndexForm {
    /// Expressions among the keys: the column that keeps the values, and the text in which errors name them.
    pub expressions: Vec<(usize, String)>,
    /// Of a partial index, its predicate; the last column keeps it.
    pub predicate: Option<String>,
    /// Columns that INCLUDE names. They are no part of the entries.
    pub include: Vec<usize>,
    /// Positions of keys that are declared as descending; entries are read both ways.
    pub descending: Vec<usize>,
    /// Positions of keys whose nulls are declared to stand at the other end than their direction puts them.
    pub nulls_moved: Vec<usize>,
    pub method: AccessMethod,
    /// Rows that were there before it are still to be entered: writes keep it, nothing reads it.
    pub is_building: bool,
    /// NULLS NOT DISTINCT: nulls of its keys are equal to each other.
    #[serde(deserialize_with = "crate::codec::since::<13, _, _>")]
    pub nulls_are_equal: bool,
}

/// What an index is declared to be. Those that are read are kept alike, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessMethod {
    #[default]
    Btree,
    Hash,
    /// Of documents of full-text search. Nothing reads it.
    Gin,
    /// As [`AccessMethod::Gin`].
    Gist,
}

impl AccessMethod {
    /// As CREATE INDEX names it.
    pub fn name(self) -> &'static str {
        match self {
            AccessMethod::Btree => "btree",
            AccessMethod::Hash => "hash",
            AccessMethod::Gin => "gin",
            AccessMethod::Gist => "gist",
        }
    }
    /// Whether its entries have the values of its columns, so that rows can be looked up in it.
    pub fn is_read(self) -> bool {
        !matches!(self, AccessMethod::Gin | AccessMethod::Gist)
    }
}

impl Index {
    /// The columns of its keys: all but the one that keeps the predicate.
    pub fn keys(&self) -> &[usize] {
        let predicates = usize::from(self.form.predicate.is_some());
        &self.columns[..self.columns.len() - predicates]
    }
    /// The column that keeps the predicate.
    pub fn predicate_column(&self) -> Option<usize> {
        self.form.predicate.as_ref().and(self.columns.last()).copied()
    }
    /// The text of the expression that a column keeps.
    pub fn expression(&self, column: usize) -> Option<&str> {
        self.form.expressions.iter().find(|(of, _)| *of == column).map(|(_, text)| text.as_str())
    }
    /// Whether a null in one of its columns differs from all other values, another null with them.
    fn null_differs(&self, column: usize) -> bool {
        !self.form.nulls_are_equal || self.predicate_column() == Some(column)
    }
    /// Whether no other row may have these values in its columns.
    pub fn forbids_others(&self, values: &[Datum]) -> bool {
        self.unique && self.columns.iter().all(|c| !values[*c].is_null() || !self.null_differs(*c))
    }
    /// Whether a hidden column is this index's.
    pub fn owns(&self, column: usize) -> bool {
        self.predicate_column() == Some(column) || self.expression(column).is_some()
    }
    /// Texts of its expressions and of its predicate.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.form.expressions.iter_mut().map(|(_, text)| text).chain(&mut self.form.predicate)
    }
}

impl Table {
    /// Whether a column keeps what an index has computed.
    pub fn is_of_index(&self, column: usize) -> bool {
        self.columns[column].hidden && self.columns[column].identity == Identity::Generated
    }
    /// What errors call a column of a key: its name, or the expression that it keeps.
    pub fn key_column_shown(&self, column: usize) -> &str {
        let expression = self.indexes.iter().find_map(|index| index.expression(column));
        expression.unwrap_or(&self.columns[column].name)
    }
    /// Entry of a row in one of the table's indexes.
    pub fn index_entry(&self, index: &Index, values: &[Datum], key: &Key) -> Key {
        entry_of(index, key, |column| values[column].clone())
    }
    /// The same, from a stored row.
    pub fn index_entry_of_row(&self, index: &Index, row: &Row, key: &Key) -> Key {
        entry_of(index, key, |column| self.value_of(row, column))
    }
}

fn entry_of(index: &Index, key: &Key, value: impl Fn(usize) -> Datum) -> Key {
    let mut entry = Key::new();
    let mut has_null = false;
    for &column in &index.columns {
        // Of an index that nothing reads an entry is as short as it can be.
        let value = if index.form.method.is_read() { value(column) } else { Datum::Null };
        has_null |= value.is_null() && index.null_differs(column);
        entry.push(&value);
    }
    if !index.unique || has_null {
        entry.append(key);
    }
    entry
}
