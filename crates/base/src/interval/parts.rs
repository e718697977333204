//! Parts of intervals: `extract`, `date_trunc`.

use super::Interval;
use crate::error::{SqlError, SqlResult, SqlState};

/// `extract(unit from span)`, as PostgreSQL counts: an epoch's year has 365.25 days. Errors: 0A000 for units that an interval
/// does not have, 22023 for words that are none.
pub fn part(unit: &str, span: Interval) -> SqlResult<f64> {
    let (years, months) = (span.months / 12, span.months % 12);
    let of_minute = span.us % 60_000_000;
    Ok(match unit.to_ascii_lowercase().as_str() {
        "millennium" | "millennia" => f64::from(years / 1_000),
        "century" | "centuries" => f64::from(years / 100),
        "decade" | "decades" => f64::from(years / 10),
        "year" | "years" => f64::from(years),
        "quarter" => f64::from(months / 3 + 1),
        "month" | "months" => f64::from(months),
        "day" | "days" => f64::from(span.days),
        "hour" | "hours" => (span.us / 3_600_000_000) as f64,
        "minute" | "minutes" => (span.us / 60_000_000 % 60) as f64,
        "second" | "seconds" => of_minute as f64 / 1e6,
        "millisecond" | "milliseconds" => of_minute as f64 / 1e3,
        "microsecond" | "microseconds" => of_minute as f64,
        "epoch" => {
            let days = 365.25 * f64::from(years) + f64::from(30 * months) + f64::from(span.days);
            days * 86_400.0 + span.us as f64 / 1e6
        }
        word => return Err(no_unit(word)),
    })
}

/// `date_trunc(unit, span)`: the span without what is smaller than the unit. Errors: those of [`part`].
pub fn truncated(unit: &str, span: Interval) -> SqlResult<Interval> {
    let months = |of: i32| Interval { months: span.months / of * of, days: 0, us: 0 };
    let time = |of: i64| Interval { us: span.us / of * of, ..span };
    Ok(match unit.to_ascii_lowercase().as_str() {
        "millennium" | "millennia" => months(12_000),
        "century" | "centuries" => months(1_200),
        "decade" | "decades" => months(120),
        "year" | "years" => months(12),
        "quarter" => months(3),
        "month" | "months" => months(1),
        "day" | "days" => Interval { us: 0, ..span },
        "hour" | "hours" => time(3_600_000_000),
        "minute" | "minutes" => time(60_000_000),
        "second" | "seconds" => time(1_000_000),
        "millisecond" | "milliseconds" => time(1_000),
        "microsecond" | "microseconds" => span,
        word => return Err(no_unit(word)),
    })
}

fn no_unit(word: &str) -> SqlError {
    let is_of_moments = matches!(word, "week" | "dow" | "doy" | "isodow" | "isoyear" | "julian" | "timezone");
    let (state, told) = match is_of_moments {
        true => (SqlState::FEATURE_NOT_SUPPORTED, "supported"),
        false => (SqlState::INVALID_PARAMETER_VALUE, "recognized"),
    };
    SqlError::new(state, format!("unit \"{word}\" not {told} for type interval"))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn parts_are_postgresql_s() {
        let span = parse("1 year 2 mons -3 days 04:05:06.789").unwrap();
        for (unit, wanted) in [
            ("epoch", 36_497_106.789),
            ("month", 2.0),
            ("day", -3.0),
            ("hour", 4.0),
            ("second", 6.789),
            ("milliseconds", 6_789.0),
            ("quarter", 1.0),
        ] {
            assert_eq!(part(unit, span).unwrap(), wanted, "{unit}");
        }
        assert_eq!(part("hour", parse("100:00").unwrap()).unwrap(), 100.0);
        assert_eq!(part("dow", span).unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(part("fortnight", span).unwrap_err().state, SqlState::INVALID_PARAMETER_VALUE);
    }

    #[test]
    fn what_is_smaller_than_a_unit_is_cut_off() {
        let span = parse("-25 years -5 mons -3 days -04:05:06.789").unwrap();
        for (unit, wanted) in [
            ("decade", "-20 years"),
            ("quarter", "-25 years -3 mons"),
            ("month", "-25 years -5 mons"),
            ("day", "-25 years -5 mons -3 days"),
            ("minute", "-25 years -5 mons -3 days -04:05:00"),
        ] {
            assert_eq!(truncated(unit, span), parse(wanted), "{unit}");
        }
        assert_eq!(truncated("week", span).unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(truncated("epoch", span).unwrap_err().state, SqlState::INVALID_PARAMETER_VALUE);
    }
}
