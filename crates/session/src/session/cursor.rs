//! SQL cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! KEEPS: a cursor shows the rows that its query had when it was declared, whatever its transaction writes
//! later. One without SCROLL goes forward only, and its rows are computed as they are asked for; one with
//! SCROLL or WITH HOLD has all its rows from the start. Cursors end with their transaction; those WITH HOLD
//! outlive one that commits.

use super::Session;
use super::plan::{self, Plan};
use crate::response::{Response, RowStream, Rows};
use analytics::{RowsMemory, row_bytes};
use base::error::{SqlResult, SqlState};
use base::{Datum, SqlError};
use sql::lower::scope::ParameterTypes;
use sql::names;
use sql::types::Column;
use sqlparser::ast::{self, FetchDirection, Statement};
use std::sync::{Arc, Mutex};

/// An open cursor.
pub(super) struct Cursor {
    columns: Arc<Vec<Column>>,
    rows: CursorRows,
    /// Its DECLARE, and when that was.
    shown: Arc<str>,
    declared_us: i64,
    is_scrollable: bool,
    /// Rows passed: 0 before the first, one more than there are behind the last.
    position: u64,
    is_held: bool,
    /// The transaction that declared it is not over.
    is_new: bool,
}

enum CursorRows {
    /// Nobody but the cursor's owner asks it; the lock lets sessions be looked at from other threads.
    Forward(Mutex<RowStream>),
    /// With the memory that they take.
    Scroll { rows: Vec<Vec<Datum>>, _memory: RowsMemory },
}

/// What a FETCH or MOVE asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    /// So many rows on, or back.
    Rows(i64),
    /// The n-th row, from the end if negative.
    Absolute(i64),
    /// The n-th row from here.
    Relative(i64),
}

/// Cursors that a session may have at once.
const CURSORS_MAX: usize = 1_000;

/// All the rows there are.
const ALL: i64 = i64::MAX;

impl Session {
    pub(super) async fn run_cursor_statement(
        &mut self,
        statement: &Statement,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        match statement {
            Statement::Declare { stmts } => match stmts.as_slice() {
                [declare] => self.declare(declare, parameters).await,
                _ => Err(SqlError::unsupported("DECLARE of several cursors")),
            },
            Statement::Fetch { name, direction, into, .. } => {
                let is_move =
                    into.as_ref().is_some_and(|i| names::parts(i).is_ok_and(|p| p == [sql::parse::MOVE]));
                if into.is_some() && !is_move {
                    return Err(SqlError::unsupported("FETCH … INTO"));
                }
                self.fetch_cursor(name, direction, is_move).await
            }
            Statement::Close { cursor } => self.close_cursor(cursor),
            other => Err(SqlError::unsupported(sql::ddl::first_words(other))),
        }
    }

    async fn declare(&mut self, declare: &ast::Declare, parameters: &[Datum]) -> SqlResult<Response> {
        let [name] = declare.names.as_slice() else {
            return Err(SqlError::unsupported("DECLARE of several cursors"));
        };
        let mut statement = declared_query(declare)?;
        let name = names::fold(name);
        let is_held = declare.hold == Some(true);
        if declare.binary == Some(true) {
            return Err(SqlError::unsupported("a BINARY cursor"));
        }
        if !is_held && self.transaction.as_ref().is_none_or(|t| t.is_implicit && !self.queue.is_block) {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if self.cursors.contains_key(&name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{name}\" already exists"),
            ));
        }
        if self.cursors.len() >= CURSORS_MAX {
            return Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, "too many cursors")
                .detail(format!("One session may have {CURSORS_MAX} cursors."))
                .hint("CLOSE those that are not needed any more."));
        }
        let catalog = self.catalog();
        let mut types = ParameterTypes(parameters.iter().map(sql::types::type_of).collect());
        self.knowing_types(&catalog, || sql::arrays::write_out(&mut statement, &Default::default()))?;
        let plan = plan::plan(&self.context(&catalog), &statement, &mut types)?;
        if matches!(plan, Plan::Utility(_)) {
            return Err(not_of_query());
        }
        let Response::Rows(mut rows) = Box::pin(self.run(&plan, parameters)).await? else {
            return Err(SqlError::internal("a query answers rows"));
        };
        if let RowStream::Batches(batches) = &mut rows.stream {
            // Each FETCH is guarded by itself.
            batches.guard(None);
        }
        let rows_now = match is_held || declare.scroll == Some(true) {
            true => {
                let memory = self.gateway.rows_memory("rows of a cursor");
                let rows = rows.stream.collect_within(&memory).await?;
                CursorRows::Scroll { rows, _memory: memory }
            }
            false => CursorRows::Forward(Mutex::new(rows.stream)),
        };
        let columns = rows.columns;
        // Outside a block it is a transaction of its own, which is over.
        let is_new = self.transaction.is_some();
        let shown = Statement::Declare { stmts: vec![declare.clone()] }.to_string();
        let cursor = Cursor {
            columns,
            is_scrollable: matches!(rows_now, CursorRows::Scroll { .. }) && declare.scroll != Some(false),
            rows: rows_now,
            shown: analytics::activity::kept_text(&shown),
            declared_us: self.times().statement_us,
            position: 0,
            is_held,
            is_new,
        };
        self.cursors.insert(name, cursor);
        Ok(Response::Command("DECLARE CURSOR".into()))
    }

    async fn fetch_cursor(
        &mut self,
        name: &ast::Ident,
        direction: &FetchDirection,
        is_move: bool,
    ) -> SqlResult<Response> {
        let name = names::fold(name);
        let wanted = wanted(direction)?;
        let cursor = self.cursors.get_mut(&name).ok_or_else(|| no_cursor(&name))?;
        let memory = self.gateway.rows_memory("rows that are fetched");
        let rows = cursor.take(wanted, &memory).await?;
        if is_move {
            return Ok(Response::Command(format!("MOVE {}", rows.len())));
        }
        let columns = cursor.columns.clone();
        let stream = RowStream::Values(rows.into_iter(), Some(memory));
        Ok(Response::Rows(Rows { columns, stream, tag: "FETCH" }))
    }

    fn close_cursor(&mut self, cursor: &ast::CloseCursor) -> SqlResult<Response> {
        match cursor {
            ast::CloseCursor::All => {
                self.cursors.clear();
                Ok(Response::Command("CLOSE CURSOR ALL".into()))
            }
            ast::CloseCursor::Specific { name } => {
                let name = names::fold(name);
                self.cursors.remove(&name).ok_or_else(|| no_cursor(&name))?;
                Ok(Response::Command("CLOSE CURSOR".into()))
            }
        }
    }

    /// Columns of an open cursor.
    pub fn cursor_columns(&self, name: &str) -> Option<Arc<Vec<Column>>> {
        self.cursors.get(name).map(|cursor| cursor.columns.clone())
    }

    /// The transaction is over.
    pub(super) fn end_cursors(&mut self, has_committed: bool) {
        self.cursors.retain(|_, cursor| cursor.is_held && (has_committed || !cursor.is_new));
        self.cursors.values_mut().for_each(|cursor| cursor.is_new = false);
    }
}

impl Cursor {
    /// Its row of `pg_cursors`.
    pub fn row(&self, name: &str) -> Vec<Datum> {
        vec![
            Datum::text(name),
            Datum::Text(self.shown.clone()),
            Datum::Bool(self.is_held),
            Datum::Bool(false),
            Datum::Bool(self.is_scrollable),
            Datum::Timestamp(self.declared_us),
        ]
    }

    async fn take(&mut self, wanted: Wanted, memory: &RowsMemory) -> SqlResult<Vec<Vec<Datum>>> {
        match &mut self.rows {
            CursorRows::Scroll { rows, .. } => Ok(scroll(rows, &mut self.position, wanted)),
            CursorRows::Forward(stream) => {
                let stream = stream.get_mut().expect("nobody panics with it");
                let (skipped, count) = match wanted {
                    Wanted::Rows(n) if n > 0 => (0, n),
                    Wanted::Relative(n) if n > 0 => (n - 1, 1),
                    Wanted::Absolute(n) if n > 0 && n as u64 > self.position => {
                        (n - 1 - self.position as i64, 1)
                    }
                    _ => {
                        return Err(SqlError::new(
                            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                            "cursor can only scan forward",
                        )
                        .hint("Declare it with SCROLL option to enable backward scan."));
                    }
                };
                let mut rows = Vec::new();
                let (mut to_skip, mut left) = (skipped as u64, count as u64);
                while left > 0 {
                    let portion = if to_skip > 0 { to_skip } else { left }.min(8192);
                    let next = stream.next_rows(portion as usize).await?;
                    if next.is_empty() {
                        // A stream that has ended is not asked again.
                        *stream = RowStream::empty();
                        break;
                    }
                    self.position += next.len() as u64;
                    match to_skip {
                        0 => {
                            left -= next.len() as u64;
                            memory.grow(next.iter().map(|row| row_bytes(row)).sum())?;
                            rows.extend(next);
                        }
                        _ => to_skip -= next.len() as u64,
                    }
                }
                Ok(rows)
            }
        }
    }
}

/// Moves over rows that are all there, and shows those on the way.
fn scroll(rows: &[Vec<Datum>], position: &mut u64, wanted: Wanted) -> Vec<Vec<Datum>> {
    let end = rows.len() as i64 + 1;
    let at = *position as i64;
    let one = |to: i64| {
        let to = to.clamp(0, end);
        (to, rows.get((to - 1).max(-1) as usize).filter(|_| to > 0).cloned().into_iter().collect())
    };
    let (to, shown): (i64, Vec<Vec<Datum>>) = match wanted {
        Wanted::Rows(0) | Wanted::Relative(0) => one(at),
        Wanted::Rows(n) if n > 0 => {
            let to = at.saturating_add(n).min(end);
            let shown = (at + 1..=to).filter_map(|k| rows.get(k as usize - 1).cloned()).collect();
            (to, shown)
        }
        Wanted::Rows(n) => {
            let to = at.saturating_add(n).max(0);
            let shown = (to.max(1)..at).rev().filter_map(|k| rows.get(k as usize - 1).cloned()).collect();
            (to, shown)
        }
        Wanted::Absolute(n) if n < 0 => one(end.saturating_add(n)),
        Wanted::Absolute(n) => one(n),
        Wanted::Relative(n) => one(at.saturating_add(n)),
    };
    *position = to as u64;
    shown
}

fn wanted(direction: &FetchDirection) -> SqlResult<Wanted> {
    let number = |limit: &ast::ValueWithSpan| {
        let text = limit.to_string();
        text.parse::<i64>()
            .map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{text}\"")))
    };
    let some = |limit: &Option<ast::ValueWithSpan>| limit.as_ref().map_or(Ok(1), number);
    Ok(match direction {
        FetchDirection::Next => Wanted::Rows(1),
        FetchDirection::Prior => Wanted::Rows(-1),
        FetchDirection::Count { limit } => Wanted::Rows(number(limit)?),
        FetchDirection::All | FetchDirection::ForwardAll => Wanted::Rows(ALL),
        FetchDirection::BackwardAll => Wanted::Rows(-ALL),
        FetchDirection::Forward { limit } => Wanted::Rows(some(limit)?),
        FetchDirection::Backward { limit } => Wanted::Rows(-some(limit)?),
        FetchDirection::First => Wanted::Absolute(1),
        FetchDirection::Last => Wanted::Absolute(-1),
        FetchDirection::Absolute { limit } => Wanted::Absolute(number(limit)?),
        FetchDirection::Relative { limit } => Wanted::Relative(number(limit)?),
    })
}

/// The query that a cursor is declared for. Errors: 0A000 for one that does more than to read.
pub(super) fn declared_query(declare: &ast::Declare) -> SqlResult<Statement> {
    let Some(query) = &declare.for_query else {
        return Err(SqlError::unsupported("DECLARE of anything but a cursor"));
    };
    if sql::with::writes(query) {
        let told = "DECLARE CURSOR must not contain data-modifying statements in WITH";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
    }
    if plan::is_select_into(query) {
        return Err(not_of_query());
    }
    Ok(Statement::Query(query.clone()))
}

fn not_of_query() -> SqlError {
    SqlError::unsupported("a cursor over anything but a query")
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState(*b"34000"), format!("cursor \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_scrolls_as_in_postgresql() {
        let rows: Vec<Vec<Datum>> = (1..=3).map(|n| vec![Datum::Int(n)]).collect();
        let mut position = 0;
        let mut step = |wanted| {
            let shown = scroll(&rows, &mut position, wanted);
            (shown.iter().map(|row| row[0].int()).collect::<Vec<_>>(), position)
        };
        for (wanted, shown, position) in [
            (Wanted::Rows(0), vec![], 0),
            (Wanted::Rows(2), vec![1, 2], 2),
            (Wanted::Rows(0), vec![2], 2),
            (Wanted::Rows(-1), vec![1], 1),
            (Wanted::Rows(-1), vec![], 0),
            (Wanted::Rows(ALL), vec![1, 2, 3], 4),
            (Wanted::Rows(1), vec![], 4),
            (Wanted::Rows(-ALL), vec![3, 2, 1], 0),
            (Wanted::Absolute(-1), vec![3], 3),
            (Wanted::Relative(-2), vec![1], 1),
            (Wanted::Absolute(9), vec![], 4),
            (Wanted::Absolute(-9), vec![], 0),
            (Wanted::Absolute(2), vec![2], 2),
            (Wanted::Relative(0), vec![2], 2),
        ] {
            assert_eq!(step(wanted), (shown, position), "{wanted:?}");
        }
    }
}
