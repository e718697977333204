//! Types as catalogs describe them.

use base::{DataType, Datum};

/// Bytes of a value, as in `typlen`; -1 where they differ.
pub(super) fn type_length(data_type: DataType) -> i64 {
    match data_type {
        DataType::Enum(_) => 4,
        DataType::Boolean => 1,
        DataType::SmallInt => 2,
        DataType::Integer | DataType::Real | DataType::Date => 4,
        DataType::BigInt
        | DataType::Double
        | DataType::Timestamp
        | DataType::TimestampTz
        | DataType::Time => 8,
        DataType::Uuid | DataType::Interval => 16,
        DataType::MacAddr => 6,
        DataType::MacAddr8 => 8,
        DataType::TimeTz => 12,
        _ => -1,
    }
}

/// A type as the standard describes it: name, length, digits, digits behind the point, digits of a second.
pub(super) fn described(data_type: DataType) -> [Datum; 5] {
    let (name, length, precision, scale) = match data_type {
        DataType::Varchar { length } => ("character varying".into(), Some(length), None, None),
        DataType::Char { length } => ("character".into(), Some(length), None, None),
        DataType::Numeric { precision, scale } => {
            ("numeric".into(), None, Some(u32::from(precision)), Some(u32::from(scale)))
        }
        DataType::SmallInt => ("smallint".into(), None, Some(16), Some(0)),
        DataType::Integer => ("integer".into(), None, Some(32), Some(0)),
        DataType::BigInt => ("bigint".into(), None, Some(64), Some(0)),
        DataType::Array(_) => ("ARRAY".into(), None, None, None),
        DataType::Enum(_) | DataType::Composite(_) => ("USER-DEFINED".into(), None, None, None),
        other => (other.name(), None, None, None),
    };
    let number_or_null = |n: Option<u32>| n.map_or(Datum::Null, |n| Datum::Int(i64::from(n)));
    let is_time = matches!(
        data_type,
        DataType::Timestamp | DataType::TimestampTz | DataType::Time | DataType::TimeTz | DataType::Interval
    );
    let moment = if is_time { Datum::Int(6) } else { Datum::Null };
    [Datum::text(name), number_or_null(length), number_or_null(precision), number_or_null(scale), moment]
}
