//! One foreign key with its two tables: what a row references, and what is said when that is not there.

use base::error::{SqlResult, SqlState};
use base::expr::{BinaryOperator, Expr};
use base::schema::{Catalog, ForeignKey, Index, Table};
use base::{Datum, SqlError};
use sql::lower::generated::Generated;
use sql::lower::keys::{KeyPath, KeyValue, key_value};
use sql::lower::modify::better_index;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A key with the table that has it and the one that it references.
#[derive(Clone)]
pub struct Reference {
    pub child: Arc<Table>,
    pub key: ForeignKey,
    pub parent: Arc<Table>,
    /// What errors call the table that has the key: its name, or that of the partition which alone has it.
    called: String,
}

impl Reference {
    pub fn of(catalog: &Catalog, child: &Arc<Table>, key: &ForeignKey) -> SqlResult<Reference> {
        let parent = catalog.table(key.table).ok_or_else(base::schema::stale_schema)?;
        let partition = key.partition_id().and_then(|id| catalog.views.get(&id));
        let called = partition.map_or(&child.name, |view| &view.shape.name).clone();
        Ok(Reference { child: child.clone(), key: key.clone(), parent: parent.clone(), called })
    }

    pub fn is_deferrable(&self) -> bool {
        self.key.timing.is_deferrable()
    }

    /// What a row references, as values of the referenced columns; `None`: nothing, as a value is null or the key is not
    /// the row's. Errors: 23503 for nulls beside values where the key says MATCH FULL.
    pub fn asked(&self, values: &[Datum]) -> SqlResult<Option<Vec<Datum>>> {
        if !self.key.is_of(values)? {
            return Ok(None);
        }
        let nulls = self.key.columns.iter().filter(|c| values[**c].is_null()).count();
        if self.key.is_full && 0 < nulls && nulls < self.key.columns.len() {
            let told = "MATCH FULL does not allow mixing of null and nonnull key values.";
            return Err(self.violated().detail(told));
        }
        Ok(self.key.reference(values))
    }

    /// Values of referencing columns as the referenced ones would hold them; `None`: no row has such.
    pub fn as_referenced(&self, values: &[Datum]) -> Option<Vec<Datum>> {
        let columns = self.key.referenced.iter().map(|c| self.parent.columns[*c].data_type);
        let exact = |(value, to): (&Datum, _)| match key_value(value.clone(), to) {
            KeyValue::Exact(value) => Some(value),
            KeyValue::Never | KeyValue::Unusable => None,
        };
        values.iter().zip(columns).map(exact).collect()
    }

    /// Columns of the table that has the key which tell what a row references.
    pub fn deciding(&self) -> Arc<Vec<u16>> {
        Arc::new(self.key.deciding_columns().into_iter().map(|column| column as u16).collect())
    }

    /// The unique index that is referenced; `None`: the primary key.
    pub fn unique(&self) -> Option<&Index> {
        self.parent.indexes.iter().find(|index| index.id == self.key.unique)
    }

    fn violated(&self) -> SqlError {
        SqlError::new(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                self.called, self.key.name
            ),
        )
        .table(&self.called)
        .constraint(&self.key.name)
    }

    pub fn is_absent(&self, values: &[Datum]) -> SqlError {
        let shown = shown(&self.child, &self.key.columns, values);
        self.violated().detail(format!("Key {shown} is not present in table \"{}\".", self.parent.name))
    }

    pub fn is_still_referenced(&self, values: &[Datum]) -> SqlError {
        let shown = shown(&self.parent, &self.key.referenced, values);
        SqlError::new(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                self.parent.name, self.key.name, self.called
            ),
        )
        .detail(format!("Key {shown} is still referenced from table \"{}\".", self.called))
        .table(&self.called)
        .constraint(&self.key.name)
    }

    /// How the rows that reference something are found: its words for EXPLAIN.
    pub fn way_to_children(&self) -> String {
        // Which value does not matter here, but one equal to NULL would find nothing.
        let conditions = equalities(&self.key.columns, &vec![Datum::Int(0); self.key.columns.len()]);
        let path = KeyPath::primary(&self.child, &conditions);
        match better_index(&self.child, &Generated::default(), &conditions, &path) {
            Some((index, _)) => format!("index {}", index.name),
            None if path.fixed_count() > 0 => "primary key".into(),
            None => "a look at every row, for want of an index on the referencing columns".into(),
        }
    }
}

fn shown(table: &Table, columns: &[usize], values: &[Datum]) -> String {
    let names: Vec<&str> = columns.iter().map(|c| table.columns[*c].name.as_str()).collect();
    let typed = columns.iter().map(|c| table.columns[*c].data_type).zip(values);
    let values: Vec<String> = typed.map(|(t, value)| base::text::display_as(value, t)).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}

pub(super) fn equalities(columns: &[usize], values: &[Datum]) -> Vec<Expr> {
    let equal = |(column, value): (&usize, &Datum)| {
        Expr::binary(BinaryOperator::Equal, Expr::Column(*column), Expr::Constant(value.clone()))
    };
    columns.iter().zip(values).map(equal).collect()
}

pub(super) fn sorted(columns: &[usize]) -> Arc<Vec<u16>> {
    let columns: BTreeSet<u16> = columns.iter().map(|c| *c as u16).collect();
    Arc::new(columns.into_iter().collect())
}
