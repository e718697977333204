//! Moments, times and intervals of fewer digits than six behind the seconds: `timestamp(3)`, `interval(0) '1.5 s'`.
//!
//! A cast to such a type rounds what the cast to the whole type gives.

use super::rowwise::{Cell, Returns};
use super::small_functions::Small;
use base::error::SqlResult;
use base::interval::Interval;
use base::timetz::TimeTz;
use base::{DataType, Datum, SqlError};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use datafusion::sql::sqlparser::ast::{self, Expr, TimezoneInfo};

/// Digits that are kept anyway.
const DIGITS: u64 = 6;

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    use Returns::{Plain, Span};
    let functions = [
        ("meridian_rounded_timestamp", Plain(DataType::Timestamp)),
        ("meridian_rounded_timestamptz", Plain(DataType::TimestampTz)),
        ("meridian_rounded_time", Plain(DataType::Time)),
        ("meridian_rounded_timetz", Plain(DataType::TimeTz)),
        ("meridian_rounded_interval", Span),
    ];
    for (name, returns) in functions {
        let signature = Signature::any(2, Volatility::Immutable);
        let function = Small { name, signature, returns, is_strict: true, compute: rounded };
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
}

/// A cast to a type of fewer digits, or a literal of it, as the rounded value; `None` for others. Errors: 0A000 for an
/// interval of some fields.
pub(super) fn limited(e: &Expr) -> SqlResult<Option<Expr>> {
    let (value, data_type) = match e {
        Expr::Cast { kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, expr, data_type, .. } => {
            (expr.to_string(), data_type)
        }
        Expr::TypedString(typed) => (typed.value.to_string(), &typed.data_type),
        _ => return Ok(None),
    };
    let is_zoned = |zone: &TimezoneInfo| matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz);
    let (name, digits) = match data_type {
        ast::DataType::Timestamp(Some(digits), zone) if is_zoned(zone) => ("timestamptz", *digits),
        ast::DataType::Timestamp(Some(digits), _) => ("timestamp", *digits),
        ast::DataType::Time(Some(digits), zone) if is_zoned(zone) => ("timetz", *digits),
        ast::DataType::Time(Some(digits), _) => ("time", *digits),
        ast::DataType::Interval { fields: Some(_), .. } => {
            return Err(SqlError::unsupported("an interval of some fields"));
        }
        ast::DataType::Interval { fields: None, precision: Some(digits) } => ("interval", *digits),
        _ => return Ok(None),
    };
    let whole = format!("CAST({value} AS {name})");
    let text = match digits < DIGITS {
        true => format!("meridian_rounded_{name}({whole}, {digits})"),
        false => whole,
    };
    sql::parse::parse_expr(&text).map(Some)
}

/// `CURRENT_TIME`, with as many digits as its argument says.
pub(super) fn current_time(arguments: &ast::FunctionArguments) -> Option<Expr> {
    let whole = "CAST(CAST(now() AS timestamptz) AS timetz)";
    let text = match arguments {
        ast::FunctionArguments::List(list) if let [digits] = list.args.as_slice() => {
            format!("meridian_rounded_timetz({whole}, least({digits}, {DIGITS}))")
        }
        _ => whole.to_string(),
    };
    sql::parse::parse_expr(&text).ok()
}

fn rounded(cells: &[Cell]) -> SqlResult<Cell> {
    let Cell::Plain(Datum::Int(digits @ 0..=6)) = cells[1] else {
        return Err(SqlError::internal("a number of digits"));
    };
    let unit = 10_i64.pow(6 - digits as u32);
    // Halves go away from zero, which is the year 2000.
    let round = |us: i64| {
        let up = us.unsigned_abs().saturating_add(unit.unsigned_abs() / 2) / unit.unsigned_abs();
        us.signum() * (up * unit.unsigned_abs()) as i64
    };
    Ok(match &cells[0] {
        Cell::Span(span) => Cell::Span(Interval { us: round(span.us), ..*span }),
        Cell::Plain(Datum::Time(us)) => Cell::Plain(Datum::Time(round(*us))),
        Cell::Plain(Datum::TimeTz(time)) => {
            Cell::Plain(Datum::TimeTz(TimeTz::new(round(time.us()), time.offset_s())))
        }
        Cell::Plain(Datum::Timestamp(us)) => Cell::Plain(Datum::Timestamp(round(*us))),
        _ => return Err(SqlError::internal("no moment is rounded")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_rounded_to_its_digits() {
        let of = |us: i64, digits: i64| {
            let cells = [Cell::Plain(Datum::Timestamp(us)), Cell::Plain(Datum::Int(digits))];
            match rounded(&cells).unwrap() {
                Cell::Plain(Datum::Timestamp(us)) => us,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(of(1_234_500, 3), 1_235_000);
        assert_eq!(of(-1_234_500, 3), -1_235_000);
        assert_eq!(of(1_499_999, 0), 1_000_000);
        assert_eq!(of(1, 6), 1);
    }

    #[test]
    fn a_cast_to_fewer_digits_rounds_the_cast_to_all() {
        let made = |sql: &str| limited(&sql::parse::parse_expr(sql).unwrap()).unwrap().map(|e| e.to_string());
        let rounded = "meridian_rounded_timestamptz(CAST(a AS TIMESTAMPTZ), 3)";
        assert_eq!(made("a::timestamp(3) with time zone").as_deref(), Some(rounded));
        assert_eq!(made("cast(a as timestamp)"), None);
        assert!(limited(&sql::parse::parse_expr("a::interval year to month").unwrap()).is_err());
    }
}
