//! Moments that meet times of a clock, days and intervals, in the session's time zone.

use super::super::super::types;
use super::super::evaluated::{Computation, call};
use super::super::kinds::{self, Family, Kind};
use super::constants::{constant, converted};
use base::error::SqlResult;
use base::expr::{Expr as Scalar, Function, UnaryOperator, ZoneFunction};
use base::{DataType, Datum};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator};

const MOMENT: Kind = Kind::Known(DataType::TimestampTz);

/// Whether only one of two values is a moment, so that they meet in a zone's time.
pub(in super::super) fn meet_in_a_zone(a: Kind, b: Kind) -> bool {
    let is_time = |k: Kind| matches!(k.family(), Family::Date | Family::Moment);
    !sql::zones::current().is_utc() && is_time(a) && is_time(b) && (a == MOMENT) != (b == MOMENT)
}

/// Both sides as moments, where only one is and the session's zone says what the other one is.
pub(super) fn both_moments(left: &mut (Expr, Kind), right: &mut (Expr, Kind)) -> bool {
    let is_mixed = meet_in_a_zone(left.1, right.1);
    if is_mixed {
        let side = if left.1 == MOMENT { right } else { left };
        *side = (moment(&side.0, side.1), MOMENT);
    }
    is_mixed
}

/// Both sides of one type where the one becomes of the other's wherever they meet: a time of day beside one with an offset,
/// addresses of hardware, and a network beside an address.
pub(super) fn both_alike(left: &mut (Expr, Kind), right: &mut (Expr, Kind)) -> bool {
    use DataType::{Cidr, Inet, Time, TimeTz};
    let (Kind::Known(a), Kind::Known(b)) = (left.1, right.1) else { return false };
    let (side, from, to) = match (a, b) {
        (Time, TimeTz) | (Cidr, Inet) => (left, a, b),
        (TimeTz, Time) | (Inet, Cidr) => (right, b, a),
        _ => return false,
    };
    *side = (converted(side.0.clone(), from, to), Kind::Known(to));
    true
}

/// What a time of day and an interval become, and what it becomes with a day: with an offset, if one of two sides has one.
pub(super) fn of_clocks(a: Kind, b: Kind) -> (DataType, DataType) {
    match a.family() == Family::ZonedClock || b.family() == Family::ZonedClock {
        true => (DataType::TimeTz, DataType::TimestampTz),
        false => (DataType::Time, DataType::Timestamp),
    }
}

/// A moment, a time of a clock or a day as a moment.
pub(in super::super) fn moment(e: &Expr, kind: Kind) -> Expr {
    match kind {
        Kind::Known(from @ (DataType::Date | DataType::Timestamp)) => {
            converted(e.clone(), from, DataType::TimestampTz)
        }
        _ => e.clone(),
    }
}

/// A moment and an interval, in either order, by the session's calendar and clocks; `None` in UTC.
fn later(operator: Operator, left: &(Expr, Kind), right: &(Expr, Kind)) -> Option<Expr> {
    let zone = sql::zones::current();
    if zone.is_utc() {
        return None;
    }
    let (at, by) = if left.1 == Kind::Span { (right, left) } else { (left, right) };
    let span = match operator {
        Operator::Minus => Scalar::Unary(UnaryOperator::Negate, Box::new(Scalar::Column(1))),
        _ => Scalar::Column(1),
    };
    let arguments = vec![Scalar::zone(zone), Scalar::Column(0), span];
    let later = Scalar::Call(Function::Zone(ZoneFunction::Later), arguments);
    Some(call(Computation::Scalar(later), vec![at.clone(), by.clone()], MOMENT))
}

/// A moment or a day moved by an interval, where that is no plain function of both: in a zone, or of literals.
pub(super) fn moved(
    operator: Operator,
    left: &(Expr, Kind),
    right: &(Expr, Kind),
    returns: DataType,
) -> SqlResult<Option<Expr>> {
    let later = || later(operator, left, right);
    match (returns == DataType::TimestampTz).then(later).flatten() {
        Some(later) => Ok(Some(later)),
        None => folded_moment(operator, &left.0, &right.0, returns),
    }
}

/// A moment moved by an interval where both are literals, so that it can be compared with days.
fn folded_moment(
    operator: Operator,
    left: &Expr,
    right: &Expr,
    returns: DataType,
) -> SqlResult<Option<Expr>> {
    let (Expr::Literal(left, _), Expr::Literal(right, _)) = (left, right) else { return Ok(None) };
    let (at, span) = match (left, right) {
        (ScalarValue::IntervalMonthDayNano(Some(span)), at)
        | (at, ScalarValue::IntervalMonthDayNano(Some(span))) => (types::datum(at), kinds::span(*span)),
        _ => return Ok(None),
    };
    let us = match at {
        Some(Datum::Timestamp(us)) => us,
        Some(Datum::Date(day)) => base::convert::midnight(day)?,
        _ => return Ok(None),
    };
    let span = if operator == Operator::Minus { span.checked_neg()? } else { span };
    Ok(Some(constant(&Datum::Timestamp(span.after(us)?), returns)))
}
