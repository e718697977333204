//! The writers as they were before [`super`], to compare with.

use crate::{BINARY, EPOCH_DAYS, EPOCH_US, from_arrow, times, type_size};
use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType as Arrow, IntervalUnit, TimeUnit};
use base::decimal::Decimal;
use base::error::SqlResult;
use base::{DataType, Datum, SqlError};
use bytes::{BufMut, BytesMut};
use sql::types::{Column, INTERVAL_OID, NUMERIC, TIME_OID, element_oid};

fn type_of_oid(oid: u32) -> Option<DataType> {
    Some(match oid {
        16 => DataType::Boolean,
        17 => DataType::Bytea,
        20 | 26 => DataType::BigInt,
        21 => DataType::SmallInt,
        23 => DataType::Integer,
        19 | 25 | 1042 | 1043 => DataType::Text,
        700 => DataType::Real,
        701 => DataType::Double,
        1082 => DataType::Date,
        1114 => DataType::Timestamp,
        1184 => DataType::TimestampTz,
        1700 => NUMERIC,
        2950 => DataType::Uuid,
        _ => return None,
    })
}

/// Appends a field of a DataRow: its length, then its bytes; −1 for null.
pub fn write_field(out: &mut BytesMut, value: &Datum, column: &Column, format: i16) {
    if value.is_null() {
        out.put_i32(-1);
        return;
    }
    let at = out.len();
    out.put_i32(0);
    if format == BINARY {
        write_binary(out, value, column);
    } else {
        write_text(out, value, column.data_type);
    }
    let length = (out.len() - at - 4) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn write_text(out: &mut BytesMut, value: &Datum, data_type: DataType) {
    use std::fmt::Write;
    match (value, data_type) {
        // The common ones without a string of their own.
        (Datum::Int(i), _) => write!(out, "{i}").expect("memory takes it"),
        (Datum::Text(s), t) if !matches!(t, DataType::Char { .. }) => out.put_slice(s.as_bytes()),
        _ => out.put_slice(text::display_as(value, data_type).as_bytes()),
    }
}

fn write_binary(out: &mut BytesMut, value: &Datum, column: &Column) {
    match value {
        Datum::Null => {}
        Datum::Bool(b) => out.put_u8(u8::from(*b)),
        Datum::Int(i) => match type_size(column.type_oid) {
            2 => out.put_i16(*i as i16),
            4 => out.put_i32(*i as i32),
            _ => out.put_i64(*i),
        },
        Datum::Float(f) if column.type_oid == 700 => out.put_f32(*f as f32),
        Datum::Float(f) => out.put_f64(*f),
        Datum::Decimal(d) => write_numeric(out, *d),
        Datum::Date(d) => out.put_i32(*d),
        Datum::Timestamp(us) => out.put_i64(*us),
        Datum::Uuid(u) => out.put_slice(u),
        Datum::Bytes(b) => out.put_slice(b),
        Datum::Text(text) => match (column.type_oid, element_oid(column.type_oid)) {
            (_, Some(of)) => write_array(out, text, of),
            (INTERVAL_OID, _) => {
                let (months, days, us) = times::interval(text).unwrap_or_default();
                out.put_i64(us);
                out.put_i32(days);
                out.put_i32(months);
            }
            (TIME_OID, _) => out.put_i64(times::clock(text).unwrap_or_default()),
            _ => write_text(out, value, column.data_type),
        },
    }
}

/// An array of one dimension, from its text form.
fn write_array(out: &mut BytesMut, text: &str, element_oid: u32) {
    let elements = base::text::array::parse(text).unwrap_or_default();
    let data_type = type_of_oid(element_oid).unwrap_or(DataType::Text);
    let column = Column { type_oid: element_oid, ..Column::new("", data_type) };
    out.put_i32(i32::from(!elements.is_empty()));
    out.put_i32(i32::from(elements.contains(&None)));
    out.put_u32(element_oid);
    if elements.is_empty() {
        return;
    }
    out.put_i32(elements.len() as i32);
    // The first element has number 1.
    out.put_i32(1);
    for element in elements {
        let value = element.and_then(|text| base::text::parse(&text, data_type).ok());
        write_field(out, &value.unwrap_or_default(), &column, BINARY);
    }
}

/// Base-10000 digits, most significant first, with the weight of the first.
fn write_numeric(out: &mut BytesMut, value: Decimal) {
    let scale = u32::from(value.scale());
    let mut digits: Vec<i16> = Vec::new();
    let mut units = value.units().unsigned_abs();
    // Pad the fraction to whole groups of four digits.
    let pad = (4 - scale % 4) % 4;
    let groups_after_point = (scale + pad) / 4;
    let first = 10u128.pow(4 - pad);
    if pad > 0 {
        digits.push((units % first * 10u128.pow(pad)) as i16);
        units /= first;
    }
    while units > 0 {
        digits.push((units % 10_000) as i16);
        units /= 10_000;
    }
    let mut weight = digits.len() as i32 - groups_after_point as i32 - 1;
    digits.reverse();
    let leading = digits.iter().take_while(|d| **d == 0).count();
    digits.drain(..leading);
    weight -= leading as i32;
    while digits.last() == Some(&0) {
        digits.pop();
    }
    if digits.is_empty() {
        weight = 0;
    }
    out.put_i16(digits.len() as i16);
    out.put_i16(weight as i16);
    out.put_u16(if value.units() < 0 { 0x4000 } else { 0 });
    out.put_i16(scale as i16);
    digits.iter().for_each(|d| out.put_i16(*d));
}

/// Appends one value to each row.
pub fn append_column(array: &dyn Array, data_type: DataType, rows: &mut [Vec<Datum>]) -> SqlResult<()> {
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
        Arrow::Utf8View if data_type == DataType::Uuid => {
            each!(StringViewArray, |v: &str| base::text::parse(v, DataType::Uuid).unwrap_or_default())
        }
        Arrow::Utf8 => each!(StringArray, |v: &str| Datum::text(v)),
        Arrow::LargeUtf8 => each!(LargeStringArray, |v: &str| Datum::text(v)),
        Arrow::Utf8View => each!(StringViewArray, |v: &str| Datum::text(v)),
        Arrow::Dictionary(_, _) => {
            let plain = arrow_cast::cast(array, &dictionary_value(array.data_type()));
            append_column(plain.map_err(SqlError::internal)?.as_ref(), data_type, rows)?;
        }
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
        // Has no mask of nulls, for it has nothing else.
        Arrow::Null => rows.iter_mut().for_each(|row| row.push(Datum::Null)),
        _ => append_as_text(array, rows)?,
    }
    Ok(())
}

fn dictionary_value(data_type: &Arrow) -> Arrow {
    match data_type {
        Arrow::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    }
}

/// Lists, intervals and the like, printed.
fn append_as_text(array: &dyn Array, rows: &mut [Vec<Datum>]) -> SqlResult<()> {
    for (i, row) in rows.iter_mut().enumerate() {
        row.push(if array.is_null(i) { Datum::Null } else { Datum::text(printed(array, i)?) });
    }
    Ok(())
}

pub(super) fn value_at(array: &dyn Array, i: usize) -> SqlResult<Datum> {
    let mut rows = vec![Vec::new()];
    append_column(array.slice(i, 1).as_ref(), from_arrow(array.data_type()), &mut rows)?;
    Ok(rows.pop().and_then(|mut row| row.pop()).unwrap_or_default())
}

/// One value as text. The caller has looked for NULL.
pub(super) fn printed(array: &dyn Array, i: usize) -> SqlResult<String> {
    match array.data_type() {
        Arrow::List(_) => list(array.as_list::<i32>().value(i).as_ref()),
        Arrow::LargeList(_) => list(array.as_list::<i64>().value(i).as_ref()),
        Arrow::FixedSizeList(_, _) => list(array.as_fixed_size_list().value(i).as_ref()),
        Arrow::Struct(_) => {
            let fields = array.as_struct().columns().iter();
            let fields = fields.map(|f| field(f.as_ref(), i)).collect::<SqlResult<Vec<_>>>()?;
            Ok(format!("({})", fields.join(",")))
        }
        Arrow::Interval(IntervalUnit::MonthDayNano) => {
            let v = array.as_any().downcast_ref::<IntervalMonthDayNanoArray>().expect("matches").value(i);
            Ok(interval(v.months, v.days, v.nanoseconds / 1_000))
        }
        Arrow::Interval(IntervalUnit::YearMonth) => {
            let v = array.as_any().downcast_ref::<IntervalYearMonthArray>().expect("matches").value(i);
            Ok(interval(v, 0, 0))
        }
        Arrow::Interval(IntervalUnit::DayTime) => {
            let v = array.as_any().downcast_ref::<IntervalDayTimeArray>().expect("matches").value(i);
            Ok(interval(0, v.days, i64::from(v.milliseconds) * 1_000))
        }
        Arrow::Duration(_) => {
            let unit = arrow_cast::cast(array, &Arrow::Duration(TimeUnit::Microsecond));
            let us = unit.map_err(SqlError::internal)?;
            let us = us.as_any().downcast_ref::<DurationMicrosecondArray>().expect("matches").value(i);
            Ok(interval(0, (us / DAY_US) as i32, us % DAY_US))
        }
        _ => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(array, &options).map_err(SqlError::internal)?;
            Ok(formatter.value(i).to_string())
        }
    }
}

const DAY_US: i64 = 86_400_000_000;

fn list(elements: &dyn Array) -> SqlResult<String> {
    let is_nested = matches!(elements.data_type(), Arrow::List(_) | Arrow::LargeList(_));
    let shown = (0..elements.len()).map(|i| {
        let text = element(elements, i)?;
        Ok(match text {
            Some(text) if is_nested => text,
            Some(text) => base::text::array::quoted(&text),
            None => "NULL".into(),
        })
    });
    Ok(format!("{{{}}}", shown.collect::<SqlResult<Vec<_>>>()?.join(",")))
}

/// A field of a row, quoted where it could be misread.
fn field(array: &dyn Array, i: usize) -> SqlResult<String> {
    let Some(text) = element(array, i)? else { return Ok(String::new()) };
    let odd = |c: char| "(),\"\\".contains(c) || c.is_whitespace();
    if !(text.is_empty() || text.contains(odd)) {
        return Ok(text);
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\"")))
}

/// One element of an array or field of a row, as its type is shown; `None` is NULL.
pub(super) fn element(array: &dyn Array, i: usize) -> SqlResult<Option<String>> {
    Ok(match value_at(array, i)? {
        Datum::Null => None,
        value => Some(text::display_as(&value, from_arrow(array.data_type()))),
    })
}

/// An interval as IntervalStyle `postgres` shows it.
fn interval(months: i32, days: i32, us: i64) -> String {
    base::interval::Interval { months, days, us }.to_string()
}

mod text {
    use base::datum::US_PER_DAY;
    use base::text::civil;
    use base::{DataType, Datum};
    /// A value's text form; timestamps without zone. Null is the empty string.
    pub fn display(value: &Datum) -> String {
        match value {
            Datum::Null => String::new(),
            Datum::Bool(b) => if *b { "t" } else { "f" }.into(),
            Datum::Int(i) => i.to_string(),
            Datum::Float(f) => float(*f),
            Datum::Decimal(d) => d.to_string(),
            Datum::Text(s) => s.to_string(),
            Datum::Date(d) => date(*d),
            Datum::Timestamp(us) => timestamp(*us),
            Datum::Uuid(u) => uuid(u),
            Datum::Bytes(b) => {
                let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
                format!("\\x{hex}")
            }
        }
    }

    /// A value's text form as its type prints it (`timestamptz` in UTC with its offset, `char(n)` padded,
    /// `real` with its own digits).
    pub fn display_as(value: &Datum, data_type: DataType) -> String {
        match (value, data_type) {
            (Datum::Timestamp(us), DataType::TimestampTz) => match timestamp(*us) {
                text if text.ends_with(" BC") => format!("{}+00 BC", &text[..text.len() - " BC".len()]),
                text => format!("{text}+00"),
            },
            (Datum::Float(f), DataType::Real) => float32(*f as f32),
            (Datum::Text(s), DataType::Char { length }) => format!("{s:<width$}", width = length as usize),
            _ => display(value),
        }
    }

    fn float(f: f64) -> String {
        special(f).map_or_else(|| scientific(format!("{f:e}"), f.to_string(), 15), str::to_string)
    }
    fn float32(f: f32) -> String {
        special(f64::from(f)).map_or_else(|| scientific(format!("{f:e}"), f.to_string(), 6), str::to_string)
    }
    fn special(f: f64) -> Option<&'static str> {
        match f {
            f if f.is_nan() => Some("NaN"),
            f if f == f64::INFINITY => Some("Infinity"),
            f if f == f64::NEG_INFINITY => Some("-Infinity"),
            _ => None,
        }
    }
    /// PostgreSQL switches to an exponent below 1e-4 and from 1e15 on, for `real` from 1e6 on.
    fn scientific(exponential: String, plain: String, digits: i32) -> String {
        let (mantissa, exponent) = exponential.split_once('e').expect("has an exponent");
        let exponent: i32 = exponent.parse().expect("is a number");
        if (-4..digits).contains(&exponent) {
            return plain;
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    }

    fn uuid(bytes: &[u8; 16]) -> String {
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    fn date(day: i32) -> String {
        let (year, month, day) = civil(day);
        if year < 1 {
            return format!("{:04}-{month:02}-{day:02} BC", 1 - year);
        }
        format!("{year:04}-{month:02}-{day:02}")
    }

    fn timestamp(us: i64) -> String {
        let day = us.div_euclid(US_PER_DAY);
        let rest = us.rem_euclid(US_PER_DAY);
        let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
        let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let fraction = match fraction {
            0 => String::new(),
            f => format!(".{f:06}").trim_end_matches('0').to_string(),
        };
        let date = date(i32::try_from(day).unwrap_or(i32::MAX));
        match date.strip_suffix(" BC") {
            Some(date) => format!("{date} {clock}{fraction} BC"),
            None => format!("{date} {clock}{fraction}"),
        }
    }
}
