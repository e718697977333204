//! An expression has one value: on rows, on columns, as a constant, and PostgreSQL's.
//!
//! `tests/expressions/corpus.txt` at the root of the repository holds expressions over the table below with what
//! PostgreSQL 15 answers; `differences.txt` beside it names those that Meridian is known to answer otherwise.
//! [`the_corpus_has_one_value_everywhere`] checks both. To run the generator against a PostgreSQL 15 of your own:
//!
//! ```text
//! MERIDIAN_POSTGRES='host=127.0.0.1 port=5432 user=postgres' MERIDIAN_SEED=7 MERIDIAN_COUNT=2000 \
//!     cargo test -p meridian --test wire -- --nocapture expressions_against_postgres
//! ```
//!
//! With `UPDATE_EXPECT=1` the expressions and answers become the new corpus.

#[path = "expressions/generator.rs"]
mod generator;

use crate::server::{Server, run, state};
use generator::Generator;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Rows of the table: ordinary ones, NULLs, the ends of each type.
const SETUP: &str = "
    CREATE TABLE e (id int PRIMARY KEY, b boolean, i2 smallint, i4 int, i8 bigint, r real, d double precision,
        n numeric(12,2), m numeric(20,6), t text, v varchar(12), c char(6), da date, ts timestamp,
        tz timestamptz, u uuid, y bytea);
    INSERT INTO e VALUES
    (1, true, 7, 42, 9000000000, 1.5, 2.5, 12.50, 3.141593, 'abc', 'hello', 'ab', '2024-02-29',
        '2024-02-29 12:34:56.789', '2024-02-29 23:30:00+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x00ff10'),
    (2, false, -3, -17, -5, -0.25, 3.5, -0.01, -2.500000, '', 'x', '', '1999-12-31', '1999-12-31 23:59:59.999999',
        '1999-12-31 23:59:59+00', '00000000-0000-0000-0000-000000000000', ''),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, true, 32767, 2147483647, 9223372036854775807, '3.4e38', '1.7e308', 9999999999.99, 99999999999999.999999,
        'A longer text, with %_ in it', 'twelve chars', 'sixsix', '9999-12-31', '9999-12-31 00:00:00',
        '9999-12-31 00:00:00+00', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '\\xdeadbeef'),
    (5, false, -32768, -2147483648, -9223372036854775808, '1e-30', '-1e-300', -9999999999.99, 0.000001, '42', '-7.5',
        '3.14', '0001-01-01', '0001-01-01 00:00:00', '1970-01-01 00:00:00+00',
        '12345678-1234-1234-1234-123456789abc', '\\x61'),
    (6, true, 0, 0, 0, 0, 0, 0.00, 0.500000, '  padded ', 'true', '  x', '2000-01-01', '2000-01-01 00:00:00',
        '2000-01-01 12:00:00+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', '\\x5c'),
    (7, false, 1, 1, 1, 'NaN', 'Infinity', 0.50, 1.500000, '2024-03-01', 'ABC', 'abc', '2024-03-31',
        '2024-03-31 06:00:00', '2024-03-31 06:00:00+00', NULL, NULL);
";

const ROWS: usize = 7;

/// What an expression came to: a value for each row, or the state of the error that the first row to fail gave.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Values(Vec<Option<String>>),
    Refused(String),
}

impl Answer {
    fn written(&self) -> String {
        match self {
            Answer::Refused(state) => format!("!{state}"),
            Answer::Values(values) => {
                let shown: Vec<String> =
                    values.iter().map(|v| v.as_deref().map_or("\\N".into(), escaped)).collect();
                shown.join("\t")
            }
        }
    }

    fn read(text: &str) -> Answer {
        match text.strip_prefix('!') {
            Some(state) => Answer::Refused(state.into()),
            None => Answer::Values(text.split('\t').map(|v| (v != "\\N").then(|| unescaped(v))).collect()),
        }
    }
}

/// An expression and what PostgreSQL answers.
struct Entry {
    expression: String,
    answer: Answer,
    is_condition: bool,
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}
fn unescaped(text: &str) -> String {
    let mut made = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, c == '\\') {
            (_, false) => made.push(c),
            _ => made.push(match rest.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            }),
        }
    }
    made
}

/// Where an expression is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Rows,
    Columns,
}

impl Place {
    fn query(self, list: &str) -> String {
        match self {
            // Rows found by key.
            Place::Rows => format!("SELECT {list} FROM e WHERE id IN (1, 2, 3, 4, 5, 6, 7) ORDER BY id"),
            Place::Columns => format!("SELECT {list} FROM e ORDER BY id"),
        }
    }
}

/// The answers of several expressions by one statement; `Err` is its state.
async fn ask(client: &Client, sql: &str, width: usize) -> Result<Vec<Vec<Option<String>>>, String> {
    let messages = client.simple_query(sql).await.map_err(|e| match state(&e) {
        "" => format!("lost: {e}"),
        state => state.to_string(),
    })?;
    let mut columns = vec![Vec::new(); width];
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            for (i, column) in columns.iter_mut().enumerate() {
                column.push(row.get(i).map(str::to_string));
            }
        }
    }
    Ok(columns)
}

async fn answer(client: &Client, path: Place, expression: &str) -> Answer {
    match ask(client, &path.query(expression), 1).await {
        Ok(mut columns) => Answer::Values(columns.remove(0)),
        Err(state) => Answer::Refused(state),
    }
}

/// Answers of many: those that have values together, the rest one by one.
async fn answers(client: &Client, path: Place, all: &[Entry]) -> Vec<Answer> {
    let mut made = Vec::with_capacity(all.len());
    for chunk in all.chunks(24) {
        let together: Vec<usize> =
            (0..chunk.len()).filter(|i| matches!(chunk[*i].answer, Answer::Values(_))).collect();
        let list: Vec<String> =
            together.iter().enumerate().map(|(n, i)| format!("{} AS x{n}", chunk[*i].expression)).collect();
        let mut found: BTreeMap<usize, Answer> = BTreeMap::new();
        if !list.is_empty()
            && let Ok(columns) = ask(client, &path.query(&list.join(", ")), list.len()).await
        {
            found.extend(together.iter().copied().zip(columns.into_iter().map(Answer::Values)));
        }
        // One that takes the whole statement to columns says nothing of rows: those are asked alone.
        found.retain(|i, answer| *answer == chunk[*i].answer);
        for (i, entry) in chunk.iter().enumerate() {
            made.push(match found.remove(&i) {
                Some(answer) => answer,
                None => answer(client, path, &entry.expression).await,
            });
        }
    }
    made
}

/// How two answers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Same,
    /// One number with another count of zeros at its end: columns of decimals have one scale.
    OtherZeros,
    /// Both fail, with other states.
    OtherState,
    /// 0A000, or a function that is not there.
    Unsupported,
    Wrong,
}

fn verdict(wanted: &Answer, given: &Answer) -> Verdict {
    match (wanted, given) {
        (a, b) if a == b => Verdict::Same,
        (_, Answer::Refused(state)) if state == "0A000" => Verdict::Unsupported,
        (Answer::Refused(_), Answer::Refused(state)) if state != "XX000" && !state.starts_with("lost") => {
            Verdict::OtherState
        }
        (Answer::Values(a), Answer::Values(b)) if a.len() == b.len() => {
            let same = a.iter().zip(b).all(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => a == b || same_number(a, b),
                (a, b) => a == b,
            });
            if same { Verdict::OtherZeros } else { Verdict::Wrong }
        }
        _ => Verdict::Wrong,
    }
}

fn same_number(a: &str, b: &str) -> bool {
    let trimmed = |text: &str| -> Option<String> {
        let is_plain = text.trim_start_matches('-').chars().all(|c| c.is_ascii_digit() || c == '.');
        let has_point = text.contains('.');
        (is_plain && !text.is_empty()).then(|| match has_point {
            true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
            false => text.to_string(),
        })
    };
    trimmed(a).is_some() && trimmed(a) == trimmed(b)
}

fn folder() -> PathBuf {
    Path::new("../../tests/expressions").into()
}

fn read_corpus() -> Vec<Entry> {
    let text = std::fs::read_to_string(folder().join("corpus.txt")).expect("the corpus");
    let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|line| {
            // A condition says so.
            let (is_condition, parts) = match line.split_once(" =? ") {
                Some(parts) => (true, Some(parts)),
                None => (false, line.split_once(" => ")),
            };
            let (expression, answer) = parts.expect("expression => answer");
            Entry { expression: expression.into(), answer: Answer::read(answer), is_condition }
        })
        .collect()
}

/// One tally for each path, and the lines that say what differs.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<(String, Verdict), usize>,
    differences: Vec<String>,
}

impl Tally {
    fn note(&mut self, place: &str, expression: &str, wanted: &Answer, given: &Answer) {
        let verdict = verdict(wanted, given);
        *self.counts.entry((place.to_string(), verdict)).or_default() += 1;
        // Of an expression that fails, PostgreSQL may see another part fail first.
        if verdict == Verdict::Wrong || (verdict == Verdict::OtherZeros && place == "rows") {
            self.differences.push(format!(
                "{place}: {expression} => {} instead of {}",
                given.written(),
                wanted.written()
            ));
        }
    }

    fn shown(&self) -> String {
        let mut text = String::new();
        for ((place, verdict), count) in &self.counts {
            let _ = writeln!(text, "{place:<10} {verdict:?}: {count}");
        }
        text
    }
}

async fn compare(client: &Client, corpus: &[Entry]) -> Tally {
    let mut tally = Tally::default();
    for (place, name) in [(Place::Rows, "rows"), (Place::Columns, "columns")] {
        let given = answers(client, place, corpus).await;
        for (entry, given) in corpus.iter().zip(&given) {
            tally.note(name, &entry.expression, &entry.answer, given);
        }
    }
    for Entry { expression, answer, is_condition } in corpus {
        let Answer::Values(values) = answer else { continue };
        let (name, sql, wanted) = match (Generator::names_a_column(expression), is_condition) {
            (false, _) => ("constant", format!("SELECT {expression}"), vec![values[0].clone()]),
            // A condition finds the rows where it is true.
            (true, true) => {
                let found = values.iter().enumerate().filter(|(_, v)| v.as_deref() == Some("t"));
                let ids = found.map(|(i, _)| Some((i + 1).to_string())).collect();
                ("filter", format!("SELECT id FROM e WHERE {expression} ORDER BY id"), ids)
            }
            _ => continue,
        };
        let given = match ask(client, &sql, 1).await {
            Ok(mut columns) => Answer::Values(columns.remove(0)),
            Err(state) => Answer::Refused(state),
        };
        tally.note(name, expression, &Answer::Values(wanted), &given);
    }
    tally
}

#[tokio::test]
async fn the_corpus_has_one_value_everywhere() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, SETUP).await;
    let corpus = read_corpus();
    assert!(corpus.len() > 200, "the corpus is there");
    let tally = compare(&client, &corpus).await;
    let known = std::fs::read_to_string(folder().join("differences.txt")).expect("the known differences");
    let known: Vec<&str> = known.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
    let new: Vec<&String> = tally.differences.iter().filter(|d| !known.contains(&d.as_str())).collect();
    let gone: Vec<&&str> = known.iter().filter(|k| !tally.differences.iter().any(|d| d == *k)).collect();
    assert!(new.is_empty(), "{}\nanswered otherwise:\n{new:#?}", tally.shown());
    assert!(gone.is_empty(), "no longer different; take them out of differences.txt:\n{gone:#?}");
}

/// Compares with a PostgreSQL 15 that MERIDIAN_POSTGRES names; without one the corpus above has to do.
#[tokio::test]
async fn expressions_against_postgres() {
    let Ok(config) = std::env::var("MERIDIAN_POSTGRES") else { return };
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |v| v.parse().expect("a number"));
    let (seed, count) = (number("MERIDIAN_SEED", 1), number("MERIDIAN_COUNT", 1_000));
    let (postgres, connection) = tokio_postgres::connect(&config, NoTls).await.expect("PostgreSQL accepts");
    tokio::spawn(connection);
    run(&postgres, "SET timezone = 'UTC'; DROP TABLE IF EXISTS e").await;
    run(&postgres, SETUP).await;
    let mut generator = Generator::new(seed);
    let mut expressions: Vec<String> = generator::NAMED.iter().map(|e| e.to_string()).collect();
    expressions.extend((0..count).map(|_| generator.expression()));
    let mut corpus = Vec::new();
    for expression in expressions {
        let given = answer(&postgres, Place::Columns, &expression).await;
        if let Answer::Values(values) = &given {
            assert_eq!(values.len(), ROWS, "{expression}");
        }
        let of = format!("SELECT pg_typeof({expression})::text FROM e LIMIT 1");
        let is_condition = matches!(&given, Answer::Values(_))
            && ask(&postgres, &of, 1).await.is_ok_and(|c| c[0][0].as_deref() == Some("boolean"));
        corpus.push(Entry { expression, answer: given, is_condition });
    }
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, SETUP).await;
    let tally = compare(&client, &corpus).await;
    println!("{}", tally.differences.join("\n"));
    println!("{}", tally.shown());
    if std::env::var("UPDATE_EXPECT").is_ok() {
        let mut text = format!(
            "# Expressions over the table of crates/meridian/tests/wire/expressions.rs and PostgreSQL 15's answers:\n\
             # a value for each row, or ! and the SQLSTATE. Made with seed {seed}; see that file for how.\n"
        );
        for Entry { expression, answer, is_condition } in &corpus {
            let sign = if *is_condition { "=?" } else { "=>" };
            let _ = writeln!(text, "{expression} {sign} {}", answer.written());
        }
        std::fs::create_dir_all(folder()).expect("a folder");
        std::fs::write(folder().join("corpus.txt"), text).expect("written");
        let known = format!(
            "# What Meridian is known to answer otherwise than PostgreSQL 15; a line goes when its cause does.\n{}\n",
            tally.differences.join("\n")
        );
        std::fs::write(folder().join("differences.txt"), known).expect("written");
    }
}
