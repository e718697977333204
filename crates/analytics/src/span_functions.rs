//! Intervals that are made of parts, set right, or cut: `make_interval`, `justify_interval`, `date_trunc`.

use super::rowwise::{Cell, Returns, each_row};
use super::small_functions::{Small, US_PER_DAY, carried, no_such, span, text_of};
use base::error::SqlResult;
use base::{Datum, SqlError, SqlState};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::common::types::logical_string;
use datafusion::execution::context::SessionContext;
use datafusion::functions::datetime::date_trunc;
use datafusion::logical_expr::{
    Coercion, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, TypeSignatureClass, Volatility,
};
use std::sync::Arc;

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    let functions: [(&'static str, usize, fn(&[Cell]) -> SqlResult<Cell>); 2] =
        [("justify_interval", 1, justify_interval), ("make_interval", 7, make_interval)];
    for (name, count, compute) in functions {
        let signature = Signature::any(count, Volatility::Immutable);
        let function = Small { name, signature, returns: Returns::Span, is_strict: true, compute };
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    let inner = date_trunc();
    let of_interval = TypeSignature::Coercible(vec![
        Coercion::new_exact(TypeSignatureClass::Native(logical_string())),
        Coercion::new_exact(TypeSignatureClass::Interval),
    ]);
    let either = vec![inner.signature().type_signature.clone(), of_interval];
    let signature = Signature::one_of(either, Volatility::Immutable);
    context.register_udf(ScalarUDF::new_from_impl(Truncated { inner, signature }));
}

/// `date_trunc`, which the library has of moments alone.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Truncated {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Truncated {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }
    /// Of the type of what is cut.
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !matches!(arguments.return_field.data_type(), DataType::Interval(_)) {
            return self.inner.invoke_with_args(arguments);
        }
        each_row(&arguments, Returns::Span, |columns, row| {
            let (unit, of) = (columns[0].at(row), columns[1].at(row));
            match (text_of(&unit)?, &of) {
                (Some(unit), Cell::Span(of)) => base::interval::truncated(unit, *of).map(Cell::Span),
                _ => Ok(Cell::Plain(Datum::Null)),
            }
        })
    }
}

/// Days of 24 hours and months of 30 days, all with the sign of the greatest.
fn justify_interval(cells: &[Cell]) -> SqlResult<Cell> {
    let given = span(&cells[0])?;
    let days = i64::from(given.days) + given.us / US_PER_DAY;
    let months = i64::from(given.months) + days / 30;
    carried(months, days % 30, given.us % US_PER_DAY, |months, days, us| {
        let lesser = if days == 0 { us.signum() } else { days.signum() };
        let by = if lesser == -months.signum() { months.signum() } else { 0 };
        let (months, days) = (months - by, days + 30 * by);
        let by = if us.signum() == -days.signum() { days.signum() } else { 0 };
        (months, days - by, us + by * US_PER_DAY)
    })
}

/// Years, months, weeks, days, hours, minutes and seconds together. Errors: 22008.
fn make_interval(cells: &[Cell]) -> SqlResult<Cell> {
    let number = |n: usize| match &cells[n] {
        Cell::Plain(value) => value.as_f64().ok_or_else(|| no_such("function make_interval")),
        Cell::Span(_) => Err(no_such("function make_interval")),
    };
    let whole = |n: usize| number(n).map(|f| f as i64);
    let beyond = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range");
    let sum = |many: i64, of: i64, more: i64| {
        many.checked_mul(of).and_then(|product| product.checked_add(more)).ok_or_else(beyond)
    };
    let seconds = number(6)?;
    if !seconds.is_finite() || seconds.abs() > 9e12 {
        return Err(beyond());
    }
    let months = sum(whole(0)?, 12, whole(1)?)?;
    let days = sum(whole(2)?, 7, whole(3)?)?;
    let minutes = sum(whole(4)?, 60, whole(5)?)?;
    let us = sum(minutes, 60_000_000, (seconds * 1e6).round_ties_even() as i64)?;
    carried(months, days, us, |months, days, us| (months, days, us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_justified_as_in_postgresql() {
        for (given, wanted) in [
            ("1 mon -1 hour", "29 days 23:00:00"),
            ("-1 mon 1 hour", "-29 days -23:00:00"),
            ("1 mon 2 days -100 hours", "27 days 20:00:00"),
            ("35 days 25:00", "1 mon 6 days 01:00:00"),
            ("-35 days 25:00", "-1 mons -3 days -23:00:00"),
            ("2 mon -1 day -1 hour", "1 mon 28 days 23:00:00"),
        ] {
            let Ok(Cell::Span(made)) = justify_interval(&[Cell::Span(base::interval::parse(given).unwrap())])
            else {
                panic!("{given}")
            };
            assert_eq!(made.to_string(), wanted, "{given}");
        }
    }
}
