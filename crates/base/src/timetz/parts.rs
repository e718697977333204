//! Parts of times of day with an offset, and their text.

use super::TimeTz;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::interval::{self, Interval};
use crate::text::write;
use std::fmt;

impl TimeTz {
    /// A part of it as `date_part` names it. Errors: 0A000 for parts of days and moments, 22023 for what is no unit.
    pub fn part(self, unit: &str) -> SqlResult<f64> {
        let unit = unit.to_ascii_lowercase();
        let offset_s = self.offset_s();
        Ok(match unit.as_str() {
            "timezone" => offset_s.into(),
            "timezone_hour" => (offset_s / 3_600).into(),
            "timezone_minute" => (offset_s / 60 % 60).into(),
            "epoch" => self.us_utc() as f64 / 1e6,
            _ => {
                let of_clock = Interval { us: self.us(), ..Default::default() };
                let is_of_time = ["hour", "minute", "second", "millisecond", "microsecond"];
                match is_of_time.contains(&unit.trim_end_matches('s')) {
                    true => interval::part(&unit, of_clock)?,
                    false => return Err(no_part(&unit)),
                }
            }
        })
    }
}

fn no_part(unit: &str) -> SqlError {
    const OF_DAYS: &[&str] = &[
        "day",
        "week",
        "month",
        "quarter",
        "year",
        "decade",
        "century",
        "millennium",
        "dow",
        "doy",
        "isodow",
        "isoyear",
        "julian",
    ];
    let (state, told) = match OF_DAYS.contains(&unit.trim_end_matches('s')) {
        true => (SqlState::FEATURE_NOT_SUPPORTED, "supported"),
        false => (SqlState::INVALID_PARAMETER_VALUE, "recognized"),
    };
    SqlError::new(state, format!("unit \"{unit}\" not {told} for type time with time zone"))
}

/// `10:00:00+01`
impl fmt::Display for TimeTz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write::time(f, self.us())?;
        write::offset(f, self.offset_s())
    }
}
