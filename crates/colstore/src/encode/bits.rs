//! Numbers of equal width packed into words. Hot.
//!
//! KEEPS: 64 numbers of W bits take exactly W words, so that every group of 64 starts at a word.

/// Unsigned numbers of `width` bits each.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    width: u32,
    words: Vec<u64>,
}

/// Numbers per group.
const GROUP: usize = 64;

impl Packed {
    /// Packs numbers that need no more than `width` bits.
    pub fn new(width: u32, count: usize, numbers: impl Iterator<Item = u64>) -> Packed {
        assert!(width <= 64);
        let mut words = vec![0u64; count.div_ceil(GROUP) * width as usize];
        for (i, number) in numbers.enumerate().take(if width == 0 { 0 } else { count }) {
            let bit = i * width as usize;
            let (word, shift) = (bit / 64, bit % 64);
            words[word] |= number << shift;
            if shift + width as usize > 64 {
                words[word + 1] |= number >> (64 - shift);
            }
        }
        Packed { width, words }
    }

    pub fn get(&self, i: usize) -> u64 {
        let width = self.width as usize;
        if width == 0 {
            return 0;
        }
        let (word, shift) = (i * width / 64, i * width % 64);
        let mut number = self.words[word] >> shift;
        if shift + width > 64 {
            number |= self.words[word + 1] << (64 - shift);
        }
        number & (u64::MAX >> (64 - width))
    }

    /// Numbers `start..start + count`; `start` is a multiple of 64.
    pub fn unpack(&self, start: usize, count: usize) -> Vec<u64> {
        assert!(start.is_multiple_of(GROUP), "scans start at a group");
        if self.width == 0 {
            return vec![0; count];
        }
        let groups = count.div_ceil(GROUP);
        let mut out = vec![0u64; groups * GROUP];
        let first = start / GROUP * self.width as usize;
        let words = &self.words[first..first + groups * self.width as usize];
        unpack_groups(self.width, words, &mut out);
        out.truncate(count);
        out
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }
}

/// Bits that a number needs.
pub(crate) fn width_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// One loop per width, with every shift a constant.
fn unpack_groups(width: u32, words: &[u64], out: &mut [u64]) {
    macro_rules! widths {
        ($($w:literal)*) => {
            match width {
                $($w => {
                    for (words, out) in words.chunks_exact($w).zip(out.chunks_exact_mut(GROUP)) {
                        unpack_group::<$w>(words.try_into().expect("exact"), out.try_into().expect("exact"));
                    }
                })*
                other => panic!("no number has {other} bits"),
            }
        };
    }
    widths!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);
}

fn unpack_group<const W: usize>(words: &[u64; W], out: &mut [u64; GROUP]) {
    let mask = u64::MAX >> (64 - W);
    for (i, out) in out.iter_mut().enumerate() {
        let (word, shift) = (i * W / 64, i * W % 64);
        let mut number = words[word] >> shift;
        if shift + W > 64 {
            number |= words[word + 1] << (64 - shift);
        }
        *out = number & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_gives_back_what_it_got() {
        for width in 0..=64u32 {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let numbers: Vec<u64> = (0..333).map(|i| crate::index::mix(i + 1) & mask).collect();
            let packed = Packed::new(width, numbers.len(), numbers.iter().copied());
            assert_eq!(packed.unpack(0, 333), numbers, "{width}");
            assert_eq!(packed.unpack(128, 100), numbers[128..228], "{width}");
            for (i, number) in numbers.iter().enumerate() {
                assert_eq!(packed.get(i), *number, "{width}");
            }
        }
    }
}
