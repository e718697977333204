//! Estimated number of different values (HyperLogLog, Flajolet et al. 2007): 256 registers, about
//! 6.5 % standard error; sketches of parts join into the sketch of the whole.

const REGISTERS: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Sketch(Box<[u8; REGISTERS]>);

impl Sketch {
    pub fn new() -> Sketch {
        Sketch(Box::new([0; REGISTERS]))
    }

    /// Counts a value in by its 64-bit hash.
    pub fn add(&mut self, hash: u64) {
        let register = &mut self.0[(hash >> 56) as usize];
        *register = (*register).max((hash << 8 | 0x80).leading_zeros() as u8 + 1);
    }

    pub fn join(&mut self, other: &Sketch) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(a, b)| *a = (*a).max(*b));
    }

    pub fn estimate(&self) -> usize {
        let count = REGISTERS as f64;
        let harmonic: f64 = self.0.iter().map(|r| (-f64::from(*r)).exp2()).sum();
        let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / harmonic;
        let empty = self.0.iter().filter(|r| **r == 0).count();
        // Few values leave registers empty, and the number of those says more.
        let estimate =
            if raw <= 2.5 * count && empty > 0 { count * (count / empty as f64).ln() } else { raw };
        estimate.round() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::mix;

    #[test]
    fn estimates_are_near_and_joins_do_not_count_twice() {
        for count in [0u64, 1, 10, 100, 1_000, 100_000] {
            let (mut a, mut b) = (Sketch::new(), Sketch::new());
            (0..count).for_each(|i| a.add(mix(i + 1)));
            (count / 2..count).for_each(|i| b.add(mix(i + 1)));
            a.join(&b);
            let error = a.estimate().abs_diff(count as usize);
            assert!(error as f64 <= 0.2 * count as f64, "{} for {count}", a.estimate());
        }
    }
}
