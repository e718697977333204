//! Comparisons: which sides meet, and in which type they are compared.

use super::super::super::types;
use super::super::evaluated::{Computation, SpanOperation, call};
use super::super::inference::kind_of;
use super::super::kinds::{Family, Kind};
use super::super::lists;
use super::constants::native;
use super::moments::both_moments;
use super::refusals::no_operator;
use super::{Settled, base_operator, by_rows, constant, folded, literal, plain, symbol};
use base::error::SqlResult;
use base::{DataType, Datum};
use datafusion::common::ExprSchema;
use datafusion::logical_expr::{Expr, Operator};

/// The day of a moment at midnight: where one is compared with days, what is known of days can be used.
fn day_of(e: &Expr) -> Option<Expr> {
    let Expr::Literal(value, _) = e else { return None };
    let Some(Datum::Timestamp(us)) = types::datum(value) else { return None };
    let day = i32::try_from(us.div_euclid(base::datum::US_PER_DAY)).ok()?;
    (us.rem_euclid(base::datum::US_PER_DAY) == 0).then(|| constant(&Datum::Date(day), DataType::Date))
}

pub(super) fn compare(
    operator: Operator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
    is_written: bool,
) -> Settled {
    let mut changed = false;
    let mut settled = |e: &Expr| -> SqlResult<Expr> {
        let folded = folded(e)?;
        changed |= folded.is_some();
        Ok(folded.unwrap_or_else(|| e.clone()))
    };
    let (mut left, mut right) = (settled(left)?, settled(right)?);
    let (mut a, mut b) = (kind_of(&left, schema), kind_of(&right, schema));
    match (a, b) {
        (Kind::Foreign, _) | (_, Kind::Foreign) => {
            let typed = lists::beside(&[left, right], schema)?;
            return Ok(typed.map(|sides| plain(operator, sides[0].clone(), sides[1].clone())));
        }
        (Kind::Unknown, Kind::Unknown) => return Ok(None),
        // What is a text as far as is known yet may turn out to be a `uuid` that was chosen among several.
        (Kind::Known(DataType::Text), Kind::Unknown | Kind::Known(DataType::Uuid))
        | (Kind::Unknown | Kind::Known(DataType::Uuid), Kind::Known(DataType::Text))
            if is_written =>
        {
            return Ok(changed.then(|| plain(operator, left, right)));
        }
        (Kind::Unknown, known) => {
            left = literal(&left, known)?;
            a = known;
            changed = true;
        }
        (known, Kind::Unknown) => {
            right = literal(&right, known)?;
            b = known;
            changed = true;
        }
        _ => {}
    }
    let (f, g) = (a.family(), b.family());
    if !f.meets(g) || f == Family::Json {
        return Err(no_operator(&symbol(operator), a, b));
    }
    if f == Family::Jsonb
        && let Some(operation) = base_operator(operator)
    {
        return Ok(Some(by_rows(operation, (left, a), (right, b), DataType::Boolean)));
    }
    let is_float = |k| matches!(k, Kind::Known(DataType::Real | DataType::Double));
    if (is_float(a) || is_float(b)) && a != b {
        let double = |e, k| native(e, k, DataType::Double);
        return Ok(Some(plain(operator, double(left, a), double(right, b))));
    }
    let (mut one, mut other) = ((left, a), (right, b));
    changed |= both_moments(&mut one, &mut other);
    let ((left, a), (right, b)) = (one, other);
    let (f, g) = (a.family(), b.family());
    if f == Family::Span
        && let Some(operation) = base_operator(operator)
    {
        let compared = Computation::Spans(SpanOperation::Compare(operation));
        return Ok(Some(call(compared, vec![(left, a), (right, b)], Kind::Known(DataType::Boolean))));
    }
    if (f == Family::Date) != (g == Family::Date) {
        if f == Family::Date
            && let Some(day) = day_of(&right)
        {
            return Ok(Some(plain(operator, left, day)));
        }
        if g == Family::Date
            && let Some(day) = day_of(&left)
        {
            return Ok(Some(plain(operator, day, right)));
        }
        if let Some(operation) = base_operator(operator) {
            return Ok(Some(by_rows(operation, (left, a), (right, b), DataType::Boolean)));
        }
    }
    Ok(changed.then(|| plain(operator, left, right)))
}
