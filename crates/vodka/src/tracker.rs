//! What the client remembers while it runs: samples of dates, sizes of tables, versions of rows, last writes.
//!
//! KEEPS: everything is told after the commit was acknowledged, with the client's clock at that moment; a transaction
//! that was rolled back leaves no trace.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use workload::vodka::cardinality::Sizes;
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
}

pub struct Tracker {
    versions: Mutex<VersionStore>,
    samples: BTreeMap<DateColumn, Mutex<Reservoir>>,
    last: Mutex<LastWrites>,
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
            sizes: Mutex::new(sizes),
            tracks: AtomicBool::new(true),
        }
    }
    /// Takes what a transaction did whose commit was just acknowledged.
    pub fn committed(&self, warehouse: i32, deeds: &Deeds, now_us: i64) {
        {
            let mut sizes = lock(&self.sizes);
            sizes.orders += deeds.orders;
            sizes.lines += deeds.lines;
            sizes.new_orders = (sizes.new_orders + deeds.orders).saturating_sub(deeds.delivered_orders);
            sizes.delivered += deeds.delivered_lines;
            sizes.received += deeds.received_lines;
            sizes.history += deeds.history;
        }
        if !self.tracks.load(Ordering::Relaxed) {
            return;
        }
        for (column, us) in &deeds.dates {
            lock(&self.samples[column]).add(*us);
        }
        if let Some(last) = deeds.writes.last() {
            let write = Write { key: last.key, version: last.version, committed_us: now_us };
            lock(&self.last).committed(warehouse, write);
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
