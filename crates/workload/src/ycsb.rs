//! YCSB (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010): mixes A, B, C, D and F
//! over one table of 10 text columns, and YCSB-T: several operations in one transaction.
//! (E, the scans, comes with range partitions.)

use crate::random::{Zipf, a_string};
use crate::table::{Home, TableSpec, columns};
use base::Datum;
use base::rng::Rng;

columns!(usertable {
    YCSB_KEY: BIGINT,
    FIELD0: TEXT,
    FIELD1: TEXT,
    FIELD2: TEXT,
    FIELD3: TEXT,
    FIELD4: TEXT,
    FIELD5: TEXT,
    FIELD6: TEXT,
    FIELD7: TEXT,
    FIELD8: TEXT,
    FIELD9: TEXT,
});

/// `usertable (ycsb_key primary key, field0, …, field9)`.
pub const USERTABLE: TableSpec = TableSpec {
    name: "usertable",
    columns: usertable::COLUMNS,
    primary_key: &["ycsb_key"],
    nullable: &[],
    indexes: &[],
    home: Home::By("ycsb_key"),
};

/// Text columns of a row.
pub const FIELDS: usize = 10;
/// Characters of a field.
pub const FIELD_CHARS: usize = 100;

/// One of the core mixes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Workload {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// 95 % reads of recent rows, 5 % inserts.
    D,
    /// Half reads, half read-modify-writes.
    F,
}

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    Read { key: i64 },
    Update { key: i64, field: usize, value: String },
    Insert { key: i64 },
    ReadModifyWrite { key: i64, field: usize, value: String },
}

impl Op {
    pub fn key(&self) -> i64 {
        match self {
            Op::Read { key } | Op::Insert { key } => *key,
            Op::Update { key, .. } | Op::ReadModifyWrite { key, .. } => *key,
        }
    }
    pub fn name(&self) -> &'static str {
        match self {
            Op::Read { .. } => "read",
            Op::Update { .. } => "update",
            Op::Insert { .. } => "insert",
            Op::ReadModifyWrite { .. } => "read-modify-write",
        }
    }
}

/// The row of a key, which depends on the seed and the key alone.
pub fn row(seed: u64, key: i64) -> Vec<Datum> {
    let mut rng = Rng::new(seed).fork_nth("usertable", key as u64);
    let mut row = vec![Datum::Int(key)];
    row.extend((0..FIELDS).map(|_| Datum::from(a_string(&mut rng, FIELD_CHARS, FIELD_CHARS))));
    row
}

/// The endless list of one client's operations.
#[derive(Clone, Debug)]
pub struct Ops {
    workload: Workload,
    zipf: Zipf,
    rng: Rng,
    records: i64,
    /// Next key this client inserts, and the step to the one after.
    insert: i64,
    insert_step: i64,
}

impl Ops {
    /// The `client`-th (from 0) of `clients` over `records` rows with keys from 0; `theta` is the skew.
    /// Inserted keys start at `insert_base` ≥ `records`; a later run over the same rows needs a higher one.
    pub fn new(
        workload: Workload,
        records: i64,
        theta: f64,
        seed: u64,
        (client, clients): (u32, u32),
        insert_base: i64,
    ) -> Ops {
        assert!(insert_base >= records, "inserted keys lie above those loaded");
        Ops {
            workload,
            zipf: Zipf::new(records as u64, theta),
            rng: Rng::new(seed).fork_nth("ycsb", u64::from(client)),
            records,
            insert: insert_base + i64::from(client),
            insert_step: i64::from(clients),
        }
    }
    pub fn next_op(&mut self) -> Op {
        let reads = match self.workload {
            Workload::A | Workload::F => 0.5,
            Workload::B | Workload::D => 0.95,
            Workload::C => 1.0,
        };
        let read = self.rng.chance(reads);
        match (self.workload, read) {
            // Recent rows: the skew counts back from the last one loaded.
            (Workload::D, true) => Op::Read { key: self.records - 1 - self.zipf.rank(&mut self.rng) as i64 },
            (_, true) => Op::Read { key: self.key() },
            (Workload::D, false) => {
                let key = self.insert;
                self.insert += self.insert_step;
                Op::Insert { key }
            }
            (Workload::F, false) => {
                let (key, field) = (self.key(), self.field());
                Op::ReadModifyWrite { key, field, value: self.value() }
            }
            (_, false) => {
                let (key, field) = (self.key(), self.field());
                Op::Update { key, field, value: self.value() }
            }
        }
    }
    /// YCSB-T: `count` operations on different keys for one transaction, in the order of their keys so that
    /// lock-based servers do not deadlock.
    pub fn next_transaction(&mut self, count: usize) -> Vec<Op> {
        assert!(count as i64 <= self.records, "not enough rows for {count} different keys");
        let mut ops: Vec<Op> = Vec::with_capacity(count);
        while ops.len() < count {
            let op = self.next_op();
            if ops.iter().all(|other| other.key() != op.key()) {
                ops.push(op);
            }
        }
        ops.sort_by_key(Op::key);
        ops
    }
    fn key(&mut self) -> i64 {
        self.zipf.scattered(&mut self.rng) as i64
    }
    fn field(&mut self) -> usize {
        self.rng.below(FIELDS as u64) as usize
    }
    fn value(&mut self) -> String {
        a_string(&mut self.rng, FIELD_CHARS, FIELD_CHARS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_mixes_have_their_shares() {
        for (workload, write, share) in [
            (Workload::A, "update", 0.5),
            (Workload::B, "update", 0.05),
            (Workload::C, "update", 0.0),
            (Workload::D, "insert", 0.05),
            (Workload::F, "read-modify-write", 0.5),
        ] {
            let mut ops = Ops::new(workload, 1000, 0.99, 1, (0, 1), 1000);
            let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
            (0..10_000).for_each(|_| *counts.entry(ops.next_op().name()).or_default() += 1);
            let found = f64::from(counts.get(write).copied().unwrap_or(0)) / 10_000.0;
            assert!((found - share).abs() < 0.02, "{workload:?}: {counts:?}");
            assert_eq!(counts.values().sum::<u32>(), counts["read"] + counts.get(write).unwrap_or(&0));
        }
    }

    #[test]
    fn transactions_have_different_keys_in_order() {
        let mut ops = Ops::new(Workload::A, 50, 0.99, 1, (0, 1), 50);
        for _ in 0..100 {
            let keys: Vec<i64> = ops.next_transaction(8).iter().map(Op::key).collect();
            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
        }
    }

    #[test]
    fn reads_of_d_are_recent() {
        let mut ops = Ops::new(Workload::D, 1000, 0.99, 1, (0, 1), 1000);
        let recent = (0..1000).filter(|_| ops.next_op().key() >= 900).count();
        assert!(recent > 500, "{recent}");
    }
}
