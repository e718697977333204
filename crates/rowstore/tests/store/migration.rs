//! A change of the catalog and rows in one transaction.

use crate::support::*;
use base::expr::{BinaryOperator, Expr};
use base::key::KeyRange;
use base::schema::*;
use base::txn::*;
use base::*;
use rowstore::Unfinished;
use std::collections::BTreeMap;

const T: TableId = TableId(1);
const U: TableId = TableId(2);
const UNIQUE_C: TableId = TableId(7);

fn row(a: i64, b: i64, c: i64) -> Vec<Datum> {
    vec![int(a), int(b), int(c), Datum::text("x")]
}
fn write(world: &World, next: &Catalog, id: TableId, values: &[Datum], kind: WriteKind) -> ValidatedWrite {
    let desc = next.table(id).unwrap();
    let partition = match desc.locate_row(values, &world.topology) {
        Location::One(partition) => partition,
        Location::Everywhere => PartitionId(0),
    };
    let key = desc.key_of(values);
    ValidatedWrite {
        partition,
        table: id,
        schema_version: desc.version,
        key,
        kind,
        row: Some(Row::of(values)),
    }
}
fn by_c(world: &World, unique: bool) -> SchemaAction {
    let indexes = vec![index(UNIQUE_C.0, "t_c", &[2], unique)];
    SchemaAction::AlterTable(Table { indexes, ..Table::clone(&world.table("t")) })
}
/// Three partitions, and rows with c of 10, 20 and 20.
fn world() -> World {
    let mut world = World::new(3);
    world.schema(vec![SchemaAction::CreateTable(table(T.0, "t"))]).unwrap();
    world.insert(T, &[&row(1, 1, 10), &row(2, 1, 20), &row(3, 1, 20)]).unwrap();
    world
}
/// Runs with what was prepared at hand, and forgotten.
fn both(test: impl Fn(&mut World)) {
    for forget in [false, true] {
        let mut world = world();
        world.forget_prepared = forget;
        test(&mut world);
        world.check();
    }
}
fn migrate(
    w: &mut World,
    actions: Vec<SchemaAction>,
    rows: &[(TableId, Vec<Datum>, WriteKind)],
) -> Result<(), SqlError> {
    let mut next = Catalog::clone(&w.catalog());
    next.apply(&SchemaChange {
        database: Default::default(),
        base_version: next.version,
        actions: actions.clone(),
    })?;
    let writes = rows.iter().map(|(id, values, kind)| write(w, &next, *id, values, *kind)).collect();
    w.migrate(actions, writes)
}

#[test]
fn a_table_is_made_and_filled_or_neither() {
    both(|w| {
        let make = || vec![SchemaAction::CreateTable(table(U.0, "u"))];
        let taken = [(U, row(1, 1, 1), WriteKind::Insert), (T, row(1, 1, 1), WriteKind::Insert)];
        let error = migrate(w, make(), &taken).unwrap_err();
        assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
        assert!(w.catalog().require("u").is_err());
        let rows = [(U, row(1, 1, 1), WriteKind::Insert), (U, row(2, 1, 1), WriteKind::Insert)];
        migrate(w, make(), &rows).unwrap();
        assert_eq!(w.rows_at(U, w.now()).len(), 2);
    });
}

#[test]
fn a_table_is_filled_in_steps_and_nobody_sees_a_part_of_it() {
    let mut w = world();
    let made = Table { indexes: vec![index(UNIQUE_C.0, "u_c", &[2], true)], ..table(U.0, "u") };
    let actions = vec![SchemaAction::CreateTable(made)];
    let base_version = w.catalog().version;
    let change = SchemaChange { database: Default::default(), base_version, actions };
    let mut next = Catalog::clone(&w.catalog());
    next.apply(&change).unwrap();
    let writes = (0..300).map(|n| write(&w, &next, U, &row(n, 1, n), WriteKind::Insert)).collect();
    let rows = Validated { reads: Vec::new(), writes };
    let access = w.everything();
    let transaction = w.transaction(TxnProgram::Migration(Migration { change, rows }), access);
    let place = Place::new(Rank(w.now().0 + 10), transaction.id);
    let mut gathered = BTreeMap::new();
    let mut unfinished: Vec<Unfinished> = w.stores.iter().map(|_| Unfinished::default()).collect();
    for (store, unfinished) in w.stores.iter_mut().zip(&mut unfinished) {
        let mut steps = 1;
        let values = loop {
            match store.gather_some(unfinished, &transaction, 64) {
                Some(values) => break values,
                None => steps += 1,
            }
        };
        assert!(steps > 10, "{steps}");
        gathered.insert(store.partition(), values);
    }
    for (store, unfinished) in w.stores.iter_mut().zip(&mut unfinished) {
        let (before, mut steps) = ((store.catalog().clone(), store.counters()), 1);
        while store.apply_some(unfinished, &transaction, place, &gathered, 16).is_none() {
            assert_eq!((store.catalog(), store.counters()), (&before.0, before.1));
            assert_eq!(store.row_count(U), 0);
            steps += 1;
        }
        assert!(steps > 10, "{steps}");
        let rows = store.row_count(U);
        assert_eq!(store.counters().rows, before.1.rows + rows);
        assert!(rows > 0, "each partition has a part");
    }
}

#[test]
fn a_constraint_asks_what_the_transaction_leaves() {
    both(|w| {
        let expr = Expr::binary(BinaryOperator::Less, Expr::Column(2), Expr::constant(20));
        let check = Check { name: "small".into(), sql: "c < 20".into(), expr, is_validated: true };
        let checked = Table { checks: vec![check].into(), ..Table::clone(&w.table("t")) };
        let alter = || vec![SchemaAction::AlterTable(checked.clone())];
        let second = (T, row(2, 1, 2), WriteKind::Put);
        let third = (T, row(3, 1, 3), WriteKind::Put);
        let wrong = (T, row(3, 1, 30), WriteKind::Put);
        for rows in [vec![], vec![second.clone()], vec![second.clone(), wrong]] {
            assert_eq!(migrate(w, alter(), &rows).unwrap_err().state, SqlState::CHECK_VIOLATION);
        }
        migrate(w, alter(), &[second, third]).unwrap();
        assert_eq!(w.table("t").checks.len(), 1);
    });
}

#[test]
fn rows_that_come_with_a_change_may_be_against_a_check_that_is_not_validated() {
    both(|w| {
        let expr = Expr::binary(BinaryOperator::Less, Expr::Column(2), Expr::constant(20));
        let check = Check { name: "small".into(), sql: "c < 20".into(), expr, is_validated: false };
        let checked = Table { checks: vec![check].into(), ..Table::clone(&w.table("t")) };
        migrate(w, vec![SchemaAction::AlterTable(checked)], &[(T, row(3, 1, 30), WriteKind::Put)]).unwrap();
        let wrong = w.insert(T, &[&row(4, 1, 30)]).unwrap_err();
        assert_eq!(wrong.state, SqlState::CHECK_VIOLATION);
        let wrong = w.write(T, &row(3, 1, 31), WriteKind::Put);
        assert_eq!(
            w.validated(w.now(), Vec::new(), vec![wrong]).unwrap_err().state,
            SqlState::CHECK_VIOLATION
        );
    });
}

#[test]
fn a_new_index_holds_the_rows_of_before_and_those_written_with_it() {
    both(|w| {
        // One row keeps its entry, one changes it, one is new, one is left alone.
        let change = [
            (T, row(1, 1, 10), WriteKind::Put),
            (T, row(2, 1, 11), WriteKind::Put),
            (T, row(4, 1, 20), WriteKind::Insert),
        ];
        let action = by_c(w, false);
        migrate(w, vec![action], &change).unwrap();
        let mut found = Vec::new();
        for store in &w.stores {
            let read = RowRead { index: Some(UNIQUE_C), ..whole(store.partition(), T) };
            found.extend(
                store.read(&read, w.now()).unwrap().into_iter().map(|(_, row)| row.to_vec()[2].int()),
            );
        }
        found.sort();
        assert_eq!(found, [10, 11, 20, 20]);
    });
}

#[test]
fn a_new_unique_index_asks_what_the_transaction_leaves() {
    both(|w| {
        // Entries have homes of their own: whatever keeps one is written again.
        let all = |c: [i64; 3]| -> Vec<(TableId, Vec<Datum>, WriteKind)> {
            (0..3).map(|n| (T, row(n as i64 + 1, 1, c[n]), WriteKind::Put)).collect()
        };
        let action = by_c(w, true);
        assert_eq!(
            migrate(w, vec![action.clone()], &all([10, 20, 20])).unwrap_err().state,
            SqlState::UNIQUE_VIOLATION
        );
        migrate(w, vec![action], &all([10, 20, 30])).unwrap();
        for (c, is_free) in [(10, false), (20, false), (30, false), (40, true)] {
            assert_eq!(w.insert(T, &[&row(9, c, c)]).is_ok(), is_free, "{c}");
        }
    });
}

#[test]
fn a_local_unique_index_sees_rows_that_keep_their_entries() {
    for (written, is_right) in [
        // A row that is written keeps an entry that another has, or that a new one wants.
        (vec![(row(2, 1, 20), WriteKind::Put)], false),
        (
            vec![
                (row(1, 1, 10), WriteKind::Put),
                (row(3, 1, 30), WriteKind::Put),
                (row(5, 1, 10), WriteKind::Insert),
            ],
            false,
        ),
        (vec![(row(3, 1, 10), WriteKind::Put)], false),
        (vec![(row(3, 1, 30), WriteKind::Put), (row(5, 1, 50), WriteKind::Insert)], true),
        // Two swap.
        (
            vec![
                (row(1, 1, 20), WriteKind::Put),
                (row(2, 1, 10), WriteKind::Put),
                (row(3, 1, 3), WriteKind::Put),
            ],
            true,
        ),
    ] {
        let mut w = World::new(1);
        let t = Table { placement: Placement::Replicated, ..table(T.0, "t") };
        w.schema(vec![SchemaAction::CreateTable(t)]).unwrap();
        w.insert(T, &[&row(1, 1, 10), &row(2, 1, 20), &row(3, 1, 20)]).unwrap();
        let action = by_c(&w, true);
        let rows: Vec<_> = written.iter().map(|(values, kind)| (T, values.clone(), *kind)).collect();
        let done = migrate(&mut w, vec![action], &rows);
        assert_eq!(done.is_ok(), is_right, "{written:?}: {done:?}");
        w.check();
    }
}

#[test]
fn what_was_read_before_the_change_is_judged_without_it() {
    let mut w = world();
    let read_at = w.now();
    w.update(T, KeyRange::all(), vec![(3, Expr::constant("y"))]).unwrap();
    let read =
        |at| ReadGranule { partition: PartitionId(0), table: T, range: KeyRange::all(), columns: None, at };
    for (at, holds) in [(read_at, false), (w.now(), true)] {
        let change = SchemaChange {
            database: Default::default(),
            base_version: w.catalog().version,
            actions: vec![SchemaAction::DropTable(T)],
        };
        let reads = (0..3).map(|p| ReadGranule { partition: PartitionId(p), ..read(at) }).collect();
        let rows = Validated { reads, writes: Vec::new() };
        let end = w.run(TxnProgram::Migration(Migration { change, rows }));
        assert_eq!(end.is_committed(), holds);
    }
}
