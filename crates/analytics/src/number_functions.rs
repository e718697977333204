//! Functions of numerics: `div`, `scale`, `min_scale`.

use super::rowwise::{Cell, Returns};
use super::small_functions::{Small, no_such};
use base::error::SqlResult;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    let whole = DataType::Numeric { precision: 38, scale: 0 };
    let functions: [(&'static str, usize, DataType, fn(&[Cell]) -> SqlResult<Cell>); 3] = [
        ("div", 2, whole, div),
        ("scale", 1, DataType::Integer, scale),
        ("min_scale", 1, DataType::Integer, min_scale),
    ];
    for (name, count, of, compute) in functions {
        let (signature, returns) = (Signature::any(count, Volatility::Immutable), Returns::Plain(of));
        let function = Small { name, signature, returns, is_strict: true, compute };
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
}

fn decimal(cell: &Cell, function: &str) -> SqlResult<base::decimal::Decimal> {
    match cell {
        Cell::Plain(value @ (Datum::Int(_) | Datum::Decimal(_))) => Ok(value.decimal()),
        _ => Err(no_such(function)),
    }
}

/// How often a number is in another one. Errors: 22012, 22003.
fn div(cells: &[Cell]) -> SqlResult<Cell> {
    let (a, b) = (decimal(&cells[0], "function div")?, decimal(&cells[1], "function div")?);
    if b.units() == 0 {
        return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    let rest = a.checked_rem(b).and_then(|rest| a.checked_sub(rest));
    let whole = rest.and_then(|whole| whole.checked_div(b)).and_then(|whole| whole.rescale(0));
    let overflow = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
    Ok(Cell::Plain(Datum::Decimal(whole.ok_or_else(overflow)?)))
}

/// Digits behind the point.
fn scale(cells: &[Cell]) -> SqlResult<Cell> {
    Ok(Cell::Plain(Datum::Int(decimal(&cells[0], "function scale")?.scale().into())))
}

/// Digits behind the point that are needed.
fn min_scale(cells: &[Cell]) -> SqlResult<Cell> {
    let value = decimal(&cells[0], "function min_scale")?;
    let (mut units, mut digits) = (value.units(), value.scale());
    while digits > 0 && units % 10 == 0 {
        (units, digits) = (units / 10, digits - 1);
    }
    Ok(Cell::Plain(Datum::Int(digits.into())))
}
