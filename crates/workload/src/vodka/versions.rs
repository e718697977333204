//! What the client remembers of its own writes, and how stale an answer is by that (the paper's Eq. 16).
//!
//! A row carries the number of its version; which columns a version changed, and when its commit was acknowledged, only
//! the client knows. An answer is as stale as its stalest item: for each row of it and each column of interest, the
//! commit of the latest version that changed the column, less the commit of the version that the answer shows of it.
//!
//! IN: versions after their commits, answers as (row, version). OUT: readings, in µs.
//! KEEPS: a version is latest only if its commit was acknowledged before the query began: later ones are concurrent, not
//! missed; pruning changes no reading; what [`VersionStore::forget`] dropped turns readings into lower bounds, and they
//! say so.

use std::collections::{BTreeMap, BTreeSet};

/// A row of one of the tracked tables: table, warehouse, district, id and line number in 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RowKey(u64);

impl RowKey {
    fn of(table: u64, w: i32, d: i32, id: i32, number: i32) -> RowKey {
        debug_assert!(w < 1 << 20 && d < 1 << 4 && number < 1 << 4);
        RowKey(table << 60 | (w as u64) << 40 | (d as u64) << 36 | (id as u64) << 4 | number as u64)
    }
    pub fn order_line(w: i32, d: i32, o: i32, number: i32) -> RowKey {
        RowKey::of(1, w, d, o, number)
    }
    pub fn customer(w: i32, d: i32, c: i32) -> RowKey {
        RowKey::of(2, w, d, c, 0)
    }
    pub fn is_customer(self) -> bool {
        self.0 >> 60 == 2
    }
    /// Warehouse, district, id, line number.
    pub fn parts(self) -> (i32, i32, i32, i32) {
        let bits = |from: u32, count: u32| (self.0 >> from & ((1 << count) - 1)) as i32;
        (bits(40, 20), bits(36, 4), (self.0 >> 4) as u32 as i32, bits(0, 4))
    }
}

/// Columns of a table, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Columns(pub u16);

impl Columns {
    /// `ol_delivery_d`, `ol_shipmode`, `ol_shipinstruct`.
    pub const SHIPPED: Columns = Columns(1);
    /// `ol_receiptdate`, `ol_returnflag`.
    pub const RECEIVED: Columns = Columns(2);
    /// All columns of a new line.
    pub const LINE: Columns = Columns(7);
    /// `c_balance`.
    pub const BALANCE: Columns = Columns(1);
    /// `c_data`: no query reads it.
    pub const DATA: Columns = Columns(2);

    fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
    fn bits(self) -> impl Iterator<Item = u16> {
        (0..16).map(|n| 1u16 << n).filter(move |bit| self.has(*bit))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Version {
    number: u32,
    changed: Columns,
    /// Its commit was not answered: it may be there or not.
    in_doubt: bool,
    committed_us: i64,
}

/// How stale one answer was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// Eq. 16.
    pub freshness_us: i64,
    /// The version shown of the stalest row was forgotten: Eq. 16 is at least this.
    pub is_lower_bound: bool,
    /// Rows of the answer that lag behind in a column of interest.
    pub stale_rows: u64,
    /// Rows that were committed before the query began and belong to the answer, but are not in it. Eq. 16 ignores them.
    pub missing_rows: u64,
    /// The query's begin less the first commit of a missing row.
    pub missing_age_us: i64,
    /// HATtrick's definition: the query's begin less the first commit that the answer should show and does not.
    pub hattrick_us: i64,
}

/// A range of a column that orders rows by when they were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    pub from_us: i64,
    pub to_us: i64,
}

/// Versions by row.
#[derive(Clone, Debug)]
pub struct VersionStore {
    rows: BTreeMap<RowKey, Vec<Version>>,
    /// Rows by the value of `write_ts` that a version gave them.
    written: BTreeSet<(i64, RowKey, u32)>,
    /// Commits before this may be unknown: tracking began, or rows were forgotten.
    floor_us: i64,
    prunes: bool,
    pub forgotten_rows: u64,
}

impl VersionStore {
    pub fn new(began_us: i64) -> VersionStore {
        VersionStore {
            rows: BTreeMap::new(),
            written: BTreeSet::new(),
            floor_us: began_us,
            prunes: true,
            forgotten_rows: 0,
        }
    }
    /// One that keeps every version, to compare with.
    pub fn unpruned(began_us: i64) -> VersionStore {
        VersionStore { prunes: false, ..VersionStore::new(began_us) }
    }
    /// A version whose commit was acknowledged. `written_us`: the row's `write_ts`, of tables that have one.
    pub fn committed(
        &mut self,
        key: RowKey,
        number: u32,
        changed: Columns,
        committed_us: i64,
        written_us: Option<i64>,
    ) {
        self.add(key, Version { number, changed, in_doubt: false, committed_us });
        if let Some(us) = written_us {
            self.written.insert((us, key, number));
        }
    }
    /// A version whose commit was sent and not answered. It is never the latest, but an answer may show it.
    pub fn in_doubt(&mut self, key: RowKey, number: u32, changed: Columns, sent_us: i64) {
        self.add(key, Version { number, changed, in_doubt: true, committed_us: sent_us });
    }
    fn add(&mut self, key: RowKey, version: Version) {
        let versions = self.rows.entry(key).or_insert_with(|| Vec::with_capacity(1));
        let at = versions.partition_point(|v| v.number < version.number);
        match versions.get_mut(at) {
            Some(same) if same.number == version.number => *same = version,
            _ => versions.insert(at, version),
        }
    }
    pub fn versions_count(&self) -> usize {
        self.rows.values().map(Vec::len).sum()
    }
    /// About as many as it takes.
    pub fn bytes(&self) -> usize {
        // A B-tree's nodes are two thirds full on average.
        let row = (size_of::<RowKey>() + size_of::<Vec<Version>>()) * 3 / 2;
        let versions = |v: &Vec<Version>| v.capacity() * size_of::<Version>() + 16;
        self.rows.len() * row
            + self.rows.values().map(versions).sum::<usize>()
            + self.written.len() * size_of::<(i64, RowKey, u32)>() * 3 / 2
    }

    /// How stale an answer is to a query that began at `began_us` and reads the columns `read`; prunes what the answer
    /// shows to be old. `written`: the answer is all rows whose `write_ts` is in this range.
    pub fn measure(
        &mut self,
        answer: &[(RowKey, u32)],
        read: Columns,
        began_us: i64,
        written: Option<Written>,
    ) -> Reading {
        let mut reading = Reading::default();
        let mut first_unseen_us = i64::MAX;
        for (key, shown) in answer {
            let Some(versions) = self.rows.get_mut(key) else { continue };
            let mut is_stale = false;
            for bit in read.bits() {
                let of = || versions.iter().filter(|v| v.changed.has(bit));
                let Some(latest) = of().rfind(|v| !v.in_doubt && v.committed_us <= began_us) else {
                    continue;
                };
                if latest.number <= *shown {
                    continue;
                }
                is_stale = true;
                let seen = of().rfind(|v| v.number <= *shown);
                let seen_us = seen.map_or(self.floor_us, |v| v.committed_us);
                let gap_us = (latest.committed_us - seen_us).max(0);
                if gap_us > reading.freshness_us {
                    reading.freshness_us = gap_us;
                    reading.is_lower_bound = seen.is_none();
                }
                let unseen = of().find(|v| v.number > *shown && !v.in_doubt && v.committed_us <= began_us);
                first_unseen_us = first_unseen_us.min(unseen.map_or(i64::MAX, |v| v.committed_us));
            }
            reading.stale_rows += u64::from(is_stale);
            if self.prunes {
                prune(versions, *shown);
            }
        }
        if let Some(written) = written {
            let shown: BTreeSet<RowKey> = answer.iter().map(|(key, _)| *key).collect();
            for committed_us in self.missing(&shown, began_us, written) {
                reading.missing_rows += 1;
                reading.missing_age_us = reading.missing_age_us.max(began_us - committed_us);
                first_unseen_us = first_unseen_us.min(committed_us);
            }
        }
        if first_unseen_us < i64::MAX {
            reading.hattrick_us = (began_us - first_unseen_us).max(0);
        }
        reading
    }

    /// Commits of the rows that were in a range when the query began, and that the answer does not have.
    fn missing(&self, shown: &BTreeSet<RowKey>, began_us: i64, written: Written) -> Vec<i64> {
        let mut first = BTreeMap::new();
        let all = (RowKey(u64::MAX), u32::MAX);
        let range = (written.from_us, RowKey(0), 0)..=(written.to_us, all.0, all.1);
        for (_, key, number) in self.written.range(range) {
            let Some(versions) = self.rows.get(key).filter(|_| !shown.contains(key)) else { continue };
            // A newer version has taken the row out of the range, or is about to.
            let Some(version) = versions.last().filter(|v| v.number == *number) else { continue };
            if !version.in_doubt && version.committed_us <= began_us {
                first.insert(*key, version.committed_us);
            }
        }
        first.into_values().collect()
    }

    /// Drops the rows of which nothing was committed since, other than customers, which are read again and again.
    pub fn forget(&mut self, before_us: i64) {
        let count = self.rows.len();
        self.rows.retain(|key, versions| {
            key.is_customer() || versions.iter().any(|v| v.committed_us >= before_us)
        });
        self.forgotten_rows += (count - self.rows.len()) as u64;
        self.written =
            self.written.iter().filter(|(_, key, _)| self.rows.contains_key(key)).copied().collect();
        if count > self.rows.len() {
            self.floor_us = self.floor_us.max(before_us);
        }
    }
}

/// Drops versions below the one shown, but for the last change of each column up to it.
fn prune(versions: &mut Vec<Version>, shown: u32) {
    let mut found = Columns::default();
    let keep: Vec<bool> = versions
        .iter()
        .rev()
        .map(|version| {
            if version.number > shown {
                return true;
            }
            let news = version.changed.0 & !found.0;
            found.0 |= version.changed.0;
            news != 0
        })
        .collect();
    let mut keep = keep.into_iter().rev();
    versions.retain(|_| keep.next().expect("one answer per version"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;

    const C1: Columns = Columns(1);
    const C2: Columns = Columns(2);
    const BOTH: Columns = Columns(3);

    fn row(id: i32) -> RowKey {
        RowKey::customer(1, 1, id)
    }

    #[test]
    fn a_key_gives_its_parts_back() {
        let key = RowKey::order_line(120, 10, 2_000_000_000, 15);
        assert_eq!((key.parts(), key.is_customer()), ((120, 10, 2_000_000_000, 15), false));
        assert!(RowKey::customer(1, 2, 3).is_customer());
    }

    /// The paper's Example 4: row 1 went on to version 4 and row 4 to version 3 by updates of c2 only.
    #[test]
    fn example_4_a_version_that_lags_in_other_columns_only_is_fresh() {
        let store = || {
            let mut store = VersionStore::new(0);
            for (number, columns, at) in [(1, BOTH, 10), (2, C2, 20), (3, C2, 30), (4, C2, 45)] {
                store.committed(row(1), number, columns, at, None);
            }
            for (number, columns, at) in [(1, BOTH, 11), (2, C2, 22), (3, C2, 33)] {
                store.committed(row(4), number, columns, at, None);
            }
            store
        };
        let answer = [(row(1), 2), (row(4), 2)];
        let c1 = store().measure(&answer, C1, 100, None);
        assert_eq!((c1.freshness_us, c1.stale_rows), (0, 0));
        let c2 = store().measure(&answer, C2, 100, None);
        assert_eq!((c2.freshness_us, c2.stale_rows), ((45 - 20).max(33 - 22), 2));
        assert_eq!(store().measure(&[(row(4), 2)], C2, 100, None).freshness_us, 11);
    }

    /// 1 → 2 → 1 → 3 → 1: the value alone would not tell which write an answer shows.
    #[test]
    fn a_repeating_value_is_told_apart_by_its_version() {
        let mut store = VersionStore::unpruned(0);
        (1..=5).for_each(|n| store.committed(row(1), n, C1, i64::from(n) * 100, None));
        let gaps: Vec<i64> =
            (1..=5).map(|shown| store.measure(&[(row(1), shown)], C1, 1000, None).freshness_us).collect();
        assert_eq!(gaps, [400, 300, 200, 100, 0]);
    }

    #[test]
    fn a_frozen_replica_is_as_stale_as_its_writes_are_apart_whenever_one_asks() {
        let mut store = VersionStore::new(0);
        store.committed(row(1), 1, C1, 1_000, None);
        store.committed(row(1), 2, C1, 2_000, None);
        let soon = store.measure(&[(row(1), 1)], C1, 3_000, None);
        let late = store.measure(&[(row(1), 1)], C1, 3_600_000, None);
        assert_eq!((soon.freshness_us, late.freshness_us), (1_000, 1_000));
        // HATtrick's figure grows with the query's time, and the write gap grows with writes.
        assert_eq!((soon.hattrick_us, late.hattrick_us), (1_000, 3_598_000));
        store.committed(row(1), 3, C1, 9_000, None);
        assert_eq!(store.measure(&[(row(1), 1)], C1, 10_000, None).freshness_us, 8_000);
    }

    #[test]
    fn static_data_and_a_linear_system_are_fresh() {
        let mut store = VersionStore::new(0);
        assert_eq!(store.measure(&[(row(1), 0), (row(2), 0)], BOTH, 5_000, None), Reading::default());
        store.committed(row(1), 1, BOTH, 100, None);
        assert_eq!(store.measure(&[(row(1), 1)], BOTH, 5_000, None), Reading::default());
    }

    #[test]
    fn what_commits_after_the_query_began_is_not_missed_and_what_is_in_doubt_is_never_latest() {
        let mut store = VersionStore::new(0);
        store.committed(row(1), 1, C1, 100, None);
        store.committed(row(1), 2, C1, 600, None);
        store.in_doubt(row(1), 3, C1, 650);
        assert_eq!(store.measure(&[(row(1), 1)], C1, 500, None).freshness_us, 0);
        assert_eq!(store.measure(&[(row(1), 2)], C1, 5_000, None).freshness_us, 0);
        // An answer may show it all the same.
        assert_eq!(store.measure(&[(row(1), 3)], C1, 5_000, None).freshness_us, 0);
    }

    #[test]
    fn rows_that_are_not_in_the_answer_are_counted_and_not_part_of_eq_16() {
        let mut store = VersionStore::new(0);
        let line = |number| RowKey::order_line(1, 1, 1, number);
        (1..=4).for_each(|n| store.committed(line(n), 1, C1, 1_000 + i64::from(n), Some(1_000)));
        // Line 4 was updated meanwhile: its new version lies outside the range, and is concurrent.
        store.committed(line(4), 2, C2, 6_000, Some(5_900));
        let range = Some(Written { from_us: 900, to_us: 2_000 });
        let reading = store.measure(&[(line(1), 1)], BOTH, 2_000, range);
        assert_eq!((reading.freshness_us, reading.missing_rows), (0, 2));
        assert_eq!((reading.missing_age_us, reading.hattrick_us), (998, 998));
        assert_eq!(store.measure(&[], BOTH, 2_000, Some(Written { from_us: 0, to_us: 1 })).missing_rows, 0);
    }

    #[test]
    fn pruning_changes_no_reading() {
        let mut rng = Rng::new(9);
        let (mut pruned, mut whole) = (VersionStore::new(0), VersionStore::unpruned(0));
        // Per row: the latest version, and the one that the replica shows.
        let mut rows = [(0u32, 0u32); 8];
        for now in (100..400_000).step_by(100) {
            let n = rng.below(8) as usize;
            let columns = Columns(rng.between(1, 7) as u16);
            rows[n].0 += 1;
            for store in [&mut pruned, &mut whole] {
                store.committed(row(n as i32), rows[n].0, columns, now, None);
            }
            let behind = rng.below(8) as usize;
            rows[behind].1 = rng.between(i64::from(rows[behind].1), i64::from(rows[behind].0)) as u32;
            if rng.chance(0.3) {
                let answer: Vec<(RowKey, u32)> =
                    rows.iter().zip(0..).map(|((_, shown), id)| (row(id), *shown)).collect();
                let read = Columns(rng.between(1, 7) as u16);
                let began = now - rng.between(0, 300);
                assert_eq!(
                    pruned.measure(&answer, read, began, None),
                    whole.measure(&answer, read, began, None)
                );
            }
        }
        assert!(pruned.versions_count() < whole.versions_count() / 10);
    }

    #[test]
    fn a_forgotten_row_gives_a_lower_bound_and_says_so() {
        let mut store = VersionStore::new(0);
        let line = RowKey::order_line(1, 1, 1, 1);
        store.committed(line, 1, C1, 1_000, None);
        store.forget(5_000);
        assert_eq!((store.versions_count(), store.forgotten_rows), (0, 1));
        store.committed(line, 2, C1, 9_000, None);
        let reading = store.measure(&[(line, 1)], C1, 10_000, None);
        assert_eq!((reading.freshness_us, reading.is_lower_bound), (4_000, true));
    }

    #[test]
    fn a_hundred_thousand_records_take_less_than_20_mb() {
        let mut store = VersionStore::new(0);
        for n in 0..100_000 {
            store.committed(
                RowKey::order_line(1, 1, n, 1),
                1,
                Columns::LINE,
                i64::from(n),
                Some(i64::from(n)),
            );
        }
        assert!(store.bytes() < 20_000_000, "{}", store.bytes());
        assert_eq!(store.versions_count(), 100_000);
    }
}
