//! Arrays as they are written: the types of their elements, and functions that are others of the planner's.

use super::numbers::{as_integer, is_integer};
use datafusion::sql::sqlparser::ast::{self, Expr};
use std::ops::ControlFlow;

/// `ARRAY[…]` and `left || right` whose whole numbers are integers where they fit, as in PostgreSQL; the planner takes them for
/// bigints. `None` for other expressions, and if there are none.
pub(super) fn of_integers(e: &Expr) -> Option<Expr> {
    match e {
        Expr::Array(array) => list_of_integers(array),
        Expr::BinaryOp { left, op: ast::BinaryOperator::StringConcat, right } => joined(left, right),
        _ => None,
    }
}

/// `ARRAY[…]` of anything but constants as a call: the planner forgets in its elements what stands around a subquery.
pub(super) fn as_call(e: &mut Expr) -> Option<Expr> {
    let is_named = |e: &Expr| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    if !matches!(e, Expr::Array(_)) || sql::walk::expressions(&*e, is_named).is_continue() {
        return None;
    }
    let Expr::Array(array) = e else { return None };
    let Ok(Expr::Function(mut call)) = sql::parse::parse_expr("make_array()") else { return None };
    let ast::FunctionArguments::List(list) = &mut call.args else { return None };
    let elements = std::mem::take(&mut array.elem).into_iter();
    list.args = elements.map(|e| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e))).collect();
    Some(Expr::Function(call))
}

fn list_of_integers(array: &ast::Array) -> Option<Expr> {
    if !array.elem.iter().any(is_integer) {
        return None;
    }
    let mut made = Expr::Array(ast::Array { elem: array.elem.clone(), named: true });
    match &mut made {
        Expr::Array(mixed) if !is_integer_list(array) => mixed.elem.iter_mut().for_each(as_integer),
        all => as_integer(all),
    }
    Some(made)
}

fn is_integer_list(array: &ast::Array) -> bool {
    array.elem.iter().all(|e| !matches!(e, Expr::Array(_)) && is_integer(e))
}

/// `array_fill(of, lengths)`: a list for each length, in one another. `None` for lengths that are no list.
pub(super) fn filled(of: &Expr, lengths: &Expr) -> Option<Expr> {
    let lengths = elements(lengths)?;
    if lengths.is_empty() {
        return None;
    }
    let mut of = of.clone();
    as_integer(&mut of);
    let nested = lengths.iter().rev().fold(of.to_string(), |of, n| format!("array_repeat({of}, {n})"));
    sql::parse::parse_expr(&nested).ok()
}

/// Functions of arrays and elements, which have the type that both can have.
const OF_ELEMENTS: [&str; 4] = ["array_append", "array_prepend", "array_remove", "array_replace"];

/// Such a call whose elements are integers where they are written so: beside an array of integers a bigint would make it one
/// of bigints. `None` for others.
pub(super) fn with_integers(function: &ast::Function, name: &str) -> Option<Expr> {
    if !OF_ELEMENTS.contains(&name) {
        return None;
    }
    let mut made = function.clone();
    let ast::FunctionArguments::List(list) = &mut made.args else { return None };
    let mut is_changed = false;
    for argument in &mut list.args {
        if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) = argument {
            is_changed |= is_integer(e);
            as_integer(e);
        }
    }
    is_changed.then_some(Expr::Function(made))
}

fn joined(left: &Expr, right: &Expr) -> Option<Expr> {
    if !is_integer(left) && !is_integer(right) {
        return None;
    }
    let (mut left, mut right) = (Box::new(left.clone()), Box::new(right.clone()));
    as_integer(&mut left);
    as_integer(&mut right);
    Some(Expr::BinaryOp { left, op: ast::BinaryOperator::StringConcat, right })
}

/// What an array is written of.
fn elements(e: &Expr) -> Option<&[Expr]> {
    match e {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => elements(inner),
        Expr::Array(array) => Some(&array.elem),
        _ => None,
    }
}
