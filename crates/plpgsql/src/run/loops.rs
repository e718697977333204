//! Loops over values.

use super::types::{Field, Row, ScalarType, Value, mismatch, size, sizes};
use super::{Item, QueryResult, Run, fields};
use crate::program::Target;
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};
use std::sync::Arc;

/// A loop under way.
#[derive(Debug)]
pub(super) struct Loop {
    values: Values,
    /// It had a value.
    has_run: bool,
}

#[derive(Debug)]
enum Values {
    Integers {
        next: Option<i64>,
        last: i64,
        step: i64,
    },
    Rows {
        fields: Arc<[Field]>,
        rows: std::vec::IntoIter<Vec<Datum>>,
    },
    Elements {
        of: DataType,
        elements: Arc<[Datum]>,
        at: usize,
    },
    /// Rows of an open cursor, which the host has.
    Cursor(String),
}

impl Loop {
    fn new(values: Values) -> Loop {
        Loop { values, has_run: false }
    }

    /// What is held for it.
    fn bytes(&self) -> usize {
        match &self.values {
            Values::Integers { .. } | Values::Cursor(_) => 0,
            Values::Rows { rows, .. } => rows.as_slice().iter().map(|row| sizes(row)).sum(),
            Values::Elements { elements, .. } => elements.iter().map(size).sum(),
        }
    }
}

fn null_not_allowed(message: &str) -> SqlError {
    SqlError::new(SqlState(*b"22004"), message)
}

impl Run {
    /// Errors: 22004 for a bound that is NULL, 22023 for a step that does not lead on.
    pub(super) fn begin_integers(&mut self, has_step: bool, reverse: bool) -> SqlResult<()> {
        let zone = self.zone;
        let bound = |run: &mut Run, what: &str| -> SqlResult<i64> {
            let value = run.pop_value()?;
            match ScalarType::from(DataType::Integer).take(value, zone)? {
                Datum::Int(n) => Ok(n),
                _ => Err(null_not_allowed(&format!("{what} of FOR loop cannot be null"))),
            }
        };
        let step = if has_step { bound(self, "BY value")? } else { 1 };
        let last = bound(self, "upper bound")?;
        let first = bound(self, "lower bound")?;
        if step <= 0 {
            let message = "BY value of FOR loop must be greater than zero";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let step = if reverse { -step } else { step };
        self.begin_loop(Values::Integers { next: Some(first), last, step });
        Ok(())
    }

    /// Errors: 22004 and 42804 for what is no array.
    pub(super) fn begin_elements(&mut self) -> SqlResult<()> {
        let value = self.pop_value()?;
        match (value.datum, value.data_type) {
            (Datum::Null, _) => Err(null_not_allowed("FOREACH expression must not be null")),
            (Datum::Array(elements), DataType::Array(of)) => {
                self.begin_loop(Values::Elements { of: of.data_type(), elements, at: 0 });
                Ok(())
            }
            (_, other) => {
                Err(mismatch(format!("FOREACH expression must yield an array, not type {}", other.name())))
            }
        }
    }

    pub(super) fn begin_rows(&mut self, result: QueryResult) -> SqlResult<()> {
        let columns = result.columns.ok_or_else(|| {
            let message = "cannot open a command that returns no rows as a cursor";
            SqlError::new(SqlState(*b"42P11"), message)
        })?;
        self.begin_loop(Values::Rows { fields: fields(&columns), rows: result.rows.into_iter() });
        Ok(())
    }

    fn begin_loop(&mut self, values: Values) {
        let begun = Loop::new(values);
        self.bytes += begun.bytes();
        self.loops.push(begun);
    }

    /// Gives the innermost loop's variables its next value; false at its end. Errors: those of assignments.
    pub(super) fn next_value(&mut self, targets: &[Target]) -> SqlResult<bool> {
        let innermost = self.loops.last_mut().expect("a loop is begun before it goes on");
        let next = match &mut innermost.values {
            Values::Integers { next, last, step } => next.take().and_then(|n| {
                let is_over = if *step > 0 { n > *last } else { n < *last };
                *next = n.checked_add(*step).filter(|n| i32::try_from(*n).is_ok());
                (!is_over).then(|| Next::Value(Value::new(Datum::Int(n), DataType::Integer)))
            }),
            Values::Rows { fields, rows } => rows.next().map(|values| {
                self.bytes -= sizes(&values);
                Next::Row(Row { fields: fields.clone(), values })
            }),
            Values::Elements { of, elements, at } => elements.get(*at).map(|element| {
                *at += 1;
                Next::Value(Value::new(element.clone(), *of))
            }),
            // Its rows are asked for.
            Values::Cursor(_) => None,
        };
        innermost.has_run |= next.is_some();
        match next {
            None => {
                self.end_loop();
                Ok(false)
            }
            Some(Next::Value(value)) => self.assign(&targets[0], Item::Value(value)).map(|()| true),
            Some(Next::Row(row)) => self.assign_row(targets, row).map(|()| true),
        }
    }

    pub(super) fn begin_cursor(&mut self, name: String) {
        self.begin_loop(Values::Cursor(name));
    }

    /// The cursor of the innermost loop, if that is one over a cursor.
    pub(super) fn loop_cursor(&self) -> Option<&String> {
        match &self.loops.last()?.values {
            Values::Cursor(name) => Some(name),
            _ => None,
        }
    }

    pub(super) fn has_no_loops(&self) -> bool {
        self.loops.is_empty()
    }

    /// The innermost loop has a row.
    pub(super) fn note_row(&mut self) {
        self.loops.last_mut().expect("a loop is begun before it goes on").has_run = true;
    }

    /// The innermost loop is over.
    pub(super) fn end_loop(&mut self) {
        let ended = self.loops.pop().expect("a loop is begun before it ends");
        self.bytes -= ended.bytes();
        self.set_found(ended.has_run);
    }

    /// Loops that an error has ended.
    pub(super) fn drop_loops(&mut self, remaining: usize) {
        for ended in self.loops.split_off(remaining.min(self.loops.len())) {
            self.bytes -= ended.bytes();
        }
    }
}

enum Next {
    Value(Value),
    Row(Row),
}
