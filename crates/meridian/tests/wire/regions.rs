//! Which regions a database has.

use crate::clocks::{Demo, until};
use crate::server::*;
use std::process::Command;
use tokio_postgres::Client;

#[tokio::test(flavor = "multi_thread")]
async fn one_region_alone_is_a_whole_database() {
    let server = Server::start_with(&["--regions", "eu"], 1);
    let client = server.session(0).await;
    run(&client, "CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    run(&client, "INSERT INTO t VALUES (1, 'a'), (2, 'b')").await;
    run(&client, "UPDATE t SET v = 'c' WHERE id = 2").await;
    assert_eq!(rows(&client, "SELECT v FROM t WHERE id = 2").await.unwrap(), ["c"]);
    assert_eq!(rows(&client, "SELECT count(*), max(v) FROM t").await.unwrap(), ["2|c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_over_columns_of_several_regions_names_its_readers() {
    for server in Server::with_each_engine(&["--columns", "own"]) {
        names_its_readers(server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_survives_a_region_is_explained_with_the_trip_that_this_costs() {
    let server = Server::start_with(&["--survive", "1"], 3);
    let client = server.session(0).await;
    run(&client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    let explained = rows(&client, "EXPLAIN UPDATE t SET v = 1 WHERE id = 1").await.unwrap();
    let costs = explained.last().expect("what it costs comes last");
    assert!(costs.starts_with("  WAN round trips: 1 (round trip "), "{explained:#?}");
    assert!(costs.ends_with(", until 1 more region has it)"), "{explained:#?}");
    let explained = rows(&client, "EXPLAIN SELECT v FROM t WHERE id = 1").await.unwrap();
    assert_eq!(explained.last().map(String::as_str), Some("  WAN round trips: 0"), "{explained:#?}");
}

async fn names_its_readers(server: Server) {
    let client = server.session(0).await;
    run(&client, "CREATE TABLE t (id int PRIMARY KEY, v int) WITH (home_by = 'id', home_map = 'hash')").await;
    run(&client, "INSERT INTO t SELECT n, n % 7 FROM generate_series(1, 3000) AS g(n)").await;
    for region in 0..3 {
        let client = server.session(region).await;
        for level in ["rss", "regular", "session"] {
            run(&client, &format!("SET meridian.consistency = '{level}'")).await;
            let sum = value(&client, "SELECT count(*) || ' ' || sum(v) FROM t").await;
            // A session that has seen nothing is promised nothing at its own level.
            assert!(sum == "3000 8998" || level == "session", "{level}: {sum}");
        }
        run(&client, "SET meridian.consistency = 'rss'").await;
        let explained = rows(&client, "EXPLAIN ANALYZE SELECT sum(v) FROM t WHERE v > 3").await.unwrap();
        let readers = explained.iter().filter(|line| line.starts_with("Reader n")).count();
        assert_eq!(readers, 3, "{explained:#?}");
        assert!(value(&client, "SHOW meridian.freshness").await.ends_with("other_readers=2"));
    }
}

#[test]
fn a_region_that_is_not_there_is_refused_by_name() {
    let started = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["start", "--port", "0", "--wan", "local", "--regions", "us,mars"])
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(!started.status.success());
    assert!(
        said.contains("--regions us,mars") && said.contains("\"mars\"") && said.contains("asia"),
        "{said}"
    );
}

/// The demo's terminals come in over the wire, move to another region when theirs is lost, and compare at the
/// end what they were told with what is there.
#[test]
fn what_was_answered_survives_a_lost_region() {
    survives_a_lost_region("caerus", "kill");
}

/// The same with an engine that removes the region and lets it in again, with its memory and without.
#[test]
fn what_was_answered_survives_the_removal_of_a_region() {
    for deed in ["kill", "lose"] {
        let longest_s = survives_a_lost_region("geogauss", deed);
        // Half a second until it is taken for lost; the rest is what two cores take that run other tests.
        assert!(longest_s < 3.0, "no region commits for {longest_s} s after {deed}");
    }
}

/// Answers the longest time without a commit of any region's terminals after the loss, in s.
fn survives_a_lost_region(engine: &str, deed: &str) -> f64 {
    let name = format!("meridian-lost-region-{engine}-{deed}-{}.json", std::process::id());
    let report = std::env::temp_dir().join(name);
    let demo = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["demo", "--plain", "--port", "0", "--shrink", "300", "--wan", "local"])
        .args(["--engine", engine, "--survive", "1", "--terminals", "8", "--rate", "60"])
        .args(["--duration", "9s", "--at", &format!("2s {deed} eu"), "--at", "6s heal eu", "--json"])
        .arg(&report)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&demo.stdout).into_owned();
    assert!(demo.status.success(), "{said}{}", String::from_utf8_lossy(&demo.stderr));
    let text = std::fs::read_to_string(&report).expect("it wrote its report");
    std::fs::remove_file(&report).expect("it is ours");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let audit = &report["audit"];
    assert_eq!((&audit["lost"], &audit["invented"]), (&0.into(), &0.into()), "{audit}");
    assert!(audit["answered"].as_u64() > Some(50), "{audit}");
    let faults: Vec<&str> =
        report["faults"].as_array().into_iter().flatten().filter_map(|f| f["what"].as_str()).collect();
    assert_eq!(faults, [&format!("{deed} eu"), "heal eu"]);
    let eu = &report["regions"].as_array().expect("regions")[1];
    assert!(eu["lost_connections"].as_u64() > Some(0), "its terminals had to move: {eu}");
    let pauses = report["faults"][0]["without_service_s"].as_object().expect("by region");
    pauses.values().filter_map(serde_json::Value::as_f64).fold(0.0, f64::max)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_region_is_shown_and_comes_back() {
    let mut demo = Demo::start(&["--engine", "geogauss", "--survive", "1"]);
    let (us, asia) = (demo.session(0).await, demo.session(2).await);
    let state_of_eu = "SELECT state FROM meridian.regions WHERE name = 'eu'";
    assert_eq!(value(&us, state_of_eu).await, "up");
    run(&us, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    run(&us, "INSERT INTO t VALUES (1, 0)").await;
    let sum = "SELECT v FROM t WHERE id = 1";
    for (n, deed) in (1..).zip(["kill eu", "lose eu"]) {
        demo.type_in(deed);
        for client in [&us, &asia] {
            until("it is removed", client, state_of_eu, |answer| {
                answer.as_ref().is_ok_and(|states| states == &["removed"])
            })
            .await;
        }
        run(&asia, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        assert_eq!(value(&us, sum).await, n.to_string());
        demo.type_in("heal eu");
        until("it is let in", &us, state_of_eu, |answer| {
            answer.as_ref().is_ok_and(|states| states == &["up"])
        })
        .await;
        let eu = demo.session_soon(1).await;
        until("it serves", &eu, sum, |answer| match answer {
            Ok(values) => values == &[n.to_string()],
            Err(error) => {
                assert_eq!(state(error), "57P03", "{error:?}");
                false
            }
        })
        .await;
    }
}

/// Waits until `SHOW SURVIVAL` tells of both guarantees which regions are not up, and of each how many more may be lost.
async fn until_survival(client: &Client, not_up: &str, more: [&str; 2]) {
    let wanted = more.map(|more| vec![not_up.to_string(), more.to_string()]);
    until("what may be lost", client, "SHOW SURVIVAL", |answer| {
        let cells = |row: &String| row.split('|').skip(5).take(2).map(str::to_string).collect::<Vec<_>>();
        answer.as_ref().is_ok_and(|told| told.iter().map(cells).eq(wanted.iter().cloned()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_many_more_regions_may_be_lost_is_told() {
    for (engine, state, kept) in [("caerus", "taken over", "0"), ("geogauss", "removed", "1")] {
        let mut demo = Demo::start(&["--engine", engine, "--survive", "1"]);
        let us = demo.session(0).await;
        until_survival(&us, "", ["1", "1"]).await;
        let told = rows(&us, "SHOW SURVIVAL").await.unwrap();
        let begin = format!("answered transactions are kept|{engine}|1|3|");
        assert!(told.len() == 2 && told[0].starts_with(&begin), "{told:?}");
        demo.type_in("kill eu");
        until_survival(&us, &format!("eu ({state})"), [kept, "0"]).await;
        demo.type_in("heal eu");
        until_survival(&us, "", ["1", "1"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_that_survive_no_loss_tell_what_stops() {
    for (engine, says) in [("perseus", "wait until it is back"), ("caerus", "every DDL statement")] {
        let server = Server::start_with(&["--engine", engine], 3);
        let client = server.session(0).await;
        let told = rows(&client, "SHOW SURVIVAL").await.unwrap();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.iter().all(|row| row.contains(&format!("|{engine}|0|3|"))), "{told:?}");
        assert!(told[1].starts_with("transactions go on|") && told[1].contains(says), "{told:?}");
        assert!(told.iter().all(|row| row.split('|').nth(6) == Some("0")), "{told:?}");
    }
}

#[test]
fn more_regions_than_a_minority_are_refused_by_name() {
    let started = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["start", "--port", "0", "--wan", "local", "--engine", "geogauss", "--survive", "2"])
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(!started.status.success());
    assert!(said.contains("--survive 2") && said.contains("start 5 regions"), "{said}");
}

/// A typed `lose` is refused with the reason and the demo goes on; an audit that cannot be made, since no region has
/// power at the end, is a failure of the run.
#[test]
fn an_engine_without_copies_loses_no_region_and_an_audit_that_cannot_be_made_fails_the_run() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["demo", "--plain", "--port", "0", "--shrink", "300", "--wan", "local", "--regions", "us,eu"])
        .args(["--engine", "perseus", "--warehouses", "2", "--duration", "3s"])
        .args(["--at", "2s kill us", "--at", "2s kill eu"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command runs");
    use std::io::Write;
    demo.stdin.as_mut().expect("piped").write_all(b"lose eu\n").expect("it reads");
    let ended = demo.wait_with_output().expect("the command ends");
    let (said, failed) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let refused = said.lines().find(|line| line.starts_with("eu cannot lose its memory")).unwrap_or_default();
    assert!(refused.contains("one copy of each partition") && refused.contains("kill eu"), "{said}{failed}");
    assert!(!said.contains("panic") && !failed.contains("panic"), "{said}{failed}");
    assert!(!ended.status.success(), "{said}{failed}");
    assert!(
        failed.contains("audit could not be made") && failed.contains("no region runs"),
        "{said}{failed}"
    );
}

#[test]
fn a_fault_that_cannot_be_is_refused_before_anything_is_loaded() {
    for (more, at, says) in [
        ("--plain", "2s kill mars", "known are us, eu, asia"),
        ("--plain", "2s burn eu", "kill REGION"),
        ("--engine=perseus", "2s lose eu", "one copy of each partition"),
        ("--engine=caerus", "2s lose eu", "(K = 0)"),
        ("--engine=geogauss", "2s lose eu", "--survive 1"),
    ] {
        let demo = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(["demo", more, "--port", "0", "--duration", "1s", "--at", at])
            .output()
            .expect("the command runs");
        let said = String::from_utf8_lossy(&demo.stderr).into_owned();
        assert!(!demo.status.success() && said.contains(says), "{said}");
    }
}
