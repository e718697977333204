//! Granules: intervals of ordered keys, such that whoever writes into a range and whoever reads the range name one of
//! them alike.
//!
//! IN: keys that are written, ranges that are read, of a table or an index. OUT: hashes of granules. KEEPS: every key in a
//! range has a granule among those of the range (an insert into a range that is read is no exception), or the range is
//! too wide for granules and is watched by its table.
//!
//! Keys are taken apart by their own encoding ([`base::key`]), so that writer and reader need not agree on a schema. A key
//! lies in two granules for each of its values: *prefix*, all keys with the same values up to this one, and *bucket*, all
//! keys with the same values before this one and a whole number here of the same 256. So a point is one granule (its
//! longest prefix), all orders of a district are one granule, and a hundred neighbouring numbers are one or two buckets.

use base::key::KeyRange;
use base::{Key, TableId};
use smallvec::SmallVec;
use std::ops::Range;

/// A range that spans more buckets is watched by the prefix that holds it, or by its table.
pub const BUCKETS_MAX: u64 = 32;

/// Hash of a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GranuleHash(pub u64);

/// Who watches a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    Granules(SmallVec<[GranuleHash; 4]>),
    Table,
}

const NULL: u8 = 0xFF;
const BYTES: u8 = 0x02;
const FLOAT: u8 = 0x04;
const UUID: u8 = 0x05;
const ZERO: u8 = 0x80;

/// A value's length in bytes; none for what is no value: ranges end in bytes that no key begins with.
fn length(bytes: &[u8]) -> Option<usize> {
    let length = match *bytes.first()? {
        NULL => 1,
        BYTES => 1 + bytes[1..].windows(2).position(|w| w == [0, 1])? + 2,
        FLOAT => 9,
        UUID => 17,
        tag if tag.abs_diff(ZERO) <= 16 => 1 + usize::from(tag.abs_diff(ZERO)),
        _ => return None,
    };
    (length <= bytes.len()).then_some(length)
}

/// Where each value of a key lies.
fn values(bytes: &[u8]) -> SmallVec<[Range<usize>; 6]> {
    let (mut values, mut at) = (SmallVec::new(), 0);
    while let Some(length) = length(&bytes[at..]) {
        values.push(at..at + length);
        at += length;
    }
    values
}

/// A whole number that is not negative, and small enough to count buckets with.
fn number(value: &[u8]) -> Option<u64> {
    let magnitude = value.get(1..).filter(|m| m.len() <= 8 && value[0] == ZERO + m.len() as u8)?;
    Some(magnitude.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn is_number(value: &[u8]) -> bool {
    value[0].abs_diff(ZERO) <= 16
}

fn hash(object: TableId, is_bucket: bool, bytes: &[u8], length: usize) -> GranuleHash {
    GranuleHash(base::hash::digest(&(object.0, is_bucket, bytes, length)))
}

fn prefix(object: TableId, bytes: &[u8]) -> GranuleHash {
    hash(object, false, bytes, 0)
}

/// The bucket of the number that ends `bytes` and begins at `from`: the length of a number tells 1 from 256.
fn bucket(object: TableId, bytes: &[u8], from: usize) -> GranuleHash {
    let last = if bytes.len() - from > 1 { bytes.len() - 1 } else { bytes.len() };
    hash(object, true, &bytes[..last], bytes.len() - from)
}

/// The granules of a key of a table or an index.
pub fn of_key(object: TableId, key: &Key, visit: &mut dyn FnMut(GranuleHash)) {
    let bytes = key.as_bytes();
    for value in values(bytes) {
        visit(prefix(object, &bytes[..value.end]));
        if is_number(&bytes[value.clone()]) {
            visit(bucket(object, &bytes[..value.end], value.start));
        }
    }
}

/// The granule that watches a key alone; none if it is not made of whole values.
pub fn of_point(object: TableId, key: &Key) -> Option<GranuleHash> {
    let bytes = key.as_bytes();
    let is_whole = values(bytes).last().is_some_and(|last| last.end == bytes.len());
    is_whole.then(|| prefix(object, bytes))
}

/// The granules that watch a range of a table or an index.
pub fn of_range(object: TableId, range: &KeyRange) -> Watched {
    if range.is_empty() {
        return Watched::Granules(SmallVec::new());
    }
    let Some(high) = &range.high else { return Watched::Table };
    let (low, high) = (range.low.as_bytes(), high.as_bytes());
    let of_low = values(low);
    // The longest prefix of values that all keys of the range have.
    let holds =
        |end: usize| Key::from_bytes(&low[..end]).prefix_end().is_none_or(|end| high <= end.as_bytes());
    let held = of_low.iter().rposition(|value| holds(value.end));
    let next = held.map_or(0, |held| held + 1);
    let from = held.map_or(0, |held| of_low[held].end);
    let buckets = || {
        let first = of_low.get(next)?;
        let last = from..from + length(high.get(from..).filter(|_| high.starts_with(&low[..from]))?)?;
        let (first, last) = (number(&low[first.clone()])? >> 8, number(&high[last])? >> 8);
        (last - first < BUCKETS_MAX).then_some(first..=last)
    };
    if let Some(buckets) = buckets() {
        let mut watched = SmallVec::new();
        for nth in buckets {
            // Zero has a length of its own.
            for number in if nth == 0 { vec![0, 1] } else { vec![nth << 8] } {
                let mut key = Key::from_bytes(&low[..from]);
                key.push_int(i128::from(number));
                watched.push(bucket(object, key.as_bytes(), from));
            }
        }
        return Watched::Granules(watched);
    }
    match held {
        Some(held) => Watched::Granules(SmallVec::from_slice(&[prefix(object, &low[..of_low[held].end])])),
        None => Watched::Table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Datum;
    use std::collections::BTreeSet;

    const T: TableId = TableId(7);

    fn all_of(key: &Key) -> BTreeSet<GranuleHash> {
        let mut all = BTreeSet::new();
        of_key(T, key, &mut |granule| _ = all.insert(granule));
        all
    }

    /// Single values at the borders of lengths and buckets, and pairs of some of them.
    fn keys() -> Vec<Key> {
        let numbers =
            [-70_000, -256, -1, 0, 1, 2, 255, 256, 257, 511, 512, 8_000, 9_000, 65_535, 65_536, 70_000];
        let mut data: Vec<Datum> = numbers.into_iter().map(Datum::Int).collect();
        data.extend([Datum::text(""), Datum::text("a"), Datum::text("a\0"), Datum::text("ab"), Datum::Null]);
        data.push(Datum::Float(0.5));
        let mut keys: Vec<Key> = data.iter().map(|d| Key::of(std::slice::from_ref(d))).collect();
        for first in [Datum::Int(1), Datum::Int(255), Datum::text("a")] {
            keys.extend(data.iter().map(|second| Key::of(&[first.clone(), second.clone()])));
        }
        keys.sort();
        keys
    }

    #[test]
    fn every_key_of_a_range_is_watched_with_it() {
        let keys = keys();
        let mut bounds: Vec<Key> = keys.clone();
        bounds.extend(keys.iter().map(Key::successor));
        bounds.extend(keys.iter().filter_map(Key::prefix_end));
        bounds.push(Key::new());
        let (mut by_granules, mut by_table) = (0, 0);
        for low in &bounds {
            for high in bounds.iter().map(Some).chain([None]) {
                let range = KeyRange { low: low.clone(), high: high.cloned() };
                if let Some(point) = range.as_point().and_then(|key| of_point(T, key)) {
                    assert!(all_of(low).contains(&point), "{low:?}");
                }
                match of_range(T, &range) {
                    Watched::Table => by_table += 1,
                    Watched::Granules(watched) => {
                        for key in keys.iter().filter(|key| range.contains(key)) {
                            by_granules += 1;
                            let own = all_of(key);
                            assert!(watched.iter().any(|g| own.contains(g)), "{key:?} in {range:?}");
                        }
                    }
                }
            }
        }
        assert!(by_granules > 10_000 && by_table > 1_000, "{by_granules} and {by_table}");
    }

    #[test]
    fn what_is_read_by_key_by_prefix_or_by_neighbours_is_watched_closely() {
        let watched = |range: KeyRange| match of_range(T, &range) {
            Watched::Granules(granules) => granules.into_iter().collect::<BTreeSet<_>>(),
            Watched::Table => panic!("{range:?} is watched by its table"),
        };
        let ints = |ints: &[i64]| Key::of(&ints.iter().map(|i| Datum::Int(*i)).collect::<Vec<_>>());
        let meets = |watched: &BTreeSet<GranuleHash>, key: &Key| !watched.is_disjoint(&all_of(key));
        let point = watched(KeyRange::point(ints(&[3, 4, 5])));
        assert!(meets(&point, &ints(&[3, 4, 5])) && !meets(&point, &ints(&[3, 4, 6])));
        let district = watched(KeyRange::prefix(ints(&[3, 4])));
        assert!(meets(&district, &ints(&[3, 4, 999])) && !meets(&district, &ints(&[3, 5, 999])));
        let hundred = watched(KeyRange { low: ints(&[1_000]), high: Some(ints(&[1_100])) });
        assert!(hundred.len() <= 2 && meets(&hundred, &ints(&[1_050])) && !meets(&hundred, &ints(&[2_000])));
        let within = watched(KeyRange { low: ints(&[3, 4, 10]), high: Some(ints(&[3, 4, 30])) });
        assert!(meets(&within, &ints(&[3, 4, 20, 1])) && !meets(&within, &ints(&[3, 4, 700, 1])));
        assert_eq!(of_range(T, &KeyRange { low: ints(&[1]), high: Some(ints(&[1 << 20])) }), Watched::Table);
    }
}
