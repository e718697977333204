//! Types in PostgreSQL's terms, beside those of the planner.

use super::super::types;
use base::DataType;
use base::composite::CompositeType;
use base::enumeration::EnumType;
use base::interval::Interval;
use datafusion::arrow::datatypes::{DataType as Arrow, Field, IntervalMonthDayNano, IntervalUnit, TimeUnit};

/// The type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
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
            Kind::Known(Time) => Family::Clock,
            Kind::Known(Json) => Family::Json,
            Kind::Known(Jsonb) => Family::Jsonb,
            Kind::Known(Inet | Cidr) => Family::Address,
            Kind::Known(MacAddr) => Family::Hardware,
            Kind::Known(MacAddr8) => Family::Hardware8,
            Kind::Known(TimeTz) => Family::ZonedClock,
            Kind::Known(TsVector) => Family::Document,
            Kind::Known(TsQuery) => Family::Search,
            Kind::Known(Array(_)) => Family::Foreign,
            Kind::Known(Enum(of)) => Family::Label(of),
            Kind::Known(Composite(of)) => Family::Row(of),
            Kind::Span | Kind::Known(Interval) => Family::Span,
            Kind::Unknown => Family::Unknown,
            Kind::Foreign => Family::Foreign,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
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
    /// A time of day.
    Clock,
    /// The same with an offset from UTC.
    ZonedClock,
    Json,
    Jsonb,
    Address,
    /// An address of hardware, of six octets.
    Hardware,
    /// Of eight.
    Hardware8,
    /// A document of full-text search.
    Document,
    /// A query of full-text search.
    Search,
    /// Of an enumerated type.
    Label(EnumType),
    /// Of a composite type.
    Row(CompositeType),
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

/// Whether a `uuid` and a text meet, of which the text may turn out to be a `uuid` that a subquery has lost.
pub(super) fn may_meet(a: Kind, b: Kind) -> bool {
    let pair = (Kind::Known(DataType::Uuid), Kind::Known(DataType::Text));
    (a, b) == pair || (b, a) == pair
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
        | Arrow::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        | Arrow::LargeBinary
        | Arrow::BinaryView
        | Arrow::Binary => Kind::Known(types::shown_type(field)),
        Arrow::FixedSizeBinary(width) if base::inet::of_width(*width).is_some() => {
            Kind::Known(types::shown_type(field))
        }
        Arrow::Decimal128(_, scale) if *scale >= 0 => Kind::Known(types::shown_type(field)),
        Arrow::Struct(_) => match types::shown_type(field) {
            row @ DataType::Composite(_) => Kind::Known(row),
            _ => Kind::Foreign,
        },
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
pub(in super::super) fn span(value: IntervalMonthDayNano) -> Interval {
    colstore::from_arrow_interval(value)
}

/// Ours as Arrow's. Errors: 22008 for times beyond 292 years, which nanoseconds have no room for.
pub(in super::super) fn arrow_span(span: Interval) -> base::error::SqlResult<IntervalMonthDayNano> {
    let ns = span.us.checked_mul(1_000).ok_or_else(|| {
        base::SqlError::new(base::SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
            .detail("The time of an interval over columns is at most 292 years.")
    })?;
    Ok(IntervalMonthDayNano::new(span.months, span.days, ns))
}
