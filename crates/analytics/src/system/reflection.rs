//! What libraries that read a schema back ask of constraints and identity columns.

use super::definitions;
use super::pg_tables::Object;
use crate::context::Context;
use base::expr::Expr;
use base::schema::Table;
use sql::ddl::indexes::written;
use std::collections::BTreeSet;

/// What the sequence of an identity column counts by, as an object of JSON; `None` for other columns.
pub(super) fn identity_options(context: &Context<'_>, table: &Table, column: &str) -> Option<String> {
    let number = table.column_named(column)?;
    let identity = Some(table.columns[number].identity).filter(|identity| identity.is_identity())?;
    let mut sequences = context.catalog.sequences.values();
    let sequence = sequences.find(|sequence| sequence.owner == Some((table.id, number)))?;
    Some(format!(
        "{{\"always\": {}, \"start\": {}, \"increment\": {}, \"minvalue\": {}, \"maxvalue\": {}, \"cache\": {}, \
         \"cycle\": {}}}",
        identity == base::schema::Identity::Always,
        sequence.start,
        sequence.increment,
        sequence.limits.min,
        sequence.limits.max,
        sequence.limits.cache,
        sequence.limits.cycles,
    ))
}

/// The first column that a foreign key references, as `table.column`; `None` for other objects.
pub(super) fn referenced(context: &Context<'_>, key: Object<'_>) -> Option<String> {
    let Object::ForeignKey(table, nth) = key else { return None };
    let key = table.foreign.own.get(nth)?;
    let parent = context.catalog.table(key.table)?;
    Some(format!("{}.{}", parent.name, parent.columns[*key.referenced.first()?].name))
}

/// Names of the columns of a constraint or an index; `None` for other objects.
pub(super) fn columns(of: Object<'_>) -> Option<Vec<String>> {
    let named = |table: &Table, columns: &[usize]| {
        columns.iter().map(|column| table.columns[*column].name.clone()).collect()
    };
    match of {
        Object::ForeignKey(table, nth) => Some(named(table, &table.foreign.own.get(nth)?.columns)),
        Object::Check(table, nth) => {
            let mut columns = BTreeSet::new();
            table.checks.get(nth)?.expr.walk(&mut |e| {
                if let Expr::Column(column) = e {
                    columns.insert(*column);
                }
            });
            Some(named(table, &columns.into_iter().collect::<Vec<_>>()))
        }
        found => {
            let (table, index) = definitions::index(found)?;
            Some(written::column_names(table, &index))
        }
    }
}
