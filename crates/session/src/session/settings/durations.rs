//! Durations as settings: read and shown as PostgreSQL does.

use base::error::{SqlError, SqlResult, SqlState};

/// Units, the largest first, with their milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

/// Longest duration of a setting, in ms.
const MS_MAX: f64 = i32::MAX as f64;

/// `0`, `250`, `250ms`, `1.5s`, `5min`, `1h`, `1d`. Errors: 22023.
pub fn milliseconds(name: &str, value: &str) -> SqlResult<u64> {
    let invalid = || {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"{name}\": \"{value}\""),
        )
    };
    let text = value.trim();
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| invalid())?;
    let factor = match text[end..].trim() {
        "" => 1.0,
        "us" => 0.001,
        unit => match UNITS.iter().find(|(u, _)| *u == unit) {
            Some((_, ms)) => *ms as f64,
            None => {
                let units =
                    "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".";
                return Err(invalid().hint(units));
            }
        },
    };
    let ms = (number * factor).round_ties_even();
    if !(0.0..=MS_MAX).contains(&ms) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("{ms} ms is outside the valid range for parameter \"{name}\" (0 .. {MS_MAX})"),
        ));
    }
    Ok(ms as u64)
}

/// In the largest unit that shows it without a fraction; 0 without one.
pub fn shown_ms(ms: u64) -> String {
    match UNITS.iter().find(|(_, unit)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None => "0".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown() {
        for (text, ms, shown) in [
            ("0", 0, "0"),
            ("250", 250, "250ms"),
            (" 1.5s ", 1_500, "1500ms"),
            ("90 s", 90_000, "90s"),
            ("5min", 300_000, "5min"),
            ("24h", 86_400_000, "1d"),
            ("1500us", 2, "2ms"),
        ] {
            assert_eq!(milliseconds("t", text).unwrap(), ms, "{text}");
            assert_eq!(shown_ms(ms), shown);
        }
        for text in ["", "x", "1 week", "-1", "3000000000", "1S"] {
            assert_eq!(milliseconds("t", text).unwrap_err().state.as_str(), "22023", "{text}");
        }
    }
}
