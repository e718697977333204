//! Random programs over a tiny schema against a model that keeps a whole copy of the table per
//! transaction: same verdicts, same counts, same rows at every cut, before and after collection.

use crate::support::*;
use base::expr::Expr;
use base::key::KeyRange;
use base::rng::Rng;
use base::schema::*;
use base::txn::*;
use base::*;
use rowstore::{CopyPlan, Counters, LiveRows, Reading, Store};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const T: TableId = TableId(1);
const UNIQUE_C: TableId = TableId(2);
const BY_D: TableId = TableId(3);

/// (a, b) → (c, d); c is unique and may be null.
type Id = (i64, i64);
type Content = (Option<i64>, i64);
type Table1 = BTreeMap<Id, Content>;

/// What the model knows of the past.
struct Model {
    /// The table after each transaction that changed something, by rank; the empty table first.
    history: Vec<(u64, Table1)>,
    /// Keys written, entries of d changed, values of c changed, by rank.
    rows: Vec<(u64, Id)>,
    by_d: Vec<(u64, (i64, Id))>,
    by_c: Vec<(u64, i64)>,
}

impl Model {
    fn now(&self) -> &Table1 {
        &self.history.last().unwrap().1
    }
    fn at(&self, rank: u64) -> &Table1 {
        &self.history.iter().rev().find(|(r, _)| *r <= rank).unwrap().1
    }
    fn commit(&mut self, rank: u64, next: Table1, written: BTreeSet<Id>) {
        let now = self.now().clone();
        for id in written {
            let (before, after) = (now.get(&id), next.get(&id));
            if before.is_none() && after.is_none() {
                continue;
            }
            self.rows.push((rank, id));
            let d = |content: Option<&Content>| content.map(|(_, d)| *d);
            if d(before) != d(after) {
                let entries = d(before).into_iter().chain(d(after));
                self.by_d.extend(entries.map(|d| (rank, (d, id))));
            }
            let c = |content: Option<&Content>| content.and_then(|(c, _)| *c);
            if c(before) != c(after) {
                self.by_c.extend(c(before).into_iter().chain(c(after)).map(|c| (rank, c)));
            }
        }
        self.history.push((rank, next));
    }
}

/// What a random program should do.
#[derive(Debug, PartialEq, Clone)]
enum Verdict {
    Commits { affected: u64 },
    Aborts(SqlState),
}

fn values((a, b): Id, (c, d): Content) -> Vec<Datum> {
    vec![int(a), int(b), c.map_or(Datum::Null, Datum::Int), Datum::text(format!("d{d}"))]
}
fn content_of(row: &Row) -> (Id, Content) {
    let v = row.to_vec();
    let c = if v[2].is_null() { None } else { Some(v[2].int()) };
    ((v[0].int(), v[1].int()), (c, v[3].str()[1..].parse().unwrap()))
}
fn random_id(rng: &mut Rng) -> Id {
    (rng.between(0, 3), rng.between(0, 2))
}
fn random_content(rng: &mut Rng) -> Content {
    (rng.chance(0.7).then(|| rng.between(0, 7)), rng.between(0, 2))
}
/// A range of ids: a point, a prefix, an interval, everything.
fn random_range(rng: &mut Rng) -> KeyRange {
    let (a, b) = random_id(rng);
    match rng.below(4) {
        0 => point(&[a, b]),
        1 => KeyRange::prefix(key(&[a])),
        2 => KeyRange { low: key(&[a]), high: Some(key(&[a + rng.between(0, 2), b])) },
        _ => KeyRange::all(),
    }
}
fn contains(range: &KeyRange, id: Id) -> bool {
    range.contains(&key(&[id.0, id.1]))
}
fn holder(table: &Table1, c: Option<i64>) -> Option<Id> {
    let c = c?;
    table.iter().find(|(_, content)| content.0 == Some(c)).map(|(id, _)| *id)
}

/// A statement with what it does to the model's table.
fn random_statement(
    rng: &mut Rng,
    world: &World,
    table: &mut Table1,
    written: &mut BTreeSet<Id>,
) -> (Statement, Verdict) {
    let schema_version = world.version(T);
    let homes = world.stores.len() > 1;
    let unique = Verdict::Aborts(SqlState::UNIQUE_VIOLATION);
    match rng.below(10) {
        0..5 => {
            let rows: Vec<(Id, Content)> =
                (0..rng.between(1, 3)).map(|_| (random_id(rng), random_content(rng))).collect();
            let on_conflict = match if homes { 0 } else { rng.below(6) } {
                0 | 1 => OnConflict::Fail,
                2 => OnConflict::Nothing { index: None },
                3 => OnConflict::Nothing { index: Some(*rng.pick(&[T, UNIQUE_C])) },
                _ => OnConflict::Update {
                    index: *rng.pick(&[T, UNIQUE_C]),
                    set: vec![(3, Expr::Column(7))],
                    filter: None,
                },
            };
            let verdict = insert(table, written, &rows, &on_conflict);
            let rows = rows.iter().map(|(id, content)| Row::of(&values(*id, *content))).collect();
            (Statement::Insert { table: T, schema_version, rows, on_conflict, returning: None }, verdict)
        }
        5..8 => {
            let target = random_range(rng);
            let d = rng.between(0, 2);
            let c = if homes || rng.chance(0.5) { None } else { Some(rng.between(0, 7)) };
            let mut set = vec![(3, Expr::constant(format!("d{d}")))];
            set.extend(c.map(|c| (2, Expr::constant(c))));
            let mut verdict = None;
            let mut affected = 0;
            let ids: Vec<Id> = table.keys().copied().filter(|id| contains(&target, *id)).collect();
            for id in ids {
                if c.is_some() && holder(table, c).is_some_and(|other| other != id) {
                    verdict = Some(unique.clone());
                    break;
                }
                let content = table.get_mut(&id).unwrap();
                *content = (c.or(content.0), d);
                written.insert(id);
                affected += 1;
            }
            let update =
                Statement::Update { table: T, schema_version, target, filter: None, set, returning: None };
            (update, verdict.unwrap_or(Verdict::Commits { affected }))
        }
        8 if rng.chance(0.2) => {
            written.extend(table.keys());
            table.clear();
            (Statement::Truncate { table: T, schema_version }, Verdict::Commits { affected: 0 })
        }
        _ => {
            let target = random_range(rng);
            let ids: Vec<Id> = table.keys().copied().filter(|id| contains(&target, *id)).collect();
            ids.iter().for_each(|id| _ = table.remove(id));
            written.extend(&ids);
            let affected = ids.len() as u64;
            let delete =
                Statement::Delete { table: T, schema_version, target, filter: None, returning: None };
            (delete, Verdict::Commits { affected })
        }
    }
}

fn insert(
    table: &mut Table1,
    written: &mut BTreeSet<Id>,
    rows: &[(Id, Content)],
    on_conflict: &OnConflict,
) -> Verdict {
    let mut affected = 0;
    let mut own = BTreeSet::new();
    for (id, content) in rows {
        let by_key = table.contains_key(id).then_some(*id);
        let by_c = holder(table, content.0);
        let arbiter =
            match on_conflict {
                OnConflict::Fail => None,
                OnConflict::Nothing { index: None } => by_key.or(by_c),
                OnConflict::Nothing { index: Some(index) } | OnConflict::Update { index, .. } => {
                    if *index == T { by_key } else { by_c }
                }
            };
        match (arbiter, on_conflict) {
            (Some(existing), OnConflict::Update { .. }) => {
                if !own.insert(existing) {
                    return Verdict::Aborts(SqlState::CARDINALITY_VIOLATION);
                }
                table.get_mut(&existing).unwrap().1 = content.1;
                written.insert(existing);
                affected += 1;
            }
            (Some(_), _) => {}
            (None, _) if by_key.is_some() || by_c.is_some() => {
                return Verdict::Aborts(SqlState::UNIQUE_VIOLATION);
            }
            (None, _) => {
                own.insert(*id);
                table.insert(*id, *content);
                written.insert(*id);
                affected += 1;
            }
        }
    }
    Verdict::Commits { affected }
}

/// Reads at a past rank, and some writes.
fn random_validated(
    rng: &mut Rng,
    world: &World,
    model: &Model,
    collected: u64,
) -> (Validated, Table1, BTreeSet<Id>, Verdict) {
    let read_at = collected + rng.below(world.rank - collected + 1);
    let changed = |rank: u64| rank > read_at;
    let mut conflict = false;
    let mut reads = Vec::new();
    for _ in 0..rng.below(3) {
        let (granule, range) = match rng.below(3) {
            0 => {
                let range = random_range(rng);
                conflict |= model.rows.iter().any(|(rank, id)| changed(*rank) && contains(&range, *id));
                (T, range)
            }
            1 => {
                let d = rng.between(0, 2);
                conflict |= model.by_d.iter().any(|(rank, (e, _))| changed(*rank) && *e == d);
                (BY_D, KeyRange::prefix(Key::of(&[Datum::text(format!("d{d}"))])))
            }
            _ => {
                let c = rng.between(0, 7);
                conflict |= model.by_c.iter().any(|(rank, e)| changed(*rank) && *e == c);
                (UNIQUE_C, KeyRange::point(key(&[c])))
            }
        };
        let everywhere = world.topology.partition_ids();
        reads.extend(everywhere.map(|partition| ReadGranule {
            partition,
            table: granule,
            range: range.clone(),
            columns: None,
            at: Rank(read_at),
        }));
    }
    let mut next = model.now().clone();
    let mut writes = BTreeMap::new();
    let mut duplicate = false;
    for _ in 0..rng.below(4) {
        let id = random_id(rng);
        if writes.contains_key(&id) {
            continue;
        }
        let content = random_content(rng);
        let row = values(id, content);
        let write = match rng.below(4) {
            0 => world.removal(T, &row),
            1 => world.write(T, &row, WriteKind::Insert),
            _ => world.write(T, &row, WriteKind::Put),
        };
        duplicate |= write.kind == WriteKind::Insert && model.now().contains_key(&id);
        match &write.row {
            Some(_) => next.insert(id, content),
            None => next.remove(&id),
        };
        writes.insert(id, write);
    }
    let taken: Vec<i64> = next.values().filter_map(|(c, _)| *c).collect();
    duplicate |= taken.iter().collect::<BTreeSet<_>>().len() < taken.len();
    let verdict = match (conflict, duplicate) {
        (true, _) => Verdict::Aborts(SqlState::SERIALIZATION_FAILURE),
        (false, true) => Verdict::Aborts(SqlState::UNIQUE_VIOLATION),
        _ => Verdict::Commits { affected: 0 },
    };
    let written = writes.keys().copied().collect();
    let mut writes: Vec<ValidatedWrite> = writes.into_values().collect();
    rng.shuffle(&mut writes);
    (Validated { reads, writes }, next, written, verdict)
}

/// A read that takes several steps finds the rows that a read in one step finds.
fn check_pieces(store: &Store, read: &RowRead, rank: Rank) {
    let at_once = store.read(read, rank).unwrap();
    for keys_max in [1, 3] {
        let mut reading = Reading::new(rank, vec![read.clone(), read.clone()]);
        while !reading.go_on(store, keys_max).unwrap() {}
        assert_eq!(reading.into_rows(), [at_once.clone(), at_once.clone()], "{keys_max} keys at a time");
    }
}

fn check_cut(world: &World, model: &Model, rank: u64) {
    let expected = model.at(rank);
    let found: Table1 = world.rows_at(T, Rank(rank)).values().map(content_of).collect();
    assert_eq!(found, *expected, "rows at {rank}");
    // The same rows through each index, in the index's order.
    for (index, descending) in [(BY_D, false), (BY_D, true), (UNIQUE_C, false)] {
        for store in &world.stores {
            let read = RowRead { index: Some(index), descending, ..whole(store.partition(), T) };
            let found: Vec<(Id, Content)> =
                store.read(&read, Rank(rank)).unwrap().iter().map(|(_, row)| content_of(row)).collect();
            check_pieces(store, &read, Rank(rank));
            check_pieces(store, &RowRead { index: None, limit: Some(3), ..read.clone() }, Rank(rank));
            let here = |id: &Id| world.home(T, &[int(id.0)]) == store.partition();
            let mut expected: Vec<(Id, Content)> =
                expected.iter().filter(|(id, _)| here(id)).map(|(id, c)| (*id, *c)).collect();
            match index {
                BY_D => expected.sort_by_key(|(id, (_, d))| (*d, *id)),
                // Nulls last, by primary key.
                _ => expected.sort_by_key(|(id, (c, _))| (c.is_none(), *c, *id)),
            }
            if descending {
                expected.reverse();
            }
            assert_eq!(found, expected, "through {index} at {rank}");
        }
    }
}

/// How often each thing happened, so that the test cannot pass by doing nothing.
#[derive(Default, Debug)]
struct Seen {
    commits: u64,
    pauses: u64,
    conflicts: u64,
    duplicates: u64,
    twice: u64,
    collected_rows: u64,
    slow_copies: u64,
}

/// A copy of all stores whose blocks are made one by one while transactions go on.
struct SlowCopy {
    plans: Vec<CopyPlan>,
    /// What would have been copied at once.
    expected: Vec<VecDeque<Vec<u8>>>,
    /// The rows alone, for a reader: how far each store is, and what it has still to give.
    live: Vec<(LiveRows, VecDeque<(Key, Row)>)>,
    since: BTreeSet<TxnId>,
}

/// Keys that one piece of a copy of rows looks at.
const KEYS_A_PIECE: usize = 3;

impl SlowCopy {
    fn new(stores: &[Store]) -> SlowCopy {
        SlowCopy {
            plans: stores.iter().map(Store::begin_copy).collect(),
            expected: stores.iter().map(|store| blocks_of(store).into()).collect(),
            live: stores.iter().map(|store| (store.begin_rows(), rows_of(store))).collect(),
            since: BTreeSet::new(),
        }
    }
    /// Makes the next block of each store; whether that was all.
    fn go_on(&mut self, stores: &[Store]) -> bool {
        let mut is_over = true;
        for ((store, plan), expected) in stores.iter().zip(&mut self.plans).zip(&mut self.expected) {
            let is_newer = |place: &Place| self.since.contains(&place.txn);
            let block = store.copy_more(plan, &is_newer).expect("the catalog stays");
            is_over &= block.is_none();
            assert_eq!(block, expected.pop_front(), "a block is as of the moment when the copy began");
        }
        for (store, (copy, expected)) in stores.iter().zip(&mut self.live) {
            let is_newer = |place: &Place| self.since.contains(&place.txn);
            let Some((_, rows)) = store.more_rows(copy, KEYS_A_PIECE, &is_newer).expect("the catalog stays")
            else {
                assert!(expected.is_empty(), "all rows of that moment");
                continue;
            };
            is_over = false;
            assert!(rows.len() <= KEYS_A_PIECE, "a piece is bounded");
            for row in rows {
                assert_eq!(Some(row), expected.pop_front(), "a row is as of the moment when the copy began");
            }
        }
        is_over
    }
}

fn rows_of(store: &Store) -> VecDeque<(Key, Row)> {
    let mut rows = VecDeque::new();
    store.scan_at(T, &KeyRange::all(), Place::end_of(Rank::MAX), false, &mut |key, row| {
        rows.push_back((key.clone(), row.clone()));
        true
    });
    rows
}

fn blocks_of(store: &Store) -> Vec<Vec<u8>> {
    let mut plan = store.begin_copy();
    std::iter::from_fn(|| store.copy_more(&mut plan, &|_| false).expect("the catalog stays")).collect()
}

fn run(seed: u64, partitions: u16, steps: usize, seen: &mut Seen) {
    let mut rng = Rng::new(seed);
    let mut world = World::new(partitions);
    let indexes = vec![index(2, "t_c_key", &[2], true), index(3, "t_d", &[3], false)];
    world.schema(vec![SchemaAction::CreateTable(base::schema::Table { indexes, ..table(1, "t") })]).unwrap();
    let first = world.rank;
    let mut model = Model {
        history: vec![(first, BTreeMap::new())],
        rows: Vec::new(),
        by_d: Vec::new(),
        by_c: Vec::new(),
    };
    let mut collected = first;
    let mut slow: Option<SlowCopy> = None;
    for step in 0..steps {
        // Ties in rank happen; the transaction's id decides.
        world.rank += rng.below(3);
        let (program, next, written, verdict) = if rng.chance(0.3) {
            let (validated, next, written, verdict) = random_validated(&mut rng, &world, &model, collected);
            (TxnProgram::Validated(validated), next, written, verdict)
        } else {
            let (mut next, mut written) = (model.now().clone(), BTreeSet::new());
            let mut statements = Vec::new();
            let mut total = 0;
            let mut verdict = None;
            // A second statement may need to know, at an entry's home, what the first one removed.
            let count = if partitions > 1 { 1 } else { rng.between(1, 3) };
            for _ in 0..count {
                let (statement, one) = random_statement(&mut rng, &world, &mut next, &mut written);
                statements.push(statement);
                match one {
                    Verdict::Commits { affected } => total += affected,
                    abort => {
                        verdict = Some(abort);
                        break;
                    }
                }
            }
            let verdict = verdict.unwrap_or(Verdict::Commits { affected: total });
            (TxnProgram::Statements(statements), next, written, verdict)
        };
        let access = world.everything();
        let transaction = world.transaction(program, access);
        let rank = world.rank;
        if let Some(slow) = &mut slow {
            slow.since.insert(transaction.id);
        }
        world.forget_prepared = rng.chance(0.3);
        let found = match world.run_at(&transaction, rank) {
            Outcome::Committed { results } => {
                Verdict::Commits { affected: results.iter().map(|r| r.affected).sum() }
            }
            Outcome::Aborted(error) => Verdict::Aborts(error.state),
        };
        assert_eq!(
            found,
            verdict,
            "seed {seed} step {step}: {:?} over {:?}",
            transaction.program,
            model.now()
        );
        match verdict {
            Verdict::Commits { .. } => {
                model.commit(rank, next, written);
                seen.commits += 1;
            }
            Verdict::Aborts(SqlState::SERIALIZATION_FAILURE) => seen.conflicts += 1,
            Verdict::Aborts(SqlState::UNIQUE_VIOLATION) => seen.duplicates += 1,
            Verdict::Aborts(_) => seen.twice += 1,
        }
        if slow.as_mut().is_some_and(|slow| slow.go_on(&world.stores)) {
            slow = None;
            seen.slow_copies += 1;
        }
        if slow.is_none() && step % 30 == 10 {
            slow = Some(SlowCopy::new(&world.stores));
        }
        if slow.is_none() && rng.chance(0.1) {
            collected += rng.below(world.rank - collected + 1);
            let budget = rng.between(0, 20) as usize;
            let before: u64 = world.stores.iter().map(|s| s.counters().versions).sum();
            world.stores.iter_mut().for_each(|s| _ = s.collect(Rank(collected), budget));
            seen.collected_rows += before - world.stores.iter().map(|s| s.counters().versions).sum::<u64>();
            for store in &world.stores {
                let below = store.read(&whole(store.partition(), T), Rank(collected).previous());
                assert_eq!(below.unwrap_err().state, SqlState::SNAPSHOT_TOO_OLD);
            }
        }
        if slow.is_none() && step % 40 == 39 {
            // Another store goes on from a copy.
            for store in &mut world.stores {
                let Counters { rows, versions, bytes, .. } = store.counters();
                let blocks = blocks_of(store);
                blocks.iter().for_each(|block| store.restore(block).expect("it was just written"));
                let copy = store.counters();
                assert_eq!((copy.rows, copy.versions, copy.bytes), (rows, versions, bytes));
                store.check_invariants();
            }
        }
        if step % 25 == 24 || step + 1 == steps {
            world.check();
            (collected..=world.rank).for_each(|cut| check_cut(&world, &model, cut));
        }
    }
    // Everything superseded goes in the end.
    let last = Rank(world.rank);
    for store in &mut world.stores {
        while store.collect(last, 7) {}
        let counters = store.counters();
        assert_eq!((counters.versions, counters.garbage), (counters.rows, 0));
    }
    world.check();
    check_cut(&world, &model, last.0);
    seen.pauses += world.pauses;
}

#[test]
fn random_programs_agree_with_a_copy_per_version() {
    for partitions in [1, 2, 5] {
        let mut seen = Seen::default();
        (0..60).for_each(|seed| run(seed, partitions, 120, &mut seen));
        let reached = [seen.commits, seen.conflicts, seen.duplicates, seen.collected_rows, seen.pauses];
        assert!(reached.iter().all(|count| *count > 100) && seen.slow_copies > 60, "{seen:?}");
        assert!(partitions > 1 || seen.twice > 10, "{seen:?}");
    }
}
