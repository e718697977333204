//! Encoded columns: an encoding for each kind of value, chosen by the values themselves.

mod bits;
mod ints;
mod texts;

pub(crate) use ints::IntColumn;

use crate::index::{hash_bytes, mix};
use crate::sketch::Sketch;
use crate::values::{
    IntSource, Store, Values, bytes_datum, end_at, int_datum, ints_to_arrow, primitive, wide_datum,
    wide_to_arrow,
};
use crate::zone::Zone;
use arrow_array::ArrayRef;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use base::{DataType, Datum, Key};
use texts::TextColumn;

/// Some rows of an integer column.
struct Run<'a> {
    ints: &'a IntColumn,
    start: usize,
    count: usize,
}

impl IntSource for Run<'_> {
    fn map<T: Copy>(&self, map: impl Fn(i64) -> T) -> Vec<T> {
        self.ints.decode(self.start, self.count, map)
    }
}

/// One column of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    data_type: DataType,
    nulls: Option<NullBuffer>,
    data: Encoded,
    /// One per block.
    pub zones: Vec<Zone>,
    /// Different values in all blocks.
    pub sketch: Sketch,
}

#[derive(Clone, Debug)]
enum Encoded {
    Ints(IntColumn),
    Wide(Vec<i128>),
    Doubles(Vec<f64>),
    Floats(Vec<f32>),
    Texts(TextColumn),
}

impl Column {
    /// Encodes the values in the order of `rows`, with a zone per `block_rows` of them.
    pub fn encode(values: &Values, rows: &[u32], block_rows: usize) -> Column {
        let in_order = || rows.iter().map(|r| *r as usize);
        let zones = rows
            .chunks(block_rows)
            .map(|block| Zone::of(values, block.iter().map(|r| *r as usize)))
            .collect();
        let nulls = (values.null_count > 0)
            .then(|| in_order().map(|r| values.valid[r]).collect::<NullBuffer>())
            .filter(|n| n.null_count() > 0);
        let valid = |r: &usize| values.valid[*r];
        let mut sketch = Sketch::new();
        let data = match &values.store {
            Store::Int(v) => {
                in_order().filter(valid).for_each(|r| sketch.add(mix(v[r] as u64)));
                // What stands for null must not widen the range.
                let filler = in_order().find(valid).map_or(0, |r| v[r]);
                let ints: Vec<i64> = in_order().map(|r| if valid(&r) { v[r] } else { filler }).collect();
                Encoded::Ints(IntColumn::encode(&ints))
            }
            Store::Wide(v) => {
                let wide: Vec<i128> = in_order().map(|r| v[r]).collect();
                in_order().filter(valid).for_each(|r| sketch.add(hash_bytes(&v[r].to_le_bytes())));
                let is_number = !matches!(values.data_type, DataType::Uuid | DataType::Interval);
                let fits = is_number && wide.iter().all(|w| i64::try_from(*w).is_ok());
                if fits {
                    let ints: Vec<i64> = wide.iter().map(|w| *w as i64).collect();
                    Encoded::Ints(IntColumn::encode(&ints))
                } else {
                    Encoded::Wide(wide)
                }
            }
            Store::Float(v) => {
                let floats: Vec<f64> = in_order().map(|r| v[r]).collect();
                in_order().filter(valid).for_each(|r| sketch.add(mix(v[r].to_bits())));
                match values.data_type {
                    DataType::Real => Encoded::Floats(floats.iter().map(|f| *f as f32).collect()),
                    _ => Encoded::Doubles(floats),
                }
            }
            Store::Bytes { .. } => {
                let texts: Vec<&[u8]> = in_order().map(|r| values.bytes(r)).collect();
                in_order().filter(valid).for_each(|r| sketch.add(hash_bytes(values.bytes(r))));
                Encoded::Texts(TextColumn::encode(values.data_type, &texts))
            }
        };
        Column { data_type: values.data_type, nulls, data, zones, sketch }
    }

    /// Rows `start..start + count` as an Arrow array; `start` is a multiple of 64.
    pub fn to_arrow(&self, start: usize, count: usize) -> ArrayRef {
        let nulls = self.nulls.as_ref().map(|n| n.slice(start, count)).filter(|n| n.null_count() > 0);
        match &self.data {
            Encoded::Ints(ints) => ints_to_arrow(self.data_type, &Run { ints, start, count }, nulls),
            Encoded::Wide(wide) => wide_to_arrow(self.data_type, &wide[start..start + count], nulls),
            Encoded::Doubles(v) => primitive::<Float64Type>(v[start..start + count].to_vec(), nulls),
            Encoded::Floats(v) => primitive::<Float32Type>(v[start..start + count].to_vec(), nulls),
            Encoded::Texts(texts) => texts.to_arrow(self.data_type, start, count, nulls),
        }
    }

    /// The rows from `start` on that `kept` has, as an Arrow array; `start` is a multiple of 64.
    pub fn some_to_arrow(&self, start: usize, kept: &BooleanBuffer) -> ArrayRef {
        let count = kept.count_set_bits();
        // Reading a single row costs as much as unpacking about ten among their neighbours.
        match &self.data {
            _ if count > kept.len() / 8 => {}
            Encoded::Ints(ints) => {
                let values: Vec<i64> = kept.set_indices().map(|r| ints.get(start + r)).collect();
                return ints_to_arrow(self.data_type, &values, self.some_nulls(start, kept));
            }
            Encoded::Texts(texts) => {
                return texts.some_to_arrow(self.data_type, start, kept, self.some_nulls(start, kept));
            }
            _ => {}
        }
        crate::snapshot::filtered(&self.to_arrow(start, kept.len()), kept)
    }

    fn some_nulls(&self, start: usize, kept: &BooleanBuffer) -> Option<NullBuffer> {
        let nulls = self.nulls.as_ref()?;
        let bits: NullBuffer = kept.set_indices().map(|r| nulls.is_valid(start + r)).collect();
        (bits.null_count() > 0).then_some(bits)
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|n| n.is_null(row))
    }

    /// The value of a row.
    pub fn datum(&self, row: usize) -> Datum {
        if self.is_null(row) {
            return Datum::Null;
        }
        match &self.data {
            Encoded::Ints(ints) => int_datum(self.data_type, ints.get(row)),
            Encoded::Wide(wide) => wide_datum(self.data_type, wide[row]),
            Encoded::Doubles(v) => Datum::Float(v[row]),
            Encoded::Floats(v) => Datum::Float(v[row].into()),
            Encoded::Texts(texts) => {
                let mut bytes = Vec::new();
                texts.read(row, &mut bytes);
                bytes_datum(self.data_type, &bytes)
            }
        }
    }

    /// Appends a row's value to a key.
    pub fn push_key(&self, row: usize, key: &mut Key) {
        match &self.data {
            Encoded::Ints(ints) if !self.is_null(row) => key.push_int(ints.get(row).into()),
            _ => key.push(&self.datum(row)),
        }
    }

    /// Appends the values of some rows to `out`.
    pub fn pour(&self, rows: &[u32], out: &mut Values) {
        for row in rows.iter().map(|r| *r as usize) {
            if self.is_null(row) {
                out.push_null();
                continue;
            }
            match (&self.data, &mut out.store) {
                (Encoded::Ints(ints), Store::Int(to)) => to.push(ints.get(row)),
                (Encoded::Ints(ints), Store::Wide(to)) => to.push(ints.get(row).into()),
                (Encoded::Wide(wide), Store::Wide(to)) => to.push(wide[row]),
                (Encoded::Doubles(v), Store::Float(to)) => to.push(v[row]),
                (Encoded::Floats(v), Store::Float(to)) => to.push(v[row].into()),
                (Encoded::Texts(texts), Store::Bytes { ends, data }) => {
                    texts.read(row, data);
                    end_at(ends, data);
                }
                (encoded, store) => panic!("{encoded:?} does not pour into {store:?}"),
            }
            out.valid.push(true);
        }
    }

    /// Whether a row holds exactly this value, to the bit.
    pub fn holds(&self, row: usize, values: &Values, at: usize) -> bool {
        if self.is_null(row) || !values.valid[at] {
            return self.is_null(row) && !values.valid[at];
        }
        match (&self.data, &values.store) {
            (Encoded::Ints(ints), Store::Int(v)) => ints.get(row) == v[at],
            (Encoded::Ints(ints), Store::Wide(v)) => i128::from(ints.get(row)) == v[at],
            (Encoded::Wide(wide), Store::Wide(v)) => wide[row] == v[at],
            (Encoded::Doubles(d), Store::Float(v)) => d[row].to_bits() == v[at].to_bits(),
            (Encoded::Floats(f), Store::Float(v)) => f[row].to_bits() == (v[at] as f32).to_bits(),
            (Encoded::Texts(texts), Store::Bytes { .. }) => texts.holds(row, values.bytes(at)),
            _ => false,
        }
    }

    pub fn bytes(&self) -> usize {
        let data = match &self.data {
            Encoded::Ints(ints) => ints.bytes(),
            Encoded::Wide(wide) => wide.len() * 16,
            Encoded::Doubles(v) => v.len() * 8,
            Encoded::Floats(v) => v.len() * 4,
            Encoded::Texts(texts) => texts.bytes(),
        };
        let nulls = self.nulls.as_ref().map_or(0, |n| n.len().div_ceil(8));
        data + nulls + self.zones.len() * size_of::<Zone>() + 256
    }
}
