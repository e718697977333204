//! How long epochs of engine `geogauss` are, and who wins a row: chosen at the start, and the same for ever.

use crate::durable::Directory;
use crate::server::*;
use std::process::Command;

/// What a start with these flags says that has to fail.
fn refused(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["start", "--port", "0", "--wan", "local"])
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .expect("the command runs");
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn epochs_of_any_length_are_merged_everywhere() {
    for (epoch, rule) in [("1ms", "r2"), ("200ms", "r1")] {
        let flags = ["--engine", "geogauss", "--epoch", epoch, "--merge-rule", rule];
        let server = Server::start_with(&flags, 3);
        let first = server.session(0).await;
        run(&first, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&first, "INSERT INTO t VALUES (1, 0)").await;
        for region in 0..3 {
            let client = server.session(region).await;
            until_done(&client, "UPDATE t SET v = v + 1 WHERE id = 1").await;
            assert_eq!(value(&client, "SELECT v FROM t").await, (region + 1).to_string(), "{epoch}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let geogauss = ["--engine", "geogauss"];
    for wrong in ["0ms", "501ms", "2s", "soon"] {
        let said = refused(&[&geogauss[..], &["--epoch", wrong]].concat(), &[]);
        assert!(said.contains("--epoch") && said.contains(wrong) && said.contains("from 1 to 500"), "{said}");
    }
    let said = refused(&geogauss, &[("MERIDIAN_EPOCH", "600ms")]);
    assert!(said.contains("600ms") && said.contains("from 1 to 500"), "{said}");
    let said = refused(&[&geogauss[..], &["--merge-rule", "r3"]].concat(), &[]);
    assert!(said.contains("r3") && said.contains("r1") && said.contains("r2"), "{said}");
    for engine in ["caerus", "perseus", "slog", "calvin"] {
        for (flag, given) in [("--epoch", "10ms"), ("--merge-rule", "r2")] {
            let said = refused(&["--engine", engine, flag, given], &[]);
            assert!(said.contains(&format!("{flag}: choosing epochs with engine {engine}")), "{said}");
            assert!(said.contains("Only engine geogauss"), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_remembers_its_epochs() {
    let directory = Directory::new("epochs");
    let config = std::env::temp_dir().join(format!("meridian-{}-epochs.toml", std::process::id()));
    std::fs::write(&config, "engine = \"geogauss\"\nepoch = \"25ms\"\n").unwrap();
    let data = ["--regions", "us", "--data", directory.text()];
    let file = [&data[..], &["--config", config.to_str().expect("a plain name")]].concat();
    {
        let server = Server::start_with(&file, 1);
        let client = server.session(0).await;
        run(&client, "CREATE TABLE t (id int PRIMARY KEY)").await;
        run(&client, "INSERT INTO t VALUES (1)").await;
    }
    let said = refused(&[&data[..], &["--engine", "geogauss"]].concat(), &[]);
    assert!(said.contains("was made with --epoch 25ms, not 10ms"), "{said}");
    let said = refused(&[&file[..], &["--merge-rule", "r1"]].concat(), &[]);
    assert!(said.contains("was made with --merge-rule r2, not r1"), "{said}");
    let server = Server::start_with(&[&file[..], &["--epoch", "25", "--merge-rule", "r2"]].concat(), 1);
    let client = server.session(0).await;
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, "1");
    std::fs::remove_file(config).unwrap();
}
