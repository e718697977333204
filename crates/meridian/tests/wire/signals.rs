//! `pg_cancel_backend` and `pg_terminate_backend`.

use crate::server::{Server, failure, rows, run, state, value};
use std::time::Duration;
use tokio_postgres::Client;

/// Whether a client's connection ends soon.
async fn closes(client: &Client) -> bool {
    for _ in 0..500 {
        if client.is_closed() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_and_a_session_of_others_are_ended() {
    let server = Server::start();
    let (operator, other) = (server.session(0).await, server.session(1).await);
    run(&operator, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").await;
    let process = value(&other, "SELECT pg_backend_pid()").await;
    // A statement that runs, whichever region of the process it runs in.
    let ends = async |function: &str| {
        tokio::time::sleep(Duration::from_millis(300)).await;
        value(&operator, &format!("SELECT {function}({process})")).await
    };
    let (cancelled, done) =
        tokio::join!(other.simple_query("SELECT pg_sleep(20)"), ends("pg_cancel_backend"));
    assert_eq!((state(&cancelled.unwrap_err()), done.as_str()), ("57014", "t"));
    // A request to a session that does nothing is forgotten.
    assert_eq!(ends("pg_cancel_backend").await, "t");
    assert_eq!(value(&other, "SELECT id FROM t").await, "1");
    // A session with its statement, and what it had not committed.
    run(&other, "BEGIN; INSERT INTO t VALUES (2)").await;
    let sleeping = other.query("SELECT pg_sleep(20)", &[]);
    let (terminated, done) = tokio::join!(sleeping, ends("pg_terminate_backend"));
    assert_eq!((state(&terminated.unwrap_err()), done.as_str()), ("57P01", "t"));
    assert!(closes(&other).await);
    assert_eq!(value(&operator, "SELECT count(*) FROM t").await, "1");
    // As those who empty a database write it, with time for the sessions to end.
    let idle = server.session(0).await;
    let others = "SELECT pg_terminate_backend(pid, 5000) AS ended FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert_eq!(rows(&operator, others).await.unwrap(), ["t"]);
    let told = idle.simple_query("SELECT 1").await.unwrap_err();
    assert!(closes(&idle).await, "{told}");
    assert_eq!(value(&operator, "SELECT count(*) FROM pg_stat_activity").await, "1");
    assert_eq!(
        rows(&operator, "SELECT pg_terminate_backend(0), pg_cancel_backend(-1)").await.unwrap(),
        ["f|f"]
    );
    assert_eq!(value(&operator, "SELECT pg_cancel_backend(NULL)").await, "NULL");
    assert_eq!(failure(&operator, "SELECT pg_terminate_backend(1, -1)").await.0, "22003");
    // Last, itself.
    let told = operator.simple_query("SELECT pg_terminate_backend(pg_backend_pid())").await;
    assert!(told.is_ok() || told.is_err_and(|error| state(&error) == "57P01"));
    assert!(closes(&operator).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_no_superuser_ends_sessions_of_its_roles() {
    let server = Server::start();
    let root = server.session_of(0, "root").await.unwrap();
    run(&root, "CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE cat LOGIN; GRANT ann TO bob").await;
    let ann = server.session_of(0, "ann").await.unwrap();
    let (bob, cat) = (server.session_of(0, "bob").await.unwrap(), server.session_of(0, "cat").await.unwrap());
    let of_root = value(&root, "SELECT pg_backend_pid()").await;
    let of_ann = value(&ann, "SELECT pg_backend_pid()").await;
    for (client, sql, says) in [
        (
            &bob,
            format!("SELECT pg_terminate_backend({of_root})"),
            "must be a superuser to terminate superuser process",
        ),
        (
            &cat,
            format!("SELECT pg_cancel_backend({of_root})"),
            "must be a superuser to cancel superuser query",
        ),
        (
            &cat,
            format!("SELECT pg_cancel_backend({of_ann})"),
            "must be a member of the role whose query is being canceled",
        ),
    ] {
        let (state, told) = failure(client, &sql).await;
        assert_eq!(state, "42501", "{sql}: {told}");
        assert!(told.contains(says), "{sql}: {told}");
    }
    assert_eq!(value(&bob, &format!("SELECT pg_terminate_backend({of_ann})")).await, "t");
    assert!(ann.simple_query("SELECT 1").await.is_err());
    assert_eq!(value(&root, "SELECT 1").await, "1");
}
