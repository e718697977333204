//! Keys of a window that are one column under two names.
//!
//! The planner knows that `x` and `y` of `(SELECT a AS x, a AS y FROM t)` are equal, sorts rows by one of them, and then misses
//! the other in the order that a window asks for. The second of two such keys says nothing: rows that differ by it differ
//! by the first.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr, Window, lit};
use std::sync::Arc;

/// The plan with windows whose keys are different columns. Its schema and names are what they were.
pub(super) fn merge(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let merged = match &node {
            LogicalPlan::Window(window) => of_window(window)?,
            _ => None,
        };
        Ok(merged.map_or_else(|| Transformed::no(node), Transformed::yes))
    })
    .map(|t| t.data)
}

fn of_window(window: &Window) -> Result<Option<LogicalPlan>> {
    let mut is_changed = false;
    let mut exprs = Vec::with_capacity(window.window_expr.len());
    for e in &window.window_expr {
        let Expr::WindowFunction(function) = e else {
            exprs.push(e.clone());
            continue;
        };
        let mut new = function.clone();
        if keep_different(&mut new, &window.input) {
            is_changed = true;
            exprs.push(Expr::WindowFunction(new).alias(e.schema_name().to_string()));
        } else {
            exprs.push(e.clone());
        }
    }
    if !is_changed {
        return Ok(None);
    }
    Window::try_new(exprs, window.input.clone()).map(LogicalPlan::Window).map(Some)
}

/// Leaves each column once among the keys, by its first name. False if nothing had to change.
fn keep_different(function: &mut WindowFunction, input: &Arc<LogicalPlan>) -> bool {
    let WindowFunctionParams { partition_by, order_by, .. } = &mut function.params;
    let mut seen = Vec::new();
    let mut kept = |key: &Expr| {
        let Some(first) = first_name(key, input) else { return Some(key.clone()) };
        let is_new = !seen.contains(&first);
        seen.push(first.clone());
        is_new.then_some(first)
    };
    let partitions: Vec<Expr> = partition_by.iter().filter_map(&mut kept).collect();
    let with = |term: &SortExpr, expr| SortExpr { expr, ..term.clone() };
    let mut order: Vec<SortExpr> =
        order_by.iter().filter_map(|term| Some(with(term, kept(&term.expr)?))).collect();
    if let ([], [first, ..]) = (order.as_slice(), order_by.as_slice()) {
        // A window without an order has another frame; in the order of a constant all rows are peers, as they are here.
        order.push(with(first, lit(1)));
    }
    let is_changed = partitions != *partition_by || order != *order_by;
    (*partition_by, *order_by) = (partitions, order);
    is_changed
}

/// The first of the columns that are equal to a key; `None` for what is no column.
fn first_name(key: &Expr, input: &Arc<LogicalPlan>) -> Option<Expr> {
    let Expr::Column(column) = key else { return None };
    let place = input.schema().maybe_index_of_column(column)?;
    let wanted = origin(place, input);
    let first = (0..place).find(|n| origin(*n, input) == wanted).unwrap_or(place);
    Some(Expr::Column(Column::from(input.schema().qualified_field(first))))
}

/// The column that a column of a plan is, told by the part of the plan that makes it.
fn origin(mut place: usize, input: &Arc<LogicalPlan>) -> Option<(*const LogicalPlan, usize)> {
    let mut plan = input;
    loop {
        plan = match plan.as_ref() {
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Projection(projection) => match below(projection.expr.get(place)?) {
                Some(column) => {
                    place = projection.input.schema().maybe_index_of_column(column)?;
                    &projection.input
                }
                None => return Some((Arc::as_ptr(plan), first_such(&projection.expr, place))),
            },
            LogicalPlan::Window(window) if place < window.input.schema().fields().len() => &window.input,
            _ => return Some((Arc::as_ptr(plan), place)),
        };
    }
}

/// The column that an item of a projection shows.
fn below(item: &Expr) -> Option<&Column> {
    match item {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => below(&alias.expr),
        _ => None,
    }
}

/// The first item that computes the same as this one.
fn first_such(items: &[Expr], place: usize) -> usize {
    let value = |item: &Expr| item.clone().unalias_nested().data;
    let item = value(&items[place]);
    if item.is_volatile() {
        return place;
    }
    items.iter().position(|other| value(other) == item).unwrap_or(place)
}
