//! The same SQL over engines that keep different copies.

use crate::server::*;

#[tokio::test(flavor = "multi_thread")]
async fn every_region_reads_and_writes_everything() {
    for server in Server::with_each_engine(&["--partitions", "2"]) {
        reads_and_writes_everywhere(server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_names_no_engine_keeps_a_copy_in_every_region() {
    let server = Server::start_with(&["--regions", "us,eu"], 2);
    assert_eq!(value(&server.session(1).await, "SHOW meridian.engine").await, "caerus");
}

async fn reads_and_writes_everywhere(mut server: Server) {
    let sessions = [server.session(0).await, server.session(1).await, server.session(2).await];
    run(&sessions[0], "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL CHECK (v >= 0))").await;
    for session in &sessions {
        until_there(session, "SELECT id FROM t").await;
    }
    for (n, session) in sessions.iter().enumerate() {
        run(session, &format!("INSERT INTO t VALUES ({}, 0), ({}, 0)", 2 * n, 2 * n + 1)).await;
    }
    for session in &sessions {
        run(session, "UPDATE t SET v = v + 1").await;
        run(session, "BEGIN; UPDATE t SET v = v + 10 WHERE id = 3; COMMIT").await;
        assert_eq!(
            state(&rows(session, "UPDATE t SET v = v - 1000 WHERE id = 1").await.unwrap_err()),
            "23514"
        );
        assert_eq!(state(&rows(session, "INSERT INTO t VALUES (5, 1)").await.unwrap_err()), "23505");
    }
    for session in &sessions {
        assert_eq!(value(session, "SELECT v FROM t WHERE id = 3").await, "33");
        assert_eq!(rows(session, "SELECT count(*), sum(v) FROM t").await.unwrap(), ["6|48"]);
    }
    run(&sessions[1], "ALTER TABLE t ADD COLUMN w int").await;
    until_there(&sessions[2], "SELECT w FROM t").await;
    run(&sessions[2], "UPDATE t SET w = id WHERE v > 10").await;
    assert_eq!(rows(&sessions[0], "SELECT w FROM t WHERE w IS NOT NULL").await.unwrap(), ["3"]);
    run(&sessions[0], "DROP TABLE t").await;
    assert!(server.is_alive());
}

/// Asks again until a region knows what another has changed of the catalog.
async fn until_there(session: &tokio_postgres::Client, sql: &str) {
    while let Err(error) = rows(session, sql).await {
        assert!(["42P01", "42703"].contains(&state(&error)), "{error:?}");
        tokio::task::yield_now().await;
    }
}
