//! Which write a probe of data sharing has to wait for.
//!
//! The last write that was committed before an instant tells, once it is visible, that all before it are, if the replica
//! applies writes in the order of their commits. A replica that applies partitions independently does not: so the last
//! write of each partition is tracked, and all of them have to be visible.
//!
//! KEEPS: of each partition the write with the greatest commit time, whatever the order in which they are told.

use super::versions::RowKey;
use std::collections::BTreeMap;

/// A committed write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    pub key: RowKey,
    pub version: u32,
    /// The client's clock when the commit was acknowledged, µs.
    pub committed_us: i64,
}

/// The last write of each partition.
#[derive(Clone, Default, Debug)]
pub struct LastWrites {
    by_partition: BTreeMap<i32, Write>,
}

impl LastWrites {
    pub fn committed(&mut self, partition: i32, write: Write) {
        let last = self.by_partition.entry(partition).or_insert(write);
        if last.committed_us <= write.committed_us {
            *last = write;
        }
    }
    /// What to wait for, per partition. The probe's instant is now: everything told is before it.
    pub fn freeze(&self) -> Vec<(i32, Write)> {
        self.by_partition.iter().map(|(partition, write)| (*partition, *write)).collect()
    }
}

/// What one probe found, in ms since its instant.
#[derive(Clone, PartialEq, Debug)]
pub struct Probe {
    /// When the last write of all was visible: the paper's figure.
    pub last_write_ms: f64,
    /// When the last write of every partition was.
    pub all_partitions_ms: f64,
    /// How far either may be off: at most half the time between the last look that missed a write and the first that
    /// showed it.
    pub error_ms: f64,
}

/// Evaluates a probe from when each frozen write was first seen; `None` while one was not, or if none was frozen.
pub fn probe(frozen: &[(i32, Write)], seen_ms: &BTreeMap<i32, f64>, error_ms: f64) -> Option<Probe> {
    let (last, _) = frozen.iter().max_by_key(|(_, write)| write.committed_us)?;
    let all =
        frozen.iter().map(|(partition, _)| seen_ms.get(partition).copied()).collect::<Option<Vec<_>>>()?;
    Some(Probe {
        last_write_ms: *seen_ms.get(last)?,
        all_partitions_ms: all.into_iter().fold(0.0, f64::max),
        error_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(n: u32, committed_us: i64) -> Write {
        Write { key: RowKey::customer(1, 1, n as i32), version: n, committed_us }
    }

    #[test]
    fn the_latest_write_of_a_partition_stays_whatever_comes_after_it() {
        let mut last = LastWrites::default();
        last.committed(1, write(1, 100));
        last.committed(1, write(2, 300));
        last.committed(1, write(3, 200));
        last.committed(2, write(4, 50));
        assert_eq!(last.freeze(), [(1, write(2, 300)), (2, write(4, 50))]);
        assert_eq!(probe(&[], &BTreeMap::new(), 0.1), None);
    }

    /// A replica that applies partition 2 long after partition 1, though its last write is older.
    #[test]
    fn out_of_order_apply_hides_from_the_last_write_and_not_from_every_partitions() {
        let frozen = [(1, write(1, 900)), (2, write(2, 800))];
        let seen = BTreeMap::from([(1, 5.0), (2, 700.0)]);
        let probe = probe(&frozen, &seen, 0.2).unwrap();
        assert_eq!((probe.last_write_ms, probe.all_partitions_ms), (5.0, 700.0));
        // Not over before all are visible.
        assert_eq!(super::probe(&frozen, &BTreeMap::from([(1, 5.0)]), 0.2), None);
    }
}
