//! Materialized views: read like tables once they have rows, and written by nobody.
//!
//! The catalog has a table and a view of one id. The table keeps the rows, and a look-up by name finds it before the view; the
//! view says what they are the rows of. KEEPS: both have one name; the view's shape has the table's key if the rows are
//! there, and none if they are not.

use crate::names;
use crate::parse::Refresh;
use crate::privileges::Check;
use crate::walk;
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::Object;
use base::schema::{Catalog, Table};
use base::views::{Relation, View};
use sqlparser::ast::{self, ObjectName, Statement, TableFactor};
use std::ops::ControlFlow;
use std::sync::Arc;

const WRONG_KIND: SqlState = SqlState(*b"42809");

/// What a table keeps the rows of; `None`: what is written to it.
pub fn of(catalog: &Catalog, table: TableId) -> Option<&Arc<View>> {
    catalog.views.get(&table).filter(|_| catalog.tables.contains_key(&table))
}

/// Whether an id is that of a materialized view.
pub fn is_one(catalog: &Catalog, id: TableId) -> bool {
    of(catalog, id).is_some()
}

/// Whether the rows are there.
pub fn is_populated(view: &View) -> bool {
    !view.shape.primary_key.is_empty()
}

/// Whether a relation can be read: all but a materialized view without rows.
pub fn has_rows(catalog: &Catalog, id: TableId) -> bool {
    of(catalog, id).is_none_or(|view| is_populated(view))
}

/// The view of a table that has its rows, or not.
pub fn over(view: &View, table: &Table, is_populated: bool) -> View {
    let key = if is_populated { table.primary_key.clone() } else { Vec::new() };
    let shape = Table {
        schema: table.schema.clone(),
        name: table.name.clone(),
        primary_key: key,
        ..view.shape.as_ref().clone()
    };
    View { shape: Arc::new(shape), ..view.clone() }
}

/// Views that keep no rows.
pub fn plain(catalog: &Catalog) -> impl Iterator<Item = &Arc<View>> {
    catalog.views.values().filter(|view| !catalog.tables.contains_key(&view.shape.id))
}

/// Tables and views as they look from outside, each once.
pub fn shapes(catalog: &Catalog) -> impl Iterator<Item = &Arc<Table>> {
    catalog.tables.values().chain(plain(catalog).map(|view| &view.shape))
}

/// What a relation is called in errors.
pub fn kind(catalog: &Catalog, found: &Table) -> &'static str {
    match (catalog.tables.contains_key(&found.id), catalog.views.get(&found.id)) {
        (true, Some(_)) => "materialized view",
        (false, view) if view.is_none_or(|view| view.partition.is_none()) => "view",
        _ => "table",
    }
}

/// A materialized view by its name.
fn named<'c>(check: &Check<'c>, name: &ObjectName) -> Option<(&'c Arc<Table>, &'c Arc<View>)> {
    let found = names::find_relation(check.catalog, check.search_path, check.database, name);
    let Some(Relation::Table(table)) = found else { return None };
    Some((table, of(check.catalog, table.id)?))
}

/// Errors: 55000 if a statement reads one without rows, 42809 if it writes to one.
pub fn check(check: &Check<'_>, statement: &Statement) -> SqlResult<()> {
    if check.catalog.views.is_empty() || !reads_or_writes(statement) {
        return Ok(());
    }
    let change = match statement {
        Statement::Query(query) => crate::with::change_of(query).map(|(_, change)| change),
        other => Some(other),
    };
    if let Some(target) = change.and_then(target_of) {
        refuse_change(check, target)?;
    }
    let locks = |query: &ast::Query| query.locks.iter().any(|lock| lock.of.is_none());
    if let Statement::Query(query) = statement
        && locks(query)
        && let ControlFlow::Break(name) = walk::relations(query, |name| match named(check, name) {
            Some((table, _)) => ControlFlow::Break(table.name.clone()),
            None => ControlFlow::Continue(()),
        })
    {
        let told = format!("cannot lock rows in materialized view \"{name}\"");
        return Err(SqlError::new(WRONG_KIND, told));
    }
    let read = walk::relations(statement, |name| match named(check, name) {
        Some((table, view)) if !is_populated(view) => ControlFlow::Break(table.name.clone()),
        _ => ControlFlow::Continue(()),
    });
    match read {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => {
            let told = format!("materialized view \"{name}\" has not been populated");
            Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, told)
                .hint("Use the REFRESH MATERIALIZED VIEW command."))
        }
    }
}

fn reads_or_writes(statement: &Statement) -> bool {
    use Statement as S;
    matches!(statement, S::Query(_) | S::Insert(_) | S::Update(_) | S::Delete(_) | S::Merge(_))
}

/// The catalog as if all rows were there, to ask what a query would answer; `None`: it is that already.
pub fn as_if_populated(catalog: &Catalog) -> Option<Catalog> {
    let without = |(id, view): (&TableId, &Arc<View>)| {
        let table = catalog.table(*id).filter(|_| !is_populated(view))?;
        Some((*id, Arc::new(over(view, table, true))))
    };
    let filled: Vec<(TableId, Arc<View>)> = catalog.views.iter().filter_map(without).collect();
    if filled.is_empty() {
        return None;
    }
    let mut shown = catalog.clone();
    shown.views.extend(filled);
    Some(shown)
}

/// The table that a statement writes to.
fn target_of(statement: &Statement) -> Option<&ObjectName> {
    let factor = match statement {
        Statement::Insert(insert) => {
            return match &insert.table {
                ast::TableObject::TableName(name) => Some(name),
                _ => None,
            };
        }
        Statement::Update(update) => &update.table.relation,
        Statement::Delete(delete) => {
            let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
            &from.first()?.relation
        }
        Statement::Merge(merge) => &merge.table,
        _ => return None,
    };
    match factor {
        TableFactor::Table { name, .. } => Some(name),
        _ => None,
    }
}

/// Errors: 42809 for a change of rows that a query decides.
pub fn refuse_change(check: &Check<'_>, name: &ObjectName) -> SqlResult<()> {
    match named(check, name) {
        Some((table, _)) => Err(unchangeable(table)),
        None => Ok(()),
    }
}

/// 42809.
pub fn unchangeable(table: &Table) -> SqlError {
    SqlError::new(WRONG_KIND, format!("cannot change materialized view \"{}\"", table.name))
}

/// Errors: 42809 for rows that COPY would put into a materialized view.
pub fn refuse_copy(catalog: &Catalog, table: &Table) -> SqlResult<()> {
    if !is_one(catalog, table.id) {
        return Ok(());
    }
    let told = format!("cannot copy to materialized view \"{}\"", table.name);
    Err(SqlError::new(WRONG_KIND, told))
}

/// What a REFRESH is about. Errors: 0A000 for another relation, 42P01; 42501 for who is not
/// its owner; 55000 and 0A000 for what CONCURRENTLY needs.
pub fn refreshed(check: &Check<'_>, name: &ObjectName, refresh: Refresh) -> SqlResult<(TableId, Arc<View>)> {
    let Some((table, view)) = named(check, name) else {
        let found = names::find_relation(check.catalog, check.search_path, check.database, name);
        let Some(found) = found else {
            return Err(names::find_table(check.catalog, check.search_path, check.database, name)
                .err()
                .unwrap_or_else(|| SqlError::internal("a table that is no relation")));
        };
        let told = format!("\"{}\" is not a materialized view", found.shape().name);
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
    };
    if !check.catalog.roles.owns(check.standing, &Object::Relation(table.id)) {
        let told = format!("must be owner of materialized view {}", table.name);
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, told));
    }
    if refresh.concurrently {
        if !refresh.with_data {
            let told = "CONCURRENTLY and WITH NO DATA options cannot be used together";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
        }
        let refused = |told: String| SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, told);
        if !is_populated(view) {
            let told = "CONCURRENTLY cannot be used when the materialized view is not populated";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
        }
        if !table.indexes.iter().any(|index| index.unique) {
            let told =
                format!("cannot refresh materialized view \"{}.{}\" concurrently", table.schema, table.name);
            let hint =
                "Create a unique index with no WHERE clause on one or more columns of the materialized view.";
            return Err(refused(told).hint(hint));
        }
    }
    Ok((table.id, view.clone()))
}
