//! The memory that queries of a gateway share.
//!
//! KEEPS: reservations together stay within the limit; large ones leave an eighth of it to small ones, so that queries
//! that take all they can get do not refuse the little that others need.

use datafusion::common::{Result, human_readable_size};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A reservation is small up to here, and up to a 64th of the limit.
const SMALL_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct SharedPool {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
}

impl SharedPool {
    pub(crate) fn new(limit_bytes: usize) -> SharedPool {
        SharedPool { limit_bytes, used_bytes: AtomicUsize::new(0) }
    }

    /// What all reservations may take for one of this size to grow.
    fn limit_for(&self, reservation_bytes: usize) -> usize {
        let is_small = reservation_bytes <= SMALL_BYTES_MAX.min(self.limit_bytes / 64);
        if is_small { self.limit_bytes } else { self.limit_bytes - self.limit_bytes / 8 }
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &str {
        "shared"
    }
    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.used_bytes.fetch_add(additional, Relaxed);
    }
    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.used_bytes.fetch_sub(shrink, Relaxed);
    }
    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let limit = self.limit_for(reservation.size().saturating_add(additional));
        let grown = |used: usize| used.checked_add(additional).filter(|grown| *grown <= limit);
        self.used_bytes.fetch_update(Relaxed, Relaxed, grown).map(|_| ()).map_err(|used| {
            DataFusionError::ResourcesExhausted(format!(
                "Failed to allocate additional {} for {} with {} already allocated for this reservation - {} \
                 remain available",
                human_readable_size(additional),
                reservation.consumer().name(),
                human_readable_size(reservation.size()),
                human_readable_size(limit.saturating_sub(used)),
            ))
        })
    }
    fn reserved(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }
    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit_bytes)
    }
}

impl std::fmt::Display for SharedPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", self.reserved(), self.limit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::MemoryConsumer;
    use std::sync::Arc;

    #[test]
    fn what_is_large_leaves_room_for_what_is_small() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(64 << 20));
        let large = MemoryConsumer::new("large").register(&pool);
        assert!(large.try_grow(57 << 20).is_err());
        large.try_grow(56 << 20).unwrap();
        assert!(large.try_grow(1).is_err());
        let small = MemoryConsumer::new("small").register(&pool);
        small.try_grow(1 << 20).unwrap();
        assert!(small.try_grow(1).is_err(), "it is not small any more");
        let others: Vec<_> = (0..7).map(|_| MemoryConsumer::new("other").register(&pool)).collect();
        others.iter().for_each(|other| other.try_grow(1 << 20).unwrap());
        assert!(MemoryConsumer::new("last").register(&pool).try_grow(1).is_err(), "the limit stands");
        drop(others);
        drop(large);
        small.try_grow(50 << 20).unwrap();
        assert_eq!(pool.reserved(), 51 << 20);
    }
}
