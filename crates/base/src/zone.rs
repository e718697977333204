//! Time zones: their names, and what clocks in them show at a moment.
//!
//! A zone travels as a constant of the expression that needs it, so that every participant of a
//! transaction computes the same; none is ever read from a node's surroundings.

mod names;

pub(crate) use names::not_recognized;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{OffsetComponents, OffsetName, Tz};
use std::fmt;

const US_PER_SECOND: i64 = 1_000_000;
const US_PER_DAY: i64 = 86_400 * US_PER_SECOND;

/// From 1970-01-01 to 2000-01-01, the library's first day and ours.
const EPOCH_US: i64 = 10_957 * US_PER_DAY;

/// The last year whose changes of clocks the library lists; later ones go on by the same rules.
const LISTED_UNTIL: i32 = 2_087;

/// Years in which every combination of a first weekday and a leap day comes.
const SHAPES_YEARS: i32 = 28;

/// After so many days, 400 years, the calendar comes again.
const CALENDAR_US: i64 = 146_097 * US_PER_DAY;

/// A time zone. Its text is a name that [`Zone::named`] reads back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    #[default]
    Utc,
    /// One of the IANA database.
    Named(Tz),
    /// Always so many seconds east of Greenwich.
    Fixed(i32),
}

impl Zone {
    pub fn is_utc(self) -> bool {
        self == Zone::Utc
    }

    /// How many seconds its clocks are ahead of UTC at a moment, in µs since 2000-01-01 UTC.
    pub fn offset_s(self, us: i64) -> i32 {
        match self {
            Zone::Utc => 0,
            Zone::Fixed(east_s) => east_s,
            Zone::Named(tz) => offset_of(tz, us).fix().local_minus_utc(),
        }
    }

    /// What its clocks show at a moment, both in µs since 2000-01-01.
    pub fn to_local(self, us: i64) -> i64 {
        us.saturating_add(i64::from(self.offset_s(us)) * US_PER_SECOND)
    }

    /// The moment at which its clocks show this. Of a time that comes twice it is the later one; one that clocks leave
    /// out is read as if they had not been put forward yet.
    pub fn from_local(self, local_us: i64) -> i64 {
        let offset = |us: i64| i64::from(self.offset_s(us)) * US_PER_SECOND;
        let before = offset(local_us.saturating_sub(US_PER_DAY));
        let after = offset(local_us.saturating_add(US_PER_DAY));
        let (early, late) = (local_us.saturating_sub(before), local_us.saturating_sub(after));
        if offset(late) == after { late } else { early }
    }

    /// Whether its clocks are put forward at a moment.
    pub fn is_summer_time(self, us: i64) -> bool {
        match self {
            Zone::Named(tz) => !offset_of(tz, us).dst_offset().is_zero(),
            Zone::Utc | Zone::Fixed(_) => false,
        }
    }

    /// What people there call its time at a moment.
    pub fn abbreviation(self, us: i64) -> String {
        match self {
            Zone::Utc => "UTC".into(),
            Zone::Fixed(east_s) => names::offset(east_s),
            Zone::Named(tz) => offset_of(tz, us).abbreviation().unwrap_or_default().into(),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zone::Utc => f.write_str("UTC"),
            Zone::Named(tz) => f.write_str(tz.name()),
            Zone::Fixed(east_s) => write!(f, "<{}>{}", names::offset(*east_s), names::offset(-east_s)),
        }
    }
}

fn offset_of(tz: Tz, us: i64) -> <Tz as TimeZone>::Offset {
    let us = if us < CALENDAR_US { us } else { us % CALENDAR_US };
    let moment = DateTime::from_timestamp_micros(us.saturating_add(EPOCH_US));
    tz.offset_from_utc_datetime(&listed(moment.unwrap_or(DateTime::<chrono::Utc>::MIN_UTC).naive_utc()))
}

/// The moment, or the same one of a listed year whose days fall on the same weekdays.
fn listed(moment: NaiveDateTime) -> NaiveDateTime {
    if moment.year() <= LISTED_UNTIL {
        return moment;
    }
    let first = |year: i32| NaiveDate::from_ymd_opt(year, 1, 1);
    let shape = |year: i32| first(year).map(|day| (day.weekday(), day.leap_year()));
    let alike = (LISTED_UNTIL - SHAPES_YEARS + 1..=LISTED_UNTIL).find(|y| shape(*y) == shape(moment.year()));
    match (first(moment.year()), alike.and_then(first)) {
        (Some(this), Some(that)) => moment - (this - that),
        _ => moment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;
    use crate::text::{display_in, parse_in};

    fn berlin() -> Zone {
        Zone::named("Europe/Berlin").unwrap()
    }

    fn shown(text: &str, zone: Zone) -> String {
        let value = parse_in(text, DataType::TimestampTz, zone).unwrap();
        display_in(&value, DataType::TimestampTz, zone)
    }

    #[test]
    fn clocks_that_change_are_read_as_postgresql_reads_them() {
        for (text, wanted) in [
            // It is left out in March, and comes twice in October.
            ("2024-03-31 02:30", "2024-03-31 03:30:00+02"),
            ("2024-10-27 02:30", "2024-10-27 02:30:00+01"),
            ("1890-01-01", "1890-01-01 00:00:00+00:53:28"),
            ("2150-07-01 12:00", "2150-07-01 12:00:00+02"),
            ("2150-01-01 12:00", "2150-01-01 12:00:00+01"),
            ("294246-07-01 12:00", "294246-07-01 12:00:00+02"),
            ("2024-01-01 10:00 America/New_York", "2024-01-01 16:00:00+01"),
            ("2024-07-01 10:00 pst", "2024-07-01 20:00:00+02"),
            ("2024-07-01 10:00-03:30", "2024-07-01 15:30:00+02"),
            ("0044-03-15 12:00 BC", "0044-03-15 12:00:00+00:53:28 BC"),
        ] {
            assert_eq!(shown(text, berlin()), wanted, "{text}");
        }
    }

    #[test]
    fn clocks_are_put_forward_in_summer() {
        let at = |text: &str| match parse_in(text, DataType::TimestampTz, Zone::Utc).unwrap() {
            crate::Datum::Timestamp(us) => us,
            other => panic!("{other:?}"),
        };
        assert!(berlin().is_summer_time(at("2024-07-01")) && !berlin().is_summer_time(at("2024-01-01")));
        assert!(!Zone::Utc.is_summer_time(at("2024-07-01")));
    }

    #[test]
    fn every_moment_comes_back_from_a_clock_but_for_the_hour_that_comes_twice() {
        let mut rng = crate::rng::Rng::new(11);
        let zones =
            ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "<+05:30>-05:30"];
        for name in zones {
            let zone = Zone::named(name).unwrap();
            assert_eq!(zone.to_string(), name);
            for _ in 0..2_000 {
                let us = (rng.next_u64() % (120 * 366 * US_PER_DAY as u64)) as i64 - 20 * 366 * US_PER_DAY;
                let again = zone.from_local(zone.to_local(us));
                assert!(
                    again == us || (again > us && zone.to_local(again) == zone.to_local(us)),
                    "{name} {us}"
                );
            }
        }
    }
}
