//! A real process leaves a cluster, which goes on without it.

use crate::join::{TABLES, ends, join, start_again};
use crate::processes::{PATIENCE, Processes, meridian, run_in_the_end, said};
use crate::server::*;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const REGIONS: [&str; 3] = ["us", "eu", "asia"];

fn remove(processes: &Processes, name: &str, more: &[&str]) -> (bool, String) {
    let config = processes.config(0);
    let output = meridian(&[&["cluster", "remove", name, "--config", &config], more].concat());
    (output.status.success(), said(&output))
}

fn refused(processes: &Processes, name: &str, more: &[&str]) -> String {
    let (removed, told) = remove(processes, name, more);
    assert!(!removed, "{told}");
    told
}

/// Rows that clients were told of, as `region|client|id`.
type Answered = Arc<Mutex<BTreeSet<String>>>;

/// Writes a row at home in each region in turn, until the session ends.
async fn write(processes: &Processes, n: usize, answered: &Answered) -> tokio::task::JoinHandle<()> {
    let (client, answered) = (processes.session(n).await, answered.clone());
    tokio::spawn(async move {
        for id in 0.. {
            let region = REGIONS[id % 3];
            let insert = format!("INSERT INTO written VALUES ('{region}', {n}, {id})");
            match client.batch_execute(&insert).await {
                Ok(()) => _ = answered.lock().unwrap().insert(format!("{region}|{n}|{id}")),
                Err(_) if client.is_closed() => return,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
}

async fn check_written(processes: &Processes, nodes: &[usize], answered: &Answered) {
    for n in nodes {
        let client = processes.session(*n).await;
        let there = rows(&client, "SELECT region, client, id FROM written").await.unwrap();
        let there: BTreeSet<String> = there.into_iter().collect();
        let answered = answered.lock().unwrap();
        let lost: Vec<&String> = answered.difference(&there).collect();
        assert!(answered.len() >= 60 && lost.is_empty(), "node {n} of {}: {lost:?}", answered.len());
    }
}

async fn made(processes: &mut Processes) {
    (0..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    let us = processes.session(0).await;
    for statement in TABLES.split(';') {
        run_in_the_end(&us, statement).await;
    }
    run_in_the_end(
        &us,
        "CREATE TABLE written (region text, client int, id int, PRIMARY KEY (region, client, id)) \
         WITH (home_by = 'region')",
    )
    .await;
    run_in_the_end(&us, "CREATE TABLE theirs (id int PRIMARY KEY, v int) WITH (home = 'asia')").await;
    run_in_the_end(&us, "INSERT INTO theirs VALUES (1, 1)").await;
}

/// What names the region that has left, where it is now, and what cannot go there any more.
async fn check_sql(client: &tokio_postgres::Client) {
    assert_eq!(rows(client, "SELECT name FROM meridian.regions ORDER BY name").await.unwrap(), ["eu", "us"]);
    assert_eq!(value(client, "SELECT home FROM meridian.tables WHERE table_name = 'theirs'").await, "us");
    let refused = failure(client, "CREATE TABLE nowhere (id int PRIMARY KEY) WITH (home = 'asia')").await;
    assert_eq!(refused, ("22023".into(), "region \"asia\" has left the cluster".into()));
    let (state, _) = failure(client, "ALTER TABLE spread SET (home = 'asia')").await;
    assert_eq!(state, "22023");
    for update in
        ["UPDATE t SET v = v WHERE region = 'asia' AND id = 1", "UPDATE theirs SET v = v WHERE id = 1"]
    {
        let plan = rows(client, &format!("EXPLAIN {update}")).await.unwrap().join("\n");
        assert!(plan.contains("Regions: us") && !plan.contains("Regions: asia"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_leaves_and_what_was_answered_is_with_the_others() {
    let mut processes = Processes::init("remove");
    made(&mut processes).await;
    let told = refused(&processes, "mars", &[]);
    assert!(told.contains("mars is no region of this cluster; those are us, eu, asia"), "{told}");
    let told = refused(&processes, "asia", &["--homes-to", "asia"]);
    assert!(told.contains("that is the region that leaves"), "{told}");
    let told = refused(&processes, "asia", &["--survive", "2"]);
    assert!(told.contains("meridian cluster change --survive 1"), "{told}");

    let answered = Answered::default();
    let mut writers = Vec::new();
    for n in 0..3 {
        writers.push(write(&processes, n, &answered).await);
    }
    let begin = Instant::now();
    while answered.lock().unwrap().len() < 60 {
        assert!(begin.elapsed() < PATIENCE, "clients are answered");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (removed, told) = remove(&processes, "asia", &[]);
    assert!(removed && told.contains("Region us will have what asia has"), "{told}");
    assert!(!told.contains("asia.toml"), "it is not to be started: {told}");
    for writer in writers {
        writer.await.unwrap();
    }
    (0..3).for_each(|n| ends(&mut processes, n));
    let asia = processes.refused(2, &[]);
    assert!(asia.contains("region asia has left the cluster, so its node does not start"), "{asia}");
    let before = said(&meridian(&["start", "--config", &format!("{}.before", processes.config(2))]));
    assert!(before.contains("region asia has left the cluster with it"), "{before}");

    // A node is killed while it becomes one of the smaller cluster.
    for pause_ms in [20, 120, 300] {
        processes.start(0);
        std::thread::sleep(Duration::from_millis(pause_ms));
        processes.kill(0);
    }
    (0..2).for_each(|n| processes.start(n));
    (0..2).for_each(|n| processes.wait_ready(n));
    let status = said(&meridian(&["cluster", "status", "--config", &processes.config(1)]));
    assert!(status.matches("round trip").count() == 2 && !status.contains("asia"), "{status}");
    check_written(&processes, &[0, 1], &answered).await;
    for n in 0..2 {
        let client = processes.session(n).await;
        check_sql(&client).await;
        run_in_the_end(&client, "UPDATE t SET v = v + 1").await;
        run_in_the_end(&client, &format!("INSERT INTO t VALUES ('asia', {}, 0)", n + 10)).await;
        run_in_the_end(&client, "UPDATE theirs SET v = v + 1").await;
        run_in_the_end(
            &client,
            &format!("INSERT INTO counted (node) SELECT '{n}' FROM generate_series(1, 250)"),
        )
        .await;
    }
    let told = refused(&processes, "asia", &[]);
    assert!(told.contains("region asia has left the cluster already, and us has what it had"), "{told}");
    let (joined, told) = join(&processes, "asia", &[]);
    assert!(!joined && told.contains("join under another one"), "{told}");

    // With two regions and K = 1 both are needed: one that was killed comes back, and then both together.
    processes.kill(1);
    processes.start(1);
    processes.wait_ready(1);
    let eu = processes.session(1).await;
    run_in_the_end(&eu, "UPDATE t SET v = v + 1 WHERE region = 'asia' AND id = 1").await;
    run_in_the_end(&eu, "ALTER TABLE theirs SET (home = 'eu')").await;
    (0..2).for_each(|n| processes.kill(n));
    (0..2).for_each(|n| processes.start(n));
    (0..2).for_each(|n| processes.wait_ready(n));
    check_written(&processes, &[0, 1], &answered).await;
    for n in 0..2 {
        let client = processes.session(n).await;
        // 60 at first, and added: 3 + 4, and 1.
        assert_eq!(value(&client, "SELECT sum(v) FROM t").await, "68", "node {n}");
        assert_eq!(value(&client, "SELECT v FROM theirs").await, "3", "node {n}");
        assert_eq!(value(&client, "SELECT count(*) FROM counted").await, "500", "node {n}");
        assert_eq!(value(&client, "SELECT count(*) FROM spread WHERE v > 0").await, "200", "node {n}");
    }
}

/// One region after the other leaves until one is left, where nothing is kept elsewhere, and then another one joins.
#[tokio::test(flavor = "multi_thread")]
async fn one_region_is_left_and_another_one_joins() {
    let mut processes = Processes::init("remove-two");
    made(&mut processes).await;
    let count = |n: usize, rows: u32| {
        format!("INSERT INTO counted (node) SELECT '{n}' FROM generate_series(1, {rows})")
    };
    run_in_the_end(&processes.session(2).await, &count(2, 2000)).await;
    let (removed, told) = remove(&processes, "asia", &["--homes-to", "eu"]);
    assert!(removed, "{told}");
    start_again(&mut processes, 3, 2);
    let told = refused(&processes, "eu", &[]);
    assert!(told.contains("meridian cluster change --survive 0"), "{told}");
    let (removed, told) = remove(&processes, "eu", &["--survive", "0"]);
    assert!(removed && told.contains("Region us will have what eu has"), "{told}");
    (0..2).for_each(|n| ends(&mut processes, n));
    processes.start(0);
    processes.wait_ready(0);
    let us = processes.session(0).await;
    assert_eq!(value(&us, "SELECT sum(v) FROM t").await, "60");
    assert_eq!(value(&us, "SELECT home FROM meridian.tables WHERE table_name = 'theirs'").await, "us");
    run_in_the_end(&us, "UPDATE t SET v = v + 1").await;
    let told = refused(&processes, "us", &[]);
    assert!(told.contains("us is the only region that is left"), "{told}");

    let (joined, told) = join(&processes, "ap", &["--survive", "1"]);
    assert!(joined, "{told}");
    ends(&mut processes, 0);
    for n in [0, 3] {
        processes.start(n);
    }
    for n in [0, 3] {
        processes.wait_ready(n);
    }
    let ap = processes.session(3).await;
    run_in_the_end(&ap, "INSERT INTO t VALUES ('ap', 1, 1)").await;
    run_in_the_end(&ap, "UPDATE t SET v = v + 1").await;
    assert_eq!(value(&ap, "SELECT sum(v) FROM t").await, "68");
    assert_eq!(rows(&ap, "SELECT name FROM meridian.regions ORDER BY name").await.unwrap(), ["ap", "us"]);
    // Values that only the region handed out that left first are not handed out again.
    for n in [0, 3] {
        run(&processes.session(n).await, &count(n, 1000)).await;
    }
    assert_eq!(value(&ap, "SELECT count(DISTINCT id) FROM counted").await, "4000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_whose_directory_is_lost_leaves_with_another_one() {
    let mut processes = Processes::init("remove-lost");
    made(&mut processes).await;
    processes.kill(2);
    std::fs::remove_dir_all(processes.data(2)).unwrap();
    let told = refused(&processes, "asia", &[]);
    assert!(told.contains("node asia at") && told.contains("meridian cluster replace"), "{told}");
    let told = refused(&processes, "eu", &[]);
    assert!(told.contains("node asia at") && !told.contains("meridian cluster replace"), "{told}");
    let replaced = meridian(&["cluster", "replace", "--config", &processes.config(2)]);
    assert!(replaced.status.success(), "{}", said(&replaced));
    processes.start(2);
    processes.wait_ready(2);
    let (removed, told) = remove(&processes, "asia", &[]);
    assert!(removed, "{told}");
    (0..3).for_each(|n| ends(&mut processes, n));
    let replaced = meridian(&["cluster", "replace", "--config", &processes.config(2)]);
    assert!(said(&replaced).contains("region asia has left the cluster"), "{}", said(&replaced));
    (0..2).for_each(|n| processes.start(n));
    (0..2).for_each(|n| processes.wait_ready(n));
    let eu = processes.session(1).await;
    run_in_the_end(&eu, "UPDATE t SET v = v + 1").await;
    assert_eq!(value(&eu, "SELECT sum(v) FROM t").await, "63");
    assert_eq!(value(&eu, "SELECT v FROM theirs").await, "1");
}

/// What the region ordered is nowhere else until it leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_region_leaves_where_nothing_is_kept_elsewhere() {
    let mut processes = Processes::init_with("remove-0", &["--nodes", "us,eu,asia", "--survive", "0"]);
    made(&mut processes).await;
    processes.kill(2);
    let told = refused(&processes, "asia", &[]);
    assert!(told.contains("what it ordered last is nowhere else"), "{told}");
    processes.start(2);
    processes.wait_ready(2);
    let asia = processes.session(2).await;
    run_in_the_end(&asia, "UPDATE t SET v = v + 1 WHERE region = 'asia'").await;
    let (removed, told) = remove(&processes, "asia", &[]);
    assert!(removed, "{told}");
    (0..3).for_each(|n| ends(&mut processes, n));
    // The change is given up: as before, and then it is made.
    processes.give_the_change_up(3);
    let asia = processes.session(2).await;
    assert_eq!(value(&asia, "SELECT v FROM t WHERE region = 'asia'").await, "31");
    let (removed, told) = remove(&processes, "asia", &[]);
    assert!(removed, "{told}");
    (0..3).for_each(|n| ends(&mut processes, n));
    (0..2).for_each(|n| processes.start(n));
    (0..2).for_each(|n| processes.wait_ready(n));
    let eu = processes.session(1).await;
    run_in_the_end(&eu, "UPDATE t SET v = v + 1").await;
    (0..2).for_each(|n| processes.kill(n));
    (0..2).for_each(|n| processes.start(n));
    (0..2).for_each(|n| processes.wait_ready(n));
    for n in 0..2 {
        let client = processes.session(n).await;
        run_in_the_end(&client, "UPDATE t SET v = v + 1 WHERE region = 'asia'").await;
        assert_eq!(value(&client, "SELECT sum(v) FROM t").await, (65 + n).to_string(), "node {n}");
        run_in_the_end(&client, "UPDATE theirs SET v = v + 1").await;
    }
}
