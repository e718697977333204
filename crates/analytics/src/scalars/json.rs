//! Operators of JSON over columns: those of [`sql::json`], computed as rows compute them.

use super::evaluated::{Computation, call};
use super::inference::kind_of;
use super::kinds::{Family, Kind};
use super::typing::literal;
use base::error::SqlResult;
use base::expr::{Expr as Scalar, Function};
use base::json::JsonFunction;
use base::{DataType, SqlError, SqlState};
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::RawFieldAccessExpr;
use datafusion::logical_expr::{Expr, GetFieldAccess, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// An operator between two expressions, if it is one of JSON. Errors: 42883; those of literals.
pub(super) fn operator(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> SqlResult<Option<Expr>> {
    use BinaryOperator as B;
    let is_only_json = matches!(
        op,
        B::Arrow
            | B::LongArrow
            | B::HashArrow
            | B::HashLongArrow
            | B::Question
            | B::QuestionPipe
            | B::QuestionAnd
            | B::HashMinus
            | B::AtQuestion
            | B::AtAt
    );
    if !is_only_json && !matches!(op, B::AtArrow | B::ArrowAt | B::StringConcat | B::Minus) {
        return Ok(None);
    }
    let (a, b) = (kind_of(left, schema), kind_of(right, schema));
    let is_json = |k: Kind| matches!(k.family(), Family::Json | Family::Jsonb);
    if !is_json(a) && !is_json(b) {
        return match is_only_json {
            true => Err(no_operator(op, a, b)),
            false => Ok(None),
        };
    }
    let Some(found) = sql::json::operator(op, own_type(left, a, schema), own_type(right, b, schema)) else {
        return match (op, a.family(), b.family()) {
            // A text with the text of a value.
            (B::StringConcat, Family::Text, _) | (B::StringConcat, _, Family::Text) => Ok(None),
            _ => Err(no_operator(op, a, b)),
        };
    };
    let left = argument(left, a, found.left)?;
    let right = argument(right, b, found.right)?;
    Ok(Some(computed(found.function, vec![left, right], found.returns)))
}

/// A subscript of a `jsonb` value: the part that a path of one step leads to; `None`: the value is of another type. Errors:
/// 42804 for a slice, and for a subscript of a type that is none.
pub(super) fn subscript(access: &RawFieldAccessExpr, schema: &dyn ExprSchema) -> SqlResult<Option<Expr>> {
    let kind = kind_of(&access.expr, schema);
    if kind.family() != Family::Jsonb {
        return Ok(None);
    }
    let path = |key: &str| {
        let quoted = key.replace('\\', "\\\\").replace('"', "\\\"");
        operator(&BinaryOperator::HashArrow, &access.expr, &lit(format!("{{\"{quoted}\"}}")), schema)
    };
    match &access.field_access {
        GetFieldAccess::NamedStructField { name: ScalarValue::Utf8(Some(key)) } => path(key),
        GetFieldAccess::ListIndex { key } => match key.as_ref() {
            Expr::Literal(ScalarValue::Int64(Some(n)), _) => path(&n.to_string()),
            key => match kind_of(key, schema).family() {
                Family::Text | Family::Integer | Family::Unknown => {
                    operator(&BinaryOperator::Arrow, &access.expr, key, schema)
                }
                _ => {
                    let told = format!("subscript type {} is not supported", kind_of(key, schema).name());
                    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told)
                        .hint("jsonb subscript must be coercible to either integer or text."))
                }
            },
        },
        _ => Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "jsonb subscript does not support slices")),
    }
}

/// Bytes in the order of a `jsonb` value.
pub(super) fn sort_key(e: &Expr) -> Expr {
    computed(JsonFunction::SortKey, vec![(e.clone(), Kind::Known(DataType::Jsonb))], DataType::Bytea)
}

fn computed(function: JsonFunction, arguments: Vec<(Expr, Kind)>, returns: DataType) -> Expr {
    let columns = (0..arguments.len()).map(Scalar::Column).collect();
    let scalar = Scalar::Call(Function::Json(function), columns);
    call(Computation::Scalar(scalar), arguments, Kind::Known(returns))
}

/// The type of a side; `None` if it takes that of the other one.
pub(super) fn own_type(e: &Expr, kind: Kind, schema: &dyn ExprSchema) -> Option<DataType> {
    match kind {
        Kind::Known(t) => Some(t),
        Kind::Span => Some(DataType::Interval),
        Kind::Foreign if !matches!(e, Expr::Placeholder(_)) => super::super::fields::field(e, schema)
            .ok()
            .map(|field| super::super::types::from_arrow(field.data_type())),
        Kind::Unknown | Kind::Foreign => None,
    }
}

/// A side as a value of the type that the operator takes it for.
pub(super) fn argument(e: &Expr, kind: Kind, wanted: DataType) -> SqlResult<(Expr, Kind)> {
    let wanted = Kind::Known(wanted);
    Ok(match (e, kind) {
        (Expr::Placeholder(open), Kind::Foreign) => {
            let field = super::kinds::field_of(&open.id, wanted);
            let typed = Placeholder { id: open.id.clone(), field: Some(Arc::new(field)) };
            (Expr::Placeholder(typed), wanted)
        }
        (_, Kind::Unknown) => (literal(e, wanted)?, wanted),
        (_, Kind::Foreign) => (e.clone(), wanted),
        _ => (e.clone(), kind),
    })
}

pub(super) fn no_operator(op: &BinaryOperator, a: Kind, b: Kind) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {} {op} {}", a.name(), b.name()),
    )
    .hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
}
