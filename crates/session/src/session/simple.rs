//! Simple queries: texts of any number of statements.

use super::{Prepared, Session, is_stale, utility};
use crate::response::Response;
use analytics::activity;
use base::error::SqlResult;
use sql::interrupt;
use sqlparser::ast::Statement;
use std::collections::VecDeque;

/// A statement of a simple query that has not run yet.
pub(super) struct Queued {
    statement: Statement,
    /// How long it is when written out: what planning it takes follows from that.
    bytes: usize,
}

/// The statements that are still to run.
#[derive(Default)]
pub(super) struct Queue {
    statements: VecDeque<Queued>,
    /// They share one transaction.
    pub is_block: bool,
}

/// The statements of a text, and what is told of its names. Errors: those of the parser.
fn queued(sql: &str) -> SqlResult<(Queue, Vec<String>)> {
    let sql::parse::Request { statements, notices } = sql::parse::request(sql)?;
    let is_alone = statements.len() == 1;
    let bytes = |statement: &Statement| match sql.len() {
        short if is_alone || short <= interrupt::SHORT_BYTES => short,
        _ => statement.to_string().len(),
    };
    let is_block = statements.len() > 1;
    let statements = statements.into_iter().map(|statement| Queued { bytes: bytes(&statement), statement });
    Ok((Queue { statements: statements.collect(), is_block }, notices))
}

impl Session {
    /// Starts a simple query: a text of any number of statements, which are one transaction unless
    /// they say otherwise. Errors: 42601, before anything ran.
    pub fn start_simple(&mut self, sql: &str) -> SqlResult<()> {
        self.note_statement(&activity::kept_text(sql));
        let cancel = self.cancel.clone();
        cancel.begin(self.settings.statement_timeout_ms);
        let parsed = self
            .reserve_tree(sql)
            .and_then(|()| interrupt::for_text(self.gateway.threads(), &cancel, sql.len(), || queued(sql)));
        self.queue = match parsed {
            Ok((queue, notices)) => {
                self.tell_cut(notices);
                queue
            }
            Err(error) => {
                self.note_failure();
                return Err(error);
            }
        };
        Ok(())
    }

    /// Runs the next statement of the simple query; `None` at its end. After an error the rest is
    /// dropped. Read a response to its end (and finish a copy) before asking for the next.
    pub async fn next_simple(&mut self) -> Option<SqlResult<Response>> {
        let Some(next) = self.queue.statements.pop_front() else {
            self.cancel.hold(None);
            self.queue.is_block = false;
            if self.transaction.as_ref().is_some_and(|t| t.is_implicit) {
                let result = self.end_implicit().await;
                self.settle_request();
                self.settle_settings(result.is_ok());
                return result.err().map(Err);
            }
            self.settle_settings(true);
            return None;
        };
        let cancel = self.cancel.clone();
        cancel.begin(self.settings.statement_timeout_ms);
        let result = tokio::select! {
            biased;
            result = self.run_statement(next) => result,
            error = cancel.wait() => Err(error),
        };
        Some(match self.finish(result) {
            Err(error) => {
                self.queue = Queue::default();
                Err(self.give_up_implicit(error).await)
            }
            done => done,
        })
    }

    /// Plans and runs one statement without parameters.
    async fn run_statement(&mut self, next: Queued) -> SqlResult<Response> {
        let Queued { statement, bytes } = next;
        self.refuse_if_failed(&statement)?;
        if self.queue.is_block && self.transaction.is_none() && utility::joins_block(&statement) {
            self.begin(self.settings.read_only, true);
            let rest = self.queue.statements.iter().map(|queued| &queued.statement);
            let only_reads = std::iter::once(&statement).chain(rest).all(utility::only_reads);
            self.open().only_reads = only_reads;
        }
        let mut retries = 0;
        // A COMMIT that failed is no transaction's end any more: it is not said again.
        let is_alone = self.transaction.is_none();
        loop {
            self.look_up_catalog();
            self.refuse_changed(&statement)?;
            let cancel = self.cancel.clone();
            let plan = interrupt::for_text(self.gateway.threads(), &cancel, bytes, || {
                Prepared::plan_once(self, &statement)
            })?;
            self.begin_statement();
            match self.run(&plan, &[]).await {
                Err(e) if is_stale(&e) && is_alone && self.transaction.is_none() && retries < 16 => {
                    self.await_catalog(retries).await?;
                    retries += 1;
                }
                result => return result,
            }
        }
    }

    /// All responses of a simple query.
    pub async fn simple(&mut self, sql: &str) -> Vec<SqlResult<Response>> {
        if let Err(e) = self.start_simple(sql) {
            return vec![Err(e)];
        }
        let mut responses = Vec::new();
        while let Some(response) = self.next_simple().await {
            responses.push(response);
        }
        responses
    }
}
