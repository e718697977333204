//! Row locks: which statements take them and look at them, and when they end.

use crate::server::{Server, failure, rows, run, value};
use std::time::Duration;

const MADE: &str =
    "create table t (id int primary key, u int unique, v int); insert into t values (1, 10, 0), (2, 20, 0)";

/// Statements that add one to row 1, which a query, or the row's unique keys, lead to.
const CHANGES: [&str; 7] = [
    "update t set v = t.v + 1 from (values (1)) s (i) where t.id = s.i",
    "update t set v = v + (select min(id) from t) where id = 1",
    "merge into t using (values (1)) s (i) on t.id = s.i when matched then update set v = t.v + 1",
    "insert into t values (1, 30, 0) on conflict (id) do update set v = t.v + 1",
    "insert into t values (7, 10, 0) on conflict (u) do update set v = t.v + 1",
    "with x as (update t set v = t.v + 1 from (values (1)) s (i) where t.id = s.i returning t.v) select v from x",
    "select t.id from t, (values (1)) s (i) where t.id = s.i for update of t; update t set v = v + 1 where id = 1",
];

fn servers() -> impl Iterator<Item = Server> {
    ["caerus", "perseus", "geogauss"].into_iter().map(|engine| Server::start_with(&["--engine", engine], 3))
}

#[tokio::test(flavor = "multi_thread")]
async fn selects_that_lock_or_mark_heed_locks_of_others_outside_blocks_too() {
    for server in servers() {
        let (holder, other) = (server.session(0).await, server.session(0).await);
        run(&holder, MADE).await;
        run(&holder, "begin; update t set v = 1 where id = 1").await;
        run(&other, "set lock_timeout = '300ms'").await;
        let of_table = ("select id from t where id = 1", "select id from t order by id");
        let of_join = (
            "select t.id from t, (values (1)) s (i) where t.id = s.i",
            "select t.id from t, (values (1), (2)) s (i) where t.id = s.i",
        );
        for begin in ["", "begin"] {
            for (first, all) in [of_table, of_join] {
                run(&other, begin).await;
                assert_eq!(failure(&other, &format!("{first} for update of t")).await.0, "55P03", "{first}");
                run(&other, "rollback").await;
                for strength in ["update", "share"] {
                    run(&other, begin).await;
                    let skipping = rows(&other, &format!("{all} for {strength} of t skip locked")).await;
                    assert_eq!(skipping.unwrap(), ["2"], "{all} for {strength}");
                    let refused = failure(&other, &format!("{first} for {strength} of t nowait")).await;
                    assert_eq!(refused.0, "55P03", "{first} for {strength}");
                    run(&other, "rollback").await;
                }
            }
        }
        run(&other, "reset lock_timeout").await;
        let waiting =
            tokio::spawn(async move { value(&other, "select v from t where id = 1 for update").await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waiting.is_finished());
        run(&holder, "commit").await;
        assert_eq!(waiting.await.unwrap(), "1");
        // It keeps no lock, and who marks rows has taken none.
        let third = server.session(0).await;
        run(&third, "begin; select v from t where id = 1 for share nowait").await;
        assert_eq!(value(&holder, "select v from t where id = 1 for update nowait").await, "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_changes_a_row_in_a_block_has_others_wait_and_none_fail() {
    for server in servers() {
        let (first, third) = (server.session(0).await, server.session(0).await);
        run(&first, MADE).await;
        for level in ["serializable", "read committed"] {
            for change in CHANGES {
                run(&first, "update t set v = 0 where id = 1").await;
                run(&first, &format!("begin isolation level {level}")).await;
                run(&first, change).await;
                run(&third, "begin").await;
                let refused = failure(&third, "select v from t where id = 1 for update nowait").await;
                assert_eq!(refused.0, "55P03", "{change}");
                run(&third, "rollback").await;
                let second = server.session(0).await;
                let waiting = tokio::spawn(async move {
                    run(&second, &format!("begin isolation level {level}")).await;
                    run(&second, change).await;
                    run(&second, "commit").await;
                });
                tokio::time::sleep(Duration::from_millis(300)).await;
                assert!(!waiting.is_finished(), "{change}");
                run(&first, "commit").await;
                waiting.await.unwrap_or_else(|error| panic!("{level}, {change}: {error}"));
                assert_eq!(value(&first, "select v from t where id = 1").await, "2", "{level}, {change}");
            }
        }
        // Alone too, where a query finds the row.
        run(&first, "begin; update t set v = 5 where id = 1").await;
        let waiting = tokio::spawn(async move { run(&third, CHANGES[0]).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waiting.is_finished());
        run(&first, "commit").await;
        waiting.await.unwrap();
        assert_eq!(value(&first, "select v from t where id = 1").await, "6");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_to_a_savepoint_gives_up_what_was_locked_since() {
    for server in servers() {
        let (holder, other) = (server.session(0).await, server.session(0).await);
        run(&holder, MADE).await;
        run(&other, "set lock_timeout = '300ms'").await;
        run(&holder, "begin; update t set v = 1 where id = 2; savepoint s").await;
        run(&holder, "update t set v = 5 where id = 1; lock table t; rollback to s").await;
        run(&other, "update t set v = 7 where id = 1").await;
        assert_eq!(failure(&other, "update t set v = 7 where id = 2").await.0, "55P03");
        run(&holder, "rollback; begin; savepoint s; update t set v = 5 where id = 1").await;
        assert_eq!(failure(&other, "update t set v = 8 where id = 1").await.0, "55P03");
        // A statement that fails takes its locks along as well.
        assert_eq!(failure(&holder, "update t set v = 1 / (v - v) where id = 2").await.0, "22012");
        run(&holder, "rollback to s").await;
        run(&other, "update t set v = 8 where id = 1").await;
        run(&other, "update t set v = 8 where id = 2").await;
        // What is locked again is locked.
        run(&holder, "select v from t where id = 2 for update").await;
        assert_eq!(failure(&other, "select v from t where id = 2 for update nowait").await.0, "55P03");
        run(&holder, "rollback").await;
        assert_eq!(rows(&other, "select v from t").await.unwrap(), ["8", "8"]);
    }
}
