//! What a run counts, phase by phase, and the memory that the server may take.

use super::throw::Thrown;
use crate::report::{Row, Summary};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

#[derive(Default)]
pub(super) struct Tally {
    rows: Mutex<BTreeMap<String, Row>>,
    /// Resident at rest, before anything was thrown; 0: not measured yet.
    baseline_bytes: AtomicU64,
    /// What the server may take for queries and beside them.
    allowed_bytes: u64,
    restarts: AtomicU64,
    machine_stalls: AtomicU64,
}

impl Tally {
    /// `limit_bytes`: the server's own limit for queries; `allowance_bytes`: rows, buffers and connections.
    pub fn new(limit_bytes: u64, allowance_bytes: u64) -> Tally {
        Tally { allowed_bytes: limit_bytes * 11 / 10 + allowance_bytes, ..Tally::default() }
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<String, Row>> {
        self.rows.lock().expect("no panic while it is held")
    }

    pub fn is_at_rest_with(&self, resident_bytes: u64) {
        self.baseline_bytes.store(resident_bytes, Relaxed);
    }

    pub fn ceiling_bytes(&self) -> u64 {
        self.baseline_bytes.load(Relaxed) + self.allowed_bytes
    }

    pub fn is_above_ceiling(&self, resident_bytes: u64) -> bool {
        self.baseline_bytes.load(Relaxed) > 0 && resident_bytes > self.ceiling_bytes()
    }

    /// So much is left of earlier inputs that the next one would be blamed for it.
    pub fn is_swollen(&self, resident_bytes: u64) -> bool {
        resident_bytes > (self.baseline_bytes.load(Relaxed) + self.ceiling_bytes()) / 2
    }

    pub fn inputs(&self) -> u64 {
        self.rows().values().map(|row| row.inputs).sum()
    }

    pub fn threw(&self, phase: &str, thrown: &Thrown) {
        let mut rows = self.rows();
        let row = rows.entry(phase.into()).or_default();
        row.inputs += 1;
        row.answered += thrown.answered;
        row.refused += thrown.refused;
        row.turned_away += thrown.turned_away;
    }

    /// Time under attack, and the most memory meanwhile.
    pub fn spent(&self, phase: &str, time: Duration, resident_bytes_peak: u64) {
        let mut rows = self.rows();
        let row = rows.entry(phase.into()).or_default();
        row.seconds += time.as_secs_f64();
        row.resident_bytes_peak = row.resident_bytes_peak.max(resident_bytes_peak);
    }

    pub fn stalled(&self, phase: &str) {
        self.rows().entry(phase.into()).or_default().stalls += 1;
    }

    pub fn restarted(&self) {
        self.restarts.fetch_add(1, Relaxed);
    }

    /// A stall that the machine made, not the server.
    pub fn machine_stalled(&self) {
        self.machine_stalls.fetch_add(1, Relaxed);
    }

    /// All but the findings and what other sessions waited.
    pub fn summary(&self) -> Summary {
        Summary {
            rows: self.rows().clone(),
            restarts: self.restarts.load(Relaxed),
            machine_stalls: self.machine_stalls.load(Relaxed),
            ceiling_bytes: self.ceiling_bytes(),
            baseline_bytes: self.baseline_bytes.load(Relaxed),
            ..Summary::default()
        }
    }
}
