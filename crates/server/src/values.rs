//! Values on the wire: text and binary forms, both ways.
//!
//! Dates and timestamps need no shift: PostgreSQL counts from 2000-01-01, and so do we.

use crate::times;
use base::decimal::Decimal;
use base::error::{SqlError, SqlResult, SqlState};
use base::{DataType, Datum};
use bytes::{Buf, BufMut, BytesMut};
use session::{Column, ParameterType};
use sql::types::{INTERVAL_OID, NUMERIC, OBJECT_ID_OID, TIME_OID, element_oid};
use std::sync::Arc;

pub const BINARY: i16 = 1;

/// Our type of an object id that a client declared; `None` where it left the choice to us.
pub fn parameter_type(oid: u32) -> Option<ParameterType> {
    match element_oid(oid) {
        Some(of) => type_of_oid(of)
            .map(|data_type| ParameterType { is_array: true, ..ParameterType::from(data_type) }),
        None if oid == OBJECT_ID_OID => {
            Some(ParameterType { announced: Some(oid), ..ParameterType::from(DataType::BigInt) })
        }
        None if matches!(oid, INTERVAL_OID | TIME_OID) => {
            Some(ParameterType { announced: Some(oid), ..ParameterType::from(DataType::Text) })
        }
        None => type_of_oid(oid).map(ParameterType::from),
    }
}

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

/// Bytes of a value of this type, −1 if they vary.
pub fn type_size(oid: u32) -> i16 {
    match oid {
        16 | 18 => 1,
        21 => 2,
        23 | 26 | 700 | 1082 => 4,
        20 | 701 | 1083 | 1114 | 1184 => 8,
        19 => 64,
        1186 | 2950 => 16,
        _ => -1,
    }
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
        _ => out.put_slice(base::text::display_as(value, data_type).as_bytes()),
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

/// An array of one dimension as text. Errors: 22P03 for bytes that are none, 0A000 for more dimensions.
fn read_array(mut bytes: &[u8], data_type: DataType, number: usize) -> SqlResult<Datum> {
    let length = bytes.len();
    let bad = || bad_binary(number, length, &format!("{}[]", data_type.name()));
    let int = |bytes: &mut &[u8]| bytes.try_get_i32().map_err(|_| bad());
    let dimensions = int(&mut bytes)?;
    let (_has_null, _element_oid) = (int(&mut bytes)?, int(&mut bytes)?);
    if dimensions > 1 {
        return Err(SqlError::unsupported("arrays of more than one dimension"));
    }
    let count = if dimensions == 0 { 0 } else { int(&mut bytes)? };
    if dimensions == 1 {
        int(&mut bytes)?;
    }
    let mut elements = Vec::new();
    for _ in 0..count {
        let length = int(&mut bytes)?;
        elements.push(match usize::try_from(length) {
            Err(_) => None,
            Ok(length) => {
                let (element, rest) = bytes.split_at_checked(length).ok_or_else(bad)?;
                bytes = rest;
                let value = read_value(element, data_type, BINARY, number)?;
                Some(base::text::display_as(&value, data_type))
            }
        });
    }
    Ok(Datum::text(base::text::array::display(&elements)))
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

fn read_numeric(bytes: &[u8]) -> Option<Decimal> {
    let short = |i: usize| Some(i16::from_be_bytes(bytes.get(i * 2..i * 2 + 2)?.try_into().ok()?));
    let count = usize::try_from(short(0)?).ok()?;
    let weight = i32::from(short(1)?);
    let negative = match short(2)? as u16 {
        0 => false,
        0x4000 => true,
        _ => return None,
    };
    let scale = u8::try_from(short(3)?).ok().filter(|s| *s <= base::decimal::PRECISION_MAX)?;
    if bytes.len() != 8 + count * 2 {
        return None;
    }
    let mut value = Decimal::ZERO;
    for i in 0..count {
        let digit = Decimal::new(i128::from(short(4 + i)?), 0);
        let exponent = (weight - i as i32) * 4;
        let scaled = if exponent >= 0 {
            digit.checked_mul(Decimal::new(10i128.checked_pow(exponent as u32)?, 0))?
        } else if -exponent <= 38 {
            Decimal::new(digit.units(), -exponent as u8)
        } else {
            return None;
        };
        value = value.checked_add(scaled)?;
    }
    let value = value.rescale(scale)?;
    Some(if negative { value.negated() } else { value })
}

/// Reads a parameter. Errors: 22P02 and its like for text, 22P03 for binary.
pub fn read_parameter(
    bytes: &[u8],
    parameter: ParameterType,
    format: i16,
    number: usize,
) -> SqlResult<Datum> {
    match (parameter.is_array, format) {
        (false, BINARY) if matches!(parameter.announced, Some(INTERVAL_OID | TIME_OID)) => {
            let bad = || bad_binary(number, bytes.len(), if bytes.len() == 16 { "interval" } else { "time" });
            match (parameter.announced, bytes.len()) {
                (Some(INTERVAL_OID), 16) => {
                    let mut parts = bytes;
                    let (us, days, months) = (parts.get_i64(), parts.get_i32(), parts.get_i32());
                    Ok(Datum::text(times::interval_text(months, days, us)))
                }
                (Some(TIME_OID), 8) => {
                    let mut parts = bytes;
                    Ok(Datum::text(times::clock_text(parts.get_i64())))
                }
                _ => Err(bad()),
            }
        }
        // In words that a cast reads, where it is in a form that is known.
        (false, _) if parameter.announced == Some(INTERVAL_OID) => {
            let text = text_of(bytes, number)?;
            let known = times::interval(text).filter(|_| !text.trim().is_empty());
            Ok(match known {
                Some((months, days, us)) => Datum::text(times::interval_text(months, days, us)),
                None => Datum::text(text),
            })
        }
        (false, _) => read_value(bytes, parameter.data_type, format, number),
        (true, BINARY) => read_array(bytes, parameter.data_type, number),
        // Its elements are read when it is bound.
        (true, _) => text_of(bytes, number).map(Datum::text),
    }
}

fn read_value(bytes: &[u8], data_type: DataType, format: i16, number: usize) -> SqlResult<Datum> {
    if format != BINARY {
        let text = text_of(bytes, number)?;
        // Without limits a number keeps its own digits.
        if data_type == NUMERIC
            && let Some(value) = Decimal::parse(text)
        {
            return Ok(Datum::Decimal(value));
        }
        return base::text::parse(text, data_type);
    }
    let bad = || bad_binary(number, bytes.len(), &data_type.name());
    let integer = || -> Option<i64> {
        Some(match bytes.len() {
            2 => i64::from(i16::from_be_bytes(bytes.try_into().ok()?)),
            4 => i64::from(i32::from_be_bytes(bytes.try_into().ok()?)),
            8 => i64::from_be_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    };
    let value = match data_type {
        DataType::Boolean => match bytes {
            [b] => Some(Datum::Bool(*b != 0)),
            _ => None,
        },
        DataType::SmallInt | DataType::Integer | DataType::BigInt => integer().map(Datum::Int),
        DataType::Real | DataType::Double => match bytes.len() {
            4 => bytes.try_into().ok().map(|b| Datum::Float(f64::from(f32::from_be_bytes(b)))),
            8 => bytes.try_into().ok().map(|b| Datum::Float(f64::from_be_bytes(b))),
            _ => None,
        },
        DataType::Numeric { .. } => read_numeric(bytes).map(Datum::Decimal),
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => {
            Some(Datum::text(text_of(bytes, number)?))
        }
        DataType::Date => integer().filter(|_| bytes.len() == 4).map(|d| Datum::Date(d as i32)),
        DataType::Timestamp | DataType::TimestampTz => {
            integer().filter(|_| bytes.len() == 8).map(Datum::Timestamp)
        }
        DataType::Uuid => bytes.try_into().ok().map(Datum::Uuid),
        DataType::Bytea => Some(Datum::Bytes(Arc::from(bytes))),
    };
    let value = value.ok_or_else(bad)?;
    if data_type == NUMERIC { Ok(value) } else { data_type.coerce(value) }
}

fn bad_binary(number: usize, length: usize, type_name: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_BINARY_REPRESENTATION,
        format!("incorrect binary data format in bind parameter {number}"),
    )
    .detail(format!("{length} bytes are no value of type {type_name}."))
}

fn text_of(bytes: &[u8], number: usize) -> SqlResult<&str> {
    base::text::encoding::text(bytes).map_err(|e| e.context(format!("portal parameter ${number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: Datum, data_type: DataType) -> Datum {
        let column = Column::new("c", data_type);
        let mut out = BytesMut::new();
        write_field(&mut out, &value, &column, BINARY);
        let length = i32::from_be_bytes(out[..4].try_into().unwrap());
        assert_eq!(length as usize, out.len() - 4);
        read_parameter(&out[4..], data_type.into(), BINARY, 1).unwrap()
    }

    #[test]
    fn binary_values_come_back() {
        for text in
            ["0", "1", "-1", "0.05", "12345.6789", "-99999999.99", "10000", "0.0001", "123456789012.5"]
        {
            let value = Datum::Decimal(Decimal::parse(text).unwrap());
            let data_type = DataType::Numeric { precision: 38, scale: 4 };
            assert_eq!(round_trip(value.clone(), data_type), value, "{text}");
        }
        for (value, data_type) in [
            (Datum::Bool(true), DataType::Boolean),
            (Datum::Int(-7), DataType::SmallInt),
            (Datum::Int(70_000), DataType::Integer),
            (Datum::Int(i64::MIN), DataType::BigInt),
            (Datum::Float(0.5), DataType::Real),
            (Datum::Float(-1e300), DataType::Double),
            (Datum::text("héllo"), DataType::Text),
            (Datum::Date(-1), DataType::Date),
            (Datum::Timestamp(1), DataType::TimestampTz),
            (Datum::Uuid([9; 16]), DataType::Uuid),
            (Datum::Bytes(Arc::from(&[0u8, 255][..])), DataType::Bytea),
        ] {
            assert_eq!(round_trip(value.clone(), data_type), value);
        }
    }

    #[test]
    fn numeric_s_digits_are_postgresql_s() {
        let mut out = BytesMut::new();
        write_numeric(&mut out, Decimal::parse("12345.678").unwrap());
        let expected: [i16; 7] = [3, 1, 0, 3, 1, 2345, 6780];
        let expected: Vec<u8> = expected.iter().flat_map(|d| d.to_be_bytes()).collect();
        assert_eq!(&out[..], expected);
    }

    #[test]
    fn arrays_come_back() {
        for (text, data_type) in [
            ("{1,NULL,-3}", DataType::Integer),
            ("{}", DataType::BigInt),
            (r#"{a,"b c",""}"#, DataType::Text),
            ("{2026-11-21}", DataType::Date),
        ] {
            let array = ParameterType { is_array: true, ..ParameterType::from(data_type) };
            let column = Column { type_oid: array.oid(), ..Column::new("c", DataType::Text) };
            let mut out = BytesMut::new();
            write_field(&mut out, &Datum::text(text), &column, BINARY);
            assert_eq!(read_parameter(&out[4..], array, BINARY, 1).unwrap(), Datum::text(text));
            assert_eq!(parameter_type(array.oid()), Some(array));
        }
        let array = ParameterType { is_array: true, ..ParameterType::from(DataType::Integer) };
        let huge = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 127, 255, 255, 255, 0, 0, 0, 1];
        let error = read_parameter(&huge, array, BINARY, 1).unwrap_err();
        assert_eq!(error.state, SqlState::INVALID_BINARY_REPRESENTATION);
    }

    #[test]
    fn intervals_and_times_travel_as_what_they_are() {
        for (oid, text) in
            [(INTERVAL_OID, "14 months 3 days 14706789000 microseconds"), (TIME_OID, "23:59:59.000001")]
        {
            let parameter = parameter_type(oid).unwrap();
            assert_eq!(parameter.oid(), oid);
            let column = Column { type_oid: oid, ..Column::new("c", DataType::Text) };
            let mut out = BytesMut::new();
            write_field(&mut out, &Datum::text(text), &column, BINARY);
            assert_eq!(out.len() - 4, type_size(oid) as usize);
            assert_eq!(read_parameter(&out[4..], parameter, BINARY, 1).unwrap(), Datum::text(text));
            assert!(read_parameter(&out[5..], parameter, BINARY, 1).is_err());
        }
    }

    #[test]
    fn garbage_is_refused() {
        let state = |bytes: &[u8], t: DataType| read_parameter(bytes, t.into(), BINARY, 1).unwrap_err().state;
        assert_eq!(state(&[1, 2, 3], DataType::Integer), SqlState::INVALID_BINARY_REPRESENTATION);
        assert_eq!(
            state(&[0, 9], DataType::Numeric { precision: 9, scale: 2 }),
            SqlState::INVALID_BINARY_REPRESENTATION
        );
        assert_eq!(state(&[0xff], DataType::Text), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(state(b"a\0", DataType::Text), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(
            read_parameter(b"x", DataType::Integer.into(), 0, 1).unwrap_err().state,
            SqlState::INVALID_TEXT_REPRESENTATION
        );
    }
}
