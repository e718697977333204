//! Rows: values packed into bytes that describe themselves.
//!
//! A tag byte per value, small numbers in few bytes; a row written before a column was added simply
//! ends earlier, and the reader takes the column's default.

mod patch;

pub use patch::RowPatch;

use crate::datum::Datum;
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::inet::{Inet, KEY_BYTES};
use crate::interval::Interval;
use crate::timetz::TimeTz;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// Longest row, in bytes of its texts and byte strings: a row travels and is stored in one piece.
pub const BYTES_MAX: usize = 16 << 20;

/// Errors: the values are too long for a row (54000).
pub fn check_size(values: &[Datum]) -> SqlResult<()> {
    let length = |value: &Datum| match value {
        Datum::Text(text) => text.len(),
        Datum::Bytes(bytes) => bytes.len(),
        Datum::Json(text) => text.len(),
        Datum::Array(elements) => {
            let mut out = Buffer::new();
            elements.iter().for_each(|element| write(&mut out, element));
            out.len()
        }
        _ => 0,
    };
    let bytes: usize = values.iter().map(length).sum();
    if bytes > BYTES_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("row is too big: {bytes} bytes, maximum {BYTES_MAX} bytes"),
        ));
    }
    Ok(())
}

/// An encoded row. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Row(Arc<[u8]>);

impl Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Row;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("row bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Row, E> {
                Ok(Row(Arc::from(bytes)))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

/// Where a row is built: on the stack, unless it is long.
pub(crate) type Buffer = SmallVec<[u8; 512]>;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const DECIMAL: u8 = 5;
const TEXT: u8 = 6;
const DATE: u8 = 7;
const TIMESTAMP: u8 = 8;
const UUID: u8 = 9;
const BYTES: u8 = 10;
const TIME: u8 = 11;
const INTERVAL: u8 = 12;
const JSON: u8 = 13;
/// The length of its elements in bytes, then the elements.
const ARRAY: u8 = 14;
const INET: u8 = 15;
/// The one tag that no short text has: another one follows, that says what the value is.
const MORE: u8 = 255;
const MORE_TIMETZ: u8 = 0;
/// Tags from here on are short texts: SHORT_TEXT + length.
const SHORT_TEXT: u8 = 64;
/// Tags 16..64 are small integers −8..40.
const SMALL_INT: u8 = 16;
const SMALL_INT_LOW: i64 = -8;
const SMALL_INT_HIGH: i64 = 39;

impl Row {
    pub fn of(values: &[Datum]) -> Row {
        let mut out = Buffer::new();
        values.iter().for_each(|v| write(&mut out, v));
        Row(Arc::from(&out[..]))
    }
    pub fn values(&self) -> Values<'_> {
        Values { rest: &self.0 }
    }
    pub fn to_vec(&self) -> Vec<Datum> {
        self.values().collect()
    }
    /// The value of a column; null if the row ends before it.
    pub fn get(&self, column: usize) -> Datum {
        self.stored(column).unwrap_or_default()
    }
    /// The value of a column, `None` if the row was written before the column was added.
    pub fn stored(&self, column: usize) -> Option<Datum> {
        let mut values = self.values();
        for _ in 0..column {
            if !values.skip_one() {
                return None;
            }
        }
        values.next()
    }
    /// Values of some columns, which ascend; null where the row ends before.
    pub fn pick<const N: usize>(&self, columns: [usize; N]) -> [Datum; N] {
        let mut values = self.values();
        let mut at = 0;
        columns.map(|column| {
            assert!(at <= column, "columns are picked in their order");
            while at < column && values.skip_one() {
                at += 1;
            }
            at = column + 1;
            values.next().unwrap_or_default()
        })
    }
    /// This row with some columns changed; `changes` come in the order of their columns, which the row
    /// must have. What does not change is copied as bytes.
    pub fn with(&self, changes: &[(usize, Datum)]) -> Row {
        let mut out = Buffer::new();
        let mut values = self.values();
        let mut at = 0;
        for (column, value) in changes {
            let start = values.rest;
            while at < *column {
                assert!(values.skip_one(), "the row ends before column {column}");
                at += 1;
            }
            out.extend_from_slice(&start[..start.len() - values.rest.len()]);
            assert!(values.skip_one(), "the row ends before column {column}");
            at += 1;
            write(&mut out, value);
        }
        out.extend_from_slice(values.rest);
        Row(Arc::from(&out[..]))
    }
    /// Bytes of the encoding.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// Takes bytes from a peer or a file after checking every value.
    pub fn from_bytes(bytes: &[u8]) -> Option<Row> {
        let mut rest = bytes;
        while !rest.is_empty() {
            read(&mut rest)?;
        }
        Some(Row(Arc::from(bytes)))
    }
}

/// Iterates over a row's values from the left.
pub struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Values<'a> {
    /// The next value, if it is a text; otherwise nothing is passed over.
    pub fn next_text(&mut self) -> Option<&'a str> {
        let (&tag, mut rest) = self.rest.split_first()?;
        let length = match tag {
            TEXT => usize::try_from(read_varint(&mut rest)?).ok()?,
            tag if (SHORT_TEXT..MORE).contains(&tag) => usize::from(tag - SHORT_TEXT),
            _ => return None,
        };
        let text = std::str::from_utf8(take(&mut rest, length)?).ok()?;
        self.rest = rest;
        Some(text)
    }
    /// Whether the next value is null; `None` at the end.
    pub fn next_is_null(&self) -> Option<bool> {
        self.rest.first().map(|tag| *tag == NULL)
    }
    /// Passes over one value without building it; false at the end.
    pub fn skip_one(&mut self) -> bool {
        let Some((&tag, rest)) = self.rest.split_first() else { return false };
        let mut rest = rest;
        match tag {
            INT | DATE | TIMESTAMP | TIME => skip_varint(&mut rest),
            INTERVAL => (0..3).for_each(|_| skip_varint(&mut rest)),
            FLOAT => rest = rest.get(8..).unwrap_or_default(),
            DECIMAL => {
                rest = rest.get(1..).unwrap_or_default();
                skip_varint(&mut rest);
            }
            UUID => rest = rest.get(16..).unwrap_or_default(),
            INET => rest = rest.get(KEY_BYTES..).unwrap_or_default(),
            MORE => {
                rest = rest.get(1..).unwrap_or_default();
                skip_varint(&mut rest);
            }
            TEXT | BYTES | JSON | ARRAY => {
                let length = read_varint(&mut rest).unwrap_or(0) as usize;
                rest = rest.get(length..).unwrap_or_default();
            }
            tag if tag >= SHORT_TEXT => rest = rest.get(usize::from(tag - SHORT_TEXT)..).unwrap_or_default(),
            _ => {}
        }
        self.rest = rest;
        true
    }
}

impl Iterator for Values<'_> {
    type Item = Datum;
    fn next(&mut self) -> Option<Datum> {
        if self.rest.is_empty() { None } else { read(&mut self.rest) }
    }
}

fn write(out: &mut Buffer, value: &Datum) {
    match value {
        Datum::Null => out.push(NULL),
        Datum::Bool(b) => out.push(if *b { TRUE } else { FALSE }),
        Datum::Int(i) if (SMALL_INT_LOW..=SMALL_INT_HIGH).contains(i) => {
            out.push(SMALL_INT + (i - SMALL_INT_LOW) as u8)
        }
        Datum::Int(i) => write_number(out, INT, *i),
        Datum::Float(f) => {
            out.push(FLOAT);
            out.extend_from_slice(&f.to_le_bytes());
        }
        Datum::Decimal(d) => {
            out.extend_from_slice(&[DECIMAL, d.scale()]);
            write_varint(out, zigzag(d.units()));
        }
        Datum::Text(s) if s.len() < usize::from(u8::MAX - SHORT_TEXT) => {
            out.push(SHORT_TEXT + s.len() as u8);
            out.extend_from_slice(s.as_bytes());
        }
        Datum::Text(s) => {
            out.push(TEXT);
            write_varint(out, s.len() as u128);
            out.extend_from_slice(s.as_bytes());
        }
        Datum::Date(d) => write_number(out, DATE, i64::from(*d)),
        Datum::Timestamp(us) => write_number(out, TIMESTAMP, *us),
        Datum::Uuid(u) => write_bytes(out, UUID, u),
        Datum::Bytes(b) => {
            out.push(BYTES);
            write_varint(out, b.len() as u128);
            out.extend_from_slice(b);
        }
        Datum::Time(us) => write_number(out, TIME, *us),
        Datum::Interval(interval) => {
            out.push(INTERVAL);
            write_varint(out, zigzag(i128::from(interval.months)));
            write_varint(out, zigzag(i128::from(interval.days)));
            write_varint(out, zigzag(i128::from(interval.us)));
        }
        Datum::Json(text) => {
            out.push(JSON);
            write_varint(out, text.len() as u128);
            out.extend_from_slice(text.as_bytes());
        }
        Datum::Inet(address) => write_bytes(out, INET, &address.key()),
        Datum::TimeTz(time) => {
            out.push(MORE);
            write_number(out, MORE_TIMETZ, time.packed());
        }
        Datum::Array(elements) => {
            let mut inside = Buffer::new();
            elements.iter().for_each(|element| write(&mut inside, element));
            out.push(ARRAY);
            write_varint(out, inside.len() as u128);
            out.extend_from_slice(&inside);
        }
    }
}

fn write_number(out: &mut Buffer, tag: u8, number: i64) {
    out.push(tag);
    write_varint(out, zigzag(i128::from(number)));
}

/// A value whose length its tag tells.
fn write_bytes(out: &mut Buffer, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

/// Arrays within each other: rows of composite types, and an array that is an attribute.
const DEPTH_MAX: usize = crate::composite::DEPTH_MAX + 1;

fn read(rest: &mut &[u8]) -> Option<Datum> {
    read_within(rest, 0)
}

/// `depth`: in how many arrays the value lies.
fn read_within(rest: &mut &[u8], depth: usize) -> Option<Datum> {
    let (&tag, after) = rest.split_first()?;
    *rest = after;
    Some(match tag {
        NULL => Datum::Null,
        FALSE => Datum::Bool(false),
        TRUE => Datum::Bool(true),
        INT => Datum::Int(i64::try_from(unzigzag(read_varint(rest)?)).ok()?),
        FLOAT => Datum::Float(f64::from_le_bytes(take(rest, 8)?.try_into().ok()?)),
        DECIMAL => {
            let scale = take(rest, 1)?[0];
            Datum::Decimal(Decimal::new(unzigzag(read_varint(rest)?), scale))
        }
        TEXT => {
            let length = usize::try_from(read_varint(rest)?).ok()?;
            Datum::text(std::str::from_utf8(take(rest, length)?).ok()?)
        }
        DATE => Datum::Date(i32::try_from(unzigzag(read_varint(rest)?)).ok()?),
        TIMESTAMP => Datum::Timestamp(i64::try_from(unzigzag(read_varint(rest)?)).ok()?),
        UUID => Datum::Uuid(take(rest, 16)?.try_into().ok()?),
        INET => Datum::Inet(Inet::of_key(take(rest, KEY_BYTES)?)?),
        MORE => match take(rest, 1)?[0] {
            MORE_TIMETZ => {
                let packed = i64::try_from(unzigzag(read_varint(rest)?)).ok()?;
                Datum::TimeTz(TimeTz::of_packed(packed))
            }
            _ => return None,
        },
        BYTES => {
            let length = usize::try_from(read_varint(rest)?).ok()?;
            Datum::Bytes(Arc::from(take(rest, length)?))
        }
        TIME => Datum::Time(i64::try_from(unzigzag(read_varint(rest)?)).ok()?),
        INTERVAL => Datum::Interval(Interval {
            months: i32::try_from(unzigzag(read_varint(rest)?)).ok()?,
            days: i32::try_from(unzigzag(read_varint(rest)?)).ok()?,
            us: i64::try_from(unzigzag(read_varint(rest)?)).ok()?,
        }),
        JSON => {
            let length = usize::try_from(read_varint(rest)?).ok()?;
            Datum::Json(Arc::from(std::str::from_utf8(take(rest, length)?).ok()?))
        }
        ARRAY => {
            let length = usize::try_from(read_varint(rest)?).ok()?;
            let mut inside = take(rest, length)?;
            let mut elements = Vec::new();
            while !inside.is_empty() {
                // Hostile bytes find no more depth than types have.
                if inside[0] == ARRAY && depth + 1 == DEPTH_MAX {
                    return None;
                }
                elements.push(read_within(&mut inside, depth + 1)?);
            }
            Datum::Array(elements.into())
        }
        tag if tag >= SHORT_TEXT => {
            Datum::text(std::str::from_utf8(take(rest, usize::from(tag - SHORT_TEXT))?).ok()?)
        }
        tag if tag >= SMALL_INT => Datum::Int(i64::from(tag - SMALL_INT) + SMALL_INT_LOW),
        _ => return None,
    })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn zigzag(value: i128) -> u128 {
    ((value << 1) ^ (value >> 127)) as u128
}
fn unzigzag(value: u128) -> i128 {
    (value >> 1) as i128 ^ -((value & 1) as i128)
}
fn write_varint(out: &mut Buffer, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
fn skip_varint(rest: &mut &[u8]) {
    let length = rest.iter().position(|b| *b < 0x80).map_or(rest.len(), |last| last + 1);
    *rest = &rest[length..];
}
fn read_varint(rest: &mut &[u8]) -> Option<u128> {
    if let Some((&byte, after)) = rest.split_first()
        && byte < 0x80
    {
        *rest = after;
        return Some(byte.into());
    }
    let mut value = 0u128;
    for shift in (0..128).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u128::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_survives() {
        let long = "x".repeat(300);
        let values = vec![
            Datum::Null,
            Datum::Bool(true),
            Datum::Int(-8),
            Datum::Int(39),
            Datum::Int(40),
            Datum::Int(i64::MIN),
            Datum::Float(-0.5),
            Datum::Decimal(Decimal::new(-12345, 2)),
            Datum::text(""),
            Datum::text("héllo"),
            Datum::text(&long),
            Datum::Date(-1),
            Datum::Timestamp(i64::MAX),
            Datum::Uuid([7; 16]),
            Datum::Bytes(Arc::from(&b"\0\xff"[..])),
            Datum::Time(86_400_000_000),
            Datum::Interval(Interval { months: -1, days: i32::MAX, us: i64::MIN }),
            Datum::Json(Arc::from("{\"a\": 1}")),
            Datum::Inet(Inet::of_hardware(&[1, 2, 3, 4, 5, 6]).unwrap()),
            Datum::TimeTz(TimeTz::new(86_400_000_000, -57_599)),
            Datum::Array(vec![Datum::Int(7), Datum::Null, Datum::text("x")].into()),
            Datum::Array(Vec::new().into()),
        ];
        let row = Row::of(&values);
        assert_eq!(row.to_vec(), values);
        for (i, value) in values.iter().enumerate() {
            assert_eq!(row.get(i), *value, "column {i}");
        }
        assert_eq!(row.get(values.len()), Datum::Null);
        let last = values.len() - 1;
        let picked = [values[0].clone(), values[7].clone(), values[last].clone(), Datum::Null];
        assert_eq!(row.pick([0, 7, last, last + 2]), picked);
        let mut read = row.values();
        for value in &values {
            let text = read.next_text();
            assert_eq!(text.is_some(), matches!(value, Datum::Text(_)));
            assert_eq!(text.map(Datum::text).or_else(|| read.next()), Some(value.clone()));
        }
        let mut changed = values.clone();
        let changes = [(0, Datum::Int(1)), (5, Datum::Null), (6, Datum::text("")), (14, Datum::Bool(true))];
        changes.iter().for_each(|(column, value)| changed[*column] = value.clone());
        assert_eq!(row.with(&changes), Row::of(&changed));
        assert_eq!(row.with(&[]), row);
        assert_eq!(Row::from_bytes(row.as_bytes()), Some(row.clone()));
        assert_eq!(Row::from_bytes(&row.as_bytes()[..row.len() - 1]), None);
        assert_eq!(Row::from_bytes(&[11]), None);
    }
}
