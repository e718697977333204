//! A machine's disk: records that are on stable storage, and records that are on their way.
//!
//! KEEPS: a record whose token was reported stays; of those on their way when the node crashed, a
//! prefix may have made it.

use base::process::PersistToken;
use base::rng::Rng;
use base::time::US;
use std::collections::VecDeque;

/// How long a write with its sync takes, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskModel {
    pub sync_ns_min: u64,
    pub sync_ns_max: u64,
}

impl Default for DiskModel {
    fn default() -> Self {
        DiskModel { sync_ns_min: 50 * US, sync_ns_max: 200 * US }
    }
}

impl DiskModel {
    pub(crate) fn draw_ns(&self, rng: &mut Rng) -> u64 {
        rng.between(self.sync_ns_min as i64, self.sync_ns_max as i64) as u64
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    /// Oldest first.
    pub records: Vec<Vec<u8>>,
    waiting: VecDeque<(PersistToken, Vec<u8>)>,
    /// When the last write on its way will be done: writes finish in order.
    pub free_at: base::Time,
}

impl Disk {
    pub fn write(&mut self, token: PersistToken, record: Vec<u8>) {
        self.waiting.push_back((token, record));
    }
    /// The oldest record on its way is safe now.
    pub fn synced(&mut self, token: PersistToken) {
        let (first, record) = self.waiting.pop_front().expect("a sync follows its write");
        assert_eq!(first, token, "writes finish in order");
        self.records.push(record);
    }
    pub fn crash(&mut self, rng: &mut Rng) {
        let survivors = rng.below(self.waiting.len() as u64 + 1) as usize;
        let survivors = self.waiting.drain(..).take(survivors);
        self.records.extend(survivors.map(|(_, record)| record));
    }
}
