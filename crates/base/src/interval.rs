//! Intervals: months, days and µs, kept apart because a month has no fixed length and a day may have 23 hours.
//!
//! They are compared as if a month had 30 days and a day 24 hours, so that `1 month` equals `30 days`.

mod fields;
mod parts;

use crate::convert;
use crate::datum::US_PER_DAY;
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::text::{civil, day_number};
pub use fields::of_fields;
pub use parts::{part, truncated};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A span of time. `Eq` tells values apart; [`Interval::length_us`] is what SQL compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub us: i64,
}

const DAYS_PER_MONTH: i64 = 30;

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

impl Interval {
    /// What SQL compares, in µs.
    pub fn length_us(self) -> i128 {
        let days = i128::from(self.months) * i128::from(DAYS_PER_MONTH) + i128::from(self.days);
        days * i128::from(US_PER_DAY) + i128::from(self.us)
    }

    pub fn checked_neg(self) -> SqlResult<Interval> {
        let negated = || {
            Some(Interval {
                months: self.months.checked_neg()?,
                days: self.days.checked_neg()?,
                us: self.us.checked_neg()?,
            })
        };
        negated().ok_or_else(out_of_range)
    }
    pub fn checked_add(self, other: Interval) -> SqlResult<Interval> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                us: self.us.checked_add(other.us)?,
            })
        };
        sum().ok_or_else(out_of_range)
    }
    pub fn checked_sub(self, other: Interval) -> SqlResult<Interval> {
        self.checked_add(other.checked_neg()?)
    }

    /// Each part by the factor; what is left of a month goes to the days, of a day to the time.
    pub fn checked_mul(self, factor: f64) -> SqlResult<Interval> {
        let (months, days) = (f64::from(self.months) * factor, f64::from(self.days) * factor);
        let fits = |f: f64| f > f64::from(i32::MIN) - 1.0 && f < f64::from(i32::MAX) + 1.0;
        if !fits(months) || !fits(days) {
            return Err(out_of_range());
        }
        let mut whole = (months.trunc() as i32, days.trunc() as i32);
        // Rounded to µs, so that thirds of a month do not leave dust.
        let round_us = |f: f64| (f * 1e6).round_ties_even() / 1e6;
        let mut month_days = round_us((months - f64::from(whole.0)) * DAYS_PER_MONTH as f64);
        let mut seconds = round_us((days - f64::from(whole.1) + month_days - month_days.trunc()) * 86_400.0);
        if seconds.abs() >= 86_400.0 {
            let carry = (seconds / 86_400.0).trunc();
            whole.1 = whole.1.checked_add(carry as i32).ok_or_else(out_of_range)?;
            seconds -= carry * 86_400.0;
        }
        month_days = month_days.trunc();
        whole.1 = whole.1.checked_add(month_days as i32).ok_or_else(out_of_range)?;
        let us = (self.us as f64 * factor + seconds * 1e6).round_ties_even();
        if !(-9.223_372_036_854_775_8e18..9.223_372_036_854_775_8e18).contains(&us) {
            return Err(out_of_range());
        }
        Ok(Interval { months: whole.0, days: whole.1, us: us as i64 })
    }
    pub fn checked_div(self, divisor: f64) -> SqlResult<Interval> {
        if divisor == 0.0 {
            return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        let (months, days) = (f64::from(self.months) / divisor, f64::from(self.days) / divisor);
        let (whole_months, whole_days) = (months.trunc(), days.trunc());
        let round_us = |f: f64| (f * 1e6).round_ties_even() / 1e6;
        let month_days = round_us((months - whole_months) * DAYS_PER_MONTH as f64);
        let mut seconds = round_us((days - whole_days + month_days - month_days.trunc()) * 86_400.0);
        let mut all_days = whole_days + month_days.trunc();
        if seconds.abs() >= 86_400.0 {
            let carry = (seconds / 86_400.0).trunc();
            all_days += carry;
            seconds -= carry * 86_400.0;
        }
        let us = (self.us as f64 / divisor + seconds * 1e6).round_ties_even();
        Ok(Interval { months: whole_months as i32, days: all_days as i32, us: us as i64 })
    }

    /// From one moment to another: days and what is left of them.
    pub fn between(from_us: i64, to_us: i64) -> SqlResult<Interval> {
        let us = to_us.checked_sub(from_us).ok_or_else(out_of_range)?;
        Ok(Interval { months: 0, days: (us / US_PER_DAY) as i32, us: us % US_PER_DAY })
    }

    /// A moment, so much later. A day that its month does not have becomes the month's last.
    pub fn after(self, moment_us: i64) -> SqlResult<i64> {
        let beyond = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
        let later = || {
            let mut day = i32::try_from(moment_us.div_euclid(US_PER_DAY)).ok()?;
            let time = moment_us.rem_euclid(US_PER_DAY);
            if self.months != 0 {
                let (year, month, in_month) = civil(day);
                let months = year * 12 + i64::from(month) - 1 + i64::from(self.months);
                let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
                day = (1..=in_month).rev().find_map(|d| day_number(year, month, d))?;
            }
            let day = i64::from(day.checked_add(self.days)?);
            let us = day.checked_mul(US_PER_DAY)?.checked_add(time)?.checked_add(self.us)?;
            convert::is_timestamp(us).then_some(us)
        };
        later().ok_or_else(beyond)
    }
}

/// As IntervalStyle `postgres` shows it.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        // After a negative part a positive one carries its sign.
        let mut was_negative = false;
        for (n, unit) in [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")] {
            if n != 0 {
                let sign = if was_negative && n > 0 { "+" } else { "" };
                let plural = if n == 1 { "" } else { "s" };
                write!(f, "{space}{sign}{n} {unit}{plural}")?;
                (space, was_negative) = (" ", n < 0);
            }
        }
        if self.us != 0 || space.is_empty() {
            let sign = match self.us {
                ..0 => "-",
                _ if was_negative => "+",
                _ => "",
            };
            let us = self.us.unsigned_abs();
            let (seconds, mut fraction) = (us / 1_000_000, us % 1_000_000);
            let clock = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            write!(f, "{space}{sign}{:02}:{:02}:{:02}", clock.0, clock.1, clock.2)?;
            if fraction != 0 {
                let mut width = 6;
                while fraction % 10 == 0 {
                    (fraction, width) = (fraction / 10, width - 1);
                }
                write!(f, ".{fraction:0width$}")?;
            }
        }
        Ok(())
    }
}

/// A part of an interval in the units that are kept: months, days or µs, with what each is worth.
enum Unit {
    Months(i64),
    Days(i64),
    Us(i64),
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "millennium" | "millennia" | "millenniums" | "mil" | "mils" => Unit::Months(12_000),
        "century" | "centuries" | "cent" | "c" => Unit::Months(1_200),
        "decade" | "decades" | "dec" | "decs" => Unit::Months(120),
        "year" | "years" | "yr" | "yrs" | "y" => Unit::Months(12),
        "month" | "months" | "mon" | "mons" => Unit::Months(1),
        "week" | "weeks" | "w" => Unit::Days(7),
        "day" | "days" | "d" => Unit::Days(1),
        "hour" | "hours" | "hr" | "hrs" | "h" => Unit::Us(3_600_000_000),
        "minute" | "minutes" | "min" | "mins" | "m" => Unit::Us(60_000_000),
        "second" | "seconds" | "sec" | "secs" | "s" => Unit::Us(1_000_000),
        "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => Unit::Us(1_000),
        "microsecond" | "microseconds" | "usec" | "usecs" | "us" => Unit::Us(1),
        _ => return None,
    })
}

/// Sums parts; fractions go down to the next smaller unit.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    us: i128,
}

impl Sum {
    fn add(&mut self, number: Decimal, unit: Unit) -> Option<()> {
        let whole = number.trunc_at(0)?;
        let fraction = number.checked_sub(whole)?;
        let of = |n: Decimal, each: i64| n.checked_mul(Decimal::new(each.into(), 0));
        match unit {
            Unit::Months(each) => {
                let months = of(fraction, each)?;
                // Years and more round to months; of a month, days are left.
                if each > 1 {
                    self.months += whole.units() * i128::from(each) + months.rescale(0)?.units();
                } else {
                    self.months += whole.units();
                    self.add(of(fraction, DAYS_PER_MONTH)?, Unit::Days(1))?;
                }
            }
            Unit::Days(each) => {
                let days = of(number, each)?;
                let whole = days.trunc_at(0)?;
                self.days += whole.units();
                self.us += of(days.checked_sub(whole)?, US_PER_DAY)?.rescale(0)?.units();
            }
            Unit::Us(each) => self.us += of(number, each)?.rescale(0)?.units(),
        }
        Some(())
    }

    fn finish(self, sign: i128) -> Option<Interval> {
        Some(Interval {
            months: i32::try_from(self.months * sign).ok()?,
            days: i32::try_from(self.days * sign).ok()?,
            us: i64::try_from(self.us * sign).ok()?,
        })
    }
}

fn bad(text: &str) -> SqlError {
    let told = format!("invalid input syntax for type interval: \"{text}\"");
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, told)
}

/// Reads `1 year 2 mons -3 days 04:05:06.7`, `1.5 hours ago`, `1-2`, `3 4:05`, `P1Y2M3DT4H5M6S`; a number alone
/// counts seconds. Errors: 22007, 22008.
pub fn parse(text: &str) -> SqlResult<Interval> {
    let bad = || bad(text);
    let beyond = || {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("interval field value out of range: \"{text}\""),
        )
    };
    let lower = text.trim().to_ascii_lowercase();
    if let Some(designated) = lower.strip_prefix('p') {
        return parse_designated(designated).ok_or_else(bad)?.finish(1).ok_or_else(beyond);
    }
    let mut words = words(lower.strip_prefix('@').unwrap_or(&lower)).ok_or_else(bad)?;
    let sign = if words.last().is_some_and(|w| w == "ago") { -1 } else { 1 };
    if sign < 0 {
        words.pop();
    }
    if words.is_empty() {
        return Err(bad());
    }
    let mut sum = Sum::default();
    let mut at = 0;
    while at < words.len() {
        let word = &words[at];
        at += 1;
        if word.contains(':') {
            sum.us += clock(word).ok_or_else(bad)?;
            continue;
        }
        if let Some((years, months)) = years_and_months(word) {
            sum.months += years * 12 + months;
            continue;
        }
        let number = Decimal::parse(word).ok_or_else(bad)?;
        let next = words.get(at).map(String::as_str);
        let of = match next {
            // `3 4:05` is days and a time.
            Some(next) if next.contains(':') => Unit::Days(1),
            Some(next) => {
                at += 1;
                unit(next).ok_or_else(bad)?
            }
            None => Unit::Us(1_000_000),
        };
        sum.add(number, of).ok_or_else(beyond)?;
    }
    sum.finish(sign).ok_or_else(beyond)
}

/// Numbers, times and unit words, parted where digits meet letters.
fn words(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    // Commas part words, too.
    for part in text.split([' ', '\t', '\n', '\r', ',']).filter(|part| !part.is_empty()) {
        let mut word = String::new();
        let mut was_letter = false;
        for c in part.chars() {
            let is_letter = c.is_ascii_alphabetic();
            if !is_letter && !c.is_ascii_digit() && !"+-.:".contains(c) {
                return None;
            }
            if !word.is_empty() && is_letter != was_letter {
                all.push(std::mem::take(&mut word));
            }
            word.push(c);
            was_letter = is_letter;
        }
        all.push(word);
    }
    // A sign may stand apart from its number.
    let mut joined: Vec<String> = Vec::new();
    for word in all {
        match joined.last_mut() {
            Some(last) if last == "-" || last == "+" => last.push_str(&word),
            _ => joined.push(word),
        }
    }
    Some(joined)
}

fn signed(text: &str) -> (i128, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    }
}

/// `[-]hours:minutes[:seconds[.fraction]]` in µs. Two fields with a fraction are minutes and seconds.
fn clock(text: &str) -> Option<i128> {
    let (sign, text) = signed(text);
    let fields: Vec<&str> = text.split(':').collect();
    let whole = |s: &str| s.bytes().all(|b| b.is_ascii_digit()).then(|| s.parse::<i128>().ok()).flatten();
    let seconds = |s: &str| {
        let us = s.starts_with(|c: char| c.is_ascii_digit()).then(|| Decimal::parse(s))??.rescale(6)?.units();
        (us <= 60_000_000).then_some(us)
    };
    let minutes = |s: &str| whole(s).filter(|m| *m < 60);
    let us = match fields.as_slice() {
        [m, s] if s.contains('.') => whole(m)? * 60_000_000 + seconds(s)?,
        [h, m] => (whole(h)? * 60 + minutes(m)?) * 60_000_000,
        [h, m, s] => (whole(h)? * 60 + minutes(m)?) * 60_000_000 + seconds(s)?,
        _ => return None,
    };
    Some(sign * us)
}

/// `[-]years-months`.
fn years_and_months(text: &str) -> Option<(i128, i128)> {
    let (sign, rest) = signed(text);
    let (years, months) = rest.split_once('-')?;
    let (years, months) = (years.parse::<u32>().ok()?, months.parse::<u32>().ok()?);
    (months < 12).then_some((sign * i128::from(years), sign * i128::from(months)))
}

/// What follows the P of ISO 8601.
fn parse_designated(text: &str) -> Option<Sum> {
    let mut sum = Sum::default();
    let (mut number, mut is_time, mut any) = (String::new(), false, false);
    for c in text.chars() {
        if c == 't' && number.is_empty() {
            is_time = true;
            continue;
        }
        if !c.is_ascii_alphabetic() {
            number.push(c);
            continue;
        }
        let of = match (c, is_time) {
            ('y', false) => Unit::Months(12),
            ('m', false) => Unit::Months(1),
            ('w', false) => Unit::Days(7),
            ('d', false) => Unit::Days(1),
            ('h', true) => Unit::Us(3_600_000_000),
            ('m', true) => Unit::Us(60_000_000),
            ('s', true) => Unit::Us(1_000_000),
            _ => return None,
        };
        sum.add(Decimal::parse(&number)?, of)?;
        number.clear();
        any = true;
    }
    (any && number.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn i(text: &str) -> Interval {
        parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn reads_what_postgresql_reads() {
        for (text, shown) in [
            ("1 year 2 months 3 days 04:05:06.789", "1 year 2 mons 3 days 04:05:06.789"),
            ("90 day", "90 days"),
            ("2 days, 1:00:00", "2 days 01:00:00"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 years", "1 year 6 mons"),
            ("1.5 days", "1 day 12:00:00"),
            ("2 weeks", "14 days"),
            ("-1 day 01:00", "-1 days +01:00:00"),
            ("1 day ago", "-1 days"),
            ("@ 1 minute", "00:01:00"),
            ("1-2", "1 year 2 mons"),
            ("3 4:05", "3 days 04:05:00"),
            ("24:00", "24:00:00"),
            ("-00:00:01.5", "-00:00:01.5"),
            ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
            ("1h30m", "01:30:00"),
            ("5", "00:00:05"),
            ("0", "00:00:00"),
            ("1 mon -1 day", "1 mon -1 days"),
        ] {
            assert_eq!(i(text).to_string(), shown, "{text}");
        }
        for (text, state) in
            [("", "22007"), ("1 fortnight", "22007"), ("day", "22007"), ("9999999999 years", "22008")]
        {
            assert_eq!(parse(text).unwrap_err().state.as_str(), state, "{text}");
        }
    }

    #[test]
    fn a_month_is_as_long_as_thirty_days() {
        assert_eq!(i("1 month").length_us(), i("30 days").length_us());
        assert_eq!(i("24:00").length_us(), i("1 day").length_us());
        assert_ne!(i("1 year").length_us(), i("365 days").length_us());
    }

    #[test]
    fn moments_move_by_months_days_and_time() {
        let moved = |text: &str, by: &str| {
            let at = crate::text::parse(text, crate::DataType::Timestamp).unwrap();
            let crate::Datum::Timestamp(us) = at else { unreachable!() };
            i(by)
                .after(us)
                .map_or_else(|e| e.state.to_string(), |us| crate::text::display(&crate::Datum::Timestamp(us)))
        };
        assert_eq!(moved("2024-01-31", "1 month"), "2024-02-29 00:00:00");
        assert_eq!(moved("2024-02-29 12:00", "-1 year"), "2023-02-28 12:00:00");
        assert_eq!(moved("2024-02-29", "1 day 01:30"), "2024-03-01 01:30:00");
        assert_eq!(moved("294246-12-31", "1 year"), "22008");
    }

    #[test]
    fn factors_leave_no_dust() {
        assert_eq!(i("1 month").checked_mul(0.5).unwrap(), i("15 days"));
        assert_eq!(i("1 day").checked_mul(1.5).unwrap(), i("1 day 12:00"));
        assert_eq!(i("1 year").checked_div(12.0).unwrap(), i("1 month"));
        assert_eq!(i("1 day").checked_div(0.0).unwrap_err().state.as_str(), "22012");
    }
}
