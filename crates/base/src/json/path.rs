//! The path language of SQL/JSON (`jsonpath`), as PostgreSQL 15 reads, shows and runs it.
//!
//! IN: a path's text, a `jsonb` value, variables. OUT: the items that the path finds, or an error. KEEPS: 1. a path has at
//! most [`STEPS_MAX`] steps and operators, since it is parsed and run by recursion; 2. a run ends after [`WORK_MAX`] units
//! of work, and makes no more than an expression may: nodes run paths where nothing could interrupt them.
//!
//! The language is our own, like the parser of values: the library for it parses nested parentheses in exponential time,
//! panics on `$[last]` of a scalar, keeps numbers as floats, and shows its trees to nobody who would repair that.

mod items;
mod layout;
mod lexer;
mod methods;
mod parse;
mod predicates;
mod run;
mod show;
#[cfg(test)]
mod tests;

use super::{Json, invalid};
use crate::error::{SqlError, SqlResult, SqlState};
use regex_automata::meta::Regex;
use run::Found;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

/// Most steps and operators of a path.
const STEPS_MAX: usize = 2_000;

/// Most units of work of a run; one is a step at an item, or a comparison of two items.
const WORK_MAX: u64 = 4_000_000;

/// What is computed with a path. The arguments are the value and the path, and for functions variables and whether errors
/// are silent; operators are silent and know no variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathFunction {
    /// Whether the path finds anything.
    Exists,
    /// The truth value that the path gives.
    Match,
    /// All that the path finds, as an array of values.
    Query,
    /// The same as one array of JSON.
    QueryArray,
    QueryFirst,
    /// The text of the path alone, as PostgreSQL shows it.
    Canonical,
}

/// A path that was read.
#[derive(Clone, Debug)]
struct Path {
    is_lax: bool,
    chain: Chain,
}

/// An item and the steps that lead on from it. There is at least one.
type Chain = Vec<Step>;

#[derive(Clone, Debug)]
enum Step {
    // What a chain begins with.
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    Literal(Json),
    Variable(String),
    Arithmetic(Arithmetic, Chain, Chain),
    /// `-` or `+` in front of a chain.
    Sign(char, Chain),
    // Predicates. They may begin a chain too: `($.a > 1).type()`.
    And(Chain, Chain),
    Or(Chain, Chain),
    Not(Chain),
    IsUnknown(Chain),
    Compare(Comparison, Chain, Chain),
    StartsWith(Chain, Chain),
    LikeRegex(Chain, Box<Pattern>),
    Exists(Chain),
    // What follows.
    Key(String),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyElement,
    /// `[1, 2 to last]`
    Elements(Vec<(Chain, Option<Chain>)>),
    /// `.**{first to last}`; the last level of all is `u32::MAX`.
    Descendants(u32, u32),
    Filter(Chain),
    Method(Method),
    /// `.datetime()`, with a template.
    Datetime(Option<String>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Abs,
    Ceiling,
    Double,
    Floor,
    KeyValue,
    Size,
    Type,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    /// As they are shown.
    flags: String,
    regex: Regex,
}

impl Step {
    fn is_predicate(&self) -> bool {
        matches!(
            self,
            Step::And(..)
                | Step::Or(..)
                | Step::Not(_)
                | Step::IsUnknown(_)
                | Step::Compare(..)
                | Step::StartsWith(..)
                | Step::LikeRegex(..)
                | Step::Exists(_)
        )
    }
}

thread_local! {
    /// The path that was read last: functions are called with the same one for row after row.
    static READ_LAST: RefCell<Option<(String, Rc<Path>)>> = const { RefCell::new(None) };
}

/// Reads a path. Errors: 42601 and the like, as PostgreSQL's; 54001 for a path of too many steps.
fn read(text: &str) -> SqlResult<Rc<Path>> {
    let known = READ_LAST.with_borrow(|last| match last {
        Some((known, path)) if known == text => Some(path.clone()),
        _ => None,
    });
    if let Some(path) = known {
        return Ok(path);
    }
    let path = Rc::new(parse::parse(text)?);
    READ_LAST.set(Some((text.to_string(), path.clone())));
    Ok(path)
}

/// What a function gives.
pub(super) enum Answer {
    Truth(Option<bool>),
    Item(Option<String>),
    Items(Vec<String>),
}

/// The text of a path, as PostgreSQL shows it. Errors: those of the path.
pub(super) fn canonical(path: &str) -> SqlResult<String> {
    read(path).map(|path| path.to_string())
}

/// Computes a function. Errors: those of the path's text and, unless they are silent, of its run.
pub(super) fn answer(
    function: PathFunction,
    target: &Json,
    path: &str,
    vars: Option<&Json>,
    is_silent: bool,
) -> SqlResult<Answer> {
    if vars.is_some_and(|vars| !matches!(vars, Json::Object(_))) {
        return Err(invalid("\"vars\" argument is not an object")
            .detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object."));
    }
    let path = read(path)?;
    if function == PathFunction::Exists {
        return match run::exists(&path, target, vars) {
            Ok(exists) => Ok(Answer::Truth(Some(exists))),
            Err(end) => end.told(is_silent).map(|()| Answer::Truth(None)),
        };
    }
    let Found { items, end } = run::all(&path, target, vars);
    if let Some(end) = end {
        // What was found before a silent error stays.
        end.told(is_silent)?;
    }
    Ok(match function {
        PathFunction::Match => Answer::Truth(match items.first().map(|item| item.as_ref()) {
            Some(Json::Bool(truth)) if items.len() == 1 => Some(*truth),
            Some(Json::Null) if items.len() == 1 => None,
            _ if is_silent => None,
            _ => return Err(SqlError::new(SqlState(*b"22038"), "single boolean result is expected")),
        }),
        PathFunction::QueryFirst => Answer::Item(items.first().map(|item| item.to_string())),
        PathFunction::QueryArray => Answer::Item(Some(format!("[{}]", texts(&items)?.join(", ")))),
        PathFunction::Query | PathFunction::Canonical | PathFunction::Exists => Answer::Items(texts(&items)?),
    })
}

/// The items' texts. A path can find the same part many times, so their length is looked at before there are all of them.
fn texts(items: &[Cow<'_, Json>]) -> SqlResult<Vec<String>> {
    let mut bytes = 0;
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        let text = item.to_string();
        bytes += text.len() + 2;
        crate::text_bounds::check(bytes)?;
        texts.push(text);
    }
    Ok(texts)
}
