//! Prepared statements of one connection, and attempts that are tried again.

use crate::measure::{Done, End};
use crate::server::{explain, is_missing_schema};
use anyhow::anyhow;
use std::collections::HashMap;
use std::future::Future;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

/// A connection that prepares each text once.
pub struct Connection {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
}

/// Arguments with their types: the server is told, so that it need not infer.
pub type Arguments<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

impl Connection {
    pub fn new(client: Client) -> Connection {
        Connection { client, prepared: HashMap::new() }
    }
    pub fn client(&self) -> &Client {
        &self.client
    }
    async fn statement(&mut self, sql: &'static str, arguments: Arguments<'_>) -> Result<Statement, Error> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let types: Vec<Type> = arguments.iter().map(|(_, t)| t.clone()).collect();
        let statement = self.client.prepare_typed(sql, &types).await?;
        self.prepared.insert(sql, statement.clone());
        Ok(statement)
    }
    /// Rows of a prepared statement.
    pub async fn query(&mut self, sql: &'static str, arguments: Arguments<'_>) -> Result<Vec<Row>, Error> {
        let statement = self.statement(sql, arguments).await?;
        let values: Vec<&(dyn ToSql + Sync)> = arguments.iter().map(|(value, _)| *value).collect();
        self.client.query(&statement, &values).await
    }
    /// Runs a prepared statement without rows; the number of rows it changed.
    pub async fn execute(&mut self, sql: &'static str, arguments: Arguments<'_>) -> Result<u64, Error> {
        let statement = self.statement(sql, arguments).await?;
        let values: Vec<&(dyn ToSql + Sync)> = arguments.iter().map(|(value, _)| *value).collect();
        self.client.execute(&statement, &values).await
    }
    /// A statement without arguments or rows, by the simple protocol: BEGIN, COMMIT, ROLLBACK.
    pub async fn simple(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await
    }
}

/// What one attempt came to.
#[derive(Debug)]
pub enum Attempt {
    Committed { rows: u64 },
    RolledBack,
}

/// Why an attempt failed.
#[derive(Debug)]
pub enum Failure {
    Server(Error),
    /// The server's answer is not what the workload needs, e.g. a row that must exist is missing.
    Wrong(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Server(error)
    }
}

/// True if the same transaction may succeed when it is tried again.
fn is_retryable(error: &Error) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
        .iter()
        .any(|state| error.code() == Some(state))
}

/// Counts the attempts of one piece of work.
pub struct Attempts {
    kind: usize,
    retries_left: u32,
    retried: Vec<String>,
}

impl Attempts {
    pub fn new(kind: usize, retries: u32) -> Attempts {
        Attempts { kind, retries_left: retries, retried: Vec::new() }
    }

    /// Takes the result of one attempt: done, or `None` for another one.
    ///
    /// # Errors
    /// A lost connection and a missing schema end the client.
    pub fn judge(&mut self, result: Result<Attempt, Failure>) -> anyhow::Result<Option<Done>> {
        let failed = |state: String, message: String| End::Failed { state, message };
        let (end, rows) = match result {
            Ok(Attempt::Committed { rows }) => (End::Committed, rows),
            Ok(Attempt::RolledBack) => (End::RolledBack, 0),
            Err(Failure::Wrong(message)) => (failed("wrong answer".into(), message), 0),
            Err(Failure::Server(error)) => {
                if is_retryable(&error) && self.retries_left > 0 {
                    self.retries_left -= 1;
                    self.retried.push(error.code().map_or("?", |state| state.code()).into());
                    return Ok(None);
                }
                if error.is_closed() || error.as_db_error().is_none() {
                    return Err(explain(error).context("a client lost its connection"));
                }
                if is_missing_schema(&error) {
                    let advice =
                        "the schema is not what this benchmark needs; add --load --drop to make it anew";
                    return Err(anyhow!("{:#}\n{advice}", explain(error)));
                }
                let state = error.code().map_or("?", |state| state.code()).to_string();
                (failed(state, format!("{:#}", explain(error))), 0)
            }
        };
        Ok(Some(Done {
            kind: self.kind,
            end,
            retried: std::mem::take(&mut self.retried),
            rows,
            ..Done::default()
        }))
    }
}

/// Autocommitted work, tried again until it is done.
pub async fn with_retries<F, Fut>(kind: usize, retries: u32, mut attempt: F) -> anyhow::Result<Done>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Attempt, Failure>>,
{
    let mut attempts = Attempts::new(kind, retries);
    loop {
        let result = attempt().await;
        if let Some(done) = attempts.judge(result)? {
            return Ok(done);
        }
    }
}

/// The value in a column, or [`Failure::Wrong`].
pub fn value<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, Failure> {
    row.try_get(column).map_err(|error| Failure::Wrong(format!("column {}: {error}", column + 1)))
}

/// The only row of an answer, or [`Failure::Wrong`].
pub fn one<'a>(rows: &'a [Row], what: &str) -> Result<&'a Row, Failure> {
    match rows {
        [row] => Ok(row),
        _ => Err(Failure::Wrong(format!("{} rows of {what} where one was expected", rows.len()))),
    }
}
