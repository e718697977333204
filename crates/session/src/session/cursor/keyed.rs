//! `WHERE CURRENT OF`: a cursor over one table has the keys of the table's rows behind its columns, and a change of the row
//! that it stands on is one of the row with that key.
//!
//! KEEPS: a query that cannot show the keys, such as one that groups, is a cursor's as it is.

use crate::response::Response;
use crate::session::Session;
use crate::session::plan::{self, Plan};
use analytics::Context;
use base::error::{SqlResult, SqlState};
use base::schema::Table;
use base::{Datum, SqlError};
use sql::lower::scope::ParameterTypes;
use sql::names;
use sql::parse::{current_of, with_condition};
use sql::routines::body::{argument, argument_of};
use sqlparser::ast::{self, Expr, SelectItem, SetExpr, Statement, TableFactor};
use std::sync::Arc;

/// What stands behind the columns of a cursor's rows.
pub struct Keyed {
    table: Arc<Table>,
    /// FOR UPDATE and FOR SHARE.
    is_locking: bool,
}

impl Keyed {
    /// How many columns the key has.
    pub fn columns(&self) -> usize {
        self.table.primary_key.len()
    }
    pub fn is_locking(&self) -> bool {
        self.is_locking
    }
}

impl Session {
    /// The plan of a cursor's query with the key of its table's rows, or the one that it has without.
    pub(in crate::session) fn keyed_plan(
        &self,
        statement: &Statement,
        mut types: ParameterTypes,
        plain: Arc<Plan>,
    ) -> (Arc<Plan>, Option<Keyed>) {
        let catalog = self.catalog();
        let context = self.context(&catalog);
        let Some((keyed, asked)) = with_key(&context, statement) else { return (plain, None) };
        let has_hidden = keyed.table.primary_key.iter().any(|at| keyed.table.columns[*at].hidden);
        let planned = match has_hidden && !keyed.is_locking {
            true => analytics::plan_with(&context, &asked, &mut types, &[keyed.table.id])
                .map(|query| Plan::Query(Arc::new(query))),
            false => plan::plan(&context, &asked, &mut types),
        };
        let count = |plan: &Plan| plan.columns().map_or(0, |columns| columns.len());
        match planned {
            Ok(plan) if count(&plan) == count(&plain) + keyed.columns() => (Arc::new(plan), Some(keyed)),
            _ => (plain, None),
        }
    }

    /// UPDATE and DELETE of the row that a cursor stands on. Errors: 34000; 24000 where it stands on none, or is not over the
    /// table.
    pub(in crate::session) async fn run_at_cursor(
        &mut self,
        statement: &Statement,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        let named = current_of(statement).ok_or_else(|| SqlError::internal("a change without a cursor"))?;
        let name = cursor_name(named, parameters)?;
        let catalog = self.catalog();
        let mut types = ParameterTypes(parameters.iter().map(sql::types::type_of).collect());
        let mut values = parameters.to_vec();
        let (table, shown) = changed_table(&self.context(&catalog), statement)?;
        for (at, datum) in table.primary_key.iter().zip(self.key_under(&name, &table)?) {
            types.push(table.columns[*at].data_type);
            values.push(datum);
        }
        let equals = table.primary_key.iter().enumerate().map(|(nth, at)| {
            let column = qualified(&shown, &table.columns[*at].name);
            let value = argument(parameters.len() + nth + 1);
            Expr::BinaryOp { left: column.into(), op: ast::BinaryOperator::Eq, right: value.into() }
        });
        let condition = equals.reduce(|all, next| Expr::BinaryOp {
            left: all.into(),
            op: ast::BinaryOperator::And,
            right: next.into(),
        });
        let change = with_condition(statement, condition);
        let change = change.ok_or_else(|| SqlError::internal("a change without a cursor"))?;
        let plan = plan::plan(&self.context(&catalog), &change, &mut types)?;
        Box::pin(self.run(&plan, &values)).await
    }

    /// The key of the row that a cursor stands on.
    fn key_under(&self, name: &str, table: &Table) -> SqlResult<Vec<Datum>> {
        let wrong = |message: String| Err(SqlError::new(SqlState::INVALID_CURSOR_STATE, message));
        let cursor = self.cursors.get(name).ok_or_else(|| super::no_cursor(name))?;
        if cursor.is_held && !cursor.is_new {
            return wrong(format!("cursor \"{name}\" is held from a previous transaction"));
        }
        match (&cursor.keyed, &cursor.key) {
            (Some(keyed), Some(key)) if keyed.table.id == table.id => Ok(key.clone()),
            (Some(keyed), None) if keyed.table.id == table.id => {
                wrong(format!("cursor \"{name}\" is not positioned on a row"))
            }
            _ => {
                wrong(format!("cursor \"{name}\" is not a simply updatable scan of table \"{}\"", table.name))
            }
        }
    }
}

/// The name of the cursor: as it is written, or the value of a variable.
fn cursor_name(named: &Expr, parameters: &[Datum]) -> SqlResult<String> {
    if let Expr::Identifier(name) = named {
        return Ok(names::fold(name));
    }
    match argument_of(named).and_then(|nth| parameters.get(nth - 1)) {
        Some(Datum::Text(name)) => Ok(name.to_string()),
        Some(Datum::Null) => Err(SqlError::new(SqlState(*b"22004"), "cursor variable is null")),
        _ => Err(SqlError::unsupported("WHERE CURRENT OF anything but a cursor")),
    }
}

fn qualified(shown: &str, column: &str) -> Expr {
    Expr::CompoundIdentifier([shown, column].map(|part| ast::Ident::with_quote('"', part)).to_vec())
}

/// The table that a statement names, and how it calls it. Errors: 42P01, 42809 for a view.
fn table_of(context: &Context<'_>, factor: &TableFactor) -> SqlResult<(Arc<Table>, String)> {
    let TableFactor::Table { name, alias, args: None, sample: None, .. } = factor else {
        return Err(SqlError::unsupported("WHERE CURRENT OF in anything but a table"));
    };
    let table = names::find_table(context.catalog, context.search_path, context.database, name)?.clone();
    let shown = alias.as_ref().map_or_else(|| table.name.clone(), |alias| names::fold(&alias.name));
    Ok((table, shown))
}

/// The table that a change is of.
fn changed_table(context: &Context<'_>, statement: &Statement) -> SqlResult<(Arc<Table>, String)> {
    let factor = match statement {
        Statement::Update(update) => Some(&update.table.relation),
        Statement::Delete(delete) => {
            let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) =
                &delete.from;
            tables.first().map(|first| &first.relation)
        }
        _ => None,
    };
    table_of(context, factor.ok_or_else(|| SqlError::internal("a change of no table"))?)
}

/// A query of one table's rows with their keys behind its columns; `None`: it is another.
fn with_key(context: &Context<'_>, statement: &Statement) -> Option<(Keyed, Statement)> {
    let Statement::Query(query) = statement else { return None };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_grouped = match &select.group_by {
        ast::GroupByExpr::Expressions(by, more) => !by.is_empty() || !more.is_empty(),
        ast::GroupByExpr::All(_) => true,
    };
    let is_plain = query.with.is_none() && select.distinct.is_none() && select.having.is_none();
    let [from] = select.from.as_slice() else { return None };
    if is_grouped || !is_plain || !from.joins.is_empty() {
        return None;
    }
    let (table, shown) = table_of(context, &from.relation).ok().filter(|(t, _)| !t.primary_key.is_empty())?;
    let mut items = Vec::with_capacity(select.projection.len() + 1);
    for item in &select.projection {
        match item {
            // Where hidden columns can be named a star has them, too.
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                let visible = table.visible_columns();
                items.extend(visible.map(|(_, of)| SelectItem::UnnamedExpr(qualified(&shown, &of.name))));
            }
            other => items.push(other.clone()),
        }
    }
    items.extend(table.primary_key.iter().enumerate().map(|(nth, at)| SelectItem::ExprWithAlias {
        expr: qualified(&shown, &table.columns[*at].name),
        alias: ast::Ident::with_quote('"', format!("{}of cursor {nth}", sql::parse::OWN_NAMES)),
    }));
    let mut asked = query.clone();
    if let SetExpr::Select(select) = asked.body.as_mut() {
        select.projection = items;
    }
    let is_locking = !query.locks.is_empty();
    Some((Keyed { table, is_locking }, Statement::Query(asked)))
}
