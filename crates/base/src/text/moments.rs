//! Moments as they are read.

use super::clock::parse_time;
use super::{EPOCH_2000, bad_date, day_number, field_out_of_range, spelled};
use crate::DataType;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::zone::Zone;

/// What a text says of a moment: day (since 2000-01-01), time of day, zone.
pub(super) struct Moment {
    pub day: i32,
    pub time_us: i64,
    pub zone: WrittenZone,
}

/// The zone that a text names.
#[derive(Clone, Copy)]
pub(super) enum WrittenZone {
    None,
    /// µs ahead of UTC.
    Offset(i64),
    Zone(Zone),
}

/// Reads a moment as ISO 8601 writes it, or [spelled] otherwise.
pub(super) fn parse_moment(text: &str, data_type: DataType) -> SqlResult<Moment> {
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
pub(super) fn parse_date<'a>(
    text: &'a str,
    is_bc: bool,
    all: &str,
    data_type: DataType,
) -> SqlResult<(i32, &'a str)> {
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
