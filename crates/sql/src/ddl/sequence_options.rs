//! What CREATE SEQUENCE, IDENTITY and ALTER SEQUENCE say of a sequence's values.

use base::error::{SqlResult, SqlState};
use base::schema::{Sequence, SequenceLimits};
use base::{DataType, SqlError};
use sqlparser::ast;
use sqlparser::tokenizer::Token;
use std::iter::Peekable;

/// What a statement says; nothing of what it leaves out. `Some(None)`: NO MINVALUE, or RESTART without a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub data_type: Option<DataType>,
    increment: Option<i64>,
    min: Option<Option<i64>>,
    max: Option<Option<i64>>,
    start: Option<i64>,
    pub restart: Option<Option<i64>>,
    cache: Option<i64>,
    cycles: Option<bool>,
}

/// What a sequence counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counting {
    pub start: i64,
    pub increment: i64,
    pub limits: SequenceLimits,
}

impl Counting {
    pub fn of(sequence: &Sequence) -> Counting {
        let Sequence { start, increment, limits, .. } = *sequence;
        Counting { start, increment, limits }
    }
}

impl Options {
    /// Errors: 42601.
    pub fn declared(options: &[ast::SequenceOptions]) -> SqlResult<Options> {
        use ast::SequenceOptions as O;
        let mut said = Options::default();
        for option in options {
            match option {
                O::IncrementBy(e, _) => said.increment = Some(integer(&e.to_string())?),
                O::MinValue(e) => said.min = Some(e.as_ref().map(|e| integer(&e.to_string())).transpose()?),
                O::MaxValue(e) => said.max = Some(e.as_ref().map(|e| integer(&e.to_string())).transpose()?),
                O::StartWith(e, _) => said.start = Some(integer(&e.to_string())?),
                O::Cache(e) => said.cache = Some(integer(&e.to_string())?),
                // NO CYCLE is true.
                O::Cycle(is_no) => said.cycles = Some(!is_no),
            }
        }
        Ok(said)
    }

    /// Takes an option that begins with a word of ALTER SEQUENCE; false: it is none. Errors: 42601.
    pub fn take(
        &mut self,
        word: &Token,
        rest: &mut Peekable<impl Iterator<Item = Token>>,
    ) -> SqlResult<bool> {
        let Token::Word(word) = word else { return Ok(false) };
        match word.value.to_lowercase().as_str() {
            "as" => {
                let name = rest.next().ok_or_else(|| wrong("AS"))?.to_string().to_lowercase();
                self.data_type = Some(type_named(&name)?);
            }
            "increment" => {
                rest.next_if(|t| is(t, "by"));
                self.increment = Some(number(rest)?);
            }
            "minvalue" => self.min = Some(Some(number(rest)?)),
            "maxvalue" => self.max = Some(Some(number(rest)?)),
            "start" => {
                rest.next_if(|t| is(t, "with"));
                self.start = Some(number(rest)?);
            }
            "restart" => {
                let is_said = rest.next_if(|t| is(t, "with")).is_some();
                let follows = rest.peek().is_some_and(|t| matches!(t, Token::Number(..) | Token::Minus));
                self.restart = Some(if is_said || follows { Some(number(rest)?) } else { None });
            }
            "cache" => self.cache = Some(number(rest)?),
            "cycle" => self.cycles = Some(true),
            "no" if rest.next_if(|t| is(t, "minvalue")).is_some() => self.min = Some(None),
            "no" if rest.next_if(|t| is(t, "maxvalue")).is_some() => self.max = Some(None),
            "no" if rest.next_if(|t| is(t, "cycle")).is_some() => self.cycles = Some(false),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What a new sequence counts, whose type is another one than `bigint` if it belongs to a column of that. Errors: 22023.
    pub fn made(&self, of_column: Option<DataType>) -> SqlResult<Counting> {
        let data_type = self.data_type.or(of_column).unwrap_or(DataType::BigInt);
        let increment = self.increment.unwrap_or(1);
        let declared = SequenceLimits::declared(data_type, increment);
        let limits = self.limits(declared, declared)?;
        let first = if increment > 0 { limits.min } else { limits.max };
        self.checked(Counting { start: self.start.unwrap_or(first), increment, limits })
    }

    /// What a sequence counts that is altered. Errors: 22023.
    pub fn altered(&self, was: Counting) -> SqlResult<Counting> {
        let data_type = self.data_type.unwrap_or(was.limits.data_type);
        let increment = self.increment.unwrap_or(was.increment);
        let mut kept = SequenceLimits { data_type, ..was.limits };
        // A bound that was its type's moves with the type.
        let (lowest, highest) = SequenceLimits::range(was.limits.data_type);
        let next = SequenceLimits::range(data_type);
        if data_type != was.limits.data_type && kept.max == highest {
            kept.max = next.1;
        }
        if data_type != was.limits.data_type && kept.min == lowest {
            kept.min = next.0;
        }
        let limits = self.limits(kept, SequenceLimits::declared(data_type, increment))?;
        self.checked(Counting { start: self.start.unwrap_or(was.start), increment, limits })
    }

    /// `kept`: what is said nothing of; `declared`: what NO MINVALUE and NO MAXVALUE mean.
    fn limits(&self, kept: SequenceLimits, declared: SequenceLimits) -> SqlResult<SequenceLimits> {
        let limits = SequenceLimits {
            min: self.min.map_or(kept.min, |min| min.unwrap_or(declared.min)),
            max: self.max.map_or(kept.max, |max| max.unwrap_or(declared.max)),
            cycles: self.cycles.unwrap_or(kept.cycles),
            cache: self.cache.unwrap_or(kept.cache),
            ..kept
        };
        let (lowest, highest) = SequenceLimits::range(limits.data_type);
        let name = limits.data_type.name();
        let out = |what: &str, value: i64| {
            invalid(format!("{what} ({value}) is out of range for sequence data type {name}"))
        };
        match () {
            () if !(lowest..=highest).contains(&limits.max) => Err(out("MAXVALUE", limits.max)),
            () if !(lowest..=highest).contains(&limits.min) => Err(out("MINVALUE", limits.min)),
            () if limits.min >= limits.max => {
                Err(invalid(format!("MINVALUE ({}) must be less than MAXVALUE ({})", limits.min, limits.max)))
            }
            () if limits.cache <= 0 => {
                Err(invalid(format!("CACHE ({}) must be greater than zero", limits.cache)))
            }
            () => Ok(limits),
        }
    }

    fn checked(&self, counting: Counting) -> SqlResult<Counting> {
        if counting.increment == 0 {
            return Err(invalid("INCREMENT must not be zero".into()));
        }
        check_within("START", counting.start, counting.limits)?;
        if let Some(Some(restart)) = self.restart {
            check_within("RESTART", restart, counting.limits)?;
        }
        Ok(counting)
    }
}

/// Errors: 22023.
pub(super) fn check_within(what: &str, value: i64, limits: SequenceLimits) -> SqlResult<()> {
    match () {
        () if value < limits.min => {
            Err(invalid(format!("{what} value ({value}) cannot be less than MINVALUE ({})", limits.min)))
        }
        () if value > limits.max => {
            Err(invalid(format!("{what} value ({value}) cannot be greater than MAXVALUE ({})", limits.max)))
        }
        () => Ok(()),
    }
}

/// The type that a sequence is declared with. Errors: 22023.
pub(super) fn type_named(name: &str) -> SqlResult<DataType> {
    match name {
        "smallint" | "int2" => Ok(DataType::SmallInt),
        "integer" | "int" | "int4" => Ok(DataType::Integer),
        "bigint" | "int8" => Ok(DataType::BigInt),
        _ => Err(invalid("sequence type must be smallint, integer, or bigint".into())),
    }
}

fn number(rest: &mut Peekable<impl Iterator<Item = Token>>) -> SqlResult<i64> {
    let sign = if rest.next_if(|t| *t == Token::Minus).is_some() { "-" } else { "" };
    match rest.next() {
        Some(number @ Token::Number(..)) => integer(&format!("{sign}{number}")),
        Some(other) => Err(wrong(&other.to_string())),
        None => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input")),
    }
}

fn integer(text: &str) -> SqlResult<i64> {
    text.parse().map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, format!("\"{text}\" is not an integer")))
}

fn is(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

fn wrong(near: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{near}\""))
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
