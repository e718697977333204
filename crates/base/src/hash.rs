//! A hash map for point lookups in hot paths: the same on every machine and run, and never iterated.
//!
//! Iterating would bring the order of a hash into a history; so there is no way to.

use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Folded multiplication over 8-byte words, with a fixed start.
#[derive(Clone, Copy, Default)]
pub struct PointHasher(u64);

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const START: u64 = 0xA076_1D64_78BD_642F;

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for PointHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.write_u64(u64::from_le_bytes(chunk.try_into().expect("chunks of 8")));
        }
        let mut last = [0u8; 8];
        let rest = chunks.remainder();
        last[..rest.len()].copy_from_slice(rest);
        // The length keeps "a" and "a\0" apart.
        self.write_u64(u64::from_le_bytes(last));
        self.write_u64(bytes.len() as u64);
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word ^ START, FACTOR);
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }
    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }
    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
    fn finish(&self) -> u64 {
        fold(self.0, START)
    }
}

/// A value's hash, the same on every machine and run.
pub fn digest<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = PointHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A map that can be asked for one key at a time.
#[derive(Clone, Debug)]
#[allow(clippy::disallowed_types)]
pub struct PointMap<K, V>(std::collections::HashMap<K, V, BuildHasherDefault<PointHasher>>);

impl<K, V> Default for PointMap<K, V> {
    fn default() -> Self {
        PointMap(Default::default())
    }
}

impl<K: Eq + Hash, V> PointMap<K, V> {
    /// Empty, with room for so many.
    pub fn with_capacity(count: usize) -> PointMap<K, V> {
        #[allow(clippy::disallowed_types)]
        let map = std::collections::HashMap::with_capacity_and_hasher(count, Default::default());
        PointMap(map)
    }
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }
    /// The value, made first if it is not there.
    pub fn or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.0.entry(key).or_insert_with(make)
    }
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        self.0.entry(key)
    }
    /// Keeps what `keep` says. The order of the calls means nothing and must not matter.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut V) -> bool) {
        self.0.retain(|_, value| keep(value));
    }
    /// Everything, in the order of keys.
    pub fn sorted(&self) -> Vec<(&K, &V)>
    where
        K: Ord,
    {
        let mut all: Vec<(&K, &V)> = self.0.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_neighbours_hash_apart() {
        let digests: std::collections::BTreeSet<u64> =
            (0u64..100_000).map(|i| digest(&(i % 10, i / 10))).collect();
        assert_eq!(digests.len(), 100_000);
        assert_ne!(digest(&b"a"[..]), digest(&b"a\0"[..]));
    }

    #[test]
    fn a_value_goes_and_comes_back() {
        let mut map = PointMap::default();
        assert_eq!(map.insert(1u32, "one"), None);
        *map.or_insert_with(2, || "two") = "zwei";
        assert_eq!((map.get(&1), map.get(&2), map.len()), (Some(&"one"), Some(&"zwei"), 2));
        assert_eq!(map.remove(&1), Some("one"));
        assert!(!map.contains(&1));
    }
}
