//! Patches: the difference between a row and its earlier state, for a receiver that has the latter.
//!
//! KEEPS: a patch of two rows, applied to the first, is the second. A patch is shorter than its row.

use super::{Buffer, Row, Values, read_varint, write_varint};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Columns that changed, with their new values: how many columns were passed over, then a value, again and again.
#[derive(Clone, PartialEq, Eq)]
pub struct RowPatch(Arc<[u8]>);

impl Row {
    /// What makes this row of `before`; `None` if the rows have different numbers of columns, or so much
    /// changed that a patch would be no shorter.
    pub fn patch_from(&self, before: &Row) -> Option<RowPatch> {
        let mut out = Buffer::new();
        self.write_patch(before, &mut out).then(|| RowPatch(Arc::from(&out[..])))
    }

    /// Writes a patch's bytes; false if there is none.
    pub(crate) fn write_patch(&self, before: &Row, out: &mut Buffer) -> bool {
        let (mut old, mut new) = (before.values(), self.values());
        let mut passed = 0u128;
        loop {
            let (was, is) = (old.rest, new.rest);
            match (old.skip_one(), new.skip_one()) {
                (true, true) => {}
                (false, false) => break,
                _ => return false,
            }
            let (was, is) = (passed_over(was, &old), passed_over(is, &new));
            if was == is {
                passed += 1;
                continue;
            }
            write_varint(out, passed);
            out.extend_from_slice(is);
            passed = 0;
            if out.len() >= self.len() {
                return false;
            }
        }
        true
    }

    /// This row as the patch makes it; `None` if the patch was made for a longer row.
    pub fn patched(&self, patch: &RowPatch) -> Option<Row> {
        let mut out = Buffer::new();
        let mut old = self.values();
        let mut changes = Values { rest: &patch.0 };
        while !changes.rest.is_empty() {
            let kept = old.rest;
            for _ in 0..read_varint(&mut changes.rest)? {
                if !old.skip_one() {
                    return None;
                }
            }
            out.extend_from_slice(passed_over(kept, &old));
            let new = changes.rest;
            if !old.skip_one() || !changes.skip_one() {
                return None;
            }
            out.extend_from_slice(passed_over(new, &changes));
        }
        out.extend_from_slice(old.rest);
        Some(Row(Arc::from(&out[..])))
    }
}

/// The bytes between where an iterator was and where it is.
fn passed_over<'a>(was: &'a [u8], now: &Values<'_>) -> &'a [u8] {
    &was[..was.len() - now.rest.len()]
}

impl RowPatch {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Serialize for RowPatch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for RowPatch {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RowPatch, D::Error> {
        Row::deserialize(deserializer).map(|bytes| RowPatch(bytes.0))
    }
}

impl fmt::Debug for RowPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch of {} bytes", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datum;
    use crate::rng::Rng;

    #[test]
    fn a_patch_makes_the_later_row_of_the_earlier_one() {
        let mut rng = Rng::new(1);
        let value = |rng: &mut Rng| match rng.below(4) {
            0 => Datum::Null,
            1 => Datum::Int(rng.between(-1000, 1000)),
            2 => Datum::text("x".repeat(rng.below(300) as usize)),
            _ => Datum::Float(0.5),
        };
        let (mut patched, mut whole) = (0, 0);
        for _ in 0..2_000 {
            let before: Vec<Datum> = (0..rng.below(9)).map(|_| value(&mut rng)).collect();
            let mut after = before.clone();
            for column in &mut after {
                if rng.chance(0.3) {
                    *column = value(&mut rng);
                }
            }
            let (before, after) = (Row::of(&before), Row::of(&after));
            match after.patch_from(&before) {
                Some(patch) => {
                    assert_eq!(before.patched(&patch), Some(after.clone()));
                    assert!(patch.0.len() < after.len() || after.is_empty());
                    patched += 1;
                }
                None => whole += 1,
            }
        }
        assert!(patched > 1_000 && whole > 10, "{patched} patched, {whole} whole");
    }

    #[test]
    fn rows_with_other_columns_are_sent_whole_and_foreign_patches_refused() {
        let (short, long) =
            (Row::of(&[Datum::Int(1)]), Row::of(&[Datum::Int(1), Datum::Int(100), Datum::Null]));
        assert_eq!(long.patch_from(&short), None);
        assert_eq!(short.patch_from(&long), None);
        let other = Row::of(&[Datum::Int(1), Datum::Int(100), Datum::Int(7)]);
        let patch = other.patch_from(&long).expect("one of three columns");
        assert_eq!(short.patched(&patch), None);
        let bytes = crate::codec::encode(&patch);
        assert_eq!(crate::codec::decode::<RowPatch>(&bytes).unwrap(), patch);
    }
}
