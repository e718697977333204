//! A word of the mapping: the few atomic operations that the ring needs, over the standard library's type or over that of
//! a model checker.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// 64 bits that several processes read and one writes.
pub trait Word: Send + Sync {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn fence(order: Ordering);
}

impl Word for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
    fn fence(order: Ordering) {
        fence(order);
    }
}
