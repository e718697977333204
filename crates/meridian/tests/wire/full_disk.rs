//! A disk of 96 MiB that is full: what writes is refused, reads go on, and so does everything once there is room.
//!
//! The disk is a file system in memory that only the process sees, in a mount namespace of its own. Where the system
//! grants no such namespace there is nothing to see; the store's and the host's part are tested on any system, in
//! `runtime::room` and in `durability`.

use crate::server::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const MOUNT: &str = "mount -t tmpfs -o size=96m tmpfs \"$0\" && exec \"$@\"";

fn in_a_namespace(directory: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", MOUNT]).arg(directory);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_what_writes_and_reads_go_on() {
    let directory = std::env::temp_dir().join(format!("meridian-{}-full", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    if !in_a_namespace(&directory).arg("true").status().is_ok_and(|status| status.success()) {
        println!("this system grants no mount namespace");
        return;
    }
    let mut command = in_a_namespace(&directory);
    command.arg(env!("CARGO_BIN_EXE_meridian")).args(["start", "--port", "0", "--wan", "local"]);
    command.args(["--regions", "us", "--data", directory.to_str().expect("a plain name")]);
    let mut server = Server::launch(command, 1);
    let client = server.session(0).await;
    run(&client, "CREATE TABLE t (id INT PRIMARY KEY, more TEXT)").await;
    run(&client, "INSERT INTO t VALUES (0, 'first')").await;
    // As the process sees it.
    let inside = PathBuf::from(format!("/proc/{}/root{}", server.process_id(), directory.display()));
    let filler = inside.join("filler");
    std::fs::write(&filler, vec![1; 60 << 20]).unwrap();
    let (mut written, text) = (1i64, "x".repeat(1_000));
    let refused = loop {
        assert!(written < 100_000, "the disk is full at last");
        let values: Vec<String> = (written..written + 1_000).map(|id| format!("({id}, '{text}')")).collect();
        match client.batch_execute(&format!("INSERT INTO t VALUES {}", values.join(", "))).await {
            Ok(()) => written += 1_000,
            Err(error) => break error,
        }
    };
    // Sent already when the disk was found full, it takes effect once there is room, or was refused.
    let end = state(&refused);
    assert!(end == "53100" || end == "08007", "{refused:?}");
    assert!(written > 5_000, "{written}");
    let most = if end == "08007" { written + 1_000 } else { written };
    // Longer than what a node has promised ahead: reads need room for what follows.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        let there: i64 = value(&client, "SELECT count(*) FROM t").await.parse().unwrap();
        assert!(there == written || there == most, "{there} of {written}");
        assert_eq!(value(&client, "SELECT more FROM t WHERE id = 0").await, "first");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let (state, message) = failure(&client, "UPDATE t SET more = 'second' WHERE id = 0").await;
    assert_eq!((state.as_str(), message.as_str()), ("53100", "the disk of node n0 is full"));
    assert_eq!(failure(&client, "CREATE TABLE u (id INT PRIMARY KEY)").await.0, "53100");
    std::fs::remove_file(&filler).unwrap();
    let begin = Instant::now();
    while client.batch_execute("UPDATE t SET more = 'second' WHERE id = 0").await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(20), "there is room again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(value(&client, "SELECT more FROM t WHERE id = 0").await, "second");
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, most.to_string());
    assert!(server.is_alive());
    drop(server);
    _ = std::fs::remove_dir_all(&directory);
}
