//! What is known of an expression's type, in PostgreSQL's terms.

use super::super::types;
use base::DataType;
use base::interval::Interval;
use datafusion::arrow::datatypes::{DataType as Arrow, Field, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// The type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A string literal or NULL that takes the type of what it meets.
    Unknown,
    Known(DataType),
    Span,
    /// Lists, rows, parameters without a type: DataFusion's business.
    Foreign,
}

impl Kind {
    /// Name in messages about operators.
    pub fn name(self) -> String {
        match self {
            Kind::Unknown => "unknown".into(),
            Kind::Known(DataType::Numeric { .. }) => "numeric".into(),
            Kind::Known(DataType::Varchar { .. }) => "character varying".into(),
            Kind::Known(DataType::Char { .. }) => "character".into(),
            Kind::Known(t) => t.name(),
            Kind::Span => "interval".into(),
            Kind::Foreign => "a composite type".into(),
        }
    }

    pub fn family(self) -> Family {
        use DataType::*;
        match self {
            Kind::Known(Boolean) => Family::Boolean,
            Kind::Known(SmallInt | Integer | BigInt) => Family::Integer,
            Kind::Known(Numeric { .. }) => Family::Numeric,
            Kind::Known(Real | Double) => Family::Float,
            Kind::Known(Text | Varchar { .. } | Char { .. }) => Family::Text,
            Kind::Known(Date) => Family::Date,
            Kind::Known(Timestamp | TimestampTz) => Family::Moment,
            Kind::Known(Uuid) => Family::Uuid,
            Kind::Known(Bytea) => Family::Bytes,
            Kind::Span => Family::Span,
            Kind::Unknown => Family::Unknown,
            Kind::Foreign => Family::Foreign,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Boolean,
    Integer,
    Numeric,
    Float,
    Text,
    Date,
    Moment,
    Span,
    Uuid,
    Bytes,
    Unknown,
    Foreign,
}

impl Family {
    pub fn is_number(self) -> bool {
        matches!(self, Family::Integer | Family::Numeric | Family::Float)
    }
    /// Whether values of two families compare.
    pub fn meets(self, other: Family) -> bool {
        let is_time = |f| matches!(f, Family::Date | Family::Moment);
        self == other || (self.is_number() && other.is_number()) || (is_time(self) && is_time(other))
    }
}

/// The kind of an expression over columns of a schema.
pub(super) fn kind_of(e: &Expr, schema: &dyn ExprSchema) -> Kind {
    match e {
        Expr::Alias(alias) => return kind_of(&alias.expr, schema),
        Expr::Literal(ScalarValue::Utf8(_), None) | Expr::Literal(ScalarValue::Null, _) => {
            return Kind::Unknown;
        }
        Expr::Placeholder(_) => return Kind::Foreign,
        // Known without a look at what is inside, so that long chains are not walked once per link.
        Expr::BinaryExpr(BinaryExpr {
            op:
                Operator::And
                | Operator::Or
                | Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq,
            ..
        })
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Like(_)
        | Expr::InList(_)
        | Expr::Between(_) => return Kind::Known(DataType::Boolean),
        Expr::Cast(cast) => return kind_of_field(&cast.field),
        Expr::ScalarFunction(function) => {
            if let Some(kind) = super::evaluated::returned(&function.func) {
                return kind;
            }
            if function.name() == "nullif"
                && let Some(first) = function.args.first().filter(|e| !matches!(e, Expr::Literal(..)))
            {
                return kind_of(first, schema);
            }
            // What it will be once it is settled, for what is planned around it now. Only of functions that look
            // at their argument once, so that nesting them costs no more than their number.
            let looks_once =
                ["round", "trunc", "floor", "ceil", "signum", "sqrt", "exp", "ln", "log10", "log", "power"]
                    .contains(&function.name());
            if looks_once
                && let Ok(Some(Expr::ScalarFunction(settled))) =
                    super::functions::function(function.name(), &function.func, &function.args, schema, false)
                && let Some(kind) = super::evaluated::returned(&settled.func)
            {
                return kind;
            }
        }
        _ => {}
    }
    let kind = match super::super::fields::field(e, schema) {
        Ok(field) => kind_of_field(&field),
        Err(_) => Kind::Foreign,
    };
    // What one of several values is keeps the notes of none of them.
    let of_one = |values: &mut dyn Iterator<Item = &Expr>| {
        values
            .map(|e| kind_of(e, schema))
            .find(|k| *k != Kind::Unknown)
            .filter(|k| *k == Kind::Known(DataType::Uuid))
    };
    let noted = match e {
        _ if kind != Kind::Known(DataType::Text) => None,
        Expr::Case(case) => {
            let otherwise = case.else_expr.iter().map(|e| e.as_ref());
            of_one(&mut case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(otherwise))
        }
        Expr::ScalarFunction(f) if ["coalesce", "greatest", "least", "nullif"].contains(&f.name()) => {
            of_one(&mut f.args.iter())
        }
        _ => None,
    };
    noted.unwrap_or(kind)
}

pub(super) fn kind_of_field(field: &Field) -> Kind {
    match field.data_type() {
        Arrow::Null => Kind::Unknown,
        Arrow::Interval(IntervalUnit::MonthDayNano) => Kind::Span,
        Arrow::Boolean
        | Arrow::Int16
        | Arrow::Int32
        | Arrow::Int64
        | Arrow::Float32
        | Arrow::Float64
        | Arrow::Utf8
        | Arrow::LargeUtf8
        | Arrow::Utf8View
        | Arrow::Date32
        | Arrow::Timestamp(..)
        | Arrow::FixedSizeBinary(16)
        | Arrow::Binary => Kind::Known(types::shown_type(field)),
        Arrow::Decimal128(_, scale) if *scale >= 0 => Kind::Known(types::shown_type(field)),
        _ => Kind::Foreign,
    }
}

/// The field of a value of some kind.
pub(super) fn field_of(name: &str, kind: Kind) -> Field {
    match kind {
        Kind::Known(t) => types::noted_field(name, t),
        Kind::Span => Field::new(name, Arrow::Interval(IntervalUnit::MonthDayNano), true),
        Kind::Unknown | Kind::Foreign => Field::new(name, Arrow::Null, true),
    }
}

/// Arrow's interval as ours; nanoseconds beyond the microsecond are cut off.
pub(super) fn span(value: IntervalMonthDayNano) -> Interval {
    Interval { months: value.months, days: value.days, us: value.nanoseconds / 1_000 }
}

/// Ours as Arrow's. Errors: 22008 for times beyond 292 years, which nanoseconds have no room for.
pub(super) fn arrow_span(span: Interval) -> base::error::SqlResult<IntervalMonthDayNano> {
    let ns = span.us.checked_mul(1_000).ok_or_else(|| {
        base::SqlError::new(base::SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
            .detail("The time of an interval over columns is at most 292 years.")
    })?;
    Ok(IntervalMonthDayNano::new(span.months, span.days, ns))
}
