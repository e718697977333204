//! How statements read: what EXPLAIN says of it, what the levels promise, and what goes on while a region is lost.

use crate::clocks::Demo;
use crate::server::*;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const LEVELS: [&str; 4] = ["rss", "regular", "session", "stale"];

/// The one object of EXPLAIN (…, FORMAT JSON).
async fn explained(client: &Client, options: &str, sql: &str) -> Value {
    let text = value(client, &format!("EXPLAIN ({options}FORMAT JSON) {sql}")).await;
    let parsed: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{sql}: {e}\n{text}"));
    assert_eq!(parsed.as_array().map(Vec::len), Some(1), "{text}");
    parsed[0].clone()
}

/// What EXPLAIN says before is what EXPLAIN ANALYZE measures: the same nodes, as many round trips. Others' load makes a
/// round trip longer now and then, so the quickest of some runs counts; too quick may be none of them.
async fn holds(client: &Client, about: &str, sql: &str) {
    let claim = explained(client, "", sql).await["Plan"].clone();
    let least = claim["WAN Round Trips"].as_f64().unwrap_or_else(|| panic!("{about} {sql}: {claim}"));
    let most = claim["WAN Round Trips At Most"].as_f64().unwrap_or(least);
    let mut quickest = f64::MAX;
    for _ in 0..5 {
        let measured = explained(client, "ANALYZE, ", sql).await;
        let trips = measured["WAN Round Trips"].as_f64().unwrap_or_else(|| panic!("{sql}: {measured}"));
        assert!(trips > least - 0.1, "{about} {sql}: {trips} of at least {least}\n{measured:#}");
        if measured["Transaction"].is_object() {
            assert_eq!(measured["Transaction"]["Regions"], claim["Regions"], "{about} {sql}");
        } else {
            assert_eq!(measured["Nodes Asked"], claim["Nodes Asked"], "{about} {sql}\n{measured:#}");
        }
        quickest = trips.min(quickest);
        if quickest < most + 0.2 {
            return;
        }
    }
    panic!("{about} {sql}: {quickest} round trips, at most {most} were expected");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_before_what_analyze_measures() {
    for engine in ["caerus", "perseus"] {
        let server = Server::start_on("perseus3", &["--engine", engine], 3);
        let client = server.session(0).await;
        run(&client, "CREATE TABLE near (id int PRIMARY KEY, v int) WITH (home = 'us')").await;
        run(&client, "CREATE TABLE far (id int PRIMARY KEY, v int) WITH (home = 'eu')").await;
        run(&client, "INSERT INTO near VALUES (1, 1), (2, 2)").await;
        run(&client, "INSERT INTO far VALUES (1, 1), (2, 2)").await;
        for level in LEVELS {
            let reader = server.session(0).await;
            run(&reader, &format!("SET meridian.consistency = '{level}'")).await;
            let about = format!("{engine} {level}");
            for sql in [
                "SELECT v FROM near WHERE id = 1",
                "SELECT v FROM far WHERE id = 1",
                "SELECT sum(v) FROM near",
                "SELECT sum(far.v + near.v) FROM far JOIN near ON far.v = near.v",
            ] {
                holds(&reader, &about, sql).await;
            }
            // In a block that may write it is not the session's level that counts.
            run(&reader, "BEGIN").await;
            let block = explained(&reader, "", "SELECT v FROM far WHERE id = 1").await;
            let strong = if level == "regular" { "regular" } else { "rss" };
            assert_eq!(block["Plan"]["Consistency"], strong, "{about}");
            run(&reader, "ROLLBACK; BEGIN READ ONLY").await;
            let block = explained(&reader, "", "SELECT v FROM far WHERE id = 1").await;
            assert_eq!(block["Plan"]["Consistency"], level, "{about}");
            run(&reader, "ROLLBACK").await;
        }
        for sql in ["UPDATE near SET v = v + 1 WHERE id = 1", "UPDATE far SET v = v + 1 WHERE id = 2"] {
            holds(&client, engine, sql).await;
        }
        // What was read long ago is not called fresh.
        run(&client, "BEGIN").await;
        run(&client, "SELECT v FROM near WHERE id = 1").await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        let later = explained(&client, "ANALYZE, ", "SELECT v FROM near WHERE id = 2").await;
        run(&client, "COMMIT").await;
        let staleness_ms = later["Freshness"]["Staleness"].as_f64().expect("it is told");
        assert!(staleness_ms > 50.0, "{later:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_takes_postgresql_s_options() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    run(&client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    let query = "SELECT v, count(*) FROM t GROUP BY v";
    let plan = explained(&client, "", query).await["Plan"].clone();
    assert_eq!(plan["Node Type"], "Query over columns");
    assert!(plan["Plans"][0]["Plans"][0]["Node Type"].is_string(), "operators nest: {plan:#}");
    let measured = explained(&client, "ANALYZE true, VERBOSE, BUFFERS off, ", query).await;
    assert_eq!(measured["Actual Rows"], 0);
    assert!(measured["Execution Time"].as_f64() > Some(0.0), "{measured:#}");
    let brief = explained(&client, "ANALYZE, SUMMARY off, ", query).await;
    assert!(brief.get("Execution Time").is_none(), "{brief:#}");
    let prepared = client.prepare("EXPLAIN (FORMAT JSON) SELECT 1").await.expect("it is prepared");
    assert_eq!(prepared.columns()[0].type_().name(), "json");
    let yaml = value(&client, &format!("EXPLAIN (FORMAT YAML, ANALYZE) {query}")).await;
    assert!(yaml.starts_with("- Plan: \n    Node Type: \"Query over columns\"\n"), "{yaml}");
    assert!(yaml.lines().any(|line| line == "  Actual Rows: 0"), "{yaml}");
    let prepared = client.prepare("EXPLAIN (FORMAT XML) SELECT 1").await.expect("it is prepared");
    assert_eq!(prepared.columns()[0].type_().name(), "xml");
    let xml = value(&client, &format!("EXPLAIN (FORMAT XML, ANALYZE) {query}")).await;
    let begin = "<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Query>\n    <Plan>\n      \
                 <Node-Type>Query over columns</Node-Type>\n";
    assert!(xml.starts_with(begin) && xml.contains("\n    <Actual-Rows>0</Actual-Rows>\n"), "{xml}");
    for (options, code, says) in [
        ("FORMAT csv", "22023", "unrecognized value for EXPLAIN option \"format\": \"csv\""),
        ("NOTHING", "42601", "unrecognized EXPLAIN option \"nothing\""),
        ("ANALYZE 7", "42601", "analyze requires a Boolean value"),
        ("TIMING", "22023", "EXPLAIN option TIMING requires ANALYZE"),
    ] {
        let (state, message) = failure(&client, &format!("EXPLAIN ({options}) SELECT 1")).await;
        assert!(state == code && message.contains(says), "{options}: {state} {message}");
    }
}

/// At levels `session` and `stale` a block once read at an older cut, although it was validated at COMMIT: it aborted 20
/// of 20 times.
///
/// A block reads what others were answered, locks it, and writes: at no level it is told to try again.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_on_hot_rows_commits_at_every_level() {
    for server in Server::with_each_engine(&[]) {
        let (writer, other) = (server.session(0).await, server.session(1).await);
        run(&writer, "CREATE TABLE hot (id int PRIMARY KEY, v int NOT NULL)").await;
        run(&writer, "INSERT INTO hot VALUES (1, 0), (2, 0)").await;
        let mut expected = 0;
        for level in LEVELS {
            let client = server.session(0).await;
            run(&client, &format!("SET meridian.consistency = '{level}'")).await;
            for _ in 0..5 {
                // Just now, elsewhere: what is complete here is older.
                run(&other, "UPDATE hot SET v = v + 1 WHERE id = 1").await;
                run(&client, "BEGIN").await;
                let seen: i64 = value(&client, "SELECT v FROM hot WHERE id = 1").await.parse().unwrap();
                assert_eq!(seen, expected + 1, "{level}");
                run(&client, &format!("UPDATE hot SET v = {seen} + 1 WHERE id = 1")).await;
                run(&client, "COMMIT").await;
                expected += 2;
            }
        }
        // While others write without a pause.
        let writing = tokio::spawn(async move {
            for _ in 0..100 {
                run(&writer, "BEGIN").await;
                run(&writer, "UPDATE hot SET v = v + 1 WHERE id = 2").await;
                run(&writer, "COMMIT").await;
            }
        });
        for level in LEVELS {
            let client = server.session(0).await;
            run(&client, &format!("SET meridian.consistency = '{level}'")).await;
            for _ in 0..5 {
                run(&client, "BEGIN").await;
                run(&client, "SELECT v FROM hot WHERE id = 2 FOR UPDATE").await;
                run(&client, "UPDATE hot SET v = v + 1 WHERE id = 2").await;
                run(&client, "COMMIT").await;
            }
        }
        writing.await.expect("the writer ends");
        assert_eq!(value(&other, "SELECT v FROM hot WHERE id = 2").await, "120");
    }
}

/// A read at level `stale` once waited for what its own session had written, that is for other regions.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_read_waits_for_nobody() {
    for engine in ["caerus", "perseus"] {
        let mut demo = Demo::start(&["--engine", engine]);
        let us = demo.session(0).await;
        run(&us, "CREATE TABLE of_us (id int PRIMARY KEY, v int) WITH (home = 'us')").await;
        run(&us, "INSERT INTO of_us VALUES (1, 0)").await;
        run(&us, "SET meridian.consistency = 'stale'").await;
        let there = "SELECT w_id FROM warehouse WHERE w_id = 2";
        assert_eq!(value(&us, there).await, "2");
        tokio::time::sleep(Duration::from_millis(300)).await;
        demo.type_in("kill eu");
        let killed_at = Instant::now();
        let mut slowest = Duration::ZERO;
        while killed_at.elapsed() < Duration::from_millis(2500) {
            // What the session itself has written just now is not waited for either.
            run(&us, "UPDATE of_us SET v = v + 1 WHERE id = 1").await;
            let begin = Instant::now();
            assert_eq!(value(&us, there).await, "2");
            assert_eq!(value(&us, "SELECT count(*) FROM warehouse").await, "3");
            run(&us, "BEGIN READ ONLY").await;
            assert_eq!(value(&us, there).await, "2");
            assert_eq!(value(&us, "SELECT sum(w_id) FROM warehouse").await, "6");
            run(&us, "COMMIT").await;
            slowest = slowest.max(begin.elapsed());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(slowest < Duration::from_secs(1), "{engine}: {slowest:?}");
        demo.type_in("heal eu");
    }
}
