//! JSON: how `json` and `jsonb` are read, kept, shown and compared.
//!
//! A `jsonb` value is kept as its canonical text, the one that PostgreSQL shows: objects' keys once each (the last one
//! counts), shorter ones first, numbers with numeric's digits, one blank behind `:` and `,`. A `json` value is kept as
//! it was written. KEEPS: what is canonical stays as it is when it is read and shown again.
//!
//! The parser is our own, since it has to give what no library does: numbers with all their digits, where a member of
//! a `json` text begins and ends, and PostgreSQL's errors.

mod change;
mod functions;
mod number;
mod parse;
mod path;
#[cfg(test)]
mod tests;
mod texts;
mod values;

pub use functions::{JsonFunction, call};
pub use parse::{Member, check, members, parse};
pub use path::PathFunction;
pub(crate) use values::cast_scalar;
pub use values::{LINE_BREAK, text_of};

use crate::error::{SqlError, SqlResult, SqlState};
use std::cmp::Ordering;
use std::fmt::{self, Write};

/// A parsed value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// As numeric shows it.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    /// Its keys once each, in the order of their lengths, then of their bytes.
    Object(Vec<(String, Json)>),
}

/// How deep values may lie inside each other.
const DEPTH_MAX: usize = 1_000;

impl Json {
    /// An object of members as they are written: of those with one key the last one counts.
    pub fn object(mut members: Vec<(String, Json)>) -> Json {
        members.sort_by(|(a, _), (b, _)| key_order(a, b));
        // The sort is stable: of equal keys the last one was written last.
        members.reverse();
        members.dedup_by(|(a, _), (b, _)| a == b);
        members.reverse();
        Json::Object(members)
    }

    /// The name of its type, as `jsonb_typeof` says it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::Text(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// The member of an object.
    pub fn member(&self, key: &str) -> Option<&Json> {
        let Json::Object(members) = self else { return None };
        let at = members.binary_search_by(|(k, _)| key_order(k, key)).ok()?;
        Some(&members[at].1)
    }

    /// The element of an array; from the end if it is negative.
    pub fn element(&self, at: i64) -> Option<&Json> {
        let Json::Array(elements) = self else { return None };
        elements.get(place(at, elements.len())?)
    }

    /// What `->>` and its kind make of it: the text of a string, nothing of null, else its JSON.
    pub fn as_text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::Text(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// With line breaks and indents, as `jsonb_pretty` shows it.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.indented(&mut out, 0).expect("a string takes what is written");
        out
    }

    fn indented(&self, out: &mut String, depth: usize) -> fmt::Result {
        let line = |out: &mut String, depth: usize| write!(out, "\n{:1$}", "", depth * 4);
        match self {
            Json::Array(elements) => {
                out.write_char('[')?;
                for (n, element) in elements.iter().enumerate() {
                    out.write_str(if n > 0 { "," } else { "" })?;
                    line(out, depth + 1)?;
                    element.indented(out, depth + 1)?;
                }
                line(out, depth)?;
                out.write_char(']')
            }
            Json::Object(members) => {
                out.write_char('{')?;
                for (n, (key, value)) in members.iter().enumerate() {
                    out.write_str(if n > 0 { "," } else { "" })?;
                    line(out, depth + 1)?;
                    quote(out, key)?;
                    out.write_str(": ")?;
                    value.indented(out, depth + 1)?;
                }
                line(out, depth)?;
                out.write_char('}')
            }
            scalar => write!(out, "{scalar}"),
        }
    }

    /// Bytes whose order is that of `jsonb`: null, texts, numbers, booleans, arrays, objects; of arrays and objects the
    /// shorter ones first. A scalar stands before an array of one element and behind the empty one.
    pub fn sort_key(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Json::Array(elements) => append_array(&mut out, elements, 1),
            Json::Object(_) => self.append_key(&mut out),
            scalar => append_array(&mut out, std::slice::from_ref(scalar), 0),
        }
        out
    }

    fn append_key(&self, out: &mut Vec<u8>) {
        match self {
            Json::Null => out.push(1),
            Json::Text(text) => {
                out.push(2);
                append_text(out, text);
            }
            Json::Number(digits) => {
                out.push(3);
                number::append_key(out, digits);
            }
            Json::Bool(b) => out.extend([4, u8::from(*b)]),
            Json::Array(elements) => append_array(out, elements, 1),
            Json::Object(members) => {
                out.push(6);
                append_count(out, members.len());
                for (key, value) in members {
                    append_text(out, key);
                    value.append_key(out);
                }
            }
        }
    }
}

fn append_array(out: &mut Vec<u8>, elements: &[Json], is_array: u8) {
    out.push(5);
    append_count(out, elements.len());
    out.push(is_array);
    elements.iter().for_each(|element| element.append_key(out));
}

fn append_count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

/// A text has no zero: one ends it.
fn append_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// The order of an object's keys.
fn key_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// The place of an element that is counted from the start, or from the end if it is negative.
fn place(at: i64, count: usize) -> Option<usize> {
    let from_start = if at < 0 { i64::try_from(count).ok()?.checked_add(at)? } else { at };
    usize::try_from(from_start).ok().filter(|at| *at < count)
}

/// The canonical text of a `jsonb` value. Errors: 22P02; 22P05 for `\u0000`; 22003 for numbers that numeric has no room
/// for; 54001 for what lies too deep.
pub fn canonical(text: &str) -> SqlResult<String> {
    parse(text).map(|json| json.to_string())
}

/// The order of two canonical texts.
pub fn compare(a: &str, b: &str) -> Ordering {
    match a == b {
        true => Ordering::Equal,
        false => sort_key_of(a).cmp(&sort_key_of(b)),
    }
}

/// The key of a canonical text. Panics on any other text.
pub fn sort_key_of(canonical: &str) -> Vec<u8> {
    stored(canonical).sort_key()
}

/// The value of a canonical text. Panics on any other text: values are checked before they are kept.
pub fn stored(canonical: &str) -> Json {
    parse(canonical).unwrap_or_else(|e| panic!("no canonical JSON: {e}"))
}

/// A text in quotes.
pub fn quote(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            8 => "\\b",
            12 => "\\f",
            0..32 => "",
            _ => continue,
        };
        out.write_str(&text[plain..at])?;
        plain = at + 1;
        match escape {
            "" => write!(out, "\\u{byte:04x}")?,
            escape => out.write_str(escape)?,
        }
    }
    out.write_str(&text[plain..])?;
    out.write_char('"')
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => f.write_str(if *b { "true" } else { "false" }),
            Json::Number(digits) => f.write_str(digits),
            Json::Text(text) => quote(f, text),
            Json::Array(elements) => {
                f.write_char('[')?;
                for (n, element) in elements.iter().enumerate() {
                    f.write_str(if n > 0 { ", " } else { "" })?;
                    element.fmt(f)?;
                }
                f.write_char(']')
            }
            Json::Object(members) => {
                f.write_char('{')?;
                for (n, (key, value)) in members.iter().enumerate() {
                    f.write_str(if n > 0 { ", " } else { "" })?;
                    quote(f, key)?;
                    f.write_str(": ")?;
                    value.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

fn too_deep() -> SqlError {
    SqlError::new(SqlState(*b"54001"), "stack depth limit exceeded")
        .detail(format!("A JSON value has at most {DEPTH_MAX} levels."))
}

/// 22023, in PostgreSQL's words.
fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
