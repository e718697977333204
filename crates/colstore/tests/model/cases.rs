//! Single cases: cuts that are refused, zone maps, merges of a load in order, copies.

use super::naive::{satisfies, scanned};
use super::tables::{both_tables, tables};
use super::world::World;
use base::commit::{CommitRecord, RowWrite};
use base::decimal::Decimal;
use base::schema::*;
use base::*;
use colstore::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    catalog
        .apply(&SchemaChange { database: Default::default(), base_version: 0, actions })
        .expect("empty so far");
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

/// Copies of ranks above a change that came to their partitions later: they also held what has no part there.
#[test]
fn a_change_below_the_ranks_of_copies_has_one_rank_at_every_partition() {
    let partitions = [PartitionId(0), PartitionId(1), PartitionId(2)];
    let before = both_tables();
    let change = SchemaChange {
        database: Default::default(),
        base_version: before.version,
        actions: vec![SchemaAction::CreateSchema("later".into())],
    };
    let mut after = Catalog::clone(&before);
    after.apply(&change).expect("nothing else has that name");
    let mut store = ColumnStore::new(partitions, Arc::default());
    store.begin_copy(partitions[0], LogPosition(9), Rank(100), &Arc::new(after));
    for partition in &partitions[1..] {
        store.begin_copy(*partition, LogPosition(9), Rank(100), &before);
    }
    for partition in &partitions[1..] {
        store.apply(&CommitRecord {
            txn: TxnId::MIN,
            rank: Rank(90),
            partition: *partition,
            position: LogPosition(10),
            writes: vec![],
            schema: Some(change.clone()),
        });
    }
    let schemas = |rank| store.catalog_at(&Cut::Rank(Rank(rank))).unwrap().schemas.len();
    assert_eq!((schemas(89), schemas(90)), (1, 2));
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
