//! Exact decimal numbers: units × 10^−scale, up to 38 digits, as Arrow's Decimal128 has them.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// Most digits a decimal may have.
pub const PRECISION_MAX: u8 = 38;

/// An exact decimal number. Equality and order are by value: 1.0 = 1.00.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Decimal {
    units: i128,
    scale: u8,
}

impl Decimal {
    pub const ZERO: Decimal = Decimal { units: 0, scale: 0 };

    /// `units` × 10^−`scale`.
    pub const fn new(units: i128, scale: u8) -> Decimal {
        Decimal { units, scale }
    }
    pub const fn units(&self) -> i128 {
        self.units
    }
    pub const fn scale(&self) -> u8 {
        self.scale
    }
    /// Digits of the unscaled number; zero has none.
    pub fn digits(&self) -> u32 {
        self.units.unsigned_abs().checked_ilog10().map_or(0, |log| log + 1)
    }
    /// Same value at another scale, rounding half away from zero; `None` if it does not fit.
    pub fn rescale(self, scale: u8) -> Option<Decimal> {
        let units = match scale.cmp(&self.scale) {
            Ordering::Equal => self.units,
            Ordering::Greater => self.units.checked_mul(power_of_ten(scale - self.scale)?)?,
            Ordering::Less => match power_of_ten(self.scale - scale) {
                Some(divisor) => divide_rounding(self.units, divisor),
                None => 0,
            },
        };
        Decimal { units, scale }.checked()
    }
    pub fn checked_add(self, other: Decimal) -> Option<Decimal> {
        let (a, b, scale) = self.aligned(other)?;
        Decimal { units: a.checked_add(b)?, scale }.checked()
    }
    pub fn checked_sub(self, other: Decimal) -> Option<Decimal> {
        self.checked_add(other.negated())
    }
    /// Product, rounded behind the point where it has more than 38 digits; `None` if they have no room before it.
    pub fn checked_mul(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.checked_add(other.scale)?;
        if scale <= PRECISION_MAX
            && let Some(units) = self.units.checked_mul(other.units)
            && let Some(product) = (Decimal { units, scale }).checked()
        {
            return Some(product);
        }
        let product = Wide::product(self.units.unsigned_abs(), other.units.unsigned_abs());
        let excess = product.digits().saturating_sub(u32::from(PRECISION_MAX));
        let mut dropped = excess.max(u32::from(scale.saturating_sub(PRECISION_MAX)));
        // Rounding up may take one digit more: 99.95 is 100.0.
        loop {
            let scale = scale.checked_sub(u8::try_from(dropped).ok()?)?;
            let units = i128::try_from(product.rounded(dropped)?).ok()?;
            let is_negative = (self.units < 0) != (other.units < 0);
            let rounded = Decimal { units: if is_negative { -units } else { units }, scale };
            match rounded.checked() {
                Some(rounded) => return Some(rounded),
                None => dropped += 1,
            }
        }
    }
    /// Quotient with as many digits as PostgreSQL gives it: at least 16 that count, and no fewer behind the point
    /// than either side has. Fewer if 38 digits have no room for them; `None` on overflow. Division by zero is
    /// the caller's to refuse.
    pub fn checked_div(self, other: Decimal) -> Option<Decimal> {
        assert!(other.units != 0, "division by zero is refused before");
        let wanted = self.quotient_scale(other).min(PRECISION_MAX);
        let least = self.scale.max(other.scale);
        (least..=wanted).rev().find_map(|scale| self.div_at(other, scale))
    }

    /// How many digits behind the point PostgreSQL gives a quotient. It counts in groups of four digits.
    fn quotient_scale(self, other: Decimal) -> u8 {
        let ((a, first_a), (b, first_b)) = (self.leading_group(), other.leading_group());
        let weight = a - b - i32::from(first_a <= first_b);
        (16 - 4 * weight).max(i32::from(self.scale.max(other.scale))).clamp(0, 100) as u8
    }

    /// Weight and value of the first group of four digits that is not zero; groups are counted from the point.
    pub(crate) fn leading_group(self) -> (i32, u128) {
        let units = self.units.unsigned_abs();
        if units == 0 {
            return (0, 0);
        }
        // Position of the first digit, from the point: 0 is the units' place.
        let place = self.digits() as i32 - 1 - i32::from(self.scale);
        let weight = place.div_euclid(4);
        // Digits from the group's last place on are cut off.
        let cut = i32::from(self.scale) + weight * 4;
        let ten = |n: i32| 10u128.pow(n as u32);
        (weight, if cut >= 0 { units / ten(cut) } else { units * ten(-cut) })
    }

    /// Quotient at a scale, rounded half away from zero; `None` if it does not fit.
    pub fn div_at(self, other: Decimal, scale: u8) -> Option<Decimal> {
        let shift = i32::from(scale) + i32::from(other.scale) - i32::from(self.scale);
        let (a, b) = (self.units.unsigned_abs(), other.units.unsigned_abs());
        let negative = (self.units < 0) != (other.units < 0);
        let (mut quotient, mut rest, divisor) = match shift {
            0.. => (a / b, a % b, b),
            _ => {
                let divisor = b.checked_mul(10u128.checked_pow(shift.unsigned_abs())?)?;
                (a / divisor, a % divisor, divisor)
            }
        };
        for _ in 0..shift.max(0) {
            let digit;
            (digit, rest) = next_digit(rest, divisor);
            quotient = quotient.checked_mul(10)?.checked_add(digit)?;
        }
        if rest >= divisor - rest {
            quotient += 1;
        }
        let units = i128::try_from(quotient).ok()?;
        Decimal { units: if negative { -units } else { units }, scale }.checked()
    }

    /// Rounded half away from zero to so many digits behind the point, or before it if negative.
    pub fn round_at(self, digits: i64) -> Option<Decimal> {
        self.cut_at(digits, divide_rounding)
    }
    /// The same, cut off.
    pub fn trunc_at(self, digits: i64) -> Option<Decimal> {
        self.cut_at(digits, |units, divisor| units / divisor)
    }
    fn cut_at(self, digits: i64, divide: impl Fn(i128, i128) -> i128) -> Option<Decimal> {
        let places = i64::from(self.scale) - digits.clamp(-100, 100);
        if places <= 0 {
            // More digits than there are: zeros, as far as there is room for them.
            return self.rescale(digits.clamp(0, i64::from(PRECISION_MAX)) as u8);
        }
        let shown = digits.max(0) as u8;
        let Some(divisor) = u8::try_from(places).ok().and_then(power_of_ten) else {
            return Some(Decimal { units: 0, scale: shown });
        };
        let kept = divide(self.units, divisor);
        let zeros = power_of_ten((-digits).clamp(0, 100) as u8)?;
        Decimal { units: kept.checked_mul(zeros)?, scale: shown }.checked()
    }

    /// Remainder with the sign of the dividend.
    pub fn checked_rem(self, other: Decimal) -> Option<Decimal> {
        let (a, b, scale) = self.aligned(other)?;
        Some(Decimal { units: a.checked_rem(b)?, scale })
    }
    /// The same value without zeros at its end behind the point.
    pub fn trimmed(self) -> Decimal {
        let (mut units, mut scale) = (self.units, self.scale);
        while scale > 0 && units % 10 == 0 {
            (units, scale) = (units / 10, scale - 1);
        }
        Decimal { units, scale }
    }
    pub fn negated(self) -> Decimal {
        Decimal { units: -self.units, scale: self.scale }
    }
    pub fn abs(self) -> Decimal {
        Decimal { units: self.units.abs(), scale: self.scale }
    }
    pub fn as_f64(&self) -> f64 {
        // Parsing the digits rounds once; dividing two floats would round twice.
        self.to_string().parse().expect("digits parse")
    }
    /// Reads `12`, `-3.50`, `1e3`, `.5`; `None` if it is not a number or does not fit.
    pub fn parse(text: &str) -> Option<Decimal> {
        let text = text.trim();
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (negative, digits) = match mantissa.as_bytes().first()? {
            b'-' => (true, &mantissa[1..]),
            b'+' => (false, &mantissa[1..]),
            _ => (false, mantissa),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut units: i128 = 0;
        for b in whole.bytes().chain(fraction.bytes()) {
            if !b.is_ascii_digit() {
                return None;
            }
            units = units.checked_mul(10)?.checked_add(i128::from(b - b'0'))?;
        }
        let units = if negative { -units } else { units };
        let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        if scale < 0 {
            let factor = power_of_ten(u8::try_from(-scale).ok()?)?;
            return Decimal { units: units.checked_mul(factor)?, scale: 0 }.checked();
        }
        if scale > i32::from(PRECISION_MAX) {
            let excess = u8::try_from(scale - i32::from(PRECISION_MAX)).ok()?;
            let units = power_of_ten(excess).map_or(0, |p| divide_rounding(units, p));
            return Decimal { units, scale: PRECISION_MAX }.checked();
        }
        Decimal { units, scale: scale as u8 }.checked()
    }

    fn aligned(self, other: Decimal) -> Option<(i128, i128, u8)> {
        let scale = self.scale.max(other.scale);
        let a = self.units.checked_mul(power_of_ten(scale - self.scale)?)?;
        let b = other.units.checked_mul(power_of_ten(scale - other.scale)?)?;
        Some((a, b, scale))
    }
    fn checked(self) -> Option<Decimal> {
        (self.digits() <= u32::from(PRECISION_MAX)).then_some(self)
    }
}

/// A product of two numbers: 256 bits, the lowest first.
#[derive(Clone, Copy)]
struct Wide([u64; 4]);

impl Wide {
    fn product(a: u128, b: u128) -> Wide {
        let halves = |n: u128| [n as u64, (n >> 64) as u64];
        let mut limbs = [0u64; 4];
        for (i, x) in halves(a).into_iter().enumerate() {
            let mut carry = 0u128;
            for (j, y) in halves(b).into_iter().enumerate() {
                let sum = u128::from(limbs[i + j]) + u128::from(x) * u128::from(y) + carry;
                limbs[i + j] = sum as u64;
                carry = sum >> 64;
            }
            limbs[i + 2] = carry as u64;
        }
        Wide(limbs)
    }

    fn divided(self, divisor: u64) -> (Wide, u64) {
        let (mut limbs, mut rest) = (self.0, 0u128);
        for limb in limbs.iter_mut().rev() {
            let dividend = rest << 64 | u128::from(*limb);
            *limb = (dividend / u128::from(divisor)) as u64;
            rest = dividend % u128::from(divisor);
        }
        (Wide(limbs), rest as u64)
    }

    fn digits(self) -> u32 {
        let (mut left, mut digits) = (self, 0);
        while left.0 != [0; 4] {
            left = left.divided(10).0;
            digits += 1;
        }
        digits
    }

    /// Without its last digits, rounded half up; `None` if that does not fit.
    fn rounded(self, dropped: u32) -> Option<u128> {
        let (mut left, mut last) = (self, 0);
        for _ in 0..dropped {
            (left, last) = left.divided(10);
        }
        let [a, b, 0, 0] = left.0 else { return None };
        let kept = u128::from(b) << 64 | u128::from(a);
        if last >= 5 { kept.checked_add(1) } else { Some(kept) }
    }
}

fn power_of_ten(exponent: u8) -> Option<i128> {
    10i128.checked_pow(u32::from(exponent))
}

/// The next digit of a long division, and what is left. Ten times the rest may not fit, so it is taken bit by
/// bit (10 is 0b1010), less the divisor whenever that is reached.
fn next_digit(rest: u128, divisor: u128) -> (u128, u128) {
    if let Some(tenfold) = rest.checked_mul(10) {
        return (tenfold / divisor, tenfold % divisor);
    }
    let (mut digit, mut left) = (0, 0);
    let add = |left: u128, more: u128| match left >= divisor - more {
        true => (1, left - (divisor - more)),
        false => (0, left + more),
    };
    for bit in [true, false, true, false] {
        let (carry, doubled) = add(left, left);
        (digit, left) = (digit * 2 + carry, doubled);
        if bit {
            let (carry, sum) = add(left, rest);
            (digit, left) = (digit + carry, sum);
        }
    }
    (digit, left)
}

/// Quotient rounded half away from zero.
fn divide_rounding(units: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (units / divisor, units % divisor);
    let away = remainder.unsigned_abs() >= divisor.unsigned_abs() - remainder.unsigned_abs();
    match (away, (units < 0) == (divisor < 0)) {
        (false, _) => quotient,
        (true, true) => quotient + 1,
        (true, false) => quotient - 1,
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match self.aligned(*other) {
            Some((a, b, _)) => a.cmp(&b),
            // One side has no room for the other's scale: its whole part decides.
            None => {
                let whole = |d: &Decimal| power_of_ten(d.scale).map_or(0, |p| d.units / p);
                whole(self).cmp(&whole(other)).then_with(|| self.units.signum().cmp(&other.units.signum()))
            }
        }
    }
}
impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Decimal {}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ZEROS: &str = "00000000000000000000000000000000000000";
        let units = self.units.unsigned_abs();
        let mut buffer = itoa::Buffer::new();
        // Most numbers fit 64 bits, whose division is several times faster.
        let digits = match u64::try_from(units) {
            Ok(units) => buffer.format(units),
            Err(_) => buffer.format(units),
        };
        if self.units < 0 {
            f.write_str("-")?;
        }
        let scale = usize::from(self.scale);
        if scale == 0 {
            return f.write_str(digits);
        }
        match digits.len().checked_sub(scale) {
            None | Some(0) => {
                f.write_str("0.")?;
                let mut missing = scale - digits.len();
                while missing > 0 {
                    let some = missing.min(ZEROS.len());
                    f.write_str(&ZEROS[..some])?;
                    missing -= some;
                }
                f.write_str(digits)
            }
            Some(whole) => {
                f.write_str(&digits[..whole])?;
                f.write_str(".")?;
                f.write_str(&digits[whole..])
            }
        }
    }
}
impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn prints_what_it_reads() {
        for text in ["0", "1", "-1", "0.05", "-0.05", "123.4500", "99999999999999999999.12"] {
            assert_eq!(d(text).to_string(), text);
        }
        assert_eq!(d("1e3").to_string(), "1000");
        assert_eq!(d("1.5e-3").to_string(), "0.0015");
        assert_eq!(d(".5").to_string(), "0.5");
        for bad in ["", ".", "-", "1x", "1e", "--1", "999999999999999999999999999999999999999"] {
            assert_eq!(Decimal::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn rounds_half_away_from_zero() {
        assert_eq!(d("2.5").rescale(0).unwrap().to_string(), "3");
        assert_eq!(d("-2.5").rescale(0).unwrap().to_string(), "-3");
        assert_eq!(d("2.449").rescale(1).unwrap().to_string(), "2.4");
    }

    #[test]
    fn quotients_have_postgresql_s_digits() {
        for (a, b, quotient) in [
            ("1", "3", "0.33333333333333333333"),
            ("-2", "3", "-0.66666666666666666667"),
            ("10", "3", "3.3333333333333333"),
            ("1", "1", "1.00000000000000000000"),
            ("4", "2", "2.0000000000000000"),
            ("40000", "3", "13333.333333333333"),
            ("1", "30000", "0.000033333333333333333333"),
            ("1.50", "0.25", "6.0000000000000000"),
            ("0", "7", "0.00000000000000000000"),
            ("12345678901234567890.12", "7", "1763668414462081127.16"),
        ] {
            assert_eq!(d(a).checked_div(d(b)).unwrap().to_string(), quotient, "{a} / {b}");
        }
        let (large, small) = (d("99999999999999999999999999999999999999"), d("0.00000000000000000001"));
        assert_eq!(large.checked_div(small), None);
        assert_eq!(large.div_at(large, 20).unwrap(), d("1"));
        assert_eq!(d("1").div_at(large, 38).unwrap().to_string(), "0.00000000000000000000000000000000000001");
    }

    #[test]
    fn a_product_keeps_the_digits_that_there_is_room_for() {
        for (a, b, product) in [
            ("1.5", "-2.25", "-3.375"),
            (
                "9999999.9900000000000000000000000",
                "1.030000000000000",
                "10299999.989700000000000000000000000000",
            ),
            ("0.12345678901234567891", "0.12345678901234567891", "0.01524157875323883675265965576774881879"),
            ("99999999999999999999.5", "-99999999999999999.5", "-9999999999999999949950000000000000000.3"),
            ("0.00000000000000000001", "0.00000000000000000001", "0.00000000000000000000000000000000000000"),
        ] {
            assert_eq!(d(a).checked_mul(d(b)).unwrap().to_string(), product, "{a} * {b}");
        }
        let large = d("99999999999999999999999999999999999999");
        assert_eq!(large.checked_mul(large), None);
        assert_eq!(large.checked_mul(d("10")), None);
    }

    #[test]
    fn digits_are_cut_on_both_sides_of_the_point() {
        for (text, digits, rounded, cut) in [
            ("1234.567", 2, "1234.57", "1234.56"),
            ("1250", -2, "1300", "1200"),
            ("-1250", -2, "-1300", "-1200"),
            ("2.5", 0, "3", "2"),
            ("7", -3, "0", "0"),
            ("7", 2, "7.00", "7.00"),
        ] {
            assert_eq!(d(text).round_at(digits).unwrap().to_string(), rounded, "{text}");
            assert_eq!(d(text).trunc_at(digits).unwrap().to_string(), cut, "{text}");
        }
    }

    #[test]
    fn compares_by_value() {
        assert_eq!(d("1.0"), d("1.00"));
        assert!(d("-1.1") < d("-1"));
        assert!(d("99999999999999999999999999999999999999") > d("0.00000000000000000000000000000000000001"));
        assert_eq!(d("0.1").checked_add(d("0.25")).unwrap(), d("0.35"));
        assert_eq!(d("7.5").checked_rem(d("2")).unwrap(), d("1.5"));
    }
}
