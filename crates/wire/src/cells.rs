//! The values of an Arrow array, ready to be written: what the array holds is looked at once.

use crate::form::Form;
use crate::nested;
use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, NullBuffer};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType as Arrow, Fields, IntervalUnit, TimeUnit};
use base::composite::CompositeType;
use base::decimal::Decimal;
use base::element::Element;
use base::enumeration::EnumType;
use base::error::SqlResult;
use base::inet::{self, Inet};
use base::interval::Interval;
use base::timetz::TimeTz;
use base::{DataType, Datum, Row, SqlError, TableId};
use bytes::BytesMut;

/// From 1970-01-01 to 2000-01-01, Arrow's and PostgreSQL's first day.
pub const EPOCH_DAYS: i32 = 10_957;
pub const EPOCH_US: i64 = EPOCH_DAYS as i64 * base::datum::US_PER_DAY;

const DAY_US: i64 = base::datum::US_PER_DAY;

/// How a result column of an Arrow type is shown; anything without a type of ours is text.
pub fn from_arrow(arrow: &Arrow) -> DataType {
    match arrow {
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
        Arrow::Timestamp(_, Some(zone)) => match EnumType::id_of_zone(zone) {
            Some(id) => DataType::Enum(sql::user_types::enum_of(id)),
            None => DataType::TimestampTz,
        },
        Arrow::FixedSizeBinary(16) => DataType::Uuid,
        Arrow::LargeBinary => DataType::Jsonb,
        Arrow::FixedSizeBinary(width) if let Some(address) = inet::of_width(*width) => address,
        Arrow::Time64(TimeUnit::Nanosecond) => DataType::TimeTz,
        Arrow::Time32(_) | Arrow::Time64(_) => DataType::Time,
        Arrow::Interval(_) | Arrow::Duration(_) => DataType::Interval,
        Arrow::List(of) => Element::of(from_arrow(of.data_type())).map_or(DataType::Text, DataType::Array),
        Arrow::BinaryView => DataType::TsVector,
        Arrow::Struct(fields) if let Some(id) = row_type(fields) => {
            DataType::Composite(sql::user_types::composite_of(id))
        }
        Arrow::Binary | Arrow::FixedSizeBinary(_) => DataType::Bytea,
        Arrow::Dictionary(_, values) => from_arrow(values),
        _ => DataType::Text,
    }
}

/// The composite type whose rows a struct holds; `None` if it holds others.
fn row_type(fields: &Fields) -> Option<TableId> {
    match fields.iter().as_slice() {
        [field] => CompositeType::id_of_field(field.name()),
        _ => None,
    }
}

/// Appends the value of a row that is not null.
pub(crate) type Put = Box<dyn Fn(&mut BytesMut, usize) -> SqlResult<()> + Send>;

/// An array's values with the way in which they are written.
pub struct Cells {
    nulls: Option<NullBuffer>,
    put: Put,
}

/// Writes the values of an array of a type with a function.
macro_rules! each {
    ($from:expr, $array:ty, $write:expr) => {{
        let array = $from.as_any().downcast_ref::<$array>().expect("matches its type").clone();
        let write = $write;
        Box::new(move |out: &mut BytesMut, row: usize| {
            write(out, array.value(row));
            Ok(())
        })
    }};
}

/// The same with [`Form::text`], which may fail.
macro_rules! texts {
    ($from:expr, $array:ty, $form:expr) => {{
        let array = $from.as_any().downcast_ref::<$array>().expect("matches its type").clone();
        let form: Form = $form;
        Box::new(move |out: &mut BytesMut, row: usize| form.text(out, array.value(row)))
    }};
}

impl Cells {
    /// Errors: the array cannot be shown.
    pub fn new(array: &ArrayRef, form: Form) -> SqlResult<Cells> {
        let put: Put = match array.data_type() {
            Arrow::Boolean => each!(array, BooleanArray, move |out: &mut _, v| form.boolean(out, v)),
            integer if integer.is_integer() => integers(array, form),
            Arrow::Float32 => each!(array, Float32Array, move |out: &mut _, v| form.float(out, f64::from(v))),
            Arrow::Float64 => each!(array, Float64Array, move |out: &mut _, v| form.float(out, v)),
            Arrow::Decimal128(_, scale) if *scale >= 0 => {
                let scale = *scale as u8;
                each!(array, Decimal128Array, move |out: &mut _, v| form.decimal(out, Decimal::new(v, scale)))
            }
            Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View if form.data_type() == DataType::Uuid => {
                let texts = arrow_cast::cast(array, &Arrow::Utf8View).map_err(SqlError::internal)?;
                return Ok(uuids(texts.as_string_view(), form));
            }
            Arrow::Utf8 => texts!(array, StringArray, form),
            Arrow::LargeUtf8 => texts!(array, LargeStringArray, form),
            Arrow::Utf8View => texts!(array, StringViewArray, form),
            Arrow::Dictionary(_, values) => {
                let plain = arrow_cast::cast(array, values).map_err(SqlError::internal)?;
                return Cells::new(&plain, form);
            }
            Arrow::Binary => each!(array, BinaryArray, move |out: &mut _, v: &[u8]| form.bytes(out, v)),
            Arrow::LargeBinary => {
                each!(array, LargeBinaryArray, move |out: &mut _, v: &[u8]| form.jsonb(out, v))
            }
            Arrow::BinaryView => documents(array, form),
            Arrow::FixedSizeBinary(16) if form.data_type() == DataType::Uuid => {
                each!(array, FixedSizeBinaryArray, move |out: &mut _, v: &[u8]| {
                    form.uuid(out, v.try_into().expect("16 bytes"))
                })
            }
            Arrow::FixedSizeBinary(width) if inet::of_width(*width).is_some() => {
                each!(array, FixedSizeBinaryArray, move |out: &mut _, v: &[u8]| {
                    form.inet(out, &Inet::of_packed(v).expect("an address"))
                })
            }
            Arrow::FixedSizeBinary(_) => {
                each!(array, FixedSizeBinaryArray, move |out: &mut _, v: &[u8]| form.bytes(out, v))
            }
            Arrow::Date32 => each!(array, Date32Array, move |out: &mut _, day: i32| {
                form.date(out, day.saturating_sub(EPOCH_DAYS))
            }),
            Arrow::Time64(TimeUnit::Microsecond) => {
                each!(array, Time64MicrosecondArray, move |out: &mut _, v| form.time(out, v))
            }
            Arrow::Time64(TimeUnit::Nanosecond) => zoned_clocks(array, form),
            Arrow::Time32(_) | Arrow::Time64(_) => {
                let in_us = arrow_cast::cast(array, &Arrow::Time64(TimeUnit::Microsecond));
                return Cells::new(&in_us.map_err(SqlError::internal)?, form);
            }
            Arrow::Timestamp(_, Some(zone)) if EnumType::id_of_zone(zone).is_some() => {
                each!(array, TimestampSecondArray, move |out: &mut _, code| form.integer(out, code))
            }
            Arrow::Timestamp(unit, _) => moments(array, *unit, form),
            Arrow::Interval(unit) => intervals(array, *unit, form),
            Arrow::Duration(TimeUnit::Microsecond) => durations(array, form),
            Arrow::Duration(_) => {
                let in_us = arrow_cast::cast(array, &Arrow::Duration(TimeUnit::Microsecond));
                return Cells::new(&in_us.map_err(SqlError::internal)?, form);
            }
            Arrow::List(_) => nested::list(array.as_list::<i32>(), form)?,
            Arrow::LargeList(_) => nested::list(array.as_list::<i64>(), form)?,
            Arrow::FixedSizeList(_, _) => nested::fixed_list(array.as_fixed_size_list(), form)?,
            Arrow::Struct(fields) if row_type(fields).is_some() => rows(array, form),
            Arrow::Struct(_) => nested::structs(array.as_struct(), form.look())?,
            _ => printed(array.clone(), form),
        };
        Ok(Cells { nulls: array.logical_nulls(), put })
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends a value that is not null.
    pub fn put(&self, out: &mut BytesMut, row: usize) -> SqlResult<()> {
        (self.put)(out, row)
    }
}

/// Rows of a composite type.
fn rows(array: &ArrayRef, form: Form) -> Put {
    let form = match form.data_type() {
        DataType::Composite(_) => form,
        _ => Form::text_of(from_arrow(array.data_type())).shown_as(form.look()),
    };
    let rows = array.as_struct().column(0).as_binary::<i32>().clone();
    Box::new(move |out: &mut BytesMut, row: usize| {
        let values = Row::from_bytes(rows.value(row)).expect("a value is kept as a row").to_vec();
        form.value(out, &Datum::Array(values.into()))
    })
}

/// Values of full-text search: their text, as bytes.
fn documents(array: &ArrayRef, form: Form) -> Put {
    let array = array.as_binary_view().clone();
    Box::new(move |out: &mut BytesMut, row: usize| {
        form.text(out, std::str::from_utf8(array.value(row)).map_err(SqlError::internal)?)
    })
}

fn zoned_clocks(array: &ArrayRef, form: Form) -> Put {
    each!(array, Time64NanosecondArray, move |out: &mut BytesMut, packed| {
        form.timetz(out, TimeTz::of_packed(packed))
    })
}

fn integers(array: &ArrayRef, form: Form) -> Put {
    macro_rules! of {
        ($array:ty) => {
            each!(array, $array, move |out: &mut BytesMut, v| form.integer(out, i64::from(v)))
        };
    }
    match array.data_type() {
        Arrow::Int8 => of!(Int8Array),
        Arrow::Int16 => of!(Int16Array),
        Arrow::Int32 => of!(Int32Array),
        Arrow::UInt8 => of!(UInt8Array),
        Arrow::UInt16 => of!(UInt16Array),
        Arrow::UInt32 => of!(UInt32Array),
        Arrow::UInt64 => each!(array, UInt64Array, move |out: &mut _, v| form.integer(out, v as i64)),
        _ => of!(Int64Array),
    }
}

fn moments(array: &ArrayRef, unit: TimeUnit, form: Form) -> Put {
    macro_rules! of {
        ($array:ty, $us:expr) => {
            each!(array, $array, move |out: &mut _, v: i64| {
                let us: fn(i64) -> i64 = $us;
                form.timestamp(out, us(v).saturating_sub(EPOCH_US))
            })
        };
    }
    match unit {
        TimeUnit::Second => of!(TimestampSecondArray, |v| v.saturating_mul(1_000_000)),
        TimeUnit::Millisecond => of!(TimestampMillisecondArray, |v| v.saturating_mul(1_000)),
        TimeUnit::Microsecond => of!(TimestampMicrosecondArray, |v| v),
        TimeUnit::Nanosecond => of!(TimestampNanosecondArray, |v| v.div_euclid(1_000)),
    }
}

fn intervals(array: &ArrayRef, unit: IntervalUnit, form: Form) -> Put {
    match unit {
        IntervalUnit::MonthDayNano => {
            each!(array, IntervalMonthDayNanoArray, move |out: &mut _, v: IntervalMonthDayNano| {
                let us = v.nanoseconds / 1_000;
                form.interval(out, Interval { months: v.months, days: v.days, us })
            })
        }
        IntervalUnit::YearMonth => {
            each!(array, IntervalYearMonthArray, move |out: &mut _, months| {
                form.interval(out, Interval { months, days: 0, us: 0 })
            })
        }
        IntervalUnit::DayTime => {
            each!(array, IntervalDayTimeArray, move |out: &mut _, v: IntervalDayTime| {
                let us = i64::from(v.milliseconds) * 1_000;
                form.interval(out, Interval { months: 0, days: v.days, us })
            })
        }
    }
}

/// Durations in µs.
fn durations(array: &ArrayRef, form: Form) -> Put {
    each!(array, DurationMicrosecondArray, move |out: &mut _, us: i64| {
        form.interval(out, Interval { months: 0, days: (us / DAY_US) as i32, us: us % DAY_US })
    })
}

/// Uuids that are kept as their canonical text. What is none is null.
fn uuids(texts: &StringViewArray, form: Form) -> Cells {
    let values: Vec<Option<[u8; 16]>> =
        texts.iter().map(|text| text.and_then(base::text::parse_uuid)).collect();
    let nulls = Some(values.iter().map(Option::is_some).collect());
    let put = Box::new(move |out: &mut BytesMut, row: usize| {
        form.uuid(out, &values[row].unwrap_or_default());
        Ok(())
    });
    Cells { nulls, put }
}

/// Types that no column of a table has and no expression but a cast makes: wide decimals, maps.
fn printed(array: ArrayRef, form: Form) -> Put {
    Box::new(move |out, row| {
        let options = FormatOptions::default();
        let formatter = ArrayFormatter::try_new(array.as_ref(), &options).map_err(SqlError::internal)?;
        form.printed(out, &formatter.value(row).to_string())
    })
}

/// One value of an array as text; `None` is null.
pub fn text_at(array: &ArrayRef, row: usize) -> SqlResult<Option<String>> {
    let one = array.slice(row, 1);
    let cells = Cells::new(&one, Form::text_of(from_arrow(one.data_type())))?;
    if cells.is_null(0) {
        return Ok(None);
    }
    let mut out = BytesMut::new();
    cells.put(&mut out, 0)?;
    String::from_utf8(out.into()).map(Some).map_err(SqlError::internal)
}
