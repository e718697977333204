//! Sums, differences and multiples of moments, days, times of day and intervals; and what is computed of moments in a
//! time zone, which is a constant of the expression.

use super::{BinaryOperator, Expr, Function};
use crate::composite::CompositeType;
use crate::convert::{is_timestamp, midnight};
use crate::datum::US_PER_DAY;
use crate::element::Element;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::interval::Interval;
use crate::zone::{Zone, not_recognized};
use crate::{DataType, Datum};
use serde::{Deserialize, Serialize};

const US_PER_SECOND: i64 = 1_000_000;

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
        (Add, Datum::TimeTz(time), Datum::Interval(by)) | (Add, Datum::Interval(by), Datum::TimeTz(time)) => {
            Ok(Some(Datum::TimeTz(time.later(by.us % US_PER_DAY))))
        }
        (Subtract, Datum::TimeTz(time), Datum::Interval(by)) => {
            Ok(Some(Datum::TimeTz(time.later(-(by.us % US_PER_DAY)))))
        }
        (Add, Datum::Date(day), Datum::TimeTz(time)) | (Add, Datum::TimeTz(time), Datum::Date(day)) => {
            let us = midnight(*day)?.checked_add(time.us_utc()).filter(|us| is_timestamp(*us));
            moment(
                us.ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))?,
            )
        }
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

/// A function whose first argument is a zone's name, but for [`ZoneFunction::Find`]. Arrays of moments give arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ZoneFunction {
    /// The name of what stands behind `AT TIME ZONE`.
    Find,
    /// `timestamptz` to `timestamp`.
    ToLocal,
    /// `timestamp` to `timestamptz`.
    FromLocal,
    /// `timestamptz` to `text`.
    Show,
    /// The same as JSON has it.
    ShowJson,
    /// `text` to `timestamptz`.
    Read,
    /// `(zone, timestamptz, interval)`: so much later, by the calendar and clocks of the zone.
    Later,
    /// `(zone, unit, timestamptz)`.
    Truncate,
    /// Seconds that clocks are ahead of UTC, of a `timestamptz`.
    Offset,
    /// The zone of an interval's length.
    OfInterval,
    /// `timestamptz`, `time` or `text` to `timetz`; of a `timetz` and a moment what the zone's clocks show with its offset
    /// at that moment.
    Clock,
    /// A unit and a `timetz`, behind any zone: `date_part`.
    ClockPart,
    /// A row of a composite type that has moments in it to `text`.
    ShowRow(CompositeType),
    /// `text` to such a row.
    ReadRow(CompositeType),
}

/// Whether values of a type are shown in a zone, or an array's are.
fn element(t: DataType) -> DataType {
    match t {
        DataType::Array(of) => of.data_type(),
        other => other,
    }
}

impl Expr {
    /// A zone's name as an argument of a [`ZoneFunction`].
    pub fn zone(zone: Zone) -> Expr {
        Expr::Constant(Datum::text(zone.to_string()))
    }
}

/// A call of a function of moments. Errors: as those of its functions.
pub(super) fn call(function: Function, arguments: &[Datum]) -> SqlResult<Datum> {
    match (function, arguments) {
        (Function::DateTrunc, [Datum::Text(unit), Datum::Timestamp(us)]) => {
            crate::text::truncated(unit, *us).map(Datum::Timestamp)
        }
        (Function::DateTrunc, [Datum::Text(unit), Datum::Interval(span)]) => {
            crate::interval::truncated(unit, *span).map(Datum::Interval)
        }
        (Function::Zone(function), arguments) => zoned(function, arguments),
        (function, _) => Err(SqlError::internal(format!("{function:?} of arguments of other types"))),
    }
}

/// A type, or arrays of it where `shape` is an array.
fn shaped(shape: DataType, t: DataType) -> DataType {
    match shape {
        DataType::Array(_) => Element::of(t).map_or(t, DataType::Array),
        _ => t,
    }
}

/// A cast that depends on a zone, as an expression; `None` if it does not. In UTC none does.
pub fn converted_in(expr: &Expr, from: DataType, to: DataType, zone: Zone) -> Option<Expr> {
    use DataType::{Text, Timestamp, TimestampTz};
    let is_text = |t| matches!(t, Text | DataType::Varchar { .. } | DataType::Char { .. });
    if !zone.is_utc()
        && let Some(of_row) = row_converted_in(expr, from, to, zone)
    {
        return Some(of_row);
    }
    let (of, into) = (element(from), element(to));
    let is_clock = into == DataType::TimeTz && of != DataType::TimeTz;
    if zone.is_utc() || !is_clock && (of == TimestampTz) == (into == TimestampTz) {
        return None;
    }
    let call = |function, e| Expr::Call(Function::Zone(function), vec![Expr::zone(zone), e]);
    let cast = |e, from, to| if from == to { e } else { Expr::Convert(Box::new(e), from, to) };
    let expr = expr.clone();
    Some(match (of, into) {
        (t, _) if is_clock && is_text(t) => call(ZoneFunction::Clock, cast(expr, from, shaped(from, Text))),
        _ if is_clock => call(ZoneFunction::Clock, expr),
        (TimestampTz, t) if is_text(t) => cast(call(ZoneFunction::Show, expr), shaped(from, Text), to),
        (TimestampTz, _) => cast(call(ZoneFunction::ToLocal, expr), shaped(from, Timestamp), to),
        (t, _) if is_text(t) => call(ZoneFunction::Read, cast(expr, from, shaped(to, Text))),
        _ => call(ZoneFunction::FromLocal, cast(expr, from, shaped(to, Timestamp))),
    })
}

/// A cast of a row with moments in it to a text, or of a text to one.
fn row_converted_in(expr: &Expr, from: DataType, to: DataType, zone: Zone) -> Option<Expr> {
    let call = |function, e| Expr::Call(Function::Zone(function), vec![Expr::zone(zone), e]);
    let cast = |e, from, to| if from == to { e } else { Expr::Convert(Box::new(e), from, to) };
    match (from, to) {
        (DataType::Composite(_), DataType::Composite(_)) => None,
        (DataType::Composite(of), to) if from.has(DataType::TimestampTz) => {
            Some(cast(call(ZoneFunction::ShowRow(of), expr.clone()), DataType::Text, to))
        }
        (from, DataType::Composite(of)) if to.has(DataType::TimestampTz) => {
            Some(call(ZoneFunction::ReadRow(of), cast(expr.clone(), from, DataType::Text)))
        }
        _ => None,
    }
}

/// [`crate::convert::cast`] in a zone.
pub fn cast_in(value: Datum, from: DataType, to: DataType, zone: Zone) -> SqlResult<Datum> {
    match converted_in(&Expr::Constant(value.clone()), from, to, zone) {
        Some(expr) => expr.eval(&[]),
        None => crate::convert::cast(value, from, to),
    }
}

/// A call whose arguments are not null. Errors: 22023 for a zone or a unit that there is not, 22007 and 22008.
fn zoned(function: ZoneFunction, arguments: &[Datum]) -> SqlResult<Datum> {
    let (first, rest) = arguments.split_first().ok_or_else(|| wrong(function))?;
    match (function, first, rest) {
        (ZoneFunction::Find, Datum::Text(name), []) => Zone::at(name).map(|z| Datum::text(z.to_string())),
        (ZoneFunction::OfInterval, Datum::Interval(span), []) => of_interval(*span),
        (_, Datum::Text(name), [of]) => {
            let zone = Zone::named(name).ok_or_else(|| not_recognized(name))?;
            match (function, of) {
                (ZoneFunction::ShowRow(t), row) => {
                    Ok(Datum::text(crate::text::display_in(row, DataType::Composite(t), zone)))
                }
                (ZoneFunction::ReadRow(t), Datum::Text(text)) => {
                    crate::text::parse_in(text, DataType::Composite(t), zone)
                }
                (function, of) => each(of, &|value| of_one(function, zone, value)),
            }
        }
        (_, Datum::Text(name), [a, b]) => {
            let zone = Zone::named(name).ok_or_else(|| not_recognized(name))?;
            match (function, a, b) {
                (ZoneFunction::Later, Datum::Timestamp(us), Datum::Interval(by)) => {
                    zone.later(*us, *by).map(Datum::Timestamp)
                }
                (ZoneFunction::Clock, Datum::TimeTz(time), Datum::Timestamp(now)) => {
                    Ok(Datum::TimeTz(time.at_offset(zone.offset_s(*now))))
                }
                (ZoneFunction::ClockPart, Datum::Text(unit), Datum::TimeTz(time)) => {
                    time.part(unit).map(Datum::Float)
                }
                (ZoneFunction::Truncate, Datum::Text(unit), Datum::Timestamp(us)) => {
                    truncated(zone, unit, *us)
                }
                _ => Err(wrong(function)),
            }
        }
        _ => Err(wrong(function)),
    }
}

/// A value, or each element of an array.
fn each(value: &Datum, of_one: &dyn Fn(&Datum) -> SqlResult<Datum>) -> SqlResult<Datum> {
    match value {
        Datum::Null => Ok(Datum::Null),
        Datum::Array(elements) => {
            let made = elements.iter().map(|element| each(element, of_one));
            made.collect::<SqlResult<Vec<_>>>().map(|elements| Datum::Array(elements.into()))
        }
        value => of_one(value),
    }
}

fn of_one(function: ZoneFunction, zone: Zone, value: &Datum) -> SqlResult<Datum> {
    match (function, value) {
        (ZoneFunction::ToLocal, Datum::Timestamp(us)) => moment(zone.to_local(*us)),
        (ZoneFunction::FromLocal, Datum::Timestamp(us)) => moment(zone.from_local(*us)),
        (ZoneFunction::Offset, Datum::Timestamp(us)) => Ok(Datum::Int(zone.offset_s(*us).into())),
        (ZoneFunction::Show, value) => {
            Ok(Datum::text(crate::text::display_in(value, DataType::TimestampTz, zone)))
        }
        (ZoneFunction::ShowJson, Datum::Timestamp(us)) => Ok(Datum::text(json(zone, *us))),
        (ZoneFunction::Clock, Datum::Text(text)) => crate::text::parse_in(text, DataType::TimeTz, zone),
        (ZoneFunction::Clock, value) => crate::convert::of_clock(value, zone).map(Datum::TimeTz),
        (ZoneFunction::Read, Datum::Text(text)) => crate::text::parse_in(text, DataType::TimestampTz, zone),
        _ => Err(wrong(function)),
    }
}

/// `2024-04-01T14:00:00+02:00`.
fn json(zone: Zone, us: i64) -> String {
    let shown = crate::text::display_in(&Datum::Timestamp(us), DataType::TimestampTz, zone);
    let (clock, era) = shown.strip_suffix(" BC").map_or((shown.as_str(), ""), |clock| (clock, " BC"));
    let minutes = if zone.offset_s(us) % 3_600 == 0 { ":00" } else { "" };
    format!("{}{minutes}{era}", clock.replacen(' ', "T", 1))
}

fn moment(us: i64) -> SqlResult<Datum> {
    match is_timestamp(us) {
        true => Ok(Datum::Timestamp(us)),
        false => Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")),
    }
}

impl Zone {
    /// A moment, so much later: months and days move what clocks show, time moves the moment. Errors: 22008.
    pub fn later(self, us: i64, by: Interval) -> SqlResult<i64> {
        let mut at = us;
        for part in [Interval { days: 0, us: 0, ..by }, Interval { months: 0, us: 0, ..by }] {
            if part != Interval::default() {
                at = self.from_local(part.after(self.to_local(at))?);
            }
        }
        Interval { us: by.us, ..Interval::default() }.after(at)
    }
}

/// Units of a day and more begin when clocks say so; shorter ones begin within the same offset.
fn truncated(zone: Zone, unit: &str, us: i64) -> SqlResult<Datum> {
    let local = zone.to_local(us);
    let cut = crate::text::truncated(unit, local).map_err(|error| match error.state {
        SqlState::INVALID_PARAMETER_VALUE => {
            let unit = unit.to_ascii_lowercase();
            let told = format!("unit \"{unit}\" not recognized for type timestamp with time zone");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told)
        }
        _ => error,
    })?;
    let unit = unit.to_ascii_lowercase();
    let is_of_day =
        ["microsecond", "millisecond", "second", "minute", "hour"].contains(&unit.trim_end_matches('s'));
    moment(if is_of_day { us.saturating_sub(local.saturating_sub(cut)) } else { zone.from_local(cut) })
}

/// Errors: 22023 for an interval of months or days.
fn of_interval(span: Interval) -> SqlResult<Datum> {
    if span.months != 0 || span.days != 0 {
        let told = format!("interval time zone \"{span}\" must not include months or days");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told));
    }
    Ok(Datum::text(Zone::Fixed((span.us / US_PER_SECOND) as i32).to_string()))
}

/// Types are settled where expressions are made.
fn wrong(function: ZoneFunction) -> SqlError {
    SqlError::internal(format!("{function:?} of arguments of other types"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(function: ZoneFunction, arguments: &[Datum]) -> String {
        match zoned(function, arguments) {
            Ok(value) => crate::text::display(&value),
            Err(error) => error.state.to_string(),
        }
    }
    fn at(text: &str) -> Datum {
        crate::text::parse(text, DataType::Timestamp).unwrap()
    }

    #[test]
    fn days_follow_the_calendar_and_hours_the_clock() {
        let berlin = Datum::text("Europe/Berlin");
        let span = |text| Datum::Interval(crate::interval::parse(text).unwrap());
        let later = |text, by| evaluated(ZoneFunction::Later, &[berlin.clone(), at(text), span(by)]);
        assert_eq!(later("2024-03-30 12:00", "1 day"), "2024-03-31 11:00:00");
        assert_eq!(later("2024-03-30 12:00", "24 hours"), "2024-03-31 12:00:00");
        assert_eq!(later("2024-01-31 12:00", "2 mons 1 day -1 hours"), "2024-04-01 10:00:00");
        let cut =
            |unit, text| evaluated(ZoneFunction::Truncate, &[berlin.clone(), Datum::text(unit), at(text)]);
        assert_eq!(cut("day", "2024-03-31 12:00"), "2024-03-30 23:00:00");
        assert_eq!(cut("hour", "2024-10-27 00:30"), "2024-10-27 00:00:00");
        assert_eq!(cut("hour", "2024-10-27 01:30"), "2024-10-27 01:00:00");
        assert_eq!(cut("month", "2024-06-30 23:00"), "2024-06-30 22:00:00");
        assert_eq!(cut("wurst", "2024-06-30 23:00"), "22023");
    }

    #[test]
    fn json_has_the_minutes_of_every_offset() {
        let shown = |zone, text| evaluated(ZoneFunction::ShowJson, &[Datum::text(zone), at(text)]);
        assert_eq!(shown("Europe/Berlin", "2024-04-01 12:00"), "2024-04-01T14:00:00+02:00");
        assert_eq!(shown("America/St_Johns", "2024-01-01 00:00:00.5"), "2023-12-31T20:30:00.5-03:30");
    }

    #[test]
    fn casts_depend_on_a_zone_and_arrays_of_moments_do_too() {
        let zone = Zone::named("Asia/Tokyo").unwrap();
        let moments = Datum::Array(vec![at("2024-01-01 20:00"), Datum::Null].into());
        let of = |t| Element::of(t).map(DataType::Array).unwrap();
        let tz = of(DataType::TimestampTz);
        let told =
            |value: Datum, from, to| crate::text::display_as(&cast_in(value, from, to, zone).unwrap(), to);
        assert_eq!(told(moments.clone(), tz, DataType::Text), "{\"2024-01-02 05:00:00+09\",NULL}");
        assert_eq!(told(moments, tz, of(DataType::Date)), "{2024-01-02,NULL}");
        let text = Datum::text("{2024-01-02}");
        assert_eq!(told(text, DataType::Text, tz), "{\"2024-01-01 15:00:00+00\"}");
        let moment = || at("2024-01-01 20:00");
        assert_eq!(told(moment(), DataType::TimestampTz, DataType::Time), "05:00:00");
        assert_eq!(told(moment(), DataType::Timestamp, DataType::TimestampTz), "2024-01-01 11:00:00+00");
        assert_eq!(told(moment(), DataType::TimestampTz, DataType::TimestampTz), "2024-01-01 20:00:00+00");
        assert!(converted_in(&Expr::Column(0), DataType::TimestampTz, DataType::Date, Zone::Utc).is_none());
    }
}
