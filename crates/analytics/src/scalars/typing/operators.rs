//! Small parts of the rules for operators: an operator as the planner and as rows have it, and tests of operands that are
//! constants (NULL, a moment at which a day begins).

use super::super::super::types;
use super::super::evaluated::{Computation, call};
use super::super::kinds::Kind;
use super::constants::constant;
use base::expr::BinaryOperator;
use base::{DataType, Datum};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// Whether an expression is a NULL that has a type.
pub(super) fn is_null(e: &Expr) -> bool {
    match e {
        Expr::Alias(alias) => is_null(&alias.expr),
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Literal(value, _) if value.is_null()),
        Expr::Literal(value, _) => value.is_null() && !matches!(value, ScalarValue::Null),
        _ => false,
    }
}

pub(super) fn base_operator(operator: Operator) -> Option<BinaryOperator> {
    Some(match operator {
        Operator::Eq => BinaryOperator::Equal,
        Operator::NotEq => BinaryOperator::NotEqual,
        Operator::Lt => BinaryOperator::Less,
        Operator::LtEq => BinaryOperator::LessOrEqual,
        Operator::Gt => BinaryOperator::Greater,
        Operator::GtEq => BinaryOperator::GreaterOrEqual,
        Operator::Plus => BinaryOperator::Add,
        Operator::Minus => BinaryOperator::Subtract,
        Operator::Multiply => BinaryOperator::Multiply,
        Operator::Divide => BinaryOperator::Divide,
        Operator::Modulo => BinaryOperator::Remainder,
        _ => return None,
    })
}

pub(super) fn plain(operator: Operator, left: Expr, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

/// Two arguments by the function that rows use.
pub(in super::super) fn by_rows(
    operator: BinaryOperator,
    left: (Expr, Kind),
    right: (Expr, Kind),
    returns: DataType,
) -> Expr {
    let expr = base::expr::Expr::binary(operator, base::expr::Expr::Column(0), base::expr::Expr::Column(1));
    call(Computation::Scalar(expr), vec![left, right], Kind::Known(returns))
}

pub(super) fn symbol(operator: Operator) -> String {
    match operator {
        Operator::NotEq => "<>".into(),
        // Both are made of the operator of equality.
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => "=".into(),
        other => other.to_string(),
    }
}

/// The day of a moment at midnight: where one is compared with days, what is known of days can be used.
pub(super) fn day_of(e: &Expr) -> Option<Expr> {
    let Expr::Literal(value, _) = e else { return None };
    let Some(Datum::Timestamp(us)) = types::datum(value) else { return None };
    let day = i32::try_from(us.div_euclid(base::datum::US_PER_DAY)).ok()?;
    (us.rem_euclid(base::datum::US_PER_DAY) == 0).then(|| constant(&Datum::Date(day), DataType::Date))
}
