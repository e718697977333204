//! Statements that programs run.

use super::binding::as_parameter;
use super::compiled::Compiled;
use super::parsing::{parsed, refuse, unplaced};
use crate::response::{Response, RowStream};
use crate::session::{Prepared, Session};
use base::error::SqlResult;
use base::{Datum, SqlError, SqlState};
use plpgsql::{QueryResult, Run, Value, Wants};
use sql::interrupt;
use std::sync::Arc;

/// An error of a statement, which says in which one it is.
pub(super) fn of_statement(text: &str, error: SqlError) -> SqlError {
    let mut error = unplaced(error);
    let shown = format!("SQL statement \"{text}\"");
    error.context = Some(match error.context.take() {
        Some(inner) => format!("{inner}\n{shown}"),
        None => shown,
    });
    error
}

/// Rows that a tag counts.
fn counted(tag: &str) -> Option<u64> {
    tag.rsplit(' ').next().and_then(|count| count.parse().ok())
}

impl Session {
    /// Runs a statement of a program.
    pub(super) async fn execute_of(
        &mut self,
        compiled: &Arc<Compiled>,
        run: &Run,
        statement: usize,
        wants: Wants,
    ) -> SqlResult<QueryResult> {
        let of = &compiled.program.statements[statement];
        // PERFORM is a statement of its own; the others are evaluated inside of one.
        let is_evaluated = of.is_expression && wants != Wants::Count;
        let said = |error: SqlError| match is_evaluated {
            true => unplaced(error),
            false => of_statement(&of.sql(), error),
        };
        if !is_evaluated {
            self.begin_statement();
        }
        let (bound, parameters) = self.bound(compiled, run, statement).map_err(unplaced)?;
        self.execute_prepared(&bound.prepared, parameters, wants).await.map_err(said)
    }

    /// Runs a text that a program has made.
    pub(super) async fn execute_text(
        &mut self,
        text: &str,
        using: Vec<Value>,
        wants: Wants,
    ) -> SqlResult<QueryResult> {
        if text.trim().is_empty() {
            return Ok(QueryResult::default());
        }
        let (prepared, parameters) = self.prepared_text(text, using)?;
        self.execute_prepared(&prepared, parameters, wants).await.map_err(|error| of_statement(text, error))
    }

    /// A text that a program has made, with the values of its parameters.
    pub(super) fn prepared_text(
        &mut self,
        text: &str,
        using: Vec<Value>,
    ) -> SqlResult<(Arc<Prepared>, Vec<Datum>)> {
        self.begin_statement();
        let zone = self.settings.zone;
        let (hints, parameters): (Vec<_>, Vec<_>) =
            using.into_iter().map(|value| as_parameter(value, zone)).unzip();
        let hints: Vec<_> = hints.into_iter().map(Some).collect();
        self.reserve_tree(text)?;
        // A program can make a text of any length.
        let prepare = || {
            let statement = parsed(text)?;
            refuse(&statement)?;
            Prepared::new(self, text, Some(statement), &hints).map_err(unplaced)
        };
        let prepared = interrupt::for_text(self.gateway.threads(), &self.cancel, text.len(), prepare)?;
        if prepared.parameters.len() > parameters.len() {
            let message = format!("there is no parameter ${}", parameters.len() + 1);
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message));
        }
        Ok((Arc::new(prepared), parameters))
    }

    async fn execute_prepared(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: Vec<Datum>,
        wants: Wants,
    ) -> SqlResult<QueryResult> {
        let plan = prepared.plan(self, &parameters)?;
        let response = Box::pin(self.run(&plan, &prepared.scalars(&parameters))).await?;
        match response {
            Response::Rows(mut rows) => {
                let columns = rows.columns.iter().map(|c| (c.name.clone(), c.data_type)).collect();
                let (rows, count) = self.wanted(&mut rows.stream, wants).await?;
                Ok(QueryResult { columns: Some(columns), rows, count: Some(count) })
            }
            Response::Command(tag) => {
                Ok(QueryResult { columns: None, rows: Vec::new(), count: counted(&tag) })
            }
            Response::Empty => Ok(QueryResult::default()),
            Response::CopyIn(_) | Response::CopyOut(_) => Err(SqlError::unsupported("COPY in PL/pgSQL")),
        }
    }

    /// The rows that a program wants, and how many were seen.
    async fn wanted(&mut self, stream: &mut RowStream, wants: Wants) -> SqlResult<(Vec<Vec<Datum>>, u64)> {
        match wants {
            Wants::All => {
                let rows = self.collected(stream).await?;
                let count = rows.len() as u64;
                Ok((rows, count))
            }
            Wants::First(most) => {
                let mut rows = stream.next_rows(most).await?;
                while !rows.is_empty() && rows.len() < most {
                    let more = stream.next_rows(most - rows.len()).await?;
                    if more.is_empty() {
                        break;
                    }
                    rows.extend(more);
                }
                let count = rows.len() as u64;
                Ok((rows, count))
            }
            Wants::Count => {
                let mut count = 0;
                loop {
                    match stream.next_rows(1_024).await?.len() {
                        0 => return Ok((Vec::new(), count)),
                        some => count += some as u64,
                    }
                }
            }
        }
    }
}
