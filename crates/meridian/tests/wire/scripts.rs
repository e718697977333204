//! Runs the scripts of `tests/slt` at the root of the repository.
//!
//! A script is a list of records, parted by empty lines; `#` starts a comment line.
//! - `statement ok` and a statement: it succeeds.
//! - `statement error 23505` and a statement: it fails with this SQLSTATE; `statement error 23505 words`
//!   also wants the words in its message.
//! - `query` and a statement, `----`, and the rows it answers, each as `a|b`, NULL as NULL; `query sorted`
//!   sorts both sides.
//! - `session NAME REGION`: what follows is said by this session, connected to the region (0, 1 or 2);
//!   `session NAME REGION USER`: by this user; `session NAME REGION USER DATABASE`: in this database.

use crate::server::{Server, rows, state};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio_postgres::Client;

#[tokio::test]
async fn every_script_answers_as_it_says() {
    // Tests run in their package's folder.
    let folder = Path::new("../../tests/slt");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of scripts")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    let mut failures = Vec::new();
    for path in scripts {
        let server = Server::start();
        let text = std::fs::read_to_string(&path).expect("a script is text");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        run_script(&server, &name, &text, &mut failures).await;
    }
    assert!(failures.is_empty(), "{} records failed\n\n{}", failures.len(), failures.join("\n\n"));
}

async fn run_script(server: &Server, name: &str, text: &str, failures: &mut Vec<String>) {
    let mut sessions: BTreeMap<String, Client> = BTreeMap::new();
    sessions.insert("first".into(), server.session(0).await);
    let mut speaker = "first".to_string();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim().is_empty() || lines[at].starts_with('#') {
            at += 1;
            continue;
        }
        let start = at;
        while at < lines.len() && !lines[at].trim().is_empty() {
            at += 1;
        }
        let record = &lines[start..at];
        let words: Vec<&str> = record[0].split_whitespace().collect();
        if let ["session", session, region, user @ ..] = words.as_slice() {
            speaker = session.to_string();
            if !sessions.contains_key(&speaker) {
                let region = region.parse().expect("a region's number");
                let (database, user) =
                    (user.get(1).unwrap_or(&"meridian"), user.first().unwrap_or(&"tester"));
                let opened = server.session_in(region, user, database).await;
                sessions.insert(speaker.clone(), opened.expect("the user may log in"));
            }
            continue;
        }
        if let Err(why) = run_record(&sessions[&speaker], &words, &record[1..]).await {
            failures.push(format!("{name}:{}\n{}\n{why}", start + 1, record[1..].join("\n")));
        }
    }
}

async fn run_record(client: &Client, words: &[&str], body: &[&str]) -> Result<(), String> {
    let end = body.iter().position(|l| *l == "----").unwrap_or(body.len());
    let answer = rows(client, &body[..end].join("\n")).await;
    let told = |e: &tokio_postgres::Error| match e.as_db_error() {
        Some(e) => format!("{} {}", e.code().code(), e.message()),
        None => e.to_string(),
    };
    match (words, answer) {
        (["statement", "ok"], Ok(_)) => Ok(()),
        (["statement", "error", wanted, message @ ..], Err(e)) => {
            let fits = state(&e) == *wanted && told(&e).contains(&message.join(" "));
            if fits { Ok(()) } else { Err(format!("failed otherwise: {}", told(&e))) }
        }
        (["statement", "error", ..], Ok(_)) => Err("succeeded".into()),
        (["query", options @ ..], Ok(mut actual)) => {
            let mut wanted: Vec<String> =
                body[(end + 1).min(body.len())..].iter().map(|l| l.to_string()).collect();
            if options == ["sorted"] {
                actual.sort();
                wanted.sort();
            }
            if actual == wanted { Ok(()) } else { Err(format!("answered\n{}", actual.join("\n"))) }
        }
        (["statement" | "query", ..], Err(e)) => Err(format!("failed: {}", told(&e))),
        (other, _) => panic!("not a record: {other:?}"),
    }
}
