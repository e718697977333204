//! SQL cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! KEEPS: a cursor shows the rows that its query had when it was declared, whatever its transaction writes
//! later. One without SCROLL has its rows computed as they are asked for, and keeps those that it has passed while they
//! are small, so that it can go back; one with SCROLL or WITH HOLD has all its rows from the start. Cursors end with
//! their transaction; those WITH HOLD outlive one that commits.

mod keyed;
mod opened;

use super::Session;
use super::plan::{self, Plan};
use crate::response::{Response, RowStream, Rows};
use analytics::{RowsMemory, row_bytes};
use base::error::{SqlResult, SqlState};
use base::{Datum, SqlError};
pub(super) use keyed::Keyed;
pub(super) use opened::Cursors;
use plpgsql::Movement;
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
    /// Cursors of its session that were opened before it.
    number: u64,
    /// The key of a table's row stands behind the columns of each row.
    keyed: Option<Keyed>,
    /// That of the row that it stands on.
    key: Option<Vec<Datum>>,
}

enum CursorRows {
    /// Nobody but the cursor's owner asks it; the lock lets sessions be looked at from other threads.
    Forward { stream: Mutex<RowStream>, is_over: bool, passed: Option<Passed> },
    /// With the memory that they take.
    Scroll { rows: Vec<Vec<Datum>>, _memory: RowsMemory },
}

/// Rows that a cursor without SCROLL has passed, all of them.
struct Passed {
    rows: Vec<Vec<Datum>>,
    memory: RowsMemory,
}

/// How a cursor is opened.
pub(super) struct Opened {
    pub name: String,
    /// Its DECLARE.
    pub shown: Arc<str>,
    /// SCROLL and NO SCROLL.
    pub scroll: Option<bool>,
    pub is_held: bool,
    pub keyed: Option<Keyed>,
}

/// Bytes of rows that a cursor without SCROLL keeps to go back.
const PASSED_MAX: usize = 4 << 20;

/// Cursors that a session may have at once.
const CURSORS_MAX: usize = 1_000;

/// Columns of a cursor, rows that it has passed, and the memory that they take.
pub(super) type Fetched = (Arc<Vec<Column>>, Vec<Vec<Datum>>, RowsMemory);

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
            Statement::Close { cursor } => self.run_close(cursor),
            Statement::Update(_) | Statement::Delete(_) => self.run_at_cursor(statement, parameters).await,
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
        let catalog = self.catalog();
        let mut types = ParameterTypes(parameters.iter().map(sql::types::type_of).collect());
        self.knowing_types(&catalog, || sql::arrays::write_out(&mut statement, &Default::default()))?;
        let given = types.clone();
        let plan = plan::plan(&self.context(&catalog), &statement, &mut types)?;
        if matches!(plan, Plan::Utility(_)) {
            return Err(not_of_query());
        }
        // One row that is computed is not gone back to.
        let no_scroll = matches!(plan, Plan::Constant(_)).then_some(false);
        let (plan, keyed) = self.keyed_plan(&statement, given, Arc::new(plan));
        let Response::Rows(rows) = Box::pin(self.run(&plan, parameters)).await? else {
            return Err(SqlError::internal("a query answers rows"));
        };
        let shown = Statement::Declare { stmts: vec![declare.clone()] }.to_string();
        let shown = analytics::activity::kept_text(&shown);
        let scroll = declare.scroll.or(no_scroll);
        self.open_over(rows, Opened { name, shown, scroll, is_held, keyed }).await?;
        Ok(Response::Command("DECLARE CURSOR".into()))
    }

    /// Opens a cursor over the rows of its query. Errors: 53400 for too many cursors, 53200.
    pub(super) async fn open_over(&mut self, mut rows: Rows, opened: Opened) -> SqlResult<()> {
        let Opened { name, shown, scroll, is_held, keyed } = opened;
        if self.cursors.len() >= CURSORS_MAX {
            return Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, "too many cursors")
                .detail(format!("One session may have {CURSORS_MAX} cursors."))
                .hint("CLOSE those that are not needed any more."));
        }
        if let RowStream::Batches(batches) = &mut rows.stream {
            // Each FETCH is guarded by itself.
            batches.guard(None);
        }
        let memory = self.gateway.rows_memory("rows of a cursor");
        let rows_now = match is_held || scroll == Some(true) {
            true => {
                let rows = rows.stream.collect_within(&memory).await?;
                CursorRows::Scroll { rows, _memory: memory }
            }
            false => {
                let goes_back = scroll.is_none() && !keyed.as_ref().is_some_and(Keyed::is_locking);
                let passed = goes_back.then(|| Passed { rows: Vec::new(), memory });
                CursorRows::Forward { stream: Mutex::new(rows.stream), is_over: false, passed }
            }
        };
        let shown_columns = rows.columns.len() - keyed.as_ref().map_or(0, Keyed::columns);
        let columns = match keyed {
            Some(_) => Arc::new(rows.columns[..shown_columns].to_vec()),
            None => rows.columns,
        };
        let is_scrollable = match &rows_now {
            CursorRows::Scroll { .. } => scroll != Some(false),
            CursorRows::Forward { passed, .. } => passed.is_some(),
        };
        let number = self.cursors.next_number();
        let cursor = Cursor {
            columns,
            is_scrollable,
            rows: rows_now,
            shown,
            declared_us: self.times().statement_us,
            position: 0,
            is_held,
            // Outside a block it is a transaction of its own, which is over.
            is_new: self.transaction.is_some(),
            number,
            keyed,
            key: None,
        };
        self.cursors.insert(name, cursor);
        Ok(())
    }

    async fn fetch_cursor(
        &mut self,
        name: &ast::Ident,
        direction: &FetchDirection,
        is_move: bool,
    ) -> SqlResult<Response> {
        let (columns, rows, memory) = self.moved(&names::fold(name), wanted(direction)?).await?;
        if is_move {
            return Ok(Response::Command(format!("MOVE {}", rows.len())));
        }
        let stream = RowStream::Values(rows.into_iter(), Some(memory));
        Ok(Response::Rows(Rows { columns, stream, tag: "FETCH" }))
    }

    /// Moves a cursor: its columns, the rows on the way, and the memory that they take. Errors: 34000, 55000.
    pub(super) async fn moved(&mut self, name: &str, wanted: Movement) -> SqlResult<Fetched> {
        let memory = self.gateway.rows_memory("rows that are fetched");
        let cursor = self.cursors.get_mut(name).ok_or_else(|| no_cursor(name))?;
        let rows = cursor.take(wanted, &memory).await?;
        Ok((cursor.columns.clone(), rows, memory))
    }

    /// Closes a cursor. Errors: 34000.
    pub(super) fn close_cursor(&mut self, name: &str) -> SqlResult<()> {
        self.cursors.remove(name).map(drop).ok_or_else(|| no_cursor(name))
    }

    pub(super) fn has_cursor(&self, name: &str) -> bool {
        self.cursors.contains_key(name)
    }

    /// A name for a cursor that has none.
    pub(super) fn unnamed_cursor(&self) -> String {
        let mut names = (1_u64..).map(|n| format!("<unnamed portal {n}>"));
        names.find(|name| !self.cursors.contains_key(name)).expect("there are more numbers than cursors")
    }

    /// How many cursors were opened so far, as [`Session::close_since`] takes it.
    pub(super) fn cursors_so_far(&self) -> u64 {
        self.cursors.so_far()
    }

    /// What was opened since is undone.
    pub(super) fn close_since(&mut self, before: u64) {
        self.cursors.retain(|_, cursor| cursor.number < before);
    }

    fn run_close(&mut self, cursor: &ast::CloseCursor) -> SqlResult<Response> {
        match cursor {
            ast::CloseCursor::All => {
                self.cursors.clear();
                Ok(Response::Command("CLOSE CURSOR ALL".into()))
            }
            ast::CloseCursor::Specific { name } => {
                self.close_cursor(&names::fold(name))?;
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

    /// Moves, and answers the rows on the way. Errors: 55000 where it cannot go back.
    async fn take(&mut self, wanted: Movement, memory: &RowsMemory) -> SqlResult<Vec<Vec<Datum>>> {
        if !self.goes_on(wanted) {
            self.keep_all().await?;
        }
        let shown = self.columns.len();
        let mut rows = match &mut self.rows {
            CursorRows::Scroll { rows, .. } => {
                let taken = scroll(rows, &mut self.position, wanted);
                let at = self.position.checked_sub(1).and_then(|at| rows.get(at as usize));
                self.key = at.map(|row| row[shown..].to_vec());
                taken
            }
            CursorRows::Forward { .. } => self.take_on(wanted, memory).await?,
        };
        if self.keyed.is_some() {
            rows.iter_mut().for_each(|row| row.truncate(shown));
        }
        Ok(rows)
    }

    /// Whether a movement leads to rows that were not passed.
    fn goes_on(&self, wanted: Movement) -> bool {
        match wanted {
            Movement::Rows(n) | Movement::Relative(n) => n > 0,
            Movement::Absolute(n) => n > 0 && n as u64 > self.position,
        }
    }

    /// Has all rows from now on. Errors: 55000 if some that were passed are gone.
    async fn keep_all(&mut self) -> SqlResult<()> {
        let CursorRows::Forward { stream, is_over, passed } = &mut self.rows else { return Ok(()) };
        let Some(Passed { mut rows, memory }) = passed.take() else {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cursor can only scan forward",
            )
            .hint("Declare it with SCROLL option to enable backward scan."));
        };
        // The place behind the last row is one of its own.
        self.position += u64::from(*is_over);
        let stream = stream.get_mut().expect("nobody panics with it");
        rows.extend(stream.collect_within(&memory).await?);
        self.rows = CursorRows::Scroll { rows, _memory: memory };
        Ok(())
    }

    /// The same for rows that are computed on the way.
    async fn take_on(&mut self, wanted: Movement, memory: &RowsMemory) -> SqlResult<Vec<Vec<Datum>>> {
        let CursorRows::Forward { stream, is_over, passed } = &mut self.rows else {
            return Err(SqlError::internal("all rows of the cursor are there"));
        };
        let stream = stream.get_mut().expect("nobody panics with it");
        let (skipped, count) = match wanted {
            Movement::Rows(n) => (0, n),
            Movement::Relative(n) => (n - 1, 1),
            Movement::Absolute(n) => (n - 1 - self.position as i64, 1),
        };
        let mut rows = Vec::new();
        let (mut to_skip, mut left) = (skipped as u64, count as u64);
        while left > 0 {
            let portion = if to_skip > 0 { to_skip } else { left }.min(8192);
            let next = stream.next_rows(portion as usize).await?;
            let Some(last) = next.last() else {
                // A stream that has ended is not asked again.
                (*stream, *is_over, self.key) = (RowStream::empty(), true, None);
                break;
            };
            self.position += next.len() as u64;
            self.key = Some(last[self.columns.len()..].to_vec());
            Passed::keep(passed, &next)?;
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

impl Passed {
    /// Keeps more rows, or none at all if they are too many. Errors: 53200.
    fn keep(passed: &mut Option<Passed>, next: &[Vec<Datum>]) -> SqlResult<()> {
        let Some(kept) = passed else { return Ok(()) };
        let bytes: usize = next.iter().map(|row| row_bytes(row)).sum();
        if kept.memory.bytes() + bytes > PASSED_MAX {
            *passed = None;
            return Ok(());
        }
        kept.memory.grow(bytes)?;
        kept.rows.extend_from_slice(next);
        Ok(())
    }
}

/// Moves over rows that are all there, and shows those on the way.
fn scroll(rows: &[Vec<Datum>], position: &mut u64, wanted: Movement) -> Vec<Vec<Datum>> {
    let end = rows.len() as i64 + 1;
    let at = *position as i64;
    let one = |to: i64| {
        let to = to.clamp(0, end);
        (to, rows.get((to - 1).max(-1) as usize).filter(|_| to > 0).cloned().into_iter().collect())
    };
    let (to, shown): (i64, Vec<Vec<Datum>>) = match wanted {
        Movement::Rows(0) | Movement::Relative(0) => one(at),
        Movement::Rows(n) if n > 0 => {
            let to = at.saturating_add(n).min(end);
            let shown = (at + 1..=to).filter_map(|k| rows.get(k as usize - 1).cloned()).collect();
            (to, shown)
        }
        Movement::Rows(n) => {
            let to = at.saturating_add(n).max(0);
            let shown = (to.max(1)..at).rev().filter_map(|k| rows.get(k as usize - 1).cloned()).collect();
            (to, shown)
        }
        Movement::Absolute(n) if n < 0 => one(end.saturating_add(n)),
        Movement::Absolute(n) => one(n),
        Movement::Relative(n) => one(at.saturating_add(n)),
    };
    *position = to as u64;
    shown
}

fn wanted(direction: &FetchDirection) -> SqlResult<Movement> {
    let number = |limit: &ast::ValueWithSpan| {
        let text = limit.to_string();
        text.parse::<i32>()
            .map(i64::from)
            .map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{text}\"")))
    };
    let some = |limit: &Option<ast::ValueWithSpan>| limit.as_ref().map_or(Ok(1), number);
    Ok(match direction {
        FetchDirection::Next => Movement::Rows(1),
        FetchDirection::Prior => Movement::Rows(-1),
        FetchDirection::Count { limit } => Movement::Rows(number(limit)?),
        FetchDirection::All | FetchDirection::ForwardAll => Movement::Rows(ALL),
        FetchDirection::BackwardAll => Movement::Rows(-ALL),
        FetchDirection::Forward { limit } => Movement::Rows(some(limit)?),
        FetchDirection::Backward { limit } => Movement::Rows(-some(limit)?),
        FetchDirection::First => Movement::Absolute(1),
        FetchDirection::Last => Movement::Absolute(-1),
        FetchDirection::Absolute { limit } => Movement::Absolute(number(limit)?),
        FetchDirection::Relative { limit } => Movement::Relative(number(limit)?),
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
            (Movement::Rows(0), vec![], 0),
            (Movement::Rows(2), vec![1, 2], 2),
            (Movement::Rows(0), vec![2], 2),
            (Movement::Rows(-1), vec![1], 1),
            (Movement::Rows(-1), vec![], 0),
            (Movement::Rows(ALL), vec![1, 2, 3], 4),
            (Movement::Rows(1), vec![], 4),
            (Movement::Rows(-ALL), vec![3, 2, 1], 0),
            (Movement::Absolute(-1), vec![3], 3),
            (Movement::Relative(-2), vec![1], 1),
            (Movement::Absolute(9), vec![], 4),
            (Movement::Absolute(-9), vec![], 0),
            (Movement::Absolute(2), vec![2], 2),
            (Movement::Relative(0), vec![2], 2),
        ] {
            assert_eq!(step(wanted), (shown, position), "{wanted:?}");
        }
    }
}
