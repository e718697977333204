//! Cursors: what a program asks of its host about them, and what it takes from the answers.
//!
//! KEEPS: the cursor of a loop is closed when the loop is left in any way but by an error: then the host goes
//! back to a savepoint, and what was opened behind it is closed there.

use super::types::{Row, ScalarType};
use super::{Opening, QueryResult, Request, Run, fields};
use crate::program::{Counted, CursorQuery, Movement, Op, Target};
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};

impl Run {
    /// An instruction about a cursor, and the end of any loop. Errors: 22004 for a cursor variable that is NULL, or a count.
    pub(super) fn with_cursor(&mut self, op: &Op) -> SqlResult<Option<Request>> {
        let asked = match op {
            Op::OpenCursor { variable, query, scroll } => {
                let query = match query {
                    CursorQuery::Statement(statement) => Opening::Statement(*statement),
                    CursorQuery::Text { using } => {
                        let (text, using) = self.pop_text(*using)?;
                        Opening::Text { text, using }
                    }
                };
                let name = self.cursor_name(*variable)?;
                return Ok(Some(Request::OpenCursor { name, query, scroll: *scroll }));
            }
            Op::Fetch { cursor, movement, counted, into } => {
                let cursor = self.cursor_named(*cursor)?;
                let movement = self.movement(*movement, *counted)?;
                return Ok(Some(Request::Fetch { cursor, movement, is_wanted: into.is_some() }));
            }
            Op::NextOfCursor { .. } => {
                let lost = || SqlError::internal("a loop over a cursor without one");
                let cursor = self.loop_cursor().ok_or_else(lost)?.clone();
                let movement = Movement::Rows(1);
                return Ok(Some(Request::Fetch { cursor, movement, is_wanted: true }));
            }
            Op::CloseCursor(variable) => Some(Request::CloseCursor(self.cursor_named(*variable)?)),
            Op::BeginCursor(variable) => {
                let name = self.cursor_named(*variable)?;
                self.begin_cursor(name);
                None
            }
            _ => {
                let cursor = self.loop_cursor().cloned();
                self.end_loop();
                cursor.map(Request::CloseCursor)
            }
        };
        self.go_on();
        Ok(asked)
    }

    /// The name in a cursor variable.
    fn cursor_name(&self, variable: usize) -> SqlResult<Option<String>> {
        let reference = self.whole_variable(variable);
        let value = self.value(&reference)?;
        Ok((!value.datum.is_null()).then(|| value.shown(self.zone)))
    }

    /// Errors: 22004 if there is none.
    fn cursor_named(&self, variable: usize) -> SqlResult<String> {
        self.cursor_name(variable)?.ok_or_else(|| {
            let name = &self.program.variables[variable].name;
            SqlError::new(SqlState(*b"22004"), format!("cursor variable \"{name}\" is null"))
        })
    }

    fn movement(&mut self, movement: Movement, counted: Option<Counted>) -> SqlResult<Movement> {
        let Some(counted) = counted else { return Ok(movement) };
        let count = self.pop_value()?;
        match (ScalarType::from(DataType::Integer).take(count, self.zone)?, counted) {
            (Datum::Int(count), Counted::AsItIs) => Ok(movement.by(count)),
            (Datum::Int(count), Counted::Backwards) => Ok(movement.by(-count)),
            _ => {
                let message = "relative or absolute cursor position is null";
                Err(SqlError::new(SqlState(*b"22004"), message))
            }
        }
    }

    /// A cursor is open: a variable that is NULL takes its name.
    pub(super) fn take_opened(&mut self, variable: usize, result: QueryResult) -> SqlResult<()> {
        let name = result.rows.into_iter().next().and_then(|row| row.into_iter().next());
        let name = name.ok_or_else(|| SqlError::internal("an open cursor has a name"))?;
        if self.cursor_name(variable)?.is_none() {
            self.begin(variable, name);
        }
        Ok(())
    }

    /// The row of a FETCH to its targets, NULL if there is none.
    pub(super) fn take_fetched(&mut self, result: QueryResult, into: Option<&[Target]>) -> SqlResult<()> {
        let count = result.count.unwrap_or(0);
        if let Some(targets) = into {
            let fields = fields(&result.columns.unwrap_or_default());
            let row = match result.rows.into_iter().next() {
                Some(values) => Row { fields, values },
                None => Row::of_nulls(fields),
            };
            self.assign_row(targets, row)?;
        }
        self.count(count);
        Ok(())
    }

    /// The next row of a loop over a cursor; false at its end.
    pub(super) fn take_next(&mut self, result: QueryResult, targets: &[Target]) -> SqlResult<bool> {
        let fields = fields(&result.columns.unwrap_or_default());
        let Some(values) = result.rows.into_iter().next() else { return Ok(false) };
        self.note_row();
        self.assign_row(targets, Row { fields, values }).map(|()| true)
    }

    /// Leaves the loops that RETURN is in up to one over a cursor, which is closed.
    pub(super) fn left_cursor(&mut self) -> Option<Request> {
        while !self.has_no_loops() {
            let cursor = self.loop_cursor().cloned();
            self.end_loop();
            if let Some(cursor) = cursor {
                return Some(Request::CloseCursor(cursor));
            }
        }
        None
    }
}
