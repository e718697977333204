//! Read-only replicas of rows: strong reads there, what happens when they stop, and who is told.

use crate::server::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

const ROWS: usize = 4;

async fn filled(arguments: &[&str], regions: usize) -> Server {
    let server = Server::start_with(arguments, regions);
    let root = server.session_of(0, "root").await.unwrap();
    run(&root, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    for id in 0..ROWS {
        run(&root, &format!("INSERT INTO t VALUES ({id}, 0)")).await;
    }
    // Until then they pass reads on.
    until(&root, "SELECT count(*) FROM meridian.replicas WHERE state <> 'serving'", "0").await;
    server
}

/// Asks again until this is the answer.
async fn until(client: &tokio_postgres::Client, sql: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let found = value(client, sql).await;
        if found == wanted {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{sql}: {found}, not {wanted}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A row and the line of EXPLAIN ANALYZE that says who answered.
async fn read_at(client: &tokio_postgres::Client) -> String {
    let explained = rows(client, "EXPLAIN ANALYZE SELECT v FROM t WHERE id = 1").await.unwrap();
    let told = explained.iter().rev().find(|line| line.trim_start().starts_with("Read at: "));
    told.unwrap_or_else(|| panic!("{explained:#?}")).trim().to_string()
}

/// Writers count rows up while readers, each at whatever replica it gets, hold what they see against what had been answered;
/// meanwhile one replica stands still, and the other loses its memory.
async fn no_read_is_stale(server: &Server, replicas: [u16; 2]) {
    let root = server.session_of(0, "root").await.unwrap();
    let answered: Arc<[AtomicI64; ROWS]> = Arc::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for id in 0..2 {
        let (client, answered, is_over) = (server.session(0).await, answered.clone(), is_over.clone());
        tasks.spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let next = answered[id].load(Ordering::SeqCst) + 1;
                run(&client, &format!("UPDATE t SET v = {next} WHERE id = {id}")).await;
                answered[id].store(next, Ordering::SeqCst);
            }
        });
    }
    for reader in 0..3 {
        let (client, answered, is_over) = (server.session(0).await, answered.clone(), is_over.clone());
        tasks.spawn(async move {
            let select = client.prepare("SELECT v FROM t WHERE id = $1").await.unwrap();
            let mut id = reader;
            while !is_over.load(Ordering::SeqCst) {
                id = (id + 1) % 2;
                let known = answered[id].load(Ordering::SeqCst);
                let row = client.query_one(&select, &[&(id as i32)]).await.unwrap();
                let seen = i64::from(row.get::<_, i32>(0));
                assert!(seen >= known, "row {id} shows {seen} after {known} was answered");
            }
        });
    }
    let pause = || tokio::time::sleep(Duration::from_millis(400));
    let command = |what: &str, node: u16| format!("SELECT meridian_replica('{what}', {node})");
    pause().await;
    run(&root, &command("pause", replicas[0])).await;
    pause().await;
    run(&root, &command("restart", replicas[1])).await;
    pause().await;
    run(&root, &command("resume", replicas[0])).await;
    pause().await;
    is_over.store(true, Ordering::SeqCst);
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let written = answered[0].load(Ordering::SeqCst);
    assert!(written > 5, "{written} writes of a row");
    let served = "SELECT count(*) FROM meridian.replicas WHERE reads > 5 AND state = 'serving'";
    until(&root, served, "2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_strong_read_at_a_replica_is_stale_while_replicas_stop_and_lose_their_memory() {
    for engine in ["caerus", "perseus"] {
        let server = filled(&["--regions", "us", "--replicas", "2", "--engine", engine], 1).await;
        no_read_is_stale(&server, [1, 2]).await;
    }
    // Each region's node feeds its own replicas: these are of the first region.
    let server = filled(&["--replicas", "2"], 3).await;
    no_read_is_stale(&server, [3, 4]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_says_how_it_reads_and_is_told_who_answered() {
    let server = filled(&["--regions", "us", "--replicas", "1", "--engine", "perseus"], 1).await;
    let root = server.session_of(0, "root").await.unwrap();
    let told = read_at(&root).await;
    assert!(told.starts_with("Read at: replica n1 (policy scc): cut after "), "{told}");
    run(&root, "SET meridian.read_policy = 'primary'").await;
    assert_eq!(read_at(&root).await, "Read at: the region's node (policy primary)");
    run(&root, "SET meridian.read_policy = 'stale 60000'").await;
    run(&root, "BEGIN").await;
    assert_eq!(read_at(&root).await, "Read at: the region's node: inside a transaction block");
    run(&root, "ROLLBACK").await;
    let told = read_at(&root).await;
    assert!(told.starts_with("Read at: replica n1 (policy stale 60000ms): "), "{told}");
    // What a session has written it reads, except under stale.
    run(&root, "SET meridian.read_policy = 'session'").await;
    for n in 1..=30 {
        run(&root, &format!("UPDATE t SET v = {n} WHERE id = 1")).await;
        assert_eq!(value(&root, "SELECT v FROM t WHERE id = 1").await, n.to_string());
    }
    run(&root, "SET meridian.read_policy = 'stale'").await;
    let mut stale = 0;
    for n in 31..=90 {
        run(&root, &format!("UPDATE t SET v = {n} WHERE id = 1")).await;
        stale += u32::from(value(&root, "SELECT v FROM t WHERE id = 1").await != n.to_string());
    }
    assert!(stale > 0, "the replica is never behind, so this test shows nothing");
    let (state, message) = failure(&root, "SET meridian.read_policy = 'commit_wait'").await;
    assert_eq!((state.as_str(), message.as_str()), ("0A000", "read policy commit_wait is not supported"));
    assert_eq!(failure(&root, "SET meridian.read_policy = 'fresh'").await.0, "22023");
    let token = value(&root, "SHOW meridian.token").await;
    assert_eq!(value(&root, &format!("WAIT FOR LSN '{token}'")).await, "success");
    assert_eq!(failure(&root, "WAIT FOR LSN 'nowhere'").await.0, "22023");
    // Of a replica that stands still, or is drained, the region's node takes the reads.
    run(&root, "RESET meridian.read_policy").await;
    for (stop, go_on) in [("pause", "resume"), ("drain", "undrain")] {
        run(&root, &format!("SELECT meridian_replica('{stop}', 1)")).await;
        assert_eq!(read_at(&root).await, "Read at: the region's node: no replica serves");
        assert_eq!(value(&root, "SELECT v FROM t WHERE id = 1").await, "90");
        run(&root, &format!("SELECT meridian_replica('{go_on}', 1)")).await;
    }
    // A replica that begins again has a table that came while it was away.
    run(&root, "SELECT meridian_replica('pause', 1); CREATE TABLE u (id int PRIMARY KEY)").await;
    run(&root, "INSERT INTO u VALUES (7); SELECT meridian_replica('restart', 1)").await;
    assert_eq!(value(&root, "SELECT id FROM u WHERE id = 7").await, "7");
    until(&root, "SELECT rows::text || state FROM meridian.replicas", &format!("{}serving", ROWS + 1)).await;
    assert_eq!(failure(&root, "SELECT meridian_replica('pause', 0)").await.0, "22023");
    assert_eq!(failure(&root, "SELECT meridian_replica('kick', 1)").await.0, "22023");
    run(&root, "CREATE ROLE reader LOGIN").await;
    let reader = server.session_of(0, "reader").await.unwrap();
    assert_eq!(failure(&reader, "SELECT meridian_replica('pause', 1)").await.0, "42501");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_enters_or_leaves_a_range_or_an_index_is_seen_at_a_replica() {
    for engine in ["caerus", "perseus"] {
        let server = filled(&["--regions", "us", "--replicas", "1", "--engine", engine], 1).await;
        let root = server.session_of(0, "root").await.unwrap();
        run(&root, "CREATE TABLE w (id int PRIMARY KEY, name text, v int)").await;
        run(&root, "CREATE INDEX w_name ON w (name)").await;
        for n in 1..=15 {
            run(&root, &format!("INSERT INTO w VALUES ({n}, 'n{n}', 0)")).await;
            let by_name = |name: String| format!("SELECT id FROM w WHERE name = '{name}'");
            assert_eq!(rows(&root, &by_name(format!("n{n}"))).await.unwrap(), [n.to_string()]);
            let range = format!("SELECT id FROM w WHERE id BETWEEN {n} AND {}", n + 50);
            assert_eq!(rows(&root, &range).await.unwrap(), [n.to_string()]);
            run(&root, &format!("UPDATE w SET name = 'm{n}' WHERE id = {n}")).await;
            assert!(rows(&root, &by_name(format!("n{n}"))).await.unwrap().is_empty());
            assert_eq!(rows(&root, &by_name(format!("m{n}"))).await.unwrap(), [n.to_string()]);
            if n % 3 == 0 {
                run(&root, &format!("DELETE FROM w WHERE id = {n}")).await;
                assert!(rows(&root, &range).await.unwrap().is_empty());
            }
        }
        let served = value(&root, "SELECT reads > 40 FROM meridian.replicas").await;
        assert_eq!(served, "t", "{engine}: the replica answered hardly any of these");
    }
}

#[test]
fn replicas_are_refused_where_they_would_not_serve() {
    for (arguments, said) in [
        (&["--engine", "geogauss"][..], "geogauss"),
        (&["--columns", "own"], "--columns own"),
        (&["--clocks", "unbounded"], "--clocks unbounded"),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_meridian"));
        command.args(["start", "--port", "0", "--wan", "local", "--replicas", "1"]).args(arguments);
        let started = command.output().expect("the command runs");
        let error = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(!started.status.success() && error.contains("--replicas") && error.contains(said), "{error}");
    }
}
