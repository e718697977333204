//! Intervals that are made of parts, or set right: `make_interval`, `justify_interval`.

use super::rowwise::{Cell, Returns};
use super::small_functions::{Small, US_PER_DAY, carried, no_such, span};
use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    let functions: [(&'static str, usize, fn(&[Cell]) -> SqlResult<Cell>); 2] =
        [("justify_interval", 1, justify_interval), ("make_interval", 7, make_interval)];
    for (name, count, compute) in functions {
        let signature = Signature::any(count, Volatility::Immutable);
        let function = Small { name, signature, returns: Returns::Span, is_strict: true, compute };
        context.register_udf(ScalarUDF::new_from_impl(function));
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
