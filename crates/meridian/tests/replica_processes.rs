//! Read-only replicas in processes of their own, beside the processes of a cluster, while they are killed, stopped and
//! started again.

#[path = "wire/server.rs"]
#[allow(dead_code)]
mod server;

use server::{failure, rows, run, value};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

/// What one waits for comes long before.
const PATIENCE: Duration = Duration::from_secs(120);
const ROWS: usize = 4;

fn meridian(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_meridian")).args(arguments).output().expect("the command runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A directory of a cluster and its processes, by name; gone when the test is.
struct Processes {
    directory: PathBuf,
    children: std::collections::BTreeMap<String, Child>,
}

impl Processes {
    fn init(name: &str, more: &[&str]) -> Processes {
        let directory = std::env::temp_dir().join(format!("meridian-{}-{name}", std::process::id()));
        _ = std::fs::remove_dir_all(&directory);
        let text = directory.to_str().expect("a plain name");
        let made = ["cluster", "init", text, "--port", "0", "--node-port", "0", "--http-port", "0"];
        let made = meridian(&[&made, more].concat());
        assert!(made.status.success(), "{}", said(&made));
        Processes { directory, children: Default::default() }
    }
    fn config(&self, name: &str) -> String {
        self.directory.join(format!("{name}.toml")).display().to_string()
    }
    fn add(&self, name: &str, node: &str) {
        let made = meridian(&["replica", "add", name, "--config", &self.config(node)]);
        assert!(made.status.success(), "{}", said(&made));
    }
    fn setting(&self, name: &str, key: &str) -> String {
        let text = std::fs::read_to_string(self.config(name)).expect("it was made");
        let mut found = text.lines().filter_map(|line| line.strip_prefix(&format!("{key} = ")));
        found.next().expect("it is there").trim_matches('"').to_string()
    }
    /// Gives a setting another value, or its first one.
    fn set(&self, name: &str, key: &str, value: &str) {
        let text = std::fs::read_to_string(self.config(name)).expect("it was made");
        let others = text.lines().filter(|line| !line.starts_with(&format!("{key} = ")));
        let lines: Vec<&str> = others.collect();
        let text = format!("{key} = \"{value}\"\n{}\n", lines.join("\n"));
        std::fs::write(self.config(name), text).expect("it can be written");
    }
    fn start(&mut self, name: &str) {
        let started = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(["start", "--config", &self.config(name)])
            .stdout(Stdio::null())
            .spawn();
        self.children.insert(name.into(), started.expect("the command starts"));
    }
    /// Without warning.
    fn kill(&mut self, name: &str) {
        let mut child = self.children.remove(name).expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    fn signal(&self, name: &str, signal: &str) {
        let process = self.children[name].id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
    }
    async fn wait_ready(&self, name: &str) {
        let begin = Instant::now();
        loop {
            let answer = self.probe(name).await;
            if answer.starts_with("HTTP/1.1 200") {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{name}: {answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    async fn probe(&self, name: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut answer = String::new();
        if let Ok(mut stream) = tokio::net::TcpStream::connect(self.setting(name, "http")).await {
            _ = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
            _ = stream.read_to_string(&mut answer).await;
        }
        answer
    }
    fn way(&self, name: &str) -> String {
        format!("host=127.0.0.1 port={} user=root dbname=meridian", self.setting(name, "port"))
    }
    async fn session(&self, name: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.way(name), NoTls).await.expect("it accepts");
        tokio::spawn(connection);
        client
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.children.values_mut() {
            _ = child.kill();
            _ = child.wait();
        }
        _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Asks again until this is the answer.
async fn until(client: &Client, sql: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let found = value(client, sql).await;
        if found == wanted {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{sql}: {found}, not {wanted}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn connect(way: &str) -> Client {
    loop {
        if let Ok((client, connection)) = tokio_postgres::connect(way, NoTls).await {
            tokio::spawn(connection);
            return client;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What writers were answered, for readers to hold what they see against.
#[derive(Default)]
struct Known {
    answered: [AtomicI64; ROWS],
    is_over: AtomicBool,
    reads: AtomicU64,
    unanswered: AtomicU64,
}

/// Counts a row up. A write that is not answered may have been done: its row is read, and counting goes on from there.
async fn write(known: Arc<Known>, way: String, id: usize) {
    let mut client = connect(&way).await;
    while !known.is_over.load(Ordering::SeqCst) {
        let next = known.answered[id].load(Ordering::SeqCst) + 1;
        match client.batch_execute(&format!("UPDATE t SET v = {next} WHERE id = {id}")).await {
            Ok(()) => known.answered[id].store(next, Ordering::SeqCst),
            Err(_) => {
                if client.is_closed() {
                    client = connect(&way).await;
                }
                let sql = format!("SELECT v FROM t WHERE id = {id}");
                if let Ok(row) = client.query_one(&sql, &[]).await {
                    let seen = i64::from(row.get::<_, i32>(0));
                    let before = known.answered[id].load(Ordering::SeqCst);
                    assert!(
                        seen == before || seen == next,
                        "row {id} is {seen} at the writer, after {before}"
                    );
                    known.answered[id].store(seen, Ordering::SeqCst);
                }
            }
        }
    }
}

/// Reads rows, at whichever process it is sent to; one that is not answered says nothing.
async fn read(known: Arc<Known>, way: String, first: usize) {
    let mut client = connect(&way).await;
    let mut id = first;
    while !known.is_over.load(Ordering::SeqCst) {
        id = (id + 1) % 2;
        let answered = known.answered[id].load(Ordering::SeqCst);
        // By the primary key, and as a column of a range over both rows.
        let sql = match first % 2 {
            0 => format!("SELECT v FROM t WHERE id = {id}"),
            _ => format!("SELECT v FROM t WHERE id >= {id} ORDER BY id LIMIT 1"),
        };
        let read = tokio::time::timeout(Duration::from_secs(15), client.query_one(&sql, &[])).await;
        match read {
            Ok(Ok(row)) => {
                let seen = i64::from(row.get::<_, i32>(0));
                assert!(seen >= answered, "{way}: row {id} shows {seen} after {answered} was answered");
                known.reads.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Err(_)) | Err(_) => {
                known.unanswered.fetch_add(1, Ordering::SeqCst);
                if client.is_closed() || read.is_err() {
                    let connected = tokio::time::timeout(Duration::from_millis(300), connect(&way)).await;
                    client = connected.unwrap_or(client);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_strong_read_is_stale_while_replicas_and_their_writer_are_killed_stopped_and_started_again() {
    let mut processes = Processes::init("replicas", &["--nodes", "us", "--survive", "0"]);
    // What strong reads wait for, r1 looks up in memory that it shares with the node, and takes the log from there; r2 asks.
    let ring = processes.directory.join("ring");
    processes.set("us", "log-ring", &ring.display().to_string());
    processes.start("us");
    processes.wait_ready("us").await;
    let root = processes.session("us").await;
    run(&root, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    for id in 0..ROWS {
        run(&root, &format!("INSERT INTO t VALUES ({id}, 0)")).await;
    }
    // They come while the cluster runs.
    for name in ["r1", "r2"] {
        processes.add(name, "us");
        if name == "r2" {
            processes.set(name, "log-ring", &ring.join("none").display().to_string());
        }
        processes.start(name);
    }
    for name in ["r1", "r2"] {
        processes.wait_ready(name).await;
    }
    until(&root, "SELECT count(*) FROM meridian.replicas WHERE state = 'serving'", "2").await;
    looks_up(&processes.session("r1").await).await;
    let known = Arc::new(Known::default());
    let mut tasks = tokio::task::JoinSet::new();
    for id in 0..2 {
        tasks.spawn(write(known.clone(), processes.way("us"), id));
    }
    for (reader, name) in ["us", "us", "r1", "r1", "r2", "r2"].into_iter().enumerate() {
        tasks.spawn(read(known.clone(), processes.way(name), reader));
    }
    let moment = || tokio::time::sleep(Duration::from_millis(700));
    let writes = || known.answered[0].load(Ordering::SeqCst) + known.answered[1].load(Ordering::SeqCst);
    moment().await;
    let before = writes();
    processes.kill("r1");
    processes.signal("r2", "-STOP");
    moment().await;
    moment().await;
    assert!(writes() > before, "no replica answers, and writers go on");
    processes.start("r1");
    processes.signal("r2", "-CONT");
    processes.wait_ready("r1").await;
    moment().await;
    // Positions in the log of the writer's next life are others.
    for _ in 0..2 {
        processes.kill("us");
        moment().await;
        processes.start("us");
        processes.wait_ready("us").await;
        moment().await;
    }
    processes.signal("r1", "-STOP");
    processes.kill("us");
    processes.start("us");
    processes.wait_ready("us").await;
    moment().await;
    processes.signal("r1", "-CONT");
    moment().await;
    known.is_over.store(true, Ordering::SeqCst);
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let (read, unanswered) = (known.reads.load(Ordering::SeqCst), known.unanswered.load(Ordering::SeqCst));
    println!("{} writes, {read} reads, {unanswered} reads not answered", writes());
    assert!(writes() > 20 && read > 100, "{} writes, {read} reads", writes());
    // Both serve again, at the endpoint of the region's node too.
    let root = processes.session("us").await;
    until(&root, "SELECT count(*) FROM meridian.replicas WHERE state = 'serving'", "2").await;
    let begin = Instant::now();
    while value(&root, "SELECT count(*) FROM meridian.replicas WHERE reads > 2").await != "2" {
        value(&root, "SELECT v FROM t WHERE id = 1").await;
        assert!(begin.elapsed() < PATIENCE);
    }
    // The node's last life publishes in the same files.
    looks_up(&processes.session("r1").await).await;
    let r2 = processes.session("r2").await;
    value(&r2, "SELECT v FROM t WHERE id = 1").await;
    let asked = "SELECT transport FROM meridian.replicas WHERE fetches_loaded = 0";
    assert_eq!(value(&r2, asked).await, "messages");
    // The log comes to each in the same way as cuts.
    let begin = Instant::now();
    loop {
        let status = said(&meridian(&["replica", "status", "--config", &processes.config("us")]));
        if status.contains("log by log ring") {
            assert!(status.contains("cuts by messages, log by messages"), "{status}");
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let root = processes.session("us").await;
    let at_r1 = processes.session("r1").await;
    for v in 1_000_000..1_000_050 {
        root.batch_execute(&format!("UPDATE t SET v = {v} WHERE id = 1")).await.expect("it is written");
        assert_eq!(value(&at_r1, "SELECT v FROM t WHERE id = 1").await, v.to_string());
    }
}

/// Reads at a replica until it has looked a cut up in the log ring, and says so.
async fn looks_up(replica: &Client) {
    let begin = Instant::now();
    while !read_at(replica).await.contains("(from the log ring)") {
        assert!(begin.elapsed() < PATIENCE, "it asks");
    }
    assert_eq!(value(replica, "SELECT fetches_loaded > 0 FROM meridian.replicas").await, "t");
}

/// The line of EXPLAIN ANALYZE that says who answered.
async fn read_at(client: &Client) -> String {
    let explained = rows(client, "EXPLAIN ANALYZE SELECT v FROM t WHERE id = 1").await.unwrap();
    let told = explained.iter().rev().find(|line| line.trim_start().starts_with("Read at: "));
    told.unwrap_or_else(|| panic!("{explained:#?}")).trim().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_s_process_serves_reads_refuses_writes_and_ends_when_it_is_told() {
    let mut processes = Processes::init("replica", &["--nodes", "us,eu", "--survive", "0"]);
    ["us", "eu"].iter().for_each(|name| processes.start(name));
    for name in ["us", "eu"] {
        processes.wait_ready(name).await;
    }
    let us = processes.session("us").await;
    run(&us, "CREATE TABLE t (id int PRIMARY KEY, v int, name text); CREATE SEQUENCE s").await;
    run(&us, "CREATE INDEX t_name ON t (name); INSERT INTO t SELECT n, n, 'n' || n FROM generate_series(1, 100) g(n)").await;
    assert_eq!(value(&us, "SELECT count(*) FROM meridian.replicas").await, "0");
    let explained = rows(&us, "EXPLAIN ANALYZE SELECT v FROM t WHERE id = 1").await.unwrap();
    assert!(explained.iter().all(|line| !line.contains("Read at")), "{explained:#?}");
    processes.add("r1", "us");
    let again = meridian(&["replica", "add", "r1", "--config", &processes.config("us")]);
    assert!(!again.status.success() && said(&again).contains("not overwritten"), "{}", said(&again));
    processes.start("r1");
    processes.wait_ready("r1").await;
    until(&us, "SELECT name || state FROM meridian.replicas", "r1serving").await;
    let told = read_at(&us).await;
    assert!(
        told.starts_with("Read at: replica r1, n") && told.contains("(policy scc): cut after "),
        "{told}"
    );

    // At the replica itself: rows, an index, columns, a block; at least what was answered anywhere before.
    let r1 = processes.session("r1").await;
    for n in 1..=20 {
        run(&us, &format!("UPDATE t SET v = -{n}, name = 'm{n}' WHERE id = 1")).await;
        assert_eq!(value(&r1, "SELECT v FROM t WHERE id = 1").await, format!("-{n}"));
        assert_eq!(value(&r1, &format!("SELECT id FROM t WHERE name = 'm{n}'")).await, "1");
        assert_eq!(value(&r1, "SELECT sum(v) FROM t WHERE id <= 1").await, format!("-{n}"));
    }
    assert_eq!(value(&r1, "SELECT count(*) FROM t").await, "100");
    let told = read_at(&r1).await;
    assert!(told.starts_with("Read at: replica r1, n"), "{told}");
    run(&r1, "BEGIN").await;
    assert_eq!(value(&r1, "SELECT v FROM t WHERE id = 1").await, "-20");
    run(&us, "UPDATE t SET v = 7 WHERE id = 1").await;
    assert_eq!(value(&r1, "SELECT v FROM t WHERE id = 1").await, "-20", "a block reads at one cut");
    run(&r1, "COMMIT").await;
    assert_eq!(value(&r1, "SELECT v FROM t WHERE id = 1").await, "7");
    run(&r1, "SET meridian.read_policy = 'primary'").await;
    assert_eq!(value(&r1, "SELECT v FROM t WHERE id = 1").await, "7");
    // A token of another process holds here, under the policy that waits for nothing else.
    run(&r1, "SET meridian.read_policy = 'session'").await;
    for n in 1..=20 {
        run(&us, &format!("UPDATE t SET v = {n} WHERE id = 2")).await;
        let token = value(&us, "SHOW meridian.token").await;
        match n % 2 {
            0 => run(&r1, &format!("SET meridian.token = '{token}'")).await,
            _ => assert_eq!(
                value(&r1, &format!("WAIT FOR LSN '{token}' WITH (TIMEOUT '60s')")).await,
                "success"
            ),
        }
        assert_eq!(value(&r1, "SELECT v FROM t WHERE id = 2").await, n.to_string());
    }
    run(&r1, "RESET meridian.read_policy").await;
    let token = value(&us, "SHOW meridian.token").await;
    let (incarnation, rank) = token.split_once('/').expect("a cluster of processes has a name");
    let rank: u64 = rank.split(',').next().unwrap().parse().unwrap();
    let wait = |ns: u64, with: &str| format!("WAIT FOR LSN '{incarnation}/{}' {with}", rank + ns);
    let later = 3600 * 1_000_000_000;
    assert_eq!(failure(&r1, &wait(later, "")).await.0, "22023", "a token from the future");
    assert_eq!(
        failure(&r1, &format!("WAIT FOR LSN '7/{rank}'")).await.0,
        "22023",
        "a token of another cluster"
    );
    assert_eq!(failure(&r1, "BEGIN; WAIT FOR LSN '1'").await.0, "25001");
    run(&r1, "ROLLBACK").await;

    let refused = [
        "INSERT INTO t VALUES (1000, 1, 'x')",
        "UPDATE t SET v = 1",
        "DELETE FROM t WHERE id = 1",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "TRUNCATE t",
        "SELECT v FROM t WHERE id = 1 FOR UPDATE",
        "SELECT nextval('s')",
        "SELECT setval('s', 5)",
        "CREATE ROLE somebody",
        "BEGIN READ WRITE",
    ];
    for sql in refused {
        let error = r1.batch_execute(sql).await.expect_err(sql);
        let error = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}"));
        assert_eq!(error.code().code(), "25006", "{sql}: {error}");
        let hint = error.hint().unwrap_or_default();
        assert!(
            hint.starts_with("r1 is a read-only replica; writes go to node us, at 127.0.0.1:"),
            "{sql}: {hint}"
        );
        _ = r1.batch_execute("ROLLBACK").await;
    }
    run(&r1, "SET default_transaction_read_only = off").await;
    assert_eq!(failure(&r1, "UPDATE t SET v = 1").await.0, "25006");
    assert_eq!(value(&r1, "SHOW transaction_read_only").await, "on");
    assert_eq!(value(&r1, "SHOW in_hot_standby").await, "on");
    assert_eq!(value(&r1, "SELECT pg_is_in_recovery()").await, "t");
    assert_eq!(value(&us, "SELECT pg_is_in_recovery()").await, "f");

    // Without the cluster strong reads end with an error that says so, and stale ones go on.
    let status = meridian(&["replica", "status", "--config", &processes.config("us")]);
    assert!(status.status.success() && said(&status).contains("serving"), "{}", said(&status));
    ["us", "eu"].iter().for_each(|name| processes.kill(name));
    let (state, message) = failure(&r1, "SELECT v FROM t WHERE id = 2").await;
    assert_eq!((state.as_str(), message.as_str()), ("57P03", "node us does not answer this replica"));
    run(&r1, "SET meridian.read_policy = 'stale'").await;
    assert_eq!(value(&r1, "SELECT v FROM t WHERE id = 2").await, "20");
    // Nothing closes a later rank now than was closed when the node ended.
    let now_ns =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let late = |with: &str| format!("WAIT FOR LSN '{incarnation}/{now_ns}' WITH (TIMEOUT '200ms'{with})");
    assert_eq!(value(&r1, &late(", NO_THROW")).await, "timeout");
    assert_eq!(failure(&r1, &late("")).await.0, "57014");
    run(&r1, "RESET meridian.read_policy").await;
    ["us", "eu"].iter().for_each(|name| processes.start(name));
    for name in ["us", "eu"] {
        processes.wait_ready(name).await;
    }
    let us = processes.session("us").await;
    until(&us, "SELECT count(*) FROM meridian.replicas WHERE state = 'serving'", "1").await;
    assert_eq!(value(&r1, "SELECT v FROM t WHERE id = 2").await, "20");

    // A session's read goes on when the replica is told to end.
    let drained =
        meridian(&["replica", "drain", "r1", "--config", &processes.config("us"), "--client", "root"]);
    assert!(
        drained.status.success() && said(&drained).contains("Replica r1 has ended"),
        "{}",
        said(&drained)
    );
    assert!(processes.children.get_mut("r1").expect("it ran").wait().unwrap().success());
    assert_eq!(value(&us, "SELECT v FROM t WHERE id = 2").await, "20");
}

#[test]
fn a_replica_is_refused_where_it_would_not_serve() {
    let processes = Processes::init("refused", &["--nodes", "us", "--survive", "0"]);
    processes.add("r1", "us");
    let cases: [(&[&str], &str); 4] = [
        (&["--engine", "geogauss"], "every node executes"),
        (&["--engine", "perseus"], "have not been tested"),
        (&["--clock-bound", "0"], "a replica's process has its own"),
        (&["--data", "somewhere"], "a replica keeps nothing on disk"),
    ];
    for (more, part) in cases {
        let refused = meridian(&[&["start", "--config", &processes.config("r1")], more].concat());
        assert!(!refused.status.success() && said(&refused).contains(part), "{more:?}: {}", said(&refused));
    }
    let config = processes.config("r1");
    let nested = meridian(&["replica", "add", "r2", "--config", &config]);
    assert!(said(&nested).contains("is a replica's configuration"), "{}", said(&nested));
    let wrong = meridian(&["replica", "add", "R 2", "--config", &processes.config("us")]);
    assert!(!wrong.status.success() && said(&wrong).contains("is no name"), "{}", said(&wrong));
}
