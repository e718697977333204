//! Sums, differences and multiples of moments, days, times of day and intervals.

use super::BinaryOperator;
use crate::Datum;
use crate::convert::{is_timestamp, midnight};
use crate::datum::US_PER_DAY;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::interval::Interval;

/// `None` if there is no such operator. Errors: 22008, 22012.
pub(super) fn arithmetic(operator: BinaryOperator, left: &Datum, right: &Datum) -> SqlResult<Option<Datum>> {
    use BinaryOperator::{Add, Divide, Multiply, Subtract};
    let moment = |us| Ok(Some(Datum::Timestamp(us)));
    let span = |span: SqlResult<Interval>| span.map(|span| Some(Datum::Interval(span)));
    let of_day = |us: i64| Ok(Some(Datum::Time(us.rem_euclid(US_PER_DAY))));
    match (operator, left, right) {
        (Add, Datum::Timestamp(us), Datum::Interval(by))
        | (Add, Datum::Interval(by), Datum::Timestamp(us)) => moment(by.after(*us)?),
        (Add, Datum::Date(day), Datum::Interval(by)) | (Add, Datum::Interval(by), Datum::Date(day)) => {
            moment(by.after(midnight(*day)?)?)
        }
        (Subtract, Datum::Timestamp(us), Datum::Interval(by)) => moment(by.checked_neg()?.after(*us)?),
        (Subtract, Datum::Date(day), Datum::Interval(by)) => {
            moment(by.checked_neg()?.after(midnight(*day)?)?)
        }
        (Subtract, Datum::Timestamp(to), Datum::Timestamp(from)) => span(Interval::between(*from, *to)),
        (Subtract, Datum::Timestamp(to), Datum::Date(from)) => span(Interval::between(midnight(*from)?, *to)),
        (Subtract, Datum::Date(to), Datum::Timestamp(from)) => span(Interval::between(*from, midnight(*to)?)),
        (Add, Datum::Date(day), Datum::Time(us)) | (Add, Datum::Time(us), Datum::Date(day)) => {
            let us = midnight(*day)?.checked_add(*us).filter(|us| is_timestamp(*us));
            let beyond = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
            moment(us.ok_or_else(beyond)?)
        }
        // Only the time of an interval moves a time of day, around midnight if need be.
        (Add, Datum::Time(us), Datum::Interval(by)) | (Add, Datum::Interval(by), Datum::Time(us)) => {
            of_day(us.wrapping_add(by.us % US_PER_DAY))
        }
        (Subtract, Datum::Time(us), Datum::Interval(by)) => of_day(us.wrapping_sub(by.us % US_PER_DAY)),
        (Subtract, Datum::Time(to), Datum::Time(from)) => {
            Ok(Some(Datum::Interval(Interval { months: 0, days: 0, us: to - from })))
        }
        (Add, Datum::Interval(a), Datum::Interval(b)) => span(a.checked_add(*b)),
        (Subtract, Datum::Interval(a), Datum::Interval(b)) => span(a.checked_sub(*b)),
        (Multiply, Datum::Interval(a), factor) | (Multiply, factor, Datum::Interval(a)) => {
            factor.as_f64().map_or(Ok(None), |factor| span(a.checked_mul(factor)))
        }
        (Divide, Datum::Interval(a), divisor) => {
            divisor.as_f64().map_or(Ok(None), |divisor| span(a.checked_div(divisor)))
        }
        _ => Ok(None),
    }
}
