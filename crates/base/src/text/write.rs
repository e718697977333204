//! The text forms of values, written to where they go without a string of their own.
//!
//! KEEPS: each type's form stands here once. [`super::display`] and everything that answers a client use it.

use super::civil;
use crate::datum::US_PER_DAY;
use crate::zone::Zone;
use crate::{DataType, Datum};
use std::fmt::{Result, Write};

/// A value as its type prints it (`timestamptz` in a zone with its offset, `char(n)` padded, `real` with its own
/// digits). Null is nothing.
pub fn value(out: &mut impl Write, value: &Datum, data_type: DataType, zone: Zone) -> Result {
    match (value, data_type) {
        (Datum::Null, _) => Ok(()),
        (Datum::Bool(b), _) => boolean(out, *b),
        (Datum::Int(code), DataType::Enum(of)) => out.write_str(of.label(*code).unwrap_or_default()),
        (Datum::Int(i), _) => integer(out, *i),
        (Datum::Float(f), DataType::Real) => real(out, *f as f32),
        (Datum::Float(f), _) => double(out, *f),
        (Datum::Decimal(d), _) => write!(out, "{d}"),
        (Datum::Text(s), DataType::Char { length }) => padded(out, s, length),
        (Datum::Text(s), _) => out.write_str(s),
        (Datum::Date(d), _) => date(out, *d),
        (Datum::Timestamp(us), DataType::TimestampTz) => timestamptz(out, *us, zone),
        (Datum::Timestamp(us), _) => timestamp(out, *us),
        (Datum::Uuid(u), _) => uuid(out, u),
        (Datum::Bytes(b), _) => bytea(out, b),
        (Datum::Time(us), _) => time(out, *us),
        (Datum::Interval(interval), _) => write!(out, "{interval}"),
        (Datum::Json(text), _) => out.write_str(text),
        (Datum::Inet(address), DataType::Cidr) => write!(out, "{}/{}", address.host(), address.prefix_bits()),
        (Datum::Inet(address), _) => write!(out, "{address}"),
        (Datum::TimeTz(time), _) => write!(out, "{time}"),
        (Datum::Array(values), DataType::Composite(of)) => {
            let shown = |(at, value): (usize, &Datum)| {
                (!value.is_null()).then(|| super::display_in(value, of.type_at(at), zone))
            };
            let fields: Vec<_> = values.iter().enumerate().map(shown).collect();
            out.write_str(&crate::composite::display(&fields))
        }
        (Datum::Array(elements), data_type) => array(out, elements, data_type, zone),
    }
}

pub fn boolean(out: &mut impl Write, value: bool) -> Result {
    out.write_str(if value { "t" } else { "f" })
}

pub fn integer(out: &mut impl Write, value: i64) -> Result {
    out.write_str(itoa::Buffer::new().format(value))
}

pub fn double(out: &mut impl Write, value: f64) -> Result {
    match special(value) {
        Some(word) => out.write_str(word),
        None => float(out, ryu::Buffer::new().format_finite(value), 15),
    }
}

pub fn real(out: &mut impl Write, value: f32) -> Result {
    match special(value.into()) {
        Some(word) => out.write_str(word),
        None => float(out, ryu::Buffer::new().format_finite(value), 6),
    }
}

/// Text of a `char(n)`: blanks up to its length in characters.
pub fn padded(out: &mut impl Write, text: &str, length: u32) -> Result {
    const BLANKS: &str = "                                ";
    out.write_str(text)?;
    let mut missing = (length as usize).saturating_sub(text.chars().count());
    while missing > 0 {
        let some = missing.min(BLANKS.len());
        out.write_str(&BLANKS[..some])?;
        missing -= some;
    }
    Ok(())
}

/// A day, counted from 2000-01-01.
pub fn date(out: &mut impl Write, day: i32) -> Result {
    let mut text = Ascii::default();
    let is_bc = text.day(day);
    text.era(is_bc);
    out.write_str(text.as_str())
}

/// A moment in µs since 2000-01-01, without a zone.
pub fn timestamp(out: &mut impl Write, us: i64) -> Result {
    let mut text = Ascii::default();
    let is_bc = text.moment(us);
    text.era(is_bc);
    out.write_str(text.as_str())
}

/// A moment in µs since 2000-01-01 UTC, shown in a zone.
pub fn timestamptz(out: &mut impl Write, us: i64, zone: Zone) -> Result {
    let mut text = Ascii::default();
    let offset_s = zone.offset_s(us);
    let is_bc = text.moment(us.saturating_add(i64::from(offset_s) * 1_000_000));
    text.offset(offset_s);
    text.era(is_bc);
    out.write_str(text.as_str())
}

/// A time of day in µs since midnight.
pub fn time(out: &mut impl Write, us: i64) -> Result {
    let mut text = Ascii::default();
    text.clock(us);
    out.write_str(text.as_str())
}

/// An offset of so many seconds ahead of UTC.
pub fn offset(out: &mut impl Write, east_s: i32) -> Result {
    let mut text = Ascii::default();
    text.offset(east_s);
    out.write_str(text.as_str())
}

fn array(out: &mut impl Write, elements: &[Datum], data_type: DataType, zone: Zone) -> Result {
    let of = match data_type {
        DataType::Array(of) => of.data_type(),
        _ => DataType::Text,
    };
    let shown = |element: &Datum| (!element.is_null()).then(|| super::display_in(element, of, zone));
    out.write_str(&super::array::display(&elements.iter().map(shown).collect::<Vec<_>>()))
}

pub fn uuid(out: &mut impl Write, bytes: &[u8; 16]) -> Result {
    let mut text = Ascii::default();
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push(b"-");
        }
        text.hex(*byte);
    }
    out.write_str(text.as_str())
}

pub fn bytea(out: &mut impl Write, bytes: &[u8]) -> Result {
    out.write_str("\\x")?;
    for some in bytes.chunks(ASCII_BYTES / 2) {
        let mut text = Ascii::default();
        some.iter().for_each(|byte| text.hex(*byte));
        out.write_str(text.as_str())?;
    }
    Ok(())
}

fn special(f: f64) -> Option<&'static str> {
    match f {
        f if f.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// Lays the shortest digits of a number out as PostgreSQL does: with an exponent below 1e-4 and from 1e15 on, for
/// `real` from 1e6 on. They come as `[-]12.5`, where an integer ends in `.0`, or as `[-]1.25e30`.
fn float(out: &mut impl Write, shortest: &str, plain_below: i32) -> Result {
    let (sign, unsigned) = match shortest.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", shortest),
    };
    let (mantissa, written) = match unsigned.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let leading = || fraction.bytes().take_while(|b| *b == b'0').count() as i32;
    let exponent = match written {
        Some(exponent) => exponent,
        None if whole != "0" => whole.len() as i32 - 1,
        None if fraction == "0" => 0,
        None => -1 - leading(),
    };
    out.write_str(sign)?;
    if written.is_none() && (-4..plain_below).contains(&exponent) {
        return out.write_str(mantissa.strip_suffix(".0").unwrap_or(mantissa));
    }
    let mut digits = Ascii::default();
    digits.push(whole.as_bytes());
    digits.push(fraction.as_bytes());
    let digits = digits.as_str().trim_matches('0');
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "{first}{point}{rest}e{sign}{:02}", exponent.abs())
}

/// Room for a moment, a uuid, a float's digits, or a piece of bytes in hexadecimal.
const ASCII_BYTES: usize = 64;

/// Characters that were built one by one.
struct Ascii {
    bytes: [u8; ASCII_BYTES],
    count: usize,
}

impl Default for Ascii {
    fn default() -> Ascii {
        Ascii { bytes: [0; ASCII_BYTES], count: 0 }
    }
}

impl Ascii {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.count]).expect("only ASCII was pushed")
    }

    fn push(&mut self, ascii: &[u8]) {
        self.bytes[self.count..self.count + ascii.len()].copy_from_slice(ascii);
        self.count += ascii.len();
    }

    /// Two digits of a number below 100.
    fn pair(&mut self, n: u32) {
        self.push(&[b'0' + (n / 10) as u8, b'0' + (n % 10) as u8]);
    }

    fn hex(&mut self, byte: u8) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.push(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }

    /// `2026-11-21`; true for a year before Christ, which is to be said at the end.
    fn day(&mut self, day: i32) -> bool {
        let (year, month, day) = civil(day);
        let is_bc = year < 1;
        let year = if is_bc { 1 - year } else { year } as u32;
        match year {
            0..10_000 => {
                self.pair(year / 100);
                self.pair(year % 100);
            }
            _ => self.push(itoa::Buffer::new().format(year).as_bytes()),
        }
        self.push(b"-");
        self.pair(month);
        self.push(b"-");
        self.pair(day);
        is_bc
    }

    /// `2026-11-21 20:53:07.25`.
    fn moment(&mut self, us: i64) -> bool {
        let day = us.div_euclid(US_PER_DAY);
        let rest = us.rem_euclid(US_PER_DAY);
        let is_bc = self.day(i32::try_from(day).unwrap_or(i32::MAX));
        self.push(b" ");
        self.clock(rest);
        is_bc
    }

    /// `20:53:07.25`.
    fn clock(&mut self, us: i64) {
        let (seconds, fraction) = ((us / 1_000_000) as u32, (us % 1_000_000) as u32);
        self.pair(seconds / 3_600);
        self.push(b":");
        self.pair(seconds / 60 % 60);
        self.push(b":");
        self.pair(seconds % 60);
        if fraction != 0 {
            self.push(b".");
            self.pair(fraction / 10_000);
            self.pair(fraction / 100 % 100);
            self.pair(fraction % 100);
            while self.bytes[self.count - 1] == b'0' {
                self.count -= 1;
            }
        }
    }

    /// `+01`, `-03:30`, `+00:53:28`.
    fn offset(&mut self, east_s: i32) {
        let s = east_s.unsigned_abs();
        self.push(if east_s < 0 { b"-" } else { b"+" });
        self.pair(s / 3_600);
        for (part, rest) in [(s / 60 % 60, s % 3_600), (s % 60, s % 60)] {
            if rest != 0 {
                self.push(b":");
                self.pair(part);
            }
        }
    }

    fn era(&mut self, is_bc: bool) {
        if is_bc {
            self.push(b" BC");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn written(write: impl FnOnce(&mut String) -> Result) -> String {
        let mut out = String::new();
        write(&mut out).unwrap();
        out
    }

    #[test]
    fn floats_have_the_shortest_digits_in_postgresql_s_layout() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1e15, "1e+15"),
            (123456789012345.0, "123456789012345"),
            (-1234567890123456.0, "-1.234567890123456e+15"),
            (0.0001, "0.0001"),
            (0.00001234, "1.234e-05"),
            (5e-324, "5e-324"),
            // Halfway between two candidates of 17 digits, the even one.
            (2f64.powi(-25), "2.9802322387695312e-08"),
            (2f64.powi(-44), "5.684341886080802e-14"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(written(|out| double(out, value)), text);
        }
        assert_eq!(written(|out| real(out, 999_999.9)), "999999.9");
        assert_eq!(written(|out| real(out, 1e6)), "1e+06");
        assert_eq!(written(|out| real(out, 16_777_216.0)), "1.6777216e+07");
        let mut rng = Rng::new(7);
        let powers = (0..2046u64).map(|exponent| exponent << 52);
        let drawn: Vec<u64> = (0..20_000).map(|_| rng.next_u64()).collect();
        for bits in powers.chain(drawn) {
            let (f, g) = (f64::from_bits(bits), f32::from_bits(bits as u32));
            if f.is_finite() {
                let text = written(|out| double(out, f));
                assert_eq!(text.parse(), Ok(f));
                assert_eq!(digits(&text), digits(&format!("{f:e}")), "{text}");
            }
            if g.is_finite() {
                let text = written(|out| real(out, g));
                assert_eq!(text.parse(), Ok(g));
                assert_eq!(digits(&text), digits(&format!("{g:e}")), "{text}");
            }
        }
    }

    /// How many digits a number is written with.
    fn digits(text: &str) -> usize {
        let mantissa = text.split('e').next().unwrap().replace(['-', '.'], "");
        mantissa.trim_matches('0').len()
    }

    #[test]
    fn moments_keep_their_era_at_the_end() {
        let day = |y, m, d| super::super::day_number(y, m, d).unwrap();
        assert_eq!(written(|out| date(out, day(-43, 3, 15))), "0044-03-15 BC");
        assert_eq!(written(|out| date(out, day(12_345, 1, 2))), "12345-01-02");
        assert_eq!(written(|out| date(out, i32::MAX)), "5881610-07-11");
        assert_eq!(written(|out| timestamp(out, -1)), "1999-12-31 23:59:59.999999");
        assert_eq!(written(|out| timestamp(out, 120_000)), "2000-01-01 00:00:00.12");
        let us = i64::from(day(0, 1, 1)) * US_PER_DAY + 10;
        assert_eq!(written(|out| timestamptz(out, us, Zone::Utc)), "0001-01-01 00:00:00.00001+00 BC");
        assert_eq!(written(|out| timestamp(out, i64::MIN)), "290279-12-22 19:59:05.224192 BC");
    }

    #[test]
    fn long_bytes_and_long_paddings_are_written_in_pieces() {
        let bytes: Vec<u8> = (0..200).collect();
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(written(|out| bytea(out, &bytes)), format!("\\x{hex}"));
        assert_eq!(written(|out| padded(out, "é", 70_000)).chars().count(), 70_000);
        assert_eq!(written(|out| padded(out, "abc", 2)), "abc");
    }
}
