//! Levels of isolation with engine `geogauss`: what a level forbids does not occur, what it allows does.

use crate::check;
use crate::support::{Regions, run};
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
        "begin isolation level read committed" => "BEGIN", "show transaction_isolation" => "serializable",
        "commit" => "COMMIT", "set transaction_isolation = 'chaos'" =>
            "22023 invalid value for parameter \"transaction_isolation\": \"chaos\"");
    let regions = Regions::with_engine(EngineKind::Caerus);
    let mut a = regions.session(0);
    check!(a, "begin isolation level repeatable read" => "BEGIN", "show transaction_isolation" => "serializable",
        told => "serializable", "commit" => "COMMIT");
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
