//! Indexes over expressions and partial indexes: what their violations say, writers in several regions, and what a kill, a
//! dump, a backup and a restore leave of them. What statements answer stands in `tests/slt`.

use crate::server::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const MADE: &str = "CREATE TABLE u (id int PRIMARY KEY, name text, a int, b int, gone boolean);
    INSERT INTO u VALUES (1, 'Ann', 1, 2, false), (2, 'Bob', 3, 4, true);
    CREATE UNIQUE INDEX u_name ON u (lower(name));
    CREATE UNIQUE INDEX u_sum ON u ((a + b), id) INCLUDE (name) WHERE NOT gone;
    CREATE UNIQUE INDEX u_a ON u (a) WHERE NOT gone";

async fn detail(client: &tokio_postgres::Client, sql: &str) -> String {
    let error = client.batch_execute(sql).await.expect_err(sql);
    error.as_db_error().and_then(|e| e.detail()).unwrap_or_default().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_violation_names_expressions_as_they_are_written() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, MADE).await;
    for before in ["", "BEGIN; "] {
        for (sql, wanted) in [
            ("INSERT INTO u VALUES (3, 'ANN', 9, 9, false)", "Key (lower(name))=(ann) already exists."),
            ("INSERT INTO u VALUES (3, 'Eve', 1, 9, false)", "Key (a)=(1) already exists."),
            ("UPDATE u SET a = 1, gone = false WHERE id = 2", "Key (a)=(1) already exists."),
            (
                "CREATE UNIQUE INDEX ON u ((a * 0), (lower('x')))",
                "Key ((a * 0), lower('x'))=(0, x) is duplicated.",
            ),
        ] {
            assert_eq!(detail(&client, &format!("{before}{sql}")).await, wanted, "{before}{sql}");
            _ = client.batch_execute("ROLLBACK").await;
        }
    }
    assert_eq!(
        detail(&client, "INSERT INTO u (id, name) VALUES (1, 'x')").await,
        "Key (id)=(1) already exists."
    );
    // A row is shown without what indexes have computed.
    run(&client, "ALTER TABLE u ADD CHECK (b < 100)").await;
    let failing = detail(&client, "INSERT INTO u VALUES (4, 'x', 9, 100, false)").await;
    assert_eq!(failing, "Failing row contains (4, x, 9, 100, f).");
}

#[tokio::test(flavor = "multi_thread")]
async fn lookups_by_an_expression_use_its_index() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, MADE).await;
    for (condition, index) in [
        ("lower(name) = 'ann'", Some("u_name")),
        ("lower(name::varchar) = 'ann'", Some("u_name")),
        ("upper(name) = 'ANN'", None),
        ("a + b = 3 AND id = 1 AND NOT gone", None),
        ("a + b = 3 AND NOT gone", Some("u_sum")),
        ("a + b = 3", None),
        ("a + b = 3 AND gone", None),
        ("a = 1 AND gone = false", Some("u_a")),
    ] {
        let plan =
            rows(&client, &format!("EXPLAIN SELECT id FROM u WHERE {condition}")).await.unwrap().join(" ");
        let names: Vec<&str> = ["u_name", "u_sum", "u_a"].into_iter().filter(|i| plan.contains(i)).collect();
        assert_eq!(names, index.into_iter().collect::<Vec<_>>(), "{condition}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_writers_gets_a_key() {
    for engine in ["caerus", "perseus", "geogauss"] {
        let server = Server::start_with(&["--engine", engine], 3);
        let client = server.session(0).await;
        run(&client, "CREATE TABLE k (id int PRIMARY KEY, name text, live boolean) WITH (home_by = id, home_map = 'hash')")
            .await;
        run(&client, "CREATE UNIQUE INDEX k_name ON k (lower(name)) WHERE live").await;
        let taken = Arc::new(AtomicU32::new(0));
        let mut writers = Vec::new();
        for nth in 0..9u32 {
            let (writer, taken) = (server.session(nth as usize % 3).await, taken.clone());
            writers.push(tokio::spawn(async move {
                let name = if nth % 2 == 0 { "Key" } else { "KEY" };
                let sql = format!("INSERT INTO k VALUES ({nth}, '{name}', true)");
                loop {
                    match writer.batch_execute(&sql).await {
                        Ok(()) => _ = taken.fetch_add(1, Ordering::SeqCst),
                        Err(e) if state(&e) == "40001" => continue,
                        Err(e) => assert_eq!(state(&e), "23505", "{e}"),
                    }
                    break;
                }
                let aside = format!("INSERT INTO k VALUES ({}, 'key', false)", nth + 100);
                while let Err(e) = writer.batch_execute(&aside).await {
                    assert_eq!(state(&e), "40001", "{e}");
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(taken.load(Ordering::SeqCst), 1, "{engine}");
        let count = "SELECT count(*) FROM k WHERE lower(name) = 'key' AND live";
        assert_eq!(value(&client, count).await, "1", "{engine}");
        assert_eq!(value(&client, "SELECT count(*) FROM k").await, "10", "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_there_after_a_kill() {
    for engine in ["caerus", "perseus", "geogauss"] {
        let path = std::env::temp_dir().join(format!("meridian-{}-computed-{engine}", std::process::id()));
        _ = std::fs::remove_dir_all(&path);
        let data = path.to_str().expect("a plain name");
        let start = || Server::start_with(&["--regions", "us", "--engine", engine, "--data", data], 1);
        let server = start();
        run(&server.session(0).await, MADE).await;
        drop(server);

        let server = start();
        let client = server.session(0).await;
        assert_eq!(
            failure(&client, "INSERT INTO u (id, name) VALUES (5, 'ANN')").await.0,
            "23505",
            "{engine}"
        );
        assert_eq!(
            rows(&client, "SELECT * FROM u WHERE lower(name) = 'bob'").await.unwrap(),
            ["2|Bob|3|4|t"]
        );
        run(&client, "UPDATE u SET name = 'Eve' WHERE id = 2; DROP INDEX u_sum").await;
        assert_eq!(value(&client, "SELECT id FROM u WHERE lower(name) = 'eve'").await, "2", "{engine}");
        _ = std::fs::remove_dir_all(&path);
    }
}
