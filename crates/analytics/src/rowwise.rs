//! Arguments of functions that are computed row by row, intervals among them.

use super::scalars::{arrow_span, span};
use super::types;
use base::error::SqlResult;
use base::interval::Interval;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{DataType as Arrow, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use std::sync::Arc;

/// A value that may be an interval.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Plain(Datum),
    Span(Interval),
}

impl Cell {
    pub fn is_null(&self) -> bool {
        *self == Cell::Plain(Datum::Null)
    }
}

/// What a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Returns {
    Plain(DataType),
    Span,
}

impl Returns {
    pub fn arrow(self) -> Arrow {
        match self {
            Returns::Plain(data_type) => colstore::arrow_type(data_type),
            Returns::Span => Arrow::Interval(IntervalUnit::MonthDayNano),
        }
    }
}

/// An argument: the same value for all rows, or one each.
pub(super) struct Column {
    cells: Vec<Cell>,
    is_constant: bool,
    pub arrow_type: Arrow,
}

impl Column {
    pub fn new(argument: &ColumnarValue) -> SqlResult<Column> {
        let internal = |e: DataFusionError| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string());
        let (array, is_constant) = match argument {
            ColumnarValue::Array(array) => (array.clone(), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array().map_err(internal)?, true),
        };
        let cells = match array.data_type() {
            Arrow::Interval(_) => {
                let spans = array.as_primitive::<IntervalMonthDayNanoType>();
                spans.iter().map(|s| s.map_or(Cell::Plain(Datum::Null), |s| Cell::Span(span(s)))).collect()
            }
            Arrow::Null => vec![Cell::Plain(Datum::Null); array.len()],
            other => {
                let values = types::datums(array.as_ref(), types::from_arrow(other))?;
                values.into_iter().map(Cell::Plain).collect()
            }
        };
        Ok(Column { cells, is_constant, arrow_type: array.data_type().clone() })
    }
    pub fn at(&self, row: usize) -> Cell {
        self.cells[if self.is_constant { 0 } else { row }].clone()
    }
}

/// Calls a function for each row, once if all arguments are constant.
///
/// Errors: the function's.
pub(super) fn each_row(
    arguments: &ScalarFunctionArgs,
    returns: Returns,
    mut compute: impl FnMut(&[Column], usize) -> SqlResult<Cell>,
) -> Result<ColumnarValue> {
    let external = |error: SqlError| DataFusionError::External(Box::new(error));
    let is_constant = arguments.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
    let count = if is_constant { 1 } else { arguments.number_rows };
    let columns = arguments.args.iter().map(Column::new).collect::<SqlResult<Vec<_>>>().map_err(external)?;
    let mut made = Vec::with_capacity(count);
    for row in 0..count {
        made.push(compute(&columns, row).map_err(external)?);
    }
    let array = array_of(returns, made).map_err(external)?;
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        false => ColumnarValue::Array(array),
    })
}

fn array_of(returns: Returns, cells: Vec<Cell>) -> SqlResult<ArrayRef> {
    Ok(match returns {
        Returns::Span => {
            let spans = cells.into_iter().map(|cell| match cell {
                Cell::Span(span) => arrow_span(span).map(Some),
                Cell::Plain(_) => Ok(None),
            });
            Arc::new(spans.collect::<SqlResult<IntervalMonthDayNanoArray>>()?)
        }
        Returns::Plain(data_type) => {
            let values = cells.into_iter().map(|cell| match cell {
                Cell::Plain(value) => data_type.coerce(value),
                Cell::Span(_) => Ok(Datum::Null),
            });
            colstore::array_of(data_type, &values.collect::<SqlResult<Vec<Datum>>>()?)
        }
    })
}
