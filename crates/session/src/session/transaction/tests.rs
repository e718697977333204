//! A buffer over a cut.

use super::*;
use base::schema::{Column, Identity, Placement};
use base::{DataType, RegionId};

fn table() -> Arc<Table> {
    let column = |name: &str| Column {
        name: name.into(),
        data_type: DataType::Integer,
        not_null: true,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    };
    Arc::new(Table {
        id: TableId(1),
        schema: "public".into(),
        name: "t".into(),
        version: 1,
        columns: vec![column("a"), column("b")],
        primary_key: vec![0],
        primary_key_name: "t_pkey".into(),
        indexes: Vec::new(),
        checks: Default::default(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        placement: Placement::Home(RegionId(0)),
    })
}
/// The same with a unique index over `b`.
fn unique_table() -> (Arc<Table>, Index) {
    let mut described = table().as_ref().clone();
    let index = Index {
        id: TableId(2),
        name: "t_b_key".into(),
        columns: vec![1],
        unique: true,
        constraint: true,
        form: Default::default(),
    };
    described.indexes.push(index.clone());
    (Arc::new(described), index)
}
fn row(a: i64, b: i64) -> Vec<Datum> {
    vec![Datum::Int(a), Datum::Int(b)]
}
fn key(a: i64) -> Key {
    Key::of(&[Datum::Int(a)])
}
fn seen(t: &Transaction, at_cut: &[(i64, i64)]) -> Vec<i64> {
    let mut rows: Vec<SeenRow> =
        at_cut.iter().map(|(a, b)| SeenRow::new(key(*a), Arc::new(row(*a, *b)))).collect();
    t.overlay(&table(), None, &KeyRange::all(), false, &mut rows);
    rows.iter().map(|r| r.values[1].int()).collect()
}

fn settings() -> Arc<Settings> {
    Arc::new(Settings::new("m", "caerus", "us"))
}

#[test]
fn the_buffer_covers_the_cut_and_savepoints_uncover_it() {
    let table = table();
    let cut = [(1, 10), (2, 20), (3, 30)];
    let mut t = Transaction::new(false, false, 0);
    t.change(&table, key(2), &Arc::new(row(2, 20)), Some(row(2, 21))).unwrap();
    t.savepoint("s".into(), settings());
    t.change(&table, key(1), &Arc::new(row(1, 10)), None).unwrap();
    t.insert(&table, key(4), row(4, 40)).unwrap();
    assert_eq!(seen(&t, &cut), [21, 30, 40]);
    t.change(&table, key(4), &Arc::new(row(4, 40)), None).unwrap();
    assert_eq!(seen(&t, &cut), [21, 30]);
    assert!(t.rollback_to("s").is_some());
    assert_eq!(seen(&t, &cut), [10, 21, 30]);
    assert!(t.release("s") && t.rollback_to("s").is_none());
}

#[test]
fn a_row_that_came_and_went_is_not_written() {
    let table = table();
    let mut t = Transaction::new(false, false, 0);
    t.insert(&table, key(4), row(4, 40)).unwrap();
    t.change(&table, key(4), &Arc::new(row(4, 40)), None).unwrap();
    assert!(!t.has_writes() && !t.needs_validation());
    // One that was there and came back is put, not inserted.
    t.pin = Some((PinId(1), Rank(5)));
    t.change(&table, key(1), &Arc::new(row(1, 10)), None).unwrap();
    t.insert(&table, key(1), row(1, 11)).unwrap();
    let topology = Topology::one_node_per_region(base::wan::Wan::preset("local").unwrap(), 1);
    let (validated, _) = t.validated(&topology);
    assert_eq!(validated.writes.len(), 1);
    assert_eq!(validated.writes[0].kind, WriteKind::Put);
}

#[test]
fn an_entry_of_a_unique_index_leads_to_the_own_row_that_has_it() {
    let (table, index) = unique_table();
    let owner = |t: &Transaction, b: i64| {
        let entry = table.index_entry(&index, &row(0, b), &key(0));
        t.owner_of(table.id, index.id, entry).map(|(key, values)| (key.clone(), values[1].int()))
    };
    let mut t = Transaction::new(false, false, 0);
    t.insert(&table, key(1), row(1, 10)).unwrap();
    t.insert(&table, key(2), row(2, 20)).unwrap();
    assert_eq!((owner(&t, 10), owner(&t, 20), owner(&t, 30)), (Some((key(1), 10)), Some((key(2), 20)), None));
    t.savepoint("s".into(), settings());
    // The first row's entry goes to the second one, and back.
    t.change(&table, key(1), &Arc::new(row(1, 10)), Some(row(1, 30))).unwrap();
    t.change(&table, key(2), &Arc::new(row(2, 20)), Some(row(2, 10))).unwrap();
    assert_eq!((owner(&t, 10), owner(&t, 20), owner(&t, 30)), (Some((key(2), 10)), None, Some((key(1), 30))));
    assert!(t.rollback_to("s").is_some());
    assert_eq!((owner(&t, 10), owner(&t, 20), owner(&t, 30)), (Some((key(1), 10)), Some((key(2), 20)), None));
    t.change(&table, key(1), &Arc::new(row(1, 10)), None).unwrap();
    assert_eq!(owner(&t, 10), None);
}

/// Whoever takes the entry next is ordered after the transaction that gave it away.
#[test]
fn the_unique_entry_of_a_row_that_changes_or_goes_is_declared() {
    let (table, index) = unique_table();
    let topology = Topology::one_node_per_region(base::wan::Wan::preset("local").unwrap(), 1);
    for new in [None, Some(row(1, 11))] {
        let mut t = Transaction::new(false, false, 0);
        t.pin = Some((PinId(1), Rank(5)));
        t.change(&table, key(1), &Arc::new(row(1, 10)), new).unwrap();
        let (_, access) = t.validated(&topology);
        let entry = Granule::Key(index.id, table.index_entry(&index, &row(1, 10), &key(1)));
        let mut declared = access.by_partition.values().flatten();
        assert!(declared.any(|one| one.granule == entry && one.mode == AccessMode::Write));
    }
}
