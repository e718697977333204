//! Interactive transactions.

use crate::check;
use crate::support::{Regions, run};
use base::time::{MS, SECOND};
use txn::any::EngineKind;

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
    let Ok(session::Response::Rows(mut rows)) = answers.pop().unwrap() else { panic!() };
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
        "show meridian.engine" => "caerus",
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
        "listen x" => "LISTEN");
}

#[tokio::test]
async fn whoever_changes_a_row_second_waits_and_sees_what_the_first_left() {
    let regions = Regions::new();
    let (mut a, mut b) = (regions.session(0), regions.session(0));
    check!(a, "create table t (k int primary key, v int, w int)" => "CREATE TABLE",
        "insert into t values (1, 10, 0), (2, 20, 0)" => "INSERT 0 2");
    for first in ["update t set v = v + 1 where k = 1", "select v from t where k = 1 for update"] {
        // The cut is older than what the first one writes.
        check!(b, "begin" => "BEGIN", "select v from t where k = 2" => "20");
        run(&mut a, "begin").await;
        run(&mut a, first).await;
        let second = async {
            check!(b, "update t set v = v + 1 where k = 1 returning w" => "0");
        };
        let commit = async {
            check!(a, "update t set v = v + 100 where k = 1" => "UPDATE 1", "commit" => "COMMIT");
        };
        tokio::join!(second, commit);
        check!(b, "commit" => "COMMIT");
    }
    check!(a, "select v from t where k = 1" => "213");
    // One statement alone goes after who has locked the row, too; and a session that ends lets others go on.
    check!(a, "begin" => "BEGIN", "select v from t where k = 1 for update" => "213");
    let alone = async {
        check!(b, "update t set v = 0 where k = 1" => "UPDATE 1");
    };
    let end = async { drop(a) };
    tokio::join!(alone, end);
    check!(b, "select v from t where k = 1" => "0");
}

#[tokio::test]
async fn a_queue_is_served_by_many_without_conflicts() {
    let regions = Regions::new();
    let (mut a, mut b, mut c) = (regions.session(0), regions.session(0), regions.session(0));
    check!(a, "create table q (d int, n int, x int, primary key (d, n))" => "CREATE TABLE",
        "insert into q values (1, 1, 0), (1, 2, 0), (1, 3, 0), (2, 1, 0), (2, 2, 0)" => "INSERT 0 5");
    let first = "select n from q where d = 1 order by n limit 1 for update";
    check!(a, "begin" => "BEGIN", first => "1", "delete from q where d = 1 and n = 1" => "DELETE 1",
        // What was written in one range does not widen what is read in another.
        "select n from q where d = 2 order by n limit 1 for update" => "1",
        "delete from q where d = 2 and n = 1" => "DELETE 1",
        "select n from q where d = 2 order by n limit 1" => "2");
    check!(b, "begin" => "BEGIN",
        "select n from q where d = 1 order by n limit 1 for update nowait"
            => "55P03 could not obtain lock on row in relation \"q\"",
        "rollback" => "ROLLBACK", "begin" => "BEGIN",
        "select n from q where d = 1 order by n limit 1 for update skip locked" => "2",
        "delete from q where d = 1 and n = 2" => "DELETE 1", "commit" => "COMMIT");
    // Others append meanwhile.
    check!(c, "insert into q values (1, 4, 0), (2, 4, 0)" => "INSERT 0 2");
    check!(b, "begin" => "BEGIN");
    let second = async {
        check!(b, first => "3");
    };
    let commit = async {
        check!(a, "commit" => "COMMIT");
    };
    tokio::join!(second, commit);
    check!(b, "delete from q where d = 1 and n = 3" => "DELETE 1", "commit" => "COMMIT",
        "select d, n from q order by d, n" => "1|4\n2|2\n2|4");
}

#[tokio::test]
async fn transactions_that_wait_for_each_other_are_told() {
    let regions = Regions::new();
    let (mut a, mut b) = (regions.session(0), regions.session(0));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 0), (2, 0)" => "INSERT 0 2",
        "begin" => "BEGIN", "update t set v = 1 where k = 1" => "UPDATE 1");
    check!(b, "begin" => "BEGIN", "update t set v = 2 where k = 2" => "UPDATE 1");
    let of_a = async {
        check!(a, "update t set v = 1 where k = 2" => "UPDATE 1", "commit" => "COMMIT");
    };
    let of_b = async {
        check!(b, "update t set v = 2 where k = 1" => "40P01 deadlock detected");
    };
    tokio::join!(of_a, of_b);
    check!(b, "commit" => "ROLLBACK", "select * from t order by k" => "1|1\n2|1");
}

#[tokio::test]
async fn a_row_may_change_in_columns_that_were_not_looked_at() {
    let regions = Regions::new();
    let (mut a, mut b) = (regions.session(0), regions.session(1));
    check!(a, "create table w (k int primary key, tax int, ytd int)" => "CREATE TABLE",
        "create table o (k int primary key)" => "CREATE TABLE",
        "insert into w values (1, 7, 0), (2, 8, 0)" => "INSERT 0 2");
    for (n, (read, change, ends)) in [
        ("select tax from w where k = 1", "update w set ytd = ytd + 1 where k = 1", "COMMIT"),
        ("select tax from w where k >= 1 order by k limit 1", "update w set ytd = 5 where k = 1", "COMMIT"),
        (
            "select tax from w where k >= 1 order by k limit 1",
            "delete from w where k = 1; insert into w values (1, 6, 0)",
            "40001",
        ),
        ("select tax from w where k = 1", "update w set tax = 9 where k = 1", "40001"),
        ("select tax from w where k = 1 and ytd < 100", "update w set ytd = 200 where k = 1", "40001"),
        ("select tax from w where k = 3", "insert into w values (3, 1, 1)", "40001"),
        ("select tax from w where k = 3", "delete from w where k = 3", "40001"),
    ]
    .into_iter()
    .enumerate()
    {
        check!(a, "begin" => "BEGIN");
        run(&mut a, read).await;
        check!(a, &format!("insert into o values ({n})") => "INSERT 0 1");
        run(&mut b, change).await;
        let end = run(&mut a, "commit").await;
        assert!(end.starts_with(ends), "{read}, {change}: {end}");
    }
}

#[tokio::test]
async fn a_join_by_keys_is_answered_from_rows_in_and_out_of_a_block() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s, "create table l (w int, o int, n int, i int, primary key (w, o, n))" => "CREATE TABLE",
        "create table st (w int, i int, q int, name text, primary key (w, i))" => "CREATE TABLE",
        "insert into l values (1, 1, 1, 5), (1, 1, 2, 6), (1, 2, 1, 5), (1, 3, 1, 7), (1, 3, 2, null), (2, 1, 1, 5)"
            => "INSERT 0 6",
        "insert into st values (1, 5, 10, 'a'), (1, 6, 50, 'b'), (1, 7, 5, 'c'), (2, 5, 0, 'd')" => "INSERT 0 4");
    let count = "select count(distinct st.i) from l, st where l.w = 1 and o >= 1 and o < 3 and l.o = 1 \
        and st.w = 1 and st.i = l.i and q < 20";
    let list = "select n, name, q + l.i from l join st on st.i = l.i and st.w = l.w \
        where l.w = 1 and l.o = 1 order by n desc";
    let crossed = "select st.name from st, l where l.w = 1 and l.o = 3 and st.w = 1 and st.i = l.i limit 5";
    for sql in [count, list, crossed] {
        let plan = run(&mut s, &format!("explain {sql}")).await;
        assert!(plan.contains("and for each the row of st by primary key"), "{plan}");
    }
    check!(s, count => "1", list => "2|b|56\n1|a|15", crossed => "c",
        "begin" => "BEGIN", "insert into l values (1, 1, 3, 7)" => "INSERT 0 1",
        "update st set q = 15 where w = 1 and i = 6" => "UPDATE 1",
        count => "3", list => "3|c|12\n2|b|21\n1|a|15",
        "delete from st where w = 1 and i = 7" => "DELETE 1", crossed => "",
        "rollback" => "ROLLBACK",
        count => "1");
}

#[tokio::test]
async fn truncate_in_a_block_is_part_of_it() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 1), (2, 2)" => "INSERT 0 2",
        "begin" => "BEGIN", "insert into t values (3, 3)" => "INSERT 0 1",
        "truncate t" => "TRUNCATE TABLE", "select count(*) from t" => "0",
        "insert into t values (1, 10)" => "INSERT 0 1", "savepoint a" => "SAVEPOINT",
        "truncate table t" => "TRUNCATE TABLE", "rollback to a" => "ROLLBACK",
        "commit" => "COMMIT", "select * from t" => "1|10",
        "begin" => "BEGIN", "truncate t" => "TRUNCATE TABLE", "rollback" => "ROLLBACK",
        "select count(*) from t" => "1");
}

#[tokio::test]
async fn a_unique_value_that_lives_elsewhere_can_be_freed_and_taken_in_one_transaction() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s, "create table p (w int, k int, code text unique, primary key (w, k)) \
            with (home_by = 'w', home_map = 'list(1:us, 2:eu, 3:asia)')" => "CREATE TABLE",
        "insert into p values (1, 1, 'a'), (2, 1, 'b')" => "INSERT 0 2",
        "begin" => "BEGIN", "delete from p where w = 1" => "DELETE 1",
        "insert into p values (3, 1, 'a')" => "INSERT 0 1", "commit" => "COMMIT",
        // As one text.
        "update p set code = 'c' where w = 3; insert into p values (1, 2, 'a')" => "UPDATE 1\nINSERT 0 1",
        "begin" => "BEGIN", "update p set code = 'x' where code = 'a'" => "UPDATE 1",
        "update p set code = 'a' where code = 'b'" => "UPDATE 1",
        "update p set code = 'b' where code = 'x'" => "UPDATE 1", "commit" => "COMMIT",
        "select w, code from p order by w" => "1|b\n2|a\n3|c",
        "insert into p values (2, 7, 'c') on conflict (code) do nothing" => "INSERT 0 0",
        "insert into p values (2, 7, 'c') on conflict (code) do update set code = 'd' returning w, k, code"
            => "3|1|d",
        "insert into p values (2, 7, 'c') on conflict (code) do nothing" => "INSERT 0 1",
        "begin" => "BEGIN", "delete from p where w = 3" => "DELETE 1",
        "insert into p values (1, 9, 'd') on conflict do nothing" => "INSERT 0 1",
        "insert into p values (1, 10, 'd') on conflict do nothing" => "INSERT 0 0",
        "commit" => "COMMIT",
        "select w, k, code from p order by w, k" => "1|2|b\n1|9|d\n2|1|a\n2|7|c");
}

#[tokio::test]
async fn what_was_read_at_two_cuts_is_validated_though_nothing_was_written() {
    let regions = Regions::new();
    let (mut a, mut b) = (regions.session(0), regions.session(0));
    check!(a, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 1), (2, 1)" => "INSERT 0 2");
    for (change, ends) in
        [("update t set v = v + 1", "40001"), ("update t set v = v + 1 where k = 1", "COMMIT")]
    {
        check!(a, "begin" => "BEGIN");
        run(&mut a, "select v from t where k = 2").await;
        run(&mut b, change).await;
        run(&mut a, "select v from t where k = 1 for update").await;
        let end = run(&mut a, "commit").await;
        assert!(end.starts_with(ends), "{change}: {end}");
    }
}

#[tokio::test]
async fn a_session_whose_connection_breaks_holds_nothing_back() {
    for engine in [EngineKind::Caerus, EngineKind::Perseus] {
        let regions = Regions::with_engine(engine);
        let mut reader = regions.session(1);
        check!(reader, "create table t (k int primary key)" => "CREATE TABLE", "begin" => "BEGIN",
            "select count(*) from t" => "0");
        regions.pass(SECOND);
        let held = regions.collected_below(1);
        regions.pass(SECOND);
        assert_eq!(regions.collected_below(1), held, "an open transaction keeps what it reads");
        // Nobody closed it.
        drop(reader);
        regions.pass(SECOND);
        assert!(regions.collected_below(1) > held, "{}", engine.name());
    }
}

#[tokio::test]
async fn who_waits_for_a_commit_when_its_node_stops_is_told_that_nobody_knows() {
    for engine in [EngineKind::Caerus, EngineKind::Perseus] {
        let regions = Regions::with_engine(engine);
        let (mut us, mut eu) = (regions.session(0), regions.session(1));
        check!(us, "create table t (k int primary key) with (home = 'us')" => "CREATE TABLE");
        regions.pass(SECOND);
        // A round trip takes 100 ms.
        regions.stop_after(1, 20 * MS);
        check!(eu, "insert into t values (1)" => "08007 the transaction had been sent when the node stopped; its outcome is not known",
            "select k from t" => "57P01 the node is gone");
        regions.pass(SECOND);
        check!(us, "select k from t" => "1");
    }
}
