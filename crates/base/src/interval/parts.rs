//! Parts of intervals: `extract`.

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
        known @ ("week" | "dow" | "doy" | "isodow" | "isoyear" | "julian" | "timezone") => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("unit \"{known}\" not supported for type interval"),
            ));
        }
        word => {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unit \"{word}\" not recognized for type interval"),
            ));
        }
    })
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
}
