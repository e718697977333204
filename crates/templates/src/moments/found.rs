//! What a text said, and the moment or the day that it means.

use super::{JULIAN_2000, US_PER_DAY, US_PER_SECOND, iso_year_begin};
use base::error::SqlResult;
use base::text::{civil, day_number};
use base::zone::Zone;
use base::{SqlError, SqlState};

/// A calendar that fields belong to; those of two do not go together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Convention {
    Gregorian,
    IsoWeek,
}

/// What was found in a text. Zero is what is not there.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub(super) text: String,
    pub(super) convention: Option<Convention>,
    pub(super) date: DateFields,
    pub(super) time: TimeFields,
    pub(super) zone: ZoneFields,
}

#[derive(Clone, Debug, Default)]
pub(super) struct DateFields {
    pub is_before_christ: i64,
    pub century: i64,
    pub year: i64,
    pub year_digits: u8,
    pub month: i64,
    pub day: i64,
    pub day_of_year: i64,
    /// From 1, Sunday.
    pub day_of_week: i64,
    pub week: i64,
    pub week_of_month: i64,
    pub julian_day: i64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TimeFields {
    pub hour: i64,
    pub is_12_hours: bool,
    pub is_second_half: i64,
    pub minute: i64,
    pub second: i64,
    pub second_of_day: i64,
    pub ms: i64,
    pub us: i64,
    /// Digits of the second's fraction that a moment keeps.
    pub rounded_to: Option<u8>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ZoneFields {
    /// 0 without a zone.
    pub sign: i64,
    pub hours: i64,
    pub minutes: i64,
}

fn wrong(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

impl Found {
    fn out_of_range(&self) -> SqlError {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{}\"", self.text),
        )
    }

    /// µs since 2000-01-01 UTC; what the text says without a zone is the time of this one.
    ///
    /// Errors: 22007, 22008 for what is no moment.
    pub fn us(&self, usual: Zone) -> SqlResult<i64> {
        let date = self.date()?;
        let time = self.time()?;
        let zone = self.zone()?;
        let us =
            i64::from(date).checked_mul(US_PER_DAY).and_then(|day| day.checked_add(time)?.checked_sub(zone));
        us.map(|us| self.rounded(if self.zone.sign == 0 { usual.from_local(us) } else { us }))
            .filter(|us| base::convert::is_timestamp(*us))
            .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
    }

    fn rounded(&self, us: i64) -> i64 {
        let unit = self.time.rounded_to.map_or(1, |digits| 10i64.pow(6 - u32::from(digits)));
        (us + unit / 2).div_euclid(unit).saturating_mul(unit)
    }

    /// Days since 2000-01-01.
    ///
    /// Errors: 22007, 22008 for what is no date.
    pub fn day(&self) -> SqlResult<i32> {
        self.time()?;
        self.zone()?;
        self.date()
    }

    fn zone(&self) -> SqlResult<i64> {
        if self.zone.sign == 0 {
            return Ok(0);
        }
        if !(0..=15).contains(&self.zone.hours) || !(0..60).contains(&self.zone.minutes) {
            let message = format!("time zone displacement out of range: \"{}\"", self.text);
            return Err(SqlError::new(SqlState(*b"22009"), message));
        }
        Ok(self.zone.sign * (self.zone.hours * 3600 + self.zone.minutes * 60) * US_PER_SECOND)
    }

    /// µs since midnight.
    fn time(&self) -> SqlResult<i64> {
        let of_day = self.time.second_of_day;
        let part = |given: i64, computed: i64| if given == 0 { computed } else { given };
        let mut hour = part(self.time.hour, of_day / 3600);
        let minute = part(self.time.minute, of_day % 3600 / 60);
        let second = part(self.time.second, of_day % 60);
        if self.time.is_12_hours {
            if !(1..=12).contains(&hour) {
                return Err(wrong(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                    .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            hour = hour % 12 + if self.time.is_second_half != 0 { 12 } else { 0 };
        }
        let us = self.time.ms * 1000 + self.time.us;
        let fits = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..US_PER_SECOND).contains(&us);
        match fits {
            true => Ok((hour * 3600 + minute * 60 + second) * US_PER_SECOND + us),
            false => Err(self.out_of_range()),
        }
    }

    /// The year, counted so that 0 is the year before 1.
    fn full_year(&self) -> Option<i64> {
        let century = if self.date.is_before_christ != 0 { -self.date.century } else { self.date.century };
        if self.date.year != 0 {
            if self.date.century != 0 && self.date.year_digits <= 2 {
                // Its two digits in the century that is given, which begins with the year 01.
                let of_century = self.date.year % 100;
                return Some(match (of_century, century >= 0) {
                    (0, true) => century * 100,
                    (0, false) => century * 100 + 1,
                    (n, true) => (century - 1) * 100 + n,
                    (n, false) => (century + 1) * 100 - n + 1,
                });
            }
            let year = if self.date.is_before_christ != 0 { -self.date.year } else { self.date.year };
            return Some(if year < 0 { year + 1 } else { year });
        }
        match century {
            0 => None,
            c if c > 0 => Some((c - 1) * 100 + 1),
            c => Some(c * 100 + 1),
        }
    }

    fn date(&self) -> SqlResult<i32> {
        let within = |day: i64| i32::try_from(day).map_err(|_| self.out_of_range());
        let given_year = self.full_year();
        let (mut year, mut month, mut day) = (given_year.unwrap_or(0), 1, 1);
        let mut day_of_year = self.date.day_of_year;
        let set_by_day = |date: i64| -> SqlResult<(i64, i64, i64)> {
            let (y, m, d) = civil(within(date)?);
            Ok((y, i64::from(m), i64::from(d)))
        };
        if self.date.julian_day != 0 {
            (year, month, day) = set_by_day(self.date.julian_day - JULIAN_2000)?;
        }
        if self.date.week != 0 {
            if self.convention == Some(Convention::IsoWeek) {
                let monday =
                    iso_year_begin(self.checked_year(year)?) + (self.date.week - 1).saturating_mul(7);
                // Without a day of the week, the week's first day.
                let in_week = match self.date.day_of_week {
                    0 => 0,
                    1 => 6,
                    n => n - 2,
                };
                (year, month, day) = set_by_day(monday.saturating_add(in_week))?;
            } else {
                day_of_year = (self.date.week - 1).saturating_mul(7) + 1;
            }
        }
        if self.date.week_of_month != 0 {
            day = (self.date.week_of_month - 1).saturating_mul(7) + 1;
        } else if self.date.day != 0 {
            day = self.date.day;
        }
        if self.date.month != 0 {
            month = self.date.month;
        }
        if day_of_year != 0 && (month <= 1 || day <= 1) {
            if year == 0 && self.date.is_before_christ == 0 {
                return Err(wrong("cannot calculate day of year without year information".into()));
            }
            let year = self.checked_year(year)?;
            if self.convention == Some(Convention::IsoWeek) {
                return within(iso_year_begin(year) + day_of_year - 1);
            }
            let first = i64::from(day_number(year, 1, 1).ok_or_else(|| self.out_of_range())?);
            let is_leap = day_number(year, 2, 29).is_some();
            if !(1..=365 + i64::from(is_leap)).contains(&day_of_year) {
                return Err(self.out_of_range());
            }
            let (_, m, d) = civil(within(first + day_of_year - 1)?);
            if month <= 1 {
                month = m.into();
            }
            if day <= 1 {
                day = d.into();
            }
        }
        let year = self.checked_year(year)?;
        let found = u32::try_from(month).ok().zip(u32::try_from(day).ok());
        found.and_then(|(month, day)| day_number(year, month, day)).ok_or_else(|| self.out_of_range())
    }

    /// A year for which days are counted. Errors: 22008 beyond.
    fn checked_year(&self, year: i64) -> SqlResult<i64> {
        match (-4713..=5_874_897).contains(&year) {
            true => Ok(year),
            false => Err(self.out_of_range()),
        }
    }
}
