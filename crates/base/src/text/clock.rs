//! Times of day and offsets of zones, as they are read.

use super::{WrittenZone, bad_date, field_out_of_range, parse_date};
use crate::DataType;
use crate::datum::US_PER_DAY;
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::timetz::TimeTz;
use crate::zone::Zone;

/// What a text says of a time of day.
pub(super) struct Clock {
    /// µs since midnight.
    pub us: i64,
    zone: WrittenZone,
    day: Option<i32>,
}

/// `13:45[:00[.123456]]`, such a time with `AM` or `PM`, or a moment's time; a zone behind it. Errors: 22007, 22008.
pub(super) fn time_of_day(text: &str, all: &str, data_type: DataType) -> SqlResult<Clock> {
    let bad = || bad_date(all, data_type);
    let lower = text.to_ascii_lowercase();
    if lower == "allballs" {
        return Ok(Clock { us: 0, zone: WrittenZone::Offset(0), day: None });
    }
    if let Some((clock, later, zone)) = half_of_day(&lower) {
        let (time_us, zone) = parse_time(&format!("{clock}{zone}"), all, data_type)?;
        let hour = time_us / 3_600_000_000;
        let us = time_us + (hour % 12 + later - hour) * 3_600_000_000;
        return match hour {
            1..=12 => Ok(Clock { us, zone, day: None }),
            _ => Err(field_out_of_range(all)),
        };
    }
    // A day in front of it says only what the zone's clocks show then.
    let has_day = lower.find(['-', '/']).is_some_and(|dash| lower.find(':').is_none_or(|colon| dash < colon));
    let (day, clock) = match lower.split_once([' ', 't']) {
        Some((day, clock)) if has_day => {
            let (day, _) = parse_date(day, false, all, data_type)?;
            (Some(day), clock.trim())
        }
        _ if has_day => return Err(bad()),
        _ => (None, lower.as_str()),
    };
    // `134500` and `1345` too.
    let digits = clock.find(|c: char| !c.is_ascii_digit()).unwrap_or(clock.len());
    let spelled = match digits {
        6 => format!("{}:{}:{}", &clock[..2], &clock[2..4], &clock[4..]),
        4 => format!("{}:{}", &clock[..2], &clock[2..]),
        _ => clock.to_string(),
    };
    if !spelled.contains(':') {
        return Err(bad());
    }
    parse_time(&spelled, all, data_type).map(|(us, zone)| Clock { us, zone, day })
}

/// A clock of twelve hours: what stands before `am` or `pm`, the hours that are added, and what stands behind it.
fn half_of_day(text: &str) -> Option<(&str, i64, &str)> {
    let of_clock = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | ' ');
    let (clock, rest) = text.split_at(text.find(|c| !of_clock(c))?);
    let (later, zone) = match (rest.strip_prefix("am"), rest.strip_prefix("pm")) {
        (Some(zone), _) => (0, zone),
        (_, Some(zone)) => (12, zone),
        _ => return None,
    };
    // A zone's name may begin so.
    let is_word = !zone.starts_with(|c: char| c.is_ascii_alphanumeric());
    is_word.then_some((clock.trim(), later, zone))
}

/// A time with its offset, of which a text without one is what the clocks of a zone show. Errors: those of
/// [`time_of_day`], 22007 for a zone whose offset depends on a day that is not said, 0A000 for the session's.
pub(super) fn time_with_zone(text: &str, all: &str, session: Zone) -> SqlResult<TimeTz> {
    let Clock { us, zone: written, day } = time_of_day(text, all, DataType::TimeTz)?;
    let zone = match written {
        WrittenZone::None => session,
        WrittenZone::Offset(offset_us) => Zone::Fixed((offset_us / 1_000_000) as i32),
        WrittenZone::Zone(zone) => zone,
    };
    match (zone, day) {
        (Zone::Named(_), Some(day)) => {
            let local = i64::from(day).saturating_mul(US_PER_DAY).saturating_add(us);
            Ok(TimeTz::new(us, zone.offset_s(zone.from_local(local))))
        }
        (Zone::Named(_), None) if !matches!(written, WrittenZone::None) => {
            Err(bad_date(all, DataType::TimeTz))
        }
        _ => TimeTz::of_clock(us, zone),
    }
}

/// Reads `13:45[:00[.123456]][+01[:30]|Z|Europe/Berlin]`, or a zone alone: µs of the day, and the zone.
pub(super) fn parse_time(text: &str, all: &str, data_type: DataType) -> SqlResult<(i64, WrittenZone)> {
    let bad = || bad_date(all, data_type);
    let is_of_clock = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | ' ');
    let zone_at = text.find(|c| !is_of_clock(c)).unwrap_or(text.len());
    let (clock, zone) = text.split_at(zone_at);
    let clock = if zone_at == 0 { "00:00" } else { clock.trim() };
    let mut fields = clock.splitn(3, ':');
    let mut number = |limit: i64| -> SqlResult<i64> {
        let value = fields.next().ok_or_else(bad)?;
        let value = value.bytes().all(|b| b.is_ascii_digit()).then(|| value.parse::<i64>().ok());
        let value = value.flatten().ok_or_else(bad)?;
        if value < limit { Ok(value) } else { Err(field_out_of_range(all)) }
    };
    let (hours, minutes) = (number(25)?, number(60)?);
    let seconds_us = match fields.next() {
        None => 0,
        Some(seconds) if seconds.starts_with(|c: char| c.is_ascii_digit()) => {
            let us = Decimal::parse(seconds).and_then(|d| d.rescale(6)).ok_or_else(bad)?;
            let us = i64::try_from(us.units()).map_err(|_| bad())?;
            if us > 60_000_000 {
                return Err(field_out_of_range(all));
            }
            us
        }
        Some(_) => return Err(bad()),
    };
    let time_us = (hours * 60 + minutes) * 60_000_000 + seconds_us;
    if time_us > US_PER_DAY {
        return Err(field_out_of_range(all));
    }
    Ok((time_us, parse_zone(zone.trim(), all, data_type)?))
}

/// `Z`, `CET`, `Europe/Berlin`, `+01`, `+01:30`, `+01:30:15`, `+0130`. Errors: 22007; 22009 for an offset beyond all;
/// 22023 for a zone that there is not.
fn parse_zone(zone: &str, all: &str, data_type: DataType) -> SqlResult<WrittenZone> {
    let bad = || bad_date(all, data_type);
    if zone.is_empty() {
        return Ok(WrittenZone::None);
    }
    let (sign, rest) = match (zone.strip_prefix('+'), zone.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (-1, rest),
        _ => return Zone::in_text(zone)?.map(WrittenZone::Zone).ok_or_else(bad),
    };
    let (rest, seconds) = match rest.match_indices(':').nth(1) {
        Some((at, _)) => (&rest[..at], &rest[at + 1..]),
        None => (rest, "0"),
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if rest.len() == 4 && rest.is_ascii() => rest.split_at(2),
        None => (rest, "0"),
    };
    let number = |s: &str| match s.bytes().all(|b| b.is_ascii_digit()) {
        true => s.parse::<i64>().map_err(|_| bad()),
        false => Err(bad()),
    };
    let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(SqlError::new(
            SqlState(*b"22009"),
            format!("time zone displacement out of range: \"{all}\""),
        ));
    }
    Ok(WrittenZone::Offset(sign * ((hours * 60 + minutes) * 60 + seconds) * 1_000_000))
}
