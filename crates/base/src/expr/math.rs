//! Arithmetic of floats, powers, roots and logarithms, with the errors that PostgreSQL raises where they have no value.

use super::{BinaryOperator, Function, no_operator};
use crate::Datum;
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlResult, SqlState};

/// Multiplications of one power: some milliseconds.
const MULTIPLICATIONS_MAX: u32 = 100_000;

fn no_power(why: &str) -> SqlError {
    SqlError::new(SqlState(*b"2201F"), why)
}

fn range(what: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {what}"))
}

/// Arithmetic of floats: what overflows or vanishes is an error, and there is one NaN.
pub fn float(operator: BinaryOperator, a: f64, b: f64) -> SqlResult<f64> {
    use BinaryOperator::*;
    if operator == Divide && b == 0.0 && !a.is_nan() {
        return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    let value = match operator {
        Add => a + b,
        Subtract => a - b,
        Multiply => a * b,
        Divide => a / b,
        _ => return Err(no_operator(operator.symbol(), &Datum::Float(a), &Datum::Float(b))),
    };
    if value.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(range("overflow"));
    }
    let vanishes =
        value == 0.0 && a != 0.0 && (operator == Multiply && b != 0.0 || operator == Divide && b.is_finite());
    if vanishes {
        return Err(range("underflow"));
    }
    Ok(if value.is_nan() { f64::NAN } else { value })
}

/// `a` to the power of `b`. Errors: 2201F, 22003.
pub(super) fn power(a: f64, b: f64) -> SqlResult<f64> {
    if a == 0.0 && b < 0.0 {
        return Err(no_power("zero raised to a negative power is undefined"));
    }
    if a < 0.0 && b.is_finite() && b.fract() != 0.0 {
        return Err(no_power("a negative number raised to a non-integer power yields a complex result"));
    }
    let value = a.powf(b);
    if a.is_finite() && b.is_finite() {
        if value.is_infinite() {
            return Err(range("overflow"));
        }
        if value == 0.0 && a != 0.0 {
            return Err(range("underflow"));
        }
    }
    Ok(value)
}

/// Whole powers of a decimal, exact as far as 38 digits go. Errors: 2201F, 22003; 0A000 for other powers.
pub(super) fn decimal_power(base: Decimal, exponent: Decimal) -> SqlResult<Decimal> {
    let overflow = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
    let whole = exponent.trunc_at(0).ok_or_else(overflow)?;
    if base.units() == 0 && exponent.units() < 0 {
        return Err(no_power("zero raised to a negative power is undefined"));
    }
    if whole != exponent {
        if base.units() < 0 {
            return Err(no_power("a negative number raised to a non-integer power yields a complex result"));
        }
        return Err(SqlError::unsupported("numeric raised to a power that is no integer"));
    }
    let times = u32::try_from(whole.units().unsigned_abs()).map_err(|_| overflow())?;
    let mut product = Decimal::new(1, 0);
    for done in 0..times {
        let next = product.checked_mul(base).ok_or_else(overflow)?;
        // 0, 1 and -1 stand still, as does what has become too small; of -1 the sign goes by what is left.
        if next == product || next == product.negated() && (times - done) % 2 == 0 {
            break;
        }
        if done == MULTIPLICATIONS_MAX {
            return Err(SqlError::unsupported(format!(
                "numeric raised to a power beyond {MULTIPLICATIONS_MAX}"
            )));
        }
        product = next;
    }
    let approximate = whole.as_f64() * base.as_f64().abs().log10();
    let digits = if base.units() == 0 { 16.0 } else { (16.0 - approximate.trunc()).clamp(0.0, 38.0) };
    let scale = (digits as u8).max(base.scale()).max(exponent.scale());
    if whole.units() < 0 && product.units() == 0 {
        return Err(overflow());
    }
    let made = match whole.units() < 0 {
        true => (0..=scale).rev().find_map(|scale| Decimal::new(1, 0).div_at(product, scale)),
        false => (0..=scale).rev().find_map(|scale| product.rescale(scale)),
    };
    made.ok_or_else(overflow)
}

/// Square root, exponential, logarithms. Errors: 2201F, 2201E, 22003.
pub(super) fn of_one(function: Function, f: f64) -> SqlResult<f64> {
    let no_logarithm = |why: &str| Err(SqlError::new(SqlState(*b"2201E"), why));
    match function {
        Function::Sqrt if f < 0.0 => Err(no_power("cannot take square root of a negative number")),
        Function::Sqrt => Ok(f.sqrt()),
        Function::Exp => match f.exp() {
            value if value.is_infinite() && f.is_finite() => Err(range("overflow")),
            value if value == 0.0 && f.is_finite() => Err(range("underflow")),
            value => Ok(value),
        },
        _ if f == 0.0 => no_logarithm("cannot take logarithm of zero"),
        _ if f < 0.0 => no_logarithm("cannot take logarithm of a negative number"),
        Function::Ln => Ok(f.ln()),
        _ => Ok(f.log10()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_powers_of_decimals_have_postgresql_s_digits() {
        let power = |a: &str, b: &str| {
            let d = |text| Decimal::parse(text).expect("a number");
            decimal_power(d(a), d(b)).map_or_else(|e| e.state.to_string(), |d| d.to_string())
        };
        assert_eq!(power("2.5", "2"), "6.2500000000000000");
        assert_eq!(power("2", "-2"), "0.2500000000000000");
        assert_eq!(power("0", "-1"), "2201F");
        assert_eq!(power("-8", "0.5"), "2201F");
        assert_eq!(power("10", "60"), "22003");
        assert!(power("1.001", "5000").starts_with("148.0428361626"));
        assert_eq!(power("0.0001", "-20"), "22003");
        assert_eq!(
            [power("-1", "4000000000"), power("-1", "4000000001")].map(|p| p[..2].to_string()),
            ["1.", "-1"]
        );
        assert_eq!(power("1.0000001", "4000000000"), "0A000");
    }

    #[test]
    fn what_has_no_value_is_an_error() {
        let state = |made: SqlResult<f64>| made.unwrap_err().state.to_string();
        assert_eq!(state(power(-8.0, 0.5)), "2201F");
        assert_eq!(state(power(1e300, 2.0)), "22003");
        assert_eq!(state(of_one(Function::Sqrt, -1.0)), "2201F");
        assert_eq!(state(of_one(Function::Ln, 0.0)), "2201E");
        assert_eq!(power(-3.0, 2.0), Ok(9.0));
    }
}
