//! Whole queries have PostgreSQL's answers: random ones, with their subqueries, joins, groups, windows and set operations.
//!
//! `tests/statements/corpus.txt` at the root of the repository holds queries over the tables below with what PostgreSQL 15
//! answers; [`recorded_queries_have_postgres_answers`] asks them. To run the generators against a PostgreSQL 15 of your own:
//!
//! ```text
//! MERIDIAN_POSTGRES='host=127.0.0.1 port=5432 user=postgres' MERIDIAN_SEED=7 MERIDIAN_COUNT=500 \
//!     cargo test -p meridian --test wire -- --nocapture queries_against_postgres
//! ```
//!
//! It prints what is answered otherwise and what is refused. With `UPDATE_EXPECT=1` the queries that agree become the new
//! corpus.

#[path = "statements/shapes.rs"]
mod shapes;
#[path = "statements/subqueries.rs"]
mod subqueries;

use crate::dice::Dice;
use crate::server::{Server, run, state};
use shapes::Shapes;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use subqueries::Subqueries;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

const CORPUS: &str = "../../tests/statements/corpus.txt";

/// Six tables of few rows: small numbers that meet often, and NULLs.
fn setup() -> String {
    let mut text = String::new();
    for (table, last, step) in [("t", 8, 1), ("u", 10, 2), ("w", 7, 3)] {
        let _ = write!(
            text,
            "DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id int PRIMARY KEY, a int, b int);
             INSERT INTO {table} SELECT g, nullif(g * {step} % 7, 6), nullif((g + {step}) * 3 % 7, 5)
                 FROM generate_series(0, {last}) g;"
        );
    }
    for (table, last, step) in [("p", 13, 1), ("q", 16, 2), ("r", 8, 3)] {
        let _ = write!(
            text,
            "DROP TABLE IF EXISTS {table};
             CREATE TABLE {table} (id int PRIMARY KEY, i int, j bigint, n numeric(8,2), f double precision, s text,
                 b boolean, d date);
             INSERT INTO {table} SELECT g, nullif(g * {step} % 5, 4),
                     CASE g % 5 WHEN 0 THEN -1 WHEN 1 THEN 0 WHEN 2 THEN 10 WHEN 3 THEN 1 END,
                     CASE (g + {step}) % 5 WHEN 0 THEN 0.5 WHEN 1 THEN 1.25 WHEN 2 THEN 2 WHEN 3 THEN -3.75 END,
                     CASE g % 4 WHEN 0 THEN 0.5 WHEN 1 THEN 1.5 WHEN 2 THEN 2 END,
                     CASE g * {step} % 5 WHEN 0 THEN 'x' WHEN 1 THEN 'y' WHEN 2 THEN 'z' WHEN 3 THEN '' END,
                     CASE (g + {step}) % 3 WHEN 0 THEN true WHEN 1 THEN false END,
                     CASE (g + {step}) % 4 WHEN 0 THEN date '2024-01-01' WHEN 1 THEN date '2024-02-29'
                         WHEN 2 THEN date '2023-12-31' END
                 FROM generate_series(0, {last}) g;"
        );
    }
    text
}

/// The rows that a query answers, in no order; `Err` is its state and message.
async fn ask(client: &Client, sql: &str) -> Result<Vec<String>, (String, String)> {
    let messages = client.simple_query(sql).await.map_err(|e| match e.as_db_error() {
        Some(told) => (state(&e).to_string(), told.message().to_string()),
        None => ("lost".to_string(), e.to_string()),
    })?;
    let mut rows = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            let cells: Vec<String> = (0..row.len()).map(|n| cell(row.get(n))).collect();
            rows.push(cells.join("\t"));
        }
    }
    rows.sort();
    Ok(rows)
}

/// A cell, without the zeros at the end of a number: columns of decimals have one scale.
fn cell(text: Option<&str>) -> String {
    let Some(text) = text else { return "\\N".into() };
    let is_number = text.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '-') && text.contains('.');
    if is_number { text.trim_end_matches('0').trim_end_matches('.').into() } else { text.into() }
}

fn read_corpus() -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(CORPUS).expect("the corpus");
    let mut queries: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("= "), queries.last_mut()) {
            (Some(row), Some((_, rows))) => rows.push(row.into()),
            _ => queries.push((line.into(), Vec::new())),
        }
    }
    queries
}

#[tokio::test]
async fn recorded_queries_have_postgres_answers() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, &setup()).await;
    let queries = read_corpus();
    assert!(queries.len() > 100, "the corpus is there");
    let mut wrong = Vec::new();
    for (query, wanted) in queries {
        match ask(&client, &query).await {
            Ok(rows) if rows == wanted => {}
            other => wrong.push(format!("{query}\n  {wanted:?}\n  {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "answered otherwise:\n{}", wrong.join("\n"));
}

/// Compares with a PostgreSQL 15 that MERIDIAN_POSTGRES names; without one the corpus above has to do.
#[tokio::test]
async fn queries_against_postgres() {
    let Ok(config) = std::env::var("MERIDIAN_POSTGRES") else { return };
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |v| v.parse().expect("a number"));
    let (seed, count) = (number("MERIDIAN_SEED", 1), number("MERIDIAN_COUNT", 500));
    let (postgres, connection) = tokio_postgres::connect(&config, NoTls).await.expect("PostgreSQL accepts");
    tokio::spawn(connection);
    let server = Server::start();
    let client = server.session(0).await;
    for side in [&postgres, &client] {
        run(side, "SET statement_timeout = '10s'").await;
        run(side, &setup()).await;
    }
    let mut dice = Dice::new(seed);
    let mut agreed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut wrong, mut refused, mut errors) = (0, 0, 0);
    for n in 0..count {
        let query = match n % 2 {
            0 => Subqueries::new(&mut dice).statement(),
            _ => Shapes::new(&mut dice).statement(),
        };
        match (ask(&postgres, &query).await, ask(&client, &query).await) {
            (Err(_), Err(_)) => errors += 1,
            (Ok(wanted), Ok(rows)) if wanted == rows => _ = agreed.insert(query, rows),
            (Ok(_), Err((state, message))) if state == "0A000" => {
                refused += 1;
                println!("refused: {query}\n  {message}");
            }
            (wanted, given) => {
                wrong += 1;
                println!("answered otherwise: {query}\n  {wanted:?}\n  {given:?}");
            }
        }
    }
    println!("{} agree, {wrong} do not, {refused} refused, {errors} fail at both", agreed.len());
    if std::env::var("UPDATE_EXPECT").is_ok() {
        let mut text = format!(
            "# Queries over the tables of crates/meridian/tests/wire/statements.rs and the rows that PostgreSQL 15 answers,\n\
             # sorted, numbers without zeros at their end. Made with seed {seed}; see that file for how.\n"
        );
        for (query, rows) in agreed.iter().filter(|(_, rows)| rows.len() <= 40) {
            let _ = writeln!(text, "\n{query}");
            rows.iter().for_each(|row| _ = writeln!(text, "= {row}"));
        }
        std::fs::create_dir_all(Path::new(CORPUS).parent().expect("a folder")).expect("a folder");
        std::fs::write(CORPUS, text).expect("written");
    }
}
