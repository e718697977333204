//! Encoded integers: offsets from the smallest, packed to the bits they need; or, where fewer
//! different values occur than their range suggests, packed numbers into a list of them.

use super::bits::{Packed, width_of};
use crate::index::mix;

#[derive(Clone, Debug)]
pub(crate) enum IntColumn {
    /// `base` + packed offset.
    Offsets { base: i64, packed: Packed },
    /// `values[packed]`.
    Listed { values: Vec<i64>, packed: Packed },
}

/// A list pays off only if it saves bits beyond this width.
const LISTED_WIDTH_MIN: u32 = 12;

impl IntColumn {
    pub fn encode(values: &[i64]) -> IntColumn {
        let (min, max) = values.iter().fold((i64::MAX, i64::MIN), |(min, max), v| (min.min(*v), max.max(*v)));
        if values.is_empty() {
            return IntColumn::Offsets { base: 0, packed: Packed::new(0, 0, std::iter::empty()) };
        }
        let width = width_of(max.wrapping_sub(min) as u64);
        if width >= LISTED_WIDTH_MIN
            && let Some(listed) = IntColumn::listed(values, width)
        {
            return listed;
        }
        let offsets = values.iter().map(|v| v.wrapping_sub(min) as u64);
        IntColumn::Offsets { base: min, packed: Packed::new(width, values.len(), offsets) }
    }

    /// As a list, if that saves at least an eighth.
    fn listed(values: &[i64], width: u32) -> Option<IntColumn> {
        let plain_bits = values.len() * width as usize;
        // With d different values: d × 64 + n × log2(d) bits.
        let most = plain_bits / 128;
        let mut slots = vec![0u32; (most + 1).next_power_of_two() * 2];
        let mut list: Vec<i64> = Vec::new();
        let mut codes = Vec::with_capacity(values.len());
        let mask = slots.len() - 1;
        for value in values {
            let mut at = mix(*value as u64) as usize & mask;
            let code = loop {
                match slots[at] {
                    0 => {
                        list.push(*value);
                        if list.len() > most {
                            return None;
                        }
                        slots[at] = list.len() as u32;
                        break list.len() - 1;
                    }
                    code if list[code as usize - 1] == *value => break code as usize - 1,
                    _ => at = (at + 1) & mask,
                }
            };
            codes.push(code as u64);
        }
        let code_width = width_of(list.len() as u64 - 1);
        let listed_bits = list.len() * 64 + values.len() * code_width as usize;
        if listed_bits > plain_bits / 8 * 7 {
            return None;
        }
        list.shrink_to_fit();
        let packed = Packed::new(code_width, codes.len(), codes.into_iter());
        Some(IntColumn::Listed { values: list, packed })
    }

    pub fn get(&self, row: usize) -> i64 {
        match self {
            IntColumn::Offsets { base, packed } => base.wrapping_add(packed.get(row) as i64),
            IntColumn::Listed { values, packed } => values[packed.get(row) as usize],
        }
    }

    /// The one value of all rows, if that is plain to see.
    pub fn constant(&self) -> Option<i64> {
        match self {
            IntColumn::Offsets { base, packed } => packed.is_zero().then_some(*base),
            IntColumn::Listed { .. } => None,
        }
    }

    /// Values `start..start + count` as `map` makes of them; `start` is a multiple of 64.
    pub fn decode<T: Copy>(&self, start: usize, count: usize, map: impl Fn(i64) -> T) -> Vec<T> {
        match self {
            IntColumn::Offsets { base, packed } => {
                packed.unpack(start, count, |v| map(base.wrapping_add(v as i64)))
            }
            IntColumn::Listed { values, packed } => {
                packed.unpack(start, count, |code| map(values[code as usize]))
            }
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            IntColumn::Offsets { packed, .. } => packed.bytes() + 8,
            IntColumn::Listed { values, packed } => packed.bytes() + values.len() * 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_give_back_what_they_got() {
        let columns: [Vec<i64>; 6] = [
            vec![],
            vec![7; 200],
            vec![i64::MIN, i64::MAX, 0, -1],
            (0..1000).map(|i| i - 500).collect(),
            (0..5000).map(|i| (i / 500) * 1_000_000_007).collect(),
            (0..1000).map(|i| mix(i as u64) as i64).collect(),
        ];
        for values in columns {
            let encoded = IntColumn::encode(&values);
            assert_eq!(encoded.decode(0, values.len(), |v| v), values);
            assert!((0..values.len()).all(|i| encoded.get(i) == values[i]));
            if values.len() > 128 {
                assert_eq!(encoded.decode(128, values.len() - 128, |v| v), values[128..]);
            }
        }
    }

    #[test]
    fn few_different_values_are_listed() {
        let values: Vec<i64> = (0..5000).map(|i| (i / 500) * 1_000_000_007).collect();
        let encoded = IntColumn::encode(&values);
        assert!(matches!(encoded, IntColumn::Listed { .. }));
        assert!(encoded.bytes() < 5000);
    }
}
