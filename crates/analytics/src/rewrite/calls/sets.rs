//! Sets of rows behind FROM that depend on parameters, or on a query around them.

use super::{as_list, elements_of, first_factor, is_named, is_small, number};
use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, TableFactor};
use sql::walk;
use std::ops::ControlFlow;

/// Parameters of a series take the type of the numbers beside them.
pub(super) fn type_bounds(factor: &mut TableFactor) {
    let TableFactor::Table { name, args: Some(arguments), .. } = factor else { return };
    let is_known = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => number(e).is_some(),
        _ => false,
    };
    if !is_named(name, "generate_series") || !arguments.args.iter().any(is_known) {
        return;
    }
    let data_type =
        if arguments.args.iter().filter(|a| is_known(a)).all(is_small) { "integer" } else { "bigint" };
    for argument in &mut arguments.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = argument
            && let Expr::Value(value) = &*e
            && let ast::Value::Placeholder(name) = &value.value
            && let Ok(typed) = sql::parse::parse_expr(&format!("CAST({name} AS {data_type})"))
        {
            *e = typed;
        }
    }
}

/// A set of the elements of a list that names columns, where nothing stands before it: they are those of a query around
/// this one. It is a query that has the set among its columns.
pub(super) fn set_over_outside(factor: &TableFactor) -> Option<TableFactor> {
    let made = as_list(factor);
    let TableFactor::UNNEST { array_exprs, alias, with_ordinality: false, .. } =
        made.as_ref().unwrap_or(factor)
    else {
        return None;
    };
    let [list] = array_exprs.as_slice() else { return None };
    let named = walk::expressions(list, |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if named.is_continue() || crate::system::is_vector(list) {
        return None;
    }
    let alias = alias.as_ref().map_or_else(|| "AS unnest (unnest)".to_string(), ToString::to_string);
    first_factor(&format!("SELECT 1 FROM (SELECT {} AS unnest) {alias}", elements_of(list)))
}
