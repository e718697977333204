//! Values as text, the way PostgreSQL prints and reads them.

pub mod array;
mod calendar;
mod clock;
pub mod encoding;
pub mod parts;
mod spelled;
pub mod write;

use crate::convert;
use crate::datum::US_PER_DAY;
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::inet::{self, Inet};
use crate::text_search::{Query, Vector};
use crate::zone::Zone;
use crate::{DataType, Datum};
use calendar::EPOCH_2000;
pub use calendar::{civil, day_number};
use clock::{parse_time, time_of_day, time_with_zone};
use std::sync::Arc;

/// A value's text form; timestamps without zone. Null is the empty string.
pub fn display(value: &Datum) -> String {
    display_as(value, DataType::Text)
}

/// A value's text form as its type prints it, in UTC.
pub fn display_as(value: &Datum, data_type: DataType) -> String {
    display_in(value, data_type, Zone::Utc)
}

/// The same in a zone.
pub fn display_in(value: &Datum, data_type: DataType, zone: Zone) -> String {
    let mut out = String::new();
    write::value(&mut out, value, data_type, zone).expect("a string takes what is written");
    out
}

/// Reads a value of a type from text; a moment that names no zone is one of UTC. Errors: as [`parse_in`].
pub fn parse(text: &str, data_type: DataType) -> SqlResult<Datum> {
    parse_in(text, data_type, Zone::Utc)
}

/// The same in a zone. Errors: 22P02, 22003, 22007, 22008, 22001; 22023 for a zone that there is not.
pub fn parse_in(text: &str, data_type: DataType, zone: Zone) -> SqlResult<Datum> {
    let trimmed = text.trim();
    let invalid = || {
        let name = data_type.name();
        let told = format!("invalid input syntax for type {name}: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, told)
    };
    match data_type {
        DataType::Boolean => truth(trimmed).map(Datum::Bool).ok_or_else(invalid),
        DataType::SmallInt | DataType::Integer | DataType::BigInt => match trimmed.parse::<i64>() {
            Ok(i) => data_type.coerce(Datum::Int(i)).map_err(|_| out_of_range(text, data_type)),
            Err(e)
                if matches!(
                    e.kind(),
                    std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow
                ) =>
            {
                Err(out_of_range(text, data_type))
            }
            Err(_) => Err(invalid()),
        },
        DataType::Real | DataType::Double => {
            let value = match trimmed.to_ascii_lowercase().as_str() {
                "nan" => f64::NAN,
                "infinity" | "inf" | "+infinity" | "+inf" => f64::INFINITY,
                "-infinity" | "-inf" => f64::NEG_INFINITY,
                _ => {
                    let value = trimmed.parse::<f64>().map_err(|_| invalid())?;
                    // Too large, or so small that nothing is left of it.
                    let vanished = value == 0.0
                        && trimmed
                            .split(['e', 'E'])
                            .next()
                            .is_some_and(|m| m.contains(|c| ('1'..='9').contains(&c)));
                    if value.is_infinite() || vanished {
                        return Err(out_of_range(text, data_type));
                    }
                    value
                }
            };
            data_type.coerce(Datum::Float(value)).map_err(|_| out_of_range(text, data_type))
        }
        DataType::Numeric { .. } => data_type.coerce(Datum::Decimal(numeric(text)?)),
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => {
            data_type.coerce(Datum::text(text))
        }
        DataType::Date => {
            let moment = parse_moment(trimmed, data_type)?;
            // A timestamp's time of day is dropped, if it is one.
            let day = moment.day;
            if convert::is_date(day) { Ok(Datum::Date(day)) } else { Err(date_out_of_range(text, data_type)) }
        }
        DataType::Timestamp | DataType::TimestampTz => moment_in(text, data_type, zone).map(Datum::Timestamp),
        DataType::Uuid => parse_uuid(text).map(Datum::Uuid).ok_or_else(invalid),
        DataType::Inet => Inet::parse(trimmed).map(Datum::Inet).ok_or_else(invalid),
        DataType::Cidr => inet::cidr(text).map(Datum::Inet),
        DataType::MacAddr => inet::hardware(text, 6).map(Datum::Inet),
        DataType::MacAddr8 => inet::hardware(text, 8).map(Datum::Inet),
        DataType::Bytea => match text.strip_prefix("\\x") {
            Some(hex) => parse_hex(hex).map(|b| Datum::Bytes(Arc::from(b))),
            None => unescape_bytea(text).map(|b| Datum::Bytes(Arc::from(b))).ok_or_else(invalid),
        },
        DataType::Time => time_of_day(trimmed, text, data_type).map(|clock| Datum::Time(clock.us)),
        DataType::TimeTz => time_with_zone(trimmed, text, zone).map(Datum::TimeTz),
        DataType::Interval => crate::interval::parse(text).map(Datum::Interval),
        DataType::Json => crate::json::check(text).map(|()| Datum::text(text)),
        DataType::Jsonb => crate::json::canonical(text).map(|text| Datum::Json(Arc::from(text))),
        DataType::TsVector => Vector::parse(text).map(|vector| Datum::text(vector.to_string())),
        DataType::TsQuery => Query::parse(text).map(|query| Datum::text(query.to_string())),
        DataType::Enum(of) => of.code(text).map(Datum::Int),
        DataType::Array(of) => array::parse(text)?
            .into_iter()
            .map(|element| element.map_or(Ok(Datum::Null), |text| parse_in(&text, of.data_type(), zone)))
            .collect::<SqlResult<Vec<_>>>()
            .map(|elements| Datum::Array(elements.into())),
        DataType::Composite(of) => crate::composite::parse(text, of.attributes().len())?
            .into_iter()
            .zip(of.attributes())
            .map(|(field, a)| field.map_or(Ok(Datum::Null), |text| parse_in(&text, a.data_type, zone)))
            .collect::<SqlResult<Vec<_>>>()
            .map(|values| Datum::Array(values.into())),
    }
}

/// A moment with or without a zone, in µs since 2000. Errors: 22007, 22008, 22023.
fn moment_in(text: &str, data_type: DataType, zone: Zone) -> SqlResult<i64> {
    let moment = parse_moment(text.trim(), data_type)?;
    let us = i64::from(moment.day).checked_mul(US_PER_DAY);
    let us = us.and_then(|us| us.checked_add(moment.time_us));
    let us = us.and_then(|us| match (data_type, moment.zone) {
        (DataType::Timestamp, _) => Some(us),
        (_, WrittenZone::Offset(offset_us)) => us.checked_sub(offset_us),
        (_, WrittenZone::Zone(zone)) => Some(zone.from_local(us)),
        (_, WrittenZone::None) => Some(zone.from_local(us)),
    });
    us.filter(|us| convert::is_timestamp(*us)).ok_or_else(|| date_out_of_range(text, data_type))
}

/// `true`, `yes`, `on`, `1` and their opposites, shortened as long as they cannot be mistaken.
fn truth(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let is = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if is("true", 1) || is("yes", 1) || text == "on" || text == "1" {
        return Some(true);
    }
    (is("false", 1) || is("no", 1) || is("off", 2) || text == "0").then_some(false)
}

/// A number with all its digits. Errors: 22P02; 22003 beyond 38 digits; 0A000 for NaN and infinities.
pub fn numeric(text: &str) -> SqlResult<Decimal> {
    let trimmed = text.trim();
    if let Some(decimal) = Decimal::parse(trimmed) {
        return Ok(decimal);
    }
    let unsigned = trimmed.trim_start_matches(['+', '-']).to_ascii_lowercase();
    if matches!(unsigned.as_str(), "nan" | "inf" | "infinity") {
        return Err(SqlError::unsupported("NaN and infinities of type numeric"));
    }
    // What a float reads is a number; it has too many digits, or its exponent is too large.
    let looks_right =
        trimmed.parse::<f64>().is_ok() && !unsigned.starts_with(|c: char| c.is_ascii_alphabetic());
    if looks_right {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
            .detail("Numbers of type numeric have at most 38 digits."));
    }
    Err(SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type numeric: \"{text}\""),
    ))
}

/// 32 hexadecimal digits; a hyphen may stand behind any four of them, braces around all.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut bytes = [0u8; 16];
    let mut digits = 0;
    let mut was_hyphen = true;
    for c in inner.bytes() {
        was_hyphen = match char::from(c).to_digit(16) {
            Some(digit) => {
                let byte = bytes.get_mut(digits / 2)?;
                *byte = *byte << 4 | digit as u8;
                digits += 1;
                false
            }
            None if c == b'-' && !was_hyphen && digits % 4 == 0 && digits < 32 => true,
            None => return None,
        };
    }
    (digits == 32).then_some(bytes)
}

/// Errors: 22023, as PostgreSQL says of hexadecimal digits.
fn parse_hex(hex: &str) -> SqlResult<Vec<u8>> {
    let wrong = |what: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what);
    if let Some(odd) = hex.chars().find(|c| !c.is_ascii_hexdigit() && !c.is_ascii_whitespace()) {
        return Err(wrong(format!("invalid hexadecimal digit: \"{odd}\"")));
    }
    unhex(hex).ok_or_else(|| wrong("invalid hexadecimal data: odd number of digits".into()))
}

fn out_of_range(text: &str, data_type: DataType) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {}", data_type.name()),
    )
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let value = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?)).collect()
}

fn unescape_bytea(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match (bytes[i], bytes.get(i + 1)) {
            (b'\\', Some(b'\\')) => {
                out.push(b'\\');
                i += 2;
            }
            (b'\\', _) => {
                let octal = text.get(i + 1..i + 4)?;
                out.push(u8::from_str_radix(octal, 8).ok()?);
                i += 4;
            }
            (b, _) => {
                out.push(b);
                i += 1;
            }
        }
    }
    Some(out)
}

/// The moment (µs) at which a unit of time began. Errors: 22023 for what is no unit.
pub fn truncated(unit: &str, us: i64) -> SqlResult<i64> {
    let unit = unit.to_ascii_lowercase();
    let down_to = |step: i64| Ok(us - us.rem_euclid(step));
    let day = i32::try_from(us.div_euclid(US_PER_DAY)).unwrap_or(i32::MAX);
    let (year, month, _) = civil(day);
    // The first day of a year, counted so that a century ends with its hundredth year.
    let years = |length: i64| year - (year - 1).rem_euclid(length);
    let begins = |year: i64, month: u32| {
        let day = day_number(year, month, 1).and_then(|day| convert::midnight(day).ok());
        day.ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
    };
    match unit.trim_end_matches('s') {
        "microsecond" => Ok(us),
        "millisecond" => down_to(1_000),
        "second" => down_to(1_000_000),
        "minute" => down_to(60_000_000),
        "hour" => down_to(3_600_000_000),
        "day" => down_to(US_PER_DAY),
        // 2000-01-03 was a Monday.
        "week" => Ok((i64::from(day) - (i64::from(day) - 2).rem_euclid(7)) * US_PER_DAY),
        "month" => begins(year, month),
        "quarter" => begins(year, (month - 1) / 3 * 3 + 1),
        "year" => begins(year, 1),
        "decade" => begins(year.div_euclid(10) * 10, 1),
        "century" | "centurie" => begins(years(100), 1),
        "millennium" | "millennia" => begins(years(1_000), 1),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unit \"{unit}\" not recognized for type timestamp without time zone"),
        )),
    }
}

fn bad_date(text: &str, data_type: DataType) -> SqlError {
    let name = data_type.name();
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {name}: \"{text}\""),
    )
    .hint("Write dates as 2026-11-21 and times as 13:45:00.")
}

fn field_out_of_range(text: &str) -> SqlError {
    SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date/time field value out of range: \"{text}\""),
    )
}

fn date_out_of_range(text: &str, data_type: DataType) -> SqlError {
    let what = if data_type == DataType::Date { "date" } else { "timestamp" };
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range: \"{text}\""))
}

/// What a text says of a moment: day (since 2000-01-01), time of day, zone.
struct Moment {
    day: i32,
    time_us: i64,
    zone: WrittenZone,
}

/// The zone that a text names.
#[derive(Clone, Copy)]
enum WrittenZone {
    None,
    /// µs ahead of UTC.
    Offset(i64),
    Zone(Zone),
}

/// Reads a moment as ISO 8601 writes it, or [spelled] otherwise.
fn parse_moment(text: &str, data_type: DataType) -> SqlResult<Moment> {
    read_moment(text, data_type).or_else(|error| match spelled::as_iso(text) {
        Some(iso) => read_moment(&iso, data_type).map_err(|e| match e.state {
            SqlState::INVALID_DATETIME_FORMAT => bad_date(text, data_type),
            SqlState::DATETIME_FIELD_OVERFLOW => field_out_of_range(text),
            _ => e,
        }),
        None => Err(error),
    })
}

/// Reads `2026-11-21[ 13:45[:00[.123456]]][ +01[:30]|Z|Europe/Berlin][ BC]`.
fn read_moment(text: &str, data_type: DataType) -> SqlResult<Moment> {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "epoch" => return Ok(Moment { day: -(EPOCH_2000 as i32), time_us: 0, zone: WrittenZone::Offset(0) }),
        "infinity" | "-infinity" | "+infinity" => {
            return Err(SqlError::unsupported(format!("infinity of type {}", data_type.name())));
        }
        _ => {}
    }
    let (rest, is_bc) = match lower.strip_suffix("bc") {
        Some(rest) => (&text[..rest.trim_end().len()], true),
        None => (text, false),
    };
    let (day, rest) = parse_date(rest, is_bc, text, data_type)?;
    let (time_us, zone) = match rest {
        "" => (0, WrittenZone::None),
        rest => parse_time(rest, text, data_type)?,
    };
    Ok(Moment { day, time_us, zone })
}

/// Reads `2026-11-21` at the start; answers the rest: a time, a zone, or both.
fn parse_date<'a>(text: &'a str, is_bc: bool, all: &str, data_type: DataType) -> SqlResult<(i32, &'a str)> {
    let end = text.find([' ', 'T', 't', '+', 'Z', 'z']).unwrap_or(text.len());
    let (date, rest) = text.split_at(end);
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let compact = date.len() == 8 && date.is_ascii() && all_digits(date);
    let fields: Vec<&str> = match compact {
        true => vec![&date[..4], &date[4..6], &date[6..]],
        false => date.split(['-', '/']).collect(),
    };
    let [year, month, day] = fields.as_slice() else { return Err(bad_date(all, data_type)) };
    // With two digits the year stands elsewhere.
    if ![year, month, day].into_iter().all(|f| all_digits(f)) || year.len() < 3 {
        return Err(bad_date(all, data_type));
    }
    let number = |field: &str| field.parse::<u32>().map_err(|_| field_out_of_range(all));
    let (year, month, day) = (i64::from(number(year)?), number(month)?, number(day)?);
    let year = match (year, is_bc) {
        (0, _) => return Err(field_out_of_range(all)),
        (year, true) => 1 - year,
        (year, false) => year,
    };
    let day = day_number(year, month, day).ok_or_else(|| field_out_of_range(all))?;
    Ok((day, rest.trim_start_matches([' ', 'T', 't'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms_round_trip() {
        for (text, data_type) in [
            ("2026-11-21", DataType::Date),
            ("1969-02-28", DataType::Date),
            ("2000-02-29", DataType::Date),
            ("2026-11-21 20:53:07.25", DataType::Timestamp),
            ("1900-01-01 00:00:00", DataType::Timestamp),
            ("-12", DataType::SmallInt),
            ("3.50", DataType::Numeric { precision: 5, scale: 2 }),
            ("0.1", DataType::Double),
            ("1e+20", DataType::Double),
            ("1e-05", DataType::Double),
            ("123456789012345", DataType::Double),
            ("NaN", DataType::Double),
            ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", DataType::Uuid),
            ("\\x00ff", DataType::Bytea),
            ("t", DataType::Boolean),
            ("0044-03-15 10:00:00 BC", DataType::Timestamp),
        ] {
            let value = parse(text, data_type).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(display(&value), text);
        }
        let zoned = parse("2026-11-21 01:00:00+02", DataType::TimestampTz).unwrap();
        assert_eq!(display_as(&zoned, DataType::TimestampTz), "2026-11-20 23:00:00+00");
        assert_eq!(display_as(&Datum::text("ab"), DataType::Char { length: 4 }), "ab  ");
        assert_eq!(display_as(&Datum::Float(1.8e9), DataType::Real), "1.8e+09");
        assert_eq!(display_as(&Datum::Float(123456.0), DataType::Real), "123456");
        // JDBC sends dates with a zone.
        assert_eq!(display(&parse("2020-01-02 +00", DataType::Date).unwrap()), "2020-01-02");
        assert_eq!(display(&parse("2020-01-02Z", DataType::Timestamp).unwrap()), "2020-01-02 00:00:00");
        let zoned = parse("2020-01-02 +01", DataType::TimestampTz).unwrap();
        assert_eq!(display_as(&zoned, DataType::TimestampTz), "2020-01-01 23:00:00+00");
        let zoned = parse("0044-03-15 10:00:00+00 BC", DataType::TimestampTz).unwrap();
        assert_eq!(display_as(&zoned, DataType::TimestampTz), "0044-03-15 10:00:00+00 BC");
    }

    #[test]
    fn moments_are_cut_down_to_units() {
        let Datum::Timestamp(us) = parse("2024-08-15 13:14:15.25", DataType::Timestamp).unwrap() else {
            unreachable!()
        };
        for (unit, wanted) in [
            ("second", "2024-08-15 13:14:15"),
            ("day", "2024-08-15 00:00:00"),
            ("week", "2024-08-12 00:00:00"),
            ("quarter", "2024-07-01 00:00:00"),
            ("decade", "2020-01-01 00:00:00"),
            ("century", "2001-01-01 00:00:00"),
        ] {
            assert_eq!(display(&Datum::Timestamp(truncated(unit, us).unwrap())), wanted, "{unit}");
        }
        assert!(truncated("fortnight", us).is_err());
    }

    #[test]
    fn a_uuid_may_be_spelled_in_several_ways() {
        let wanted = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        ] {
            assert_eq!(display(&parse(text, DataType::Uuid).unwrap()), wanted, "{text}");
        }
        for text in ["", "a0eebc99", "{a0eebc999c0b4ef8bb6d6bb9bd380a11", "a-0eebc999c0b4ef8bb6d6bb9bd380a11"]
        {
            assert!(parse(text, DataType::Uuid).is_err(), "{text}");
        }
    }

    #[test]
    fn every_day_of_nine_centuries_round_trips() {
        for day in -200_000..130_000 {
            let (y, m, d) = civil(day);
            assert_eq!(day_number(y, m, d), Some(day));
        }
    }

    #[test]
    fn bad_text_is_refused_with_its_state() {
        let state = |text, data_type| parse(text, data_type).unwrap_err().state;
        assert_eq!(state("x", DataType::Integer), SqlState::INVALID_TEXT_REPRESENTATION);
        assert_eq!(state("40000", DataType::SmallInt), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        assert_eq!(state("99999999999999999999", DataType::BigInt), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        assert_eq!(state("2026-02-30", DataType::Date), SqlState::DATETIME_FIELD_OVERFLOW);
        let zoned = "294277-12-31 16:00:00-08";
        assert_eq!(state(zoned, DataType::TimestampTz), SqlState::DATETIME_FIELD_OVERFLOW);
        assert_eq!(state("9999999-01-01", DataType::Date), SqlState::DATETIME_FIELD_OVERFLOW);
        assert_eq!(state("2026-01-01 25:00", DataType::Timestamp), SqlState::DATETIME_FIELD_OVERFLOW);
        assert_eq!(state("1e-400", DataType::Double), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        assert_eq!(state("1e40", DataType::Real), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        assert_eq!(state("NaN", crate::datum::NUMERIC_UNLIMITED), SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(state("o", DataType::Boolean), SqlState::INVALID_TEXT_REPRESENTATION);
        assert_eq!(state("\\xZZ", DataType::Bytea), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(state("yesterday-ish", DataType::Date), SqlState::INVALID_DATETIME_FORMAT);
        assert_eq!(state("abc", DataType::Varchar { length: 2 }), SqlState::STRING_DATA_RIGHT_TRUNCATION);
        assert_eq!(state("zz", DataType::Uuid), SqlState::INVALID_TEXT_REPRESENTATION);
    }
}
