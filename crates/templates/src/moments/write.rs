//! `to_char` of moments and intervals.

use super::{
    DAYS, Field, Item, JULIAN_2000, MONTHS, Placed, SHORT, Template, US_PER_DAY, US_PER_SECOND,
    iso_year_begin, january_first, weekday,
};
use crate::{Case, ordinal, roman};
use base::error::SqlResult;
use base::interval::Interval;
use base::text::{civil, day_number};
use base::zone::Zone;
use base::{SqlError, SqlState};

/// Longest name of a month or of a day.
const NAME_WIDTH: usize = 9;
const ROMAN_WIDTH: usize = 4;

/// What fields show. Of an interval, parts may be negative.
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    us: i64,
    /// Days since 2000-01-01; of an interval, none.
    date: Option<i64>,
    day_of_year: i64,
    /// What its zone is called, if it has one, and how far that is ahead of UTC.
    zone_name: String,
    east_minutes: i32,
}

impl Parts {
    fn of_moment(us: i64, zone: Option<Zone>) -> Parts {
        let (of_zone, us) = (
            zone.map(|zone| (zone.abbreviation(us), zone.offset_s(us))),
            zone.unwrap_or_default().to_local(us),
        );
        let date = us.div_euclid(US_PER_DAY);
        let (year, month, day) = civil(date as i32);
        let mut parts = Parts::of_time(us.rem_euclid(US_PER_DAY));
        (parts.year, parts.month, parts.day) = (year, month.into(), day.into());
        parts.day_of_year = date - january_first(year) + 1;
        parts.date = Some(date);
        if let Some((name, east_s)) = of_zone {
            (parts.zone_name, parts.east_minutes) = (name, east_s / 60);
        }
        parts
    }
    /// What follows the hours of the zone's offset: nothing, or `:30`.
    fn zone_minutes(&self) -> String {
        match self.east_minutes.abs() % 60 {
            0 => String::new(),
            minutes => format!(":{minutes:02}"),
        }
    }
    fn zone_sign(&self) -> char {
        if self.east_minutes < 0 { '-' } else { '+' }
    }
    fn of_interval(span: Interval) -> Parts {
        let mut parts = Parts::of_time(span.us);
        let months = i64::from(span.months);
        (parts.year, parts.month, parts.day) = (months / 12, months % 12, span.days.into());
        parts.day_of_year = months * 30 + parts.day;
        parts
    }
    fn of_time(us: i64) -> Parts {
        let seconds = us / US_PER_SECOND;
        Parts {
            year: 0,
            month: 0,
            day: 0,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            us: us % US_PER_SECOND,
            date: None,
            day_of_year: 0,
            zone_name: String::new(),
            east_minutes: 0,
        }
    }
    /// As it is shown: there is no year 0.
    fn shown_year(&self) -> i64 {
        match self.date {
            Some(_) if self.year <= 0 => 1 - self.year,
            _ => self.year,
        }
    }
    /// The date, or the day that an interval's numbers would be.
    fn counted(&self) -> i64 {
        self.date.unwrap_or_else(|| {
            let months = self.year * 12 + self.month - 1;
            let first = day_number(months.div_euclid(12), months.rem_euclid(12) as u32 + 1, 1);
            first.map_or(0, i64::from) + self.day - 1
        })
    }
    /// Year and week by ISO 8601, and the day of that year. An interval has those of the day with its numbers.
    fn iso(&self) -> (i64, i64, i64) {
        let date = self.counted();
        let begun = [self.year + 1, self.year].into_iter().find(|y| iso_year_begin(*y) <= date);
        let year = begun.unwrap_or(self.year - 1);
        let day = date - iso_year_begin(year);
        (year, day / 7 + 1, day + 1)
    }
}

impl Template {
    /// `to_char(timestamp, template)`: µs since 2000-01-01, UTC if it is shown in a zone.
    ///
    /// Errors: none of today's; a result as for intervals.
    pub fn write_moment(&self, us: i64, zone: Option<Zone>) -> SqlResult<String> {
        self.write(&Parts::of_moment(us, zone))
    }
    /// `to_char(interval, template)`.
    ///
    /// Errors: 22007 for fields that only a day has.
    pub fn write_interval(&self, span: Interval) -> SqlResult<String> {
        self.write(&Parts::of_interval(span))
    }

    fn write(&self, parts: &Parts) -> SqlResult<String> {
        let mut out = String::new();
        for item in &self.items {
            match item {
                Item::Separator(c) | Item::Space(c) | Item::Text(c) => out.push(*c),
                Item::Field(placed) => {
                    let written = placed.write(parts)?;
                    out.push_str(&written);
                    if let Some(case) = placed.ordinal.filter(|_| placed.is_number() && !written.is_empty()) {
                        out.push_str(ordinal(&written, case));
                    }
                }
            }
        }
        Ok(out)
    }
}

fn only_of_days() -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, "invalid format specification for an interval value")
        .hint("Intervals are not tied to specific calendar dates.")
}

impl Placed {
    /// Whether it is a number that may have an ending.
    pub(super) fn is_number(&self) -> bool {
        !matches!(
            self.field,
            Field::HalfOfDay { .. }
                | Field::Era { .. }
                | Field::ZoneName(_)
                | Field::ZoneHours
                | Field::ZoneMinutes
                | Field::ZoneOffset
                | Field::MonthName(_)
                | Field::MonthShort(_)
                | Field::RomanMonth(_)
                | Field::DayName(_)
                | Field::DayShort(_)
                | Field::Exact
        )
    }

    /// A number with zeros in front; a sign takes the place of one.
    fn digits(&self, value: i64, width: usize) -> String {
        if self.is_filled { value.to_string() } else { format!("{value:0width$}") }
    }
    /// The same with a place of its own for a sign.
    fn zeros(&self, value: i64, width: usize) -> String {
        self.digits(value, width + usize::from(value < 0))
    }

    fn padded(&self, name: String, width: usize) -> String {
        if self.is_filled { name } else { format!("{name:<width$}") }
    }
    fn padded_name(&self, name: String) -> String {
        if self.is_translated { name } else { self.padded(name, NAME_WIDTH) }
    }

    fn write(&self, parts: &Parts) -> SqlResult<String> {
        match self.of_time(parts) {
            Some(text) => Ok(text),
            None if self.is_number() => self.of_date(parts),
            None => self.words(parts),
        }
    }

    /// Numbers of the time of day.
    fn of_time(&self, parts: &Parts) -> Option<String> {
        Some(match self.field {
            Field::Hour24 => self.zeros(parts.hour, 2),
            Field::Hour12 => {
                let hour = if parts.hour % 12 == 0 { 12 } else { parts.hour % 12 };
                let width = if parts.hour < 0 { 3 } else { 2 };
                self.digits(hour, width)
            }
            Field::Minute => self.zeros(parts.minute, 2),
            Field::Second => self.zeros(parts.second, 2),
            Field::Fraction(digits) => {
                let cut = parts.us / 10i64.pow(6 - u32::from(digits));
                format!("{cut:0width$}", width = usize::from(digits))
            }
            Field::Millisecond => format!("{:03}", parts.us / 1000),
            Field::Microsecond => format!("{:06}", parts.us),
            Field::SecondOfDay => (parts.hour * 3600 + parts.minute * 60 + parts.second).to_string(),
            _ => return None,
        })
    }

    /// Other numbers. Errors: 22007 for what an interval does not have.
    fn of_date(&self, parts: &Parts) -> SqlResult<String> {
        let of_days = || parts.date.ok_or_else(only_of_days);
        Ok(match self.field {
            Field::Century => {
                let century = match parts.date {
                    None => parts.year / 100,
                    Some(_) if parts.year > 0 => (parts.year - 1) / 100 + 1,
                    Some(_) => parts.year / 100 - 1,
                };
                if (-99..=99).contains(&century) { self.zeros(century, 2) } else { century.to_string() }
            }
            Field::GroupedYear => {
                let (thousands, rest) = (parts.shown_year() / 1000, parts.shown_year() % 1000);
                format!("{thousands},{rest:03}")
            }
            Field::Year(digits) => self.year(parts.shown_year(), digits, parts.shown_year() < 0),
            Field::IsoYear(digits) => {
                let year = parts.iso().0;
                let shown = if parts.date.is_some() && year <= 0 { 1 - year } else { year };
                self.year(shown, digits, parts.shown_year() < 0)
            }
            Field::Quarter if parts.month == 0 => String::new(),
            Field::Quarter => ((parts.month - 1) / 3 + 1).to_string(),
            Field::Month => self.zeros(parts.month, 2),
            Field::WeekOfMonth => ((parts.day - 1) / 7 + 1).to_string(),
            Field::Week => self.digits((parts.day_of_year - 1) / 7 + 1, 2),
            Field::IsoWeek => self.digits(parts.iso().1, 2),
            Field::DayOfYear => self.digits(parts.day_of_year, 3),
            Field::DayOfIsoYear => self.digits(parts.iso().2, 3),
            Field::Day => self.digits(parts.day, 2),
            Field::DayOfWeek => (weekday(of_days()?) + 1).to_string(),
            Field::IsoDayOfWeek => ((weekday(of_days()?) + 6).rem_euclid(7) + 1).to_string(),
            Field::JulianDay => (parts.counted() + JULIAN_2000).to_string(),
            _ => String::new(),
        })
    }

    /// Names, halves of days, eras and zones. Errors: 22007 for what an interval does not have.
    fn words(&self, parts: &Parts) -> SqlResult<String> {
        let of_days = || parts.date.ok_or_else(only_of_days);
        let name = |names: &[&str], nth: i64, case: Case, length: usize| {
            let name = names[nth.rem_euclid(names.len() as i64) as usize];
            case.apply(&name[..length.min(name.len())])
        };
        Ok(match self.field {
            Field::HalfOfDay { is_dotted, case } => {
                let is_second = parts.hour.rem_euclid(24) >= 12 && parts.hour >= 0;
                case.apply(match (is_second, is_dotted) {
                    (false, false) => "AM",
                    (true, false) => "PM",
                    (false, true) => "A.M.",
                    (true, true) => "P.M.",
                })
            }
            Field::Era { is_dotted, case } => {
                of_days()?;
                case.apply(match (parts.year <= 0, is_dotted) {
                    (false, false) => "AD",
                    (true, false) => "BC",
                    (false, true) => "A.D.",
                    (true, true) => "B.C.",
                })
            }
            Field::ZoneName(case) => {
                of_days()?;
                case.apply(&parts.zone_name)
            }
            Field::ZoneHours => {
                of_days()?;
                format!("{}{:02}", parts.zone_sign(), parts.east_minutes.abs() / 60)
            }
            Field::ZoneOffset => {
                of_days()?;
                let hours = self.zeros((parts.east_minutes.abs() / 60).into(), 2);
                format!("{}{hours}{}", parts.zone_sign(), parts.zone_minutes())
            }
            Field::ZoneMinutes => {
                of_days()?;
                format!("{:02}", parts.east_minutes.abs() % 60)
            }
            Field::MonthName(case) => {
                of_days()?;
                self.padded_name(name(&MONTHS, parts.month - 1, case, NAME_WIDTH))
            }
            Field::MonthShort(case) => {
                of_days()?;
                name(&MONTHS, parts.month - 1, case, SHORT)
            }
            Field::RomanMonth(_) if parts.month == 0 && parts.year == 0 => String::new(),
            Field::RomanMonth(case) => {
                // The months of a negative interval are counted from the end of the year.
                let month = match parts.month {
                    0 if parts.year < 0 => 1,
                    0 => 12,
                    m if m < 0 => 13 + m,
                    m => m,
                };
                let numeral = roman(month as u32);
                let numeral = if case == Case::Lower { numeral.to_lowercase() } else { numeral };
                self.padded(numeral, ROMAN_WIDTH)
            }
            Field::DayName(case) => self.padded_name(name(&DAYS, weekday(of_days()?), case, NAME_WIDTH)),
            Field::DayShort(case) => name(&DAYS, weekday(of_days()?), case, SHORT),
            _ => String::new(),
        })
    }

    /// A year's last digits; `is_wider` by a sign's place.
    fn year(&self, year: i64, digits: u8, is_wider: bool) -> String {
        let width = usize::from(digits) + usize::from(is_wider);
        let shown = if digits == 4 { year } else { year % 10i64.pow(digits.into()) };
        if digits == 1 { shown.to_string() } else { self.digits(shown, width) }
    }
}
