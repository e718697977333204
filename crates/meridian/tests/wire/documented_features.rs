//! `docs/sql-features.md` says of each feature whether it is there, with statements that need it: they are run here.
//!
//! A row of its tables is a feature, what Meridian says to the statements (`yes`, or the SQLSTATE that the last of them is
//! refused with; words behind either are the reader's), and the statements. Each row has a session and a schema of its own,
//! with the tables of the page's first block of SQL.

use crate::server::{Server, state};
use futures::TryStreamExt;
use std::path::Path;
use tokio_postgres::{Client, Error};

struct Row<'a> {
    feature: &'a str,
    said: &'a str,
    statements: String,
}

#[tokio::test]
async fn every_feature_is_there_as_the_page_says() {
    // Tests run in their package's folder.
    let page = std::fs::read_to_string(Path::new("../../docs/sql-features.md")).expect("the page is there");
    let setup =
        page.split_once("```sql\n").and_then(|(_, rest)| rest.split_once("```")).expect("a block of SQL").0;
    let rows: Vec<Row> = page.lines().filter_map(row).collect();
    assert!(rows.len() > 100, "{} rows", rows.len());
    let server = Server::start();
    let mut wrong = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        // A row makes roles; from then on others than root have to be known.
        let client = server.session_of(0, "root").await.expect("it accepts");
        let begin =
            format!("CREATE SCHEMA feature_{number}; SET search_path = feature_{number}, public; {setup}");
        run_together(&client, &begin).await.expect("the tables are made");
        let (found, words) = match try_all(&client, &row.statements).await {
            Ok(()) => ("yes".to_string(), String::new()),
            Err(error) => (
                state(&error).to_string(),
                error.as_db_error().map_or_else(|| error.to_string(), |e| e.message().into()),
            ),
        };
        if found != row.said {
            wrong.push(format!("{}: the page says {}, the server {found} {words}", row.feature, row.said));
        }
    }
    assert!(wrong.is_empty(), "{} rows of docs/sql-features.md are wrong\n{}", wrong.len(), wrong.join("\n"));
    let there = rows.iter().filter(|row| row.said == "yes").count();
    let summary = format!("{there} of {} features", rows.len());
    assert!(page.contains(&summary), "the page's first lines should say: {summary}");
}

/// `| feature | yes | statements |`; nothing of other lines.
fn row(line: &str) -> Option<Row<'_>> {
    // A `|` inside a cell is written `\|`.
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [feature, here, statements] = cells[..] else { return None };
    let statements = statements.strip_prefix('`')?.trim_matches('`').replace("\\|", "|");
    let said = here.split([' ', ':', ',']).next().expect("a first word");
    Some(Row { feature, said, statements })
}

/// Runs statements as one transaction, again when the catalog has changed meanwhile: temporary relations of a session before are
/// dropped after it has ended.
async fn run_together(client: &Client, statements: &str) -> Result<(), Error> {
    for _ in 0..20 {
        match client.batch_execute(statements).await {
            Err(error) if state(&error) == "40001" => {}
            ended => return ended,
        }
    }
    client.batch_execute(statements).await
}

/// Runs statement by statement; quoted bodies of functions are not taken apart.
async fn try_all(client: &Client, statements: &str) -> Result<(), Error> {
    if statements.contains("$$") {
        return run_together(client, statements).await;
    }
    for part in statements.split("; ") {
        match part.starts_with("COPY") {
            true => _ = client.copy_out(part).await?.try_collect::<Vec<_>>().await?,
            false => client.batch_execute(part).await?,
        }
    }
    Ok(())
}
