//! Roots, exponentials, logarithms and powers of decimals, with as many digits as PostgreSQL gives them.
//!
//! They are computed in binary with 256 bits behind the point, which is far more than 38 digits, and rounded once at the
//! end. No floating point takes part in a value; it only estimates how many digits are shown.

mod fixed;

use super::Function;
use super::math::no_power;
use crate::decimal::{Decimal, PRECISION_MAX};
use crate::error::{SqlError, SqlResult, SqlState};
use fixed::{Fixed, LN_2, LN_10, LOG2_E, POINT};
use std::cmp::Ordering;
use std::f64::consts::LOG10_E;

/// Digits that count, at least.
const SIGNIFICANT: i32 = 16;

/// Square root, exponential, logarithms to the base e and 10. Errors: 2201F, 2201E, 22003.
pub(super) fn of_one(function: Function, d: Decimal) -> SqlResult<Decimal> {
    match function {
        Function::Sqrt => square_root(d),
        Function::Exp => {
            let value = Signed::of(d).and_then(exponential);
            shown(value.map(Signed::positive), SIGNIFICANT - place(d.as_f64() * LOG10_E), d.scale())
        }
        Function::Ln => {
            let value = natural(d)?;
            shown(Some(value), SIGNIFICANT - place_of_logarithm(d), d.scale())
        }
        _ => logarithm(Decimal::new(10, 0), d),
    }
}

/// The logarithm of a number to a base. Errors: 2201E, 22012, 22003.
pub(super) fn logarithm(base: Decimal, d: Decimal) -> SqlResult<Decimal> {
    let (of_base, of_number) = (natural(base)?, natural(d)?);
    // Of a one with digits behind the point the logarithm has a rest in its last bit.
    if base == Decimal::new(1, 0) {
        return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    let is_negative = of_number.is_negative != of_base.is_negative;
    let value = of_number.size.divided(of_base.size).map(|size| Signed { is_negative, size });
    let digits = SIGNIFICANT - (place_of_logarithm(d) - place_of_logarithm(base));
    shown(value, digits, base.scale().max(d.scale()))
}

/// `base` to the power of `exponent`. Errors: 2201F, 22003.
pub(super) fn power(base: Decimal, exponent: Decimal) -> SqlResult<Decimal> {
    if base.units() == 0 && exponent.units() < 0 {
        return Err(no_power("zero raised to a negative power is undefined"));
    }
    let scale = base.scale().max(exponent.scale());
    let exponent = exponent.trimmed();
    if exponent.scale() == 0
        && let Ok(times) = i32::try_from(exponent.units())
    {
        return whole_power(base, times);
    }
    if base.units() == 0 {
        return shown(Some(Signed::positive(Fixed::ZERO)), SIGNIFICANT, 0);
    }
    if base.units() < 0 && exponent.scale() > 0 {
        return Err(no_power("a negative number raised to a non-integer power yields a complex result"));
    }
    let is_negative = base.units() < 0 && exponent.units() % 2 != 0;
    let base = base.abs();
    // PostgreSQL estimates the digits with a logarithm of eight digits.
    let digits = (8 - place_of_logarithm(base)).clamp(0, i32::from(PRECISION_MAX)) as u8;
    let rough = natural(base)?.decimal(digits).and_then(|rough| rough.checked_mul(exponent));
    let rough = rough.and_then(|rough| rough.rescale(digits)).map_or(0.0, |rough| rough.as_f64());
    let value = real_power(base, exponent).map(|size| Signed { is_negative, size });
    shown(value, SIGNIFICANT - place(rough * LOG10_E), scale)
}

/// A whole power: multiplied, as long as the product has room, so that it is rounded as it is written.
fn whole_power(base: Decimal, times: i32) -> SqlResult<Decimal> {
    let digits = (SIGNIFICANT as u8).max(base.scale());
    let base = base.trimmed();
    if let Some(product) = product(base, times.unsigned_abs()) {
        let at = |scale| match times < 0 {
            true => Decimal::new(1, 0).div_at(product, scale),
            false => product.rescale(scale),
        };
        return (0..=digits).rev().find_map(at).ok_or_else(overflow);
    }
    let is_negative = base.units() < 0 && times % 2 != 0;
    let size = real_power(base.abs(), Decimal::new(times.into(), 0));
    shown(size.map(|size| Signed { is_negative, size }), digits.into(), 0)
}

/// A number multiplied with itself; `None` where the exact product has no room.
fn product(base: Decimal, times: u32) -> Option<Decimal> {
    if times == 0 {
        return Some(Decimal::new(1, 0));
    }
    if base.scale() == 0 && matches!(base.units(), -1..=1) {
        return Some(if times % 2 == 0 { base.abs() } else { base });
    }
    let scale =
        u32::from(base.scale()).checked_mul(times).filter(|scale| *scale <= PRECISION_MAX.into())? as u8;
    Decimal::new(base.units().checked_pow(times)?, scale).rescale(scale)
}

/// A positive number to a power, through its logarithm. `None` where it has no room.
fn real_power(base: Decimal, exponent: Decimal) -> Option<Fixed> {
    let (of_base, times) = (natural(base).ok()?, Signed::of(exponent)?);
    let is_negative = of_base.is_negative != times.is_negative;
    match of_base.size.times(times.size) {
        Some(size) => exponential(Signed { is_negative, size }),
        None => is_negative.then_some(Fixed::ZERO),
    }
}

/// Errors: 2201F.
fn square_root(d: Decimal) -> SqlResult<Decimal> {
    if d.units() < 0 {
        return Err(no_power("cannot take square root of a negative number"));
    }
    let (weight, _) = d.leading_group();
    let digits = (SIGNIFICANT - ((weight + 1) * 2 - 1)).max(d.scale().into());
    let digits = digits.clamp(0, i32::from(PRECISION_MAX)) as u8;
    // The root of a whole number with one more digit, by which it is rounded.
    let mut tens = 2 * (u32::from(digits) + 1) - u32::from(d.scale());
    let units = d.units().unsigned_abs();
    let mut squared = Fixed([units as u64, (units >> 64) as u64, 0, 0, 0, 0, 0, 0]);
    while tens > 0 {
        let some = tens.min(19);
        squared = squared.multiple(10u64.pow(some));
        tens -= some;
    }
    let root = squared.root_of_bits();
    let root = u128::from(root.0[1]) << 64 | u128::from(root.0[0]);
    let rounded = root / 10 + u128::from(root % 10 >= 5);
    let rounded = i128::try_from(rounded).expect("a root has less digits than its square");
    Decimal::new(rounded, digits).rescale(digits).ok_or_else(overflow)
}

/// The natural logarithm. Errors: 2201E for what has none.
fn natural(d: Decimal) -> SqlResult<Signed> {
    let no_logarithm = |why: &str| Err(SqlError::new(SqlState(*b"2201E"), why));
    match d.units() {
        0 => no_logarithm("cannot take logarithm of zero"),
        ..0 => no_logarithm("cannot take logarithm of a negative number"),
        units => {
            let of_scale = LN_10.multiple(u64::from(d.scale()));
            Ok(Signed::difference(logarithm_of_whole(units.unsigned_abs()), of_scale))
        }
    }
}

/// Of a number of at least one.
fn logarithm_of_whole(n: u128) -> Fixed {
    // n = m · 2^k, where 1 ≤ m < 2; ln m = 2 · artanh((m − 1) / (m + 1)).
    let k = n.ilog2();
    let m = Fixed::whole(n).right(k);
    let z = m.minus(Fixed::ONE).divided(m.plus(Fixed::ONE)).expect("a third at most");
    let square = z.times(z).expect("a ninth at most");
    let (mut sum, mut term, mut n) = (Fixed::ZERO, z, 1);
    while term != Fixed::ZERO {
        sum = sum.plus(term.over(n));
        term = term.times(square).expect("it shrinks");
        n += 2;
    }
    sum.plus(sum).plus(LN_2.multiple(u64::from(k)))
}

/// e to the power of a number; `None` where it has far more than 38 digits.
fn exponential(x: Signed) -> Option<Fixed> {
    // The largest decimal has a logarithm below 88.
    if x.size.compare(Fixed::whole(91)) != Ordering::Less {
        return x.is_negative.then_some(Fixed::ZERO);
    }
    // e^x = 2^k · e^r, where 0 ≤ r ≤ ln 2, and of a negative x e^x = 2^−k · e^r.
    let k = x.size.times(LOG2_E)?.0[POINT] + u64::from(x.is_negative);
    let r = Signed::difference(LN_2.multiple(k), x.size).size.right(HALVINGS);
    // e^r = (e^(r / 2^16))^(2^16).
    let (mut sum, mut term, mut n) = (Fixed::ONE, r, 1);
    while term != Fixed::ZERO {
        sum = sum.plus(term);
        n += 1;
        term = term.times(r)?.over(n);
    }
    for _ in 0..HALVINGS {
        sum = sum.times(sum)?;
    }
    let k = u32::try_from(k).ok()?;
    Some(if x.is_negative { sum.right(k) } else { sum.left(k) })
}

const HALVINGS: u32 = 16;

/// A decimal place, as PostgreSQL cuts off an estimate of it.
fn place(estimate: f64) -> i32 {
    estimate.clamp(-1000.0, 1000.0) as i32
}

/// The decimal place of the first digit of a number's logarithm, about.
fn place_of_logarithm(d: Decimal) -> i32 {
    if d >= Decimal::new(9, 1) && d <= Decimal::new(11, 1) {
        let Some(rest) = d.checked_sub(Decimal::new(1, 0)) else { return 0 };
        let (weight, group) = rest.leading_group();
        return group.checked_ilog10().map_or(0, |digits| weight * 4 + digits as i32);
    }
    // Two groups of digits are looked at.
    let (weight, _) = d.leading_group();
    let first = d.trunc_at(i64::from(4 - 4 * weight)).unwrap_or(d);
    place(first.as_f64().ln().abs().log10())
}

/// A value at so many digits behind the point, no fewer than its arguments have, and fewer where 38 digits have no room for
/// them. Errors: 22003.
fn shown(value: Option<Signed>, digits: i32, least: u8) -> SqlResult<Decimal> {
    let wanted = digits.max(i32::from(least)).clamp(0, i32::from(PRECISION_MAX)) as u8;
    let made = value.and_then(|value| (0..=wanted).rev().find_map(|scale| value.decimal(scale)));
    made.ok_or_else(overflow)
}

fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
        .detail("A numeric has at most 38 digits.")
}

#[derive(Clone, Copy)]
struct Signed {
    is_negative: bool,
    size: Fixed,
}

impl Signed {
    fn positive(size: Fixed) -> Signed {
        Signed { is_negative: false, size }
    }

    fn difference(a: Fixed, b: Fixed) -> Signed {
        match a.compare(b) {
            Ordering::Less => Signed { is_negative: true, size: b.minus(a) },
            _ => Signed { is_negative: false, size: a.minus(b) },
        }
    }

    /// `None` for more than 38 digits behind the point.
    fn of(d: Decimal) -> Option<Signed> {
        let power = 10u128.checked_pow(d.scale().into())?;
        let size = Fixed::whole(d.units().unsigned_abs()).divided(Fixed::whole(power))?;
        Some(Signed { is_negative: d.units() < 0, size })
    }

    /// Rounded half away from zero; `None` if it does not fit.
    fn decimal(self, scale: u8) -> Option<Decimal> {
        let moved = self.size.times(Fixed::whole(10u128.checked_pow(scale.into())?))?;
        // What was computed may lie a little below what it stands for.
        let rounded = moved.plus(Fixed::ONE.right(1)).plus(Fixed::ONE.right(100));
        let units = i128::try_from(rounded.before_point()?).ok()?;
        Decimal::new(if self.is_negative { -units } else { units }, scale).rescale(scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text).expect("a number")
    }
    fn told(made: SqlResult<Decimal>) -> String {
        made.map_or_else(|e| e.state.to_string(), |d| d.to_string())
    }

    #[test]
    fn constants_are_those_that_the_series_gives() {
        // Their last bits may be rounded otherwise.
        let off = |a: Fixed, b: Fixed| Signed::difference(a, b).size.0[1..].iter().any(|limb| *limb != 0);
        assert!(!off(logarithm_of_whole(10), LN_10));
        assert!(!off(LN_2.times(LOG2_E).unwrap(), Fixed::ONE));
        assert!(!off(exponential(Signed::positive(LN_2)).unwrap(), Fixed::whole(2)));
    }

    #[test]
    fn roots_have_postgresql_s_digits() {
        for (text, wanted) in [
            ("2.0", "1.414213562373095"),
            ("0.0004", "0.02000000000000000"),
            ("12345.678", "111.1111065555555"),
            ("1000000", "1000.0000000000000"),
            ("0.0", "0.000000000000000"),
            ("99999999999999999999999999999999999999", "10000000000000000000"),
            ("-1", "2201F"),
        ] {
            assert_eq!(told(of_one(Function::Sqrt, d(text))), wanted, "sqrt({text})");
        }
    }

    #[test]
    fn exponentials_and_logarithms_have_postgresql_s_digits() {
        let one = |function, text: &str| told(of_one(function, d(text)));
        for (text, wanted) in [
            ("1.0", "2.7182818284590452"),
            ("-10.0", "0.00004539992976248485"),
            ("50.0", "5184705528587072464087.5"),
            ("0", "1.0000000000000000"),
            ("1000", "22003"),
        ] {
            assert_eq!(one(Function::Exp, text), wanted, "exp({text})");
        }
        for (text, wanted) in [
            ("1.0001", "0.00009999500033330834"),
            ("0.0001", "-9.2103403719761827"),
            ("123456789.123", "18.631401767164318"),
            ("1", "0.0000000000000000"),
            ("0", "2201E"),
        ] {
            assert_eq!(one(Function::Ln, text), wanted, "ln({text})");
        }
        assert_eq!(one(Function::Log, "0.001"), "-3.0000000000000000");
        assert_eq!(told(logarithm(d("1.1"), d("2.0"))), "7.272540897341719");
        assert_eq!(told(logarithm(d("1"), d("2"))), "22012");
        assert_eq!(told(logarithm(d("1.0"), d("1.0"))), "22012");
    }

    #[test]
    fn powers_have_postgresql_s_digits() {
        for (a, b, wanted) in [
            ("2.5", "2", "6.2500000000000000"),
            ("2", "-2", "0.2500000000000000"),
            ("0.001", "5", "0.0000000000000010"),
            ("0.0001", "20", "0.0000000000000000"),
            ("1.001", "5000", "148.0428361626405313"),
            ("-1.5", "3", "-3.3750000000000000"),
            ("2.0", "0.5", "1.4142135623730950"),
            ("0.5", "2.5", "0.1767766952966369"),
            ("10.0", "10.5", "31622776601.683793"),
            ("1.5", "-0.5", "0.8164965809277260"),
            ("0.0", "0.5", "0.0000000000000000"),
            ("-1", "4000000001", "-1.0000000000000000"),
            ("0", "-1", "2201F"),
            ("-8", "0.5", "2201F"),
            ("10", "60", "22003"),
            ("0.0001", "-20", "22003"),
            ("1.0000001", "4000000000", "22003"),
        ] {
            assert_eq!(told(power(d(a), d(b))), wanted, "{a} ^ {b}");
        }
    }
}
