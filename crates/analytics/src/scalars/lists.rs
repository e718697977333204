//! Operators of arrays over columns, which are lists there.

use super::super::{fields, types};
use super::inference::kind_of;
use super::kinds::Kind;
use super::typing::literal;
use base::DataType;
use base::element::Element;
use base::error::SqlResult;
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::functions::core::greatest;
use datafusion::functions_nested::array_has::{array_has_all_udf, array_has_any_udf};
use datafusion::functions_nested::position::array_position_udf;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, ScalarUDF, lit, when};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// An operator of which a side is an array: `@>`, `<@`, `&&`, and any other beside a literal, which is an array of the
/// other side's type. `None` for what the planner does itself. Errors: those of literals.
pub(super) fn operator(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> SqlResult<Option<Expr>> {
    use BinaryOperator as B;
    let plain = match op {
        B::AtArrow | B::ArrowAt | B::PGOverlap => None,
        B::Eq => Some(Operator::Eq),
        B::NotEq => Some(Operator::NotEq),
        B::Lt => Some(Operator::Lt),
        B::LtEq => Some(Operator::LtEq),
        B::Gt => Some(Operator::Gt),
        B::GtEq => Some(Operator::GtEq),
        B::StringConcat => Some(Operator::StringConcat),
        _ => return Ok(None),
    };
    let is_open = |e: &Expr| kind_of(e, schema) == Kind::Unknown;
    let (a, b) = (element_of(left, schema), element_of(right, schema));
    let (left, right, is_changed) = match (a, b) {
        (Some(of), None) if is_open(right) => {
            (left.clone(), literal(right, Kind::Known(DataType::Array(of)))?, true)
        }
        (None, Some(of)) if is_open(left) => {
            (literal(left, Kind::Known(DataType::Array(of)))?, right.clone(), true)
        }
        (Some(_), Some(_)) => (left.clone(), right.clone(), false),
        _ => return Ok(None),
    };
    let call =
        |udf: Arc<ScalarUDF>, arguments| Some(Expr::ScalarFunction(ScalarFunction::new_udf(udf, arguments)));
    Ok(match (op, plain) {
        (B::AtArrow, _) => call(array_has_all_udf(), vec![left, right]),
        (B::ArrowAt, _) => call(array_has_all_udf(), vec![right, left]),
        (B::PGOverlap, _) => call(array_has_any_udf(), vec![left, right]),
        // The planner appends and joins itself, once both are arrays.
        (B::StringConcat, _) if is_changed => {
            call(datafusion::functions_nested::concat::array_concat_udf(), vec![left, right])
        }
        (_, Some(plain)) if is_changed => {
            Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), plain, Box::new(right))))
        }
        _ => None,
    })
}

/// The type of a list's elements; `None` for what is no list.
fn element_of(e: &Expr, schema: &dyn ExprSchema) -> Option<Element> {
    if kind_of(e, schema) != Kind::Foreign {
        return None;
    }
    let field = fields::field(e, schema).ok()?;
    types::element_type(field.data_type()).and_then(Element::of)
}

/// Values of which one is an array, with literals beside it as arrays of its type. `None` where there are none. Errors: those
/// of literals.
pub(super) fn beside(values: &[Expr], schema: &dyn ExprSchema) -> SqlResult<Option<Vec<Expr>>> {
    let Some(of) = values.iter().find_map(|e| element_of(e, schema)) else { return Ok(None) };
    let mut any = false;
    let typed = values.iter().map(|e| match kind_of(e, schema) {
        Kind::Unknown => {
            any = true;
            literal(e, Kind::Known(DataType::Array(of)))
        }
        _ => Ok(e.clone()),
    });
    let typed = typed.collect::<SqlResult<Vec<Expr>>>()?;
    Ok(any.then_some(typed))
}

/// A function of lists as PostgreSQL has it; `None` if the library's is so.
pub(super) fn function(name: &str, udf: &Arc<ScalarUDF>, arguments: &[Expr]) -> Option<Expr> {
    match (name, arguments) {
        ("array_has", [list, of]) if !matches!(list, Expr::Literal(..)) => has(udf, list, of),
        // The library counts from a list's end by numbers below nothing, where an array has no elements.
        ("array_element" | "array_slice", [list, bounds @ ..]) => {
            let arguments = within(list, bounds)?;
            Some(Expr::ScalarFunction(ScalarFunction::new_udf(udf.clone(), arguments)))
        }
        _ => None,
    }
}

/// A list and its subscripts, none of them below nothing; `None` if none can be.
fn within(list: &Expr, bounds: &[Expr]) -> Option<Vec<Expr>> {
    let is_within = |e: &Expr| match e {
        Expr::Literal(ScalarValue::Int64(Some(n)), _) => *n > 0,
        Expr::ScalarFunction(call) => call.name() == "greatest",
        _ => false,
    };
    if bounds.iter().all(is_within) {
        return None;
    }
    let mut arguments = vec![list.clone()];
    for (n, bound) in bounds.iter().enumerate() {
        // A slice begins with the first element at the earliest.
        let least = if n == 0 && bounds.len() > 1 { 1 } else { 0 };
        let bound = bound.clone();
        arguments.push(match is_within(&bound) || n > 1 {
            true => bound,
            false => {
                let bound = datafusion::logical_expr::cast(bound, Arrow::Int64);
                Expr::ScalarFunction(ScalarFunction::new_udf(greatest(), vec![bound, lit(least as i64)]))
            }
        });
    }
    Some(arguments)
}

/// `x = ANY (list)`: unknown where it is none of the elements and one of them is. `None`: it is so already.
fn has(udf: &Arc<ScalarUDF>, list: &Expr, of: &Expr) -> Option<Expr> {
    let call = |udf: Arc<ScalarUDF>, arguments| Expr::ScalarFunction(ScalarFunction::new_udf(udf, arguments));
    let has = call(udf.clone(), vec![list.clone(), of.clone()]);
    let position = call(array_position_udf(), vec![list.clone(), lit(ScalarValue::Null)]);
    let unknown = lit(ScalarValue::Boolean(None));
    let otherwise = when(position.is_not_null(), unknown).otherwise(has.clone()).ok()?;
    when(has, lit(true)).otherwise(otherwise).ok()
}
