//! `generate_series` as a list of values, which the planner's `unnest` makes rows of: in select lists, of moments and
//! numerics, and over columns of other tables. A series of constants behind FROM stays a table function, which makes its rows in batches.

use super::fields::call_name;
use super::rowwise::{Cell, Column};
use super::types;
use base::decimal::Decimal;
use base::error::SqlResult;
use base::interval::Interval;
use base::zone::Zone;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, ListArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType as Arrow, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::sync::Arc;

/// The name of the function in PostgreSQL, and of the one that makes a list.
pub(super) const SERIES: &str = "generate_series";
pub(super) const SERIES_LIST: &str = "meridian_series";

/// Moments and numerics that one call makes at most. How many numbers it makes is known before, and their memory reserved.
pub(super) const MOMENTS_MAX: usize = 1_000_000;

/// The function for a planner.
pub(super) fn function() -> ScalarUDF {
    let signature = Signature::one_of(
        vec![TypeSignature::Any(2), TypeSignature::Any(3), TypeSignature::Any(4)],
        Volatility::Immutable,
    );
    ScalarUDF::new_from_impl(Series { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Series {
    signature: Signature,
}

impl ScalarUDFImpl for Series {
    fn name(&self) -> &str {
        SERIES_LIST
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        // Casts are no part of a name elsewhere; here they decide on the type.
        let shown = |e: &Expr| match e {
            Expr::Cast(cast) => format!("{} {}", cast.expr.schema_name(), cast.field.data_type()),
            e => e.schema_name().to_string(),
        };
        let types: Vec<String> = arguments.iter().filter(|e| matches!(e, Expr::Cast(_))).map(shown).collect();
        Ok(format!("{} {}", call_name(SERIES_LIST, arguments)?, types.join(" ")))
    }
    fn return_type(&self, types: &[Arrow]) -> Result<Arrow> {
        let element = element_of(types).map_err(external)?;
        Ok(Arrow::new_list(colstore::arrow_type(element), true))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrow_types: Vec<Arrow> = arguments.args.iter().map(ColumnarValue::data_type).collect();
        let element = element_of(&arrow_types).map_err(external)?;
        let is_constant = arguments.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let columns =
            arguments.args.iter().map(Column::new).collect::<SqlResult<Vec<_>>>().map_err(external)?;
        let mut values = Vec::new();
        let (mut lengths, mut is_there) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for row in 0..rows {
            let cells: Vec<Cell> = columns.iter().map(|column| column.at(row)).collect();
            let before = values.len();
            is_there.push(!cells.iter().any(Cell::is_null));
            if is_there.last() == Some(&true) {
                put(&cells, element, &mut values).map_err(external)?;
            }
            lengths.push(values.len() - before);
        }
        let values = array_of(element, values);
        let field = Arc::new(Field::new_list_field(colstore::arrow_type(element), true));
        let nulls = NullBuffer::from(is_there);
        let list = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, Some(nulls))?;
        let list: ArrayRef = Arc::new(list);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&list, 0)?),
            false => ColumnarValue::Array(list),
        })
    }
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The type of a series' values. Errors: 42883 for arguments that no series is made of.
fn element_of(arguments: &[Arrow]) -> SqlResult<DataType> {
    let is_whole = |t: &Arrow| t.is_integer() || *t == Arrow::Null;
    let is_small = |t: &Arrow| matches!(t, Arrow::Int8 | Arrow::Int16 | Arrow::Int32);
    if arguments.iter().all(is_whole) {
        return Ok(if arguments.iter().all(is_small) { DataType::Integer } else { DataType::BigInt });
    }
    let scale = |t: &Arrow| match t {
        Arrow::Decimal128(_, scale) => u8::try_from(*scale).ok(),
        other => is_whole(other).then_some(0),
    };
    let scales: Option<Vec<u8>> = arguments.iter().map(scale).collect();
    if let Some(scale) = scales.filter(|_| arguments.len() < 4).and_then(|scales| scales.into_iter().max()) {
        return Ok(DataType::Numeric { precision: 38, scale });
    }
    let is_moment = |t: &Arrow| matches!(t, Arrow::Timestamp(..) | Arrow::Date32);
    let is_step = |t: &Arrow| matches!(t, Arrow::Interval(_) | Arrow::Duration(_) | Arrow::Null);
    match arguments {
        // Moments are told their zone.
        [from, to, step] | [from, to, step, Arrow::Utf8]
            if is_moment(from) && is_moment(to) && is_step(step) =>
        {
            let has_zone = |t: &Arrow| matches!(t, Arrow::Timestamp(_, Some(_)) | Arrow::Date32);
            let is_zoned = has_zone(from) || has_zone(to);
            Ok(if is_zoned { DataType::TimestampTz } else { DataType::Timestamp })
        }
        _ => {
            let named = |t: &Arrow| match t {
                Arrow::Interval(_) => "interval".to_string(),
                Arrow::Null => "unknown".to_string(),
                other => types::from_arrow(other).name(),
            };
            let given: Vec<String> = arguments.iter().map(named).collect();
            let told = format!("function generate_series({}) does not exist", given.join(", "));
            Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, told).hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            ))
        }
    }
}

/// Appends the values of a series; numerics without their point. Errors: 22023 for a step of nothing, 54000 for too many
/// values, 0A000 for numerics of more than 18 digits.
fn put(cells: &[Cell], element: DataType, values: &mut Vec<i64>) -> SqlResult<()> {
    let too_many = || {
        let told = format!(
            "series of moments and numerics have at most {MOMENTS_MAX} values for some thousands of rows"
        );
        SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, told)
    };
    let no_step = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero");
    if matches!(element, DataType::Integer | DataType::BigInt | DataType::Numeric { .. }) {
        let number = |n: usize| match (cells.get(n), element) {
            (cell, DataType::Numeric { scale, .. }) => units(cell, scale),
            (Some(Cell::Plain(Datum::Int(number))), _) => Ok(*number),
            _ => Ok(1),
        };
        let (mut at, to, step) = (number(0)?, number(1)?, number(2)?);
        if step == 0 {
            return Err(no_step());
        }
        let is_bounded = matches!(element, DataType::Numeric { .. });
        while if step > 0 { at <= to } else { at >= to } {
            if is_bounded && values.len() >= MOMENTS_MAX {
                return Err(too_many());
            }
            values.push(at);
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        return Ok(());
    }
    let (mut at, to, step) = (moment(&cells[0])?, moment(&cells[1])?, step(&cells[2])?);
    let zone = match cells.get(3) {
        Some(Cell::Plain(Datum::Text(name))) => Zone::named(name).unwrap_or_default(),
        _ => Zone::Utc,
    };
    let length = step.length_us();
    if length == 0 {
        return Err(no_step());
    }
    while if length > 0 { at <= to } else { at >= to } {
        if values.len() >= MOMENTS_MAX {
            return Err(too_many());
        }
        values.push(at);
        let Ok(next) = zone.later(at, step) else { break };
        at = next;
    }
    Ok(())
}

/// A number at a scale, without its point; the step is 1 if there is none. Errors: 0A000 for more than 18 digits.
fn units(cell: Option<&Cell>, scale: u8) -> SqlResult<i64> {
    let number = match cell {
        Some(Cell::Plain(value @ (Datum::Int(_) | Datum::Decimal(_)))) => value.decimal(),
        _ => Decimal::new(1, 0),
    };
    let units = number.rescale(scale).and_then(|number| i64::try_from(number.units()).ok());
    units.ok_or_else(|| SqlError::unsupported("generate_series of numerics with more than 18 digits"))
}

/// Whole numbers, numerics without their point, or moments in µs since 2000-01-01.
fn array_of(element: DataType, values: Vec<i64>) -> ArrayRef {
    match element {
        DataType::BigInt => Arc::new(Int64Array::from(values)),
        // Between bounds that are integers.
        DataType::Integer => Arc::new(Int32Array::from_iter_values(values.into_iter().map(|n| n as i32))),
        numerics @ DataType::Numeric { scale, .. } => {
            let value = |units: i64| Datum::Decimal(Decimal::new(units.into(), scale));
            colstore::array_of(numerics, &values.into_iter().map(value).collect::<Vec<Datum>>())
        }
        moments => {
            let values: Vec<Datum> = values.into_iter().map(Datum::Timestamp).collect();
            colstore::array_of(moments, &values)
        }
    }
}

/// µs since 2000-01-01. Errors: 42883.
fn moment(cell: &Cell) -> SqlResult<i64> {
    match cell {
        Cell::Plain(Datum::Timestamp(us)) => Ok(*us),
        Cell::Plain(Datum::Date(day)) => base::convert::midnight(*day),
        _ => {
            Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, "a series of moments has moments as its bounds"))
        }
    }
}

fn step(cell: &Cell) -> SqlResult<Interval> {
    match cell {
        Cell::Span(span) => Ok(*span),
        Cell::Plain(_) => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            "a series of moments has an interval as its step",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(cells: &[Cell], element: DataType) -> SqlResult<Vec<i64>> {
        let mut values = Vec::new();
        put(cells, element, &mut values).map(|()| values)
    }
    fn int(n: i64) -> Cell {
        Cell::Plain(Datum::Int(n))
    }

    #[test]
    fn numbers_go_up_and_down_to_their_bounds() {
        let of = |from, to, step| {
            let cells = [int(from), int(to), int(step)];
            series(&cells, DataType::BigInt)
        };
        assert_eq!(of(1, 3, 1).unwrap(), [1, 2, 3]);
        assert_eq!(of(3, 1, -2).unwrap(), [3, 1]);
        assert!(of(3, 1, 1).unwrap().is_empty());
        assert_eq!(of(i64::MAX - 1, i64::MAX, 1).unwrap().len(), 2);
        assert_eq!(of(1, 2, 0).unwrap_err().state, SqlState::INVALID_PARAMETER_VALUE);
    }

    #[test]
    fn numerics_go_by_their_digits() {
        let of = |texts: &[&str]| {
            let cell = |text: &&str| Cell::Plain(Datum::Decimal(Decimal::parse(text).expect("a number")));
            let cells: Vec<Cell> = texts.iter().map(cell).collect();
            series(&cells, DataType::Numeric { precision: 38, scale: 2 })
        };
        assert_eq!(of(&["1", "2", "0.25"]).unwrap(), [100, 125, 150, 175, 200]);
        assert_eq!(of(&["1.5", "3"]).unwrap(), [150, 250]);
        assert_eq!(of(&["1", "2", "0.0"]).unwrap_err().state, SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(of(&["1", "99999.0", "0.01"]).unwrap_err().state, SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(of(&["1", "1e18"]).unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
        let types = [Arrow::Int32, Arrow::Decimal128(5, 2), Arrow::Decimal128(3, 1)];
        assert_eq!(element_of(&types), Ok(DataType::Numeric { precision: 38, scale: 2 }));
    }

    #[test]
    fn moments_go_by_the_calendar() {
        let at = |us| Cell::Plain(Datum::Timestamp(us));
        let day = 86_400_000_000;
        let month = Cell::Span(Interval { months: 1, days: 0, us: 0 });
        let made = series(&[at(0), at(60 * day), month], DataType::Timestamp).unwrap();
        assert_eq!(made, [0, 31 * day, 60 * day]);
        let nothing = Cell::Span(Interval { months: 0, days: 0, us: 0 });
        assert!(series(&[at(0), at(day), nothing], DataType::Timestamp).is_err());
        let us = Cell::Span(Interval { months: 0, days: 0, us: 1 });
        let refused = series(&[at(0), at(day), us], DataType::Timestamp).unwrap_err();
        assert_eq!(refused.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
}
