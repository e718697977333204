//! Operators of bits, `& | # << >>`: they compute in the type of their operands.

use super::evaluated::{Computation, call};
use super::inference::kind_of;
use super::kinds::{Family, Kind};
use super::plain::{Bits, Plain};
use super::typing::{self, narrowed, no_operator};
use base::DataType;
use base::error::SqlResult;
use datafusion::common::ExprSchema;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The operator of bits that is written so.
pub(super) fn written(op: &BinaryOperator) -> Option<Bits> {
    use BinaryOperator as B;
    Some(match op {
        B::BitwiseAnd => Bits::And,
        B::BitwiseOr => Bits::Or,
        B::PGBitwiseXor | B::BitwiseXor => Bits::Xor,
        B::PGBitwiseShiftLeft => Bits::Left,
        B::PGBitwiseShiftRight => Bits::Right,
        _ => return None,
    })
}

/// The same of one that the planner has planned.
pub(super) fn planned(op: Operator) -> Option<Bits> {
    use Operator as O;
    Some(match op {
        O::BitwiseAnd => Bits::And,
        O::BitwiseOr => Bits::Or,
        O::BitwiseXor => Bits::Xor,
        O::BitwiseShiftLeft => Bits::Left,
        O::BitwiseShiftRight => Bits::Right,
        _ => return None,
    })
}

/// An operator between two whole numbers; `None` for others. Errors: 42883; those of literals.
pub(super) fn operator(
    bits: Bits,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> SqlResult<Option<Expr>> {
    let is_shift = matches!(bits, Bits::Left | Bits::Right);
    let typed = |e: &Expr| {
        let e = narrowed(e).unwrap_or_else(|| e.clone());
        let kind = kind_of(&e, schema);
        (e, kind)
    };
    let ((mut left, mut a), (mut right, mut b)) = (typed(left), typed(right));
    let integer = Kind::Known(DataType::Integer);
    match (a.family(), b.family()) {
        (Family::Integer, Family::Integer) => {}
        (Family::Integer, Family::Unknown) => {
            b = if is_shift { integer } else { a };
            right = typing::literal(&right, b)?;
        }
        (Family::Unknown, Family::Integer) => {
            a = b;
            left = typing::literal(&left, a)?;
        }
        (f, g) if f.is_number() && g.is_number() => return Err(no_operator(bits.symbol(), a, b)),
        _ => return Ok(None),
    }
    // One shifts by an integer.
    if is_shift && b == Kind::Known(DataType::BigInt) {
        return Err(no_operator(bits.symbol(), a, b));
    }
    let returns = if is_shift { a } else { typing::wider(a, b) };
    Ok(Some(call(Computation::Plain(Plain::Bits(bits)), vec![(left, a), (right, b)], returns)))
}
