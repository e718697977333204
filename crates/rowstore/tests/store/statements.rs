//! One-shot statements: results, constraints, ON CONFLICT, schema changes.

use crate::support::*;
use base::expr::{BinaryOperator, Expr};
use base::key::KeyRange;
use base::schema::*;
use base::txn::*;
use base::*;
use rowstore::Unfinished;

const T: TableId = TableId(1);
const UNIQUE_C: TableId = TableId(2);
const BY_D: TableId = TableId(3);

/// One partition, table `t` with UNIQUE (c), an index on d and CHECK (c > 0).
fn world(partitions: u16) -> World {
    let mut world = World::new(partitions);
    let check = Check {
        name: "t_c_check".into(),
        sql: "c > 0".into(),
        expr: Expr::binary(BinaryOperator::Greater, Expr::Column(2), Expr::constant(0)),
        is_validated: true,
    };
    let t = Table {
        indexes: vec![index(2, "t_c_key", &[2], true), index(3, "t_d", &[3], false)],
        checks: vec![check].into(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        ..table(1, "t")
    };
    world.schema(vec![SchemaAction::CreateTable(t)]).unwrap();
    world
}
fn row(a: i64, b: i64, c: i64, d: &str) -> Vec<Datum> {
    vec![int(a), int(b), int(c), Datum::text(d)]
}

#[test]
fn rows_are_inserted_updated_deleted_and_read_at_every_cut() {
    let mut w = world(3);
    let many: Vec<Vec<Datum>> = (1..=9).map(|n| row(n, n, n, "x")).collect();
    let many: Vec<&[Datum]> = many.iter().map(Vec::as_slice).collect();
    assert_eq!(w.insert(T, &many).unwrap().affected, 9);
    let loaded = w.now();
    // c is unique and its entries live elsewhere: another column is free to change.
    assert_eq!(w.update(T, KeyRange::all(), vec![(3, Expr::constant("y"))]).unwrap().affected, 9);
    let updated = w.now();
    assert_eq!(w.delete(T, KeyRange::prefix(key(&[4]))).unwrap().affected, 1);
    assert_eq!(w.rows(T).len(), 8);
    assert_eq!(w.rows_at(T, updated).len(), 9);
    assert!(w.rows_at(T, loaded).values().all(|r| r.get(3) == Datum::text("x")));
    assert!(w.rows_at(T, updated).values().all(|r| r.get(3) == Datum::text("y")));
    assert!(w.rows_at(T, loaded.previous()).is_empty());
    w.check();
    // The deleted row's unique entry is free again.
    w.insert(T, &[&row(40, 4, 4, "z")]).unwrap();
    w.check();
}

#[test]
fn constraints_are_named_as_postgresql_names_them() {
    for partitions in [1, 3] {
        let mut w = world(partitions);
        w.insert(T, &[&row(1, 1, 5, "x")]).unwrap();
        let before = w.rows(T);

        let e = w.insert(T, &[&row(2, 2, 6, "x"), &row(1, 1, 7, "x")]).unwrap_err();
        assert_eq!(e.state, SqlState::UNIQUE_VIOLATION);
        assert_eq!(e.message, "duplicate key value violates unique constraint \"t_pkey\"");
        assert_eq!(e.detail.as_deref(), Some("Key (a, b)=(1, 1) already exists."));

        let e = w.insert(T, &[&row(2, 2, 5, "x")]).unwrap_err();
        assert_eq!(e.message, "duplicate key value violates unique constraint \"t_c_key\"");
        assert_eq!(e.detail.as_deref(), Some("Key (c)=(5) already exists."));
        let e = w.insert(T, &[&row(2, 2, 6, "x"), &row(3, 3, 6, "x")]).unwrap_err();
        assert_eq!(e.constraint.as_deref(), Some("t_c_key"));

        let e = w.insert(T, &[&[int(2), Datum::Null, int(6), Datum::Null]]).unwrap_err();
        assert_eq!(e.state, SqlState::NOT_NULL_VIOLATION);
        assert_eq!(e.message, "null value in column \"b\" of relation \"t\" violates not-null constraint");
        assert_eq!(e.detail.as_deref(), Some("Failing row contains (2, null, 6, null)."));

        let e = w.insert(T, &[&row(2, 2, -1, "x")]).unwrap_err();
        assert_eq!((e.state, e.constraint.as_deref()), (SqlState::CHECK_VIOLATION, Some("t_c_check")));
        assert_eq!(e.message, "new row for relation \"t\" violates check constraint \"t_c_check\"");

        assert_eq!(w.rows(T), before, "nothing was written by what failed");
        // Null is never a duplicate, and unknown passes a check.
        w.insert(
            T,
            &[&[int(8), int(8), Datum::Null, Datum::Null], &[int(9), int(9), Datum::Null, Datum::Null]],
        )
        .unwrap();
        w.check();
    }
}

#[test]
fn statements_of_one_transaction_see_each_other() {
    let mut w = world(1);
    let version = w.version(T);
    let insert = Statement::Insert {
        table: T,
        schema_version: version,
        rows: vec![Row::of(&row(1, 1, 1, "x")), Row::of(&row(1, 2, 2, "x"))],
        on_conflict: OnConflict::Fail,
        returning: Some(vec![Expr::Column(1)]),
    };
    let update = Statement::Update {
        table: T,
        schema_version: version,
        target: KeyRange::prefix(key(&[1])),
        filter: Some(Expr::binary(BinaryOperator::Equal, Expr::Column(1), Expr::constant(2))),
        set: vec![(2, plus(2, 40))],
        returning: Some(vec![Expr::Column(2), plus(2, 1)]),
    };
    let delete = Statement::Delete {
        table: T,
        schema_version: version,
        target: point(&[1, 1]),
        filter: None,
        returning: Some(vec![Expr::Column(3)]),
    };
    let again = Statement::Insert {
        table: T,
        schema_version: version,
        rows: vec![Row::of(&row(1, 1, 2, "again"))],
        on_conflict: OnConflict::Fail,
        returning: None,
    };
    let select = Statement::Select {
        table: T,
        schema_version: version,
        target: KeyRange::all(),
        filter: None,
        columns: vec![Expr::Column(1), Expr::Column(2)],
    };
    let Outcome::Committed { results } =
        w.run(TxnProgram::Statements(vec![insert, update, delete, again, select]))
    else {
        panic!("aborted")
    };
    let rows = |n: usize| results[n].rows.iter().map(Row::to_vec).collect::<Vec<_>>();
    assert_eq!(rows(0), [[int(1)], [int(2)]]);
    assert_eq!(rows(1), [[int(42), int(43)]]);
    assert_eq!(rows(2), [[Datum::text("x")]]);
    assert_eq!(rows(4), [[int(1), int(2)], [int(2), int(42)]]);
    assert_eq!(results.iter().map(|r| r.affected).collect::<Vec<_>>(), [2, 1, 1, 1, 0]);
    w.check();
}

#[test]
fn many_statements_take_several_steps_though_none_finds_a_row() {
    let mut w = world(1);
    let delete = |n| Statement::Delete {
        table: T,
        schema_version: w.version(T),
        target: KeyRange::point(Key::of(&[int(n)])),
        filter: None,
        returning: None,
    };
    let program = TxnProgram::Statements((0..100).map(delete).collect());
    let access = w.everything();
    let transaction = w.transaction(program, access);
    let (mut unfinished, mut steps) = (Unfinished::default(), 1);
    while w.stores[0].gather_some(&mut unfinished, &transaction, 20).is_none() {
        steps += 1;
    }
    assert!(steps >= 10, "{steps}");
    w.stores[0].forget(transaction.id);
}

#[test]
fn rows_that_get_long_take_steps_of_their_own() {
    let mut w = world(1);
    let many: Vec<Vec<Datum>> = (1..=20).map(|n| row(n, n, n, "x")).collect();
    let many: Vec<&[Datum]> = many.iter().map(Vec::as_slice).collect();
    w.insert(T, &many).unwrap();
    let twice = || Expr::binary(BinaryOperator::Concat, Expr::Column(3), Expr::Column(3));
    let doubled = |w: &World| Statement::Update {
        table: T,
        schema_version: w.version(T),
        target: KeyRange::all(),
        filter: None,
        set: vec![(3, twice())],
        returning: None,
    };
    let steps = |w: &mut World| {
        let program = TxnProgram::Statements(vec![doubled(w)]);
        let access = w.everything();
        let transaction = w.transaction(program, access);
        let (mut unfinished, mut steps) = (Unfinished::default(), 1);
        while w.stores[0].gather_some(&mut unfinished, &transaction, 40).is_none() {
            steps += 1;
        }
        w.stores[0].forget(transaction.id);
        steps
    };
    let short = steps(&mut w);
    for _ in 0..15 {
        w.update(T, KeyRange::all(), vec![(3, twice())]).unwrap();
    }
    // Each row is of 64 KiB then, which is more than a step's work.
    assert_eq!(steps(&mut w), 20);
    assert!(short < 10, "{short}");
    w.check();
}

#[test]
fn on_conflict_does_what_it_says_for_each_constraint() {
    let do_update = |index| OnConflict::Update {
        index,
        // d := excluded.d, only where the existing c is not 3.
        set: vec![(3, Expr::Column(7))],
        filter: Some(Expr::binary(BinaryOperator::NotEqual, Expr::Column(2), Expr::constant(3))),
    };
    let nothing = |index| OnConflict::Nothing { index };
    let same_key = row(1, 1, 99, "new");
    let same_c = row(9, 9, 1, "new");
    let filtered = row(3, 3, 98, "new");
    let free = row(7, 7, 7, "new");
    use SqlState as S;
    let cases = [
        (OnConflict::Fail, &same_key, Err(S::UNIQUE_VIOLATION), "old"),
        (nothing(None), &same_key, Ok(0), "old"),
        (nothing(None), &same_c, Ok(0), "old"),
        (nothing(None), &free, Ok(1), "old"),
        (nothing(Some(T)), &same_key, Ok(0), "old"),
        (nothing(Some(T)), &same_c, Err(S::UNIQUE_VIOLATION), "old"),
        (nothing(Some(UNIQUE_C)), &same_c, Ok(0), "old"),
        (nothing(Some(UNIQUE_C)), &same_key, Err(S::UNIQUE_VIOLATION), "old"),
        (do_update(T), &same_key, Ok(1), "new"),
        (do_update(T), &same_c, Err(S::UNIQUE_VIOLATION), "old"),
        (do_update(UNIQUE_C), &same_c, Ok(1), "new"),
        (do_update(UNIQUE_C), &same_key, Err(S::UNIQUE_VIOLATION), "old"),
        (do_update(T), &filtered, Ok(0), "old"),
        (do_update(T), &free, Ok(1), "old"),
        (nothing(Some(BY_D)), &free, Err(S::INVALID_COLUMN_REFERENCE), "old"),
    ];
    for (number, (on_conflict, new, expected, d)) in cases.into_iter().enumerate() {
        let mut w = world(1);
        w.insert(T, &[&row(1, 1, 1, "old"), &row(3, 3, 3, "old")]).unwrap();
        let found = w.insert_or(T, &[new], on_conflict).map(|r| r.affected).map_err(|e| e.state);
        assert_eq!(found, expected, "case {number}");
        assert_eq!(w.rows(T)[0][3], Datum::text(d), "case {number}");
        w.check();
    }
}

#[test]
fn one_upsert_does_not_touch_a_row_twice() {
    let mut w = world(1);
    let update = || OnConflict::Update { index: T, set: vec![(3, Expr::Column(7))], filter: None };
    let twice = [row(1, 1, 1, "x"), row(1, 1, 2, "y")];
    let twice: Vec<&[Datum]> = twice.iter().map(Vec::as_slice).collect();
    let e = w.insert_or(T, &twice, update()).unwrap_err();
    assert_eq!(e.state, SqlState::CARDINALITY_VIOLATION);
    w.insert(T, &[&row(1, 1, 1, "x")]).unwrap();
    assert_eq!(w.insert_or(T, &twice, update()).unwrap_err().state, SqlState::CARDINALITY_VIOLATION);
    assert_eq!(w.insert_or(T, &twice, OnConflict::Nothing { index: None }).unwrap().affected, 0);
}

#[test]
fn a_unique_value_homed_elsewhere_is_decided_there() {
    let mut w = world(4);
    for n in 1..=30 {
        w.insert(T, &[&row(n, 1, n, "x")]).unwrap();
        let e = w.insert(T, &[&row(n + 100, 1, n, "x")]).unwrap_err();
        assert_eq!(e.constraint.as_deref(), Some("t_c_key"));
    }
    w.check();
    let e = w.update(T, KeyRange::all(), vec![(2, plus(2, 1))]).unwrap_err();
    assert_eq!(e.state, SqlState::FEATURE_NOT_SUPPORTED);
    // An interactive transaction may hand values round.
    let ring: Vec<ValidatedWrite> =
        (1..=30).map(|n| w.write(T, &row(n, 1, n % 30 + 1, "y"), WriteKind::Put)).collect();
    w.validated(w.now(), vec![], ring).unwrap();
    assert_eq!(w.insert(T, &[&row(200, 1, 30, "x")]).unwrap_err().state, SqlState::UNIQUE_VIOLATION);
    w.delete(T, KeyRange::prefix(key(&[29]))).unwrap();
    w.insert(T, &[&row(200, 1, 30, "x")]).unwrap();
    let e = w.validated(w.now(), vec![], vec![w.write(T, &row(201, 1, 30, "x"), WriteKind::Insert)]);
    assert_eq!(e.unwrap_err().state, SqlState::UNIQUE_VIOLATION);
    w.check();
}

#[test]
fn rows_of_a_replicated_table_are_everywhere_and_reported_once() {
    let mut w = World::new(3);
    let t = Table { placement: Placement::Replicated, ..table(1, "t") };
    w.schema(vec![SchemaAction::CreateTable(t)]).unwrap();
    assert_eq!(w.insert(T, &[&row(1, 1, 1, "x"), &row(2, 2, 2, "x")]).unwrap().affected, 2);
    assert_eq!(w.update(T, KeyRange::all(), vec![(2, plus(2, 1))]).unwrap().affected, 2);
    for store in &w.stores {
        assert_eq!(store.read(&whole(store.partition(), T), w.now()).unwrap().len(), 2);
    }
    // A reader asks the copy of a partition that it touches anyway.
    let schema_version = w.version(T);
    let mut access = AccessSet::default();
    access.add(PartitionId(1), Granule::Key(TableId(77), key(&[1])), AccessMode::Read);
    access.add(PartitionId(2), Granule::Range(T, KeyRange::all()), AccessMode::Read);
    let columns = vec![Expr::Column(2)];
    let select =
        Statement::Select { table: T, schema_version, target: KeyRange::all(), filter: None, columns };
    let Outcome::Committed { results } = w.run_declared(TxnProgram::Statements(vec![select]), access) else {
        panic!("aborted")
    };
    assert_eq!(results[0].rows.len(), 2);
    w.check();
}

#[test]
fn what_was_not_declared_is_not_touched() {
    let mut w = world(1);
    w.insert(T, &[&row(1, 1, 1, "x")]).unwrap();
    let schema_version = w.version(T);
    let update = |set| {
        TxnProgram::Statements(vec![Statement::Update {
            table: T,
            schema_version,
            target: point(&[1, 1]),
            filter: None,
            set,
            returning: None,
        }])
    };
    let mut reads_only = AccessSet::default();
    reads_only.read_key(PartitionId(0), T, key(&[1, 1]));
    let mut row_only = AccessSet::default();
    row_only.write_key(PartitionId(0), T, key(&[1, 1]));
    let mut with_entry = row_only.clone();
    with_entry.write_key(PartitionId(0), UNIQUE_C, key(&[2]));
    with_entry.normalize();
    let set_c = || vec![(2, Expr::constant(2))];
    for (access, set, commits) in [
        (reads_only, vec![(3, Expr::constant("y"))], false),
        (row_only.clone(), vec![(2, plus(2, 0))], true),
        (row_only, set_c(), false),
        (with_entry, set_c(), true),
    ] {
        assert_eq!(w.run_declared(update(set), access).is_committed(), commits);
    }
    w.check();
}

#[test]
fn a_plan_for_another_schema_is_refused() {
    let mut w = world(1);
    let old = w.version(T);
    let mut wider = Table::clone(&w.table("t"));
    wider.columns.push(Column { missing: int(7), ..column("e", DataType::BigInt, true) });
    w.insert(T, &[&row(1, 1, 1, "x")]).unwrap();
    let before = w.now();
    w.schema(vec![SchemaAction::AlterTable(wider)]).unwrap();
    let stale = Statement::Truncate { table: T, schema_version: old };
    assert_eq!(w.statement(stale).unwrap_err().state, SqlState::SERIALIZATION_FAILURE);
    // The old row shows the new column's value, to later cuts.
    assert_eq!(w.update(T, KeyRange::all(), vec![(4, plus(4, 1))]).unwrap().affected, 1);
    assert_eq!(w.rows(T)[0][4], int(8));
    assert_eq!(w.stores[0].catalog_at(before).unwrap().table(T).unwrap().columns.len(), 4);
    assert_eq!(w.stores[0].catalog_at(w.now()).unwrap().table(T).unwrap().columns.len(), 5);
    let is_same = |cut| w.stores[0].is_described_as_at(T, cut);
    assert!(!is_same(before) && is_same(w.now()));
}

#[test]
fn an_index_is_filled_at_its_place_and_a_constraint_asks_old_rows() {
    let mut w = World::new(1);
    w.schema(vec![SchemaAction::CreateTable(table(1, "t"))]).unwrap();
    w.insert(T, &[&row(1, 1, 5, "x"), &row(1, 2, 5, "y"), &row(1, 3, 6, "x")]).unwrap();
    let before = w.now();
    let alter = |w: &World, indexes| Table { indexes, ..Table::clone(&w.table("t")) };
    let unique = alter(&w, vec![index(2, "t_c_key", &[2], true)]);
    let e = w.schema(vec![SchemaAction::AlterTable(unique)]).unwrap_err();
    assert_eq!(e.message, "could not create unique index \"t_c_key\"");
    assert_eq!(e.detail.as_deref(), Some("Key (c)=(5) is duplicated."));
    assert!(w.table("t").indexes.is_empty());

    let by_d = alter(&w, vec![index(3, "t_d", &[3], false)]);
    w.schema(vec![SchemaAction::AlterTable(by_d)]).unwrap();
    let read = RowRead {
        index: Some(BY_D),
        range: KeyRange::prefix(Key::of(&[Datum::text("x")])),
        ..whole(PartitionId(0), T)
    };
    let found = w.stores[0].read(&read, w.now()).unwrap();
    assert_eq!(found.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>(), [key(&[1, 1]), key(&[1, 3])]);
    assert_eq!(w.stores[0].read(&read, before).unwrap_err().state, SqlState::SERIALIZATION_FAILURE);
    let last = RowRead { descending: true, limit: Some(1), ..read };
    assert_eq!(w.stores[0].read(&last, w.now()).unwrap()[0].0, key(&[1, 3]));

    let mut checked = Table::clone(&w.table("t"));
    let expr = Expr::binary(BinaryOperator::Less, Expr::Column(2), Expr::constant(6));
    checked.add_check(Check { name: "small".into(), sql: "c < 6".into(), expr, is_validated: true });
    let e = w.schema(vec![SchemaAction::AlterTable(checked.clone())]).unwrap_err();
    assert_eq!(e.message, "check constraint \"small\" of relation \"t\" is violated by some row");
    // One that is not valid looks at no row that is there; validating it does.
    let mut unchecked = checked.clone();
    unchecked.checks_mut().for_each(|check| check.is_validated = false);
    w.schema(vec![SchemaAction::AlterTable(unchecked)]).unwrap();
    let e = w.schema(vec![SchemaAction::AlterTable(checked)]).unwrap_err();
    assert_eq!(e.state, SqlState::CHECK_VIOLATION);
    let mut not_null = Table::clone(&w.table("t"));
    not_null.columns.push(column("e", DataType::BigInt, true));
    let e = w.schema(vec![SchemaAction::AlterTable(not_null)]).unwrap_err();
    assert_eq!(e.state, SqlState::NOT_NULL_VIOLATION);
    w.check();
}

#[test]
fn rows_keep_to_the_domains_of_their_columns() {
    let mut w = world(1);
    let expr = Expr::binary(BinaryOperator::Less, Expr::Column(0), Expr::constant(10));
    let small = Check { name: "small".into(), sql: "VALUE < 10".into(), expr, is_validated: true };
    let mut domain = base::domain::Domain {
        id: TableId(90),
        schema: "public".into(),
        name: "d".into(),
        data_type: DataType::BigInt,
        default: None,
        not_null: false,
        checks: vec![small],
    };
    let mut described = Table::clone(&w.table("t"));
    described.domains.insert(2, domain.clone().into());
    w.insert(T, &[&row(1, 1, 20, "x")]).unwrap();
    let actions = |described: &Table| {
        vec![SchemaAction::PutDomain(domain.clone()), SchemaAction::AlterTable(described.clone())]
    };
    let e = w.schema(actions(&described)).unwrap_err();
    assert_eq!(e.message, "value for domain d violates check constraint \"small\"");
    w.delete(T, KeyRange::all()).unwrap();
    w.schema(actions(&described)).unwrap();
    w.insert(T, &[&row(1, 1, 5, "x")]).unwrap();
    let e = w.insert(T, &[&row(2, 2, 10, "x")]).unwrap_err();
    assert_eq!((e.state, e.column.as_deref()), (SqlState::CHECK_VIOLATION, Some("c")));
    let e = w.update(T, KeyRange::all(), vec![(2, Expr::constant(11))]).unwrap_err();
    assert_eq!(e.state, SqlState::CHECK_VIOLATION);

    // What is known of it changes in the tables, too, if their rows keep to it.
    let expr = Expr::binary(BinaryOperator::Less, Expr::Column(0), Expr::constant(5));
    let smaller = Check { name: "smaller".into(), sql: "VALUE < 5".into(), expr, is_validated: true };
    domain.checks.push(smaller);
    let e = w.schema(vec![SchemaAction::PutDomain(domain.clone())]).unwrap_err();
    assert_eq!(e.message, "column \"c\" of table \"t\" contains values that violate the new constraint");
    domain.checks[1].is_validated = false;
    w.schema(vec![SchemaAction::PutDomain(domain.clone())]).unwrap();
    assert_eq!(w.table("t").domains[&2].checks.len(), 2);
    w.insert(T, &[&row(3, 3, 5, "x")]).unwrap_err();
    w.insert(T, &[&row(3, 3, 4, "x")]).unwrap();
    w.check();
}

#[test]
fn a_dropped_table_is_there_for_older_cuts_until_they_are_collected() {
    let mut w = world(2);
    w.insert(T, &[&row(1, 1, 1, "x"), &row(2, 1, 2, "x")]).unwrap();
    let before = w.now();
    w.schema(vec![SchemaAction::DropTable(T)]).unwrap();
    let after = w.now();
    assert_eq!(w.rows_at(T, before).len(), 2);
    let gone = w.stores[0].read(&whole(PartitionId(0), T), after).unwrap_err();
    assert_eq!(gone, stale_schema());
    w.check();
    for store in &mut w.stores {
        while store.collect(after, 10) {}
        assert_eq!(store.counters(), rowstore::Counters::default());
        let e = store.read(&whole(store.partition(), T), before).unwrap_err();
        assert_eq!(e.state, SqlState::SNAPSHOT_TOO_OLD);
    }
}

#[test]
fn truncate_empties_the_table_and_its_indexes() {
    let mut w = world(3);
    w.insert(T, &[&row(1, 1, 1, "x"), &row(2, 1, 2, "x"), &row(3, 1, 3, "x")]).unwrap();
    let before = w.now();
    let schema_version = w.version(T);
    w.statement(Statement::Truncate { table: T, schema_version }).unwrap();
    assert!(w.rows(T).is_empty());
    assert_eq!(w.rows_at(T, before).len(), 3);
    w.insert(T, &[&row(9, 1, 1, "x")]).unwrap();
    w.check();
}

#[test]
fn an_insert_needs_its_rows_and_the_homes_of_its_unique_values_and_no_more() {
    let mut w = world(4);
    let schema_version = w.version(T);
    for n in 1..=20 {
        let null = vec![int(n), int(2), Datum::Null, Datum::Null];
        for values in [row(n, 1, n, "x"), null] {
            let home = w.home(T, &values);
            let t = w.table("t");
            let key = t.key_of(&values);
            let mut access = AccessSet::default();
            access.write_key(home, T, key.clone());
            access.write_key(home, BY_D, t.index_entry(&t.indexes[1], &values, &key));
            let entry = t.index_entry(&t.indexes[0], &values, &key);
            let at = t.locate_entry(&entry, &w.topology);
            if !values[2].is_null() {
                access.write_key(at, UNIQUE_C, entry);
            }
            access.normalize();
            let insert = || {
                TxnProgram::Statements(vec![Statement::Insert {
                    table: T,
                    schema_version,
                    rows: vec![Row::of(&values)],
                    on_conflict: OnConflict::Fail,
                    returning: None,
                }])
            };
            if at == home && !values[2].is_null() {
                let mut less = access.clone();
                less.by_partition.get_mut(&home).unwrap().retain(|a| match &a.granule {
                    Granule::Key(table, _) => *table != UNIQUE_C,
                    _ => true,
                });
                let Outcome::Aborted(e) = w.run_declared(insert(), less) else { panic!("let through") };
                assert!(e.into_fields().detail.unwrap().contains("outside its declared set"));
            }
            assert!(w.run_declared(insert(), access).is_committed());
        }
    }
    w.check();
}
