//! Sets of rows behind FROM that depend on parameters, or on a query around them.

use super::{as_list, elements_of, first_factor, is_named};
use base::DataType;
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

/// Whether an argument is a whole number that is an integer.
pub(super) fn is_small(argument: &FunctionArg) -> bool {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => {
            number(e).is_some_and(|n| i32::try_from(n).is_ok()) && !has_bigint(e)
        }
        _ => false,
    }
}

/// The whole number that an expression of literals is. `None`: it is another expression, or ends in an error.
pub(super) fn number(e: &Expr) -> Option<i64> {
    use ast::BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    match e {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => number(inner),
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => number(expr)?.checked_neg(),
        Expr::UnaryOp { op: ast::UnaryOperator::Plus, expr } => number(expr),
        Expr::Cast { expr, data_type, .. } => match sql::names::data_type(data_type).ok()? {
            DataType::Integer => number(expr).filter(|n| i32::try_from(*n).is_ok()),
            DataType::BigInt => number(expr),
            _ => None,
        },
        Expr::BinaryOp { left, op, right } => {
            let is_narrow = !has_bigint(left) && !has_bigint(right);
            let (left, right) = (number(left)?, number(right)?);
            let result = match op {
                Plus => left.checked_add(right),
                Minus => left.checked_sub(right),
                Multiply => left.checked_mul(right),
                Divide => left.checked_div(right),
                Modulo => left.checked_rem(right),
                _ => None,
            }?;
            // Integers make an integer, or an error.
            let is_integer = |n: i64| i32::try_from(n).is_ok();
            (is_integer(result) || !is_narrow || !is_integer(left) || !is_integer(right)).then_some(result)
        }
        _ => None,
    }
}

/// Whether a cast to `bigint` is part of an expression of literals.
fn has_bigint(e: &Expr) -> bool {
    match e {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => has_bigint(inner),
        Expr::Cast { data_type, .. } => matches!(sql::names::data_type(data_type), Ok(DataType::BigInt)),
        Expr::BinaryOp { left, right, .. } => has_bigint(left) || has_bigint(right),
        _ => false,
    }
}
