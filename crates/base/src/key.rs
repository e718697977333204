//! Keys: byte strings whose order is the order of the values they were made from.
//!
//! Encodings are self-delimiting, so a key made from a prefix of the columns is a byte prefix of every
//! key with those values: `w_id, d_id` is the start of all orders of that district. Nulls sort last.

use crate::Datum;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// An order-preserving encoded key.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(SmallVec<[u8; 24]>);

impl Clone for Key {
    /// Copies all bytes at once; a clone of the vector goes byte by byte.
    fn clone(&self) -> Key {
        Key::from_bytes(self.as_bytes())
    }
}

const NULL: u8 = 0xFF;
const BYTES: u8 = 0x02;
const FLOAT: u8 = 0x04;
const UUID: u8 = 0x05;
/// Integers: ZERO − n or ZERO + n for an n-byte magnitude.
const ZERO: u8 = 0x80;

impl Key {
    pub fn new() -> Key {
        Key::default()
    }
    pub fn from_bytes(bytes: &[u8]) -> Key {
        Key(SmallVec::from_slice(bytes))
    }
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// Encodes the values in order. Decimals must all have their column's scale.
    pub fn of(values: &[Datum]) -> Key {
        let mut key = Key::new();
        values.iter().for_each(|v| key.push(v));
        key
    }
    /// Appends one value.
    pub fn push(&mut self, value: &Datum) {
        match value {
            Datum::Null => self.0.push(NULL),
            Datum::Bool(b) => self.push_int(i128::from(*b)),
            Datum::Int(i) => self.push_int(i128::from(*i)),
            Datum::Date(d) => self.push_int(i128::from(*d)),
            Datum::Timestamp(us) => self.push_int(i128::from(*us)),
            Datum::Decimal(d) => self.push_int(d.units()),
            Datum::Float(f) => {
                // -0.0 and 0.0 are one value; NaN is the largest.
                let f = if *f == 0.0 {
                    0.0
                } else if f.is_nan() {
                    f64::NAN
                } else {
                    *f
                };
                let bits = f.to_bits();
                let ordered = if bits >> 63 == 1 && !f.is_nan() { !bits } else { bits | 1 << 63 };
                self.0.push(FLOAT);
                self.0.extend_from_slice(&ordered.to_be_bytes());
            }
            Datum::Text(s) => self.push_bytes(s.as_bytes()),
            Datum::Bytes(b) => self.push_bytes(b),
            Datum::Inet(address) => self.push_bytes(&address.packed(false)),
            Datum::Time(us) => self.push_int(i128::from(*us)),
            Datum::TimeTz(time) => self.push_int(i128::from(time.packed())),
            Datum::Interval(interval) => self.push_int(interval.length_us()),
            Datum::Json(text) => self.push_bytes(&crate::json::sort_key_of(text)),
            Datum::Array(elements) => {
                // Each element behind a one, and a zero at the end: a shorter array is the smaller one.
                let mut inside = Key::new();
                for element in elements.iter() {
                    inside.0.push(1);
                    inside.push(element);
                }
                inside.0.push(0);
                self.push_bytes(&inside.0);
            }
            Datum::Uuid(u) => {
                self.0.push(UUID);
                self.0.extend_from_slice(u);
            }
        }
    }
    /// Appends another key's values.
    pub fn append(&mut self, other: &Key) {
        self.0.extend_from_slice(&other.0);
    }
    /// Appends an integer without wrapping it in a [`Datum`].
    pub fn push_int(&mut self, value: i128) {
        let magnitude = value.unsigned_abs();
        let bytes = magnitude.to_be_bytes();
        let skip = (magnitude.leading_zeros() / 8) as usize;
        let length = (16 - skip) as u8;
        if value < 0 {
            self.0.push(ZERO - length);
            self.0.extend(bytes[skip..].iter().map(|b| !b));
        } else {
            self.0.push(ZERO + length);
            self.0.extend_from_slice(&bytes[skip..]);
        }
    }
    fn push_bytes(&mut self, bytes: &[u8]) {
        self.0.push(BYTES);
        for &b in bytes {
            self.0.push(b);
            if b == 0 {
                self.0.push(0xFF);
            }
        }
        self.0.extend_from_slice(&[0, 1]);
    }
    /// What follows the first `values` values: the primary key at the end of an index entry.
    pub fn tail(&self, values: usize) -> Key {
        let mut rest = self.as_bytes();
        for _ in 0..values {
            let length = match rest.first() {
                None => break,
                Some(&NULL) => 1,
                Some(&BYTES) => {
                    // The end mark is 0, 1; a zero inside is 0, 0xFF.
                    1 + rest[1..].windows(2).position(|w| w == [0, 1]).expect("an end mark") + 2
                }
                Some(&FLOAT) => 9,
                Some(&UUID) => 17,
                Some(&tag) => 1 + usize::from(tag.abs_diff(ZERO)),
            };
            rest = &rest[length..];
        }
        Key::from_bytes(rest)
    }
    pub fn starts_with(&self, prefix: &Key) -> bool {
        self.0.starts_with(&prefix.0)
    }
    /// The smallest key greater than every key that starts with this one; `None` if there is none.
    pub fn prefix_end(&self) -> Option<Key> {
        let last = self.0.iter().rposition(|&b| b != 0xFF)?;
        let mut end = Key(SmallVec::from_slice(&self.0[..=last]));
        end.0[last] += 1;
        Some(end)
    }
    /// The smallest key greater than this one.
    pub fn successor(&self) -> Key {
        let mut next = self.clone();
        next.0.push(0);
        next
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Key;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("key bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Key, E> {
                Ok(Key::from_bytes(bytes))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// Keys from `low` (included) up to `high` (excluded, `None` = no end).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct KeyRange {
    pub low: Key,
    pub high: Option<Key>,
}

impl KeyRange {
    pub fn all() -> KeyRange {
        KeyRange { low: Key::new(), high: None }
    }
    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: Key) -> KeyRange {
        let high = prefix.prefix_end();
        KeyRange { low: prefix, high }
    }
    /// Exactly this key.
    pub fn point(key: Key) -> KeyRange {
        let high = Some(key.successor());
        KeyRange { low: key, high }
    }
    pub fn contains(&self, key: &Key) -> bool {
        self.low <= *key && self.high.as_ref().is_none_or(|high| key < high)
    }
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        let below = |a: &KeyRange, b: &KeyRange| a.high.as_ref().is_none_or(|high| b.low < *high);
        below(self, other) && below(other, self)
    }
    pub fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }
    /// The key, if the range holds exactly one.
    pub fn as_point(&self) -> Option<&Key> {
        let high = self.high.as_ref()?;
        let is_successor = high.len() == self.low.len() + 1
            && high.starts_with(&self.low)
            && high.as_bytes().last() == Some(&0);
        is_successor.then_some(&self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_bytes_is_order_of_values() {
        let ladders: [Vec<Datum>; 4] = [
            [i64::MIN, -70_000, -256, -255, -1, 0, 1, 255, 256, 70_000, i64::MAX].map(Datum::Int).into(),
            [f64::NEG_INFINITY, -1.5, -0.1, 0.0, 0.1, 1e300, f64::INFINITY, f64::NAN]
                .map(Datum::Float)
                .into(),
            ["", "\0", "\0a", "a", "a\0", "a\0b", "aa", "b", "é"].map(Datum::text).into(),
            vec![Datum::Bool(false), Datum::Bool(true), Datum::Null],
        ];
        for ladder in ladders {
            for pair in ladder.windows(2) {
                assert!(Key::of(&pair[..1]) < Key::of(&pair[1..]), "{pair:?}");
                // A second column never disturbs the first.
                let (a, b) =
                    (Key::of(&[pair[0].clone(), Datum::Null]), Key::of(&[pair[1].clone(), Datum::Int(-9)]));
                assert!(a < b, "{pair:?}");
            }
        }
    }

    #[test]
    fn the_tail_of_an_entry_is_the_key_that_was_appended() {
        let values = [
            Datum::Null,
            Datum::Int(-70_000),
            Datum::Int(0),
            Datum::text("a\0\u{1}b"),
            Datum::text(""),
            Datum::Float(-0.5),
            Datum::Uuid([0; 16]),
            Datum::Bool(true),
            Datum::text("last"),
        ];
        for split in 0..=values.len() {
            assert_eq!(Key::of(&values).tail(split), Key::of(&values[split..]), "after {split}");
        }
    }

    #[test]
    fn a_prefix_covers_its_keys_and_no_others() {
        let range = KeyRange::prefix(Key::of(&[Datum::Int(3)]));
        assert!(range.contains(&Key::of(&[Datum::Int(3), Datum::Int(i64::MIN)])));
        assert!(range.contains(&Key::of(&[Datum::Int(3), Datum::Null])));
        assert!(!range.contains(&Key::of(&[Datum::Int(2), Datum::Null])));
        assert!(!range.contains(&Key::of(&[Datum::Int(4)])));
        assert!(KeyRange::all().overlaps(&range));
        let point = KeyRange::point(Key::of(&[Datum::Int(3)]));
        assert_eq!(point.as_point(), Some(&Key::of(&[Datum::Int(3)])));
        assert!(!point.contains(&Key::of(&[Datum::Int(3), Datum::Int(0)])));
    }
}
