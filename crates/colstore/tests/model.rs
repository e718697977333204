//! The store beside a naive list of versions, under random records, merges, collections, catalog
//! changes and snapshots: every snapshot equals the list at its cut, now and later.

use base::commit::{Change, CommitRecord, RowWrite};
use base::decimal::Decimal;
use base::rng::Rng;
use base::schema::*;
use base::*;
use colstore::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PARTITIONS: u16 = 3;

fn column(name: &str, data_type: DataType, not_null: bool) -> Column {
    let name = name.into();
    Column {
        name,
        data_type,
        not_null,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    }
}

fn table(id: u32, columns: Vec<Column>, primary_key: Vec<usize>) -> Table {
    Table {
        id: TableId(id),
        schema: "public".into(),
        name: format!("table{id}"),
        version: 0,
        columns,
        primary_key,
        primary_key_name: format!("table{id}_pkey"),
        indexes: vec![],
        checks: vec![],
        placement: Placement::Replicated,
    }
}

/// A table of every type whose key is two integers, and one whose key is a text.
fn tables() -> [Table; 2] {
    let numeric = |precision, scale| DataType::Numeric { precision, scale };
    let wide = vec![
        column("a", DataType::SmallInt, true),
        column("b", DataType::BigInt, true),
        column("integer", DataType::Integer, false),
        column("narrow", numeric(12, 2), false),
        column("wide", numeric(38, 10), false),
        column("fraction", numeric(2, 5), false),
        column("real", DataType::Real, false),
        column("double", DataType::Double, false),
        column("text", DataType::Text, false),
        column("varchar", DataType::Varchar { length: 9 }, false),
        column("char", DataType::Char { length: 3 }, false),
        column("boolean", DataType::Boolean, false),
        column("date", DataType::Date, false),
        column("timestamp", DataType::Timestamp, false),
        column("timestamptz", DataType::TimestampTz, false),
        column("uuid", DataType::Uuid, false),
        column("bytea", DataType::Bytea, false),
    ];
    let slim = vec![column("k", DataType::Text, true), column("v", DataType::Integer, false)];
    [table(1, wide, vec![0, 1]), table(2, slim, vec![0])]
}

/// A value of the type: now and then null, now and then extreme, else from a small set.
fn value(rng: &mut Rng, data_type: DataType) -> Datum {
    let extreme = rng.chance(0.1);
    let small = rng.between(-3, 30);
    match data_type {
        DataType::SmallInt if extreme => Datum::Int(*rng.pick(&[i16::MIN, i16::MAX]) as i64),
        DataType::Integer if extreme => Datum::Int(*rng.pick(&[i32::MIN, i32::MAX]) as i64),
        DataType::BigInt if extreme => Datum::Int(*rng.pick(&[i64::MIN, i64::MAX])),
        DataType::SmallInt | DataType::Integer | DataType::BigInt => Datum::Int(small),
        DataType::Numeric { precision, scale } => {
            let largest = 10i128.pow(precision.into()) - 1;
            let units = if extreme { *rng.pick(&[-largest, largest]) } else { small.into() };
            Datum::Decimal(Decimal::new(units, scale))
        }
        DataType::Real if extreme => {
            Datum::Float(*rng.pick(&[f32::MIN, f32::MAX, f32::NAN, f32::INFINITY, -0.0]) as f64)
        }
        DataType::Double if extreme => {
            Datum::Float(*rng.pick(&[f64::MIN, f64::MAX, f64::NAN, f64::NEG_INFINITY, -0.0]))
        }
        DataType::Real | DataType::Double => Datum::Float(small as f64 / 4.0),
        DataType::Text if extreme => Datum::text("long ".repeat(40) + &small.to_string()),
        DataType::Text => Datum::text(format!("täxt {small}")),
        DataType::Varchar { .. } => Datum::text(if extreme { String::new() } else { small.to_string() }),
        DataType::Char { .. } => Datum::text(if extreme { "" } else { "ab" }),
        DataType::Boolean => Datum::Bool(extreme),
        DataType::Date if extreme => Datum::Date(*rng.pick(&[i32::MIN, i32::MAX - 10_957])),
        DataType::Date => Datum::Date(small as i32),
        DataType::Timestamp | DataType::TimestampTz if extreme => {
            Datum::Timestamp(*rng.pick(&[i64::MIN, i64::MAX - 946_684_800_000_000]))
        }
        DataType::Timestamp | DataType::TimestampTz => Datum::Timestamp(small * 1_000_003),
        DataType::Uuid => Datum::Uuid(if extreme { [0xFF; 16] } else { [small as u8; 16] }),
        DataType::Bytea => Datum::Bytes(Arc::from(&vec![0xFF; small.unsigned_abs() as usize][..])),
    }
}

/// One row's life.
#[derive(Clone, Debug)]
struct Version {
    table: TableId,
    partition: PartitionId,
    key: Key,
    row: Row,
    begin: (Rank, LogPosition),
    end: Option<(Rank, LogPosition)>,
}

#[derive(Default)]
struct Model {
    versions: Vec<Version>,
    /// Records so far, per partition.
    logs: BTreeMap<PartitionId, Vec<Rank>>,
    /// What each wrote.
    touched: BTreeMap<(PartitionId, LogPosition), BTreeSet<(TableId, Key)>>,
    /// Catalog changes each partition has still to apply.
    pending: BTreeMap<PartitionId, Vec<(Rank, SchemaChange)>>,
    catalogs: Vec<(Rank, Catalog)>,
    /// Catalog changes applied, with their positions.
    changed: BTreeMap<PartitionId, Vec<LogPosition>>,
    collected: Rank,
    clock: u64,
}

impl Model {
    fn applied(&self, p: PartitionId) -> LogPosition {
        LogPosition(self.logs[&p].len() as u64)
    }

    fn living(&self, p: PartitionId, table: TableId, key: &Key) -> Option<&Version> {
        let same = |v: &&Version| v.end.is_none() && v.partition == p && v.table == table && v.key == *key;
        self.versions.iter().find(same)
    }

    /// Whether two records of a log write the same row.
    fn conflict(&self, p: PartitionId, one: LogPosition, other: LogPosition) -> bool {
        let rows = &self.touched[&(p, one)];
        self.touched[&(p, other)].iter().any(|row| rows.contains(row))
    }

    /// Rows of a table at a cut, complete, in key order.
    fn rows(&self, cut: &Cut, table: &Table, partitions: &BTreeSet<PartitionId>) -> Vec<Vec<Datum>> {
        let includes = |p: PartitionId, mark: (Rank, LogPosition)| match cut {
            Cut::Rank(t) => mark.0 <= *t,
            Cut::Set(set) => mark.0 <= set.base || set.above[&p].contains(&mark.1),
            Cut::Epoch(_) => unreachable!(),
        };
        let mut rows: Vec<_> = self
            .versions
            .iter()
            .filter(|v| v.table == table.id && partitions.contains(&v.partition))
            .filter(|v| {
                includes(v.partition, v.begin) && !v.end.is_some_and(|end| includes(v.partition, end))
            })
            .map(|v| (v.partition, v.key.clone(), table.complete(&v.row)))
            .collect();
        rows.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        sorted(rows.into_iter().map(|(_, _, row)| row).collect())
    }
}

fn sorted(mut rows: Vec<Vec<Datum>>) -> Vec<Vec<Datum>> {
    rows.sort_by_cached_key(|row| format!("{row:?}"));
    rows
}

fn scanned(snapshot: &TableSnapshot, projection: &[usize], filters: &[ColumnPredicate]) -> Vec<Vec<Datum>> {
    let columns = &snapshot.table().columns;
    let mut rows = Vec::new();
    for unit in 0..snapshot.unit_count() {
        let mut seen = 0;
        for batch in snapshot.scan(unit, projection, filters) {
            assert!(batch.num_rows() > 0);
            assert_eq!(batch.num_columns(), projection.len());
            seen += batch.num_rows();
            for row in 0..batch.num_rows() {
                let value = |(i, c): (usize, &usize)| datum_at(columns[*c].data_type, batch.column(i), row);
                rows.push(projection.iter().enumerate().map(value).collect());
            }
        }
        assert!(seen <= snapshot.unit_rows(unit));
        if !snapshot.unit_may_match(unit, filters) {
            assert_eq!(seen, 0);
        }
    }
    sorted(rows)
}

fn satisfies(row: &[Datum], filter: &ColumnPredicate) -> bool {
    use std::cmp::Ordering::*;
    match filter {
        ColumnPredicate::Compare { column, comparison, value } => match row[*column].compare(value) {
            None => false,
            Some(order) => match comparison {
                Comparison::Eq => order == Equal,
                Comparison::Lt => order == Less,
                Comparison::Le => order != Greater,
                Comparison::Gt => order == Greater,
                Comparison::Ge => order != Less,
            },
        },
        ColumnPredicate::In { column, values } => {
            values.iter().any(|v| row[*column].compare(v) == Some(Equal))
        }
        ColumnPredicate::IsNull { column } => row[*column].is_null(),
        ColumnPredicate::IsNotNull { column } => !row[*column].is_null(),
    }
}

fn predicate(rng: &mut Rng, table: &Table) -> ColumnPredicate {
    let column = rng.below(table.columns.len() as u64) as usize;
    let data_type = table.columns[column].data_type;
    match rng.below(8) {
        0 => ColumnPredicate::IsNull { column },
        1 => ColumnPredicate::IsNotNull { column },
        2 => ColumnPredicate::In { column, values: (0..3).map(|_| value(rng, data_type)).collect() },
        _ => {
            let comparison =
                *rng.pick(&[Comparison::Eq, Comparison::Lt, Comparison::Le, Comparison::Gt, Comparison::Ge]);
            ColumnPredicate::Compare { column, comparison, value: value(rng, data_type) }
        }
    }
}

struct World {
    rng: Rng,
    model: Model,
    store: ColumnStore,
    jobs: Vec<MergeJob>,
    /// Snapshots with what they showed when they were taken.
    kept: Vec<(TableSnapshot, Vec<Vec<Datum>>)>,
    next_key: i64,
    /// Patches applied so far.
    patches: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let rng = Rng::new(seed);
        let mut knobs = rng.fork("knobs");
        let mut catalog = Catalog::default();
        let actions = tables().into_iter().map(SchemaAction::CreateTable).collect();
        catalog.apply(&SchemaChange { base_version: 0, actions }).expect("empty so far");
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

    fn partition(&mut self) -> PartitionId {
        PartitionId(self.rng.below(PARTITIONS.into()) as u16)
    }

    fn apply(&mut self) {
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
    fn change_catalog(&mut self) {
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
        let change = SchemaChange { base_version: newest.version, actions: vec![action] };
        let mut next = newest;
        next.apply(&change).expect("made for it");
        let highest = self.model.logs.values().flatten().max().copied().unwrap_or_default();
        let rank = Rank(highest.0.max(self.model.collected.0).max(self.model.clock) + 10);
        self.model.clock = rank.0;
        self.model.catalogs.push((rank, next));
        self.model.pending.values_mut().for_each(|p| p.push((rank, change.clone())));
    }

    fn collect(&mut self) {
        // Nothing at or below it may still come.
        let next = self.model.pending.values().flatten().map(|(rank, _)| rank.0 - 20).min();
        let highest = self.model.clock.saturating_sub(self.rng.below(30)).min(next.unwrap_or(u64::MAX));
        self.model.collected = self.model.collected.max(Rank(highest));
    }

    fn cut(&mut self) -> Cut {
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

    fn snapshot(&mut self) {
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
                assert_eq!(error.state, base::error::SqlState::UNDEFINED_TABLE);
            }
            return;
        };
        let snapshot = snapshot.unwrap_or_else(|e| panic!("{cut:?}: {e} {:?}", e.detail));
        if snapshot.table().version != table.version {
            let told = self.model.changed.values().map(Vec::len).max().unwrap();
            assert!(matches!(cut, Cut::Rank(_)) && told < version, "the catalog is the cut's");
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

    fn check_filters(&mut self, snapshot: &TableSnapshot, expected: &[Vec<Datum>]) {
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
    fn sent(&mut self, snapshot: &TableSnapshot, expected: &[Vec<Datum>]) -> TableSnapshot {
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

    fn check_kept(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let at = self.rng.below(self.kept.len() as u64) as usize;
        let (snapshot, expected) = self.kept.swap_remove(at);
        let all: Vec<usize> = (0..snapshot.table().columns.len()).collect();
        assert_eq!(scanned(&snapshot, &all, &[]), expected, "a snapshot never changes");
    }

    fn merge(&mut self) {
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

fn check_statistics(snapshot: &TableSnapshot, expected: &[Vec<Datum>]) {
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

/// Answers how many patches were applied.
fn run(seed: u64) -> usize {
    let mut world = World::new(seed);
    let changes = world.rng.chance(0.5);
    for _ in 0..500 {
        match world.rng.below(100) {
            0..60 => world.apply(),
            60..62 if changes => world.change_catalog(),
            62..66 => world.collect(),
            66..82 => world.merge(),
            82..92 => world.snapshot(),
            _ => world.check_kept(),
        }
    }
    let newest = world.model.logs.values().flatten().max().copied().unwrap_or_default();
    for job in std::mem::take(&mut world.jobs) {
        world.store.install(job.run());
    }
    // When everything is collected and merged, nothing dead is left in segments that were rewritten.
    world.model.collected = world.model.collected.max(newest);
    while world.store.merge_step(1000, world.model.collected) > 0 {}
    world.snapshot();
    while !world.kept.is_empty() {
        world.check_kept();
    }
    world.patches
}

#[test]
fn every_snapshot_equals_the_naive_list_at_its_cut_for_ever() {
    let mut patches = 0;
    for seed in 0..60 {
        // The last line before a failure names the seed.
        println!("seed {seed}");
        patches += run(seed);
    }
    assert!(patches > 1_000, "{patches} patches");
}

#[test]
fn a_cut_below_what_was_collected_is_refused() {
    let mut world = World::new(7);
    (0..200).for_each(|_| world.apply());
    world.model.collected = Rank(world.model.clock);
    world.store.merge_step(100_000, world.model.collected);
    let old = Cut::Rank(world.model.collected.previous());
    let partitions = BTreeSet::from([PartitionId(0)]);
    let error = world.store.snapshot(&old, TableId(1), &partitions).unwrap_err();
    assert_eq!(error.state, base::error::SqlState::SNAPSHOT_TOO_OLD);
    let above = BTreeMap::from([(PartitionId(0), BTreeSet::from([world.model.applied(PartitionId(0))]))]);
    let old = Cut::Set(ClosedSet { base: world.model.collected.previous(), above });
    let error = world.store.snapshot(&old, TableId(1), &partitions).unwrap_err();
    assert_eq!(error.state, base::error::SqlState::SNAPSHOT_TOO_OLD);
    let epoch = world.store.snapshot(&Cut::Epoch(1), TableId(1), &partitions).unwrap_err();
    assert_eq!(epoch.state, base::error::SqlState::FEATURE_NOT_SUPPORTED);
}

#[test]
#[should_panic(expected = "has a gap")]
fn a_gap_in_a_log_is_our_mistake() {
    let mut world = World::new(1);
    let position = LogPosition(2);
    world.store.apply(&CommitRecord {
        txn: TxnId::MIN,
        rank: Rank(1),
        partition: PartitionId(0),
        position,
        writes: vec![],
        schema: None,
    });
}

/// A thousand rows of the slim table in one partition, in segments of a few blocks.
fn a_thousand_rows() -> ColumnStore {
    let mut catalog = Catalog::default();
    let actions = tables().into_iter().map(SchemaAction::CreateTable).collect();
    catalog.apply(&SchemaChange { base_version: 0, actions }).expect("empty so far");
    let options = Options {
        chunk_rows: 16,
        block_rows: 64,
        segment_rows: 256,
        segment_bytes: 1 << 20,
        merge_rows_min: 64,
        merge_share_min: 16,
        unread_times: 4,
        unread_bytes_max: 1 << 20,
        small_segments_max: 2,
        follows_only: false,
    };
    let mut store = ColumnStore::with_options([PartitionId(0)], Arc::new(catalog), options);
    for i in 0..1000 {
        let values = [Datum::text(format!("k{i:04}")), Datum::Int(i)];
        let key = Key::of(&values[..1]);
        let write = RowWrite::new(TableId(2), key, Some(Row::of(&values)));
        store.apply(&CommitRecord {
            txn: TxnId::MIN,
            rank: Rank(i as u64 + 1),
            partition: PartitionId(0),
            position: LogPosition(i as u64 + 1),
            writes: vec![write],
            schema: None,
        });
    }
    while store.merge_step(1000, Rank(500)) > 0 {}
    store
}

#[test]
fn a_cut_before_rows_that_were_patched_is_refused() {
    let mut store = a_thousand_rows();
    let partitions = BTreeSet::from([PartitionId(0)]);
    for i in 0..64 {
        let values = [Datum::text(format!("k{i:04}")), Datum::Int(-i)];
        let key = Key::of(&values[..1]);
        store.apply(&CommitRecord {
            txn: TxnId::MIN,
            rank: Rank(i as u64 + 1001),
            partition: PartitionId(0),
            position: LogPosition(i as u64 + 1001),
            writes: vec![RowWrite::new(TableId(2), key, Some(Row::of(&values)))],
            schema: None,
        });
    }
    let at = |base, named: &[u64]| {
        let named = named.iter().map(|at| LogPosition(*at)).collect();
        Cut::Set(ClosedSet { base: Rank(base), above: BTreeMap::from([(PartitionId(0), named)]) })
    };
    let sum = |snapshot: TableSnapshot| -> i64 {
        scanned(&snapshot, &[1], &[]).iter().map(|row| row[0].int()).sum()
    };
    let all = (0..1000).sum::<i64>();
    let within = |store: &mut ColumnStore| store.snapshot(&at(1004, &[1010, 1064]), TableId(2), &partitions);
    assert_eq!(sum(within(&mut store).unwrap()), all - 2 * (1 + 2 + 3 + 9 + 63));
    while store.merge_step(1000, Rank(2000)) > 0 {}
    let status = store.status();
    assert_eq!(status.versions - status.rows, status.delta_rows, "all others went back to their places");
    assert_eq!(within(&mut store).unwrap_err().state, base::error::SqlState::SNAPSHOT_TOO_OLD);
    let now = store.snapshot(&at(2000, &[]), TableId(2), &partitions).unwrap();
    assert_eq!(sum(now), all - 2 * (0..64).sum::<i64>());
}

#[test]
fn zone_maps_leave_blocks_out() {
    let mut store = a_thousand_rows();
    let partitions = BTreeSet::from([PartitionId(0)]);
    let snapshot = store.snapshot(&Cut::Rank(Rank(1000)), TableId(2), &partitions).unwrap();
    let compare = |column, comparison, value| ColumnPredicate::Compare { column, comparison, value };
    for filters in [
        vec![compare(1, Comparison::Ge, Datum::Int(300)), compare(1, Comparison::Lt, Datum::Int(310))],
        vec![compare(0, Comparison::Eq, Datum::text("k0777"))],
        vec![ColumnPredicate::In { column: 1, values: vec![Datum::Int(5), Datum::Int(999)] }],
    ] {
        let found = scanned(&snapshot, &[0, 1], &filters);
        let all = scanned(&snapshot, &[0, 1], &[]);
        let matching = |rows: &[Vec<Datum>]| -> Vec<Vec<Datum>> {
            rows.iter().filter(|r| filters.iter().all(|f| satisfies(r, f))).cloned().collect()
        };
        assert_eq!(matching(&found), matching(&all));
        assert!(found.len() <= 2 * 64, "{} rows read for {filters:?}", found.len());
    }
    assert_eq!(scanned(&snapshot, &[0], &[ColumnPredicate::IsNull { column: 1 }]), Vec::<Vec<Datum>>::new());
}

#[test]
fn loading_in_key_order_ends_in_few_segments() {
    let mut store = a_thousand_rows();
    let status = store.status();
    assert_eq!((status.rows, status.versions), (1000, 1000));
    assert!(status.delta_rows < 64 + 16, "{status:?}");
    assert!(status.segments <= 9, "{status:?}");
    // A merge of any size goes on with the rest.
    while store.merge_step(1, Rank(1000)) > 0 {}
    assert!(store.status().segments <= status.segments);
    let partitions = BTreeSet::from([PartitionId(0)]);
    let snapshot = store.snapshot(&Cut::Rank(Rank(1000)), TableId(2), &partitions).unwrap();
    let statistics = snapshot.statistics();
    assert!(statistics.exact);
    assert_eq!(statistics.columns[1].bounds, Some((Datum::Int(0), Datum::Int(999))));
    assert_eq!(statistics.columns[0].distinct, Some(1000));
    let estimate = statistics.columns[1].distinct.unwrap();
    assert!(estimate.abs_diff(1000) < 200, "{estimate}");
}

#[test]
fn pieces_travel_between_threads() {
    fn travels<T: Send + Sync + 'static>() {}
    travels::<TableSnapshot>();
    travels::<Scan>();
    travels::<MergeJob>();
    travels::<MergedSegment>();
    travels::<ColumnStore>();
}

#[test]
fn values_of_a_kindred_type_are_cast() {
    let numeric = DataType::Numeric { precision: 8, scale: 2 };
    let cases = [
        (DataType::Double, Datum::Int(3), Datum::Float(3.0)),
        (numeric, Datum::Int(3), Datum::Decimal(Decimal::new(300, 2))),
        (numeric, Datum::Decimal(Decimal::new(35, 1)), Datum::Decimal(Decimal::new(350, 2))),
        (DataType::Timestamp, Datum::Date(1), Datum::Timestamp(86_400_000_000)),
        (DataType::Integer, Datum::Null, Datum::Null),
    ];
    for (data_type, given, kept) in cases {
        assert_eq!(datum_at(data_type, &array_of(data_type, &[given]), 0), kept);
    }
}

/// A catalog with both tables.
fn both_tables() -> Arc<Catalog> {
    let mut catalog = Catalog::default();
    let actions = tables().into_iter().map(SchemaAction::CreateTable).collect();
    catalog.apply(&SchemaChange { base_version: 0, actions }).expect("empty so far");
    Arc::new(catalog)
}

#[test]
fn a_table_is_there_at_every_cut_that_has_a_copy_whichever_copy_came_first() {
    let (first, second, table) = (PartitionId(0), PartitionId(1), tables()[1].id);
    let mut store = ColumnStore::new([first, second], Arc::default());
    store.begin_copy(first, LogPosition(9), Rank(100), &both_tables());
    store.begin_copy(second, LogPosition(4), Rank(50), &both_tables());
    let mut read = |rank, partition| {
        let snapshot = store.snapshot(&Cut::Rank(rank), table, &BTreeSet::from([partition]));
        snapshot.map(|_| ()).map_err(|error| error.state)
    };
    assert_eq!(read(Rank(60), second), Ok(()));
    assert_eq!(read(Rank(60), first), Err(SqlState::SNAPSHOT_TOO_OLD));
    assert_eq!(read(Rank(40), second), Err(SqlState::SNAPSHOT_TOO_OLD));
}

#[test]
fn who_only_follows_keeps_positions_and_no_rows() {
    let options = Options { follows_only: true, ..Options::default() };
    let mut store = ColumnStore::with_options([PartitionId(0)], both_tables(), options);
    let values = [Datum::text("k"), Datum::Int(1)];
    let (table, key, row) = (tables()[1].id, Key::of(&values[..1]), Some(Row::of(&values)));
    store.apply(&CommitRecord {
        txn: TxnId::MIN,
        rank: Rank(1),
        partition: PartitionId(0),
        position: LogPosition(1),
        writes: vec![RowWrite::new(table, key, row)],
        schema: None,
    });
    assert_eq!(store.status().versions, 0);
    assert_eq!(store.applied(PartitionId(0)), (LogPosition(1), Rank(1)));
    let refused = store.snapshot(&Cut::Rank(Rank(1)), tables()[1].id, &BTreeSet::from([PartitionId(0)]));
    assert_eq!(refused.map(|_| ()).map_err(|error| error.state), Err(SqlState::FEATURE_NOT_SUPPORTED));
}
