//! Interactive transactions: what makes them valid, what makes them abort.

use crate::support::*;
use base::expr::Expr;
use base::key::KeyRange;
use base::schema::*;
use base::txn::*;
use base::*;

const T: TableId = TableId(1);
const UNIQUE_C: TableId = TableId(2);
const BY_D: TableId = TableId(3);

fn row(a: i64, b: i64, c: i64, d: &str) -> Vec<Datum> {
    vec![int(a), int(b), int(c), Datum::text(d)]
}
fn world() -> World {
    let mut world = World::new(1);
    let indexes = vec![index(2, "t_c_key", &[2], true), index(3, "t_d", &[3], false)];
    world.schema(vec![SchemaAction::CreateTable(Table { indexes, ..table(1, "t") })]).unwrap();
    world.insert(T, &[&row(1, 1, 11, "x"), &row(1, 2, 12, "x"), &row(1, 4, 14, "y")]).unwrap();
    world
}
fn read(table: TableId, range: KeyRange) -> Vec<ReadGranule> {
    vec![ReadGranule { partition: PartitionId(0), table, range, columns: None, at: Rank::ZERO }]
}

#[test]
fn a_read_holds_only_if_nothing_in_it_changed() {
    type Change = fn(&mut World);
    let update: Change = |w| _ = w.update(T, point(&[1, 2]), vec![(3, Expr::constant("z"))]).unwrap();
    let insert: Change = |w| _ = w.insert(T, &[&row(1, 3, 13, "z")]).unwrap();
    let delete: Change = |w| _ = w.delete(T, point(&[1, 2])).unwrap();
    let vanish: Change = |w| {
        w.insert(T, &[&row(1, 3, 13, "z")]).unwrap();
        w.delete(T, point(&[1, 3])).unwrap();
    };
    let elsewhere: Change = |w| _ = w.update(T, point(&[1, 4]), vec![(3, Expr::constant("z"))]).unwrap();
    let text = |s: &str| KeyRange::prefix(Key::of(&[Datum::text(s)]));
    let first_three = || KeyRange { low: key(&[1, 1]), high: Some(key(&[1, 4])) };
    for (number, (table, range, change, holds)) in [
        (T, point(&[1, 2]), update, false),
        (T, point(&[1, 2]), delete, false),
        (T, point(&[1, 2]), insert, true),
        (T, point(&[1, 3]), insert, false),
        // Phantoms, and one that came and went.
        (T, first_three(), insert, false),
        (T, first_three(), delete, false),
        (T, first_three(), vanish, false),
        (T, first_three(), elsewhere, true),
        // Through indexes: arrivals and departures of entries.
        (BY_D, text("z"), update, false),
        (BY_D, text("x"), update, false),
        (BY_D, text("x"), delete, false),
        (BY_D, text("x"), insert, true),
        (UNIQUE_C, KeyRange::point(key(&[13])), insert, false),
        (UNIQUE_C, KeyRange::point(key(&[12])), update, true),
        (T, KeyRange::all(), elsewhere, false),
    ]
    .into_iter()
    .enumerate()
    {
        let mut w = world();
        let read_at = w.now();
        change(&mut w);
        let by = w.now();
        let outcome = w.validated(read_at, read(table, range.clone()), vec![]);
        assert_eq!(outcome.is_ok(), holds, "case {number}: {outcome:?}");
        if let Err(e) = outcome {
            assert_eq!(e.state, SqlState::SERIALIZATION_FAILURE);
            let detail = e.detail.clone().unwrap();
            assert!(detail.contains("Table \"t\"") && e.hint.is_some(), "{detail}");
            assert!(detail.contains(&format!("(conflict rank {})", by.0)), "{detail}");
        }
        // Whoever reads again is served.
        w.validated(w.now(), read(table, range), vec![]).unwrap();
        w.check();
    }
}

#[test]
fn a_read_of_some_columns_holds_while_those_are_the_same() {
    type Change = fn(&mut World);
    let other: Change = |w| _ = w.update(T, point(&[1, 2]), vec![(3, Expr::constant("z"))]).unwrap();
    let there_and_back: Change = |w| {
        w.update(T, point(&[1, 2]), vec![(2, Expr::constant(99i64))]).unwrap();
        w.update(T, point(&[1, 2]), vec![(2, Expr::constant(12i64))]).unwrap();
    };
    let read_one: Change = |w| _ = w.update(T, point(&[1, 2]), vec![(2, Expr::constant(99i64))]).unwrap();
    let delete: Change = |w| _ = w.delete(T, point(&[1, 2])).unwrap();
    let insert: Change = |w| _ = w.insert(T, &[&row(1, 3, 13, "z")]).unwrap();
    let came_and_went: Change = |w| {
        w.insert(T, &[&row(1, 3, 13, "z")]).unwrap();
        w.delete(T, point(&[1, 3])).unwrap();
    };
    let all = KeyRange::all;
    for (number, (range, change, holds)) in [
        (point(&[1, 2]), other, true),
        (point(&[1, 2]), there_and_back, true),
        (point(&[1, 2]), read_one, false),
        (point(&[1, 2]), delete, false),
        (point(&[1, 3]), insert, false),
        (point(&[1, 3]), came_and_went, true),
        (all(), other, true),
        (all(), read_one, false),
        (all(), delete, false),
        (all(), insert, false),
        (all(), came_and_went, true),
    ]
    .into_iter()
    .enumerate()
    {
        let mut w = world();
        let read_at = w.now();
        change(&mut w);
        let mut reads = read(T, range);
        reads[0].columns = Some(vec![0, 2]);
        let outcome = w.validated(read_at, reads, vec![]);
        assert_eq!(outcome.is_ok(), holds, "case {number}: {outcome:?}");
    }
}

#[test]
fn a_conflict_names_the_key_even_of_a_deleted_row() {
    let mut w = world();
    let read_at = w.now();
    w.delete(T, point(&[1, 2])).unwrap();
    let e = w.validated(read_at, read(T, point(&[1, 2])), vec![]).unwrap_err();
    assert!(e.into_fields().detail.unwrap().contains("key (a, b)=(1, 2)"));
}

#[test]
fn a_tie_at_the_snapshot_was_read() {
    let mut w = world();
    w.update(T, point(&[1, 1]), vec![(3, Expr::constant("z"))]).unwrap();
    let updated = w.now();
    w.validated(updated, read(T, KeyRange::all()), vec![]).unwrap();
    w.validated(updated.previous(), read(T, KeyRange::all()), vec![]).unwrap_err();
}

#[test]
fn writes_meet_the_constraints_in_their_final_state() {
    let put = WriteKind::Put;
    let mut w = world();
    // Two rows exchange their unique values.
    let swap = vec![w.write(T, &row(1, 1, 12, "x"), put), w.write(T, &row(1, 2, 11, "x"), put)];
    w.validated(w.now(), vec![], swap).unwrap();
    w.check();
    // One leaves, another takes its value, in any order of keys.
    let hand_over =
        vec![w.write(T, &row(0, 0, 12, "x"), WriteKind::Insert), w.removal(T, &row(1, 1, 12, "x"))];
    w.validated(w.now(), vec![], hand_over).unwrap();
    w.check();
    for (number, (writes, state)) in [
        (vec![w.write(T, &row(1, 2, 77, "x"), WriteKind::Insert)], SqlState::UNIQUE_VIOLATION),
        (vec![w.write(T, &row(8, 8, 11, "x"), WriteKind::Insert)], SqlState::UNIQUE_VIOLATION),
        (
            vec![w.write(T, &row(8, 8, 50, "x"), put), w.write(T, &row(9, 9, 50, "x"), put)],
            SqlState::UNIQUE_VIOLATION,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(w.validated(w.now(), vec![], writes).unwrap_err().state, state, "case {number}");
    }
    let null = ValidatedWrite {
        row: Some(Row::of(&[int(5)])),
        key: Key::of(&[int(5), Datum::Null]),
        ..w.write(T, &row(5, 5, 5, "x"), put)
    };
    assert_eq!(w.validated(w.now(), vec![], vec![null]).unwrap_err().state, SqlState::NOT_NULL_VIOLATION);
    w.check();
}

#[test]
fn a_snapshot_below_the_collected_versions_is_refused() {
    let mut w = world();
    let read_at = w.now();
    w.delete(T, point(&[1, 2])).unwrap();
    w.delete(T, point(&[1, 4])).unwrap();
    let below = w.now();
    while w.stores[0].collect(below, 1) {}
    w.check();
    assert_eq!(w.stores[0].newest_place_in(T, &point(&[1, 2])), None, "the deletion is forgotten");
    let e = w.validated(read_at, read(T, point(&[1, 2])), vec![]).unwrap_err();
    assert_eq!(e.state, SqlState::SERIALIZATION_FAILURE);
    assert!(e.into_fields().detail.unwrap().contains("collected"));
}

#[test]
fn a_unique_value_is_validated_at_its_home() {
    let mut w = World::new(4);
    let indexes = vec![index(2, "t_c_key", &[2], true)];
    w.schema(vec![SchemaAction::CreateTable(Table { indexes, ..table(1, "t") })]).unwrap();
    for c in 1..=20 {
        let partition = w.table("t").locate_entry(&key(&[c]), &w.topology);
        let absent = vec![ReadGranule {
            partition,
            table: UNIQUE_C,
            range: KeyRange::point(key(&[c])),
            columns: None,
            at: Rank::ZERO,
        }];
        let read_at = w.now();
        w.validated(read_at, absent.clone(), vec![]).unwrap();
        w.insert(T, &[&row(c * 7, 1, c, "x")]).unwrap();
        let e = w.validated(read_at, absent.clone(), vec![]).unwrap_err();
        assert_eq!(e.state, SqlState::SERIALIZATION_FAILURE);
        let read_at = w.now();
        w.delete(T, point(&[c * 7, 1])).unwrap();
        w.validated(read_at, absent, vec![]).unwrap_err();
    }
}

#[test]
fn a_row_that_moves_keeps_its_unique_entry() {
    // The partition column is not part of the key: an update of it moves the row.
    let mut w = World::new(4);
    let t = Table { indexes: vec![index(2, "t_c_key", &[2], true)], primary_key: vec![1], ..table(1, "t") };
    w.schema(vec![SchemaAction::CreateTable(t)]).unwrap();
    w.insert(T, &[&row(0, 1, 5, "x")]).unwrap();
    for a in 1..12 {
        let (old, new) = (row(a - 1, 1, 5, "x"), row(a, 1, 5, "x"));
        let mut writes = vec![w.write(T, &new, WriteKind::Put)];
        if w.home(T, &old) != w.home(T, &new) {
            writes.push(w.removal(T, &old));
        }
        w.validated(w.now(), vec![], writes).unwrap();
        assert_eq!(w.rows(T), [new]);
        let e = w.insert(T, &[&row(a, 2, 5, "x")]).unwrap_err();
        assert_eq!(e.constraint.as_deref(), Some("t_c_key"));
        w.check();
    }
}

#[test]
fn a_copied_row_is_written_at_every_copy() {
    let mut w = World::new(3);
    let t = Table { placement: Placement::Replicated, ..table(1, "t") };
    w.schema(vec![SchemaAction::CreateTable(t)]).unwrap();
    let once = w.write(T, &row(1, 1, 1, "x"), WriteKind::Insert);
    let each = |w: &ValidatedWrite| {
        (0..3).map(|p| ValidatedWrite { partition: PartitionId(p), ..w.clone() }).collect()
    };
    w.validated(w.now(), vec![], vec![once]).unwrap();
    let again = w.write(T, &row(1, 1, 2, "y"), WriteKind::Put);
    w.validated(w.now(), vec![], each(&again)).unwrap();
    for store in &w.stores {
        let rows = store.read(&whole(store.partition(), T), w.now()).unwrap();
        assert_eq!(rows[0].1.to_vec(), row(1, 1, 2, "y"));
    }
}
