//! Which types meet, what they become together, and how a string literal becomes a value of one.

use crate::types::NUMERIC;
use base::composite::CompositeType;
use base::decimal::Decimal;
use base::element::Element;
use base::enumeration::EnumType;
use base::error::SqlResult;
use base::{DataType, Datum};

/// Kinds of types that compare with each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Boolean,
    Number,
    Text,
    Time,
    Uuid,
    Bytes,
    /// A time of day.
    Clock,
    /// The same with an offset from UTC.
    ZonedClock,
    Span,
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
    /// By its elements' type without limits.
    Array(Element),
    Enum(EnumType),
    Row(CompositeType),
}

pub(super) fn family(data_type: DataType) -> Family {
    match data_type {
        DataType::Boolean => Family::Boolean,
        DataType::SmallInt
        | DataType::Integer
        | DataType::BigInt
        | DataType::Real
        | DataType::Double
        | DataType::Numeric { .. } => Family::Number,
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => Family::Text,
        DataType::Date | DataType::Timestamp | DataType::TimestampTz => Family::Time,
        DataType::Uuid => Family::Uuid,
        DataType::Bytea => Family::Bytes,
        DataType::Time => Family::Clock,
        DataType::Interval => Family::Span,
        DataType::Json => Family::Json,
        DataType::Jsonb => Family::Jsonb,
        DataType::Inet | DataType::Cidr => Family::Address,
        DataType::MacAddr => Family::Hardware,
        DataType::MacAddr8 => Family::Hardware8,
        DataType::TimeTz => Family::ZonedClock,
        DataType::TsVector => Family::Document,
        DataType::TsQuery => Family::Search,
        DataType::Enum(of) => Family::Enum(of),
        DataType::Composite(of) => Family::Row(of),
        DataType::Array(of) => Family::Array(match of.data_type() {
            DataType::Varchar { .. } | DataType::Char { .. } => Element::of(DataType::Text).unwrap_or(of),
            DataType::Numeric { .. } => Element::of(NUMERIC).unwrap_or(of),
            _ => of,
        }),
    }
}

/// The type both sides of an operation on numbers are taken to.
pub(super) fn wider(a: DataType, b: DataType) -> DataType {
    let rank = |t: DataType| match t {
        DataType::SmallInt => 0,
        DataType::Integer => 1,
        DataType::BigInt => 2,
        DataType::Numeric { .. } => 3,
        DataType::Real => 4,
        _ => 5,
    };
    let wide = if rank(a) >= rank(b) { a } else { b };
    match wide {
        DataType::Numeric { .. } => NUMERIC,
        // real with anything but an integer or real is double.
        DataType::Real if rank(a).min(rank(b)) == 3 => DataType::Double,
        other => other,
    }
}

/// Name of a type in messages about operators: no modifiers.
pub fn bare_name(data_type: DataType) -> String {
    match data_type {
        DataType::Numeric { .. } => "numeric".into(),
        DataType::Varchar { .. } => "character varying".into(),
        DataType::Char { .. } => "character".into(),
        DataType::Array(of) => format!("{}[]", bare_name(of.data_type())),
        other => other.name(),
    }
}

/// Whether values of two types compare only in some zone's time: one of them is a moment, and the other is not.
pub(super) fn meet_in_a_zone(a: DataType, b: DataType) -> bool {
    let is_moment = |t| t == DataType::TimestampTz;
    is_moment(a) != is_moment(b) && family(a) == Family::Time && family(b) == Family::Time
}

/// A string literal as a value to compare with or assign to a type, in the session's zone; a column's own limits are not
/// applied here.
pub fn literal(text: &str, to: DataType) -> SqlResult<Datum> {
    match to {
        DataType::Text | DataType::Varchar { .. } => Ok(Datum::text(text)),
        DataType::Char { .. } => Ok(Datum::text(text.trim_end_matches(' '))),
        DataType::Numeric { .. } => match Decimal::parse(text.trim()) {
            Some(decimal) => Ok(Datum::Decimal(decimal)),
            None => crate::zones::parse(text, to),
        },
        _ => crate::zones::parse(text, to),
    }
}
