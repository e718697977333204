//! Intervals and times of day on the wire. A session has them as text, in the form that it shows.

/// Months, days and µs of an interval as IntervalStyle `postgres` shows it (`1 year 2 mons -3 days 04:05:06.5`), as
/// drivers write it (`2 days, 1:00:00`), or as [`interval_text`] does; `None` for other forms.
pub fn interval(text: &str) -> Option<(i32, i32, i64)> {
    let (mut months, mut days, mut us) = (0i64, 0i64, 0i64);
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word.contains(':') {
            us = us.checked_add(clock(word)?)?;
            continue;
        }
        let number: i64 = word.parse().ok()?;
        let (part, factor) = match words.next()?.trim_end_matches(',').trim_end_matches('s') {
            "year" => (&mut months, 12),
            "mon" | "month" => (&mut months, 1),
            "week" => (&mut days, 7),
            "day" => (&mut days, 1),
            "hour" => (&mut us, 3_600_000_000),
            "minute" => (&mut us, 60_000_000),
            "second" => (&mut us, 1_000_000),
            "microsecond" => (&mut us, 1),
            _ => return None,
        };
        *part = part.checked_add(number.checked_mul(factor)?)?;
    }
    Some((months.try_into().ok()?, days.try_into().ok()?, us))
}

/// An interval in words that a cast reads.
pub fn interval_text(months: i32, days: i32, us: i64) -> String {
    format!("{months} months {days} days {us} microseconds")
}

/// µs of `[-]hh:mm:ss[.ffffff]`.
pub fn clock(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = digits.splitn(3, ':');
    let mut part = || parts.next()?.parse::<i64>().ok();
    let (hours, minutes) = (part()?, part()?);
    let (seconds, fraction) = match parts.next() {
        None => ("0", ""),
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "")),
    };
    let fraction: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let seconds = hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds.parse::<i64>().ok()?)?;
    Some(sign * seconds.checked_mul(1_000_000)?.checked_add(fraction)?)
}

pub fn clock_text(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "" };
    let us = us.unsigned_abs();
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    format!("{sign}{:02}:{:02}:{:02}.{fraction:06}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_times_are_read_as_they_are_shown() {
        for (text, parts) in [
            ("1 year 2 mons 3 days 04:05:06.789", (14, 3, 14_706_789_000)),
            ("-1 days +01:00:00", (0, -1, 3_600_000_000)),
            ("-00:00:01", (0, 0, -1_000_000)),
            ("1 mon", (1, 0, 0)),
            ("2 days, 1:00:00", (0, 2, 3_600_000_000)),
            ("1 week 2 hours", (0, 7, 7_200_000_000)),
            ("00:00:00", (0, 0, 0)),
        ] {
            assert_eq!(interval(text), Some(parts), "{text}");
            assert_eq!(interval(&interval_text(parts.0, parts.1, parts.2)), Some(parts));
        }
        assert_eq!(clock("23:59:59.000001"), Some(86_399_000_001));
        assert_eq!(clock_text(86_399_000_001), "23:59:59.000001");
        assert_eq!(interval("1 fortnight"), None);
        assert_eq!(clock("12"), None);
    }
}
