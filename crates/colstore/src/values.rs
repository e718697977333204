//! Values of one column in plain vectors: what rows are poured into, and what columns are encoded from.
//!
//! IN: datums of the column's type, nulls anywhere. KEEPS: one slot per row in every vector; the slot
//! of a null holds a zero.

use crate::types::{EPOCH_DAYS, EPOCH_US, arrow_interval, arrow_type, list_field, row_fields, write_uuid};
use arrow_array::types::*;
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray,
    LargeBinaryArray, ListArray, PrimitiveArray, StringArray, StringViewArray, StructArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use base::decimal::Decimal;
use base::inet::{self, Inet};
use base::interval::Interval;
use base::timetz::TimeTz;
use base::{DataType, Datum, Row};
use std::sync::Arc;

/// A column's values, row by row.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub data_type: DataType,
    pub valid: Vec<bool>,
    pub null_count: usize,
    pub store: Store,
}

/// The four shapes that all types are kept in.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    /// boolean, integers, codes of labels, date, time, timestamps, and decimals of up to 18 digits (their units).
    Int(Vec<i64>),
    /// Longer decimals (units), uuids (big-endian bits) and intervals (months, days and µs, one behind the other).
    Wide(Vec<i128>),
    Float(Vec<f64>),
    /// Texts, byte strings, JSON and arrays (as rows of their elements), one after the other; `ends[i]` is where the
    /// i-th ends.
    Bytes {
        ends: Vec<u32>,
        data: Vec<u8>,
    },
}

/// Decimals up to this many digits fit an i64.
const NARROW_DIGITS: u8 = 18;

impl Values {
    pub fn new(data_type: DataType, capacity: usize) -> Values {
        let store = match data_type {
            DataType::Numeric { precision, .. } if precision > NARROW_DIGITS => {
                Store::Wide(Vec::with_capacity(capacity))
            }
            DataType::Uuid | DataType::Interval => Store::Wide(Vec::with_capacity(capacity)),
            DataType::Real | DataType::Double => Store::Float(Vec::with_capacity(capacity)),
            DataType::Text
            | DataType::Varchar { .. }
            | DataType::Char { .. }
            | DataType::Bytea
            | DataType::Json
            | DataType::Jsonb
            | DataType::Inet
            | DataType::Cidr
            | DataType::MacAddr
            | DataType::MacAddr8
            | DataType::TsVector
            | DataType::TsQuery
            | DataType::Composite(_)
            | DataType::Array(_) => Store::Bytes { ends: Vec::with_capacity(capacity), data: Vec::new() },
            _ => Store::Int(Vec::with_capacity(capacity)),
        };
        Values { data_type, valid: Vec::with_capacity(capacity), null_count: 0, store }
    }

    /// Appends one value; one of another type is cast as on assignment. Panics if that is impossible:
    /// rows are checked before they are ordered.
    pub fn push(&mut self, value: &Datum) {
        use DataType as T;
        match (&mut self.store, value, self.data_type) {
            (_, Datum::Null, _) => return self.push_null(),
            (Store::Int(out), Datum::Int(i), T::SmallInt | T::Integer | T::BigInt | T::Enum(_)) => {
                out.push(*i)
            }
            (Store::Int(out), Datum::Decimal(d), T::Numeric { scale, .. }) => {
                out.push(rescaled(*d, scale) as i64)
            }
            (Store::Wide(out), Datum::Decimal(d), T::Numeric { scale, .. }) => out.push(rescaled(*d, scale)),
            (Store::Int(out), Datum::Bool(b), T::Boolean) => out.push(i64::from(*b)),
            (Store::Int(out), Datum::Date(d), T::Date) => out.push(i64::from(*d)),
            (Store::Int(out), Datum::Timestamp(us), T::Timestamp | T::TimestampTz) => out.push(*us),
            (Store::Wide(out), Datum::Uuid(u), T::Uuid) => out.push(i128::from_be_bytes(*u)),
            (Store::Float(out), Datum::Float(f), _) => out.push(*f),
            (Store::Bytes { ends, data }, Datum::Text(s), T::Text | T::Varchar { .. } | T::Char { .. }) => {
                append(ends, data, s.as_bytes())
            }
            (Store::Bytes { ends, data }, Datum::Bytes(b), T::Bytea) => append(ends, data, b),
            (Store::Int(out), Datum::Time(us), T::Time) => out.push(*us),
            (Store::Wide(out), Datum::Interval(interval), T::Interval) => out.push(packed(*interval)),
            (Store::Bytes { ends, data }, Datum::Text(s), T::Json | T::TsVector | T::TsQuery) => {
                append(ends, data, s.as_bytes())
            }
            (Store::Bytes { ends, data }, Datum::Json(s), T::Jsonb) => append(ends, data, s.as_bytes()),
            (Store::Bytes { ends, data }, Datum::Inet(address), of) if inet::width(of).is_some() => {
                append(ends, data, &address.packed(of == T::Cidr))
            }
            (Store::Int(out), Datum::TimeTz(time), T::TimeTz) => out.push(time.packed()),
            (Store::Bytes { ends, data }, Datum::Array(elements), T::Array(_) | T::Composite(_)) => {
                append(ends, data, Row::of(elements).as_bytes())
            }
            (_, other, _) => {
                let fitting = self.data_type.coerce(other.clone());
                let fitting = fitting.unwrap_or_else(|e| panic!("{other:?} was let into a column: {e}"));
                assert_ne!(fitting.kind(), other.kind(), "a cast value is of the column's kind");
                return self.push(&fitting);
            }
        }
        self.valid.push(true);
    }

    /// Appends a text; to a column of another type it is cast as by [`Values::push`].
    pub fn push_text(&mut self, text: &str) {
        use DataType as T;
        match (&mut self.store, self.data_type) {
            (Store::Bytes { ends, data }, T::Text | T::Varchar { .. } | T::Char { .. }) => {
                append(ends, data, text.as_bytes());
                self.valid.push(true);
            }
            _ => self.push(&Datum::text(text)),
        }
    }

    /// Appends a row of another column of the same type.
    pub fn push_from(&mut self, other: &Values, row: usize) {
        if !other.valid[row] {
            return self.push_null();
        }
        match (&mut self.store, &other.store) {
            (Store::Int(to), Store::Int(from)) => to.push(from[row]),
            (Store::Wide(to), Store::Wide(from)) => to.push(from[row]),
            (Store::Float(to), Store::Float(from)) => to.push(from[row]),
            (Store::Bytes { ends, data }, Store::Bytes { .. }) => append(ends, data, other.bytes(row)),
            (to, from) => panic!("{from:?} does not fit {to:?}"),
        }
        self.valid.push(true);
    }

    pub fn push_null(&mut self) {
        match &mut self.store {
            Store::Int(out) => out.push(0),
            Store::Wide(out) => out.push(0),
            Store::Float(out) => out.push(0.0),
            Store::Bytes { ends, data } => ends.push(data.len() as u32),
        }
        self.valid.push(false);
        self.null_count += 1;
    }

    /// The value of a row.
    pub fn datum(&self, row: usize) -> Datum {
        if !self.valid[row] {
            return Datum::Null;
        }
        match &self.store {
            Store::Int(v) => int_datum(self.data_type, v[row]),
            Store::Wide(v) => wide_datum(self.data_type, v[row]),
            Store::Float(v) => Datum::Float(v[row]),
            Store::Bytes { ends, data } => bytes_datum(self.data_type, slot(ends, data, row)),
        }
    }

    /// Bytes of a row of a [`Store::Bytes`].
    pub fn bytes(&self, row: usize) -> &[u8] {
        match &self.store {
            Store::Bytes { ends, data } => slot(ends, data, row),
            other => panic!("{other:?} has no bytes"),
        }
    }

    /// The values as the Arrow array of the column's type.
    pub fn to_arrow(&self) -> ArrayRef {
        let nulls = (self.null_count > 0).then(|| NullBuffer::from(self.valid.as_slice()));
        match &self.store {
            Store::Int(v) => ints_to_arrow(self.data_type, v, nulls),
            Store::Wide(v) => wide_to_arrow(self.data_type, v, nulls),
            Store::Float(v) => match self.data_type {
                DataType::Real => primitive::<Float32Type>(v.iter().map(|f| *f as f32).collect(), nulls),
                _ => primitive::<Float64Type>(v.clone(), nulls),
            },
            Store::Bytes { ends, data } => {
                let offsets = [0].into_iter().chain(ends.iter().map(|e| *e as i32)).collect::<Vec<_>>();
                bytes_to_arrow(self.data_type, offsets, Buffer::from_slice_ref(data), nulls)
            }
        }
    }
}

fn append(ends: &mut Vec<u32>, data: &mut Vec<u8>, bytes: &[u8]) {
    data.extend_from_slice(bytes);
    end_at(ends, data);
}

/// Notes that a text ends where `data` ends.
pub(crate) fn end_at(ends: &mut Vec<u32>, data: &[u8]) {
    ends.push(u32::try_from(data.len()).expect("a merge reads less than 4 GiB of text"));
}

fn slot<'a>(ends: &[u32], data: &'a [u8], row: usize) -> &'a [u8] {
    let start = if row == 0 { 0 } else { ends[row - 1] };
    &data[start as usize..ends[row] as usize]
}

fn rescaled(decimal: Decimal, scale: u8) -> i128 {
    decimal.rescale(scale).unwrap_or_else(|| panic!("{decimal} does not fit scale {scale}")).units()
}

/// A value kept in an i64, as a datum.
pub(crate) fn int_datum(data_type: DataType, value: i64) -> Datum {
    match data_type {
        DataType::Boolean => Datum::Bool(value != 0),
        DataType::Date => Datum::Date(value as i32),
        DataType::Timestamp | DataType::TimestampTz => Datum::Timestamp(value),
        DataType::Time => Datum::Time(value),
        DataType::TimeTz => Datum::TimeTz(TimeTz::of_packed(value)),
        DataType::Numeric { scale, .. } => Datum::Decimal(Decimal::new(value.into(), scale)),
        _ => Datum::Int(value),
    }
}

/// Months, days and µs in one number.
fn packed(interval: Interval) -> i128 {
    i128::from(interval.months) << 96
        | i128::from(interval.days as u32) << 64
        | i128::from(interval.us as u64)
}

fn unpacked(value: i128) -> Interval {
    Interval { months: (value >> 96) as i32, days: (value >> 64) as i32, us: value as i64 }
}

/// The elements of an array or a row, from the bytes of a row.
pub(crate) fn elements(bytes: &[u8]) -> Vec<Datum> {
    Row::from_bytes(bytes).expect("an array is kept as a row").to_vec()
}

pub(crate) fn wide_datum(data_type: DataType, value: i128) -> Datum {
    match data_type {
        DataType::Numeric { scale, .. } => Datum::Decimal(Decimal::new(value, scale)),
        DataType::Interval => Datum::Interval(unpacked(value)),
        _ => Datum::Uuid(value.to_be_bytes()),
    }
}

pub(crate) fn bytes_datum(data_type: DataType, bytes: &[u8]) -> Datum {
    match data_type {
        DataType::Bytea => Datum::Bytes(Arc::from(bytes)),
        DataType::Jsonb => Datum::Json(Arc::from(std::str::from_utf8(bytes).expect("JSON is UTF-8"))),
        DataType::Array(_) | DataType::Composite(_) => Datum::Array(elements(bytes).into()),
        of if inet::width(of).is_some() => {
            Datum::Inet(Inet::of_packed(bytes).expect("an address is kept packed"))
        }
        _ => Datum::text(std::str::from_utf8(bytes).expect("texts are UTF-8")),
    }
}

/// Where integers come from: plain, or decoded on the way.
pub(crate) trait IntSource {
    /// All values, each as `map` makes of it.
    fn map<T: Copy>(&self, map: impl Fn(i64) -> T) -> Vec<T>;
}

impl IntSource for Vec<i64> {
    fn map<T: Copy>(&self, map: impl Fn(i64) -> T) -> Vec<T> {
        self.iter().map(|v| map(*v)).collect()
    }
}

/// Values kept in i64, as the Arrow array of their type.
pub(crate) fn ints_to_arrow(
    data_type: DataType,
    values: &impl IntSource,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    match data_type {
        DataType::Boolean => {
            let bits = BooleanBuffer::from(values.map(|v| v != 0));
            Arc::new(BooleanArray::new(bits, nulls))
        }
        DataType::SmallInt => primitive::<Int16Type>(values.map(|v| v as i16), nulls),
        DataType::Integer => primitive::<Int32Type>(values.map(|v| v as i32), nulls),
        DataType::BigInt => primitive::<Int64Type>(values.map(|v| v), nulls),
        DataType::Date => {
            primitive::<Date32Type>(values.map(|v| (v as i32).saturating_add(EPOCH_DAYS)), nulls)
        }
        DataType::Timestamp | DataType::TimestampTz => {
            let us = values.map(|v| v.saturating_add(EPOCH_US));
            let array = PrimitiveArray::<TimestampMicrosecondType>::new(us.into(), nulls);
            let zone = (data_type == DataType::TimestampTz).then_some("+00:00");
            Arc::new(array.with_timezone_opt(zone))
        }
        DataType::Time => primitive::<Time64MicrosecondType>(values.map(|v| v), nulls),
        DataType::TimeTz => primitive::<Time64NanosecondType>(values.map(|v| v), nulls),
        DataType::Enum(of) => {
            let array = PrimitiveArray::<TimestampSecondType>::new(values.map(|v| v).into(), nulls);
            Arc::new(array.with_timezone(of.zone()))
        }
        DataType::Numeric { .. } => decimals(data_type, values.map(i128::from), nulls),
        other => panic!("{} is not kept in integers", other.name()),
    }
}

pub(crate) fn wide_to_arrow(data_type: DataType, values: &[i128], nulls: Option<NullBuffer>) -> ArrayRef {
    if matches!(data_type, DataType::Numeric { .. }) {
        return decimals(data_type, values.to_vec(), nulls);
    }
    if data_type == DataType::Interval {
        let intervals = values.iter().map(|v| arrow_interval(unpacked(*v))).collect();
        return primitive::<IntervalMonthDayNanoType>(intervals, nulls);
    }
    let mut data = Vec::with_capacity(values.len() * 36);
    let mut offsets = Vec::with_capacity(values.len() + 1);
    offsets.push(0);
    for value in values {
        write_uuid(&mut data, value.to_be_bytes());
        offsets.push(data.len() as i32);
    }
    bytes_to_arrow(data_type, offsets, Buffer::from_vec(data), nulls)
}

/// Byte strings between `offsets` of `data`, as Binary, FixedSizeBinary, LargeBinary, List or Utf8View.
pub(crate) fn bytes_to_arrow(
    data_type: DataType,
    offsets: Vec<i32>,
    data: Buffer,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    if let DataType::Array(of) = data_type {
        return lists(of.data_type(), &offsets, &data, nulls);
    }
    if let Some(width) = inet::width(data_type) {
        // The slot of a null is empty; here it has a width.
        let slots = offsets.windows(2).flat_map(|at| match (at[1] - at[0]) as usize == width {
            true => data[at[0] as usize..at[1] as usize].to_vec(),
            false => vec![0; width],
        });
        let slots = slots.collect::<Vec<u8>>().into();
        return Arc::new(FixedSizeBinaryArray::new(width as i32, slots, nulls));
    }
    if data_type == DataType::Jsonb {
        let offsets = offsets.into_iter().map(i64::from).collect::<Vec<_>>();
        return Arc::new(LargeBinaryArray::new(OffsetBuffer::new(offsets.into()), data, nulls));
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    if matches!(data_type, DataType::TsVector | DataType::TsQuery) {
        return Arc::new(BinaryViewArray::from(&BinaryArray::new(offsets, data, nulls)));
    }
    if data_type == DataType::Bytea {
        return Arc::new(BinaryArray::new(offsets, data, nulls));
    }
    if let DataType::Composite(of) = data_type {
        let rows: ArrayRef = Arc::new(BinaryArray::new(offsets, data, nulls.clone()));
        return Arc::new(StructArray::new(row_fields(of), vec![rows], nulls));
    }
    let texts = StringArray::try_new(offsets, data, nulls).expect("texts are UTF-8");
    Arc::new(StringViewArray::from(&texts))
}

/// Arrays whose elements lie between `offsets` of `data` as rows.
fn lists(of: DataType, offsets: &[i32], data: &[u8], nulls: Option<NullBuffer>) -> ArrayRef {
    let mut inside = Values::new(of, offsets.len());
    let mut ends = Vec::with_capacity(offsets.len());
    ends.push(0i32);
    for pair in offsets.windows(2) {
        elements(&data[pair[0] as usize..pair[1] as usize]).iter().for_each(|element| inside.push(element));
        ends.push(i32::try_from(inside.valid.len()).expect("a block has less than 2^31 elements"));
    }
    let field = Arc::new(list_field(of));
    Arc::new(ListArray::new(field, OffsetBuffer::new(ends.into()), inside.to_arrow(), nulls))
}

pub(crate) fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}

fn decimals(data_type: DataType, units: Vec<i128>, nulls: Option<NullBuffer>) -> ArrayRef {
    let array = Decimal128Array::new(ScalarBuffer::from(units), nulls);
    Arc::new(array.with_data_type(arrow_type(data_type)))
}
