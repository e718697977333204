//! How SQL types look in Arrow, and the way from a [`Datum`] to an array and back.
//!
//! | SQL | Arrow |
//! |---|---|
//! | boolean | Boolean |
//! | smallint, integer, bigint | Int16, Int32, Int64 |
//! | real, double precision | Float32, Float64 |
//! | numeric(p,s) | Decimal128(p, s) |
//! | text, varchar, char | Utf8View (char without its padding) |
//! | date | Date32, days since 1970 |
//! | timestamp, timestamptz | Timestamp(µs), with zone "+00:00" if it has one, since 1970 |
//! | uuid | Utf8View of the canonical lower-case form: it prints, compares and sorts as a uuid does |
//! | bytea | Binary |
//! | time | Time64(µs) |
//! | interval | Interval(MonthDayNano); its time is cut at 292 years, as far as nanoseconds reach |
//! | json | Utf8View of the text as it was written |
//! | inet, cidr, macaddr, macaddr8 | FixedSizeBinary, packed in the order of addresses; each has another width |
//! | timetz | Time64(ns) of the number that is in the order of such times: nothing else is one |
//! | jsonb | LargeBinary of the canonical text: nothing else is one, so that no function takes it for a text |
//! | tsvector, tsquery | BinaryView of the canonical text, for the reason of jsonb |
//! | arrays | List of what their elements are |
//! | composite types | Struct of one Binary named `composite ID`: the row of its attributes' values |
//! | enumerated types | Timestamp(s) of the zone `enum ID`, which nothing else has, so that a plan knows whose codes they are |
//!
//! Rows count from 2000-01-01, Arrow from 1970-01-01. The last 30 of the 292,000 years that fit a
//! timestamp do not fit Arrow's: they become its last microsecond.

use crate::values::Values;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{DataType as ArrowType, Field, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit};
use base::composite::CompositeType;
use base::decimal::Decimal;
use base::inet::{self, Inet};
use base::interval::Interval;
use base::schema::Table;
use base::timetz::TimeTz;
use base::{DataType, Datum};
use std::sync::Arc;

/// Days from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
/// µs from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_US: i64 = EPOCH_DAYS as i64 * base::datum::US_PER_DAY;

/// The Arrow type of a column.
pub fn arrow_type(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::Boolean => ArrowType::Boolean,
        DataType::SmallInt => ArrowType::Int16,
        DataType::Integer => ArrowType::Int32,
        DataType::BigInt => ArrowType::Int64,
        DataType::Real => ArrowType::Float32,
        DataType::Double => ArrowType::Float64,
        // SQL knows numeric(2,5), 0.00012 being one; Arrow wants a digit for each place.
        DataType::Numeric { precision, scale } => ArrowType::Decimal128(precision.max(scale), scale as i8),
        DataType::Text
        | DataType::Varchar { .. }
        | DataType::Char { .. }
        | DataType::Uuid
        | DataType::Json => ArrowType::Utf8View,
        DataType::Date => ArrowType::Date32,
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        DataType::TimestampTz => ArrowType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        DataType::Bytea => ArrowType::Binary,
        DataType::Time => ArrowType::Time64(TimeUnit::Microsecond),
        DataType::Interval => ArrowType::Interval(IntervalUnit::MonthDayNano),
        DataType::Jsonb => ArrowType::LargeBinary,
        DataType::Inet | DataType::Cidr | DataType::MacAddr | DataType::MacAddr8 => {
            ArrowType::FixedSizeBinary(inet::width(data_type).expect("a type of addresses") as i32)
        }
        DataType::TimeTz => ArrowType::Time64(TimeUnit::Nanosecond),
        DataType::TsVector | DataType::TsQuery => ArrowType::BinaryView,
        DataType::Array(of) => ArrowType::List(Arc::new(list_field(of.data_type()))),
        DataType::Enum(of) => ArrowType::Timestamp(TimeUnit::Second, Some(of.zone().into())),
        DataType::Composite(of) => ArrowType::Struct(row_fields(of)),
    }
}

/// All columns of a table, hidden ones included: field number = column number.
pub fn schema_of(table: &Table) -> SchemaRef {
    Arc::new(Schema::new(table.columns.iter().map(field_of).collect::<Vec<_>>()))
}

/// One column.
pub fn field_of(column: &base::schema::Column) -> Field {
    Field::new(&column.name, arrow_type(column.data_type), !column.not_null)
}

/// Values of one column as an Arrow array. They must fit the type, as [`DataType::coerce`] leaves them.
pub fn array_of(data_type: DataType, values: &[Datum]) -> ArrayRef {
    let mut column = Values::new(data_type, values.len());
    values.iter().for_each(|v| column.push(v));
    column.to_arrow()
}

/// One value of an array made by this crate (or of the same Arrow type) as a [`Datum`].
pub fn datum_at(data_type: DataType, array: &dyn Array, row: usize) -> Datum {
    if array.is_null(row) {
        return Datum::Null;
    }
    match data_type {
        DataType::Boolean => Datum::Bool(array.as_boolean().value(row)),
        DataType::SmallInt => Datum::Int(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Integer => Datum::Int(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::BigInt => Datum::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::Real => Datum::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Double => Datum::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Numeric { scale, .. } => {
            Datum::Decimal(Decimal::new(array.as_primitive::<Decimal128Type>().value(row), scale))
        }
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } | DataType::Json => {
            Datum::text(array.as_string_view().value(row))
        }
        DataType::Date => Datum::Date(array.as_primitive::<Date32Type>().value(row) - EPOCH_DAYS),
        DataType::Timestamp | DataType::TimestampTz => {
            Datum::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row) - EPOCH_US)
        }
        DataType::Uuid => parse_uuid(array.as_string_view().value(row)).map_or(Datum::Null, Datum::Uuid),
        DataType::Bytea => Datum::Bytes(Arc::from(array.as_binary::<i32>().value(row))),
        DataType::Time => Datum::Time(array.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Interval => {
            Datum::Interval(from_arrow_interval(array.as_primitive::<IntervalMonthDayNanoType>().value(row)))
        }
        DataType::Inet | DataType::Cidr | DataType::MacAddr | DataType::MacAddr8 => {
            Inet::of_packed(array.as_fixed_size_binary().value(row)).map_or(Datum::Null, Datum::Inet)
        }
        DataType::TimeTz => {
            let packed = array.as_primitive::<Time64NanosecondType>().value(row);
            Datum::TimeTz(TimeTz::of_packed(packed))
        }
        DataType::TsVector | DataType::TsQuery => {
            let text = std::str::from_utf8(array.as_binary_view().value(row));
            Datum::text(text.expect("documents and queries are UTF-8"))
        }
        DataType::Jsonb => {
            let text = std::str::from_utf8(array.as_binary::<i64>().value(row)).expect("JSON is UTF-8");
            Datum::Json(Arc::from(text))
        }
        DataType::Enum(_) => Datum::Int(array.as_primitive::<TimestampSecondType>().value(row)),
        DataType::Composite(_) => {
            let bytes = array.as_struct().column(0).as_binary::<i32>().value(row);
            Datum::Array(row_values(bytes).into())
        }
        DataType::Array(of) => {
            let elements = array.as_list::<i32>().value(row);
            let values = (0..elements.len()).map(|at| datum_at(of.data_type(), elements.as_ref(), at));
            Datum::Array(values.collect())
        }
    }
}

/// The values of a row of a composite type, as the one field of its struct holds them.
pub fn row_values(bytes: &[u8]) -> Vec<Datum> {
    crate::values::elements(bytes)
}

/// The one field of what holds rows of a composite type: its name says of which.
pub(crate) fn row_fields(of: CompositeType) -> Fields {
    vec![Field::new(of.field(), ArrowType::Binary, true)].into()
}

/// The field of a list's elements.
pub(crate) fn list_field(of: DataType) -> Field {
    Field::new_list_field(arrow_type(of), true)
}

/// An interval of Arrow's; nanoseconds beyond the microsecond are cut off.
pub fn from_arrow_interval(value: IntervalMonthDayNano) -> Interval {
    Interval { months: value.months, days: value.days, us: value.nanoseconds / 1_000 }
}

/// An interval as Arrow has it; its time is cut at what nanoseconds reach.
pub fn arrow_interval(interval: Interval) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(interval.months, interval.days, interval.us.saturating_mul(1_000))
}

/// `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, lower case.
pub(crate) fn write_uuid(out: &mut Vec<u8>, bytes: [u8; 16]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (i, b) in bytes.into_iter().enumerate() {
        if [4, 6, 8, 10].contains(&i) {
            out.push(b'-');
        }
        out.extend_from_slice(&[HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> =
        text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[pair.len() - 1]).collect();
    bytes.try_into().ok()
}
