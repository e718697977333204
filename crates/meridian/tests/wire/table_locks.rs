//! LOCK TABLE with each engine: a transaction that locks a table and commits was the only one to change it meanwhile.

use crate::server::{Server, failure, rows, run, state, value};
use std::time::Duration;

/// Clients, two a region, and how many rows each of them adds.
const CLIENTS: usize = 6;
const ROWS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn who_locks_a_table_reads_what_nobody_changes() {
    for server in Server::with_each_engine(&[]) {
        let first = server.session(0).await;
        run(&first, "create table numbered (n int primary key, by_client int)").await;
        // One writer commits between the lock and the end of the other.
        let other = server.session(1).await;
        run(&first, "begin isolation level serializable; lock table numbered in share mode").await;
        assert_eq!(value(&first, "select count(*) from numbered").await, "0");
        run(&other, "insert into numbered values (0, -1)").await;
        run(&first, "insert into numbered values (100, -1)").await;
        assert_eq!(failure(&first, "commit").await.0, "40001");
        run(&first, "begin isolation level serializable; lock numbered").await;
        assert_eq!(value(&first, "select count(*) from numbered").await, "1");
        run(&first, "delete from numbered; commit").await;
        let mut clients = Vec::new();
        for n in 0..CLIENTS {
            let client = server.session(n % 3).await;
            clients.push(tokio::spawn(async move {
                for _ in 0..ROWS {
                    while let Err(error) = client
                        .batch_execute(&format!(
                            "begin isolation level serializable; lock table numbered in exclusive mode;
                             insert into numbered select coalesce(max(n), 0) + 1, {n} from numbered; commit"
                        ))
                        .await
                    {
                        assert_eq!(state(&error), "40001", "{error:?}");
                        run(&client, "rollback").await;
                        tokio::time::sleep(Duration::from_millis(20 * n as u64)).await;
                    }
                }
            }));
        }
        for client in clients {
            client.await.unwrap();
        }
        let counted = rows(&first, "select count(*), max(n), count(distinct by_client) from numbered").await;
        assert_eq!(counted.unwrap(), [format!("{0}|{0}|{CLIENTS}", CLIENTS * ROWS)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn others_of_the_region_wait_for_a_locked_table() {
    let server = Server::start();
    let [holder, other, reader] = [server.session(0).await, server.session(0).await, server.session(0).await];
    run(
        &holder,
        "create table t (id int primary key, v int); create table u (id int); insert into t values (1, 0)",
    )
    .await;
    run(&holder, "create view both as select t.id from t, u").await;
    assert_eq!(failure(&holder, "lock table t").await.0, "25P01");
    run(&holder, "begin; lock table both in access exclusive mode; update t set v = v + 1").await;
    // Nobody waits to read.
    assert_eq!(value(&reader, "select v from t").await, "0");
    for table in ["t", "u"] {
        let refused = failure(&other, &format!("begin; lock table {table} in share mode nowait")).await;
        assert_eq!(refused, ("55P03".into(), format!("could not obtain lock on relation \"{table}\"")));
        run(&other, "rollback").await;
    }
    run(&other, "begin; lock table t, u in row exclusive mode; rollback").await;
    run(&other, "set lock_timeout = 100").await;
    assert_eq!(failure(&other, "begin; select v from t where id = 1 for update").await.0, "55P03");
    run(&other, "rollback; reset lock_timeout; begin").await;
    let waiting = tokio::spawn(async move {
        run(&other, "lock table t in exclusive mode").await;
        let seen = value(&other, "select v from t").await;
        run(&other, "update t set v = v + 1; commit").await;
        seen
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    run(&holder, "commit").await;
    assert_eq!(waiting.await.unwrap(), "1");
    assert_eq!(value(&reader, "select v from t").await, "2");
    // Rights, as in PostgreSQL 15.
    run(&holder, "create role looker login").await;
    // From now on others than root have to be known.
    let root = server.session_of(0, "root").await.unwrap();
    run(&root, "grant select on t to looker").await;
    let looker = server.session_of(0, "looker").await.unwrap();
    run(&looker, "begin; lock table t in access share mode").await;
    assert_eq!(failure(&looker, "lock table t in share mode").await.0, "42501");
    run(&looker, "rollback").await;
    assert_eq!(failure(&looker, "begin; lock table nothing").await.0, "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_validated_cannot_be_locked() {
    let server = Server::start_with(&["--engine", "geogauss"], 3);
    let client = server.session(0).await;
    run(&client, "create table t (id int primary key)").await;
    for level in ["read committed", "repeatable read"] {
        run(&client, &format!("begin isolation level {level}; lock table t in row exclusive mode")).await;
        assert_eq!(failure(&client, "lock table t in share mode").await.0, "0A000", "{level}");
        run(&client, "rollback").await;
    }
}
