//! What is known of clocks: a bound, and a node that leaves it; or none.

use crate::server::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

/// A demo whose prompt can be typed at; dropping it ends it.
pub struct Demo {
    process: Child,
    ports: Vec<u16>,
}

impl Demo {
    pub fn start(arguments: &[&str]) -> Demo {
        let mut process = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(["demo", "--plain", "--port", "0", "--shrink", "300", "--wan", "local", "--rate", "20"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut ports = Vec::new();
        // Its first line of figures tells that all is loaded.
        loop {
            let line = lines.next().expect("it goes on").expect("text");
            let mut words = line.split_whitespace().skip_while(|w| *w != "-p");
            if let (Some("-p"), Some(port)) = (words.next(), words.next()) {
                ports.push(port.parse().expect("a port"));
            } else if line.contains("queries") && line.contains("errors") {
                break;
            }
        }
        // What it says is read, or it would wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Demo { process, ports }
    }
    pub fn type_in(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().expect("piped"), "{line}").expect("it listens");
    }
    pub async fn session(&self, region: usize) -> Client {
        let config = format!("host=127.0.0.1 port={} user=tester dbname=meridian", self.ports[region]);
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("it accepts");
        tokio::spawn(connection);
        client
    }
    /// The same where the region may not listen yet.
    pub async fn session_soon(&self, region: usize) -> Client {
        let begin = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.ports[region])).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(60), "region {region} does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.session(region).await
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Asks again until the answer is so.
pub async fn until(
    what: &str,
    client: &Client,
    sql: &str,
    so: impl Fn(&Result<Vec<String>, tokio_postgres::Error>) -> bool,
) {
    let begin = Instant::now();
    loop {
        let answer = rows(client, sql).await;
        if so(&answer) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_whose_clocks_run_off_takes_itself_out_and_comes_back() {
    let mut demo = Demo::start(&["--engine", "caerus", "--clock-bound", "2ms"]);
    let (us, eu) = (demo.session(0).await, demo.session(1).await);
    let count = "SELECT count(*) FROM warehouse";
    assert_eq!(value(&eu, count).await, "3");
    run(&us, "CREATE TABLE of_us (id int PRIMARY KEY, v int)").await;
    run(&us, "INSERT INTO of_us VALUES (1, 0), (2, 0)").await;
    until("it compares clocks", &eu, "SHOW CLOCKS", |answer| {
        answer.as_ref().is_ok_and(|peers| peers.len() == 2)
    })
    .await;
    demo.type_in("skew eu 200");
    until("it is out", &eu, count, |answer| {
        answer.as_ref().is_err_and(|error| {
            let told = error.as_db_error().expect("the server says why");
            assert_eq!(told.code().code(), "57P03", "{told:?}");
            let detail = told.detail().expect("what was measured");
            assert!(detail.contains("within 2.0 ms") && detail.contains("behind"), "{detail}");
            assert!(told.hint().is_some_and(|hint| hint.contains("another node")));
            true
        })
    })
    .await;
    // Others go on with what is theirs; what needs the region is refused, and nobody waits.
    let is_refused = |answer: &Result<Vec<String>, tokio_postgres::Error>| {
        answer.as_ref().is_err_and(|error| {
            let told = error.as_db_error().expect("the server says why");
            assert_eq!(told.code().code(), "57P03", "{told:?}");
            assert!(told.message().contains("region eu is not available"), "{told:?}");
            told.hint().is_some_and(|hint| hint.contains("--survive 1"))
        })
    };
    let out_at = Instant::now();
    until("what it orders is refused", &us, count, is_refused).await;
    for n in 1..=5 {
        run(&us, "UPDATE of_us SET v = v + 1 WHERE id = 1").await;
        assert_eq!(value(&us, "SELECT v FROM of_us WHERE id = 1").await, n.to_string());
        assert_eq!(value(&us, "SELECT sum(v) FROM of_us").await, n.to_string());
    }
    assert!(out_at.elapsed() < Duration::from_secs(20), "{:?}", out_at.elapsed());
    // Unless a transaction in flight holds the row.
    let touched = rows(&us, "UPDATE warehouse SET w_ytd = w_ytd WHERE w_id = 1").await;
    assert!(touched.is_ok() || is_refused(&touched), "{touched:?}");
    for sql in ["UPDATE warehouse SET w_ytd = w_ytd WHERE w_id = 2", "CREATE TABLE none (id int PRIMARY KEY)"]
    {
        assert!(is_refused(&rows(&us, sql).await), "{sql}");
    }
    // A session that has seen nothing later yet.
    let stale = demo.session(0).await;
    run(&stale, "SET meridian.consistency = 'stale'").await;
    assert_eq!(value(&stale, count).await, "3");
    let state = "SELECT state FROM meridian.regions WHERE name = 'eu'";
    assert_eq!((value(&us, state).await, value(&eu, state).await), ("lost".into(), "fenced".into()));
    // Whoever looks sees it.
    let clocks = rows(&eu, "SHOW CLOCKS").await.unwrap();
    assert!(clocks.iter().all(|peer| peer.starts_with("eu|2|") && peer.ends_with("|fenced")), "{clocks:?}");
    demo.type_in("skew eu 0");
    until("it is back", &eu, count, |answer| answer.is_ok()).await;
    run(&eu, "UPDATE warehouse SET w_ytd = w_ytd WHERE w_id = 2").await;
    until("it is heard of", &us, count, |answer| answer.as_ref().is_ok_and(|rows| *rows == ["3"])).await;
    run(&us, "UPDATE warehouse SET w_ytd = w_ytd WHERE w_id = 1").await;
    assert_eq!(value(&us, state).await, "up");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bound_of_clocks_cuts_are_found_by_asking() {
    let server = Server::start_with(&["--engine", "caerus", "--clocks", "unbounded"], 3);
    let sessions = [server.session(0).await, server.session(1).await, server.session(2).await];
    assert_eq!(value(&sessions[0], "SHOW meridian.consistency").await, "regular");
    let (code, said) = failure(&sessions[0], "SET meridian.consistency = 'rss'").await;
    assert!(code == "0A000" && said.contains("no bound"), "{said}");
    run(&sessions[0], "CREATE TABLE t (id int PRIMARY KEY, v int) WITH (home_by = 'id', home_map = 'hash')")
        .await;
    for (n, session) in sessions.iter().enumerate() {
        // Catalogs are read at cuts like rows; whoever is told of a table finds it everywhere.
        run(
            session,
            &format!(
                "INSERT INTO t SELECT g, {n} FROM generate_series({}, {}) AS s(g)",
                100 * n,
                100 * n + 99
            ),
        )
        .await;
        for reader in &sessions {
            // Whatever was answered before is seen, by rows, by columns, in a block.
            assert_eq!(
                value(reader, &format!("SELECT v FROM t WHERE id = {}", 100 * n)).await,
                n.to_string()
            );
            assert_eq!(value(reader, "SELECT count(*) FROM t").await, (100 * (n + 1)).to_string());
        }
    }
    run(
        &sessions[1],
        "BEGIN; UPDATE t SET v = v + 1 WHERE id = 7; UPDATE t SET v = v + 1 WHERE id = 107; COMMIT",
    )
    .await;
    assert_eq!(value(&sessions[2], "SELECT sum(v) FROM t").await, "302");
    let explained = rows(&sessions[2], "EXPLAIN ANALYZE SELECT sum(v) FROM t").await.unwrap();
    let cut = explained.iter().find(|line| line.starts_with("Cut: by calibration"));
    assert!(cut.is_some_and(|line| line.contains("was complete last")), "{explained:#?}");
    assert!(rows(&sessions[2], "SHOW CLOCKS").await.unwrap().is_empty(), "nobody compares clocks");
}

#[test]
fn what_contradicts_itself_about_clocks_is_refused() {
    for (arguments, says) in [
        (&["--engine", "perseus", "--clocks", "unbounded"][..], "engine caerus"),
        (&["--engine", "caerus", "--clocks", "unbounded", "--clock-bound", "5ms"], "contradict"),
        (&["--clock-bound", "much"], "no clock bound"),
    ] {
        let started = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(["start", "--port", "0", "--wan", "local"])
            .args(arguments)
            .output()
            .expect("the command runs");
        let said = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(!started.status.success() && said.contains(says), "{said}");
    }
}
