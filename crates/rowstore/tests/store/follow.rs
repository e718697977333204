//! Replicas that begin with a copy, and which entries of indexes a record concerns. (That a replica shows what its
//! partition shows, every test of this crate checks: `support::World::check`.)

use crate::support::*;
use base::commit::{CommitRecord, RowWrite};
use base::schema::{SchemaAction, Table};
use base::*;
use std::collections::BTreeSet;

const T: TableId = TableId(1);
const BY_D: TableId = TableId(3);

fn row(a: i64, d: &str) -> Vec<Datum> {
    vec![int(a), int(a), int(a + 1), Datum::text(d)]
}

fn world() -> World {
    let mut world = World::new(1);
    let t = Table { indexes: vec![index(3, "t_d", &[3], false)], ..table(1, "t") };
    world.schema(vec![SchemaAction::CreateTable(t)]).unwrap();
    world
}

#[test]
fn a_replica_goes_on_behind_a_copy_and_refuses_cuts_before_it() {
    let mut w = world();
    w.insert(T, &[&row(1, "x"), &row(2, "x"), &row(3, "y")]).unwrap();
    let mut copy = w.stores[0].begin_rows();
    let mut replica = rowstore::Store::new(PartitionId(0), w.topology.clone(), Default::default());
    let at = w.now();
    replica.begin_following(copy.catalog(), at);
    while let Some((table, rows)) = w.stores[0].more_rows(&mut copy, 2, &|_| false).unwrap() {
        replica.follow_rows(table, &rows);
    }
    let read = |index| base::txn::RowRead { index, ..whole(PartitionId(0), T) };
    for index in [None, Some(BY_D)] {
        assert_eq!(replica.read(&read(index), at).unwrap(), w.stores[0].read(&read(index), at).unwrap());
    }
    assert_eq!(replica.read(&read(None), at.previous()).unwrap_err().state, SqlState::SNAPSHOT_TOO_OLD);
    // A record may be ranked before the copy where it conflicts with nothing in it.
    let txn = TxnId { sequence: 9, ..TxnId::MIN };
    let write = RowWrite::new(T, key(&[7, 7]), Some(Row::of(&row(7, "z"))));
    let record = CommitRecord {
        txn,
        rank: at.previous(),
        partition: PartitionId(0),
        position: LogPosition(9),
        writes: vec![write],
        schema: None,
    };
    replica.follow(&record);
    assert_eq!(replica.read(&read(Some(BY_D)), at).unwrap().len(), 4);
}

#[test]
fn a_record_concerns_the_entries_before_it_and_after_it() {
    let mut w = world();
    let place = |w: &World, nth: u64| Place::new(Rank(w.rank), TxnId { sequence: nth, ..TxnId::MIN });
    let mut concerned = Vec::new();
    let first = w.table("t").key_of(&row(1, "x"));
    for (nth, state) in [Some("x"), Some("y"), None].into_iter().enumerate() {
        w.rank += 10;
        let new = state.map(|d| Row::of(&row(1, d)));
        let at = place(&w, nth as u64 + 1);
        let record = CommitRecord {
            txn: at.txn,
            rank: at.rank,
            partition: PartitionId(0),
            position: LogPosition(nth as u64 + 1),
            writes: vec![RowWrite::new(T, first.clone(), new)],
            schema: None,
        };
        w.stores[0].follow(&record);
        let mut entries = BTreeSet::new();
        w.stores[0].entries_of(&record, &mut |index, entry| {
            assert_eq!(index, BY_D);
            entries.insert(entry.clone());
        });
        concerned.push(entries);
    }
    assert_eq!(concerned.iter().map(BTreeSet::len).collect::<Vec<_>>(), [1, 2, 1]);
    assert!(concerned[0].is_subset(&concerned[1]) && concerned[2].is_subset(&concerned[1]));
    assert!(concerned[0].is_disjoint(&concerned[2]), "what it was in the end is not what it was at first");
}
