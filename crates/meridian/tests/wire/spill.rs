//! Queries that need more than their memory put the rest into temporary files, where there is a directory for them.

use crate::durable::Directory;
use crate::server::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio_postgres::Client;

/// Sorts a million texts, which take some 40 MiB.
const SORTS: &str = "SELECT count(*) || ' ' || min(r) || ' ' || max(r) FROM \
    (SELECT row_number() OVER (ORDER BY a.v || b.v) r FROM t a, t b) q";
const SORTED: &str = "1000000 1 1000000";

async fn fill(client: &Client) {
    run(client, "CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    run(client, "INSERT INTO t SELECT n, 'value ' || n FROM generate_series(1, 1000) s(n)").await;
    assert_eq!(value(client, "SELECT count(*) FROM t").await, "1000");
}

fn start(more: &[&str]) -> Server {
    Server::start_with(&[&["--regions", "us", "--query-memory-mib", "16"][..], more].concat(), 1)
}

/// Directories of temporary files, and the files in them.
fn temporary(directory: &Path) -> (usize, usize) {
    let inside = |path: PathBuf| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let directories = inside(directory.join("node-0")).filter(|path| path.is_dir()).collect::<Vec<_>>();
    (directories.len(), directories.into_iter().flat_map(inside).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_goes_beyond_its_memory_where_there_is_a_directory() {
    {
        let server = start(&[]);
        let client = server.session(0).await;
        fill(&client).await;
        assert_eq!(failure(&client, SORTS).await.0, "53200", "there is none");
    }
    let directory = Directory::new("spill");
    for life in 0..2 {
        let server = start(&["--spill-dir", directory.text()]);
        assert_eq!(temporary(&directory.0), (1, 0), "what life {life} has found is gone");
        let client = server.session(0).await;
        fill(&client).await;
        assert_eq!(value(&client, SORTS).await, SORTED);
        until_gone(&directory.0).await;
        // The process is killed, and leaves its directory.
        drop(server);
        std::fs::create_dir_all(directory.0.join("node-0/datafusion-left/more")).unwrap();
    }
    let server = start(&["--spill-dir", directory.text(), "--spill-mib", "1"]);
    let client = server.session(0).await;
    fill(&client).await;
    let (state, message) = failure(&client, SORTS).await;
    assert!(state == "53400" && message.contains("--spill-mib"), "{state}: {message}");
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, "1000");
    until_gone(&directory.0).await;
}

/// The files of a query go with its last task.
async fn until_gone(directory: &Path) {
    let begin = std::time::Instant::now();
    while temporary(directory).1 > 0 {
        assert!(
            begin.elapsed() < std::time::Duration::from_secs(20),
            "files are left: {:?}",
            temporary(directory)
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The disk is a file system in memory that only the process sees; where the system grants none there is nothing to see.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_the_query_and_nothing_else() {
    let directory = Directory::new("spill-full");
    std::fs::create_dir_all(&directory.0).unwrap();
    let in_a_namespace = || {
        let mut command = Command::new("unshare");
        let mount = "mount -t tmpfs -o size=96m tmpfs \"$0\" && exec \"$@\"";
        command.args(["--map-root-user", "--mount", "sh", "-c", mount, directory.text()]);
        command
    };
    if !in_a_namespace().arg("true").status().is_ok_and(|status| status.success()) {
        println!("this system grants no mount namespace");
        return;
    }
    let mut command = in_a_namespace();
    command.arg(env!("CARGO_BIN_EXE_meridian")).args(["start", "--port", "0", "--wan", "local"]);
    command.args(["--regions", "us", "--query-memory-mib", "16", "--spill-dir", directory.text()]);
    let server = Server::launch(command, 1);
    let client = server.session(0).await;
    fill(&client).await;
    // As the process sees it.
    let inside = PathBuf::from(format!("/proc/{}/root{}", server.process_id(), directory.text()));
    std::fs::write(inside.join("filler"), vec![1; 94 << 20]).unwrap();
    let (state, message) = failure(&client, SORTS).await;
    assert!(state == "53100" && message.contains("No space left on device"), "{state}: {message}");
    run(&client, "UPDATE t SET v = v WHERE id = 1").await;
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, "1000");
    std::fs::remove_file(inside.join("filler")).unwrap();
    assert_eq!(value(&client, SORTS).await, SORTED);
    until_gone(&inside).await;
}

#[test]
fn a_limit_without_a_directory_and_one_that_another_process_uses_are_refused() {
    let refused = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(["start", "--port", "0", "--wan", "local", "--regions", "us"])
            .args(more)
            .output()
            .expect("the command runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["--spill-mib", "100"]).contains("--spill-mib limits what is in --spill-dir"));
    let directory = Directory::new("spill-used");
    let _server = start(&["--spill-dir", directory.text()]);
    let said = refused(&["--spill-dir", directory.text()]);
    assert!(said.contains("node-0 is in use by another process"), "{said}");
}
