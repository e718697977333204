//! Random numbers are passed in as arguments: one seeded stream for each purpose.
//!
//! `fork("net")` depends only on the seed and the name, so that a new draw in one place leaves
//! every other stream alone.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A seeded stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    stream: ChaCha12Rng,
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng { seed, stream: ChaCha12Rng::seed_from_u64(seed) }
    }
    /// An independent stream for one purpose.
    pub fn fork(&self, purpose: &str) -> Rng {
        Rng::new(fnv1a(self.seed ^ 0x9e37_79b9_7f4a_7c15, purpose.as_bytes()))
    }
    /// An independent stream for the n-th of several alike.
    pub fn fork_nth(&self, purpose: &str, n: u64) -> Rng {
        Rng::new(fnv1a(fnv1a(self.seed ^ 0x9e37_79b9_7f4a_7c15, purpose.as_bytes()), &n.to_le_bytes()))
    }
    pub fn next_u64(&mut self) -> u64 {
        self.stream.next_u64()
    }
    /// Uniform in `0..bound`; `bound` > 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member");
        // Multiply-shift: the bias is below bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
    /// Uniform in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "{low}..={high} is empty");
        low + self.below((high - low) as u64 + 1) as i64
    }
    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
    /// A random permutation, in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

impl rand::RngCore for Rng {
    fn next_u32(&mut self) -> u32 {
        self.stream.next_u32()
    }
    fn next_u64(&mut self) -> u64 {
        self.stream.next_u64()
    }
    fn fill_bytes(&mut self, dest: &mut [u8]) {
        self.stream.fill_bytes(dest)
    }
}

/// FNV-1a, the 64-bit hash used wherever a hash must be the same on every machine and run.
pub fn fnv1a(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start ^ 0xcbf2_9ce4_8422_2325, |hash, &b| {
        (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
