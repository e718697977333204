//! Values that clients send: parameters and binary copies, in text and in binary. `wire` writes the other way.

use base::composite::CompositeType;
use base::datum::US_PER_DAY;
use base::decimal::Decimal;
use base::error::{SqlError, SqlResult, SqlState};
use base::inet::Inet;
use base::interval::Interval;
use base::timetz::TimeTz;
use base::{DataType, Datum};
use bytes::Buf;
use session::ParameterType;
use sql::types::{NUMERIC, OBJECT_ID_OID, element_oid, type_of_oid};
use std::sync::Arc;
use wire::{BINARY, JSONB_FORMAT};

/// Our type of an object id that a client declared; `None` where it left the choice to us.
pub fn parameter_type(oid: u32) -> Option<ParameterType> {
    match element_oid(oid) {
        Some(of) => type_of_oid(of)
            .map(|data_type| ParameterType { is_array: true, ..ParameterType::from(data_type) }),
        None if oid == OBJECT_ID_OID => {
            Some(ParameterType { announced: Some(oid), ..ParameterType::from(DataType::BigInt) })
        }
        None => type_of_oid(oid).map(ParameterType::from),
    }
}

/// The elements of an array of one dimension. Errors: 22P03 for bytes that are none, 0A000 for more dimensions.
fn read_elements(mut bytes: &[u8], data_type: DataType, number: usize) -> SqlResult<Vec<Datum>> {
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
            Err(_) => Datum::Null,
            Ok(length) => {
                let (element, rest) = bytes.split_at_checked(length).ok_or_else(bad)?;
                bytes = rest;
                read_value(element, data_type, BINARY, number)?
            }
        });
    }
    Ok(elements)
}

/// A row of a composite type. Errors: 22P03 for bytes that are none, 42804 for another number of values.
fn read_row(mut bytes: &[u8], of: CompositeType, number: usize) -> SqlResult<Datum> {
    let length = bytes.len();
    let bad = || bad_binary(number, length, &of.name());
    let int = |bytes: &mut &[u8]| bytes.try_get_i32().map_err(|_| bad());
    let count = int(&mut bytes)?;
    if usize::try_from(count) != Ok(of.attributes().len()) {
        let told = format!("wrong number of columns: {count}, expected {}", of.attributes().len());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
    }
    let mut values = Vec::with_capacity(of.attributes().len());
    for attribute in of.attributes() {
        let (_type_oid, length) = (int(&mut bytes)?, int(&mut bytes)?);
        values.push(match usize::try_from(length) {
            Err(_) => Datum::Null,
            Ok(length) => {
                let (value, rest) = bytes.split_at_checked(length).ok_or_else(bad)?;
                bytes = rest;
                read_value(value, attribute.data_type, BINARY, number)?
            }
        });
    }
    Ok(Datum::Array(values.into()))
}

/// The same as text.
fn read_array(bytes: &[u8], data_type: DataType, number: usize) -> SqlResult<Datum> {
    let zone = sql::zones::current();
    let shown = |e: &Datum| (!e.is_null()).then(|| base::text::display_in(e, data_type, zone));
    let elements: Vec<_> = read_elements(bytes, data_type, number)?.iter().map(shown).collect();
    Ok(Datum::text(base::text::array::display(&elements)))
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
        let digit = short(4 + i).filter(|digit| (0..10_000).contains(digit))?;
        let digit = Decimal::new(i128::from(digit), 0);
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

/// Reads a parameter, in the session's time zone. Errors: 22P02 and its like for text, 22P03 for binary.
pub fn read_parameter(
    bytes: &[u8],
    parameter: ParameterType,
    format: i16,
    number: usize,
) -> SqlResult<Datum> {
    match (parameter.is_array, format) {
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
        return sql::zones::parse(text, data_type);
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
        DataType::Numeric { .. } if matches!(bytes, [_, _, _, _, 0xc0 | 0xd0 | 0xf0, 0, ..]) => {
            return Err(SqlError::unsupported("NaN and infinities of type numeric"));
        }
        DataType::Numeric { .. } => read_numeric(bytes).map(Datum::Decimal),
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => {
            Some(Datum::text(text_of(bytes, number)?))
        }
        DataType::Date | DataType::Timestamp | DataType::TimestampTz => read_moment(bytes, data_type)?,
        DataType::Uuid => bytes.try_into().ok().map(Datum::Uuid),
        DataType::Inet | DataType::Cidr => Inet::of_wire(bytes).map(Datum::Inet),
        DataType::MacAddr | DataType::MacAddr8 => Inet::of_hardware(bytes).map(Datum::Inet),
        DataType::Bytea => Some(Datum::Bytes(Arc::from(bytes))),
        DataType::Time | DataType::TimeTz => read_clock(bytes, data_type),
        DataType::Interval => (bytes.len() == 16).then(|| {
            let mut parts = bytes;
            let (us, days, months) = (parts.get_i64(), parts.get_i32(), parts.get_i32());
            Datum::Interval(Interval { months, days, us })
        }),
        DataType::Json => return base::text::parse(text_of(bytes, number)?, data_type),
        DataType::TsVector | DataType::TsQuery => {
            return Err(SqlError::unsupported(format!("the binary form of {}", data_type.name()))
                .hint("Send it as text."));
        }
        // A label is its text in both forms.
        DataType::Enum(_) => return base::text::parse(text_of(bytes, number)?, data_type),
        DataType::Jsonb => match bytes {
            [JSONB_FORMAT, text @ ..] => return base::text::parse(text_of(text, number)?, data_type),
            _ => None,
        },
        DataType::Composite(of) => return read_row(bytes, of, number),
        DataType::Array(of) => {
            return read_elements(bytes, of.data_type(), number).map(|e| Datum::Array(e.into()));
        }
    };
    let value = value.ok_or_else(bad)?;
    if data_type == NUMERIC { Ok(value) } else { data_type.coerce(value) }
}

/// A time of day, with a zone and how many seconds its clocks are behind UTC; `None` for what is none.
fn read_clock(mut bytes: &[u8], data_type: DataType) -> Option<Datum> {
    let length = bytes.len();
    let us = (length >= 8).then(|| bytes.get_i64()).filter(|us| (0..=US_PER_DAY).contains(us))?;
    match (data_type, length) {
        (DataType::Time, 8) => Some(Datum::Time(us)),
        (DataType::TimeTz, 12) => {
            let behind_s = bytes.get_i32();
            let is_offset = (-57_599..=57_599).contains(&behind_s);
            is_offset.then(|| Datum::TimeTz(TimeTz::new(us, -behind_s)))
        }
        _ => None,
    }
}

/// A day or a moment; `None` for another number of bytes. Errors: 22008, 0A000 for infinity.
fn read_moment(bytes: &[u8], data_type: DataType) -> SqlResult<Option<Datum>> {
    if data_type == DataType::Date {
        return match bytes.try_into().map(i32::from_be_bytes) {
            Ok(i32::MAX | i32::MIN) => Err(no_infinity(data_type)),
            Ok(day) if !base::convert::is_date(day) => Err(out_of_range("date")),
            Ok(day) => Ok(Some(Datum::Date(day))),
            Err(_) => Ok(None),
        };
    }
    match bytes.try_into().map(i64::from_be_bytes) {
        Ok(i64::MAX | i64::MIN) => Err(no_infinity(data_type)),
        Ok(us) if !base::convert::is_timestamp(us) => Err(out_of_range("timestamp")),
        Ok(us) => Ok(Some(Datum::Timestamp(us))),
        Err(_) => Ok(None),
    }
}

fn no_infinity(data_type: DataType) -> SqlError {
    SqlError::unsupported(format!("infinity of type {}", data_type.name()))
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
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
    use bytes::BytesMut;
    use session::Column;
    use wire::Form;

    fn written(value: &Datum, column: &Column) -> BytesMut {
        let mut out = BytesMut::new();
        Form::new(column, BINARY).value(&mut out, value).unwrap();
        out
    }

    fn round_trip(value: Datum, data_type: DataType) -> Datum {
        let out = written(&value, &Column::new("c", data_type));
        read_parameter(&out, data_type.into(), BINARY, 1).unwrap()
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
            (base::text::parse("10/8", DataType::Cidr).unwrap(), DataType::Cidr),
            (base::text::parse("08002b010203", DataType::MacAddr).unwrap(), DataType::MacAddr),
            (base::text::parse("08002b010203", DataType::MacAddr8).unwrap(), DataType::MacAddr8),
            (base::text::parse("10:00+01", DataType::TimeTz).unwrap(), DataType::TimeTz),
            (Datum::Bytes(Arc::from(&[0u8, 255][..])), DataType::Bytea),
        ] {
            assert_eq!(round_trip(value.clone(), data_type), value);
        }
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
            let out = written(&Datum::text(text), &column);
            assert_eq!(read_parameter(&out, array, BINARY, 1).unwrap(), Datum::text(text));
            assert_eq!(parameter_type(array.oid()), Some(array));
        }
        let array = ParameterType { is_array: true, ..ParameterType::from(DataType::Integer) };
        let huge = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 127, 255, 255, 255, 0, 0, 0, 1];
        let error = read_parameter(&huge, array, BINARY, 1).unwrap_err();
        assert_eq!(error.state, SqlState::INVALID_BINARY_REPRESENTATION);
    }

    #[test]
    fn intervals_times_json_and_arrays_travel_as_what_they_are() {
        let ints = DataType::Array(base::element::Element::of(DataType::Integer).unwrap());
        for (data_type, text) in [
            (DataType::Interval, "1 year 2 mons 3 days 04:05:06.789"),
            (DataType::Time, "23:59:59.000001"),
            (DataType::Json, "{ \"a\":1}"),
            (DataType::Jsonb, "{\"a\": 1}"),
            (ints, "{1,NULL,-3}"),
        ] {
            let value = base::text::parse(text, data_type).unwrap();
            let out = written(&value, &Column::new("c", data_type));
            assert_eq!(read_parameter(&out, data_type.into(), BINARY, 1).unwrap(), value);
            assert_eq!(read_parameter(text.as_bytes(), data_type.into(), 0, 1).unwrap(), value);
            assert!(read_parameter(&out[1..], data_type.into(), BINARY, 1).is_err());
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
        // A digit of base 10,000 is less than that.
        let digit = |high: u8, low: u8| [0, 1, 0, 0, 0, 0, 0, 0, high, low];
        let number = DataType::Numeric { precision: 9, scale: 2 };
        assert!(read_parameter(&digit(0x27, 0x0f), number.into(), BINARY, 1).is_ok());
        assert_eq!(state(&digit(0x27, 0x10), number), SqlState::INVALID_BINARY_REPRESENTATION);
        assert_eq!(state(&digit(0xff, 0xff), number), SqlState::INVALID_BINARY_REPRESENTATION);
        // Infinity, and what lies beyond the last moment.
        let moment = |us: i64| state(&us.to_be_bytes(), DataType::Timestamp);
        assert_eq!(moment(i64::MAX), SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(moment(i64::MAX - 1), SqlState::DATETIME_FIELD_OVERFLOW);
        assert_eq!(state(&i32::MIN.to_be_bytes(), DataType::Date), SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(state(&[0xff], DataType::Text), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(state(b"a\0", DataType::Text), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(
            read_parameter(b"x", DataType::Integer.into(), 0, 1).unwrap_err().state,
            SqlState::INVALID_TEXT_REPRESENTATION
        );
    }
}
