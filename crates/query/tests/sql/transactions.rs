//! Interactive transactions.

use crate::check;
use crate::support::Regions;

#[tokio::test]
async fn a_block_sees_its_own_writes_and_nobody_else_s() {
    let regions = Regions::new();
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 10), (2, 20), (3, 30)" => "INSERT 0 3",
        "begin" => "BEGIN",
        "update t set v = v + 1 where k = 1" => "UPDATE 1",
        "insert into t values (4, 40)" => "INSERT 0 1",
        "delete from t where k = 2" => "DELETE 1",
        "select v from t where k = 1" => "11",
        "select * from t order by k" => "1|11\n3|30\n4|40",
        "select sum(v), count(*) from t" => "81|3",
        "insert into t values (3, 0)" => "23505 duplicate key value violates unique constraint \"t_pkey\"",
        "select 1" => "25P02 current transaction is aborted, commands ignored until end of transaction block",
        "commit" => "ROLLBACK",
        "select sum(v) from t" => "60",
        "begin" => "BEGIN",
        "update t set v = v + 1 where k = 1" => "UPDATE 1",
    );
    check!(b, "select v from t where k = 1" => "10");
    check!(a, "commit" => "COMMIT");
    check!(b, "select v from t where k = 1" => "11");
}

#[tokio::test]
async fn a_conflict_is_found_at_commit_and_names_the_row() {
    let regions = Regions::new();
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 10), (2, 20)" => "INSERT 0 2",
        "begin" => "BEGIN",
        "select v from t where k = 1 for update" => "10",
        "update t set v = 11 where k = 1" => "UPDATE 1");
    check!(b, "update t set v = v + 5 where k = 1" => "UPDATE 1");
    let error = a.simple("commit").await.pop().unwrap().err().unwrap();
    assert_eq!(error.state.as_str(), "40001");
    assert!(format!("{error:?}").contains("\"t\"") || error.table.as_deref() == Some("t"), "{error:?}");
    check!(a, "select v from t where k = 1" => "15");
    // A phantom: the range was empty when it was read.
    check!(a, "begin" => "BEGIN", "select count(*) from t where k > 5" => "0",
        "insert into t values (100, 1)" => "INSERT 0 1");
    check!(b, "insert into t values (50, 1)" => "INSERT 0 1");
    let error = a.simple("commit").await.pop().unwrap().err().unwrap();
    assert_eq!(error.state.as_str(), "40001");
    // What was summed was one key range: others may write elsewhere.
    check!(a, "create table l (o int, n int, x int, primary key (o, n))" => "CREATE TABLE",
        "insert into l values (1, 1, 5), (1, 2, 6), (2, 1, 7)" => "INSERT 0 3",
        "begin" => "BEGIN", "select sum(x) from l where o = 1" => "11",
        "insert into t values (200, 1)" => "INSERT 0 1",
        "insert into l values (1, 3, 1)" => "INSERT 0 1",
        "select sum(x) from l where o = 1" => "12");
    check!(b, "insert into l values (2, 2, 7)" => "INSERT 0 1");
    check!(a, "commit" => "COMMIT", "delete from t where k = 200" => "DELETE 1");
    // Readers alone never fail.
    check!(a, "begin read only" => "BEGIN", "select count(*) from t" => "3");
    check!(b, "insert into t values (51, 1)" => "INSERT 0 1");
    check!(a, "select count(*) from t" => "3",
        "insert into t values (9, 9)" => "25006 cannot execute INSERT in a read-only transaction",
        "rollback" => "ROLLBACK", "select count(*) from t" => "4");
}

#[tokio::test]
async fn savepoints_undo_what_came_after_them() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "begin" => "BEGIN",
        "insert into t values (1, 1)" => "INSERT 0 1",
        "savepoint a" => "SAVEPOINT",
        "insert into t values (2, 2)" => "INSERT 0 1",
        "insert into t values (1, 9)" => "23505 duplicate key value violates unique constraint \"t_pkey\"",
        "rollback to a" => "ROLLBACK",
        "select count(*) from t" => "1",
        "release a" => "RELEASE",
        "rollback to a" => "3B001 savepoint \"a\" does not exist",
        "rollback" => "ROLLBACK",
        "savepoint x" => "25P01 SAVEPOINT can only be used in transaction blocks",
        "select count(*) from t" => "0");
}

#[tokio::test]
async fn a_text_of_several_statements_is_one_transaction() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s, "create table t (k int primary key)" => "CREATE TABLE",
        "insert into t values (1); insert into t values (1)" =>
            "INSERT 0 1\n23505 duplicate key value violates unique constraint \"t_pkey\"",
        "select count(*) from t" => "0",
        "insert into t values (1); insert into t values (2); select count(*) from t" => "INSERT 0 1\nINSERT 0 1\n2",
        "begin; insert into t values (3); rollback" => "BEGIN\nINSERT 0 1\nROLLBACK",
        "select count(*) from t" => "2",
        "" => "");
}

#[tokio::test]
async fn ddl_in_a_block_takes_effect_at_commit() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s, "begin" => "BEGIN",
        "create table t (k int primary key)" => "CREATE TABLE",
        "create index t_i on t (k)" => "CREATE INDEX",
        "rollback" => "ROLLBACK",
        "select * from t" => "42P01 relation \"t\" does not exist",
        "begin" => "BEGIN",
        "create table t (k int primary key)" => "CREATE TABLE",
        "create table u (k int primary key)" => "CREATE TABLE",
        "commit" => "COMMIT",
        "select count(*) from t, u" => "0");
}

#[tokio::test]
async fn a_canceled_query_ends_between_its_batches() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    let mut answers = s.simple("select v from generate_series(1, 100000) as g(v)").await;
    let Ok(query::Response::Rows(mut rows)) = answers.pop().unwrap() else { panic!() };
    assert_eq!(rows.stream.next_rows(10).await.unwrap().len(), 10);
    s.cancel_handle().cancel();
    let error = loop {
        match rows.stream.next_rows(8192).await {
            Ok(more) => assert!(!more.is_empty(), "the query was canceled, not finished"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.state.as_str(), "57014");
    // Nothing runs: the next statement is not touched.
    s.cancel_handle().cancel();
    check!(s, "select 1" => "1");
}

#[tokio::test]
async fn settings_are_shown_as_they_are() {
    let regions = Regions::new();
    let mut s = regions.session(1);
    check!(s, "show transaction_isolation" => "serializable",
        "set default_transaction_isolation = 'read committed'" => "SET",
        "show transaction isolation level" => "serializable",
        "show meridian.engine" => "perseus",
        "show meridian.region" => "eu",
        "set meridian.engine = 'x'" => "55P02 parameter \"meridian.engine\" cannot be changed",
        "set meridian.consistency = 'stale'" => "SET",
        "show meridian.consistency" => "stale",
        "set wurst = 1" => "42704 unrecognized configuration parameter \"wurst\"",
        "set application_name to 'me'" => "SET",
        "show application_name" => "me",
        "reset all" => "RESET",
        "show meridian.consistency" => "rss",
        "discard all" => "DISCARD ALL",
        "listen x" => "0A000 LISTEN x is not supported");
}
