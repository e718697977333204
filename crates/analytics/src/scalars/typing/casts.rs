//! Casts by PostgreSQL's rules.

use super::super::super::types;
use super::super::evaluated::{Computation, SpanOperation, call};
use super::super::functions::shown;
use super::super::inference::kind_of;
use super::super::kinds::{Family, Kind, kind_of_field};
use super::Settled;
use super::constants::{converted, folded, is_of_labels, literal, narrowed, native};
use base::convert::{Castable, castable};
use base::datum::NUMERIC_UNLIMITED;
use base::element::Element;
use base::expr::Expr as Scalar;
use base::{DataType, SqlError};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;

/// The text of a value, as a cast makes it.
pub(in super::super) fn as_text(e: Expr, kind: Kind) -> Expr {
    match kind {
        Kind::Known(DataType::Text) | Kind::Unknown | Kind::Foreign => e,
        Kind::Known(from) if kind.family() == Family::Text && from != DataType::Uuid => e,
        Kind::Known(from) => converted(e, from, DataType::Text),
        Kind::Span => {
            call(Computation::Spans(SpanOperation::Show), vec![(e, kind)], Kind::Known(DataType::Text))
        }
    }
}

/// An explicit cast. Errors: 42846, and those of literals that do not fit.
pub(in super::super) fn cast(inner: &Expr, field: &FieldRef, schema: &dyn ExprSchema) -> Settled {
    let whole = Expr::Cast(Cast { expr: Box::new(inner.clone()), field: field.clone() });
    if let Some(folded) = folded(&whole)? {
        return Ok(Some(folded));
    }
    let (from, to) = (kind_of(inner, schema), kind_of_field(field));
    if let Some(made) = cast_of_labels(inner, from, field, schema)? {
        return Ok(Some(made));
    }
    match (from, to) {
        // The kernel would make an array of the one value.
        (Kind::Known(_) | Kind::Span, Kind::Foreign) if field.data_type().is_nested() => {
            match from.family() {
                Family::Text => {
                    let element = types::element_type(field.data_type()).and_then(Element::of);
                    let element = element.ok_or_else(|| {
                        SqlError::unsupported("a cast of a text to an array of more than one dimension")
                    })?;
                    let Kind::Known(from) = from else { unreachable!("a text") };
                    Ok(Some(converted(inner.clone(), from, DataType::Array(element))))
                }
                _ => {
                    let element = types::element_type(field.data_type());
                    let element = element.map_or_else(|| "record".into(), |t| Kind::Known(t).name());
                    Err(base::convert::cannot_cast(&from.name(), &format!("{element}[]")))
                }
            }
        }
        // The kernel shows lists otherwise.
        (Kind::Foreign, Kind::Known(t))
            if to.family() == Family::Text
                && let Some(of) = list_of(inner, schema) =>
        {
            let list = DataType::Array(of);
            let text = converted(inner.clone(), list, DataType::Text);
            Ok(Some(if t == DataType::Text { text } else { converted(text, DataType::Text, t) }))
        }
        (Kind::Unknown, Kind::Foreign) => constant_array(inner, field),
        (Kind::Foreign | Kind::Unknown, _) | (_, Kind::Foreign | Kind::Unknown) => Ok(None),
        (Kind::Known(DataType::Time), Kind::Span) => {
            let convert = Scalar::Convert(Box::new(Scalar::Column(0)), DataType::Time, DataType::Interval);
            Ok(Some(call(Computation::Scalar(convert), vec![(inner.clone(), from)], Kind::Span)))
        }
        (Kind::Span, Kind::Known(t @ DataType::Time)) => {
            let convert = Scalar::Convert(Box::new(Scalar::Column(0)), DataType::Interval, t);
            Ok(Some(call(Computation::Scalar(convert), vec![(inner.clone(), from)], to)))
        }
        (Kind::Span, Kind::Span) => Ok(Some(inner.clone())),
        (Kind::Span, Kind::Known(t)) if to.family() == Family::Text => {
            let text = as_text(inner.clone(), from);
            Ok(Some(if t == DataType::Text { text } else { converted(text, DataType::Text, t) }))
        }
        (Kind::Known(_), Kind::Span) if from.family() == Family::Text => {
            let read = Computation::Spans(SpanOperation::Read);
            Ok(Some(call(read, vec![(inner.clone(), from)], Kind::Span)))
        }
        (Kind::Span, _) | (_, Kind::Span) => Err(base::convert::cannot_cast(&from.name(), &to.name())),
        (Kind::Known(DataType::Char { .. }), Kind::Known(b @ DataType::Bytea)) => {
            Ok(Some(converted(shown(inner, from), DataType::Text, b)))
        }
        (Kind::Known(a), Kind::Known(b)) => {
            // An integer as it is written is one, whatever its width here.
            let a = if narrowed(inner).is_some() { DataType::Integer } else { a };
            if castable(a, b) == Castable::No {
                return Err(base::convert::cannot_cast(&from.name(), &to.name()));
            }
            Ok(cast_known(inner, a, b, schema))
        }
    }
}

/// The text of an array of many elements, which is not written out as one of expressions. Errors: those of the text.
fn constant_array(inner: &Expr, field: &FieldRef) -> Settled {
    match (inner, types::element_type(field.data_type()).and_then(Element::of)) {
        (Expr::Literal(ScalarValue::Utf8(Some(_)), _), Some(of)) => {
            literal(inner, Kind::Known(DataType::Array(of))).map(Some)
        }
        _ => Ok(None),
    }
}

/// A cast to or from an array of labels, which the kernel does not know. Errors: 42846; those of literals; 0A000 for a row
/// of no type that becomes one of a type.
fn cast_of_labels(inner: &Expr, from: Kind, field: &FieldRef, schema: &dyn ExprSchema) -> Settled {
    if let (Kind::Foreign, Kind::Known(t @ DataType::Composite(_))) = (from, kind_of_field(field))
        && !matches!(inner, Expr::Placeholder(_))
    {
        return Err(SqlError::unsupported(format!(
            "a cast of a row to {} that is not written out",
            t.name()
        ))
        .hint("Write its elements: ROW(…)."));
    }
    let to = types::element_type(field.data_type()).and_then(Element::of).map(DataType::Array);
    let own = list_of(inner, schema).map(DataType::Array);
    match (from, own, to) {
        (Kind::Unknown, _, Some(to)) if is_of_labels(to) => literal(inner, Kind::Known(to)).map(Some),
        (Kind::Foreign, Some(own), Some(to)) if is_of_labels(own) || is_of_labels(to) => {
            if castable(own, to) == Castable::No {
                return Err(base::convert::cannot_cast(&own.name(), &to.name()));
            }
            Ok(Some(if own == to { inner.clone() } else { converted(inner.clone(), own, to) }))
        }
        _ => Ok(None),
    }
}

/// The type of a list's elements.
fn list_of(e: &Expr, schema: &dyn ExprSchema) -> Option<Element> {
    let field = super::super::super::fields::field(e, schema).ok()?;
    types::element_type(field.data_type()).and_then(Element::of)
}

fn cast_known(inner: &Expr, from: DataType, to: DataType, schema: &dyn ExprSchema) -> Option<Expr> {
    use DataType::*;
    let is = |t: DataType| kind_of(inner, schema) == Kind::Known(t);
    match (from, to) {
        _ if from == to && is(from) && !matches!(to, Varchar { .. } | Char { .. }) => Some(inner.clone()),
        // Wider integers and floats; the kernel does the same.
        (SmallInt, Integer | BigInt)
        | (Integer, BigInt)
        | (SmallInt | Integer | BigInt, Double)
        | (Real, Double) => None,
        (Timestamp, TimestampTz) | (TimestampTz, Timestamp) if sql::zones::current().is_utc() => None,
        // Without precision they keep their digits.
        (Numeric { .. }, to) if to == NUMERIC_UNLIMITED => Some(inner.clone()),
        (SmallInt | Integer | BigInt, to) if to == NUMERIC_UNLIMITED => {
            Some(native(inner.clone(), Kind::Known(from), Numeric { precision: 38, scale: 0 }))
        }
        (_, to) if to == NUMERIC_UNLIMITED => {
            // How many digits will come is not known: room for as many as a float has.
            let expr = base::expr::Expr::Convert(Box::new(base::expr::Expr::Column(0)), from, to);
            let returns = Kind::Known(Numeric { precision: 38, scale: 15 });
            Some(call(Computation::Scalar(expr), vec![(inner.clone(), Kind::Known(from))], returns))
        }
        (Numeric { precision: p, scale: s }, Numeric { precision, scale })
            if scale >= s && precision - scale >= p.saturating_sub(s) =>
        {
            None
        }
        _ => Some(converted(inner.clone(), from, to)),
    }
}
