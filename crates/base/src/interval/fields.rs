//! Intervals of some fields: `interval '1 2:03' day to minute`.

use super::{Interval, bad, parse};
use crate::error::SqlResult;

const HOUR_US: i64 = 3_600_000_000;

/// Reads an interval whose text is about the fields from `first` to `last`, both of which are one of `year`, `month`, `day`,
/// `hour`, `minute` and `second`: a number alone is of the last one, and what is smaller than that is cut off. `digits`
/// behind the seconds are kept. Errors: 22007, 22008.
pub fn of_fields(text: &str, first: &str, last: &str, digits: Option<u32>) -> SqlResult<Interval> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let mut whole = Vec::with_capacity(words.len());
    for (n, word) in words.iter().enumerate() {
        whole.push(match words.get(n + 1) {
            // Minutes and seconds, where they look like hours and minutes.
            _ if word.matches(':').count() == 1 && (first == "minute" || word.contains('.')) => {
                let digits = word.trim_start_matches(['+', '-']);
                format!("{}0:{digits}", &word[..word.len() - digits.len()])
            }
            _ if !is_number(word) => word.to_string(),
            None => format!("{word} {last}"),
            Some(next) if is_number(next) => match (first, last) {
                ("day", "hour") => format!("{word} day"),
                _ => return Err(bad(text)),
            },
            Some(_) => word.to_string(),
        });
    }
    let read = parse(&whole.join(" ")).map_err(|error| match error.state {
        crate::SqlState::INVALID_DATETIME_FORMAT => bad(text),
        _ => error,
    })?;
    let down_to = |step: i64| Interval { us: read.us - read.us % step, ..read };
    Ok(match last {
        "year" => Interval { months: read.months - read.months % 12, days: 0, us: 0 },
        "month" => Interval { days: 0, us: 0, ..read },
        "day" => Interval { us: 0, ..read },
        "hour" => down_to(HOUR_US),
        "minute" => down_to(HOUR_US / 60),
        _ => match digits {
            Some(digits @ 0..6) => {
                let step = 10_i64.pow(6 - digits);
                let half = step / 2 * read.us.signum();
                let us = read.us.checked_add(half).map_or(read.us, |us| us - us % step);
                Interval { us, ..read }
            }
            _ => read,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_say_what_numbers_are_and_what_is_cut_off() {
        for (text, first, last, digits, wanted) in [
            ("1", "year", "month", None, "1 mon"),
            ("1-2", "year", "month", None, "1 year 2 mons"),
            ("1 2", "day", "hour", None, "1 day 02:00:00"),
            ("1 2:03:04", "day", "hour", None, "1 day 02:00:00"),
            ("1 2:03", "day", "second", None, "1 day 02:03:00"),
            ("1 2:03", "hour", "minute", None, "1 day 02:03:00"),
            ("1 2:03", "minute", "second", None, "1 day 00:02:03"),
            ("1 -2:03", "minute", "second", None, "1 day -00:02:03"),
            ("123 11", "day", "hour", None, "123 days 11:00:00"),
            ("12:34.5678", "minute", "second", Some(2), "00:12:34.57"),
            ("1.234", "second", "second", Some(2), "00:00:01.23"),
            ("1 2:03.4567", "day", "second", Some(2), "1 day 00:02:03.46"),
            ("1 2:03:04.5678", "hour", "second", Some(2), "1 day 02:03:04.57"),
            ("1 year 3 months 5 days", "year", "month", None, "1 year 3 mons"),
            ("2:03", "day", "hour", None, "02:00:00"),
            ("-1-2", "year", "month", None, "-1 years -2 mons"),
        ] {
            assert_eq!(of_fields(text, first, last, digits).unwrap().to_string(), wanted, "{text}");
        }
        for (text, first, last) in [("1 2", "hour", "minute"), ("123 11", "day", "day"), ("x", "day", "day")]
        {
            assert!(of_fields(text, first, last, None).is_err(), "{text}");
        }
    }
}
