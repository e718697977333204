//! Operators of arrays over columns, which are lists there.

use super::super::{fields, types};
use super::inference::kind_of;
use super::kinds::Kind;
use super::typing::literal;
use base::DataType;
use base::element::Element;
use base::error::SqlResult;
use datafusion::common::ExprSchema;
use datafusion::functions_nested::array_has::{array_has_all_udf, array_has_any_udf};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, ScalarUDF};
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
    let list = |e: &Expr| match kind_of(e, schema) {
        Kind::Foreign => {
            let field = fields::field(e, schema).ok()?;
            types::element_type(field.data_type()).and_then(Element::of)
        }
        _ => None,
    };
    let is_open = |e: &Expr| kind_of(e, schema) == Kind::Unknown;
    let (a, b) = (list(left), list(right));
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
