//! Cursors of programs: they are the session's, so that a client can go on with one that a function has opened.

use super::compiled::Compiled;
use super::parsing::unplaced;
use super::statements::of_statement;
use crate::response::Response;
use crate::session::cursor::{Keyed, Opened};
use crate::session::{Prepared, Session};
use base::error::SqlResult;
use base::{DataType, Datum, SqlError, SqlState};
use plpgsql::{Answer, Opening, QueryResult, Request, Run};
use sql::lower::scope::ParameterTypes;
use std::sync::Arc;

impl Session {
    /// What a program asks about a cursor.
    pub(super) async fn answer_cursor(
        &mut self,
        compiled: &Arc<Compiled>,
        run: &Run,
        request: Request,
    ) -> SqlResult<Answer> {
        match request {
            Request::OpenCursor { name, query, scroll } => {
                let name = self.open_cursor(compiled, run, name, query, scroll).await?;
                Ok(Answer::Result(QueryResult {
                    columns: Some(vec![("name".into(), DataType::Text)]),
                    rows: vec![vec![Datum::text(name)]],
                    count: None,
                }))
            }
            Request::Fetch { cursor, movement, is_wanted } => {
                let (columns, rows, _memory) = self.moved(&cursor, movement).await?;
                let columns = columns.iter().map(|c| (c.name.clone(), c.data_type)).collect();
                let count = Some(rows.len() as u64);
                let rows = if is_wanted { rows } else { Vec::new() };
                Ok(Answer::Result(QueryResult { columns: Some(columns), rows, count }))
            }
            Request::CloseCursor(name) => self.close_cursor(&name).map(|()| Answer::Done),
            _ => Err(SqlError::internal("a request that is not about a cursor")),
        }
    }

    /// Opens a cursor: its name. Errors: 42P03 for one that is open, 42P11 for what returns no rows.
    async fn open_cursor(
        &mut self,
        compiled: &Arc<Compiled>,
        run: &Run,
        name: Option<String>,
        query: Opening,
        scroll: Option<bool>,
    ) -> SqlResult<String> {
        if let Some(name) = name.as_ref().filter(|name| self.has_cursor(name)) {
            let message = format!("cursor \"{name}\" already in use");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let (prepared, parameters, text) = match query {
            Opening::Statement(statement) => {
                self.begin_statement();
                let (bound, parameters) = self.bound(compiled, run, statement).map_err(unplaced)?;
                (bound.prepared.clone(), parameters, compiled.program.statements[statement].sql())
            }
            Opening::Text { text, using } => {
                let (prepared, parameters) = self.prepared_text(&text, using)?;
                (prepared, parameters, text)
            }
        };
        let said = |error: SqlError| of_statement(&text, error);
        let (rows, keyed) = match self.run_for_cursor(&prepared, &parameters).await.map_err(said)? {
            (Response::Rows(rows), keyed) => (rows, keyed),
            _ => {
                let verb = text.split_whitespace().next().unwrap_or_default().to_uppercase();
                let message = format!("cannot open {verb} query as cursor");
                return Err(SqlError::new(SqlState(*b"42P11"), message));
            }
        };
        let name = name.unwrap_or_else(|| self.unnamed_cursor());
        let shown = analytics::activity::kept_text(&text);
        self.open_over(rows, Opened { name: name.clone(), shown, scroll, is_held: false, keyed }).await?;
        Ok(name)
    }

    /// Runs a cursor's query.
    async fn run_for_cursor(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Datum],
    ) -> SqlResult<(Response, Option<Keyed>)> {
        let plain = prepared.plan(self, parameters)?;
        let scalars = prepared.scalars(parameters);
        let types = prepared.parameters.iter().map(|parameter| Some(parameter.data_type)).collect();
        let (plan, keyed) = match &prepared.statement {
            // Arrays are written out in the plan that there is.
            Some(statement) if !prepared.parameters.iter().any(|parameter| parameter.is_array) => {
                self.keyed_plan(statement, ParameterTypes(types), plain)
            }
            _ => (plain, None),
        };
        Ok((Box::pin(self.run(&plan, &scalars)).await?, keyed))
    }
}
