//! Casts between types with PostgreSQL's rules for rounding, truncation and errors.
//!
//! [`castable`] says what a cast from one type to another may be used for; [`cast`] makes an explicit one.
//! Rows call this once per value, columns once per cell, so that both give the same value.

use crate::datum::US_PER_DAY;
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::inet::Inet;
use crate::timetz::TimeTz;
use crate::zone::Zone;
use crate::{DataType, Datum, text_bounds};

/// Where a cast may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Castable {
    /// Nowhere: 42846.
    No,
    /// `CAST(… AS …)` only.
    Explicit,
    /// And where a column is assigned.
    Assignment,
    /// And wherever an operator or function wants the other type.
    Implicit,
}

fn is_text(t: DataType) -> bool {
    matches!(t, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. })
}

/// Numbers by how much they hold: a cast to the right is implicit, to the left an assignment.
fn number_rank(t: DataType) -> Option<u8> {
    Some(match t {
        DataType::SmallInt => 0,
        DataType::Integer => 1,
        DataType::BigInt => 2,
        DataType::Numeric { .. } => 3,
        DataType::Real => 4,
        DataType::Double => 5,
        _ => return None,
    })
}

/// What a cast between two types may be used for.
pub fn castable(from: DataType, to: DataType) -> Castable {
    use DataType::*;
    if let (Some(a), Some(b)) = (number_rank(from), number_rank(to)) {
        return if a <= b { Castable::Implicit } else { Castable::Assignment };
    }
    match (from, to) {
        (a, b) if a == b => Castable::Implicit,
        (a, b) if is_text(a) && is_text(b) => Castable::Implicit,
        (a, _) if is_text(a) => Castable::Explicit,
        (_, b) if is_text(b) => Castable::Assignment,
        (Boolean, Integer) | (Integer, Boolean) => Castable::Explicit,
        (Array(a), Array(b)) => castable(a.data_type(), b.data_type()),
        (Time, Interval | TimeTz) | (Cidr, Inet) | (MacAddr, MacAddr8) | (MacAddr8, MacAddr) => {
            Castable::Implicit
        }
        (Inet, Cidr) | (TimestampTz, TimeTz) | (TimeTz, Time) => Castable::Assignment,
        (Timestamp | TimestampTz, Time) | (Interval, Time) | (Json, Jsonb) | (Jsonb, Json) => {
            Castable::Assignment
        }
        (Jsonb, Boolean) => Castable::Explicit,
        (Jsonb, to) if number_rank(to).is_some() => Castable::Explicit,
        (Date, Timestamp | TimestampTz) | (Timestamp, TimestampTz) => Castable::Implicit,
        (Timestamp | TimestampTz, Date) | (TimestampTz, Timestamp) => Castable::Assignment,
        _ => Castable::No,
    }
}

/// 42846, in PostgreSQL's words.
pub fn cannot_cast(from: &str, to: &str) -> SqlError {
    SqlError::new(SqlState(*b"42846"), format!("cannot cast type {from} to {to}"))
}

fn out_of_range(to: DataType) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", name(to)))
}

/// A type's name without its modifiers.
pub(crate) fn name(t: DataType) -> String {
    match t {
        DataType::Numeric { .. } => "numeric".into(),
        DataType::Varchar { .. } => "character varying".into(),
        DataType::Char { .. } => "character".into(),
        other => other.name(),
    }
}

/// An explicit cast of a value of type `from`. Errors: 22003, 22008, 22P02 and the like; 42846.
pub fn cast(value: Datum, from: DataType, to: DataType) -> SqlResult<Datum> {
    use DataType::*;
    if value.is_null() {
        return Ok(Datum::Null);
    }
    match (&value, to) {
        // Labels are numbers for nobody else.
        (_, t) if matches!(from, Enum(_)) && t != from && !is_text(t) => {
            Err(cannot_cast(&name(from), &name(t)))
        }
        (Datum::Text(text), t) if is_text(from) => match t {
            Text => Ok(value),
            Varchar { length } | Char { length } => {
                // An explicit cast truncates; an assignment refuses.
                let cut: String = text.chars().take(length as usize).collect();
                t.coerce(Datum::text(cut))
            }
            // Without precision it keeps its digits.
            t if t == crate::datum::NUMERIC_UNLIMITED => crate::text::numeric(text).map(Datum::Decimal),
            _ => crate::text::parse(text, t),
        },
        (_, t) if is_text(t) => {
            text_bounds::check(value.text_bytes())?;
            // The value's own text; a truth value is spelled out here, and only here.
            let text = match &value {
                Datum::Bool(b) => if *b { "true" } else { "false" }.to_string(),
                // A cast says the prefix even where it is the whole address.
                Datum::Inet(_) if from == Inet => crate::text::display_as(&value, Cidr),
                _ => crate::text::display_as(&value, from),
            };
            text_bounds::check(text.len())?;
            cast(Datum::text(text), Text, t)
        }
        (Datum::Array(elements), Array(to)) => {
            let from = match from {
                Array(of) => of.data_type(),
                _ => Text,
            };
            let cast_each = elements.iter().map(|element| cast(element.clone(), from, to.data_type()));
            cast_each.collect::<SqlResult<Vec<_>>>().map(|elements| Datum::Array(elements.into()))
        }
        (Datum::Timestamp(us), Time) => Ok(Datum::Time(us.rem_euclid(US_PER_DAY))),
        (Datum::Interval(interval), Time) => Ok(Datum::Time(interval.us.rem_euclid(US_PER_DAY))),
        (Datum::Time(us), Interval) => {
            Ok(Datum::Interval(crate::interval::Interval { us: *us, ..Default::default() }))
        }
        (Datum::TimeTz(time), Time) => Ok(Datum::Time(time.us())),
        (Datum::Time(_) | Datum::Timestamp(_), TimeTz) => of_clock(&value, Zone::Utc).map(Datum::TimeTz),
        (Datum::Inet(address), MacAddr | MacAddr8) => hardware(*address, to),
        (Datum::Text(_), Jsonb) => crate::text::parse(&crate::text::display(&value), Jsonb),
        (Datum::Json(text), Json) => Ok(Datum::Text(text.clone())),
        (Datum::Json(text), t) if t != Jsonb => crate::json::cast_scalar(text, t),
        (Datum::Bool(b), Integer) => Ok(Datum::Int(i64::from(*b))),
        (Datum::Int(i), Boolean) if from == Integer => Ok(Datum::Bool(*i != 0)),
        (Datum::Bool(_), Boolean) => Ok(value),
        (_, SmallInt | Integer | BigInt) if number_rank(from).is_some() => to_integer(&value, to),
        (_, Real | Double) if number_rank(from).is_some() => to_float(&value, to),
        (Datum::Float(f), Numeric { .. }) => {
            cast(Datum::Decimal(float_digits(*f, from)?), crate::datum::NUMERIC_UNLIMITED, to)
        }
        (Datum::Int(i), Numeric { .. }) if to == crate::datum::NUMERIC_UNLIMITED => {
            Ok(Datum::Decimal(Decimal::new(i128::from(*i), 0)))
        }
        (Datum::Decimal(_), Numeric { .. }) if to == crate::datum::NUMERIC_UNLIMITED => Ok(value),
        (_, Numeric { .. }) if number_rank(from).is_some() => to.coerce(value),
        (Datum::Date(day), Timestamp | TimestampTz) => midnight(*day).map(Datum::Timestamp),
        _ if castable(from, to) == Castable::No => Err(cannot_cast(&name(from), &name(to))),
        _ => to.coerce(value),
    }
}

/// What the clocks of a zone show, of a moment or a time of day. Errors: 0A000 for a time in a zone whose offset depends on
/// the day.
pub(crate) fn of_clock(value: &Datum, zone: Zone) -> SqlResult<TimeTz> {
    match value {
        Datum::Timestamp(us) => Ok(TimeTz::of_moment(*us, zone)),
        Datum::Time(us) => TimeTz::of_clock(*us, zone),
        other => Err(cannot_cast(other.kind(), "time with time zone")),
    }
}

/// An address of hardware with six octets or with eight, between which are FF and FE then. Errors: 22003 for eight others.
fn hardware(address: Inet, to: DataType) -> SqlResult<Datum> {
    let made = match (address.octets(), to) {
        ([a, b, c, d, e, f], DataType::MacAddr8) => Inet::of_hardware(&[*a, *b, *c, 0xff, 0xfe, *d, *e, *f]),
        ([a, b, c, 0xff, 0xfe, d, e, f], DataType::MacAddr) => Inet::of_hardware(&[*a, *b, *c, *d, *e, *f]),
        (octets, _) if octets.len() == 8 && to == DataType::MacAddr => {
            let told = "macaddr8 data out of range to convert to macaddr";
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, told).hint(
                "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.",
            ));
        }
        _ => Some(address),
    };
    to.coerce(Datum::Inet(made.unwrap_or(address)))
}

/// µs since 2000 at which a day begins. Errors: 22008.
pub fn midnight(day: i32) -> SqlResult<i64> {
    let us = i64::from(day).checked_mul(US_PER_DAY).filter(|us| is_timestamp(*us));
    us.ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp"))
}

/// Whether PostgreSQL has this day: from 4714-11-24 BC to 5874897-12-31.
pub fn is_date(day: i32) -> bool {
    (-2_451_545..2_145_031_949).contains(&day)
}

/// Whether there is this moment: from 4714-11-24 BC, as in PostgreSQL, to 294247-01-10 04:00:54.775807. Columns count from
/// 1970, so that they have no room for the last 29 years of PostgreSQL's, which end with 294276.
pub fn is_timestamp(us: i64) -> bool {
    (-211_813_488_000_000_000..=i64::MAX - UNIX_EPOCH_US).contains(&us)
}

/// µs from 1970 to 2000.
const UNIX_EPOCH_US: i64 = 10_957 * US_PER_DAY;

/// numeric rounds half away from zero, floats half to even.
pub fn to_integer(value: &Datum, to: DataType) -> SqlResult<Datum> {
    let refuse = || out_of_range(to);
    let i = match value {
        Datum::Int(i) => *i,
        Datum::Decimal(d) => {
            let whole = d.rescale(0).ok_or_else(refuse)?;
            i64::try_from(whole.units()).map_err(|_| refuse())?
        }
        Datum::Float(f) => {
            let whole = f.round_ties_even();
            // 2^63 itself is a float and no bigint.
            if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&whole) {
                return Err(refuse());
            }
            whole as i64
        }
        other => return Err(cannot_cast(other.kind(), &name(to))),
    };
    let bits = match to {
        DataType::SmallInt => i64::from(i16::MIN)..=i64::from(i16::MAX),
        DataType::Integer => i64::from(i32::MIN)..=i64::from(i32::MAX),
        _ => i64::MIN..=i64::MAX,
    };
    if bits.contains(&i) { Ok(Datum::Int(i)) } else { Err(refuse()) }
}

/// A number as `real` or `double precision`, rounded once. Errors: 22003.
pub fn to_float(value: &Datum, to: DataType) -> SqlResult<Datum> {
    let range = |what: &str| {
        Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {what}")))
    };
    let is_real = to == DataType::Real;
    let made = match value {
        Datum::Int(i) if is_real => f64::from(*i as f32),
        Datum::Int(i) => *i as f64,
        Datum::Decimal(d) if is_real => f64::from(d.to_string().parse::<f32>().expect("digits parse")),
        Datum::Decimal(d) => d.as_f64(),
        Datum::Float(f) if is_real => {
            let narrow = *f as f32;
            if narrow.is_infinite() && f.is_finite() {
                return range("overflow");
            }
            if narrow == 0.0 && *f != 0.0 {
                return range("underflow");
            }
            f64::from(narrow)
        }
        Datum::Float(f) => *f,
        other => return Err(cannot_cast(other.kind(), &name(to))),
    };
    Ok(Datum::Float(if made.is_nan() { f64::NAN } else { made }))
}

/// A float as a decimal: the digits that its type is sure of, 15 or 6.
pub fn float_digits(value: f64, from: DataType) -> SqlResult<Decimal> {
    if !value.is_finite() {
        return Err(SqlError::unsupported("NaN and infinities of type numeric"));
    }
    let text = match from {
        DataType::Real => format!("{:.5e}", value as f32),
        _ => format!("{value:.14e}"),
    };
    let (mantissa, exponent) = text.split_once('e').expect("has an exponent");
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    Decimal::parse(&format!("{mantissa}e{exponent}"))
        .ok_or_else(|| out_of_range(crate::datum::NUMERIC_UNLIMITED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(value: Datum, from: DataType, to: DataType) -> String {
        cast(value, from, to).map_or_else(|e| e.state.to_string(), |v| crate::text::display_as(&v, to))
    }
    const N: DataType = DataType::Numeric { precision: 10, scale: 2 };

    #[test]
    fn numbers_become_integers_as_their_type_rounds() {
        let decimal = |text| Datum::Decimal(Decimal::parse(text).unwrap());
        for (text, wanted) in [("2.5", "3"), ("-2.5", "-3"), ("0.49", "0"), ("99999999999", "22003")] {
            assert_eq!(told(decimal(text), N, DataType::Integer), wanted, "{text}");
        }
        for (f, wanted) in [(2.5, "2"), (3.5, "4"), (-0.5, "0"), (3e9, "22003"), (f64::NAN, "22003")] {
            assert_eq!(told(Datum::Float(f), DataType::Double, DataType::Integer), wanted, "{f}");
        }
        assert_eq!(told(Datum::Float(9.223372036854775807e18), DataType::Double, DataType::BigInt), "22003");
        assert_eq!(told(Datum::Int(40_000), DataType::Integer, DataType::SmallInt), "22003");
    }

    #[test]
    fn texts_are_cut_by_a_cast_and_truth_is_spelled_out() {
        let (five, char3) = (DataType::Varchar { length: 5 }, DataType::Char { length: 3 });
        assert_eq!(told(Datum::text("abcdefgh"), DataType::Text, five), "abcde");
        assert_eq!(told(Datum::text("ab"), DataType::Text, char3), "ab ");
        assert_eq!(told(Datum::Bool(true), DataType::Boolean, DataType::Text), "true");
        assert_eq!(told(Datum::Bool(true), DataType::Boolean, DataType::BigInt), "42846");
        assert_eq!(
            told(Datum::Timestamp(0), DataType::TimestampTz, DataType::Text),
            "2000-01-01 00:00:00+00"
        );
    }

    #[test]
    fn floats_show_the_digits_that_they_are_sure_of() {
        let plain = crate::datum::NUMERIC_UNLIMITED;
        let shown = |f, from| float_digits(f, from).map_or_else(|e| e.state.to_string(), |d| d.to_string());
        assert_eq!(shown(0.1 + 0.2, DataType::Double), "0.3");
        assert_eq!(shown(1.0 / 3.0, DataType::Double), "0.333333333333333");
        assert_eq!(shown(f64::from(0.1f32), DataType::Real), "0.1");
        assert_eq!(shown(1e20, DataType::Double), "100000000000000000000");
        assert_eq!(told(Datum::Float(1e300), DataType::Double, plain), "22003");
    }

    #[test]
    fn days_beyond_the_last_timestamp_are_refused() {
        assert_eq!(told(Datum::Date(803_502_000), DataType::Date, DataType::Timestamp), "22008");
        assert_eq!(told(Datum::Date(1), DataType::Date, DataType::Timestamp), "2000-01-02 00:00:00");
    }
}
