//! The delta's key index: key → newest version, as a table of 8-byte slots.
//!
//! KEEPS: per key at most one slot. Slots of versions that left the delta are passed over, and dropped
//! when the table grows. Nothing ever walks it, so its order shows nowhere.

use base::Key;

/// Hash of a key's bytes.
pub(crate) fn hash_key(key: &Key) -> u64 {
    hash_bytes(key.as_bytes())
}

/// Hash of bytes, the same on every machine, eight at a time; all of its bits are good.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut words = bytes.chunks_exact(8);
    let mut hash = bytes.len() as u64;
    for word in &mut words {
        hash = step(hash, u64::from_le_bytes(word.try_into().expect("eight bytes")));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    mix(step(hash, u64::from_le_bytes(last)))
}

/// Spreads the bits of a number over all 64.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// Slots hold version id + 1 in the low bits and a piece of the hash above; 0 is free.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyIndex {
    slots: Vec<u64>,
    used: usize,
}

const ID_BITS: u32 = 44;
const ID_MASK: u64 = (1 << ID_BITS) - 1;
const SLOTS_MIN: usize = 16;

impl KeyIndex {
    /// The version that `is_match` accepts among those with this hash.
    pub fn find(&self, hash: u64, is_match: impl Fn(u64) -> bool) -> Option<u64> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            let id = (self.slots[at] & ID_MASK) - 1;
            if self.slots[at] & !ID_MASK == hash & !ID_MASK && is_match(id) {
                return Some(id);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Points the key's slot at version `id`; answers the version it pointed at. `is_match` says whether a version has the same key,
    /// `is_live` whether it is still in the delta, `hash_of` its hash.
    pub fn set(
        &mut self,
        hash: u64,
        id: u64,
        is_match: impl Fn(u64) -> bool,
        is_live: impl Fn(u64) -> bool,
        hash_of: impl Fn(u64) -> u64,
    ) -> Option<u64> {
        assert!(id < ID_MASK, "a delta numbers fewer than 2^44 versions");
        if (self.used + 1) * 2 > self.slots.len() {
            self.rebuild(is_live, hash_of);
        }
        let mask = self.slots.len() - 1;
        let slot = (hash & !ID_MASK) | (id + 1);
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            let other = (self.slots[at] & ID_MASK) - 1;
            if self.slots[at] & !ID_MASK == hash & !ID_MASK && is_match(other) {
                self.slots[at] = slot;
                return Some(other);
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
        self.used += 1;
        None
    }

    /// Keeps the live slots alone, in a table of the right size.
    fn rebuild(&mut self, is_live: impl Fn(u64) -> bool, hash_of: impl Fn(u64) -> u64) {
        let ids: Vec<u64> = self
            .slots
            .iter()
            .filter(|s| **s != 0)
            .map(|s| (s & ID_MASK) - 1)
            .filter(|id| is_live(*id))
            .collect();
        let size = ((ids.len() + 1) * 4).next_power_of_two().max(SLOTS_MIN);
        self.slots = vec![0; size];
        self.used = ids.len();
        for id in ids {
            let hash = hash_of(id);
            let mut at = hash as usize & (size - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = (hash & !ID_MASK) | (id + 1);
        }
    }

    /// Gives memory back once most slots are stale.
    pub fn shrink(&mut self, live: usize, is_live: impl Fn(u64) -> bool, hash_of: impl Fn(u64) -> u64) {
        if self.slots.len() > (live + SLOTS_MIN) * 16 {
            self.rebuild(is_live, hash_of);
        }
    }

    pub fn bytes(&self) -> usize {
        self.slots.len() * 8
    }
}
