//! Three real processes, one node each, connected by mutual TLS.

use crate::clocks::until;
use crate::server::*;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// The last one joins a cluster of the others.
const NAMES: [&str; 4] = ["us", "eu", "asia", "ap"];
/// What one waits for comes long before.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn meridian(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_meridian")).args(arguments).output().expect("the command runs")
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A directory of a cluster and its processes; gone when the test is.
pub struct Processes {
    directory: PathBuf,
    pub children: [Option<Child>; 4],
}

impl Processes {
    pub fn init(name: &str) -> Processes {
        Processes::init_with(name, &[])
    }
    pub fn init_with(name: &str, flags: &[&str]) -> Processes {
        let directory = std::env::temp_dir().join(format!("meridian-{}-{name}", std::process::id()));
        _ = std::fs::remove_dir_all(&directory);
        let text = directory.to_str().expect("a plain name");
        let ports = ["cluster", "init", text, "--port", "0", "--node-port", "0", "--http-port", "0"];
        let made = meridian(&[&ports, flags].concat());
        assert!(made.status.success(), "{}", said(&made));
        Processes { directory, children: [None, None, None, None] }
    }
    pub fn config(&self, n: usize) -> String {
        self.directory.join(format!("{}.toml", NAMES[n])).display().to_string()
    }
    pub fn data(&self, n: usize) -> PathBuf {
        self.directory.join(NAMES[n])
    }
    pub fn port(&self, n: usize) -> u16 {
        self.setting(n, "port").parse().expect("a number")
    }
    pub fn http_address(&self, n: usize) -> String {
        self.setting(n, "http").trim_matches('"').to_string()
    }
    /// What a node's file says.
    pub fn setting(&self, n: usize, key: &str) -> String {
        let text = std::fs::read_to_string(self.config(n)).expect("it was made");
        let mut found = text.lines().filter_map(|line| line.strip_prefix(&format!("{key} = ")));
        found.next().expect("it is there").to_string()
    }
    pub fn certs(&self) -> String {
        self.directory.join("certs").display().to_string()
    }
    pub fn start(&mut self, n: usize) {
        let child = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(["start", "--config", &self.config(n)])
            .stdout(Stdio::null())
            .spawn();
        self.children[n] = Some(child.expect("the command starts"));
    }
    /// Without warning.
    pub fn kill(&mut self, n: usize) {
        let mut child = self.children[n].take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    /// Status and body of a health check; empty while nobody listens.
    pub fn probe(&self, n: usize, path: &str) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(self.http_address(n)) {
            _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            _ = stream.read_to_string(&mut answer);
        }
        answer
    }
    /// As docs/cluster.md says, at this many nodes, none of which has been started with its new configuration.
    pub fn give_the_change_up(&mut self, nodes: usize) {
        for n in 0..nodes {
            let node = self.config(n);
            std::fs::rename(format!("{node}.before"), &node).unwrap();
            std::fs::remove_file(self.data(n).join("change")).unwrap();
            self.start(n);
        }
        (0..nodes).for_each(|n| self.wait_ready(n));
    }
    pub fn wait_ready(&self, n: usize) {
        let begin = Instant::now();
        while !self.probe(n, "/readyz").starts_with("HTTP/1.1 200") {
            assert!(begin.elapsed() < PATIENCE, "{}: {}", NAMES[n], self.probe(n, "/readyz"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    pub async fn session(&self, n: usize) -> Client {
        let port = self.port(n);
        let config = format!("host=127.0.0.1 port={port} user=tester dbname=meridian");
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("it accepts");
        tokio::spawn(connection);
        client
    }
    /// What a node says that is started and has to end by itself.
    pub fn refused(&self, n: usize, more: &[&str]) -> String {
        let config = self.config(n);
        let arguments: Vec<&str> =
            ["start", "--config", &config].into_iter().chain(more.iter().copied()).collect();
        let ended = meridian(&arguments);
        assert!(!ended.status.success(), "{}", said(&ended));
        said(&ended)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            _ = child.kill();
            _ = child.wait();
        }
        _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Until it succeeds: while a region is being taken over, statements that need it are refused.
pub async fn run_in_the_end(client: &Client, sql: &str) {
    let begin = Instant::now();
    while let Err(error) = client.batch_execute(sql).await {
        assert!(begin.elapsed() < PATIENCE && !client.is_closed(), "{sql}: {error:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_are_one_database_and_a_killed_one_comes_back() {
    let mut processes = Processes::init("processes");
    processes.start(0);
    let begin = Instant::now();
    while !processes.probe(0, "/readyz").contains("every node has been heard: eu, asia") {
        assert!(begin.elapsed() < PATIENCE, "{}", processes.probe(0, "/readyz"));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(processes.probe(0, "/livez").starts_with("HTTP/1.1 200"));
    (1..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    let (us, asia) = (processes.session(0).await, processes.session(2).await);
    run(
        &us,
        "CREATE TABLE t (region text, id int, v int, PRIMARY KEY (region, id)) WITH (home_by = 'region')",
    )
    .await;
    {
        let eu = processes.session(1).await;
        run(&eu, "INSERT INTO t VALUES ('us', 1, 10), ('eu', 1, 20), ('asia', 1, 30)").await;
        assert_eq!(value(&eu, "SHOW meridian.region").await, "eu");
    }
    assert_eq!(value(&asia, "SELECT sum(v) FROM t").await, "60");
    // A token of one process is good at another.
    let token = value(&us, "SHOW meridian.token").await;
    run(&asia, &format!("SET meridian.token = '{token}'")).await;

    let status = meridian(&["cluster", "status", "--config", &processes.config(2), "--client", "root"]);
    assert!(status.status.success() && said(&status).matches("round trip").count() == 6, "{}", said(&status));

    processes.kill(1);
    // Another region takes over what eu ordered.
    run_in_the_end(&us, "UPDATE t SET v = v + 1 WHERE region = 'eu'").await;
    run_in_the_end(&asia, "UPDATE t SET v = v + 1").await;
    assert_eq!(value(&us, "SELECT sum(v) FROM t").await, "64");
    let status = meridian(&["cluster", "status", "--config", &processes.config(0)]);
    assert!(
        !status.status.success() && said(&status).contains("2 of 3 nodes are ready"),
        "{}",
        said(&status)
    );
    processes.start(1);
    processes.wait_ready(1);
    let eu = processes.session(1).await;
    run_in_the_end(&eu, "UPDATE t SET v = v + 1 WHERE region = 'eu'").await;
    assert_eq!(value(&eu, "SELECT sum(v) FROM t").await, "65");

    // A node whose directory is gone is not the node that the others know.
    processes.kill(1);
    let data = processes.directory.join("eu");
    let moved = processes.directory.join("elsewhere");
    std::fs::rename(&data, &moved).unwrap();
    let refused = processes.refused(1, &[]);
    assert!(refused.contains("node eu is known with the data directory made at"), "{refused}");
    std::fs::remove_dir_all(&data).unwrap();
    let refused = processes.refused(1, &["--data", moved.to_str().unwrap(), "--survive", "0"]);
    assert!(refused.contains("was made with --survive 1, not 0"), "{refused}");
    let refused = processes.refused(1, &["--node", "asia"]);
    assert!(refused.contains("cannot listen on"), "another process has its address: {refused}");
    assert_eq!(value(&us, "SELECT sum(v) FROM t").await, "65", "the others go on");

    // Another directory takes the place of the lost one, once the others have given that up.
    let other = meridian(&["cluster", "replace", "--config", &processes.config(2)]);
    assert!(said(&other).contains("it runs, with the directory"), "{}", said(&other));
    let replaced = meridian(&["cluster", "replace", "--config", &processes.config(1)]);
    assert!(replaced.status.success(), "{}", said(&replaced));
    processes.start(1);
    processes.wait_ready(1);
    let eu = processes.session(1).await;
    run_in_the_end(&eu, "UPDATE t SET v = v + 1 WHERE region = 'eu'").await;
    // From now on it has its own.
    processes.kill(1);
    processes.start(1);
    processes.wait_ready(1);
    let eu = processes.session(1).await;
    assert_eq!(value(&eu, "SELECT sum(v) FROM t").await, "66");
    let refused = processes.refused(1, &["--data", moved.to_str().unwrap()]);
    assert!(refused.contains("cannot listen on"), "{refused}");

    // An operator ends a node: its sessions are told, and nobody else notices.
    run(&asia, "BEGIN").await;
    let arguments = ["cluster", "drain", "asia", "--config", &processes.config(0), "--client", "root"];
    let drained = Command::new(env!("CARGO_BIN_EXE_meridian")).args(arguments).output();
    let drained = drained.expect("the command runs");
    assert!(drained.status.success() && said(&drained).contains("Node asia has ended"), "{}", said(&drained));
    assert!(processes.children[2].as_mut().expect("it ran").wait().unwrap().success());
    assert!(asia.is_closed());
    run_in_the_end(&us, "UPDATE t SET v = v + 1 WHERE region = 'asia'").await;
    assert_eq!(value(&eu, "SELECT sum(v) FROM t").await, "67");
}

/// A process that is away for long is removed, learns of it when it is back, and takes a copy; its log remembers all of
/// that. All of them together come back as they were.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_the_others_removed_comes_back() {
    let mut processes = Processes::init_with("removed", &["--engine", "geogauss"]);
    (0..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    let us = processes.session(0).await;
    run(&us, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    run(&us, "INSERT INTO t VALUES (1, 0)").await;
    let increment = "UPDATE t SET v = v + 1 WHERE id = 1";
    let state_of_eu = "SELECT state FROM meridian.regions WHERE name = 'eu'";
    for round in 1..=2 {
        processes.kill(1);
        run(&us, increment).await;
        until("it is removed", &us, state_of_eu, |answer| {
            answer.as_ref().is_ok_and(|states| states == &["removed"])
        })
        .await;
        processes.start(1);
        until("it is let in", &us, state_of_eu, |answer| {
            answer.as_ref().is_ok_and(|states| states == &["up"])
        })
        .await;
        processes.wait_ready(1);
        let eu = processes.session(1).await;
        run_in_the_end(&eu, increment).await;
        assert_eq!(value(&eu, "SELECT sum(v) FROM t").await, (2 * round).to_string());
    }
    (0..3).for_each(|n| processes.kill(n));
    (0..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    for n in 0..3 {
        let client = processes.session(n).await;
        run_in_the_end(&client, increment).await;
        assert_eq!(value(&client, "SELECT sum(v) FROM t").await, (5 + n).to_string());
    }

    // Another directory takes the place of one that is lost, and has everything itself from then on.
    processes.kill(1);
    std::fs::remove_dir_all(processes.directory.join("eu")).unwrap();
    let refused = processes.refused(1, &[]);
    assert!(refused.contains("node eu is known with the data directory made at"), "{refused}");
    std::fs::remove_dir_all(processes.directory.join("eu")).unwrap();
    let us = processes.session(0).await;
    until("it is removed again", &us, state_of_eu, |answer| {
        answer.as_ref().is_ok_and(|states| states == &["removed"])
    })
    .await;
    let replaced = meridian(&["cluster", "replace", "--config", &processes.config(1)]);
    assert!(replaced.status.success(), "{}", said(&replaced));
    for round in 0..2 {
        processes.start(1);
        processes.wait_ready(1);
        until("it is let in again", &us, state_of_eu, |answer| {
            answer.as_ref().is_ok_and(|states| states == &["up"])
        })
        .await;
        let eu = processes.session(1).await;
        run_in_the_end(&eu, increment).await;
        assert_eq!(value(&eu, "SELECT sum(v) FROM t").await, (8 + round).to_string());
        processes.kill(1);
    }
}

/// Values that a sequence gives, as many as are asked for.
async fn values_of(client: &Client, count: usize) -> Vec<String> {
    rows(client, &format!("SELECT nextval('s') FROM generate_series(1, {count})")).await.unwrap()
}

/// A row after the other; what cannot be ordered yet is tried again, and nothing else.
async fn count_rows(client: &Client, count: usize) {
    let begin = Instant::now();
    for _ in 0..count {
        while let Err(error) = client.batch_execute("INSERT INTO counted (v) VALUES (1)").await {
            assert_ne!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{error:?}");
            assert!(begin.elapsed() < PATIENCE, "{error:?}");
        }
    }
}

async fn a_replaced_node_hands_out_no_value_again(name: &str, flags: &[&str]) {
    let mut processes = Processes::init_with(name, flags);
    (0..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    let us = processes.session(0).await;
    run(&us, "CREATE TABLE counted (id serial PRIMARY KEY, v int); CREATE SEQUENCE s").await;
    let mut values = Vec::new();
    for round in 0..3 {
        let eu = processes.session(1).await;
        count_rows(&eu, 310).await;
        count_rows(&us, 20).await;
        values.extend(values_of(&eu, 250).await);
        if round == 2 {
            break;
        }
        processes.kill(1);
        std::fs::remove_dir_all(processes.data(1)).unwrap();
        if !flags.is_empty() {
            let state_of_eu = "SELECT state FROM meridian.regions WHERE name = 'eu'";
            until("it is removed", &us, state_of_eu, |answer| {
                answer.as_ref().is_ok_and(|states| states == &["removed"])
            })
            .await;
        }
        let replaced = meridian(&["cluster", "replace", "--config", &processes.config(1)]);
        assert!(replaced.status.success(), "{}", said(&replaced));
        processes.start(1);
        processes.wait_ready(1);
    }
    assert_eq!(value(&us, "SELECT count(*) FROM counted").await, "990");
    let distinct: BTreeSet<&String> = values.iter().collect();
    assert_eq!((values.len(), distinct.len()), (750, 750));
    // No more are skipped than others were told of.
    assert_eq!(value(&us, "SELECT max(id) < 9000 FROM counted").await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_directory_was_lost_hands_out_no_value_of_a_sequence_again() {
    a_replaced_node_hands_out_no_value_again("counts", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_one_that_executes_its_own_transactions() {
    a_replaced_node_hands_out_no_value_again("counts-merged", &["--engine", "geogauss"]).await;
}

#[test]
fn certificates_are_never_overwritten_and_keys_are_their_owners_only() {
    let processes = Processes::init("certificates");
    let certs = processes.certs();
    for command in
        [&["cert", "create-ca"][..], &["cert", "create-node", "eu"], &["cert", "create-client", "root"]]
    {
        let again = meridian(&[command, &["--certs", &certs]].concat());
        assert!(!again.status.success() && said(&again).contains("is there already"), "{}", said(&again));
    }
    let wrong = meridian(&["cert", "create-node", "E U", "--certs", &certs]);
    assert!(said(&wrong).contains("\"E U\" is no name"), "{}", said(&wrong));
    let nowhere = processes.directory.join("none").display().to_string();
    let missing = meridian(&["cert", "create-node", "eu", "--certs", &nowhere]);
    assert!(said(&missing).contains("`meridian cert create-ca` makes it"), "{}", said(&missing));
    let key = processes.directory.join("certs/node.eu.key");
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let refused = processes.refused(1, &[]);
    assert!(refused.contains("may be read by others (mode 644)"), "{refused}");
    let far = processes.refused(0, &["--insecure-nodes"]);
    assert!(far.contains("--certs and --insecure-nodes contradict each other"), "{far}");
    let open = processes.refused(0, &["--listen", "0.0.0.0"]);
    assert!(open.contains("--listen 0.0.0.0 is reached from other machines"), "{open}");
}

/// Asks each node, as the operator: when its certificate expires, and whether it sends to all others.
fn told_of_certificates(processes: &Processes) -> Vec<(String, bool)> {
    let config = processes.config(2);
    let status = meridian(&["cluster", "status", "--config", &config, "--client", "root", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let of = |node: &serde_json::Value| {
        let status = &node["status"];
        let sends =
            status["peers"].as_array().is_some_and(|all| all.iter().all(|peer| peer["sends"] == true));
        (status["certificate_expires"].as_str().unwrap_or_default().to_string(), sends)
    };
    told.as_array().expect("a list").iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nodes_certificate_is_read_again_on_hangup() {
    let mut processes = Processes::init("hangup");
    (0..3).for_each(|n| processes.start(n));
    (0..3).for_each(|n| processes.wait_ready(n));
    let hang_up = |processes: &Processes| {
        let process = processes.children[0].as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args(["-HUP", &process]).status().expect("kill is there").success());
    };
    let until = |processes: &Processes, is_so: &dyn Fn(&[(String, bool)]) -> bool| {
        let begin = Instant::now();
        loop {
            let told = told_of_certificates(processes);
            if is_so(&told) {
                return told;
            }
            assert!(begin.elapsed() < PATIENCE, "{told:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let all_send = |told: &[(String, bool)]| told.iter().all(|(_, sends)| *sends);
    let before = until(&processes, &all_send)[0].0.clone();
    assert!(before.ends_with(" UTC"), "{before}");

    // One that cannot be read leaves the old one in use, also for connections that are made afterwards.
    let [certificate, key] = ["crt", "key"].map(|end| format!("{}/node.us.{end}", processes.certs()));
    std::fs::write(&certificate, "nothing").unwrap();
    hang_up(&processes);
    std::thread::sleep(Duration::from_millis(200));
    processes.kill(1);
    processes.start(1);
    processes.wait_ready(1);
    assert_eq!(until(&processes, &all_send)[0].0, before);

    // A new one is shown from then on.
    for path in [&certificate, &key] {
        std::fs::remove_file(path).unwrap();
    }
    let made = meridian(&["cert", "create-node", "us", "--days", "20", "--certs", &processes.certs()]);
    assert!(made.status.success(), "{}", said(&made));
    hang_up(&processes);
    until(&processes, &|told| told[0].0 != before);
    processes.kill(1);
    processes.start(1);
    processes.wait_ready(1);
    until(&processes, &all_send);
    let us = processes.session(0).await;
    run_in_the_end(&us, "CREATE TABLE t (id int PRIMARY KEY)").await;
}

#[test]
fn a_command_whose_output_nobody_reads_ends_without_a_word() {
    let certs = std::env::temp_dir().join(format!("meridian-{}-unread", std::process::id()));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let command = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["cert", "create-ca", "--certs"])
        .arg(&certs)
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn();
    let ended = command.expect("the command starts").wait_with_output().unwrap();
    std::fs::remove_dir_all(certs).unwrap();
    assert_eq!((ended.status.code(), said(&ended).as_str()), (Some(141), ""));
}

#[test]
fn a_drill_of_faults_and_a_rolling_restart_lose_nothing() {
    let json = std::env::temp_dir().join(format!("meridian-{}-drill.json", std::process::id()));
    let path = json.to_str().expect("a plain name");
    let faults = ["drill", "--cycles", "4", "--faults", "kill,pause,cut,silence", "--down", "300ms"];
    let restarts = ["drill", "--cycles", "2", "--rolling"];
    let one_copy = ["drill", "--cycles", "6", "--engine", "perseus", "--down", "300ms"];
    let drills = [(&faults[..], "\"cycles\":4"), (&restarts, "\"cycles\":2"), (&one_copy, "\"cycles\":6")];
    for (arguments, cycles) in drills {
        let drill = meridian(&[arguments, &["--clients", "1", "--json", path]].concat());
        assert!(drill.status.success(), "{}", said(&drill));
        let text = std::fs::read_to_string(&json).unwrap();
        assert!(text.contains("\"lost\":0,\"invented\":0") && text.contains(cycles), "{text}");
        assert!(text.contains("\"not_recovered\":0"), "{text}");
    }
    std::fs::remove_file(json).unwrap();
}
