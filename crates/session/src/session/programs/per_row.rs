//! `SELECT a, f(b) FROM t`: the arguments and the other columns are what is queried, and the function is called for each row
//! of that, in the order in which they come.

use super::callees::{resolved, written};
use super::kinds;
use crate::session::Session;
use crate::session::plan::{PerRow as Item, Plan, Planner};
use analytics::{Context, row_bytes};
use base::error::SqlResult;
use base::routines::{ResultOf, Routine};
use base::{DataType, Datum, SqlError};
use sql::lower::output_name;
use sql::lower::scope::ParameterTypes;
use sql::routines::resolve::Resolved;
use sql::routines::{body, expand, polymorphic};
use sql::types::Column;
use sqlparser::ast::{self, Expr, Ident, SelectItem, SetExpr, Statement};
use std::sync::Arc;

/// Plans such a query; `None`: it is none, or it has more to it than a list of columns. Errors: those of planning.
pub(super) fn plan_rows(
    context: &Context<'_>,
    query: &ast::Query,
    parameters: &mut ParameterTypes,
    plan: Planner,
) -> SqlResult<Option<(Plan, Vec<Item>, Vec<Column>)>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
    if !is_list_of_rows(query, select) {
        return Ok(None);
    }
    let (mut projection, mut items, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let mut has_call = false;
    for item in &select.projection {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, output_name(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, sql::names::fold(alias)),
            _ => return Ok(None),
        };
        names.push(name);
        let begin = projection.len();
        let alias = |expr: Expr, at: usize| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::new(format!("column_{at}")),
        };
        let Some((routine, arguments)) = called(context, parameters, expr)? else {
            // ORDER BY may say an alias.
            projection.push(match item {
                SelectItem::ExprWithAlias { .. } => item.clone(),
                _ => alias(expr.clone(), begin),
            });
            items.push(Item::Plain(begin));
            continue;
        };
        has_call = true;
        for (argument, of) in arguments.into_iter().zip(routine.types()) {
            let argument = expand::cast(context.catalog, argument, of)?;
            projection.push(alias(argument, projection.len()));
        }
        if projection.len() == begin {
            // A row is a row without arguments, too.
            projection.push(alias(Expr::value(ast::Value::Null), begin));
            items.push(Item::Call(routine, begin..begin));
            continue;
        }
        items.push(Item::Call(routine, begin..projection.len()));
    }
    if !has_call {
        return Ok(None);
    }
    let mut bare = select.clone();
    bare.projection.clone_from(&projection);
    let mut asked = query.clone();
    *asked.body = SetExpr::Select(bare);
    let main = plan(context, &Statement::Query(Box::new(asked)), parameters)?;
    let known = main.columns().ok_or_else(|| SqlError::internal("a query has columns"))?;
    let items = items.into_iter().map(|item| settled(item, &projection, &known));
    let items = items.collect::<SqlResult<Vec<Item>>>()?;
    let columns = items.iter().zip(names).map(|(item, name)| match item {
        Item::Plain(at) => Column { name, ..known[*at].clone() },
        Item::Call(routine, _) => Column::new(name, kinds::columns(context.catalog, routine)[0].1),
    });
    let columns = columns.collect();
    Ok(Some((main, items, columns)))
}

/// A call with the types that its planned arguments decide. Errors: 0A000 for a literal whose type others decide.
fn settled(item: Item, projection: &[SelectItem], known: &[Column]) -> SqlResult<Item> {
    let Item::Call(routine, at) = item else { return Ok(item) };
    if !polymorphic::is_open(&routine) {
        return Ok(Item::Call(routine, at));
    }
    let given: Vec<Expr> = projection[at.clone()].iter().filter_map(body::expression).cloned().collect();
    let types: Vec<DataType> = known[at.clone()].iter().map(|column| column.data_type).collect();
    let made = polymorphic::settled_by_types(&routine, &given, &types)?;
    let is_it = |(of, planned): (base::routines::TypeOf, &DataType)| {
        of.data_type == sql::routines::unlimited(*planned)
    };
    let is_settled = made.types().zip(&types).all(is_it);
    if is_settled {
        return Ok(Item::Call(made, at));
    }
    Err(SqlError::unsupported("a literal beside columns as an argument of a polymorphic function")
        .hint("Cast the literal to the type of the others."))
}

/// Whether a query gives a row for each that it finds, in an order that does not depend on its columns' places.
fn is_list_of_rows(query: &ast::Query, select: &ast::Select) -> bool {
    let groups = match &select.group_by {
        ast::GroupByExpr::Expressions(by, more) => !by.is_empty() || !more.is_empty(),
        ast::GroupByExpr::All(_) => true,
    };
    let numbers = |order: &ast::OrderByExpr| matches!(order.expr, Expr::Value(_));
    let orders_by_number = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(ast::OrderByKind::Expressions(orders)) => orders.iter().any(numbers),
        Some(ast::OrderByKind::All(_)) => true,
        None => false,
    };
    let is_plain = select.distinct.is_none() && select.having.is_none();
    !select.from.is_empty() && !groups && is_plain && !orders_by_number
}

/// The function that an expression calls, with all its arguments; `None`: it is another expression.
fn called(
    context: &Context<'_>,
    parameters: &ParameterTypes,
    expr: &Expr,
) -> SqlResult<Option<(Arc<Routine>, Vec<Expr>)>> {
    let Expr::Function(function) = expr else { return Ok(None) };
    if function.over.is_some() || function.filter.is_some() {
        return Ok(None);
    }
    let found = resolved(context, parameters, &function.name, written(&function.args))?;
    let is_value = |found: &Resolved| matches!(found.routine.result, ResultOf::One(_) | ResultOf::Void);
    Ok(found.filter(is_value).map(|found| (found.routine, found.arguments)))
}

impl Session {
    /// Calls the functions for each row. Errors: among others 53200.
    pub(super) async fn called_per_row(
        &mut self,
        items: &[Item],
        rows: Vec<Vec<Datum>>,
    ) -> SqlResult<Vec<Vec<Datum>>> {
        // Each call gives back what the one before has reserved, so what stays is counted here.
        let (asked, memory) = (self.release_read(), self.gateway.rows_memory("results of functions"));
        let mut answered = Vec::with_capacity(rows.len());
        for row in rows {
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                values.push(match item {
                    Item::Plain(at) => row[*at].clone(),
                    Item::Call(routine, arguments) => {
                        let returned = self.call_routine(routine, row[arguments.clone()].to_vec()).await?;
                        let first = returned.rows.into_iter().next().unwrap_or_default();
                        first.into_iter().next().unwrap_or_default()
                    }
                });
            }
            self.release_read();
            if let Some(asked) = &asked {
                asked.shrink(row_bytes(&row));
            }
            memory.grow(row_bytes(&values))?;
            answered.push(values);
            tokio::task::consume_budget().await;
        }
        self.hold_read(memory);
        Ok(answered)
    }
}
