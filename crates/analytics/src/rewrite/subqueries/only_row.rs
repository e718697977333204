//! A subquery as a value: its only row, or NULL.
//!
//! The planner takes a column that is never NULL for one that a subquery always has, and its name for that of a column
//! around it.

use super::super::limits::keeps_one;
use super::super::marks::MARK;
use super::{Surroundings, over_all, parse, plain};
use crate::only::ONLY;
use base::error::SqlResult;
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, Query, Select, SelectItem, SetExpr};

/// The subquery as one that the planner reads right; `None` if it stays.
pub(super) fn of(query: &Query, around: &Surroundings<'_>) -> Option<Box<Query>> {
    first_or_only(query, around).or_else(|| of_any(query, around))
}

/// A subquery without a table, over columns of the row around it, as the value that it is there: CASE decides whether it is
/// computed, as for any other value.
pub(super) fn of_row_around(query: &Query, around: &Surroundings<'_>) -> SqlResult<Option<Expr>> {
    let Some(select) = plain(query, around).filter(|select| select.from.is_empty()) else { return Ok(None) };
    let [SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }] =
        select.projection.as_slice()
    else {
        return Ok(None);
    };
    if !around.is_correlated || matches!(e, Expr::Tuple(_)) {
        return Ok(None);
    }
    let value = match &select.selection {
        None => format!("({e})"),
        Some(condition) => format!("CASE WHEN {condition} THEN {e} END"),
    };
    parse(&value).map(Some)
}

/// The keys of ORDER BY that tell rows apart, where a number stands for the only column.
fn sorting_keys(order_by: &ast::OrderBy, column: &Expr) -> Option<ast::OrderBy> {
    let mut order_by = order_by.clone();
    let ast::OrderByKind::Expressions(keys) = &mut order_by.kind else { return Some(order_by) };
    for key in keys.iter_mut() {
        if matches!(&key.expr, Expr::Value(_)) {
            key.expr = column.clone();
        }
    }
    keys.retain(|key| !matches!(&key.expr, Expr::Value(_)));
    (!keys.is_empty()).then_some(order_by)
}

/// A subquery of rows as one of an aggregate that is its row: the only one, or the first.
fn first_or_only(query: &Query, around: &Surroundings<'_>) -> Option<Box<Query>> {
    let mut query = Box::new(query.clone());
    let is_first = match query.limit_clause.take() {
        None => false,
        Some(limit) if keeps_one(&limit) == Some(1) => true,
        Some(_) => return None,
    };
    let select = plain(&query, around)?;
    // Without a table and a condition there is one row. A query of its own is told apart by the planner, which
    // takes a column without nulls for one that cannot be missing.
    if select.from.is_empty() && (select.selection.is_none() || around.is_correlated) {
        return None;
    }
    let [item] = select.projection.as_slice() else { return None };
    let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item else { return None };
    let name = told_apart(item)?;
    let keys = query.order_by.as_ref().and_then(|order_by| sorting_keys(order_by, e));
    let expr = match (is_first, keys) {
        (true, Some(order)) => parse(&format!("first_value({e} {order})")).ok()?,
        (true, None) => parse(&format!("first_value({e})")).ok()?,
        (false, _) => parse(&format!("{ONLY}({e})")).ok()?,
    };
    let item = SelectItem::ExprWithAlias { expr, alias: name };
    query.order_by = None;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    select.projection = vec![item];
    Some(query)
}

/// What the only column of a select list is called, told apart from columns around it that are called the same.
fn told_apart(item: &SelectItem) -> Option<Ident> {
    let name = match item {
        SelectItem::UnnamedExpr(e) => sql::lower::output_name(e),
        SelectItem::ExprWithAlias { alias, .. } => sql::names::fold(alias),
        _ => return None,
    };
    Some(Ident::with_quote('"', format!("{name}{MARK}v")))
}

/// The only row of a subquery of groups, of a set operation, of rows between bounds.
fn of_any(query: &Query, around: &Surroundings<'_>) -> Option<Box<Query>> {
    let select = first_select(&query.body)?;
    let [item] = select.projection.as_slice() else { return None };
    if matches!(query.body.as_ref(), SetExpr::Select(_))
        && (select.from.is_empty() || is_one_row(select, around))
    {
        return None;
    }
    let name = told_apart(item)?;
    // What depends on the query around is joined to it, and has one row at most for each of those.
    let function = if around.is_correlated { "" } else { ONLY };
    let only = |columns: &[String]| columns.first().map_or_else(String::new, |y| format!("{function}({y})"));
    let mut made = Box::new(over_all(query.clone(), &only, &|_| None)?);
    let SetExpr::Select(outer) = made.body.as_mut() else { return None };
    let item = outer.projection.pop()?;
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return None };
    outer.projection.push(SelectItem::ExprWithAlias { expr, alias: name });
    Some(made)
}

fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

/// Whether the query has one row, also where its tables are empty: an aggregate without groups.
fn is_one_row(select: &Select, around: &Surroundings<'_>) -> bool {
    let is_ungrouped = matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    is_ungrouped
        && select.having.is_none()
        && select.projection.iter().any(|item| super::super::has_aggregate(item, around.is_aggregate))
}
