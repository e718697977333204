//! Values as text, the way PostgreSQL prints and reads them.

pub mod array;
pub mod encoding;

use crate::datum::US_PER_DAY;
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::{DataType, Datum};
use std::sync::Arc;

/// A value's text form; timestamps without zone. Null is the empty string.
pub fn display(value: &Datum) -> String {
    match value {
        Datum::Null => String::new(),
        Datum::Bool(b) => if *b { "t" } else { "f" }.into(),
        Datum::Int(i) => i.to_string(),
        Datum::Float(f) => float(*f),
        Datum::Decimal(d) => d.to_string(),
        Datum::Text(s) => s.to_string(),
        Datum::Date(d) => date(*d),
        Datum::Timestamp(us) => timestamp(*us),
        Datum::Uuid(u) => uuid(u),
        Datum::Bytes(b) => {
            let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
            format!("\\x{hex}")
        }
    }
}

/// A value's text form as its type prints it (`timestamptz` in UTC with its offset, `char(n)` padded,
/// `real` with its own digits).
pub fn display_as(value: &Datum, data_type: DataType) -> String {
    match (value, data_type) {
        (Datum::Timestamp(us), DataType::TimestampTz) => format!("{}+00", timestamp(*us)),
        (Datum::Float(f), DataType::Real) => float32(*f as f32),
        (Datum::Text(s), DataType::Char { length }) => format!("{s:<width$}", width = length as usize),
        _ => display(value),
    }
}

/// Reads a value of a type from text. Errors: 22P02, 22003, 22007, 22008, 22001.
pub fn parse(text: &str, data_type: DataType) -> SqlResult<Datum> {
    let trimmed = text.trim();
    let invalid = || {
        let name = match data_type {
            DataType::Numeric { .. } => "numeric".into(),
            other => other.name(),
        };
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type {name}: \"{text}\""),
        )
    };
    match data_type {
        DataType::Boolean => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Ok(Datum::Bool(true)),
            "f" | "false" | "n" | "no" | "off" | "0" => Ok(Datum::Bool(false)),
            _ => Err(invalid()),
        },
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
                    if value.is_infinite() {
                        return Err(out_of_range(text, data_type));
                    }
                    value
                }
            };
            data_type.coerce(Datum::Float(value))
        }
        DataType::Numeric { .. } => {
            data_type.coerce(Datum::Decimal(Decimal::parse(trimmed).ok_or_else(invalid)?))
        }
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => {
            data_type.coerce(Datum::text(text))
        }
        DataType::Date => {
            let (day, rest) = parse_date(trimmed, data_type)?;
            // A timestamp's time of day is dropped, if it is one.
            if !rest.is_empty() {
                parse_time(rest, data_type)?;
            }
            Ok(Datum::Date(day))
        }
        DataType::Timestamp | DataType::TimestampTz => {
            let (day, rest) = parse_date(trimmed, data_type)?;
            let (us, offset_us) = if rest.is_empty() { (0, 0) } else { parse_time(rest, data_type)? };
            let offset_us = if data_type == DataType::TimestampTz { offset_us } else { 0 };
            Ok(Datum::Timestamp(i64::from(day) * US_PER_DAY + us - offset_us))
        }
        DataType::Uuid => {
            let hex: String = trimmed.trim_matches(['{', '}']).chars().filter(|c| *c != '-').collect();
            let bytes = unhex(&hex).ok_or_else(invalid)?;
            Ok(Datum::Uuid(bytes.try_into().map_err(|_| invalid())?))
        }
        DataType::Bytea => match text.strip_prefix("\\x") {
            Some(hex) => unhex(hex).map(|b| Datum::Bytes(Arc::from(b))).ok_or_else(invalid),
            None => unescape_bytea(text).map(|b| Datum::Bytes(Arc::from(b))).ok_or_else(invalid),
        },
    }
}

fn out_of_range(text: &str, data_type: DataType) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {}", data_type.name()),
    )
}

fn float(f: f64) -> String {
    special(f).map_or_else(|| scientific(format!("{f:e}"), f.to_string()), str::to_string)
}
fn float32(f: f32) -> String {
    special(f64::from(f)).map_or_else(|| scientific(format!("{f:e}"), f.to_string()), str::to_string)
}
fn special(f: f64) -> Option<&'static str> {
    match f {
        f if f.is_nan() => Some("NaN"),
        f if f == f64::INFINITY => Some("Infinity"),
        f if f == f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}
/// PostgreSQL switches to an exponent below 1e-4 and from 1e15 on.
fn scientific(exponential: String, plain: String) -> String {
    let (mantissa, exponent) = exponential.split_once('e').expect("has an exponent");
    let exponent: i32 = exponent.parse().expect("is a number");
    if (-4..15).contains(&exponent) {
        return plain;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
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

/// Days from 1970-01-01 to 2000-01-01.
const EPOCH_2000: i64 = 10_957;

/// Civil date of a day number (days since 2000-01-01): year, month, day.
pub fn civil(day: i32) -> (i64, u32, u32) {
    // Counting years from March puts the leap day last.
    let days = i64::from(day) + EPOCH_2000 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Day number (days since 2000-01-01) of a civil date, or `None` if there is no such day.
pub fn day_number(year: i64, month: u32, day: u32) -> Option<i32> {
    if !(1..=12).contains(&month) || day < 1 || day > month_length(year, month) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let of_year = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    i32::try_from(days - EPOCH_2000).ok()
}

fn month_length(year: i64, month: u32) -> u32 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn date(day: i32) -> String {
    let (year, month, day) = civil(day);
    if year < 1 {
        return format!("{:04}-{month:02}-{day:02} BC", 1 - year);
    }
    format!("{year:04}-{month:02}-{day:02}")
}

fn timestamp(us: i64) -> String {
    let day = us.div_euclid(US_PER_DAY);
    let rest = us.rem_euclid(US_PER_DAY);
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = match fraction {
        0 => String::new(),
        f => format!(".{f:06}").trim_end_matches('0').to_string(),
    };
    format!("{} {clock}{fraction}", date(i32::try_from(day).unwrap_or(i32::MAX)))
}

fn bad_date(text: &str, data_type: DataType) -> SqlError {
    let name = data_type.name();
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {name}: \"{text}\""),
    )
    .hint("Write dates as 2026-11-21 and times as 13:45:00.")
}

/// Reads `2026-11-21` at the start; answers the rest: a time, a zone, or both.
fn parse_date(text: &str, data_type: DataType) -> SqlResult<(i32, &str)> {
    let end = text.find([' ', 'T', 't', '+', 'Z', 'z']).unwrap_or(text.len());
    let (date, rest) = text.split_at(end);
    let mut fields = date.splitn(3, '-');
    let mut field = || fields.next().and_then(|f| f.parse::<u32>().ok());
    let (Some(year), Some(month), Some(day)) = (field(), field(), field()) else {
        return Err(bad_date(text, data_type));
    };
    let day = day_number(i64::from(year), month, day).ok_or_else(|| {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        )
    })?;
    Ok((day, rest.trim_start_matches([' ', 'T', 't'])))
}

/// Reads `13:45[:00[.123456]][+01[:30]|Z]`, or a zone alone: µs of the day, and the zone's offset in µs.
fn parse_time(text: &str, data_type: DataType) -> SqlResult<(i64, i64)> {
    let bad = || bad_date(text, data_type);
    let zone_at = text.find(['+', '-', 'Z', 'z']).or_else(|| text.find(" UTC")).unwrap_or(text.len());
    let (clock, zone) = text.split_at(zone_at);
    let clock = if zone_at == 0 { "00:00" } else { clock.trim() };
    let mut fields = clock.splitn(3, ':');
    let mut number = |limit: i64| -> SqlResult<i64> {
        let value = fields.next().ok_or_else(bad)?.parse::<i64>().map_err(|_| bad())?;
        if (0..limit).contains(&value) { Ok(value) } else { Err(bad()) }
    };
    let (hours, minutes) = (number(25)?, number(60)?);
    let seconds_us = match fields.next() {
        None => 0,
        Some(seconds) => {
            let d = Decimal::parse(seconds).and_then(|d| d.rescale(6)).ok_or_else(bad)?;
            i64::try_from(d.units()).ok().filter(|us| (0..=60_000_000).contains(us)).ok_or_else(bad)?
        }
    };
    let offset_us = match zone.trim() {
        "" | "Z" | "z" | "UTC" => 0,
        zone => {
            let (sign, rest) = zone.split_at(1);
            let (h, m) = rest.split_once(':').unwrap_or((rest, "0"));
            let minutes = h.parse::<i64>().map_err(|_| bad())? * 60 + m.parse::<i64>().map_err(|_| bad())?;
            minutes * 60_000_000 * if sign == "-" { -1 } else { 1 }
        }
    };
    Ok(((hours * 60 + minutes) * 60_000_000 + seconds_us, offset_us))
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
        ] {
            let value = parse(text, data_type).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(display(&value), text);
        }
        let zoned = parse("2026-11-21 01:00:00+02", DataType::TimestampTz).unwrap();
        assert_eq!(display_as(&zoned, DataType::TimestampTz), "2026-11-20 23:00:00+00");
        assert_eq!(display_as(&Datum::text("ab"), DataType::Char { length: 4 }), "ab  ");
        // JDBC sends dates with a zone.
        assert_eq!(display(&parse("2020-01-02 +00", DataType::Date).unwrap()), "2020-01-02");
        assert_eq!(display(&parse("2020-01-02Z", DataType::Timestamp).unwrap()), "2020-01-02 00:00:00");
        let zoned = parse("2020-01-02 +01", DataType::TimestampTz).unwrap();
        assert_eq!(display_as(&zoned, DataType::TimestampTz), "2020-01-01 23:00:00+00");
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
        assert_eq!(state("yesterday-ish", DataType::Date), SqlState::INVALID_DATETIME_FORMAT);
        assert_eq!(state("abc", DataType::Varchar { length: 2 }), SqlState::STRING_DATA_RIGHT_TRUNCATION);
        assert_eq!(state("zz", DataType::Uuid), SqlState::INVALID_TEXT_REPRESENTATION);
    }
}
