//! Types at the border: Meridian's ↔ Arrow's.

use base::decimal::Decimal;
use base::error::SqlResult;
use base::{DataType, Datum, SqlError};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType as Arrow, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// From 1970-01-01 to 2000-01-01, Arrow's and PostgreSQL's first day.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
pub(crate) const EPOCH_US: i64 = EPOCH_DAYS as i64 * base::datum::US_PER_DAY;

/// Arrow type of a column of this type.
pub fn to_arrow(data_type: DataType) -> Arrow {
    match data_type {
        DataType::Boolean => Arrow::Boolean,
        DataType::SmallInt => Arrow::Int16,
        DataType::Integer => Arrow::Int32,
        DataType::BigInt => Arrow::Int64,
        DataType::Real => Arrow::Float32,
        DataType::Double => Arrow::Float64,
        DataType::Numeric { precision, scale } => Arrow::Decimal128(precision, scale as i8),
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => Arrow::Utf8,
        DataType::Date => Arrow::Date32,
        DataType::Timestamp => Arrow::Timestamp(TimeUnit::Microsecond, None),
        DataType::TimestampTz => Arrow::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Uuid => Arrow::FixedSizeBinary(16),
        DataType::Bytea => Arrow::Binary,
    }
}

/// How a result column of an Arrow type is shown; anything without a type of ours is text.
pub fn from_arrow(data_type: &Arrow) -> DataType {
    match data_type {
        Arrow::Boolean => DataType::Boolean,
        Arrow::Int8 | Arrow::Int16 | Arrow::UInt8 => DataType::SmallInt,
        Arrow::Int32 | Arrow::UInt16 => DataType::Integer,
        Arrow::Int64 | Arrow::UInt32 | Arrow::UInt64 => DataType::BigInt,
        Arrow::Float16 | Arrow::Float32 => DataType::Real,
        Arrow::Float64 => DataType::Double,
        Arrow::Decimal128(precision, scale) => {
            DataType::Numeric { precision: *precision, scale: (*scale).max(0) as u8 }
        }
        Arrow::Date32 | Arrow::Date64 => DataType::Date,
        Arrow::Timestamp(_, None) => DataType::Timestamp,
        Arrow::Timestamp(_, Some(_)) => DataType::TimestampTz,
        Arrow::FixedSizeBinary(16) => DataType::Uuid,
        Arrow::Binary | Arrow::LargeBinary | Arrow::BinaryView | Arrow::FixedSizeBinary(_) => DataType::Bytea,
        Arrow::Dictionary(_, values) => from_arrow(values),
        _ => DataType::Text,
    }
}

/// The rows of a batch as values; `types` say how each column is shown.
pub fn rows_of(batch: &RecordBatch, types: &[DataType]) -> SqlResult<Vec<Vec<Datum>>> {
    let mut rows: Vec<Vec<Datum>> =
        (0..batch.num_rows()).map(|_| Vec::with_capacity(batch.num_columns())).collect();
    for (column, data_type) in batch.columns().iter().zip(types) {
        append_column(column.as_ref(), *data_type, &mut rows)?;
    }
    Ok(rows)
}

/// Appends one value to each row.
fn append_column(array: &dyn Array, data_type: DataType, rows: &mut [Vec<Datum>]) -> SqlResult<()> {
    macro_rules! each {
        ($array:ty, $value:expr) => {{
            let array = array.as_any().downcast_ref::<$array>().expect("matches its type");
            let value = $value;
            for (i, row) in rows.iter_mut().enumerate() {
                row.push(if array.is_null(i) { Datum::Null } else { value(array.value(i)) });
            }
        }};
    }
    match array.data_type() {
        Arrow::Boolean => each!(BooleanArray, Datum::Bool),
        Arrow::Int8 => each!(Int8Array, |v| Datum::Int(i64::from(v))),
        Arrow::Int16 => each!(Int16Array, |v| Datum::Int(i64::from(v))),
        Arrow::Int32 => each!(Int32Array, |v| Datum::Int(i64::from(v))),
        Arrow::Int64 => each!(Int64Array, Datum::Int),
        Arrow::UInt8 => each!(UInt8Array, |v| Datum::Int(i64::from(v))),
        Arrow::UInt16 => each!(UInt16Array, |v| Datum::Int(i64::from(v))),
        Arrow::UInt32 => each!(UInt32Array, |v| Datum::Int(i64::from(v))),
        Arrow::UInt64 => each!(UInt64Array, |v| Datum::Int(v as i64)),
        Arrow::Float32 => each!(Float32Array, |v| Datum::Float(f64::from(v))),
        Arrow::Float64 => each!(Float64Array, Datum::Float),
        Arrow::Decimal128(_, scale) if *scale >= 0 => {
            let scale = *scale as u8;
            each!(Decimal128Array, |v| Datum::Decimal(Decimal::new(v, scale)))
        }
        Arrow::Utf8 => each!(StringArray, |v: &str| Datum::text(v)),
        Arrow::LargeUtf8 => each!(LargeStringArray, |v: &str| Datum::text(v)),
        Arrow::Utf8View => each!(StringViewArray, |v: &str| Datum::text(v)),
        Arrow::Binary => each!(BinaryArray, |v: &[u8]| Datum::Bytes(v.into())),
        Arrow::LargeBinary => each!(LargeBinaryArray, |v: &[u8]| Datum::Bytes(v.into())),
        Arrow::BinaryView => each!(BinaryViewArray, |v: &[u8]| Datum::Bytes(v.into())),
        Arrow::FixedSizeBinary(_) => each!(FixedSizeBinaryArray, |v: &[u8]| match data_type {
            DataType::Uuid => Datum::Uuid(v.try_into().expect("16 bytes")),
            _ => Datum::Bytes(v.into()),
        }),
        Arrow::Date32 => each!(Date32Array, |v: i32| Datum::Date(v.saturating_sub(EPOCH_DAYS))),
        Arrow::Timestamp(unit, _) => {
            let us = move |v: i64| {
                let us = match unit {
                    TimeUnit::Second => v.saturating_mul(1_000_000),
                    TimeUnit::Millisecond => v.saturating_mul(1_000),
                    TimeUnit::Microsecond => v,
                    TimeUnit::Nanosecond => v.div_euclid(1_000),
                };
                Datum::Timestamp(us.saturating_sub(EPOCH_US))
            };
            match unit {
                TimeUnit::Second => each!(TimestampSecondArray, us),
                TimeUnit::Millisecond => each!(TimestampMillisecondArray, us),
                TimeUnit::Microsecond => each!(TimestampMicrosecondArray, us),
                TimeUnit::Nanosecond => each!(TimestampNanosecondArray, us),
            }
        }
        _ => append_as_text(array, rows)?,
    }
    Ok(())
}

/// Lists, intervals and the like, printed.
fn append_as_text(array: &dyn Array, rows: &mut [Vec<Datum>]) -> SqlResult<()> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options).map_err(SqlError::internal)?;
    for (i, row) in rows.iter_mut().enumerate() {
        row.push(if array.is_null(i) { Datum::Null } else { Datum::text(formatter.value(i).to_string()) });
    }
    Ok(())
}
