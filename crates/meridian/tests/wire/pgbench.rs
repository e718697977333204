//! `pgbench` as it is: all its steps of making tables, all its scripts, all its protocols.
//!
//! The program is no part of this repository: where it is missing the tests say so and end.

use crate::server::{Server, rows, value};
use std::process::Command;

/// Runs pgbench against the first region; answers what it printed. `Err`: it failed, and why.
fn pgbench(server: &Server, arguments: &[&str]) -> Result<String, String> {
    let port = server.ports[0].to_string();
    let output = Command::new("pgbench")
        .args(["-h", "127.0.0.1", "-p", &port, "-U", "tester"])
        .args(arguments)
        .arg("meridian")
        .output()
        .expect("it is there");
    let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(told(&output.stdout)),
        false => Err(format!("pgbench {arguments:?}: {}", told(&output.stderr))),
    }
}

fn is_there() -> bool {
    let output = Command::new("pgbench").arg("--version").output();
    let is_there = output.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("pgbench is not installed: nothing is tried");
    }
    is_there
}

#[tokio::test(flavor = "multi_thread")]
async fn pgbench_makes_its_tables_in_all_its_ways() {
    if !is_there() {
        return;
    }
    let server = Server::start();
    let client = server.session(0).await;
    let counts = "SELECT (SELECT count(*) FROM pgbench_branches), (SELECT count(*) FROM pgbench_tellers), \
                  (SELECT count(*) FROM pgbench_accounts), (SELECT count(*) FROM pgbench_history)";
    for options in [
        &["-i", "-q"][..],
        &["-i", "-q", "-I", "dtgvp"],
        &["-i", "-q", "-I", "dtGvpf", "--fillfactor", "80"],
        &["-i", "-q", "-I", "dtgvpf", "--unlogged-tables"],
        &["-i", "-q", "--foreign-keys", "--no-vacuum"],
        &["-i", "-q", "-I", "dt", "-I", "g"],
        &["-i", "-q", "-I", "g"],
    ] {
        pgbench(&server, options).unwrap();
        // The last -I counts.
        assert_eq!(value(&client, counts).await, "1|10|100000|0", "{options:?}");
    }
    pgbench(&server, &["-i", "-q", "--foreign-keys", "-I", "dtgvpf"]).unwrap();
    let keys = "SELECT conname FROM pg_constraint WHERE contype = 'f' ORDER BY conname";
    assert_eq!(
        rows(&client, keys).await.unwrap(),
        [
            "pgbench_accounts_bid_fkey",
            "pgbench_history_aid_fkey",
            "pgbench_history_bid_fkey",
            "pgbench_history_tid_fkey",
            "pgbench_tellers_bid_fkey"
        ]
    );
    pgbench(&server, &["-i", "-q", "--partitions", "3"]).unwrap();
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'pgbench_accounts'::regclass";
    assert_eq!(rows(&client, partitions).await.unwrap(), ["3"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM pgbench_accounts_2").await.unwrap(), ["33334"]);
    pgbench(&server, &["-i", "-q", "--partitions=3", "--partition-method=hash"]).unwrap();
    assert_eq!(rows(&client, partitions).await.unwrap(), ["3"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM pgbench_accounts").await.unwrap(), ["100000"]);
    let refused = pgbench(&server, &["-i", "-q", "--tablespace", "elsewhere"]).unwrap_err();
    assert!(refused.contains("tablespace") || refused.contains("TABLESPACE"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pgbench_runs_all_its_scripts_by_all_protocols() {
    if !is_there() {
        return;
    }
    let server = Server::start();
    let client = server.session(0).await;
    pgbench(&server, &["-i", "-q", "--foreign-keys"]).unwrap();
    for protocol in ["simple", "extended", "prepared"] {
        for script in ["tpcb-like", "simple-update", "select-only"] {
            let options =
                ["-n", "-M", protocol, "-b", script, "-c", "2", "-j", "2", "-t", "20", "--max-tries", "100"];
            let told = pgbench(&server, &options).unwrap();
            assert!(told.contains("actually processed: 40/40"), "{protocol} {script}: {told}");
        }
        // Three statements in one pipeline.
        if protocol != "simple" {
            let script =
                std::env::temp_dir().join(format!("meridian-pgbench-{}-{protocol}.sql", std::process::id()));
            let text = "\\set aid random(1, 100000)\n\\startpipeline\nBEGIN;\n\
                        UPDATE pgbench_accounts SET abalance = abalance + 0 WHERE aid = :aid;\n\
                        SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\nEND;\n\\endpipeline\n";
            std::fs::write(&script, text).unwrap();
            let file = script.to_str().unwrap();
            let told = pgbench(
                &server,
                &["-n", "-M", protocol, "-f", file, "-c", "2", "-t", "10", "--max-tries", "100"],
            );
            std::fs::remove_file(&script).unwrap();
            assert!(told.as_ref().is_ok_and(|told| told.contains("actually processed: 20/20")), "{told:?}");
        }
    }
    // What was added to accounts was added to branches and tellers as well, by the script that adds to all.
    let sums = "SELECT (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(tbalance) FROM pgbench_tellers), \
                (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), \
                (SELECT count(*) FROM pgbench_history)";
    assert_eq!(value(&client, sums).await, "t|t|240");
    // Vacuumed before the run, by default; with a rate, a report and a log of latencies.
    let told = pgbench(&server, &["-b", "select-only", "-t", "10", "-R", "200", "-P", "1", "-r"]).unwrap();
    assert!(told.contains("actually processed: 10/10"), "{told}");
}
