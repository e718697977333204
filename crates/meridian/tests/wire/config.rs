//! Flags from a file and from the environment.

use crate::server::*;
use std::path::PathBuf;
use std::process::Command;

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("meridian-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).expect("a writable folder");
    path
}

/// Exit code and errors of `meridian start` with a file.
fn refused(text: &str) -> (i32, String) {
    let hash = text.bytes().fold(0u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
    let path = file(&hash.to_string(), text);
    let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["start", "--config", path.to_str().unwrap()])
        .output()
        .expect("the command runs");
    std::fs::remove_file(&path).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(path.to_str().unwrap()), "it names its file: {said}");
    (output.status.code().expect("it exits"), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_sets_flags_that_are_not_given() {
    let path = file("good", "regions = [\"eu\", \"us\"]\nquery_memory_mib = 64\nwan = \"perseus3\"\n");
    // `--wan local --port 0` are given by the harness and go before the file.
    let server = Server::start_with(&["--config", path.to_str().unwrap()], 2);
    let client = server.session(1).await;
    assert_eq!(value(&client, "SELECT 1").await, "1");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_wrong_file_is_refused_with_its_name_and_place() {
    let (code, said) = refused("prot = 1\n");
    assert_eq!(code, 2);
    assert!(said.contains("\"prot\"") && said.contains("port"), "{said}");
    let (code, said) = refused("port = [\n");
    assert_eq!(code, 2);
    assert!(said.contains("line 1"), "{said}");
    let (code, said) = refused("port = \"many\"\n");
    assert_eq!(code, 2);
    assert!(said.contains("--port") && said.contains("many"), "{said}");
    let (code, said) = refused("port = { a = 1 }\n");
    assert_eq!(code, 2);
    assert!(said.contains("table"), "{said}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["start", "--config=/nowhere/meridian.toml"])
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot read /nowhere/meridian.toml"), "{said}");
}

#[test]
fn the_environment_is_checked_like_a_flag() {
    let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["start"])
        .env("MERIDIAN_PORT", "70000")
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("70000"));
}
