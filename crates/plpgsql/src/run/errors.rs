//! Errors and notices: what raises them, what catches them.

use super::types::Value;
use super::{Outcome, Raised, Request, Run};
use crate::conditions::{ASSERT_FAILURE, states, written};
use crate::program::{Item, Level, Raise, RaiseOption, Returns, Target};
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};

/// What RAISE raises unless it says otherwise.
const RAISE_EXCEPTION: SqlState = SqlState(*b"P0001");

impl Run {
    /// The place of the instruction that runs, as CONTEXT shows it.
    fn place(&self) -> String {
        let shown = &self.program.signature.shown;
        match self.program.code.get(self.at) {
            Some(instruction) if !instruction.what.is_empty() => {
                format!("PL/pgSQL function {shown} line {} at {}", instruction.line, instruction.what)
            }
            _ => format!("PL/pgSQL function {shown}"),
        }
    }

    /// An error of the instruction that runs: caught, or the end.
    pub(super) fn fail(&mut self, mut error: SqlError) -> Request {
        let place = self.place();
        error.context = Some(match error.context.take() {
            Some(inner) => format!("{inner}\n{place}"),
            None => place,
        });
        self.throw(error)
    }

    /// The same for an error that says where it comes from.
    pub(super) fn throw(&mut self, error: SqlError) -> Request {
        let program = self.program.clone();
        while let Some(protected) = self.protected.pop() {
            let handlers = &program.handlers[protected.handlers];
            let catches = |c: &crate::conditions::Condition| c.catches(error.state);
            let Some(handler) = handlers.iter().find(|handler| handler.conditions.iter().any(catches)) else {
                continue;
            };
            self.cut_stack(protected.stack);
            self.drop_loops(protected.loops);
            self.caught.truncate(protected.caught);
            self.begin(handler.sqlstate, Datum::text(error.state.as_str()));
            self.begin(handler.sqlerrm, Datum::text(&error.message));
            self.caught.push(error);
            self.at = handler.code;
            return Request::RollBackTo { outer: self.protected.len() };
        }
        Request::Failed(error)
    }

    /// RAISE without anything. Errors: 0Z002 outside of handlers.
    pub(super) fn reraise(&mut self) -> SqlResult<Request> {
        let caught = self.caught.last().cloned().ok_or_else(|| {
            let message = "RAISE without parameters cannot be used outside an exception handler";
            SqlError::new(SqlState(*b"0Z002"), message)
        })?;
        Ok(self.throw(caught))
    }

    /// Errors: what is raised, if it is more than a notice.
    pub(super) fn raise(&mut self, raise: &Raise) -> SqlResult<Raised> {
        let options = self.pop_values(raise.options.len())?;
        let arguments = self.pop_values(raise.arguments)?;
        let mut state = raise.condition.as_ref().map(|(state, _)| *state);
        let mut message = raise.format.as_ref().map(|format| self.formatted(format, &arguments));
        let mut error = SqlError::new(RAISE_EXCEPTION, "");
        for (option, value) in raise.options.iter().zip(options) {
            if value.datum.is_null() {
                let text = "RAISE statement option cannot be null";
                return Err(SqlError::new(SqlState(*b"22004"), text));
            }
            let text = value.shown(self.zone);
            let specified = |what: &str| {
                let text = format!("RAISE option already specified: {what}");
                SqlError::new(SqlState::SYNTAX_ERROR, text)
            };
            match option {
                RaiseOption::Errcode if state.is_some() => return Err(specified("ERRCODE")),
                RaiseOption::Errcode => state = Some(code(&text)?),
                RaiseOption::Message if message.is_some() => return Err(specified("MESSAGE")),
                RaiseOption::Message => message = Some(text),
                RaiseOption::Detail => error.detail = Some(text),
                RaiseOption::Hint => error.hint = Some(text),
                RaiseOption::Column => error.column = Some(text),
                RaiseOption::Constraint => error.constraint = Some(text),
                RaiseOption::Table => error.table = Some(text),
                // Errors have no place for them.
                RaiseOption::DataType | RaiseOption::Schema => {}
            }
        }
        error.state = state.unwrap_or(RAISE_EXCEPTION);
        let named = || raise.condition.as_ref().map(|(_, name)| name.clone());
        error.message = message.or_else(named).unwrap_or_else(|| error.state.as_str().into());
        match raise.level {
            Level::Exception => Err(error),
            Level::Notice(severity) => Ok(self.told(severity, state, error)),
        }
    }

    fn told(&self, severity: &'static str, state: Option<SqlState>, said: SqlError) -> Raised {
        let of_level = match severity {
            "WARNING" => SqlState(*b"01000"),
            _ => SqlState::SUCCESSFUL,
        };
        let said = said.into_fields();
        let state = state.unwrap_or(of_level);
        Raised { severity, state, message: said.message, detail: said.detail, hint: said.hint }
    }

    /// `%` becomes the next value, `%%` one sign.
    fn formatted(&self, format: &str, arguments: &[Value]) -> String {
        let mut made = String::with_capacity(format.len());
        let mut arguments = arguments.iter();
        let mut rest = format;
        while let Some((before, behind)) = rest.split_once('%') {
            made.push_str(before);
            rest = match behind.strip_prefix('%') {
                Some(behind) => {
                    made.push('%');
                    behind
                }
                None => {
                    made.push_str(&arguments.next().map_or_else(String::new, |value| value.shown(self.zone)));
                    behind
                }
            };
        }
        made.push_str(rest);
        made
    }

    /// Errors: P0004, always.
    pub(super) fn fail_assertion(&mut self, has_message: bool) -> SqlResult<()> {
        let message = match has_message {
            true => Some(self.pop_value()?).filter(|value| !value.datum.is_null()),
            false => None,
        };
        let message = message.map_or_else(|| "assertion failed".into(), |value| value.shown(self.zone));
        Err(SqlError::new(ASSERT_FAILURE, message))
    }

    /// GET DIAGNOSTICS. Errors: 0Z002 for those of an error where none was caught.
    pub(super) fn diagnose(&mut self, stacked: bool, items: &[(Target, Item)]) -> SqlResult<()> {
        let caught = self.caught.last().cloned();
        if stacked && caught.is_none() {
            let message = "GET STACKED DIAGNOSTICS cannot be used outside an exception handler";
            return Err(SqlError::new(SqlState(*b"0Z002"), message));
        }
        let error = caught.unwrap_or_else(|| SqlError::new(SqlState::SUCCESSFUL, ""));
        let text = |text: Option<&String>| Datum::text(text.map_or("", |text| text.as_str()));
        for (target, item) in items {
            let datum = match item {
                Item::RowCount => {
                    let count = i64::try_from(self.row_count).unwrap_or(i64::MAX);
                    let value = Value::new(Datum::Int(count), DataType::BigInt);
                    self.assign(target, super::Item::Value(value))?;
                    continue;
                }
                Item::Context => Datum::text(self.place()),
                Item::State => Datum::text(error.state.as_str()),
                Item::Message => Datum::text(&error.message),
                Item::Detail => text(error.detail.as_ref()),
                Item::Hint => text(error.hint.as_ref()),
                Item::ErrorContext => text(error.context.as_ref()),
                Item::Column => text(error.column.as_ref()),
                Item::Constraint => text(error.constraint.as_ref()),
                Item::Table => text(error.table.as_ref()),
                Item::Unknown => Datum::text(""),
            };
            self.assign(target, super::Item::Value(Value::new(datum, DataType::Text)))?;
        }
        Ok(())
    }

    /// COMMIT and ROLLBACK. Errors: always.
    pub(super) fn refuse_to_end(&self, word: &str) -> SqlError {
        let signature = &self.program.signature;
        if !signature.is_procedure && !signature.name.is_empty() {
            return SqlError::new(SqlState(*b"2D000"), "invalid transaction termination");
        }
        SqlError::unsupported(format!("{word} in PL/pgSQL"))
            .hint("Let the client end the transaction. BEGIN … EXCEPTION … END undoes a part of it.")
    }

    /// The end without a value. Errors: 2F005.
    pub(super) fn no_return(&self) -> SqlResult<Outcome> {
        let message = match self.program.signature.returns {
            Returns::Trigger => "control reached end of trigger procedure without RETURN",
            _ => "control reached end of function without RETURN",
        };
        Err(SqlError::new(SqlState(*b"2F005"), message))
    }
}

/// A SQLSTATE or the name of a condition. Errors: 42704.
fn code(text: &str) -> SqlResult<SqlState> {
    if let Some(state) = written(text) {
        return Ok(state);
    }
    states(text).next().ok_or_else(|| {
        let message = format!("unrecognized exception condition \"{text}\"");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}
