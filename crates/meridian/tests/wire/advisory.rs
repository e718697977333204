//! Advisory locks: of a session and of a transaction, for one or shared, in the whole cluster.

use crate::server::{Server, failure, rows, run, value};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

async fn tries(client: &Client, key: &str) -> String {
    value(client, &format!("SELECT pg_try_advisory_lock({key})")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_one_sessions_in_the_whole_cluster() {
    for server in Server::with_each_engine(&[]) {
        let (here, beside, afar) =
            (server.session(0).await, server.session(0).await, server.session(2).await);
        assert_eq!(value(&here, "SELECT pg_advisory_lock(7)").await, "");
        // Again, by the same session.
        assert_eq!(tries(&here, "7").await, "t");
        assert_eq!((tries(&beside, "7").await, tries(&afar, "7").await), ("f".into(), "f".into()));
        // Two numbers are another key than one.
        assert_eq!((tries(&beside, "0, 7").await, tries(&afar, "0, 7").await), ("t".into(), "f".into()));
        assert_eq!(value(&here, "SELECT pg_advisory_unlock(7)").await, "t");
        assert_eq!(tries(&afar, "7").await, "f", "it was locked twice");
        assert_eq!(value(&here, "SELECT pg_advisory_unlock(7)").await, "t");
        assert_eq!(value(&here, "SELECT pg_advisory_unlock(7)").await, "f", "there is no third");
        assert_eq!(tries(&afar, "7").await, "t");
        // A client that is gone has nothing.
        drop(afar);
        run(&here, "SET statement_timeout = '20s'").await;
        assert_eq!(value(&here, "SELECT pg_advisory_lock(7)").await, "");
        assert_eq!(value(&here, "SELECT pg_advisory_unlock_all()").await, "");
        assert_eq!(tries(&beside, "7").await, "t");
        // What it costs is a table that nobody sees.
        assert_eq!(value(&here, "SELECT count(*) FROM pg_class WHERE relname = 'advisory_locks'").await, "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_gets_the_key_and_sees_what_was_done_under_it() {
    let server = Server::start();
    let (first, second, third) = (server.session(0).await, server.session(1).await, server.session(0).await);
    run(&first, "CREATE TABLE migrations (version int PRIMARY KEY)").await;
    run(&first, "SELECT pg_advisory_lock(1, 2)").await;
    let wait = async |client: &Client| {
        // The block has read before it waits; what it reads afterwards is new.
        run(client, "BEGIN").await;
        assert_eq!(value(client, "SELECT count(*) FROM migrations").await, "0");
        value(client, "SELECT pg_advisory_xact_lock(1, 2)").await;
        let found = value(client, "SELECT version FROM migrations WHERE version = 1").await;
        run(client, "ROLLBACK").await;
        found
    };
    let work = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        run(&first, "INSERT INTO migrations VALUES (1)").await;
        value(&first, "SELECT pg_advisory_unlock(1, 2)").await
    };
    let (unlocked, of_second, of_third) = tokio::join!(work, wait(&second), wait(&third));
    assert_eq!((unlocked.as_str(), of_second.as_str(), of_third.as_str()), ("t", "1", "1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_transactions_end_with_them() {
    let server = Server::start();
    let (client, other) = (server.session(0).await, server.session(1).await);
    for end in ["COMMIT", "ROLLBACK"] {
        run(&client, "BEGIN; SELECT pg_advisory_xact_lock(5), pg_try_advisory_xact_lock(6)").await;
        assert_eq!((tries(&other, "5").await, tries(&other, "6").await), ("f".into(), "f".into()));
        assert_eq!(value(&client, "SELECT pg_advisory_unlock(5)").await, "f", "it is the transaction's");
        run(&client, end).await;
        assert_eq!((tries(&other, "5").await, tries(&other, "6").await), ("t".into(), "t".into()), "{end}");
        run(&other, "SELECT pg_advisory_unlock_all()").await;
    }
    // Alone it is a transaction itself, and a text of several statements is one.
    run(&client, "SELECT pg_advisory_xact_lock(5)").await;
    run(&client, "SELECT pg_advisory_xact_lock(6); SELECT 1").await;
    assert_eq!((tries(&other, "5").await, tries(&other, "6").await), ("t".into(), "t".into()));
    // One of the session outlives the transaction.
    run(&client, "BEGIN; SELECT pg_advisory_lock(8); ROLLBACK").await;
    assert_eq!(tries(&other, "8").await, "f");
    run(&client, "DISCARD ALL").await;
    run(&other, "SET lock_timeout = '10s'; SELECT pg_advisory_lock(8)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_locks_keep_out_who_wants_the_key_alone() {
    let server = Server::start();
    let (a, b, c) = (server.session(0).await, server.session(1).await, server.session(2).await);
    for client in [&a, &b] {
        run(client, "SELECT pg_advisory_lock_shared(3)").await;
    }
    assert_eq!(tries(&c, "3").await, "f");
    assert_eq!(value(&a, "SELECT pg_try_advisory_lock(3)").await, "f", "b has it as well");
    assert_eq!(value(&b, "SELECT pg_advisory_unlock_shared(3)").await, "t");
    assert_eq!(value(&a, "SELECT pg_try_advisory_lock(3)").await, "t", "there is nobody else");
    assert_eq!(value(&c, "SELECT pg_try_advisory_lock_shared(3)").await, "f");
    // What is left is shared again.
    assert_eq!(value(&a, "SELECT pg_advisory_unlock(3)").await, "t");
    assert_eq!(value(&c, "SELECT pg_try_advisory_lock_shared(3)").await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_with_its_time_and_in_a_circle() {
    let server = Server::start();
    let (a, b) = (server.session(0).await, server.session(0).await);
    run(&a, "SELECT pg_advisory_lock(1)").await;
    run(&b, "SELECT pg_advisory_lock(2)").await;
    run(&b, "SET lock_timeout = '200ms'").await;
    assert_eq!(failure(&b, "SELECT pg_advisory_lock(1)").await.0, "55P03");
    run(&b, "RESET lock_timeout; SET statement_timeout = '200ms'").await;
    assert_eq!(failure(&b, "SELECT pg_advisory_lock(1)").await.0, "57014");
    run(&b, "RESET statement_timeout").await;
    let circle =
        async |client: &Client, key: u32| rows(client, &format!("SELECT pg_advisory_lock({key})")).await;
    let begun = Instant::now();
    let (of_a, of_b) = tokio::join!(
        async {
            let got = circle(&a, 2).await;
            if got.is_err() {
                run(&a, "SELECT pg_advisory_unlock_all()").await;
            }
            got
        },
        async {
            let got = circle(&b, 1).await;
            if got.is_err() {
                run(&b, "SELECT pg_advisory_unlock_all()").await;
            }
            got
        }
    );
    let failed: Vec<_> = [&of_a, &of_b].into_iter().filter_map(|got| got.as_ref().err()).collect();
    assert_eq!(failed.len(), 1, "{of_a:?} {of_b:?}");
    assert_eq!(failed[0].code().unwrap().code(), "40P01");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_want_a_key_one_has_it_at_a_time() {
    let server = Server::start();
    let setup = server.session(0).await;
    run(&setup, "CREATE TABLE seen (n int PRIMARY KEY, inside int NOT NULL); INSERT INTO seen VALUES (1, 0)")
        .await;
    let mut clients = Vec::new();
    for region in [0, 0, 1, 2] {
        clients.push(server.session(region).await);
    }
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| {
            tokio::spawn(async move {
                for _ in 0..5 {
                    run(&client, "SELECT pg_advisory_lock(99)").await;
                    // Nobody else is inside: each finds what the last one left.
                    let before =
                        value(&client, "UPDATE seen SET inside = inside + 1 WHERE n = 1 RETURNING inside")
                            .await;
                    let after =
                        value(&client, "UPDATE seen SET inside = inside - 1 WHERE n = 1 RETURNING inside")
                            .await;
                    assert_eq!((before.as_str(), after.as_str()), ("1", "0"));
                    assert_eq!(value(&client, "SELECT pg_advisory_unlock(99)").await, "t");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_taken_for_rows_and_parameters_and_sleep_can_be_ended() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)").await;
    let key = 5i64;
    let row = client.query_one("SELECT pg_try_advisory_lock($1) AS got, $1 + 1", &[&key]).await.unwrap();
    assert_eq!((row.columns()[0].name(), row.get::<_, bool>(0), row.get::<_, i64>(1)), ("got", true, 6));
    let answer =
        rows(&client, "SELECT id, pg_try_advisory_lock(id) FROM t WHERE id > 0 ORDER BY id").await.unwrap();
    assert_eq!(answer, ["1|t", "2|t"]);
    assert_eq!(value(&client, "SELECT pg_try_advisory_lock(NULL)").await, "NULL");
    assert_eq!(failure(&client, "SELECT id FROM t WHERE pg_try_advisory_lock(id)").await.0, "0A000");
    let begun = Instant::now();
    assert_eq!(value(&client, "SELECT pg_sleep(0.3)").await, "");
    assert!(begun.elapsed() >= Duration::from_millis(290));
    assert_eq!(failure(&client, "SET statement_timeout = '100ms'; SELECT pg_sleep(30)").await.0, "57014");
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_a_lone_statement_end_with_it_however_it_ends() {
    for server in Server::with_each_engine(&[]) {
        let (client, other) = (server.session(0).await, server.session(1).await);
        run(&client, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)").await;
        let body = "BEGIN PERFORM pg_advisory_xact_lock(1); PERFORM pg_sleep(20); END";
        run(&client, &format!("CREATE FUNCTION sleeps() RETURNS trigger LANGUAGE plpgsql AS $${body}$$"))
            .await;
        run(&client, "CREATE TRIGGER sleeps BEFORE INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION sleeps()")
            .await;
        let is_free = async || {
            assert_eq!(tries(&other, "1").await, "t");
            run(&other, "SELECT pg_advisory_unlock_all()").await;
        };
        let slow = [
            "SELECT pg_advisory_xact_lock(1), pg_sleep(20)",
            "DO $$ BEGIN PERFORM pg_advisory_xact_lock(1); PERFORM pg_sleep(20); END $$",
            "INSERT INTO t VALUES (3)",
        ];
        // It fails, at once or at a later row.
        for sql in [
            "SELECT pg_advisory_xact_lock(1), pg_notify('', 'x')",
            "SELECT pg_advisory_xact_lock(1), 1 / (id - 2) FROM t",
            "SELECT pg_advisory_xact_lock(1); SELECT 1 / 0",
            "DO $$ BEGIN PERFORM pg_advisory_xact_lock(1); RAISE EXCEPTION 'no'; END $$",
        ] {
            failure(&client, sql).await;
            is_free().await;
        }
        // It takes too long.
        run(&client, "SET statement_timeout = '500ms'").await;
        for sql in slow {
            assert_eq!(failure(&client, sql).await.0, "57014", "{sql}");
            is_free().await;
            assert_eq!(client.query(sql, &[]).await.unwrap_err().code().unwrap().code(), "57014", "{sql}");
            is_free().await;
        }
        run(&client, "RESET statement_timeout").await;
        // It is cancelled.
        let process = value(&client, "SELECT pg_backend_pid()").await;
        for sql in slow {
            let cancel = async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                assert_eq!(tries(&other, "1").await, "f", "{sql}");
                value(&other, &format!("SELECT pg_cancel_backend({process})")).await
            };
            let (ended, done) = tokio::join!(failure(&client, sql), cancel);
            assert_eq!((ended.0.as_str(), done.as_str()), ("57014", "t"), "{sql}");
            is_free().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_executed_again_has_what_its_last_execution_locked() {
    for engine in ["caerus", "geogauss"] {
        let server = Server::start_with(&["--engine", engine], 3);
        let (client, other) = (server.session(0).await, server.session(1).await);
        run(&client, "CREATE TABLE k (id int PRIMARY KEY, v int)").await;
        run(&client, "INSERT INTO k VALUES (1, 0)").await;
        for (body, key, fails) in [
            ("PERFORM pg_advisory_lock(7); SELECT v INTO x FROM k WHERE id = 1", 7, false),
            (
                "SELECT v INTO x FROM k WHERE id = 1; IF x = 10 THEN RAISE EXCEPTION 'too late'; END IF;
                 PERFORM pg_advisory_lock(8)",
                8,
                true,
            ),
        ] {
            run(&client, "UPDATE k SET v = 0").await;
            let block = format!(
                "DO $$ DECLARE x int; BEGIN {body}; PERFORM pg_sleep(1); UPDATE k SET v = x + 1 WHERE id = 1; END $$"
            );
            let change = async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                run(&other, "UPDATE k SET v = 10 WHERE id = 1").await;
            };
            let (ended, ()) = tokio::join!(client.batch_execute(&block), change);
            assert_eq!(ended.is_err(), fails, "{engine}: {ended:?}");
            let found = if fails { "10" } else { "11" };
            assert_eq!(value(&client, "SELECT v FROM k WHERE id = 1").await, found, "it was executed again");
            let unlock = format!("SELECT pg_advisory_unlock({key})");
            assert_eq!(value(&client, &unlock).await, if fails { "f" } else { "t" }, "{engine}");
            assert_eq!(value(&client, &unlock).await, "f", "{engine}");
        }
    }
}
