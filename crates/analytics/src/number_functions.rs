//! Functions of numbers: `div`, `scale`, `min_scale`, `width_bucket`, and names of those that are settled with the plan.

use super::rowwise::{Cell, Returns};
use super::scalars::OF_DEGREES;
use super::small_functions::{Small, no_such};
use base::error::SqlResult;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ScalarUDF, Signature, TypeSignature, Volatility};

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    type Compute = fn(&[Cell]) -> SqlResult<Cell>;
    let numeric = |scale| DataType::Numeric { precision: 38, scale };
    let functions: [(&'static str, usize, DataType, Compute); 4] = [
        ("div", 2, numeric(0), div),
        ("scale", 1, DataType::Integer, scale),
        ("min_scale", 1, DataType::Integer, min_scale),
        ("trim_scale", 1, numeric(16), unsettled),
    ];
    let of_degrees = OF_DEGREES.map(|(name, count)| (name, count, DataType::Double, unsettled as Compute));
    for (name, count, of, compute) in functions.into_iter().chain(of_degrees) {
        let (signature, returns) = (Signature::any(count, Volatility::Immutable), Returns::Plain(of));
        let function = Small { name, signature, returns, is_strict: true, compute };
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    let counts = vec![TypeSignature::Any(2), TypeSignature::Any(4)];
    context.register_udf(ScalarUDF::new_from_impl(Small {
        name: "width_bucket",
        signature: Signature::one_of(counts, Volatility::Immutable),
        returns: Returns::Plain(DataType::Integer),
        is_strict: true,
        compute: width_bucket,
    }));
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
    Ok(Cell::Plain(Datum::Int(value.trimmed().scale().into())))
}

/// What is computed otherwise once the types of its arguments are known, which they are not over the system catalog.
fn unsettled(_: &[Cell]) -> SqlResult<Cell> {
    Err(SqlError::unsupported("this function of numbers over the system catalog"))
}

/// Which of some equal parts of a range a number lies in, or behind how many of some thresholds in ascending order a value
/// does. Errors: 2201G for a range that has none, 22004 for a threshold that is NULL.
fn width_bucket(cells: &[Cell]) -> SqlResult<Cell> {
    if let [operand, Cell::Plain(Datum::Array(thresholds))] = cells {
        return bucket_between(operand, thresholds);
    }
    if cells.len() != 4 {
        return Err(no_such("function width_bucket"));
    }
    let number = |n: usize| match &cells[n] {
        Cell::Plain(value) => value.as_f64().ok_or_else(|| no_such("function width_bucket")),
        Cell::Span(_) => Err(no_such("function width_bucket")),
    };
    let wrong = |message: &str| SqlError::new(SqlState(*b"2201G"), message);
    let (operand, low, high, count) = (number(0)?, number(1)?, number(2)?, number(3)?);
    if count < 1.0 {
        return Err(wrong("count must be greater than zero"));
    }
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(wrong("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(wrong("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(wrong("lower bound cannot equal upper bound"));
    }
    let share = (operand - low) / (high - low);
    let bucket = match share {
        s if s < 0.0 => 0.0,
        s if s >= 1.0 => count + 1.0,
        s => ((s * count).floor() + 1.0).min(count),
    };
    Ok(Cell::Plain(Datum::Int(bucket as i64)))
}

fn bucket_between(operand: &Cell, thresholds: &[Datum]) -> SqlResult<Cell> {
    let operand = match operand {
        Cell::Plain(value) => value.clone(),
        Cell::Span(span) => Datum::Interval(*span),
    };
    if thresholds.iter().any(Datum::is_null) {
        return Err(SqlError::new(SqlState(*b"22004"), "thresholds array must not contain NULLs"));
    }
    if thresholds.first().is_some_and(|threshold| operand.compare(threshold).is_none()) {
        return Err(no_such("function width_bucket"));
    }
    let before =
        thresholds.partition_point(|threshold| operand.compare(threshold).is_some_and(|o| o.is_ge()));
    Ok(Cell::Plain(Datum::Int(before as i64)))
}
