//! A machine's disk: what was synced stays, what was on its way is lost or torn.
//!
//! KEEPS: a record whose token was reported stays; of those on their way when the node crashed, a prefix may
//! have made it, and of the next one any part. A node that boots is given the whole records, and the torn
//! end is cut off.

use base::process::PersistToken;
use base::rng::Rng;
use base::time::US;
use consensus::frame;
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
    /// One file of frames.
    bytes: Vec<u8>,
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
        self.bytes.extend(frame::frame(self.bytes.len(), &record));
    }
    pub fn crash(&mut self, rng: &mut Rng) {
        let survivors = rng.below(self.waiting.len() as u64 + 1) as usize;
        let mut waiting = std::mem::take(&mut self.waiting).into_iter().map(|(_, record)| record);
        for record in waiting.by_ref().take(survivors) {
            self.bytes.extend(frame::frame(self.bytes.len(), &record));
        }
        if let Some(torn) = waiting.next() {
            base::sometimes!("a write is torn");
            let torn = frame::frame(self.bytes.len(), &torn);
            let part = rng.below(torn.len() as u64) as usize;
            self.bytes.extend_from_slice(&torn[..part]);
            if rng.chance(0.3) {
                // The file had grown already; its new end reads as zeros.
                self.bytes.extend(std::iter::repeat_n(0, torn.len() - part));
            }
        }
    }
    /// What a node finds when it boots.
    pub fn records(&mut self) -> Vec<Vec<u8>> {
        let found = frame::split(&self.bytes).expect("this disk tears only its end");
        let records = found.records.iter().map(|record| record.to_vec()).collect();
        let valid_bytes = found.valid_bytes;
        self.bytes.truncate(valid_bytes);
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_what_was_synced_and_a_prefix_of_the_rest() {
        let record = |n: u64| vec![n as u8; 3 + n as usize];
        let mut longest = 0;
        for seed in 0..200 {
            let mut disk = Disk::default();
            (0..5).for_each(|n| disk.write(PersistToken(n), record(n)));
            (0..2).for_each(|n| disk.synced(PersistToken(n)));
            disk.crash(&mut Rng::new(seed));
            let found = disk.records();
            assert!((2..=5).contains(&found.len()));
            assert!(found.iter().zip(0..).all(|(found, n)| *found == record(n)));
            longest = longest.max(found.len());
            // What is written next lies behind what was found.
            disk.write(PersistToken(9), record(9));
            disk.synced(PersistToken(9));
            assert_eq!(disk.records().len(), found.len() + 1);
        }
        assert_eq!(longest, 5);
    }
}
