//! Constants: their values, folded and converted.

use super::super::super::types;
use super::super::evaluated::{Computation, call};
use super::super::kinds::{Kind, arrow_span, field_of, kind_of_field};
use base::error::SqlResult;
use base::{DataType, Datum};
use datafusion::common::ScalarValue;
use datafusion::common::metadata::FieldMetadata;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;

/// A literal without a type as a value of one; its column's own limits are not applied.
pub(in super::super) fn literal(e: &Expr, kind: Kind) -> SqlResult<Expr> {
    let text = match e {
        Expr::Alias(alias) => return literal(&alias.expr, kind),
        Expr::Literal(ScalarValue::Utf8(text), _) => text.clone(),
        _ => None,
    };
    let Some(text) = text else { return Ok(null(kind)) };
    match kind {
        Kind::Known(t) => Ok(constant(&sql::lower::expr::literal(&text, t)?, t)),
        Kind::Span => span_constant(base::interval::parse(&text)?),
        Kind::Unknown | Kind::Foreign => Ok(e.clone()),
    }
}

/// Whether a type is one of arrays of labels. The planner shows constant lists by their elements' time zone, which that of
/// labels is not, so no expression of such a type is a constant: it is computed by a call.
pub(in super::super) fn is_of_labels(t: DataType) -> bool {
    matches!(t, DataType::Array(of) if of.data_type().enumeration().is_some())
}

pub(super) fn null(kind: Kind) -> Expr {
    if let Kind::Known(t) = kind
        && is_of_labels(t)
    {
        return constant(&Datum::Null, t);
    }
    let field = field_of("", kind);
    let value = ScalarValue::try_new_null(field.data_type()).unwrap_or(ScalarValue::Null);
    Expr::Literal(value, metadata(kind))
}

pub(super) fn metadata(kind: Kind) -> Option<FieldMetadata> {
    let field = field_of("", kind);
    (!field.metadata().is_empty()).then(|| FieldMetadata::from(field.metadata()))
}

/// A value as a literal of its type; decimals keep their own digits.
pub(in super::super) fn constant(value: &Datum, t: DataType) -> Expr {
    let t = match (value, t) {
        (Datum::Decimal(d), DataType::Numeric { .. }) => {
            DataType::Numeric { precision: 38, scale: d.scale() }
        }
        _ => t,
    };
    if is_of_labels(t) {
        return call(
            Computation::Scalar(base::expr::Expr::Constant(value.clone())),
            Vec::new(),
            Kind::Known(t),
        );
    }
    match types::scalar(value, t) {
        Some(scalar) => Expr::Literal(scalar, metadata(Kind::Known(t))),
        None => null(Kind::Known(t)),
    }
}

pub(super) fn span_constant(span: base::interval::Interval) -> SqlResult<Expr> {
    Ok(Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(arrow_span(span)?)), None))
}

/// A literal that is cast, read now: `date '2026-11-21'`.
pub(in super::super) fn folded(e: &Expr) -> SqlResult<Option<Expr>> {
    let Expr::Cast(Cast { expr, field }) = e else { return Ok(None) };
    let Expr::Literal(value @ (ScalarValue::Utf8(_) | ScalarValue::Null), None) = expr.as_ref() else {
        return Ok(None);
    };
    let to = kind_of_field(field);
    let text = match value {
        ScalarValue::Utf8(Some(text)) => text,
        _ if matches!(to, Kind::Known(_) | Kind::Span) => return Ok(Some(null(to))),
        _ => return Ok(None),
    };
    match to {
        Kind::Known(t) => {
            let value = sql::zones::cast(Datum::text(text), DataType::Text, t)?;
            Ok(Some(constant(&value, t)))
        }
        Kind::Span => span_constant(base::interval::parse(text)?).map(Some),
        Kind::Unknown | Kind::Foreign => Ok(None),
    }
}

/// A whole number as it is written is an `integer` if it fits.
pub(in super::super) fn narrowed(e: &Expr) -> Option<Expr> {
    match e {
        Expr::Literal(ScalarValue::Int64(Some(i)), None) => {
            i32::try_from(*i).ok().map(|i| Expr::Literal(ScalarValue::Int32(Some(i)), None))
        }
        _ => None,
    }
}

/// Casts a number natively: exact ones, and integers to floats.
pub(super) fn native(e: Expr, from: Kind, to: DataType) -> Expr {
    match from {
        Kind::Known(from) if from == to => e,
        // One rounding, where the kernel would divide a rounded number.
        Kind::Known(from @ DataType::Numeric { .. }) => converted(e, from, to),
        _ => Expr::Cast(Cast::new(Box::new(e), colstore::arrow_type(to))),
    }
}

/// An explicit cast by the function that rows use, in the session's zone.
pub(in super::super) fn converted(e: Expr, from: DataType, to: DataType) -> Expr {
    let column = base::expr::Expr::Column(0);
    let zoned = base::expr::converted_in(&column, from, to, sql::zones::current());
    let expr = zoned.unwrap_or_else(|| base::expr::Expr::Convert(Box::new(column), from, to));
    call(Computation::Scalar(expr), vec![(e, Kind::Known(from))], Kind::Known(to))
}
