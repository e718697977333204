//! `extract` and `date_part`.

use super::evaluated::{Computation, SpanOperation, call};
use super::kinds::{Family, Kind};
use super::plain::Plain;
use super::powers::DOUBLE;
use super::typing::{Settled, no_function};
use base::DataType;
use base::expr::{Expr as Scalar, Function};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, lit};

/// Whether a unit is one of the time of a day.
fn is_of_time(unit: &str) -> bool {
    let unit = unit.to_lowercase();
    matches!(unit.trim_end_matches('s'), "hour" | "minute" | "second" | "millisecond" | "microsecond")
}

/// `extract(unit from at)`: of moments, days, times of day and intervals. Errors: 42883, 42725 for what has no type, 0A000
/// for units that the type does not have.
pub(super) fn date_part(unit: &Expr, at: &Expr, kind: Kind) -> Settled {
    let told = |state: base::SqlState, message: String| Err(base::SqlError::new(state, message));
    let name = match unit {
        Expr::Literal(ScalarValue::Utf8(Some(name)), _) => Some(name.to_lowercase()),
        _ => None,
    };
    let part = || {
        let arguments = vec![(unit.clone(), Kind::Known(DataType::Text)), (at.clone(), kind)];
        Ok(Some(call(Computation::Spans(SpanOperation::Part), arguments, DOUBLE)))
    };
    let is_below_minutes = |name: &str| name.contains("second");
    let unsupported = |name: &str, of: &str| {
        told(base::SqlState::FEATURE_NOT_SUPPORTED, format!("unit \"{name}\" not supported for type {of}"))
    };
    match (kind.family(), name) {
        (Family::Span, Some(_)) => part(),
        // The library's seconds are whole.
        (Family::Moment, Some(name)) if is_below_minutes(&name) => part(),
        // The library counts no year zero, and knows no longer units than a year.
        (Family::Moment | Family::Date, Some(name)) if base::text::parts::is_of_calendar(&name) => {
            let part = Computation::Plain(Plain::CalendarPart);
            let arguments = vec![(lit(name.as_str()), Kind::Known(DataType::Text)), (at.clone(), kind)];
            let returns = if name == "julian" { DOUBLE } else { Kind::Known(DataType::Integer) };
            Ok(Some(call(part, arguments, returns)))
        }
        (Family::Clock, Some(name)) if !is_of_time(&name) && name != "epoch" => {
            unsupported(&name, "time without time zone")
        }
        (Family::Clock, Some(_)) => part(),
        (Family::ZonedClock, _) => {
            let zone = Scalar::zone(base::zone::Zone::Utc);
            let function = Function::Zone(base::expr::ZoneFunction::ClockPart);
            let part = Scalar::Call(function, vec![zone, Scalar::Column(0), Scalar::Column(1)]);
            let arguments = vec![(unit.clone(), Kind::Known(DataType::Text)), (at.clone(), kind)];
            Ok(Some(call(Computation::Scalar(part), arguments, DOUBLE)))
        }
        (Family::Date, Some(name)) if is_of_time(&name) => unsupported(&name, "date"),
        (Family::Moment | Family::Span | Family::Date | Family::Clock | Family::Foreign, _) => Ok(None),
        (Family::Unknown, _) => told(
            base::SqlState(*b"42725"),
            "function pg_catalog.extract(unknown, unknown) is not unique".into(),
        ),
        _ => Err(no_function("pg_catalog.extract", &[Kind::Unknown, kind])),
    }
}
