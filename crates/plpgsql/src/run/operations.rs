//! The instructions, one by one.

use super::types::Value;
use super::{Item, Protected, QueryResult, Request, Run, Wants};
use crate::program::{Op, Simple};
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};

impl Run {
    /// Does one instruction, or asks for what it needs.
    pub(super) fn advance(&mut self) -> SqlResult<Option<Request>> {
        let program = self.program.clone();
        let op = &program.code[self.at].op;
        match op {
            Op::Nothing => {}
            Op::Evaluate(statement) => {
                if !self.evaluate_here(*statement)? {
                    return Ok(Some(Request::Execute { statement: *statement, wants: Wants::First(2) }));
                }
            }
            Op::Assign(target) => {
                let item = self.pop();
                self.assign(target, item)?;
            }
            Op::AssignElement(target) => self.assign_element(target)?,
            Op::Clear(variable) => self.clear(*variable)?,
            Op::Jump(to) => {
                self.at = *to;
                return Ok(None);
            }
            Op::JumpUnless(to) => {
                if !self.holds()? {
                    self.at = *to;
                    return Ok(None);
                }
            }
            Op::Execute { .. }
            | Op::Perform(_)
            | Op::QueryRows(_)
            | Op::ReturnQuery(_)
            | Op::ExecuteText { .. }
            | Op::QueryText { .. }
            | Op::ReturnQueryText { .. } => return self.asked(op).map(Some),
            Op::BeginIntegers { has_step, reverse } => self.begin_integers(*has_step, *reverse)?,
            Op::BeginElements => self.begin_elements()?,
            Op::Next { targets, end } => {
                if !self.next_value(targets)? {
                    self.at = *end;
                    return Ok(None);
                }
            }
            Op::OpenCursor { .. }
            | Op::Fetch { .. }
            | Op::NextOfCursor { .. }
            | Op::CloseCursor(_)
            | Op::BeginCursor(_)
            | Op::EndLoop => return self.with_cursor(op),
            Op::Protect(_) | Op::Unprotect(_) => return Ok(self.protect(op)),
            Op::EndHandler => _ = self.caught.pop(),
            Op::Raise(raise) => {
                let raised = self.raise(raise)?;
                self.at += 1;
                return Ok(Some(Request::Notice(raised)));
            }
            Op::Reraise => return self.reraise().map(Some),
            Op::FailAssertion { has_message } => self.fail_assertion(*has_message)?,
            Op::NoCase => return Err(no_case()),
            Op::Return | Op::ReturnValue | Op::NoReturn => return self.end(op).map(Some),
            Op::ReturnNext | Op::ReturnOutputs => {
                let item = if let Op::ReturnNext = op { self.pop() } else { Item::Row(self.outputs()) };
                let row = self.fitted(item)?;
                self.at += 1;
                return Ok(Some(Request::Rows(vec![row])));
            }
            Op::Diagnose { stacked, items } => self.diagnose(*stacked, items)?,
            Op::EndTransaction(word) => return Err(self.refuse_to_end(word)),
        }
        self.at += 1;
        Ok(None)
    }

    /// What an instruction asks for that runs a statement. Errors: 22004 for no text.
    fn asked(&mut self, op: &Op) -> SqlResult<Request> {
        let into_wants = |has_into: bool| if has_into { Wants::First(2) } else { Wants::Count };
        let (statement, wants) = match op {
            Op::ExecuteText { using, into } => return self.execute_text(*using, into_wants(into.is_some())),
            Op::QueryText { using } | Op::ReturnQueryText { using } => {
                return self.execute_text(*using, Wants::All);
            }
            Op::Execute { statement, into, .. } => (statement, into_wants(into.is_some())),
            Op::Perform(statement) => (statement, Wants::Count),
            Op::QueryRows(statement) | Op::ReturnQuery(statement) => (statement, Wants::All),
            _ => return Err(SqlError::internal("an instruction that runs no statement")),
        };
        Ok(Request::Execute { statement: *statement, wants })
    }

    /// The instruction is done.
    pub(super) fn go_on(&mut self) {
        self.at += 1;
    }

    /// Takes the result that the instruction has asked for.
    pub(super) fn take(&mut self, result: QueryResult) -> SqlResult<()> {
        let program = self.program.clone();
        match &program.code[self.at].op {
            Op::Evaluate(statement) => self.take_value(*statement, result)?,
            Op::Execute { into, modifies, .. } => self.take_executed(result, into.as_ref(), *modifies)?,
            Op::Perform(_) => self.count(result.count.unwrap_or(0)),
            Op::ExecuteText { into, .. } => self.take_text(result, into.as_ref())?,
            Op::QueryRows(_) | Op::QueryText { .. } => self.begin_rows(result)?,
            Op::ReturnQuery(_) | Op::ReturnQueryText { .. } => {
                let rows = self.take_returned(result)?;
                self.returned.extend(rows);
            }
            Op::OpenCursor { variable, .. } => self.take_opened(*variable, result)?,
            Op::Fetch { into, .. } => self.take_fetched(result, into.as_deref())?,
            Op::NextOfCursor { targets, end } => {
                if !self.take_next(result, targets)? {
                    self.at = *end;
                    return Ok(());
                }
            }
            _ => return Err(SqlError::internal("a result that was not asked for")),
        }
        self.at += 1;
        Ok(())
    }

    /// Evaluates what is nothing but a literal or a variable; false for anything else.
    fn evaluate_here(&mut self, statement: usize) -> SqlResult<bool> {
        let program = self.program.clone();
        let item = match &program.statements[statement].simple {
            None => return Ok(false),
            Some(Simple::Name(name)) => match self.find(statement, name) {
                Some(reference) => self.item(&reference)?,
                None => return Ok(false),
            },
            Some(Simple::FirstOf(names)) => match self.first_of(statement, names)? {
                Some(item) => item,
                None => return Ok(false),
            },
            Some(literal) => {
                let (datum, data_type) = literal.literal().expect("what is no name is a literal");
                Item::Value(Value::new(datum, data_type))
            }
        };
        self.push_item(item);
        Ok(true)
    }

    /// The first record that has a value, or NULL; `None`: the names are not all those of records.
    fn first_of(&self, statement: usize, names: &[String]) -> SqlResult<Option<Item>> {
        let mut first = Item::Value(Value::null());
        for name in names.iter().rev() {
            let found = self.find(statement, std::slice::from_ref(name)).filter(|of| self.is_record(of));
            let Some(reference) = found else { return Ok(None) };
            if let row @ Item::Row(_) = self.item(&reference)? {
                first = row;
            }
        }
        Ok(Some(first))
    }

    /// Pops a condition. Errors: it is no boolean.
    fn holds(&mut self) -> SqlResult<bool> {
        let value = self.pop_value()?;
        let of = super::types::ScalarType::from(DataType::Boolean);
        Ok(of.take(value, self.zone)? == Datum::Bool(true))
    }

    fn execute_text(&mut self, using: usize, wants: Wants) -> SqlResult<Request> {
        let (text, using) = self.pop_text(using)?;
        Ok(Request::ExecuteText { text, using, wants })
    }

    /// Pops `using` values and a text of SQL. Errors: 22004 for no text.
    pub(super) fn pop_text(&mut self, using: usize) -> SqlResult<(String, Vec<Value>)> {
        let using = self.pop_values(using)?;
        let text = self.pop_value()?;
        if text.datum.is_null() {
            let message = "query string argument of EXECUTE is null";
            return Err(SqlError::new(SqlState(*b"22004"), message));
        }
        Ok((text.shown(self.zone), using))
    }

    fn protect(&mut self, op: &Op) -> Option<Request> {
        self.at += 1;
        match op {
            Op::Protect(handlers) => {
                self.protected.push(Protected {
                    handlers: *handlers,
                    stack: self.stack.len(),
                    loops: self.loops.len(),
                    caught: self.caught.len(),
                });
                Some(Request::Savepoint)
            }
            // A block without handlers has no savepoint.
            Op::Unprotect(handlers) if self.protected.last().is_some_and(|p| p.handlers == *handlers) => {
                self.protected.pop();
                Some(Request::Release)
            }
            _ => None,
        }
    }

    /// The end of the program, once its savepoints are released.
    fn end(&mut self, op: &Op) -> SqlResult<Request> {
        if let Some(closed) = self.left_cursor() {
            return Ok(closed);
        }
        if self.protected.is_empty() {
            return Ok(Request::Done(match op {
                Op::ReturnValue => {
                    let item = self.pop();
                    self.returned(item)?
                }
                Op::NoReturn => self.no_return()?,
                _ => self.ended(),
            }));
        }
        // What does not fit is an error inside of the block.
        if let (Op::ReturnValue, Some(item)) = (op, self.stack.last().cloned()) {
            self.returned(item)?;
        }
        self.protected.pop();
        Ok(Request::Release)
    }
}

fn no_case() -> SqlError {
    SqlError::new(SqlState(*b"20000"), "case not found").hint("CASE statement is missing ELSE part.")
}
