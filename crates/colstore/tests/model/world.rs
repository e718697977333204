//! A store and the list beside it, and what may happen to them at random.

use super::naive::{Model, Version, predicate, satisfies, scanned, sorted};
use super::tables::{column, tables, value};
use base::commit::{Change, CommitRecord, RowWrite};
use base::rng::Rng;
use base::schema::*;
use base::*;
use colstore::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PARTITIONS: u16 = 3;

pub struct World {
    pub rng: Rng,
    pub model: Model,
    pub store: ColumnStore,
    pub jobs: Vec<MergeJob>,
    /// Snapshots with what they showed when they were taken.
    pub kept: Vec<(TableSnapshot, Vec<Vec<Datum>>)>,
    pub next_key: i64,
    /// Patches applied so far.
    pub patches: usize,
}

impl World {
    pub fn new(seed: u64) -> World {
        let rng = Rng::new(seed);
        let mut knobs = rng.fork("knobs");
        let mut catalog = Catalog::default();
        let actions = tables().into_iter().map(SchemaAction::CreateTable).collect();
        catalog
            .apply(&SchemaChange { database: Default::default(), base_version: 0, actions })
            .expect("empty so far");
        let options = Options {
            chunk_rows: *knobs.pick(&[1, 4, 16]),
            block_rows: 64,
            segment_rows: *knobs.pick(&[16, 64, 256]),
            segment_bytes: *knobs.pick(&[4_000, 1 << 20]),
            merge_rows_min: *knobs.pick(&[1, 8]),
            merge_share_min: *knobs.pick(&[2, 16]),
            unread_times: *knobs.pick(&[1, 3]),
            unread_bytes_max: *knobs.pick(&[1_000, 1 << 20]),
            small_segments_max: 2,
            follows_only: false,
        };
        let partitions = (0..PARTITIONS).map(PartitionId);
        let store = ColumnStore::with_options(partitions.clone(), Arc::new(catalog.clone()), options);
        let mut model = Model { catalogs: vec![(Rank::ZERO, catalog)], clock: 100, ..Model::default() };
        for p in partitions {
            model.logs.insert(p, vec![]);
            model.pending.insert(p, vec![]);
            model.changed.insert(p, vec![]);
        }
        let next_key = knobs.between(5, 200);
        World { rng, model, store, jobs: vec![], kept: vec![], next_key, patches: 0 }
    }

    pub fn partition(&mut self) -> PartitionId {
        PartitionId(self.rng.below(PARTITIONS.into()) as u16)
    }

    pub fn apply(&mut self) {
        let p = self.partition();
        let position = self.model.applied(p).next();
        let mut record = CommitRecord {
            txn: TxnId { coordinator: NodeId(0), incarnation: 0, sequence: self.model.clock },
            rank: Rank::ZERO,
            partition: p,
            position,
            writes: vec![],
            schema: None,
        };
        let mut rows = Vec::new();
        let pending = &mut self.model.pending.get_mut(&p).unwrap();
        if !pending.is_empty() && self.rng.chance(0.3) {
            let (rank, change) = pending.remove(0);
            record.rank = rank;
            record.schema = Some(change);
            self.model.changed.get_mut(&p).unwrap().push(position);
        } else {
            let limit = pending.first().map(|(rank, _)| rank.0 - 1);
            let done = self.model.changed[&p].len();
            let (since, catalog) = self.model.catalogs[done].clone();
            let mut low = since.0.max(self.model.collected.0 + 1);
            for _ in 0..self.rng.below(6) {
                let Some(table) = catalog.tables.values().nth(self.rng.below(2) as usize) else { continue };
                let mut values: Vec<Datum> = table
                    .columns
                    .iter()
                    .map(|c| match c.not_null || self.rng.chance(0.8) {
                        true => value(&mut self.rng, c.data_type),
                        false => Datum::Null,
                    })
                    .collect();
                let key = self.rng.below(self.next_key as u64) as i64;
                match table.id {
                    TableId(1) => {
                        (values[0], values[1]) = (Datum::Int(key % 3), Datum::Int(key - 50));
                    }
                    _ => values[0] = Datum::text(format!("k{key}")),
                }
                let key = table.key_of(&values);
                let own =
                    record.writes.iter().zip(&rows).rev().find(|(w, _)| w.table == table.id && w.key == key);
                let before = match own {
                    Some((_, row)) => Option::<Row>::clone(row),
                    None => self.model.living(p, table.id, &key).map(|version| version.row.clone()),
                };
                if let Some(before) = before.as_ref().filter(|_| self.rng.chance(0.7)) {
                    for (value, old) in values.iter_mut().zip(before.values()) {
                        if self.rng.chance(0.8) {
                            *value = old;
                        }
                    }
                }
                let row = self.rng.chance(0.75).then(|| Row::of(&values));
                rows.push(row.clone());
                let change = Change::of(before, row);
                let before = self.model.versions.iter().filter(|v| v.table == table.id && v.partition == p);
                let touched = before.filter(|v| v.key == key).map(|v| v.end.map_or(v.begin.0, |e| e.0));
                low = low.max(touched.map(|r| r.0).max().unwrap_or(0));
                record.writes.push(RowWrite { table: table.id, key, change });
            }
            self.model.clock += self.rng.below(3);
            let high = (self.model.clock + 5).min(limit.unwrap_or(u64::MAX)).max(low);
            record.rank = Rank(self.rng.between(low as i64, high as i64) as u64);
            assert!(limit.is_none_or(|l| record.rank.0 <= l), "the generator keeps its own rules");
        }
        let mark = (record.rank, position);
        for (write, row) in record.writes.iter().zip(&rows) {
            let same = |v: &&mut Version| {
                v.end.is_none() && v.partition == p && v.table == write.table && v.key == write.key
            };
            if let Some(old) = self.model.versions.iter_mut().find(same) {
                old.end = Some(mark);
            }
            if let Some(row) = row {
                self.model.versions.push(Version {
                    table: write.table,
                    partition: p,
                    key: write.key.clone(),
                    row: row.clone(),
                    begin: mark,
                    end: None,
                });
            }
        }
        self.model.logs.get_mut(&p).unwrap().push(record.rank);
        let rows = record.writes.iter().map(|write| (write.table, write.key.clone())).collect();
        self.model.touched.insert((p, position), rows);
        if self.rng.chance(0.7) {
            // What has travelled holds patches.
            let whole = record;
            record = codec::decode(&codec::encode(&whole)).expect("what is written is read");
            let patches = record.writes.iter().filter(|w| matches!(w.change, Change::Patch(_))).count();
            self.patches += patches;
        }
        self.store.apply(&record);
        if self.rng.chance(0.1) {
            self.store.apply(&record);
        }
        assert_eq!(self.store.applied(p).0, position);
    }

    /// A column more, or a table less, ordered after everything so far and before what comes.
    pub fn change_catalog(&mut self) {
        if self.model.pending.values().any(|p| !p.is_empty()) {
            return;
        }
        let (_, newest) = self.model.catalogs.last().unwrap().clone();
        let action = match self.rng.below(8) {
            0 if newest.tables.len() > 1 => SchemaAction::DropTable(*newest.tables.keys().nth(1).unwrap()),
            _ => {
                let Some(old) = newest.tables.values().next() else { return };
                let mut table = Table::clone(old);
                let data_type =
                    *self.rng.pick(&[DataType::Integer, DataType::Text, DataType::Timestamp, DataType::Uuid]);
                let mut added = column(&format!("added{}", table.columns.len()), data_type, false);
                if self.rng.chance(0.5) {
                    added.missing = value(&mut self.rng, data_type);
                }
                table.columns.push(added);
                SchemaAction::AlterTable(table)
            }
        };
        let change = SchemaChange {
            database: Default::default(),
            base_version: newest.version,
            actions: vec![action],
        };
        let mut next = newest;
        next.apply(&change).expect("made for it");
        let highest = self.model.logs.values().flatten().max().copied().unwrap_or_default();
        let rank = Rank(highest.0.max(self.model.collected.0).max(self.model.clock) + 10);
        self.model.clock = rank.0;
        self.model.catalogs.push((rank, next));
        self.model.pending.values_mut().for_each(|p| p.push((rank, change.clone())));
    }

    pub fn collect(&mut self) {
        // Nothing at or below it may still come.
        let next = self.model.pending.values().flatten().map(|(rank, _)| rank.0 - 20).min();
        let highest = self.model.clock.saturating_sub(self.rng.below(30)).min(next.unwrap_or(u64::MAX));
        self.model.collected = self.model.collected.max(Rank(highest));
    }

    pub fn cut(&mut self) -> Cut {
        if self.rng.chance(0.5) {
            let above = self.rng.below(30);
            return Cut::Rank(Rank(self.model.collected.0 + above));
        }
        let base = Rank(self.model.collected.0 + self.rng.below(10));
        let mut above: BTreeMap<PartitionId, BTreeSet<LogPosition>> = BTreeMap::new();
        for (p, log) in &self.model.logs {
            let chosen = above.entry(*p).or_default();
            let entries = log.iter().enumerate().map(|(n, rank)| (LogPosition(n as u64 + 1), *rank));
            for (position, _) in entries.filter(|(_, rank)| *rank > base) {
                let depends_on = |other: &LogPosition| {
                    let changes = &self.model.changed[p];
                    changes.contains(&position)
                        || changes.contains(other)
                        || self.model.conflict(*p, position, *other)
                };
                let before = (1..position.0).map(LogPosition).filter(depends_on);
                let mut missing = before.filter(|at| log[at.0 as usize - 1] > base && !chosen.contains(at));
                if missing.next().is_none() && self.rng.chance(0.7) {
                    chosen.insert(position);
                }
            }
        }
        Cut::Set(ClosedSet { base, above })
    }

    pub fn snapshot(&mut self) {
        let cut = self.cut();
        let version = match &cut {
            Cut::Rank(t) => self.model.catalogs.iter().rposition(|(rank, _)| rank <= t).unwrap(),
            Cut::Set(set) => {
                let passed = |(p, named): (&PartitionId, &BTreeSet<LogPosition>)| {
                    self.model.changed[p].iter().filter(|at| named.contains(at)).count()
                };
                let below = self.model.catalogs.iter().rposition(|(rank, _)| *rank <= set.base).unwrap();
                let first_above = set.above.iter().map(passed).max().unwrap();
                // Those at or below the base are not named.
                below + first_above
            }
            Cut::Epoch(_) => unreachable!(),
        };
        let catalog = self.model.catalogs[version].1.clone();
        let id = TableId(1 + self.rng.below(2) as u32);
        let mut partitions: BTreeSet<PartitionId> = BTreeSet::new();
        (0..2).for_each(|_| _ = partitions.insert(self.partition()));
        let snapshot = self.store.snapshot(&cut, id, &partitions);
        let Some(table) = catalog.tables.get(&id) else {
            // Rank cuts know what is to come only once some partition has told the store.
            if let Err(error) = snapshot {
                assert_eq!(error, stale_schema());
            }
            return;
        };
        let snapshot = snapshot.unwrap_or_else(|e| panic!("{cut:?}: {e} {:?}", e.detail));
        if snapshot.table().version != table.version {
            let told = self.model.changed.values().map(Vec::len).max().unwrap();
            let is_untold = matches!(cut, Cut::Rank(_)) && told < version;
            assert!(is_untold, "the catalog is the cut's: {cut:?}, {told} of {version} changes told");
            return;
        }
        let expected = self.model.rows(&cut, table, &partitions);
        let all: Vec<usize> = (0..table.columns.len()).collect();
        assert_eq!(snapshot.schema(), schema_of(table));
        assert_eq!(scanned(&snapshot, &all, &[]), expected, "{cut:?} {partitions:?}");
        assert_eq!(snapshot.rows_visible(), expected.len());
        self.check_filters(&snapshot, &expected);
        check_statistics(&snapshot, &expected);
        check_statistics(&self.sent(&snapshot, &expected), &expected);
        self.kept.push((snapshot, expected));
    }

    pub fn check_filters(&mut self, snapshot: &TableSnapshot, expected: &[Vec<Datum>]) {
        let all: Vec<usize> = (0..snapshot.table().columns.len()).collect();
        let filters: Vec<_> =
            (0..1 + self.rng.below(2)).map(|_| predicate(&mut self.rng, snapshot.table())).collect();
        let matching = |rows: &[Vec<Datum>]| -> Vec<Vec<Datum>> {
            rows.iter().filter(|r| filters.iter().all(|f| satisfies(r, f))).cloned().collect()
        };
        let found = scanned(snapshot, &all, &filters);
        assert!(found.len() <= expected.len());
        assert_eq!(matching(&found), matching(expected), "{filters:?}");
        // Any columns in any order.
        let projection: Vec<usize> = (0..self.rng.below(4)).map(|_| *self.rng.pick(&all)).collect();
        let project = |row: &Vec<Datum>| projection.iter().map(|c| row[*c].clone()).collect();
        assert_eq!(scanned(snapshot, &projection, &[]), sorted(expected.iter().map(project).collect()));
    }

    /// The snapshot as another reader has it that keeps nothing of it: its rows have travelled.
    pub fn sent(&mut self, snapshot: &TableSnapshot, expected: &[Vec<Datum>]) -> TableSnapshot {
        let table = snapshot.table();
        let travel = |wanted: &Wanted| {
            let bytes = snapshot.blocks_for(wanted).filter_map(|block| block.ship(wanted).unwrap());
            let received = bytes.map(|bytes| {
                for cut in [0, bytes.len() / 2] {
                    assert!(Received::read(table, wanted, &bytes[..cut]).is_err(), "half of it is nothing");
                }
                Received::read(table, wanted, &bytes).unwrap()
            });
            TableSnapshot::assembled(table.clone(), None, received.collect(), vec![snapshot.statistics()])
        };
        let everything = travel(&Wanted::default());
        let all: Vec<usize> = (0..table.columns.len()).collect();
        assert_eq!(scanned(&everything, &all, &[]), expected);
        let predicates = vec![predicate(&mut self.rng, table)];
        let columns: Vec<usize> = all.iter().copied().filter(|c| *c == 0 || self.rng.chance(0.5)).collect();
        let project = |row: &Vec<Datum>| columns.iter().map(|c| row[*c].clone()).collect::<Vec<_>>();
        let matching = expected.iter().filter(|row| predicates.iter().all(|p| satisfies(row, p)));
        let matching: Vec<Vec<Datum>> = matching.map(project).collect();
        let found = scanned(&travel(&Wanted { columns: columns.clone(), predicates }), &columns, &[]);
        assert!(found.len() <= expected.len());
        let mut left = found.clone();
        for row in &matching {
            let at = left.iter().position(|other| other == row).expect("a row that matches was left behind");
            left.swap_remove(at);
        }
        everything
    }

    pub fn check_kept(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let at = self.rng.below(self.kept.len() as u64) as usize;
        let (snapshot, expected) = self.kept.swap_remove(at);
        let all: Vec<usize> = (0..snapshot.table().columns.len()).collect();
        assert_eq!(scanned(&snapshot, &all, &[]), expected, "a snapshot never changes");
    }

    pub fn merge(&mut self) {
        let budget = self.rng.between(1, 100) as usize;
        let collected = self.model.collected;
        match self.rng.below(3) {
            0 => _ = self.store.merge_step(budget, collected),
            1 => self.jobs.extend(self.store.plan_merge(budget, collected)),
            _ => {
                if !self.jobs.is_empty() {
                    let at = self.rng.below(self.jobs.len() as u64) as usize;
                    let merged = self.jobs.swap_remove(at).run();
                    self.store.install(merged);
                }
            }
        }
    }
}

pub fn check_statistics(snapshot: &TableSnapshot, expected: &[Vec<Datum>]) {
    let statistics = snapshot.statistics();
    assert_eq!(statistics.rows, expected.len());
    for (c, column) in statistics.columns.iter().enumerate() {
        let nulls = expected.iter().filter(|r| r[c].is_null()).count();
        assert!(if statistics.exact { column.nulls == nulls } else { column.nulls >= nulls });
        for value in expected.iter().map(|r| &r[c]).filter(|v| !v.is_null()) {
            if let Some((min, max)) = &column.bounds {
                assert!(min.compare(value).unwrap().is_le() && max.compare(value).unwrap().is_ge());
            }
        }
    }
}
