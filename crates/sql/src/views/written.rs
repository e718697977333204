//! Tables that a statement writes, where its subqueries read them: as they show themselves anywhere, without hidden columns.

use super::{Ctes, called, derived, quoted};
use crate::names;
use crate::walk::WalkMut;
use base::TableId;
use base::error::{SqlError, SqlResult};
use base::schema::Catalog;
use base::views::Relation;
use sqlparser::ast::{Query, SetExpr, Statement, TableFactor, TableWithJoins, VisitorMut};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Leaves the hidden columns of these tables to the relations that the query itself joins: what its subqueries read of them
/// becomes a query over the other columns.
pub fn show_in_subqueries(
    catalog: &Catalog,
    search_path: &[String],
    database: &str,
    tables: &[TableId],
    statement: &mut Statement,
) -> SqlResult<()> {
    let hides_some = |id: &&TableId| {
        catalog.table(**id).is_some_and(|table| table.columns.iter().any(|column| column.hidden))
    };
    let tables: BTreeSet<TableId> = tables.iter().filter(hides_some).copied().collect();
    if tables.is_empty() {
        return Ok(());
    }
    // Only these mean columns that nobody has named.
    let text = statement.to_string();
    if !text.contains('*') && !text.contains("NATURAL") {
        return Ok(());
    }
    let mut joined = BTreeSet::new();
    if let Statement::Query(query) = &*statement
        && let SetExpr::Select(select) = query.body.as_ref()
    {
        add_joined(&select.from, &mut joined);
    }
    let mut reading = Reading { catalog, search_path, database, tables, joined, scopes: Vec::new() };
    match statement.walk_mut(&mut reading) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Notes the relations that a query joins, by where they are.
fn add_joined(from: &[TableWithJoins], joined: &mut BTreeSet<*const TableFactor>) {
    for part in from {
        for factor in std::iter::once(&part.relation).chain(part.joins.iter().map(|join| &join.relation)) {
            joined.insert(std::ptr::from_ref(factor));
            if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
                add_joined(std::slice::from_ref(table_with_joins.as_ref()), joined);
            }
        }
    }
}

struct Reading<'a> {
    catalog: &'a Catalog,
    search_path: &'a [String],
    database: &'a str,
    tables: BTreeSet<TableId>,
    joined: BTreeSet<*const TableFactor>,
    scopes: Vec<Ctes>,
}

impl Reading<'_> {
    fn factor(&self, factor: &mut TableFactor) -> SqlResult<()> {
        if self.joined.contains(&std::ptr::from_ref(&*factor)) {
            return Ok(());
        }
        let TableFactor::Table { name, alias, args: None, .. } = &mut *factor else { return Ok(()) };
        if Ctes::hide(&self.scopes, name) {
            return Ok(());
        }
        let found = names::find_relation(self.catalog, self.search_path, self.database, name);
        let Some(Relation::Table(table)) = found else { return Ok(()) };
        if !self.tables.contains(&table.id) {
            return Ok(());
        }
        let alias = alias.take().unwrap_or_else(|| called(name));
        let columns: Vec<String> =
            table.visible_columns().map(|(_, column)| quoted(&column.name).to_string()).collect();
        let text = format!("SELECT {} FROM t", columns.join(", "));
        let Some(Statement::Query(mut query)) = crate::parse::parse(&text)?.pop() else {
            return Err(SqlError::internal("this text is a query"));
        };
        if let SetExpr::Select(select) = query.body.as_mut() {
            std::mem::swap(&mut select.from[0].relation, factor);
        }
        *factor = derived(*query, alias);
        Ok(())
    }
}

impl VisitorMut for Reading<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        Ctes::enter(&mut self.scopes, query);
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        Ctes::leave(&mut self.scopes);
        ControlFlow::Continue(())
    }
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match self.factor(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}
