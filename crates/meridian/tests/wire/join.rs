//! A fourth real process joins three that have data.

use crate::processes::{PATIENCE, Processes, meridian, run_in_the_end, said};
use crate::server::*;
use std::time::Instant;

pub const TABLES: &str = "
    CREATE TABLE t (region text, id int, v int, PRIMARY KEY (region, id)) WITH (home_by = 'region');
    CREATE TABLE spread (id int PRIMARY KEY, v int UNIQUE) WITH (home_by = 'id', home_map = 'hash');
    CREATE TABLE everywhere (id int PRIMARY KEY, v int) WITH (replicated = true);
    CREATE TABLE counted (id serial PRIMARY KEY, node text);
    INSERT INTO t VALUES ('us', 1, 10), ('eu', 1, 20), ('asia', 1, 30);
    INSERT INTO spread SELECT n, n FROM generate_series(1, 200) n;
    INSERT INTO everywhere VALUES (1, 100)";

pub fn join(processes: &Processes, name: &str, more: &[&str]) -> (bool, String) {
    let config = processes.config(0);
    let output = meridian(&[&["cluster", "join", name, "--config", &config], more].concat());
    (output.status.success(), said(&output))
}

/// It ends by itself, and well.
pub fn ends(processes: &mut Processes, n: usize) {
    let status = processes.children[n].take().expect("it runs").wait().unwrap();
    assert!(status.success(), "node {n}: {status}");
}

/// A command has ended the first so many nodes, and the first of these start again. On a machine that is busy a process may
/// hold its directory for a moment after it has closed its ports.
pub fn start_again(processes: &mut Processes, ended: usize, starting: usize) {
    (0..ended).for_each(|n| ends(processes, n));
    (0..starting).for_each(|n| processes.start(n));
    (0..starting).for_each(|n| processes.wait_ready(n));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fourth_process_joins_and_everything_is_there() {
    let mut processes = Processes::init("join");
    (0..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    let us = processes.session(0).await;
    for statement in TABLES.split(';') {
        run_in_the_end(&us, statement).await;
    }
    for n in 0..3 {
        let client = processes.session(n).await;
        run_in_the_end(
            &client,
            &format!("INSERT INTO counted (node) SELECT '{n}' FROM generate_series(1, 250)"),
        )
        .await;
    }
    let (joined, told) = join(&processes, "eu", &[]);
    assert!(!joined && told.contains("eu is a node of this cluster already"), "{told}");
    let (joined, told) = join(&processes, "ap", &["--survive", "2"]);
    assert!(!joined && told.contains("--survive 2"), "{told}");
    run_in_the_end(&us, "UPDATE t SET v = v + 1 WHERE region = 'us'").await;

    let (joined, told) = join(&processes, "ap", &[]);
    assert!(joined && told.contains("ap.toml"), "{told}");
    (0..3).for_each(|n| ends(&mut processes, n));
    // As before it does not start any more.
    let before = format!("{}.before", processes.config(1));
    let refused = meridian(&["start", "--config", &before]);
    assert!(said(&refused).contains("was stopped for change"), "{}", said(&refused));

    // A node is killed at any moment of its change, and begins it again.
    for pause_ms in [0, 20, 60, 120, 200, 300, 500] {
        processes.start(0);
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        processes.kill(0);
    }
    processes.start(0);
    let begin = Instant::now();
    while !processes.probe(0, "/readyz").contains("every node has been heard: eu, asia, ap") {
        assert!(begin.elapsed() < PATIENCE, "{}", processes.probe(0, "/readyz"));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    (1..4).for_each(|n| processes.start(n));
    (0..4).for_each(|n| processes.wait_ready(n));

    let ap = processes.session(3).await;
    run_in_the_end(&ap, "INSERT INTO t VALUES ('ap', 1, 39)").await;
    run_in_the_end(&ap, "UPDATE everywhere SET v = v + 1").await;
    run_in_the_end(&ap, "UPDATE spread SET v = v + 1000 WHERE id = 7").await;
    run_in_the_end(&ap, "INSERT INTO counted (node) SELECT 'ap' FROM generate_series(1, 250)").await;
    for n in 0..4 {
        let client = processes.session(n).await;
        run_in_the_end(
            &client,
            &format!("INSERT INTO counted (node) SELECT '{n}' FROM generate_series(1, 250)"),
        )
        .await;
        assert_eq!(value(&client, "SELECT sum(v) FROM t").await, "100", "node {n}");
        assert_eq!(value(&client, "SELECT v FROM everywhere WHERE id = 1").await, "101", "node {n}");
        assert_eq!(value(&client, "SELECT count(*) FROM spread").await, "200", "node {n}");
        assert_eq!(value(&client, "SELECT v FROM spread WHERE id = 7").await, "1007", "node {n}");
        assert_eq!(
            value(&client, "SELECT sum(v) FROM spread WHERE v < 1000").await,
            (20_100 - 7).to_string()
        );
        let refused = client.batch_execute("INSERT INTO spread VALUES (1001, 8)").await.unwrap_err();
        assert_eq!(refused.code().map(|code| code.code()), Some("23505"), "node {n}: {refused:?}");
    }
    assert_eq!(value(&ap, "SELECT count(*) FROM counted").await, "2000");
    run_in_the_end(&ap, "CREATE TABLE later (id int PRIMARY KEY)").await;
    run_in_the_end(&ap, "INSERT INTO later VALUES (1)").await;

    // One of the old ones is lost, and taken over; all come back with what their directories have.
    processes.kill(1);
    run_in_the_end(&ap, "UPDATE t SET v = v + 1 WHERE region = 'eu'").await;
    assert_eq!(value(&ap, "SELECT sum(v) FROM t").await, "101");
    [0, 2, 3].into_iter().for_each(|n| processes.kill(n));
    (0..4).for_each(|n| processes.start(n));
    (0..4).for_each(|n| processes.wait_ready(n));
    for n in 0..4 {
        let client = processes.session(n).await;
        run_in_the_end(&client, "UPDATE t SET v = v + 1 WHERE region = 'ap'").await;
        assert_eq!(value(&client, "SELECT sum(v) FROM t").await, (102 + n).to_string());
    }
}

/// Nothing of the new region is elsewhere, and nothing of the others is anywhere but where it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_region_joins_where_nothing_is_kept_elsewhere() {
    let mut processes = Processes::init_with("join-0", &["--nodes", "us,eu,asia", "--survive", "0"]);
    (0..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    let us = processes.session(0).await;
    for statement in TABLES.split(';') {
        run_in_the_end(&us, statement).await;
    }
    let (joined, told) = join(&processes, "ap", &[]);
    assert!(joined, "{told}");
    (0..3).for_each(|n| ends(&mut processes, n));
    // It is killed while it takes its copy, or before, or afterwards.
    (0..4).for_each(|n| processes.start(n));
    for pause_ms in [300, 600, 900] {
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        processes.kill(3);
        processes.start(3);
    }
    (0..4).for_each(|n| processes.wait_ready(n));
    let ap = processes.session(3).await;
    run_in_the_end(&ap, "INSERT INTO t VALUES ('ap', 1, 39)").await;
    run_in_the_end(&ap, "UPDATE t SET v = v + 1").await;
    (0..4).for_each(|n| processes.kill(n));
    (0..4).for_each(|n| processes.start(n));
    (0..4).for_each(|n| processes.wait_ready(n));
    for n in 0..4 {
        let client = processes.session(n).await;
        run_in_the_end(&client, "UPDATE t SET v = v + 1 WHERE region = 'ap'").await;
        assert_eq!(value(&client, "SELECT sum(v) FROM t").await, (104 + n).to_string(), "node {n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn distances_and_the_regions_that_may_be_lost_change() {
    let mut processes = Processes::init_with("change", &["--survive", "0"]);
    (0..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    let us = processes.session(0).await;
    run_in_the_end(&us, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    run_in_the_end(&us, "INSERT INTO t VALUES (1, 1)").await;
    let config = processes.config(2);
    let changed =
        meridian(&["cluster", "change", "--config", &config, "--survive", "1", "--distances", "us/eu=3ms"]);
    assert!(changed.status.success(), "{}", said(&changed));
    start_again(&mut processes, 3, 3);
    // With K = 1 the others go on without the region that has the row.
    processes.kill(0);
    let eu = processes.session(1).await;
    run_in_the_end(&eu, "UPDATE t SET v = v + 1 WHERE id = 1").await;
    assert_eq!(value(&eu, "SELECT v FROM t").await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_would_belong_to_the_new_region_keep_it_out() {
    let mut processes = Processes::init("named");
    (0..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    let us = processes.session(0).await;
    for statement in TABLES.split(';').take(1) {
        run_in_the_end(&us, statement).await;
    }
    // No region of this name yet: hashing places them, not all where the fourth region will be.
    run_in_the_end(&us, "INSERT INTO t SELECT 'ap', n, n FROM generate_series(1, 3) n").await;
    let (joined, told) = join(&processes, "ap", &[]);
    assert!(!joined && told.contains("rows of table t with region = 'ap' would belong"), "{told}");
    // Nobody has noticed.
    assert_eq!(value(&us, "SELECT count(*) FROM t WHERE region = 'ap'").await, "3");
    (0..3).for_each(|n| processes.wait_ready(n));
    let eu = processes.session(1).await;
    run_in_the_end(&eu, "DELETE FROM t WHERE region = 'ap'").await;
    let (joined, told) = join(&processes, "ap", &[]);
    assert!(joined, "{told}");
    (0..3).for_each(|n| ends(&mut processes, n));
}
