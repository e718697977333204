//! Powers, roots, exponentials and logarithms: of doubles as the processor computes them, of numerics with PostgreSQL's
//! digits; and numerics without zeros at their end.
//!
//! A constant has as many digits behind the point as PostgreSQL gives it. A column has one number of them for all rows: 16,
//! or more if an argument has more.

use super::evaluated::{self, Computation, call};
use super::kinds::{Family, Kind};
use super::typing::{constant, converted, literal, no_function};
use base::error::SqlResult;
use base::expr::{Expr as Scalar, Function};
use base::{DataType, Datum};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, cast};

/// Digits behind the point of a column, at least.
const SCALE: u8 = 16;

pub(super) const DOUBLE: Kind = Kind::Known(DataType::Double);
const NUMERIC: Kind = Kind::Known(DataType::Numeric { precision: 38, scale: SCALE });

/// `a ^ b` and `power(a, b)`: a numeric where one of the two is one and none is a float, else a double. Errors: 42883.
pub(super) fn power(name: &str, (a, ka): (&Expr, Kind), (b, kb): (&Expr, Kind)) -> SqlResult<Option<Expr>> {
    let settled = |e: &Expr, kind: Kind| match kind {
        Kind::Unknown => literal(e, DOUBLE).map(|e| (e, DOUBLE)),
        kind => Ok((e.clone(), kind)),
    };
    let ((a, ka), (b, kb)) = (settled(a, ka)?, settled(b, kb)?);
    if ka == Kind::Foreign || kb == Kind::Foreign {
        return Ok(None);
    }
    if !ka.family().is_number() || !kb.family().is_number() {
        return match name {
            "^" => Err(base::SqlError::new(
                base::SqlState::UNDEFINED_FUNCTION,
                format!("operator does not exist: {} ^ {}", ka.name(), kb.name()),
            )),
            _ => Err(no_function(name, &[ka, kb])),
        };
    }
    let is_float = |k: Kind| k.family() == Family::Float;
    let is_numeric = |k: Kind| k.family() == Family::Numeric;
    Ok(Some(match (is_numeric(ka) || is_numeric(kb)) && !is_float(ka) && !is_float(kb) {
        true => of_numerics(Function::Power, vec![(a, ka), (b, kb)]),
        false => of_doubles(Function::Power, vec![(double(&a, ka), DOUBLE), (double(&b, kb), DOUBLE)]),
    }))
}

/// `log(base, of)`, which is one of numerics alone. Errors: 42883; where it is computed 2201E, 22012.
pub(super) fn logarithm(base: &Expr, of: &Expr, kinds: &[Kind]) -> SqlResult<Option<Expr>> {
    if kinds.contains(&Kind::Foreign) {
        return Ok(None);
    }
    let settled = |e: &Expr, kind: Kind| match kind.family() {
        Family::Unknown => literal(e, NUMERIC).map(|e| (e, NUMERIC)),
        Family::Integer | Family::Numeric => Ok((e.clone(), kind)),
        _ => Err(no_function("log", kinds)),
    };
    Ok(Some(of_numerics(Function::Log, vec![settled(base, kinds[0])?, settled(of, kinds[1])?])))
}

/// `sqrt`, `exp`, `ln` and `log`: of a numeric a numeric, of another number a double; and `trim_scale`. Errors: 42883; where
/// it is computed 2201E, 2201F, 22003.
pub(super) fn of_one(name: &str, a: &Expr, kind: Kind) -> SqlResult<Option<Expr>> {
    let function = match name {
        "sqrt" => Function::Sqrt,
        "exp" => Function::Exp,
        "ln" => Function::Ln,
        "trim_scale" => return trimmed(a, kind),
        _ => Function::Log,
    };
    match kind.family() {
        Family::Numeric => Ok(Some(of_numerics(function, vec![(a.clone(), kind)]))),
        Family::Integer | Family::Float => Ok(Some(of_doubles(function, vec![(double(a, kind), DOUBLE)]))),
        Family::Unknown | Family::Foreign => Ok(None),
        _ => Err(no_function(name, &[kind])),
    }
}

/// `trim_scale`: a column, whose values have one number of digits behind the point, stays as it is. Errors: 42883.
fn trimmed(a: &Expr, kind: Kind) -> SqlResult<Option<Expr>> {
    match (kind.family(), evaluated::value(a)) {
        (Family::Numeric, Some(Datum::Decimal(d))) => {
            let whole = DataType::Numeric { precision: 38, scale: 0 };
            Ok(Some(constant(&Datum::Decimal(d.trimmed()), whole)))
        }
        (Family::Numeric, _) => Ok(Some(a.clone())),
        (Family::Integer, _) => {
            let whole = DataType::Numeric { precision: 38, scale: 0 };
            Ok(Some(cast(a.clone(), colstore::arrow_type(whole))))
        }
        (Family::Unknown, _) => trimmed(&literal(a, NUMERIC)?, NUMERIC),
        (Family::Foreign, _) => Ok(None),
        _ => Err(no_function("trim_scale", &[kind])),
    }
}

fn of_doubles(function: Function, arguments: Vec<(Expr, Kind)>) -> Expr {
    let columns = (0..arguments.len()).map(Scalar::Column).collect();
    call(Computation::Scalar(Scalar::Call(function, columns)), arguments, DOUBLE)
}

fn of_numerics(function: Function, arguments: Vec<(Expr, Kind)>) -> Expr {
    let columns = (0..arguments.len()).map(Scalar::Column).collect();
    let scalar = Scalar::Call(function, columns);
    let scales = arguments.iter().map(|(_, kind)| match kind {
        Kind::Known(DataType::Numeric { scale, .. }) => *scale,
        _ => 0,
    });
    let returns = DataType::Numeric { precision: 38, scale: scales.fold(SCALE, u8::max) };
    let constants: Option<Vec<Datum>> = arguments.iter().map(|(e, _)| evaluated::value(e)).collect();
    // What has no value says so where it is computed.
    match constants.map(|values| scalar.eval(&values)) {
        Some(Ok(value @ Datum::Decimal(_))) => constant(&value, returns),
        _ => call(Computation::Scalar(scalar), arguments, Kind::Known(returns)),
    }
}

/// A number as a double.
pub(super) fn double(e: &Expr, kind: Kind) -> Expr {
    match kind {
        Kind::Known(DataType::Double) => e.clone(),
        Kind::Known(from @ DataType::Numeric { .. }) => converted(e.clone(), from, DataType::Double),
        _ => Expr::Cast(Cast::new(Box::new(e.clone()), colstore::arrow_type(DataType::Double))),
    }
}
