//! Levels of isolation with engine `geogauss`: what a level forbids does not occur, what it allows does.

use crate::check;
use crate::support::{Regions, run};
use std::future::Future;
use std::pin::Pin;
use txn::any::EngineKind;

/// Whether two concurrent blocks both commit, each of which reads both rows and writes one of them.
async fn skews(level: &str) -> bool {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    let begin = format!("begin isolation level {level}");
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 10), (2, 20)" => "INSERT 0 2",
        &begin => "BEGIN", "show transaction_isolation" => level, "select sum(v) from t" => "30");
    check!(b, &begin => "BEGIN", "select sum(v) from t" => "30", "update t set v = 0 where k = 2" => "UPDATE 1");
    check!(a, "update t set v = 0 where k = 1" => "UPDATE 1", "commit" => "COMMIT");
    let ended = run(&mut b, "commit").await;
    assert!(ended == "COMMIT" || ended.starts_with("40001"), "{ended}");
    ended == "COMMIT"
}

#[tokio::test]
async fn write_skew_commits_at_repeatable_read_and_not_at_serializable() {
    assert!(skews("repeatable read").await);
    assert!(!skews("serializable").await);
}

#[tokio::test]
async fn an_update_is_not_lost_at_repeatable_read_and_a_block_reads_at_one_cut() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 10), (2, 20)" => "INSERT 0 2",
        "set session characteristics as transaction isolation level repeatable read" => "SET",
        "show transaction_isolation" => "repeatable read",
        "begin" => "BEGIN", "select v from t where k = 1" => "10",
        "savepoint s" => "SAVEPOINT",
        "set transaction isolation level serializable" =>
            "25001 SET TRANSACTION ISOLATION LEVEL must be called before any query",
        "rollback to s" => "ROLLBACK");
    check!(b, "update t set v = 15 where k = 1" => "UPDATE 1");
    check!(a, "select v from t where k = 1" => "10", "update t set v = 11 where k = 1" => "UPDATE 1");
    let ended = run(&mut a, "commit").await;
    assert!(ended.starts_with("40001"), "{ended}");
    check!(b, "select v from t where k = 1" => "15");
}

#[tokio::test]
async fn a_foreign_key_and_a_locked_row_hold_at_repeatable_read() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table p (k int primary key)" => "CREATE TABLE",
        "create table c (k int primary key, p int references p)" => "CREATE TABLE",
        "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into p values (1)" => "INSERT 0 1", "insert into t values (1, 1), (2, 2)" => "INSERT 0 2",
        "begin isolation level repeatable read" => "BEGIN", "insert into c values (1, 1)" => "INSERT 0 1");
    check!(b, "delete from p where k = 1" => "DELETE 1");
    let ended = run(&mut a, "commit").await;
    assert!(ended.starts_with("40001"), "{ended}");
    for (how, meanwhile) in [("for update", "v = 9"), ("for share", "v = 7")] {
        let marked = format!("select k from t where k = 1 {how}");
        let update = format!("update t set {meanwhile} where k = 1");
        check!(a, "begin isolation level repeatable read" => "BEGIN", &marked => "1",
            "update t set v = 5 where k = 2" => "UPDATE 1");
        check!(b, &update => "UPDATE 1");
        let ended = run(&mut a, "commit").await;
        assert!(ended.starts_with("40001"), "{how}: {ended}");
    }
}

/// Two blocks in two regions: the one takes a parent away, the other gives it a child.
#[tokio::test]
async fn a_parent_that_goes_and_a_child_that_comes_do_not_both_commit_at_repeatable_read() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table p (k int primary key)" => "CREATE TABLE",
        "create table c (k int primary key, p int references p)" => "CREATE TABLE",
        "insert into p values (1)" => "INSERT 0 1",
        "begin isolation level repeatable read" => "BEGIN", "delete from p where k = 1" => "DELETE 1");
    check!(b, "begin isolation level repeatable read" => "BEGIN", "insert into c values (1, 1)" => "INSERT 0 1",
        "commit" => "COMMIT");
    let ended = run(&mut a, "commit").await;
    assert!(ended.starts_with("40001"), "{ended}");
    check!(b, "select count(*) from p join c on p.k = c.p" => "1");
}

/// A row that is read to be written comes from the snapshot too: what is read after it is as old as what was read before.
#[tokio::test]
async fn a_block_at_repeatable_read_sees_one_snapshot_after_it_has_written() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 10), (2, 20), (3, 30)" => "INSERT 0 3",
        "begin isolation level repeatable read" => "BEGIN", "select v from t where k = 1" => "10");
    check!(b, "update t set v = v + 1 where k in (1, 2)" => "UPDATE 2");
    check!(a, "update t set v = 0 where k = 3" => "UPDATE 1", "select v from t where k = 2" => "20",
        "select sum(v) from t where k < 3" => "30", "commit" => "COMMIT");
    check!(b, "select sum(v) from t" => "32");
}

#[tokio::test]
async fn what_is_given_is_told() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let mut a = regions.session(0);
    let told = "select current_setting('transaction_isolation')";
    check!(a, "create table t (k int primary key)" => "CREATE TABLE", told => "serializable",
        "set transaction_isolation = 'repeatable read'" => "SET", "show transaction_isolation" => "serializable",
        "begin" => "BEGIN", "set transaction_isolation = 'repeatable read'" => "SET",
        "show transaction_isolation" => "repeatable read", told => "repeatable read",
        "select count(*) from t" => "0",
        "set transaction_isolation = 'serializable'" =>
            "25001 SET TRANSACTION ISOLATION LEVEL must be called before any query",
        "rollback" => "ROLLBACK", told => "serializable",
        "set default_transaction_isolation = 'repeatable read'" => "SET", told => "repeatable read",
        "begin isolation level read uncommitted" => "BEGIN", told => "read committed", "commit" => "COMMIT",
        "begin" => "BEGIN", "set transaction isolation level read committed" => "SET", told => "read committed",
        "create table u (k int primary key)" => "CREATE TABLE", "commit" => "COMMIT",
        "set default_transaction_isolation = 'read committed'" => "SET", told => "read committed",
        "begin" => "BEGIN", "show transaction_isolation" => "read committed", "commit" => "COMMIT",
        "begin isolation level serializable" => "BEGIN", told => "serializable", "commit" => "COMMIT",
        "set transaction_isolation = 'chaos'" =>
            "22023 invalid value for parameter \"transaction_isolation\": \"chaos\"");
    let regions = Regions::with_engine(EngineKind::Caerus);
    let mut a = regions.session(0);
    for level in ["repeatable read", "read committed", "read uncommitted"] {
        let begin = format!("begin isolation level {level}");
        let default = format!("set default_transaction_isolation = '{level}'");
        check!(a, &begin => "BEGIN", "show transaction_isolation" => "serializable", told => "serializable",
            "commit" => "COMMIT", &default => "SET", told => "serializable");
    }
}

/// Homes mean nothing where epochs are merged: wherever a row is, its answer comes when the epoch is published.
#[tokio::test]
async fn explain_says_that_answers_come_when_the_epoch_is_published() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let mut a = regions.session(0);
    check!(a, "create table w (k int primary key, x int) with (home_by = 'k', home_map = 'list(1:us, 2:eu)')"
        => "CREATE TABLE", "insert into w values (1, 1), (2, 2)" => "INSERT 0 2");
    for k in [1, 2] {
        let write = run(&mut a, &format!("explain update w set x = 1 where k = {k}")).await;
        let published = "to the farthest region; answered when the epoch is published";
        assert!(write.contains("WAN round trips: 0.5 (") && write.contains(published), "{write}");
        let read = run(&mut a, &format!("explain select x from w where k = {k}")).await;
        assert!(read.contains("WAN round trips: 0.5 (") && read.contains("Nodes asked: none"), "{read}");
    }
    let measured = run(&mut a, "explain analyze update w set x = 3 where k = 1").await;
    let trips = measured.lines().filter_map(|line| line.trim().strip_prefix("WAN round trips: ")).next_back();
    let trips: f64 = trips.and_then(|trips| trips.split(' ').next()?.parse().ok()).expect(&measured);
    assert!((0.5..0.8).contains(&trips), "{measured}");
}

/// Two blocks in two regions make the same key: the second is told to begin again, and is then told of the key.
#[tokio::test]
async fn who_finds_its_new_key_taken_at_commit_is_told_to_begin_again() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int unique)" => "CREATE TABLE");
    let (mine, theirs) = ("insert into t values (1, 1)", "insert into t values (1, 2)");
    check!(a, "begin isolation level repeatable read" => "BEGIN", mine => "INSERT 0 1");
    check!(b, "begin isolation level repeatable read" => "BEGIN", theirs => "INSERT 0 1", "commit" => "COMMIT");
    let ended = run(&mut a, "commit").await;
    assert!(ended.starts_with("40001"), "{ended}");
    let told = run(&mut a, mine).await;
    assert!(told.starts_with("23505"), "{told}");
}

/// What two blocks at READ COMMITTED may do to each other, and what they may not.
#[tokio::test]
async fn each_statement_at_read_committed_reads_what_was_committed_before_it() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 10), (2, 20)" => "INSERT 0 2",
        "begin isolation level read committed" => "BEGIN", "show transaction_isolation" => "read committed",
        "select v from t where k = 1" => "10");
    check!(b, "begin" => "BEGIN", "update t set v = v + 1" => "UPDATE 2");
    // Nothing that is not committed (G1a), then all of it at once, by rows and by columns: not a half (G1b).
    check!(a, "select sum(v) from t" => "30");
    check!(b, "commit" => "COMMIT");
    check!(a, "select v from t where k = 1" => "11", "select sum(v) from t" => "32",
        "select sum(v) from t where v > (select min(v) from t)" => "21");
    // Rows that come (phantoms), and own writes over all of it.
    check!(b, "insert into t values (3, 100)" => "INSERT 0 1");
    check!(a, "select count(*) from t" => "3", "update t set v = v + 1 where k = 3" => "UPDATE 1",
        "select sum(v) from t" => "133");
    check!(b, "select sum(v) from t" => "132", "update t set v = 0 where k = 1" => "UPDATE 1");
    check!(a, "select sum(v) from t" => "122", "commit" => "COMMIT", "select sum(v) from t" => "122");
}

/// As in PostgreSQL, what a client has read and computed from may have changed when it writes (P4).
#[tokio::test]
async fn what_a_client_computes_from_an_earlier_statement_may_be_lost_at_read_committed() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE", "insert into t values (1, 10)" => "INSERT 0 1",
        "begin isolation level read committed" => "BEGIN", "select v from t where k = 1" => "10");
    check!(b, "update t set v = v + 5 where k = 1" => "UPDATE 1");
    check!(a, "update t set v = 11 where k = 1" => "UPDATE 1", "commit" => "COMMIT");
    check!(b, "select v from t where k = 1" => "11");
}

/// A statement's own reading and writing are one: no other region's change comes between them and is lost.
#[tokio::test]
async fn what_a_statement_changes_is_as_it_saw_it_at_read_committed() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int, w int)" => "CREATE TABLE",
        "insert into t values (1, 10, 0), (2, 20, 0)" => "INSERT 0 2");
    for change in [
        "update t set v = v + 1 where k = 1",
        "update t set w = 7 where k = 1",
        "delete from t where k = 1",
        "update t set v = (select max(v) from t) where k = 1",
    ] {
        check!(a, "begin isolation level read committed" => "BEGIN", "select count(*) from t" => "2");
        let changed = run(&mut a, change).await;
        assert!(changed.ends_with(" 1"), "{changed}");
        check!(b, "update t set v = v + 100 where k = 1" => "UPDATE 1");
        // What happens behind it does not make the change newer.
        check!(a, "select count(*) from t where k = 2" => "1", "update t set w = w + 1 where k = 2" => "UPDATE 1");
        let ended = run(&mut a, "commit").await;
        assert!(ended.starts_with("40001"), "{change}: {ended}");
    }
    check!(b, "select v from t where k = 1" => "410");
}

/// Within a region row locks have blocks wait for each other, and each goes on from what it finds then: nobody fails.
#[test]
fn blocks_of_one_region_at_read_committed_wait_for_rows_and_do_not_fail() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let mut first = regions.session(0);
    regions.run_together(vec![Box::pin(async {
        check!(first, "create table t (k int primary key, v int)" => "CREATE TABLE",
            "insert into t values (1, 0)" => "INSERT 0 1");
    })]);
    let adds = |n: usize| -> Pin<Box<dyn Future<Output = ()> + '_>> {
        let mut session = regions.session(0);
        Box::pin(async move {
            let look = if n % 2 == 0 {
                "select 1 from t where k = 1 for update"
            } else {
                "select 1 from t where k = 1"
            };
            for _ in 0..6 {
                check!(session, "begin isolation level read committed" => "BEGIN", look => "1",
                    "update t set v = v + 1 where k = 1" => "UPDATE 1", "commit" => "COMMIT");
            }
        })
    };
    regions.run_together((0..4).map(adds).collect());
    regions.run_together(vec![Box::pin(async {
        check!(first, "select v from t where k = 1" => "24");
    })]);
}

#[tokio::test]
async fn keys_references_checks_and_locked_rows_hold_at_read_committed() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    let begin = "begin isolation level read committed";
    check!(a, "create table p (k int primary key)" => "CREATE TABLE",
        "create table c (k int primary key, p int references p, u int unique, v int, w int, check (v + w < 10))"
            => "CREATE TABLE",
        "insert into p values (1), (2)" => "INSERT 0 2", "insert into c values (1, 2, 1, 4, 4)" => "INSERT 0 1");
    let cases: [(&[&str], &str); 7] = [
        // A child comes while its parent goes, and the other way round.
        (&["insert into c values (9, 1, 9, 0, 0)"], "delete from p where k = 1"),
        (&["delete from p where k = 1"], "insert into c values (8, 1, 8, 0, 0)"),
        // Two rows with one unique value, by one that comes and by one that changes.
        (&["insert into c values (7, 2, 77, 0, 0)"], "insert into c values (6, 2, 77, 0, 0)"),
        (&["update c set u = 66 where k = 1"], "insert into c values (5, 2, 66, 0, 0)"),
        // Each by itself keeps the check, both do not.
        (&["update c set v = 5 where k = 1"], "update c set w = 5 where k = 1"),
        // What is locked or marked stays, though statements behind it read anew.
        (
            &["select k from c where k = 1 for update", "select count(*) from p", "insert into p values (5)"],
            "update c set v = 3 where k = 1",
        ),
        (
            &["select k from c where k = 1 for share", "select count(*) from p", "insert into p values (4)"],
            "update c set v = 2 where k = 1",
        ),
    ];
    for (mine, theirs) in cases {
        for (session, clear) in [
            (&mut a, "delete from c where k <> 1"),
            (&mut b, "insert into p values (1) on conflict do nothing"),
        ] {
            let done = run(session, clear).await;
            assert!(done.starts_with("DELETE") || done.starts_with("INSERT"), "{done}");
        }
        check!(a, begin => "BEGIN", "select count(*) from c" => "1");
        for statement in mine {
            let done = run(&mut a, statement).await;
            assert!(done.len() < 12, "{statement}: {done}");
        }
        let done = run(&mut b, theirs).await;
        assert!(done.ends_with(" 1"), "{theirs}: {done}");
        let ended = run(&mut a, "commit").await;
        assert!(ended.starts_with("40001") || ended.starts_with("23505"), "{mine:?} and {theirs}: {ended}");
    }
    check!(b, "select count(*) from c left join p on p.k = c.p where p.k is null" => "0",
        "select count(*) from c where v + w >= 10" => "0");
}

/// A change that others have made of a row that was read before and is locked now is no reason to fail.
#[tokio::test]
async fn a_lock_at_read_committed_counts_from_when_it_was_taken() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE", "insert into t values (1, 10), (2, 20)" => "INSERT 0 2",
        "begin isolation level read committed" => "BEGIN", "select k, v from t where k = 1" => "1|10");
    check!(b, "update t set v = 11 where k = 1" => "UPDATE 1");
    check!(a, "select k, v from t where k = 1 for update" => "1|11", "update t set v = v + 1 where k = 2" => "UPDATE 1",
        "commit" => "COMMIT");
}

/// A cursor shows what there was when it was declared, whatever its block reads meanwhile.
#[tokio::test]
async fn a_cursor_at_read_committed_is_of_one_cut() {
    let regions = Regions::with_engine(EngineKind::Geogauss);
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE", "insert into t values (1, 10), (2, 20)" => "INSERT 0 2",
        "begin isolation level read committed" => "BEGIN", "declare c cursor for select v from t order by k" => "DECLARE CURSOR",
        "fetch c" => "10");
    check!(b, "update t set v = 0" => "UPDATE 2");
    check!(a, "select sum(v) from t" => "0", "fetch c" => "20", "commit" => "COMMIT");
}
