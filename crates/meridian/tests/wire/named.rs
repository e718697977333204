//! Named requests: a client repeats what it has no answer to, here or in another region, and it is done once.

use crate::raw::{Raw, query};
use crate::server::{Server, failure, rows, run, state, value};
use std::time::Duration;

const NEW: &str = "SET meridian.request = 'new'; SHOW meridian.request";
const OUTCOME: &str = "SHOW meridian.request_outcome";

fn named(name: &str) -> String {
    format!("SET meridian.request = '{name}'")
}

/// Asks until a region knows the table.
async fn knows(server: &Server, region: usize) -> tokio_postgres::Client {
    let client = server.session(region).await;
    while rows(&client, "SELECT count(*) FROM t").await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_request_is_done_once_wherever_it_is_repeated() {
    for server in Server::with_each_engine(&[]) {
        let us = server.session(0).await;
        run(&us, "CREATE TABLE t (k serial PRIMARY KEY, v int)").await;
        run(&us, "INSERT INTO t (k, v) VALUES (-1, 0), (-2, 0)").await;
        let eu = knows(&server, 1).await;

        // A statement alone: the repetition gets the first one's rows, generated keys included.
        let name = value(&us, NEW).await;
        let first = value(&us, "INSERT INTO t (v) VALUES (7) RETURNING k, v").await;
        assert_eq!(value(&us, "SHOW meridian.request").await, "", "a name is used up");
        for client in [&us, &eu] {
            run(client, &named(&name)).await;
            assert_eq!(value(client, "INSERT INTO t (v) VALUES (7) RETURNING k, v").await, first);
        }
        assert_eq!(value(&us, "SELECT count(*) FROM t WHERE v = 7").await, "1");

        // A statement that reads before it writes, and a block.
        let name = value(&us, NEW).await;
        run(&us, "UPDATE t SET v = v + (SELECT count(*) FROM t WHERE k = -2) WHERE k = -1").await;
        run(&eu, &named(&name)).await;
        run(&eu, "UPDATE t SET v = v + (SELECT count(*) FROM t WHERE k = -2) WHERE k = -1").await;
        let name = value(&us, NEW).await;
        let block =
            "BEGIN; UPDATE t SET v = v + 10 WHERE k = -1; UPDATE t SET v = v - 10 WHERE k = -2; COMMIT";
        run(&us, block).await;
        run(&eu, &named(&name)).await;
        run(&eu, block).await;
        assert_eq!(rows(&us, "SELECT v FROM t WHERE k < 0 ORDER BY k").await.unwrap(), ["-10", "11"]);

        // What failed has failed under its name.
        let name = value(&us, NEW).await;
        assert_eq!(failure(&us, "INSERT INTO t VALUES (-1, 1)").await.0, "23505");
        run(&us, "DELETE FROM t WHERE k = -1").await;
        run(&eu, &named(&name)).await;
        assert_eq!(failure(&eu, "INSERT INTO t VALUES (-1, 1)").await.0, "23505");

        // A name that nobody has used is given up by whoever asks for its outcome.
        let name = value(&us, NEW).await;
        run(&eu, &named(&name)).await;
        assert_eq!(value(&eu, OUTCOME).await, "not executed");
        assert_eq!(value(&eu, OUTCOME).await, "not executed");
        assert_eq!(failure(&us, "INSERT INTO t VALUES (5, 5)").await.0, "40000");
        assert_eq!(value(&us, "SELECT count(*) FROM t WHERE k = 5").await, "0");

        // What a name is not.
        for (text, expected) in [
            ("SET meridian.request = 'mine'", "22023"),
            ("SET meridian.request = '0-7fffffffffffffff-0000000000000001'", "22023"),
            ("SET meridian.request = '999-1-0000000000000001'", "22023"),
            ("RESET meridian.request; SHOW meridian.request_outcome", "55000"),
        ] {
            assert_eq!(failure(&eu, text).await.0, expected, "{text}");
        }
        // So long ago that its result may be forgotten, once anything is.
        let mut number = 0;
        let told = loop {
            number += 1;
            run(&eu, &format!("SET meridian.request = '0-1-{number:016x}'")).await;
            match eu.simple_query("INSERT INTO t VALUES (6, 6)").await {
                Ok(_) => run(&eu, "DELETE FROM t WHERE k = 6").await,
                Err(error) => break error,
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_eq!(state(&told), "08007");
        assert!(told.as_db_error().unwrap().hint().unwrap().contains("meridian.request"), "{told:?}");
        assert_eq!(value(&us, "SELECT count(*) FROM t WHERE k = 6").await, "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_lost_its_connection_at_commit_goes_on_in_another_region() {
    let server = Server::start_on("perseus3", &[], 3);
    let us = server.session(0).await;
    run(&us, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&us, "INSERT INTO t VALUES (1, 0)").await;
    let eu = knows(&server, 1).await;
    let mut committed = 0;
    for pause_ms in [0, 1, 5, 30, 200] {
        let mut lost = Raw::open(server.ports[0]);
        let told = lost.simple(NEW);
        let mut name = told.iter().find_map(|line| line.strip_prefix("D ")).expect("a name").to_string();
        lost.simple("BEGIN");
        lost.simple("UPDATE t SET v = v + 1 WHERE k = 1");
        lost.send(&query("COMMIT"));
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        drop(lost);
        // It repeats the whole under the same name, until it is told how it ended.
        loop {
            run(&eu, &named(&name)).await;
            match eu.batch_execute("BEGIN; UPDATE t SET v = v + 1 WHERE k = 1; COMMIT").await {
                Ok(()) => break,
                // It has ended, without effect: what is tried next is another request.
                Err(error) => assert_eq!(state(&error), "40001", "{error:?}"),
            }
            _ = eu.batch_execute("ROLLBACK").await;
            name = value(&eu, NEW).await;
        }
        committed += 1;
        assert_eq!(value(&eu, "SELECT v FROM t WHERE k = 1").await, committed.to_string(), "{pause_ms} ms");
    }
    // Or it asks; what has not taken effect by then never will.
    for pause_ms in [0, 2, 200] {
        let mut lost = Raw::open(server.ports[0]);
        let told = lost.simple(NEW);
        let name = told.iter().find_map(|line| line.strip_prefix("D ")).expect("a name").to_string();
        lost.send(&query("UPDATE t SET v = v + 1 WHERE k = 1"));
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        drop(lost);
        run(&eu, &named(&name)).await;
        committed += usize::from(value(&eu, OUTCOME).await == "committed");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(value(&eu, "SELECT v FROM t WHERE k = 1").await, committed.to_string(), "{pause_ms} ms");
    }
}
