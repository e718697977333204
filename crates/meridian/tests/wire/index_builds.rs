//! Indexes and constraints that are made on a table with rows, while others write to it.

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
    /// `may_conflict`: their single statements may end with 40001 for each other.
    async fn start(server: &Server, regions: usize, may_conflict: bool) -> Writers {
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
                            Err(e) => assert!(may_conflict && state(&e) == "40001", "{sql}: {e:?}"),
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
        let writers = Writers::start(&server, 3, engine == "geogauss").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        for sql in [
            "CREATE INDEX ON t (lower(b))",
            "CREATE INDEX t_few ON t (a) WHERE a % 1000 < 3",
            "CREATE INDEX t_plain ON t (b, a)",
            "CREATE INDEX CONCURRENTLY t_other ON t (a DESC)",
            "CREATE UNIQUE INDEX t_once ON t (id, b)",
        ] {
            client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{engine}: {sql}: {e:?}"));
        }
        assert!(writers.done.load(Ordering::SeqCst) > 0, "{engine}");
        writers.end().await;
        assert_complete(&client, engine).await;
        let by_index = "SELECT count(*) FROM t WHERE a = 2 AND a % 1000 < 3";
        let by_scan = "SELECT count(*) FROM t WHERE a + 0 = 2";
        assert_eq!(value(&client, by_index).await, value(&client, by_scan).await, "{engine}");
        let plan = rows(&client, "EXPLAIN SELECT id FROM t WHERE b = 'X77'").await.unwrap().join(" ");
        assert!(plan.contains("t_plain"), "{engine}: {plan}");
        let all = rows(&client, "SELECT id, b FROM t ORDER BY id").await.unwrap();
        for row in all.iter().step_by(101).chain(all.iter().rev().take(20)) {
            let (id, b) = row.split_once('|').expect("two columns");
            let found = format!("SELECT id FROM t WHERE b = '{b}' AND id = {id}");
            assert_eq!(rows(&client, &found).await.unwrap(), [id], "{engine}: {row}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unique_index_is_built_over_rows_that_differ() {
    for engine in ["caerus", "perseus", "geogauss"] {
        let server = Server::start_with(&["--engine", engine], 3);
        let client = server.session(0).await;
        make(&client, "").await;
        run(&client, "UPDATE t SET a = id").await;
        let writer = server.session(1).await;
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        // Takes values that rows have, which is an error or ends the build, and others, which is neither.
        let writing = tokio::spawn(async move {
            let (mut done, mut refused, mut at) = (0, 0, 1);
            while !until.load(Ordering::SeqCst) {
                at = (at * 6_364_136_223u64 + 1_442_695_041) % ROWS;
                let free = format!("UPDATE t SET a = a + {ROWS} WHERE id = {at} AND a < {}", 100 * ROWS);
                writer.batch_execute(&free).await.expect("nobody has this value");
                done += 1;
                let taken = format!("UPDATE t SET a = {at} WHERE id = {}", ROWS - 1);
                match writer.batch_execute(&taken).await {
                    Ok(()) => writer
                        .batch_execute(&format!("UPDATE t SET a = {} WHERE id = {}", ROWS - 1, ROWS - 1))
                        .await
                        .expect("its own value"),
                    Err(e) => {
                        assert!(["23505", "40001"].contains(&state(&e)), "{e:?}");
                        refused += 1;
                    }
                }
            }
            (done, refused)
        });
        let mut built = 0;
        for _ in 0..6 {
            match client.batch_execute("CREATE UNIQUE INDEX u ON t (a)").await {
                Ok(()) => {
                    let double = "SELECT count(*) - count(DISTINCT a) FROM t";
                    assert_eq!(value(&client, double).await, "0", "{engine}");
                    run(&client, "DROP INDEX u").await;
                    built += 1;
                }
                Err(e) => assert!(["23505", "40001"].contains(&state(&e)), "{engine}: {e:?}"),
            }
            let left = value(&client, "SELECT count(*) FROM pg_indexes WHERE indexname = 'u'").await;
            assert_eq!(left, "0", "{engine}");
        }
        stop.store(true, Ordering::SeqCst);
        let (done, refused) = writing.await.expect("the writer does not fail");
        println!("{engine}: {built} of 6 built, {done} free values taken, {refused} others refused");
        run(&client, "CREATE UNIQUE INDEX u ON t (a)").await;
        let taken = "UPDATE t SET a = (SELECT a FROM t WHERE id = 7) WHERE id = 8";
        assert_eq!(state(&client.batch_execute(taken).await.unwrap_err()), "23505", "{engine}");
        assert_eq!(value(&client, "SELECT id FROM t WHERE a = (SELECT a FROM t WHERE id = 9)").await, "9");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_built_leaves_nothing() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    make(&client, "").await;
    let error = client.batch_execute("CREATE UNIQUE INDEX u ON t (a)").await.unwrap_err();
    let error = error.as_db_error().expect("the server says it");
    assert_eq!((error.code().code(), error.message()), ("23505", "could not create unique index \"u\""));
    assert!(error.detail().is_some_and(|told| told.ends_with("is duplicated.")), "{error:?}");
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

#[tokio::test(flavor = "multi_thread")]
async fn checks_are_added_while_others_write() {
    for engine in ["caerus", "perseus", "geogauss"] {
        let server = Server::start_with(&["--engine", engine], 3);
        let client = server.session(0).await;
        make(&client, "WITH (home_by = id, home_map = 'hash')").await;
        let writers = Writers::start(&server, 3, engine == "geogauss").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        for sql in [
            "ALTER TABLE t ADD CONSTRAINT positive CHECK (a >= 0)",
            "ALTER TABLE t ADD CONSTRAINT later CHECK (id > -10) NOT VALID",
            "ALTER TABLE t VALIDATE CONSTRAINT later",
            "ALTER TABLE t ALTER COLUMN b SET NOT NULL",
            "ALTER TABLE t ADD CONSTRAINT once UNIQUE (id, a)",
        ] {
            client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{engine}: {sql}: {e:?}"));
        }
        writers.end().await;
        let constraints = "SELECT conname || ' ' || contype || ' ' || convalidated FROM pg_constraint \
                           WHERE conrelid = 't'::regclass ORDER BY conname";
        let there = rows(&client, constraints).await.unwrap();
        assert_eq!(there, ["later c true", "once u true", "positive c true", "t_pkey p true"], "{engine}");
        for (sql, wanted) in [
            ("INSERT INTO t VALUES (-1, -1, 'x')", "23514"),
            ("UPDATE t SET b = NULL WHERE id = 7", "23502"),
            ("INSERT INTO t VALUES (-11, 1, 'x')", "23514"),
        ] {
            assert_eq!(state(&client.batch_execute(sql).await.unwrap_err()), wanted, "{engine}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_rows_do_not_keep_leaves_nothing() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    make(&client, "").await;
    run(&client, "INSERT INTO t VALUES (-5, -5, NULL)").await;
    let constraints = "SELECT count(*) FROM pg_constraint WHERE conrelid = 't'::regclass";
    for (sql, wanted, told) in [
        (
            "ALTER TABLE t ADD CONSTRAINT positive CHECK (a >= 0)",
            "23514",
            "check constraint \"positive\" of relation \"t\" is violated by some row",
        ),
        (
            "ALTER TABLE t ALTER b SET NOT NULL",
            "23502",
            "column \"b\" of relation \"t\" contains null values",
        ),
        ("ALTER TABLE t ADD UNIQUE (a)", "23505", "could not create unique index \"t_a_key\""),
        ("ALTER TABLE t ADD CONSTRAINT odd CHECK (1 / (id - 77) < 5)", "22012", "division by zero"),
    ] {
        let error = client.batch_execute(sql).await.unwrap_err();
        let error = error.as_db_error().expect("the server says it");
        assert_eq!((error.code().code(), error.message()), (wanted, told), "{sql}");
        assert_eq!(value(&client, constraints).await, "1", "{sql}");
    }
    run(&client, "ALTER TABLE t ADD CONSTRAINT positive CHECK (a >= 0) NOT VALID").await;
    let validate = "ALTER TABLE t VALIDATE CONSTRAINT positive";
    assert_eq!(state(&client.batch_execute(validate).await.unwrap_err()), "23514");
    let is_there = "SELECT convalidated FROM pg_constraint WHERE conname = 'positive'";
    assert_eq!(value(&client, is_there).await, "f");
    run(&client, "DELETE FROM t WHERE id = -5").await;
    run(&client, validate).await;
    run(&client, "ALTER TABLE t ALTER b SET NOT NULL, ALTER a SET NOT NULL").await;
    assert_eq!(value(&client, is_there).await, "t");
    // One that is cancelled leaves nothing either, or is there.
    for pause_ms in [1, 5, 20, 40] {
        let token = client.cancel_token();
        let adding = client.batch_execute("ALTER TABLE t ADD CONSTRAINT c CHECK (length(b) < 99)");
        let cancelling = async {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        };
        let (added, ()) = tokio::join!(adding, cancelling);
        // A cancellation that comes too late may end what its session does next.
        let other = server.session(0).await;
        let there = value(&other, "SELECT count(*) FROM pg_constraint WHERE conname = 'c'").await;
        if let Err(e) = added {
            assert!(["57014", "08007"].contains(&state(&e)), "{e}");
            assert!(there == "0" || state(&e) == "08007", "after {pause_ms} ms");
        }
        run(&other, "ALTER TABLE t DROP CONSTRAINT IF EXISTS c").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_gets_past_a_check_that_is_being_added() {
    for engine in ["caerus", "geogauss"] {
        let server = Server::start_with(&["--engine", engine], 3);
        let client = server.session(0).await;
        make(&client, "").await;
        let other = server.session(1).await;
        let (mut added, mut written) = (0, 0);
        for nth in 0..12u64 {
            let adding = client.batch_execute("ALTER TABLE t ADD CONSTRAINT small CHECK (a < 5000)");
            let writing = async {
                tokio::time::sleep(Duration::from_millis(nth * 4)).await;
                other.batch_execute("UPDATE t SET a = 9000 WHERE id = 12345").await
            };
            let (add, write) = tokio::join!(adding, writing);
            added += u64::from(add.is_ok());
            written += u64::from(write.is_ok());
            for e in add.err().iter().chain(write.err().iter()) {
                assert!(["23514", "40001"].contains(&state(e)), "{engine}: {e:?}");
            }
            let against = value(&client, "SELECT count(*) FROM t WHERE a >= 5000").await;
            let is_there = "SELECT count(*) FROM pg_constraint WHERE conname = 'small'";
            let is_there = value(&client, is_there).await;
            assert!(against == "0" || is_there == "0", "{engine}: {against} rows against it");
            run(
                &client,
                "ALTER TABLE t DROP CONSTRAINT IF EXISTS small; UPDATE t SET a = 1 WHERE id = 12345",
            )
            .await;
        }
        assert!(added + written >= 12, "{engine}: {added} added, {written} written");
    }
}
