//! Which regions a database has.

use crate::server::*;
use std::process::Command;

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
