//! Which transactions were here and are gone: an exact set in a bit per transaction.
//!
//! KEEPS: everything below a coordinator's floor is gone everywhere; above it, a bit says so.

use base::{NodeId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Transactions whose vertices were dropped.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    lives: BTreeMap<(NodeId, u32), Life>,
}

/// One incarnation of one coordinator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Life {
    /// Sequence of the first bit; everything below it is gone. A multiple of 64.
    base: u64,
    /// The exact floor, at least `base`.
    floor: u64,
    bits: VecDeque<u64>,
}

impl Seen {
    pub fn insert(&mut self, txn: TxnId) {
        let life = self.lives.entry((txn.coordinator, txn.incarnation)).or_default();
        if txn.sequence < life.floor {
            return;
        }
        let word = ((txn.sequence - life.base) / 64) as usize;
        if word >= life.bits.len() {
            life.bits.resize(word + 1, 0);
        }
        life.bits[word] |= 1 << (txn.sequence % 64);
    }
    pub fn contains(&self, txn: TxnId) -> bool {
        let Some(life) = self.lives.get(&(txn.coordinator, txn.incarnation)) else { return false };
        if txn.sequence < life.floor {
            return true;
        }
        let word = ((txn.sequence - life.base) / 64) as usize;
        life.bits.get(word).is_some_and(|bits| bits >> (txn.sequence % 64) & 1 == 1)
    }
    /// Every transaction of this life below `floor` is gone, here and everywhere.
    pub fn raise_floor(&mut self, coordinator: NodeId, incarnation: u32, floor: u64) {
        let life = self.lives.entry((coordinator, incarnation)).or_default();
        life.floor = life.floor.max(floor);
        while life.base + 64 <= life.floor {
            life.base += 64;
            if life.bits.pop_front().is_none() {
                life.base = life.floor / 64 * 64;
            }
        }
    }
    /// 64-bit words held, for memory checks.
    pub fn words(&self) -> usize {
        self.lives.values().map(|life| life.bits.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_stays_seen_and_the_floor_frees_memory() {
        let txn = |sequence| TxnId { coordinator: NodeId(3), incarnation: 1, sequence };
        let mut seen = Seen::default();
        for sequence in (1..1000).step_by(3) {
            seen.insert(txn(sequence));
        }
        assert!(seen.contains(txn(4)) && !seen.contains(txn(5)) && !seen.contains(txn(5000)));
        assert_eq!(seen.words(), 16);
        seen.raise_floor(NodeId(3), 1, 501);
        assert!(seen.contains(txn(5)) && seen.contains(txn(500)) && !seen.contains(txn(501)));
        assert!(seen.contains(txn(502)) && !seen.contains(txn(503)));
        assert_eq!(seen.words(), 9);
        seen.raise_floor(NodeId(3), 1, 100_000);
        assert_eq!(seen.words(), 0);
        seen.insert(txn(100_001));
        assert!(seen.contains(txn(100_001)) && !seen.contains(txn(100_000)) && seen.contains(txn(99_999)));
    }
}
