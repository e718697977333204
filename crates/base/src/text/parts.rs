//! Parts of moments that are counted by the calendar: `extract`.

use super::{civil, day_number};
use crate::datum::US_PER_DAY;
use crate::error::{SqlError, SqlResult, SqlState};

/// Julian day of 2000-01-01.
pub const JULIAN_2000: f64 = 2_451_545.0;

/// Whether a unit is a year, one counted in years, or the Julian day.
pub fn is_of_calendar(unit: &str) -> bool {
    matches!(singular(unit), "year" | "isoyear" | "decade" | "century" | "millennium" | "julian")
}

/// Units have plurals.
fn singular(unit: &str) -> &str {
    match unit {
        "years" => "year",
        "decades" => "decade",
        "centuries" => "century",
        "millennia" => "millennium",
        other => other,
    }
}

/// `extract(unit from at)`, of µs since 2000. There is no year zero: before the year 1 was -1. Errors: 22023 for other units.
pub fn of_calendar(unit: &str, us: i64) -> SqlResult<f64> {
    let day = us.div_euclid(US_PER_DAY) as i32;
    let (year, _, _) = civil(day);
    let counted = |year: i64| if year > 0 { year } else { year - 1 };
    // A century ends with its hundredth year.
    let spans = |length: i64| match year {
        1.. => (year + length - 1) / length,
        _ => -((length - 1 - (year - 1)) / length),
    };
    Ok(match singular(unit) {
        "year" => counted(year) as f64,
        "isoyear" => counted(iso_year(day, year)) as f64,
        "decade" => year.div_euclid(10) as f64,
        "century" => spans(100) as f64,
        "millennium" => spans(1_000) as f64,
        "julian" => f64::from(day) + JULIAN_2000 + us.rem_euclid(US_PER_DAY) as f64 / US_PER_DAY as f64,
        unit => {
            let told = format!("unit \"{unit}\" not recognized for type timestamp without time zone");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told));
        }
    })
}

/// The year that has most of a day's week: that of its Thursday.
fn iso_year(day: i32, year: i64) -> i64 {
    // 2000-01-03 was a Monday.
    let thursday = day - (day - 2).rem_euclid(7) + 3;
    match (day_number(year, 1, 1), day_number(year + 1, 1, 1)) {
        (Some(first), _) if thursday < first => year - 1,
        (_, Some(next)) if thursday >= next => year + 1,
        _ => year,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Datum};

    #[test]
    fn parts_are_postgresql_s() {
        let part = |unit: &str, text: &str| {
            let Ok(Datum::Timestamp(us)) = crate::text::parse(text, DataType::Timestamp) else {
                panic!("{text}")
            };
            of_calendar(unit, us).unwrap()
        };
        for (unit, text, wanted) in [
            ("year", "0044-03-15 BC", -44.0),
            ("year", "0001-03-15", 1.0),
            ("century", "2000-12-31", 20.0),
            ("century", "2001-01-01", 21.0),
            ("century", "0044-03-15 BC", -1.0),
            ("century", "0101-03-15 BC", -2.0),
            ("millennium", "2001-01-01", 3.0),
            ("millennium", "0044-03-15 BC", -1.0),
            ("decade", "1999-01-01", 199.0),
            ("decade", "0044-03-15 BC", -5.0),
            ("isoyear", "2006-01-01", 2005.0),
            ("isoyear", "2020-12-31", 2020.0),
            ("isoyear", "2018-12-31", 2019.0),
            ("julian", "2000-01-01 12:00", 2_451_545.5),
        ] {
            assert_eq!(part(unit, text), wanted, "{unit} {text}");
        }
    }
}
