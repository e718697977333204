//! Texts of intervals, bytes and floating-point numbers as a session's settings ask for them: `IntervalStyle`,
//! `bytea_output`, `extra_float_digits`.
//!
//! KEEPS: what these forms say is read back as the same value by a session of any settings, but for digits that were
//! asked to be left out.

use base::interval::Interval;
use base::text::write;
use base::zone::Zone;
use std::fmt::{Result, Write};

/// How values that have several forms are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Where texts of moments are shown.
    pub zone: Zone,
    pub styles: Styles,
}

/// The forms that settings choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Styles {
    pub intervals: IntervalStyle,
    /// Bytes as characters where they are any, instead of hexadecimal digits.
    pub escapes_bytes: bool,
    /// Floating-point numbers with so many digits fewer than their types are sure of; `None`: with as many as tell them
    /// apart.
    pub digits_left_out: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 day 02:03:04`
    #[default]
    Postgres,
    /// `@ 1 day 2 hours 3 mins 4 secs`
    Verbose,
    /// `P1DT2H3M4S`
    Iso,
}

impl IntervalStyle {
    /// The style of a setting's value in small letters; `None` for one that is not written here.
    pub fn named(name: &str) -> Option<IntervalStyle> {
        match name {
            "postgres" => Some(IntervalStyle::Postgres),
            "postgres_verbose" => Some(IntervalStyle::Verbose),
            "iso_8601" => Some(IntervalStyle::Iso),
            _ => None,
        }
    }
}

impl Styles {
    /// What a session's settings say.
    pub fn of<'s>(setting: impl Fn(&str) -> &'s str) -> Styles {
        let digits = setting("extra_float_digits").parse::<i8>().unwrap_or(1);
        Styles {
            intervals: IntervalStyle::named(setting("IntervalStyle")).unwrap_or_default(),
            escapes_bytes: setting("bytea_output") == "escape",
            digits_left_out: (digits <= 0).then_some(digits.unsigned_abs()),
        }
    }

    pub(crate) fn interval(self, out: &mut impl Write, value: Interval) -> Result {
        match self.intervals {
            IntervalStyle::Postgres => write!(out, "{value}"),
            IntervalStyle::Verbose => verbose(out, value),
            IntervalStyle::Iso => iso(out, value),
        }
    }

    pub(crate) fn bytes(self, out: &mut impl Write, bytes: &[u8]) -> Result {
        if !self.escapes_bytes {
            return write::bytea(out, bytes);
        }
        for byte in bytes {
            match byte {
                b'\\' => out.write_str("\\\\")?,
                b' '..=b'~' => out.write_char(char::from(*byte))?,
                _ => write!(out, "\\{byte:03o}")?,
            }
        }
        Ok(())
    }

    pub(crate) fn double(self, out: &mut impl Write, value: f64) -> Result {
        match self.digits_left_out {
            Some(fewer) if value.is_finite() => rounded(out, value, 15 - i32::from(fewer)),
            _ => write::double(out, value),
        }
    }

    pub(crate) fn real(self, out: &mut impl Write, value: f32) -> Result {
        match self.digits_left_out {
            Some(fewer) if value.is_finite() => rounded(out, value.into(), 6 - i32::from(fewer)),
            _ => write::real(out, value),
        }
    }
}

/// A number in so many digits, at least one; without zeros at the end, and in exponential form where it is much greater
/// or less than one.
fn rounded(out: &mut impl Write, value: f64, digits: i32) -> Result {
    let digits = digits.max(1);
    let shown = format!("{:.*e}", (digits - 1) as usize, value);
    let (mantissa, exponent) = shown.split_once('e').expect("the form has an exponent");
    let exponent: i32 = exponent.parse().expect("it is a number");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if (-4..digits).contains(&exponent) {
        return out.write_str(&trimmed(&format!("{value:.*}", (digits - 1 - exponent) as usize)));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// Years, months, days, hours and minutes.
fn parts(value: Interval) -> [i64; 5] {
    let minutes = value.us / 60_000_000;
    [
        i64::from(value.months / 12),
        i64::from(value.months % 12),
        i64::from(value.days),
        minutes / 60,
        minutes % 60,
    ]
}

/// Seconds without their sign, with as many digits behind the point as say something.
fn seconds(out: &mut impl Write, us: u64) -> Result {
    write!(out, "{}", us / 1_000_000)?;
    match us % 1_000_000 {
        0 => Ok(()),
        fraction => out.write_str(format!(".{fraction:06}").trim_end_matches('0')),
    }
}

/// The first part that is not zero says whether all are ago; those of the other sign carry one.
fn verbose(out: &mut impl Write, value: Interval) -> Result {
    out.write_char('@')?;
    let mut is_ago = None;
    for (part, unit) in parts(value).into_iter().zip(["year", "mon", "day", "hour", "min"]) {
        if part != 0 {
            let part = if *is_ago.get_or_insert(part < 0) { -part } else { part };
            write!(out, " {part} {unit}{}", if part == 1 { "" } else { "s" })?;
        }
    }
    let us = value.us % 60_000_000;
    if us != 0 {
        let sign = if (us < 0) == *is_ago.get_or_insert(us < 0) { "" } else { "-" };
        write!(out, " {sign}")?;
        seconds(out, us.unsigned_abs())?;
        out.write_str(if us.unsigned_abs() == 1_000_000 { " sec" } else { " secs" })?;
    }
    out.write_str(match is_ago {
        None => " 0",
        Some(true) => " ago",
        Some(false) => "",
    })
}

fn iso(out: &mut impl Write, value: Interval) -> Result {
    if value.months == 0 && value.days == 0 && value.us == 0 {
        return out.write_str("PT0S");
    }
    let [years, months, days, hours, minutes] = parts(value);
    out.write_char('P')?;
    part(out, years, 'Y')?;
    part(out, months, 'M')?;
    part(out, days, 'D')?;
    if value.us == 0 {
        return Ok(());
    }
    out.write_char('T')?;
    part(out, hours, 'H')?;
    part(out, minutes, 'M')?;
    let us = value.us % 60_000_000;
    if us != 0 {
        out.write_str(if us < 0 { "-" } else { "" })?;
        seconds(out, us.unsigned_abs())?;
        out.write_char('S')?;
    }
    Ok(())
}

fn part(out: &mut impl Write, part: i64, unit: char) -> Result {
    if part == 0 { Ok(()) } else { write!(out, "{part}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{DataType, Datum, text};

    fn shown(text: &str, intervals: IntervalStyle) -> String {
        let Datum::Interval(value) = text::parse(text, DataType::Interval).unwrap() else { panic!("{text}") };
        let mut out = String::new();
        Styles { intervals, ..Styles::default() }.interval(&mut out, value).unwrap();
        out
    }

    #[test]
    fn intervals_are_written_as_postgresql_writes_them() {
        for (text, verbose, iso) in [
            ("0", "@ 0", "PT0S"),
            ("1 day 2:03:04", "@ 1 day 2 hours 3 mins 4 secs", "P1DT2H3M4S"),
            ("-14 secs", "@ 14 secs ago", "PT-14S"),
            (
                "1 year 2 mons -3 days -4:05:06.7",
                "@ 1 year 2 mons -3 days -4 hours -5 mins -6.7 secs",
                "P1Y2M-3DT-4H-5M-6.7S",
            ),
            ("-1 mons 1 day 1:00", "@ 1 mon -1 days -1 hours ago", "P-1M1DT1H"),
            ("1 sec", "@ 1 sec", "PT1S"),
            ("-0.1 secs", "@ 0.1 secs ago", "PT-0.1S"),
        ] {
            assert_eq!(shown(text, IntervalStyle::Verbose), verbose);
            assert_eq!(shown(text, IntervalStyle::Iso), iso);
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_digits_asked_for() {
        let shown = |value: f64, fewer| {
            let mut out = String::new();
            Styles { digits_left_out: Some(fewer), ..Styles::default() }.double(&mut out, value).unwrap();
            out
        };
        for (value, wanted) in [
            (2f64.sqrt(), "1.4142135623731"),
            (0.1 + 0.2, "0.3"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (0.000_1, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (-0.0, "-0"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(shown(value, 0), wanted);
        }
        assert_eq!((shown(1234.5, 13), shown(9.99, 20)), ("1.2e+03".into(), "1e+01".into()));
    }

    #[test]
    fn bytes_are_characters_where_they_are_any() {
        let mut out = String::new();
        let styles = Styles { escapes_bytes: true, ..Styles::default() };
        styles.bytes(&mut out, b"a\\b\0\xde~\x7f").unwrap();
        assert_eq!(out, r"a\\b\000\336~\177");
    }
}
