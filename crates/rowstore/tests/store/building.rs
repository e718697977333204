//! Indexes that come into the catalog before the rows of their table come into them. (That an index agrees with the rows at
//! every cut, at replicas and where write sets are installed as well, is what `support::World::check` checks.)

use crate::support::*;
use base::expr::{BinaryOperator, Expr};
use base::key::KeyRange;
use base::rng::Rng;
use base::schema::{Check, ConfirmedCheck, Identity, Index, SchemaAction, Table};
use base::txn::{RowRead, Statement};
use base::*;
use rowstore::Store;

const T: TableId = TableId(1);
const BY_D: TableId = TableId(3);
const KEYS: i64 = 40;

fn row(a: i64, d: i64) -> Vec<Datum> {
    vec![int(a), int(a), int(a), Datum::text(format!("d{d}"))]
}

/// A table whose index on d is marked, or is not there.
fn described(world: &World, building: Option<bool>) -> Table {
    let known = world.catalog();
    let mut table = known.table(T).map_or_else(|| table(1, "t"), |table| table.as_ref().clone());
    table.indexes.clear();
    table.indexes.extend(building.map(|is_building| {
        let mut index: Index = index(3, "t_d", &[3], false);
        index.form.is_building = is_building;
        index
    }));
    table
}

fn alter(world: &mut World, building: Option<bool>) {
    let next = described(world, building);
    world.schema(vec![SchemaAction::AlterTable(next)]).unwrap();
}

fn enter(world: &mut World, low: Key, high: Option<Key>) {
    let schema_version = world.version(T);
    let target = KeyRange { low, high };
    world.statement(Statement::Enter { table: T, schema_version, index: BY_D, target }).unwrap();
}

/// What others do meanwhile.
fn write(world: &mut World, rng: &mut Rng) {
    let (a, d) = (rng.between(0, KEYS), rng.between(0, 3));
    match rng.below(3) {
        0 => drop(world.insert(T, &[&row(a, d)])),
        1 => drop(world.delete(T, point(&[a, a]))),
        _ => {
            let set = vec![(3, Expr::constant(format!("d{d}")))];
            world.update(T, point(&[a, a]), set).unwrap();
        }
    }
}

fn world(rng: &mut Rng, partitions: u16) -> World {
    let mut world = World::new(partitions);
    let made = described(&world, None);
    world.schema(vec![SchemaAction::CreateTable(made)]).unwrap();
    for a in 0..KEYS {
        if rng.chance(0.7) {
            world.insert(T, &[&row(a, a % 3)]).unwrap();
        }
    }
    world
}

#[test]
fn whatever_was_entered_before_every_row_is_in_an_index_that_is_read() {
    for seed in 0..200 {
        let rng = &mut Rng::new(seed);
        let partitions = rng.between(1, 2) as u16;
        let mut world = world(rng, partitions);
        alter(&mut world, Some(true));
        // Batches of all keys, some of them twice, out of order or not at all.
        let (is_orderly, mut low) = (rng.chance(0.5), 0);
        while low < KEYS {
            let high = low + rng.between(1, 15);
            (0..rng.below(4)).for_each(|_| write(&mut world, rng));
            world.check();
            if is_orderly || rng.chance(0.6) {
                let until = (high < KEYS || rng.chance(0.2)).then(|| key(&[high]));
                enter(&mut world, if low == 0 { Key::new() } else { key(&[low]) }, until);
            }
            if is_orderly || rng.chance(0.7) {
                low = high;
            }
        }
        (0..rng.below(4)).for_each(|_| write(&mut world, rng));
        world.check();
        alter(&mut world, Some(false));
        world.check();
        let built = world.now();
        (0..5).for_each(|_| write(&mut world, rng));
        world.check();
        for store in &world.stores {
            let by_index = RowRead { index: Some(BY_D), ..whole(store.partition(), T) };
            let mut found = store.read(&by_index, built).unwrap();
            found.sort_by(|(a, _), (b, _)| a.cmp(b));
            assert_eq!(found, store.read(&whole(store.partition(), T), built).unwrap(), "seed {seed}");
        }
    }
}

#[test]
fn what_is_entered_already_is_not_looked_at_again() {
    let mut world = world(&mut Rng::new(1), 1).without_twins();
    alter(&mut world, Some(true));
    let rows = world.rows(T).len() as u64;
    enter(&mut world, Key::new(), Some(key(&[KEYS / 2])));
    let late = world.stores[0].late_rows(BY_D);
    assert!(late < rows, "half of {rows} rows are entered, {late} are late");
    enter(&mut world, key(&[KEYS / 2]), None);
    assert_eq!(world.stores[0].late_rows(BY_D), 0);
}

#[test]
fn a_copy_of_an_index_that_is_being_built_goes_on_with_it() {
    for seed in 0..50 {
        let rng = &mut Rng::new(seed);
        let mut world = world(rng, 1).without_twins();
        alter(&mut world, Some(true));
        enter(&mut world, Key::new(), Some(key(&[KEYS / 3])));
        write(&mut world, rng);
        let mut copied = Store::new(PartitionId(0), world.topology.clone(), Default::default());
        let mut plan = world.stores[0].begin_copy();
        while let Some(block) = world.stores[0].copy_more(&mut plan, &|_| false).unwrap() {
            copied.restore(&block).unwrap();
        }
        assert_eq!(copied.late_rows(BY_D), world.stores[0].late_rows(BY_D), "seed {seed}");
        world.stores[0] = copied;
        world.check();
        if rng.chance(0.5) {
            enter(&mut world, key(&[KEYS / 3]), None);
        }
        alter(&mut world, Some(false));
        world.check();
    }
}

#[test]
fn a_unique_index_is_built_over_rows_that_differ_and_over_no_others() {
    let (built, refused) = build_unique_indexes(|world| world);
    assert!(built > 50 && refused > 50, "{built} built, {refused} refused");
}

#[cfg(feature = "mutants")]
#[test]
fn faults_planted_in_index_builds_are_found() {
    for mutant in rowstore::Mutant::ALL {
        let found = std::panic::catch_unwind(|| build_unique_indexes(|world| world.planted(mutant)));
        assert!(found.is_err(), "nothing is wrong with {mutant:?}");
    }
}

/// Builds unique indexes while others write; how many are built, and how many are not since two rows have one entry.
fn build_unique_indexes(prepared: impl Fn(World) -> World) -> (u32, u32) {
    let (mut built, mut refused) = (0, 0);
    for seed in 0..300 {
        let rng = &mut Rng::new(seed);
        let mut world = prepared(World::new(1).without_evaluation());
        world.schema(vec![SchemaAction::CreateTable(table(1, "t"))]).unwrap();
        let row = |a: i64, c: i64| vec![int(a), int(a), int(c), Datum::Null];
        for a in 0..KEYS {
            let c = if rng.chance(0.01) { rng.between(0, KEYS) } else { a };
            world.insert(T, &[&row(a, c)]).unwrap();
        }
        let with_index = |world: &World, is_building: Option<bool>| {
            let mut table = world.catalog().table(T).unwrap().as_ref().clone();
            table.indexes = is_building.map(|_| index(3, "t_c", &[2], true)).into_iter().collect();
            table.indexes.iter_mut().for_each(|index| index.form.is_building = is_building == Some(true));
            vec![SchemaAction::AlterTable(table)]
        };
        world.schema(with_index(&world, Some(true))).unwrap();
        let mut low = 0;
        let ended = loop {
            for _ in 0..rng.below(3) {
                let (a, c) = (rng.between(0, KEYS + 5), rng.between(0, 2 * KEYS));
                let before = world.rows(T);
                let done = match rng.below(3) {
                    0 => world.insert(T, &[&row(a, c)]).map(drop),
                    1 => world.delete(T, point(&[a, a])).map(drop),
                    _ => world.update(T, point(&[a, a]), vec![(2, Expr::constant(c))]).map(drop),
                };
                match done {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
                        assert_eq!(world.rows(T), before);
                    }
                }
                world.check();
            }
            let high = low + rng.between(1, 15);
            let (schema_version, high_key) = (world.version(T), (high < KEYS).then(|| key(&[high])));
            let target = KeyRange { low: if low == 0 { Key::new() } else { key(&[low]) }, high: high_key };
            let entered = world.statement(Statement::Enter { table: T, schema_version, index: BY_D, target });
            if entered.is_err() || high >= KEYS {
                break entered;
            }
            low = high;
        };
        let values: Vec<Datum> = world.rows(T).iter().map(|row| row[2].clone()).collect();
        let are_different =
            |values: &[Datum]| values.iter().enumerate().all(|(nth, value)| !values[..nth].contains(value));
        match ended {
            Ok(_) => {
                world.schema(with_index(&world, Some(false))).unwrap();
                assert!(are_different(&values), "seed {seed}");
                built += 1;
            }
            Err(error) => {
                assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
                assert!(!are_different(&values), "seed {seed}: {error:?}");
                world.schema(with_index(&world, None)).unwrap();
                refused += 1;
            }
        }
        world.check();
    }
    (built, refused)
}

#[test]
fn a_check_is_confirmed_for_the_table_that_was_looked_at_only() {
    let mut world = World::new(1);
    let check = |is_validated| Check {
        name: "few".into(),
        sql: "c < 10".into(),
        expr: Expr::binary(BinaryOperator::Less, Expr::Column(2), Expr::constant(10)),
        is_validated,
    };
    world.schema(vec![SchemaAction::CreateTable(table(1, "t"))]).unwrap();
    world.insert(T, &[&row(1, 1), &row(20, 1)]).unwrap();
    let with = |world: &World, checks: Vec<Check>| {
        let known = world.catalog().table(T).unwrap().as_ref().clone();
        vec![SchemaAction::AlterTable(Table { checks: checks.into(), ..known })]
    };
    let validated = world.schema(with(&world, vec![check(true)])).unwrap_err();
    assert_eq!(validated.state, SqlState::CHECK_VIOLATION);
    world.schema(with(&world, vec![check(false)])).unwrap();
    assert_eq!(world.insert(T, &[&row(30, 1)]).unwrap_err().state, SqlState::CHECK_VIOLATION);
    let confirm = |version: u64, check: &str| {
        SchemaAction::ConfirmCheck(ConfirmedCheck { table: T, version, check: check.into() })
    };
    let looked_at = world.version(T);
    assert_eq!(
        world.schema(vec![confirm(looked_at, "other")]).unwrap_err().state,
        SqlState::SERIALIZATION_FAILURE
    );
    // Whoever confirms it answers for the rows.
    world.schema(vec![confirm(looked_at, "few")]).unwrap();
    assert!(world.catalog().table(T).unwrap().checks[0].is_validated);
    let stale = world.schema(vec![confirm(looked_at, "few")]).unwrap_err();
    assert_eq!(stale.state, SqlState::SERIALIZATION_FAILURE);
}

#[test]
fn a_column_is_not_null_without_a_look_where_a_confirmed_check_says_so() {
    let mut world = World::new(1);
    world.schema(vec![SchemaAction::CreateTable(table(1, "t"))]).unwrap();
    world.insert(T, &[&[int(1), int(1), Datum::Null, Datum::Null]]).unwrap();
    let with = |world: &World, checks: Vec<Check>, not_null: bool| {
        let mut known = world.catalog().table(T).unwrap().as_ref().clone();
        known.columns[2].not_null = not_null;
        SchemaAction::AlterTable(Table { checks: checks.into(), ..known })
    };
    let named = Check {
        name: "n".into(),
        sql: "c IS NOT NULL".into(),
        expr: Expr::is_not_null(2),
        is_validated: false,
    };
    let begun = with(&world, vec![named], false);
    world.schema(vec![begun]).unwrap();
    let ended = with(&world, Vec::new(), true);
    assert_eq!(world.schema(vec![ended.clone()]).unwrap_err().state, SqlState::NOT_NULL_VIOLATION);
    // Said of this very table: the row is not looked at.
    let version = world.version(T);
    let confirmed = ConfirmedCheck { table: T, version, check: "n".into() };
    world.schema(vec![SchemaAction::ConfirmCheck(confirmed), ended]).unwrap();
    assert!(world.catalog().table(T).unwrap().columns[2].not_null);
}

#[test]
fn what_an_index_computes_is_written_to_rows_that_a_check_is_not_for() {
    let mut world = World::new(1);
    let mut made = table(1, "t");
    (made.columns[3].hidden, made.columns[3].identity) = (true, Identity::Generated);
    world.schema(vec![SchemaAction::CreateTable(made)]).unwrap();
    world.insert(T, &[&row(20, 1)]).unwrap();
    let few = Check {
        name: "few".into(),
        sql: "c < 10".into(),
        expr: Expr::binary(BinaryOperator::Less, Expr::Column(2), Expr::constant(10)),
        is_validated: false,
    };
    let known = world.catalog().table(T).unwrap().as_ref().clone();
    world.schema(vec![SchemaAction::AlterTable(Table { checks: vec![few].into(), ..known })]).unwrap();
    let computed = (3, Expr::constant(String::from("d2")));
    world.update(T, KeyRange::all(), vec![computed.clone()]).unwrap();
    let changed = vec![(2, plus(2, 1)), computed];
    let error = world.update(T, KeyRange::all(), changed).unwrap_err();
    assert_eq!(error.state, SqlState::CHECK_VIOLATION);
    world.check();
}
