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
pub(crate) const GROUP: usize = 64;

impl Packed {
    /// Packs numbers that need no more than `width` bits.
    pub fn new(width: u32, count: usize, numbers: impl Iterator<Item = u64>) -> Packed {
        assert!(width <= 64);
        if width == 0 {
            return Packed { width, words: Vec::new() };
        }
        // Full groups of the double width too, see `pairs`.
        let mut words = Vec::with_capacity(count.div_ceil(2 * GROUP) * 2 * width as usize);
        let (mut word, mut used) = (0u64, 0);
        for number in numbers {
            word |= number << used;
            used += width;
            if used >= 64 {
                words.push(word);
                used -= 64;
                word = if used == 0 { 0 } else { number >> (width - used) };
            }
        }
        if used > 0 {
            words.push(word);
        }
        words.resize(words.capacity().max(words.len()), 0);
        Packed { width, words }
    }

    /// The same bits as numbers of twice the width: two neighbours in one. Up to 32 bits.
    pub fn pairs(self) -> Packed {
        assert!(self.width <= 32);
        Packed { width: self.width * 2, words: self.words }
    }

    /// Whether all numbers are 0, as far as the width tells.
    pub fn is_zero(&self) -> bool {
        self.width == 0
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

    /// Numbers `start..start + count` as `map` makes of them; `start` is a multiple of 64.
    pub fn unpack<T: Copy>(&self, start: usize, count: usize, map: impl Fn(u64) -> T) -> Vec<T> {
        assert!(start.is_multiple_of(GROUP), "scans start at a group");
        if self.width == 0 {
            return vec![map(0); count];
        }
        let width = self.width as usize;
        let unpack = unpacker(self.width);
        let mut out = Vec::with_capacity(count);
        let mut group = [0u64; GROUP];
        for words in self.words[start / GROUP * width..].chunks(width).take(count.div_ceil(GROUP)) {
            unpack(words, &mut group);
            let wanted = GROUP.min(count - out.len());
            out.extend(group[..wanted].iter().map(|n| map(*n)));
        }
        out
    }

    /// Like [`Packed::unpack`] with a look-up of at most [`LOOKUP_BITS_MAX`] bits, in one pass.
    pub fn look_up(&self, start: usize, count: usize, table: &LookUp) -> Vec<[u8; 2]> {
        assert!(start.is_multiple_of(GROUP), "scans start at a group");
        let width = self.width as usize;
        let look_up = match self.width {
            0 => return vec![table[0]; count],
            2 => look_up_group::<2>,
            4 => look_up_group::<4>,
            6 => look_up_group::<6>,
            8 => look_up_group::<8>,
            10 => look_up_group::<10>,
            12 => look_up_group::<12>,
            other => panic!("pairs of letters have an even number of bits, not {other}"),
        };
        let groups = count.div_ceil(GROUP);
        let mut out = vec![[0; 2]; groups * GROUP];
        let words = &self.words[start / GROUP * width..][..groups * width];
        for (words, out) in words.chunks_exact(width).zip(out.as_chunks_mut().0) {
            look_up(words, table, out);
        }
        out.truncate(count);
        out
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }
}

pub(crate) const LOOKUP_BITS_MAX: u32 = 12;
/// What each number stands for.
pub(crate) type LookUp = [[u8; 2]; 1 << LOOKUP_BITS_MAX];

/// Bits that a number needs.
pub(crate) fn width_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// The loop over a group, spelled out: the compiler would not unroll it, and only with `i` a literal is
/// every shift a constant.
macro_rules! each_of_group {
    ($i:ident => $step:expr) => {
        each_of_group!($i => $step; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27
            28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59
            60 61 62 63)
    };
    ($i:ident => $step:expr; $($n:literal)*) => {
        $({
            const $i: usize = $n;
            $step;
        })*
    };
}

/// The loop for one width.
fn unpacker(width: u32) -> fn(&[u64], &mut [u64; GROUP]) {
    macro_rules! widths {
        ($($w:literal)*) => {
            match width {
                $($w => unpack_group::<$w>,)*
                other => panic!("no number has {other} bits"),
            }
        };
    }
    widths!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64)
}

fn unpack_group<const W: usize>(words: &[u64], out: &mut [u64; GROUP]) {
    let words: &[u64; W] = words.try_into().expect("a group has as many words as a number has bits");
    each_of_group!(I => out[I] = number(words, I));
}

fn look_up_group<const W: usize>(words: &[u64], table: &LookUp, out: &mut [[u8; 2]; GROUP]) {
    let words: &[u64; W] = words.try_into().expect("a group has as many words as a number has bits");
    each_of_group!(I => out[I] = table[number(words, I) as usize & ((1 << LOOKUP_BITS_MAX) - 1)]);
}

#[inline(always)]
fn number<const W: usize>(words: &[u64; W], i: usize) -> u64 {
    let (word, shift) = (i * W / 64, i * W % 64);
    let mut number = words[word] >> shift;
    if shift + W > 64 {
        number |= words[word + 1] << (64 - shift);
    }
    number & (u64::MAX >> (64 - W))
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
            assert_eq!(packed.unpack(0, 333, |n| n), numbers, "{width}");
            assert_eq!(packed.unpack(128, 100, |n| n), numbers[128..228], "{width}");
            for (i, number) in numbers.iter().enumerate() {
                assert_eq!(packed.get(i), *number, "{width}");
            }
            if 0 < width && width <= 32 {
                let pairs = packed.pairs().unpack(64, 102, |n| (n & mask, n >> width));
                let expected: Vec<_> = numbers[128..332].chunks(2).map(|p| (p[0], p[1])).collect();
                assert_eq!(pairs, expected, "{width}");
            }
        }
    }
}
