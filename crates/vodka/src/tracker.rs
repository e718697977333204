//! What the client remembers while it runs: samples of dates, sizes of tables, versions of rows, last writes.
//!
//! KEEPS: everything is told after the commit was acknowledged, with the client's clock at that moment; a transaction
//! that was rolled back leaves no trace.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use workload::vodka::cardinality::Sizes;
use workload::vodka::marks::{MarkReading, Marks, Terminal};
use workload::vodka::queries::{DateColumn, Window, parameter};
use workload::vodka::reservoir::Reservoir;
use workload::vodka::sync::{LastWrites, Write};
use workload::vodka::versions::{Columns, RowKey, VersionStore};

/// A version that a transaction wrote.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub key: RowKey,
    pub version: u32,
    pub changed: Columns,
    /// The row's `write_ts`, of tables that have one.
    pub written_us: Option<i64>,
}

/// The number that a transaction gave its terminal in `vodka_freshness`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    pub terminal: Terminal,
    pub number: i64,
}

/// What one transaction did, to be told if it commits.
#[derive(Clone, Default, Debug)]
pub struct Deeds {
    pub writes: Vec<Written>,
    pub dates: Vec<(DateColumn, i64)>,
    pub orders: u64,
    pub lines: u64,
    pub delivered_orders: u64,
    pub delivered_lines: u64,
    pub received_lines: u64,
    pub history: u64,
    /// District and order.
    pub received: Vec<(i32, i32)>,
    /// `None` if it only read, or terminals are not counted.
    pub mark: Option<Mark>,
}

pub struct Tracker {
    versions: Mutex<VersionStore>,
    samples: BTreeMap<DateColumn, Mutex<Reservoir>>,
    last: Mutex<LastWrites>,
    marks: Mutex<Marks>,
    sizes: Mutex<Sizes>,
    /// Sizes are always counted; everything else can be left out, to see what it costs.
    tracks: AtomicBool,
}

impl Tracker {
    pub fn new(samples: BTreeMap<DateColumn, Reservoir>, sizes: Sizes, began_us: i64) -> Tracker {
        Tracker {
            versions: Mutex::new(VersionStore::new(began_us)),
            samples: samples.into_iter().map(|(column, sample)| (column, Mutex::new(sample))).collect(),
            last: Mutex::default(),
            marks: Mutex::default(),
            sizes: Mutex::new(sizes),
            tracks: AtomicBool::new(true),
        }
    }
    /// Takes what a transaction did whose commit was just acknowledged.
    pub fn committed(&self, deeds: &Deeds, now_us: i64) {
        {
            let mut sizes = lock(&self.sizes);
            sizes.orders += deeds.orders;
            sizes.lines += deeds.lines;
            sizes.new_orders = (sizes.new_orders + deeds.orders).saturating_sub(deeds.delivered_orders);
            sizes.delivered += deeds.delivered_lines;
            sizes.received += deeds.received_lines;
            sizes.history += deeds.history;
        }
        if !self.tracks() {
            return;
        }
        for (column, us) in &deeds.dates {
            lock(&self.samples[column]).add(*us);
        }
        if let Some(mark) = deeds.mark {
            lock(&self.marks).acknowledged(mark.terminal, mark.number, now_us);
        }
        {
            // A row belongs to its own warehouse: that of a remote payment's customer is not the terminal's.
            let mut last = lock(&self.last);
            for Written { key, version, .. } in &deeds.writes {
                let write = Write { key: *key, version: *version, committed_us: now_us };
                last.committed(key.parts().0, write);
            }
        }
        let mut versions = lock(&self.versions);
        for write in &deeds.writes {
            versions.committed(write.key, write.version, write.changed, now_us, write.written_us);
        }
    }
    /// Takes what a transaction did whose commit was sent and not answered.
    pub fn in_doubt(&self, deeds: &Deeds, now_us: i64) {
        let mut versions = lock(&self.versions);
        for write in &deeds.writes {
            versions.in_doubt(write.key, write.version, write.changed, now_us);
        }
    }
    pub fn set_tracking(&self, tracks: bool) {
        self.tracks.store(tracks, Ordering::Relaxed);
    }
    pub fn tracks(&self) -> bool {
        self.tracks.load(Ordering::Relaxed)
    }
    /// HATtrick's freshness of an answer to a query that began at `began_us`.
    pub fn measure_marks(&self, answer: &[(Terminal, i64)], began_us: i64) -> MarkReading {
        lock(&self.marks).measure(answer, began_us)
    }
    pub fn sizes(&self) -> Sizes {
        *lock(&self.sizes)
    }
    pub fn versions(&self) -> MutexGuard<'_, VersionStore> {
        lock(&self.versions)
    }
    pub fn last_writes(&self) -> Vec<(i32, Write)> {
        lock(&self.last).freeze()
    }
    /// The parameter that keeps a share of the rows in the window.
    pub fn parameter(&self, window: &Window, alpha: f64) -> Option<i64> {
        parameter(window, &lock(&self.samples[&window.column]), alpha)
    }
    /// The share of a column's values below an instant.
    pub fn share_below(&self, column: DateColumn, us: i64) -> f64 {
        lock(&self.samples[&column]).share_below(us)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(w: i32, id: i32) -> Written {
        let key = RowKey::customer(w, 1, id);
        Written { key, version: 1, changed: Columns::BALANCE, written_us: None }
    }

    #[test]
    fn a_write_is_the_last_of_its_rows_warehouse_and_not_of_the_terminals() {
        let tracker = Tracker::new(BTreeMap::new(), Sizes::default(), 0);
        tracker.committed(&Deeds { writes: vec![written(1, 7)], ..Deeds::default() }, 100);
        // A remote payment, and then a transaction that writes in both warehouses.
        tracker.committed(&Deeds { writes: vec![written(2, 8)], ..Deeds::default() }, 200);
        let last = |tracker: &Tracker| {
            let of = |(w, write): (i32, Write)| (w, write.key.parts().2, write.committed_us);
            tracker.last_writes().into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(last(&tracker), [(1, 7, 100), (2, 8, 200)]);
        tracker.committed(&Deeds { writes: vec![written(2, 9), written(1, 3)], ..Deeds::default() }, 300);
        assert_eq!(last(&tracker), [(1, 3, 300), (2, 9, 300)]);
    }

    #[test]
    fn what_is_not_tracked_is_counted_and_leaves_no_mark() {
        let tracker = Tracker::new(BTreeMap::new(), Sizes::default(), 0);
        let deeds = Deeds { orders: 1, mark: Some(Mark { terminal: (1, 0), number: 5 }), ..Deeds::default() };
        tracker.set_tracking(false);
        tracker.committed(&deeds, 100);
        assert_eq!((tracker.sizes().orders, tracker.measure_marks(&[], 900)), (1, MarkReading::default()));
        tracker.set_tracking(true);
        tracker.committed(&deeds, 100);
        assert_eq!(tracker.measure_marks(&[], 900), MarkReading { freshness_us: 800, unseen: 1 });
    }
}
