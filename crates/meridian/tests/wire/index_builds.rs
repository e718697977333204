//! Indexes over expressions that are made on a table with rows, while others write to it.

use crate::server::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

const ROWS: u64 = 25_000;

/// Rows of more than two batches.
async fn make(client: &Client, options: &str) {
    let create = format!("CREATE TABLE t (id int PRIMARY KEY, a int, b text) {options}");
    run(client, &create).await;
    let fill = format!("INSERT INTO t SELECT g, g % 1000, 'X' || g FROM generate_series(0, {}) g", ROWS - 1);
    run(client, &fill).await;
}

/// Clients that change, add and delete rows until they are told to stop.
struct Writers {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Writers {
    async fn start(server: &Server, regions: usize) -> Writers {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for nth in 0..4 {
            let (client, stop, done) = (server.session(nth % regions).await, stop.clone(), done.clone());
            tasks.push(tokio::spawn(async move {
                let mut at = nth as u64;
                while !stop.load(Ordering::SeqCst) {
                    at = (at * 6_364_136_223 + 1_442_695_041) % ROWS;
                    let (new, gone) =
                        (ROWS + 4 * done.load(Ordering::SeqCst) + nth as u64, (at * 7 + 3) % ROWS);
                    for sql in [
                        format!("UPDATE t SET a = a + 1000, b = 'Y{at}' WHERE id = {at}"),
                        format!("INSERT INTO t VALUES ({new}, {at}, 'N{new}') ON CONFLICT DO NOTHING"),
                        format!("DELETE FROM t WHERE id = {gone} AND id % 10 = 0"),
                    ] {
                        match client.batch_execute(&sql).await {
                            Ok(()) => _ = done.fetch_add(1, Ordering::SeqCst),
                            Err(e) => assert_eq!(state(&e), "40001", "{sql}: {e}"),
                        }
                    }
                }
            }));
        }
        Writers { stop, done, tasks }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.expect("no writer fails");
        }
    }
}

/// Every row is found by the index, and nothing else is.
async fn assert_complete(client: &Client, engine: &str) {
    let plan = rows(client, "EXPLAIN SELECT id FROM t WHERE lower(b) = 'x77'").await.unwrap().join(" ");
    assert!(plan.contains("t_lower_idx"), "{engine}: {plan}");
    let all = rows(client, "SELECT id, lower(b) FROM t ORDER BY id").await.unwrap();
    for row in all.iter().step_by(97).chain(all.iter().rev().take(20)) {
        let (id, lower) = row.split_once('|').expect("two columns");
        let found = format!("SELECT id FROM t WHERE lower(b) = '{lower}' AND id = {id}");
        assert_eq!(rows(client, &found).await.unwrap(), [id], "{engine}: {row}");
    }
    let stale = "SELECT count(*) FROM t WHERE lower(b) = 'x5' AND b <> 'X5'";
    assert_eq!(value(client, stale).await, "0");
    let valid = "SELECT bool_and(indisvalid) FROM pg_index";
    assert_eq!(value(client, valid).await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_built_while_others_write() {
    for engine in ["caerus", "perseus", "geogauss"] {
        let server = Server::start_with(&["--engine", engine], 3);
        let client = server.session(0).await;
        make(&client, "WITH (home_by = id, home_map = 'hash')").await;
        let writers = Writers::start(&server, 3).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        for sql in ["CREATE INDEX ON t (lower(b))", "CREATE INDEX t_few ON t (a) WHERE a % 1000 < 3"] {
            client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{engine}: {sql}: {e:?}"));
        }
        assert!(writers.done.load(Ordering::SeqCst) > 0, "{engine}");
        writers.end().await;
        assert_complete(&client, engine).await;
        let by_index = "SELECT count(*) FROM t WHERE a = 2 AND a % 1000 < 3";
        let by_scan = "SELECT count(*) FROM t WHERE a + 0 = 2";
        assert_eq!(value(&client, by_index).await, value(&client, by_scan).await, "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_built_leaves_nothing() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    make(&client, "").await;
    run(&client, "UPDATE t SET b = 'x7' WHERE id = 20000").await;
    let error = client.batch_execute("CREATE UNIQUE INDEX u ON t (lower(b))").await.unwrap_err();
    let error = error.as_db_error().expect("the server says it");
    assert_eq!(error.code().code(), "23505");
    assert_eq!(error.message(), "could not create unique index \"u\"");
    assert_eq!(error.detail(), Some("Key (lower(b))=(x7) is duplicated."));
    for (sql, wanted) in [
        ("CREATE INDEX u ON t ((100 / (id - 15000)))", "22012"),
        ("CREATE INDEX u ON t ((a + 2147483000))", "22003"),
        ("CREATE INDEX u ON t (a) WHERE 10 / (id - 24999) > 0", "22012"),
    ] {
        assert_eq!(state(&client.batch_execute(sql).await.unwrap_err()), wanted, "{sql}");
    }
    assert_eq!(value(&client, "SELECT count(*) FROM pg_indexes WHERE tablename = 't'").await, "1");
    // Hidden columns are gone with it: rows that they cannot be computed of can be written.
    run(
        &client,
        "INSERT INTO t VALUES (15000, 2147483647, 'x7') ON CONFLICT (id) DO UPDATE SET a = 2147483647",
    )
    .await;
    run(&client, "UPDATE t SET b = 'once' WHERE id = 20000 OR id = 15000 AND a = 0").await;
    run(&client, "DELETE FROM t WHERE id = 15000; CREATE UNIQUE INDEX u ON t (lower(b))").await;
    assert_eq!(
        state(&client.batch_execute("INSERT INTO t VALUES (-1, 1, 'ONCE')").await.unwrap_err()),
        "23505"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_given_up_leaves_nothing() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    make(&client, "").await;
    for pause_ms in [1, 3, 10, 30, 60] {
        let token = client.cancel_token();
        let building = client.batch_execute("CREATE INDEX u ON t (lower(b))");
        let cancelling = async {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        };
        let (built, ()) = tokio::join!(building, cancelling);
        let there = value(&client, "SELECT count(*) FROM pg_indexes WHERE indexname = 'u'").await;
        match built {
            Ok(()) => run(&client, "DROP INDEX u").await,
            Err(e) => {
                assert!(["57014", "08007"].contains(&state(&e)), "{e}");
                assert_eq!(there, "0", "after {pause_ms} ms");
            }
        }
    }
    run(&client, "CREATE INDEX u ON t (lower(b))").await;
    assert_eq!(value(&client, "SELECT id FROM t WHERE lower(b) = 'x24999'").await, "24999");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_session_was_building_is_not_read_and_can_be_dropped() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    make(&client, "").await;
    let mut left = "0".to_string();
    for pause_ms in [5, 10, 20, 40, 80] {
        let lost = server.session(0).await;
        let building = lost.batch_execute("CREATE INDEX u ON t (lower(b))");
        // The connection ends with its client.
        _ = tokio::time::timeout(Duration::from_millis(pause_ms), building).await;
        drop(lost);
        tokio::time::sleep(Duration::from_millis(300)).await;
        left = value(&client, "SELECT count(*) FROM pg_index WHERE NOT indisvalid").await;
        assert_eq!(value(&client, "SELECT count(*) FROM t WHERE lower(b) = 'x24999'").await, "1");
        run(&client, "DROP INDEX IF EXISTS u").await;
    }
    assert_eq!(value(&client, "SELECT count(*) FROM pg_index WHERE NOT indisvalid").await, "0", "was {left}");
    run(&client, "CREATE UNIQUE INDEX u ON t (lower(b))").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_change_the_table_meanwhile() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    make(&client, "").await;
    let other = server.session(0).await;
    for nth in 0..6 {
        let building = client.batch_execute("CREATE INDEX u ON t (lower(b))");
        let changing = async {
            tokio::time::sleep(Duration::from_millis(nth * 5)).await;
            other.batch_execute("ALTER TABLE t ADD COLUMN c int DEFAULT 7").await?;
            other.batch_execute("ALTER TABLE t RENAME COLUMN a TO a2").await
        };
        let (built, changed) = tokio::join!(building, changing);
        changed.expect("it waits for nobody");
        built.expect("what changed is no part of it");
        assert_eq!(value(&client, "SELECT c FROM t WHERE lower(b) = 'x100'").await, "7");
        run(&client, "DROP INDEX u; ALTER TABLE t DROP COLUMN c; ALTER TABLE t RENAME COLUMN a2 TO a").await;
    }
    // The column that the index is about goes, and the index with it.
    let building = client.batch_execute("CREATE INDEX u ON t (lower(b))");
    let changing = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        other.batch_execute("ALTER TABLE t DROP COLUMN b").await
    };
    let (built, changed) = tokio::join!(building, changing);
    changed.expect("it waits for nobody");
    if let Err(e) = built {
        assert!(["42704", "42703"].contains(&state(&e)), "{e}");
    }
    assert_eq!(value(&client, "SELECT count(*) FROM pg_indexes WHERE tablename = 't'").await, "1");
    run(&client, "INSERT INTO t VALUES (-5, 1)").await;
}
