//! Arithmetic of floats, powers, roots and logarithms, with the errors that PostgreSQL raises where they have no value.

use super::{BinaryOperator, Function, exact, no_operator};
use crate::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

pub(super) fn no_power(why: &str) -> SqlError {
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

/// A power, a root, an exponential or a logarithm; `None` for other arguments than numbers of one kind. Errors: 2201E, 2201F,
/// 22003, 22012.
pub(super) fn call(function: Function, arguments: &[Datum]) -> SqlResult<Option<Datum>> {
    use Datum::{Decimal, Float, Int};
    use Function::{Exp, Ln, Log, Power, Sqrt};
    Ok(Some(match (function, arguments) {
        (Power, [Float(a), Float(b)]) => Float(power(*a, *b)?),
        (Power, [a @ (Decimal(_) | Int(_)), b @ (Decimal(_) | Int(_))]) => {
            Decimal(exact::power(a.decimal(), b.decimal())?)
        }
        (Log, [base @ (Decimal(_) | Int(_)), of @ (Decimal(_) | Int(_))]) => {
            Decimal(exact::logarithm(base.decimal(), of.decimal())?)
        }
        (Sqrt | Exp | Ln | Log, [Float(f)]) => Float(of_one(function, *f)?),
        (Sqrt | Exp | Ln | Log, [Decimal(d)]) => Decimal(exact::of_one(function, *d)?),
        _ => return Ok(None),
    }))
}

/// `a` to the power of `b`. Errors: 2201F, 22003.
fn power(a: f64, b: f64) -> SqlResult<f64> {
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

/// Square root, exponential, logarithms. Errors: 2201F, 2201E, 22003.
fn of_one(function: Function, f: f64) -> SqlResult<f64> {
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
    fn what_has_no_value_is_an_error() {
        let state = |made: SqlResult<f64>| made.unwrap_err().state.to_string();
        assert_eq!(state(power(-8.0, 0.5)), "2201F");
        assert_eq!(state(power(1e300, 2.0)), "22003");
        assert_eq!(state(of_one(Function::Sqrt, -1.0)), "2201F");
        assert_eq!(state(of_one(Function::Ln, 0.0)), "2201E");
        assert_eq!(power(-3.0, 2.0), Ok(9.0));
    }
}
