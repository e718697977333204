//! Encoded texts and byte strings: packed numbers into a list where values repeat; else one after
//! the other, each letter packed to the bits that its column's alphabet needs.

use super::bits::{GROUP, LOOKUP_BITS_MAX, LookUp, Packed, width_of};
use super::ints::IntColumn;
use crate::index::hash_bytes;
use crate::values::bytes_to_arrow;
use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use base::DataType;

#[derive(Clone, Debug)]
pub(crate) enum TextColumn {
    /// `values[packed]`; `array` holds the values as Arrow wants them.
    Listed { values: Vec<Box<[u8]>>, array: ArrayRef, packed: Packed },
    /// Letters one after the other.
    Letters { lengths: IntColumn, starts: Vec<u32>, letters: Letters },
}

/// A run of bytes.
#[derive(Clone, Debug)]
pub(crate) enum Letters {
    Plain(Buffer),
    /// Pairs of indices into `alphabet`, the first in the lower `width` bits.
    Packed {
        alphabet: Vec<u8>,
        width: u32,
        pairs: Packed,
    },
}

/// Texts per entry of `starts`.
const STRIDE: usize = 64;
/// Letters are packed if the alphabet needs at most this many bits each.
const LETTER_BITS_MAX: u32 = LOOKUP_BITS_MAX / 2;

impl TextColumn {
    /// Encodes texts; `data_type` decides what they look like in Arrow.
    pub fn encode(data_type: DataType, texts: &[&[u8]]) -> TextColumn {
        TextColumn::listed(data_type, texts).unwrap_or_else(|| TextColumn::letters(texts))
    }

    fn listed(data_type: DataType, texts: &[&[u8]]) -> Option<TextColumn> {
        let most = texts.len() / 4 + 1;
        let mut slots = vec![0u32; (most + 1).next_power_of_two() * 2];
        let mask = slots.len() - 1;
        let mut list: Vec<&[u8]> = Vec::new();
        let mut codes = Vec::with_capacity(texts.len());
        for text in texts {
            let mut at = hash_bytes(text) as usize & mask;
            let code = loop {
                match slots[at] {
                    0 => {
                        list.push(text);
                        if list.len() > most {
                            return None;
                        }
                        slots[at] = list.len() as u32;
                        break list.len() - 1;
                    }
                    code if list[code as usize - 1] == *text => break code as usize - 1,
                    _ => at = (at + 1) & mask,
                }
            };
            codes.push(code as u64);
        }
        let total: usize = list.iter().map(|t| t.len()).sum();
        let mut offsets = vec![0i32];
        let mut data = Vec::with_capacity(total);
        for text in &list {
            data.extend_from_slice(text);
            offsets.push(data.len() as i32);
        }
        let array = bytes_to_arrow(data_type, offsets, Buffer::from_vec(data), None);
        let width = width_of(list.len().max(1) as u64 - 1);
        let packed = Packed::new(width, codes.len(), codes.into_iter());
        Some(TextColumn::Listed { values: list.into_iter().map(Box::from).collect(), array, packed })
    }

    fn letters(texts: &[&[u8]]) -> TextColumn {
        let lengths: Vec<i64> = texts.iter().map(|t| t.len() as i64).collect();
        let mut starts = Vec::with_capacity(texts.len().div_ceil(STRIDE) + 1);
        let mut total = 0usize;
        let mut used = [false; 256];
        for (i, text) in texts.iter().enumerate() {
            if i % STRIDE == 0 {
                starts.push(total as u32);
            }
            total += text.len();
            text.iter().for_each(|b| used[usize::from(*b)] = true);
        }
        assert!(u32::try_from(total).is_ok(), "a segment holds less than 4 GiB of text");
        starts.push(total as u32);
        let alphabet: Vec<u8> = (0..=255u8).filter(|b| used[usize::from(*b)]).collect();
        let width = width_of(alphabet.len().max(1) as u64 - 1);
        let bytes = texts.iter().flat_map(|t| t.iter().copied());
        let letters = if width <= LETTER_BITS_MAX {
            let mut code_of = [0u64; 256];
            alphabet.iter().enumerate().for_each(|(code, b)| code_of[usize::from(*b)] = code as u64);
            let codes = bytes.map(|b| code_of[usize::from(b)]);
            Letters::Packed { alphabet, width, pairs: Packed::new(width, total, codes).pairs() }
        } else {
            Letters::Plain(Buffer::from_vec(bytes.collect::<Vec<u8>>()))
        };
        TextColumn::Letters { lengths: IntColumn::encode(&lengths), starts, letters }
    }

    /// Appends the bytes of a row.
    pub fn read(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            TextColumn::Listed { values, packed, .. } => {
                out.extend_from_slice(&values[packed.get(row) as usize]);
            }
            TextColumn::Letters { lengths, starts, letters } => {
                letters.read(start_of(lengths, starts, row), lengths.get(row) as usize, out);
            }
        }
    }

    /// Whether a row's bytes are these.
    pub fn holds(&self, row: usize, bytes: &[u8]) -> bool {
        match self {
            TextColumn::Listed { values, packed, .. } => *values[packed.get(row) as usize] == *bytes,
            TextColumn::Letters { lengths, starts, letters } => {
                lengths.get(row) as usize == bytes.len() && letters.are(start_of(lengths, starts, row), bytes)
            }
        }
    }

    /// Rows `start..start + count` as the Arrow array of their type; `start` is a multiple of 64.
    pub fn to_arrow(
        &self,
        data_type: DataType,
        start: usize,
        count: usize,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        match self {
            TextColumn::Listed { array, packed, .. } => {
                let codes = packed.unpack(start, count, |code| code as u32);
                let codes = UInt32Array::new(codes.into(), nulls);
                arrow_select::take::take(array, &codes, None).expect("codes stay inside their list")
            }
            TextColumn::Letters { lengths, starts, letters } => {
                let mut offsets = Vec::with_capacity(count + 1);
                let mut end = 0i32;
                offsets.push(0);
                for length in lengths.decode(start, count, |length| length as i32) {
                    end += length;
                    offsets.push(end);
                }
                let data = letters.slice(starts[start / STRIDE] as usize, end as usize);
                bytes_to_arrow(data_type, offsets, data, nulls)
            }
        }
    }

    /// The rows from `start` on that `kept` has.
    pub fn some_to_arrow(
        &self,
        data_type: DataType,
        start: usize,
        kept: &BooleanBuffer,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        if let TextColumn::Listed { array, packed, .. } = self {
            let codes: Vec<u32> = kept.set_indices().map(|r| packed.get(start + r) as u32).collect();
            let codes = UInt32Array::new(codes.into(), nulls);
            return arrow_select::take::take(array, &codes, None).expect("codes stay inside their list");
        }
        let mut data = Vec::new();
        let mut offsets = vec![0];
        for row in kept.set_indices() {
            self.read(start + row, &mut data);
            offsets.push(data.len() as i32);
        }
        bytes_to_arrow(data_type, offsets, Buffer::from_vec(data), nulls)
    }

    pub fn bytes(&self) -> usize {
        match self {
            TextColumn::Listed { values, array, packed } => {
                let list: usize = values.iter().map(|v| v.len() + size_of::<Box<[u8]>>()).sum();
                list + array.get_buffer_memory_size() + packed.bytes()
            }
            TextColumn::Letters { lengths, starts, letters } => {
                lengths.bytes() + starts.len() * 4 + letters.bytes()
            }
        }
    }
}

/// Where a row's letters begin.
fn start_of(lengths: &IntColumn, starts: &[u32], row: usize) -> usize {
    let first = row / STRIDE * STRIDE;
    let before: i64 = match lengths.constant() {
        Some(length) => length * (row - first) as i64,
        None => (first..row).map(|r| lengths.get(r)).sum(),
    };
    starts[row / STRIDE] as usize + before as usize
}

impl Letters {
    /// Whether these bytes stand here.
    fn are(&self, start: usize, bytes: &[u8]) -> bool {
        match self {
            Letters::Plain(data) => data[start..start + bytes.len()] == *bytes,
            Letters::Packed { alphabet, width, pairs } => {
                let code = |i: usize| pairs.get(i / 2) >> (width * (i as u32 & 1)) & ((1 << width) - 1);
                bytes.iter().enumerate().all(|(i, b)| alphabet[code(start + i) as usize] == *b)
            }
        }
    }

    fn read(&self, start: usize, count: usize, out: &mut Vec<u8>) {
        match self {
            Letters::Plain(data) => out.extend_from_slice(&data[start..start + count]),
            Letters::Packed { alphabet, width, pairs } => {
                let code = |i: usize| pairs.get(i / 2) >> (width * (i as u32 & 1)) & ((1 << width) - 1);
                out.extend((start..start + count).map(|i| alphabet[code(i) as usize]));
            }
        }
    }

    fn slice(&self, start: usize, count: usize) -> Buffer {
        match self {
            Letters::Plain(data) => data.slice_with_length(start, count),
            Letters::Packed { alphabet, width, pairs } => {
                // Both letters of every pair of codes, so that one look-up gives two letters.
                let mut letters: LookUp = [[0; 2]; 1 << LOOKUP_BITS_MAX];
                for (second, b) in alphabet.iter().enumerate() {
                    for (first, a) in alphabet.iter().enumerate() {
                        letters[second << width | first] = [*a, *b];
                    }
                }
                // Groups of pairs start at multiples of 128 letters: unpack from the one before.
                let skip = start % (2 * GROUP);
                let found = pairs.look_up((start - skip) / 2, (skip + count).div_ceil(2), &letters);
                Buffer::from_vec(found.into_flattened()).slice_with_length(skip, count)
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Letters::Plain(data) => data.len(),
            Letters::Packed { alphabet, pairs, .. } => alphabet.len() + pairs.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::mix;
    use arrow_array::cast::AsArray;

    fn check(texts: &[String]) -> TextColumn {
        let bytes: Vec<&[u8]> = texts.iter().map(|t| t.as_bytes()).collect();
        let column = TextColumn::encode(DataType::Text, &bytes);
        for (row, text) in texts.iter().enumerate() {
            let mut out = Vec::new();
            column.read(row, &mut out);
            assert_eq!(out, text.as_bytes());
        }
        for start in (0..texts.len()).step_by(64) {
            let array = column.to_arrow(DataType::Text, start, texts.len() - start, None);
            let found: Vec<&str> = array.as_string_view().iter().map(|t| t.expect("no nulls")).collect();
            assert_eq!(found, texts[start..], "from {start}");
        }
        column
    }

    #[test]
    fn texts_survive_every_encoding() {
        assert!(matches!(check(&vec!["same".into(); 300]), TextColumn::Listed { .. }));
        check(&[]);
        let digits: Vec<String> = (0..300u64).map(|i| mix(i).to_string()).collect();
        let TextColumn::Letters { letters: Letters::Packed { .. }, .. } = check(&digits) else {
            panic!("ten letters are packed")
        };
        let wide: Vec<String> = (0..300u64).map(|i| format!("ü{}é{:?}", mix(i), "ab\0~")).collect();
        check(&wide);
        let all: String = (32..127u8).map(char::from).collect();
        let plain: Vec<String> = (0..300).map(|i| format!("{all}{i}")).collect();
        let TextColumn::Letters { letters: Letters::Plain(_), .. } = check(&plain) else {
            panic!("95 letters stay bytes")
        };
    }
}
