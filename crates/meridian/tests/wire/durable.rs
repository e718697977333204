//! A database in a directory: the process is killed at any moment, and what was answered is there.

use crate::server::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory that is gone when the test is.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("meridian-{}-{name}", std::process::id()));
        _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }
    pub fn text(&self) -> &str {
        self.0.to_str().expect("a plain name")
    }
}
impl Drop for Directory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(directory: &Directory, engine: &str) -> Server {
    Server::start_with(&["--regions", "us", "--engine", engine, "--data", directory.text()], 1)
}

/// Exit code and errors of a start that has to fail.
fn refused(directory: &Path, more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["start", "--port", "0", "--wan", "local", "--regions", "us"])
        .args(["--data", directory.to_str().expect("a plain name")])
        .args(more)
        .output()
        .expect("the command runs");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_a_kill() {
    survives_a_kill("caerus").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_with_one_copy_of_a_partition_survives_a_kill() {
    survives_a_kill("perseus").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_when_its_epoch_was_merged_survives_a_kill() {
    survives_a_kill("geogauss").await;
}

async fn survives_a_kill(engine: &str) {
    let directory = Directory::new(&format!("kill-{engine}"));
    let mut answered: Vec<i64> = Vec::new();
    for life in 0..3i64 {
        let server = start(&directory, engine);
        let client = server.session(0).await;
        if life == 0 {
            client.batch_execute("CREATE TABLE kept (id INT PRIMARY KEY, name TEXT UNIQUE)").await.unwrap();
        }
        let found = rows(&client, "SELECT id FROM kept ORDER BY id").await.unwrap();
        let found: Vec<i64> = found.iter().map(|id| id.parse().unwrap()).collect();
        assert!(answered.iter().all(|id| found.binary_search(id).is_ok()), "life {life}: {found:?}");
        // What was not answered may be there or not, but nothing else is.
        assert!(found.iter().all(|id| id / 1000 < life), "{found:?}");
        let sum = value(&client, "SELECT count(*) FROM kept WHERE name LIKE 'row %'").await;
        assert_eq!(sum, found.len().to_string(), "columns have what rows have");
        // Several clients write until the process is killed under them.
        let mut writers = Vec::new();
        for w in 0..4i64 {
            let client = server.session(0).await;
            let last = if w == 0 { 40 } else { 200 };
            writers.push(tokio::spawn(async move {
                let mut done = Vec::new();
                for id in (0..=last).map(|n| life * 1000 + w * 210 + n) {
                    let insert = format!("INSERT INTO kept VALUES ({id}, 'row {id}')");
                    match client.batch_execute(&insert).await {
                        Ok(()) => done.push(id),
                        Err(_) => break,
                    }
                }
                done
            }));
        }
        answered.extend(writers.remove(0).await.unwrap());
        drop(server);
        for writer in writers {
            answered.extend(writer.await.unwrap());
        }
    }
    assert!(answered.len() >= 3 * 41, "{}", answered.len());
    let error = {
        let server = start(&directory, engine);
        let client = server.session(0).await;
        client.batch_execute("INSERT INTO kept VALUES (1000000, 'row 0')").await.unwrap_err()
    };
    assert_eq!(state(&error), "23505", "unique indexes come back too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_used_is_refused_with_its_reason() {
    let directory = Directory::new("refused");
    let server = start(&directory, "caerus");
    let client = server.session(0).await;
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (1), (2)").await.unwrap();
    assert!(refused(&directory.0, &[]).contains("is in use by another process"));
    drop(server);
    let said = refused(&directory.0, &["--partitions", "2"]);
    assert!(said.contains("was made with --partitions 1, not 2"), "{said}");
    // Damage in the middle.
    let log = directory.0.join("node-0/log/00000000000000000001.seg");
    let whole = std::fs::read(&log).unwrap();
    let mut bytes = whole.clone();
    bytes[60] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let said = refused(&directory.0, &[]);
    assert!(
        said.contains(directory.text())
            && said.contains("log/00000000000000000001.seg is damaged at offset 46:"),
        "{said}"
    );
    // A torn end is cut.
    let mut bytes = whole.clone();
    bytes.extend_from_slice(&whole[whole.len() - 9..]);
    std::fs::write(&log, &bytes).unwrap();
    let server = start(&directory, "caerus");
    let client = server.session(0).await;
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, "2");
    drop((client, server));
    // A file of a later format, or the only node's directory gone.
    let made_with = directory.0.join("made-with");
    let settings = std::fs::read_to_string(&made_with).unwrap();
    std::fs::write(&made_with, settings.replace("format 1", "format 2")).unwrap();
    let said = refused(&directory.0, &[]);
    assert!(said.contains("made-with: has format 2; this program reads format 1"), "{said}");
    std::fs::write(&made_with, settings).unwrap();
    std::fs::rename(directory.0.join("node-0"), directory.0.join("elsewhere")).unwrap();
    let said = refused(&directory.0, &[]);
    assert!(said.contains("node-0: is not there, and it was once; restore"), "{said}");
    assert!(!directory.0.join("node-0").exists(), "nothing is made in its place");
    std::fs::rename(directory.0.join("elsewhere"), directory.0.join("node-0")).unwrap();
    let server = start(&directory, "caerus");
    assert_eq!(value(&server.session(0).await, "SELECT count(*) FROM t").await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_for_the_life_of_its_logs_and_refused_by_any_other() {
    let (directory, other) = (Directory::new("life"), Directory::new("another-life"));
    let server = start(&directory, "caerus");
    let client = server.session(0).await;
    run(&client, "CREATE TABLE t (id INT PRIMARY KEY)").await;
    run(&client, "SET meridian.consistency = 'regular'; INSERT INTO t VALUES (1)").await;
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, "1");
    let token = value(&client, "SHOW meridian.token").await;
    assert!(token.contains('/') && token.contains(",0@"), "{token}");
    let set = format!("SET meridian.token = '{token}'");
    drop((client, server));
    // The same logs, read again.
    let server = start(&directory, "caerus");
    let client = server.session(0).await;
    run(&client, &set).await;
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, "1");
    drop((client, server));
    // Another directory, and no directory.
    for server in [start(&other, "caerus"), Server::start_with(&["--regions", "us"], 1)] {
        let client = server.session(0).await;
        for set in [&set, "SET meridian.token = '17'"] {
            let (state, message) = failure(&client, set).await;
            assert_eq!(state, "22023");
            assert!(
                message.contains("another cluster, or by an earlier incarnation of this one"),
                "{message}"
            );
        }
        run(&client, "CREATE TABLE t (id INT PRIMARY KEY)").await;
        assert_eq!(value(&client, "SELECT count(*) FROM t").await, "0", "the session goes on");
    }
    // Logs of which one is gone are no life.
    let both = Directory::new("half");
    let start_both = || Server::start_with(&["--regions", "us,eu", "--data", both.text()], 2);
    drop(start_both());
    std::fs::remove_dir_all(both.0.join("node-1")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["start", "--port", "0", "--wan", "local", "--regions", "us,eu", "--data", both.text()])
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("node-1: is not there"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_moved_is_there_after_a_kill() {
    let directory = Directory::new("moved");
    let start = || Server::start_with(&["--engine", "caerus", "--data", directory.text()], 3);
    let home = "SELECT home FROM meridian.tables WHERE table_name = 't'";
    {
        let server = start();
        let client = server.session(0).await;
        run(&client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&client, "INSERT INTO t VALUES (1, 1)").await;
        run(&client, "ALTER TABLE t SET (home = 'eu')").await;
        assert_eq!(value(&client, home).await, "eu");
    }
    let server = start();
    let (us, eu) = (server.session(0).await, server.session(1).await);
    for client in [&us, &eu] {
        assert_eq!(value(client, home).await, "eu");
        run(client, "UPDATE t SET v = v + 1 WHERE id = 1").await;
    }
    let plan = rows(&eu, "EXPLAIN ANALYZE UPDATE t SET v = v + 1 WHERE id = 1").await.unwrap();
    assert!(plan.iter().any(|line| line.ends_with("regions eu")), "{plan:?}");
    assert_eq!(value(&us, "SELECT v FROM t WHERE id = 1").await, "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_comes_back_from_a_checkpoint_and_with_another_build() {
    comes_back_from_a_checkpoint("caerus").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_member_comes_back_from_a_checkpoint_and_with_another_build() {
    comes_back_from_a_checkpoint("geogauss").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_with_one_copy_of_a_partition_does_too() {
    comes_back_from_a_checkpoint("perseus").await;
}

async fn comes_back_from_a_checkpoint(engine: &str) {
    let directory = Directory::new(&format!("checkpoint-{engine}"));
    let text = directory.text();
    let data = ["--regions", "us,eu", "--engine", engine, "--data", text, "--checkpoint-mib", "1"];
    let start = || Server::start_with(&data, 2);
    let checkpoints = |node: u16| {
        let path = directory.0.join(format!("node-{node}/checkpoint"));
        let found = std::fs::read_dir(path).expect("the directory is there");
        found.filter(|entry| entry.as_ref().unwrap().path().join("manifest").exists()).count()
    };
    // Where a partition has one copy, all rows are at the region that made the table.
    let writers: &[u16] = if engine == "perseus" { &[0] } else { &[0, 1] };
    let (mut rows_written, text) = (0, "x".repeat(1_000));
    for life in 0..3 {
        let server = start();
        let (us, eu) = (server.session(0).await, server.session(1).await);
        if life == 0 {
            run(&us, "CREATE TABLE t (id INT PRIMARY KEY, name TEXT UNIQUE, more TEXT)").await;
            run(&us, "CREATE TABLE c (id INT PRIMARY KEY, n INT)").await;
            run(&us, "INSERT INTO c VALUES (1, 0)").await;
        }
        for client in [&us, &eu] {
            assert_eq!(value(client, "SELECT count(*) FROM t").await, rows_written.to_string());
            assert_eq!(value(client, "SELECT n FROM c WHERE id = 1").await, (rows_written / 100).to_string());
            assert_eq!(
                value(client, "SELECT count(*) FROM t WHERE name = 'row 7'").await,
                if life == 0 { "0" } else { "1" }
            );
        }
        // Some before the checkpoint, some while it is written, some behind it.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let is_without = |node: &u16| checkpoints(*node) == 0;
        let mut batches = 0;
        while batches < 25 || life == 0 && writers.iter().any(is_without) {
            assert!(std::time::Instant::now() < deadline, "no checkpoint is written");
            let values: Vec<String> = (0..100)
                .map(|n| rows_written + n)
                .map(|id| format!("({id}, 'row {id}', '{text}')"))
                .collect();
            let client = if batches % 2 == 0 { &us } else { &eu };
            run(client, &format!("INSERT INTO t VALUES {}", values.join(", "))).await;
            run(client, "UPDATE c SET n = n + 1 WHERE id = 1").await;
            (batches, rows_written) = (batches + 1, rows_written + 100);
        }
    }
    // Two are kept, and what they stand for is not read again.
    assert!(writers.iter().all(|node| (1..=3).contains(&checkpoints(*node))));
    let made_with = directory.0.join("made-with");
    let settings = std::fs::read_to_string(&made_with).unwrap();
    let others: Vec<&str> = settings.lines().filter(|line| !line.starts_with("build ")).collect();
    std::fs::write(&made_with, format!("{}\nbuild another\n", others.join("\n"))).unwrap();
    let server = start();
    let eu = server.session(1).await;
    assert_eq!(value(&eu, "SELECT count(*) FROM t").await, rows_written.to_string());
    // A directory of before there were records.
    drop((eu, server));
    let others: Vec<&str> = settings.lines().filter(|line| !line.starts_with("log ")).collect();
    std::fs::write(&made_with, others.join("\n") + "\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["start", "--port", "0", "--wan", "local"])
        .args(data)
        .output();
    let output = output.expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("its logs hold inputs"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_goes_on_after_a_kill() {
    let directory = Directory::new("sequences");
    let mut rows_there = 0;
    for life in 0..3 {
        let server = start(&directory, "caerus");
        let client = server.session(0).await;
        if life == 0 {
            run(&client, "CREATE TABLE numbered (id serial PRIMARY KEY, v int)").await;
            run(&client, "CREATE SEQUENCE plain").await;
        }
        // More than a block in one life, so that two are written down.
        run(&client, "INSERT INTO numbered (v) SELECT n FROM generate_series(1, 130) s(n)").await;
        run(&client, "INSERT INTO numbered (v) VALUES (0)").await;
        rows_there += 131;
        assert_eq!(value(&client, "SELECT count(DISTINCT id) FROM numbered").await, rows_there.to_string());
        let next: i64 = value(&client, "SELECT nextval('plain')").await.parse().unwrap();
        assert_eq!(next, life * 100 + 1, "a life begins behind what the one before may have handed out");
    }
}

/// A node of several that comes back executes again what was executed, which takes the others' word; until it has, its catalog is
/// an old one.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_before_a_node_that_came_back_knows_its_tables_and_roles() {
    for engine in ["caerus", "perseus", "geogauss"] {
        let directory = Directory::new(&format!("back-{engine}"));
        let start = || Server::start_with(&["--engine", engine, "--data", directory.text()], 3);
        let mut server = start();
        for life in 0..3 {
            let client = server.session_of(0, "root").await.expect("root may come in");
            run(&client, "CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY)").await;
            run(&client, "CREATE INDEX u ON t ((a + 1)); DROP INDEX u").await;
            run(&client, &format!("CREATE ROLE r{life} LOGIN; CREATE TABLE t{life} (a int)")).await;
            run(&client, &format!("INSERT INTO t{life} VALUES (7)")).await;
            drop(server);
            server = start();
            for region in 0..3 {
                let stranger = server.session_of(region, "nobody").await;
                let refused = stranger.err().expect("there is no such role");
                assert_eq!(state(&refused), "28000", "{engine}, life {life}, region {region}: {refused:?}");
                server.session_of(region, &format!("r{life}")).await.expect("the role was made");
                let client = server.session_of(region, "root").await.expect("root may come in");
                let index = "SELECT count(*) FROM pg_class WHERE relname = 'u'";
                assert_eq!(value(&client, index).await, "0", "{engine}, life {life}, region {region}");
                let rows = rows(&client, &format!("SELECT a FROM t{life}")).await;
                assert_eq!(
                    rows.expect("the table was made"),
                    ["7"],
                    "{engine}, life {life}, region {region}"
                );
            }
        }
    }
}
