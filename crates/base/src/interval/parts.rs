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

/// `extract(unit from moment)` of units that count years as people do, without a year 0, and of days; `None` for other
/// units. The moment is in µs since 1970.
pub fn part_of_moment(unit: &str, us: i64) -> Option<f64> {
    /// The Julian day on which 1970 began.
    const JULIAN_OF_1970: f64 = 2_440_588.0;
    let day = us.div_euclid(crate::datum::US_PER_DAY);
    let (year, _, _) = crate::text::civil(i32::try_from(day).ok()?);
    // So many years, of which the first begins with the year 1, and the last before it ends with 1 BC, the year 0.
    let spans = |length: i64| match year > 0 {
        true => (year + length - 1) / length,
        false => -((length - year) / length),
    };
    Some(match unit.to_ascii_lowercase().as_str() {
        "decade" | "decades" if year >= 0 => (year / 10) as f64,
        "decade" | "decades" => -((9 - year) / 10) as f64,
        "century" | "centuries" => spans(100) as f64,
        "millennium" | "millennia" => spans(1_000) as f64,
        "julian" => us as f64 / crate::datum::US_PER_DAY as f64 + JULIAN_OF_1970,
        _ => return None,
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

    #[test]
    fn years_of_a_moment_are_counted_without_a_year_0() {
        let begins =
            |year| i64::from(crate::text::day_number(year, 1, 1).unwrap()) * crate::datum::US_PER_DAY;
        for (year, century, decade) in
            [(2000, 20.0, 200.0), (2001, 21.0, 200.0), (1, 1.0, 0.0), (0, -1.0, 0.0), (-100, -2.0, -10.0)]
        {
            assert_eq!(part_of_moment("century", begins(year)), Some(century), "{year}");
            assert_eq!(part_of_moment("Decade", begins(year)), Some(decade), "{year}");
        }
        assert_eq!(part_of_moment("julian", begins(1970)), Some(2_440_588.0));
        assert_eq!(part_of_moment("year", begins(1970)), None);
    }
}
