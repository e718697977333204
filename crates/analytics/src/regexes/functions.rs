//! `regexp_match` and its kin, one value at a time.

use super::super::fields::call_name;
use super::super::rowwise::{Cell, Column, Returns, each_row};
use super::pattern::TRANSLATED;
use base::element::Element;
use base::error::SqlResult;
use base::patterns::{Flags, compiled, translated};
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::{Result, plan_err};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex_automata::meta::Regex;
use regex_automata::{Input, Span};
use std::collections::BTreeMap;

/// Functions that make rows.
pub(in super::super) const SETS: [&str; 3] = ["regexp_matches", "regexp_split_to_table", "string_to_table"];
/// All matches of a text, each as the text of an array.
const MATCHES: &str = "meridian_regexp_matches";
/// The list that becomes a set of rows.
const PIECES: &str = "meridian_regexp_pieces";

/// The list that stands for a set of rows, and what makes each element what it is there. `None` for other functions.
pub(in super::super) fn set_as_list(name: &str, arguments: &[String]) -> Option<(String, &'static str)> {
    let (of, element) = match name {
        "regexp_split_to_table" => (PIECES, "text"),
        "regexp_matches" => (MATCHES, "text[]"),
        "string_to_table" => ("string_to_array", "text"),
        _ => return None,
    };
    Some((format!("{of}({})", arguments.join(", ")), element))
}

/// The rows of such a function, as an expression. `None` for other functions.
pub(in super::super) fn unnested(name: &str, arguments: &[String]) -> Option<String> {
    let (list, element) = set_as_list(name, arguments)?;
    Some(match element {
        "text" => format!("unnest({list})"),
        element => format!("CAST(unnest({list}) AS {element})"),
    })
}

/// Makes the functions known.
pub(in super::super) fn install(context: &SessionContext) {
    let all = [
        ("regexp_match", What::Match, 2..=3),
        (MATCHES, What::Matches, 2..=3),
        ("regexp_split_to_array", What::Split, 2..=3),
        (PIECES, What::Split, 2..=3),
        ("regexp_like", What::Like, 2..=3),
        ("regexp_count", What::Count, 2..=4),
        ("regexp_instr", What::Position, 2..=7),
        ("regexp_substr", What::Part, 2..=6),
        ("regexp_replace", What::Replace, 3..=6),
    ];
    for (name, what, counts) in all {
        context.register_udf(ScalarUDF::new_from_impl(Regexp::new(name, what, counts)));
    }
    context.register_udf(ScalarUDF::new_from_impl(translation()));
}

/// The function that gives a pattern in the library's syntax.
pub(super) fn translation() -> Regexp {
    Regexp::new(TRANSLATED, What::Translated, 1..=1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Match,
    Matches,
    Split,
    Like,
    Count,
    Position,
    Part,
    Replace,
    Translated,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Regexp {
    name: &'static str,
    what: What,
    /// How many arguments there can be.
    least: usize,
    most: usize,
    signature: Signature,
}

impl Regexp {
    fn new(name: &'static str, what: What, counts: std::ops::RangeInclusive<usize>) -> Regexp {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Regexp { name, what, least: *counts.start(), most: *counts.end(), signature }
    }

    /// The name that it has in messages.
    fn shown(&self) -> &'static str {
        match self.name {
            MATCHES => "regexp_matches",
            PIECES => "regexp_split_to_table",
            name => name,
        }
    }

    fn returns(&self) -> DataType {
        match self.what {
            What::Match | What::Matches | What::Split => {
                DataType::Array(Element::of(DataType::Text).expect("no array"))
            }
            What::Like => DataType::Boolean,
            What::Count | What::Position => DataType::Integer,
            What::Part | What::Replace | What::Translated => DataType::Text,
        }
    }

    /// Which argument the flags are, of so many.
    fn flags_at(&self, count: usize, third_is_number: bool) -> Option<usize> {
        let at = match self.what {
            What::Count => 3,
            What::Position => 5,
            What::Part => 4,
            What::Replace if count == 4 && !third_is_number => 3,
            What::Replace => 5,
            What::Translated => return None,
            _ => 2,
        };
        (at < count).then_some(at)
    }

    fn compute(&self, cells: &[Cell], known: &mut Known) -> SqlResult<Datum> {
        if cells.iter().any(Cell::is_null) {
            return Ok(Datum::Null);
        }
        if self.what == What::Translated {
            return translated(text(&cells[0])?, Flags::default()).map(Datum::text);
        }
        let is_number = |n: usize| matches!(cells.get(n), Some(Cell::Plain(Datum::Int(_))));
        let flags = match self.flags_at(cells.len(), is_number(3)) {
            Some(at) => text(&cells[at])?,
            None => "",
        };
        let flags = Flags::read(flags)?;
        if flags.is_global && !matches!(self.what, What::Matches | What::Replace) {
            return Err(no_global(self.shown(), self.what == What::Match));
        }
        let (subject, regex) = (text(&cells[0])?, known.regex(text(&cells[1])?, flags)?);
        let number = |n: usize, name: &str, least: i64, otherwise: i64| match cells.get(n) {
            None => Ok(otherwise),
            Some(cell) => integer(cell, name, least),
        };
        Ok(match self.what {
            What::Match => match found(regex, subject, 0) {
                Some(found) => groups(subject, &found),
                None => Datum::Null,
            },
            What::Matches => {
                let mut all = Matches::new(regex, subject, 0);
                let most = if flags.is_global { usize::MAX } else { 1 };
                let shown = |found: Found| Datum::text(base::text::display(&groups(subject, &found)));
                Datum::Array(all.by_ref().take(most).map(shown).collect())
            }
            What::Split => Datum::Array(pieces(regex, subject).into_iter().map(Datum::text).collect()),
            What::Like => Datum::Bool(regex.is_match(subject)),
            What::Count => {
                let start = number(2, "start", 1, 1)?;
                let count = byte_of(subject, start).map_or(0, |at| Matches::new(regex, subject, at).count());
                Datum::Int(count as i64)
            }
            What::Position => {
                let (start, nth) = (number(2, "start", 1, 1)?, number(3, "n", 1, 1)?);
                let end = number(4, "endoption", 0, 0)?;
                if end > 1 {
                    return Err(wrong_parameter("endoption", end));
                }
                let part = nth_part(regex, subject, start, nth, number(6, "subexpr", 0, 0)?);
                let at = part.map(|span| if end == 1 { span.end } else { span.start });
                Datum::Int(at.map_or(0, |at| subject[..at].chars().count() as i64 + 1))
            }
            What::Part => {
                let (start, nth) = (number(2, "start", 1, 1)?, number(3, "n", 1, 1)?);
                let part = nth_part(regex, subject, start, nth, number(5, "subexpr", 0, 0)?);
                part.map_or(Datum::Null, |span| Datum::text(&subject[span]))
            }
            What::Replace => {
                let has_numbers = cells.len() > 4 || is_number(3);
                let start = if has_numbers { number(3, "start", 1, 1)? } else { 1 };
                // Without a number of its own it is all or the first.
                let nth = match cells.get(4).filter(|_| has_numbers) {
                    Some(cell) => integer(cell, "n", 0)?,
                    None => i64::from(!flags.is_global),
                };
                Datum::text(replaced(regex, subject, text(&cells[2])?, start, nth))
            }
            What::Translated => unreachable!("answered before"),
        })
    }
}

impl ScalarUDFImpl for Regexp {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name, arguments)
    }
    fn return_type(&self, arguments: &[Arrow]) -> Result<Arrow> {
        if !(self.least..=self.most).contains(&arguments.len()) {
            return plan_err!("function {} does not exist with {} arguments", self.shown(), arguments.len());
        }
        Ok(colstore::arrow_type(self.returns()))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut known = Known::default();
        each_row(&arguments, Returns::Plain(self.returns()), |columns: &[Column], row| {
            let cells: Vec<Cell> = columns.iter().map(|column| column.at(row)).collect();
            self.compute(&cells, &mut known).map(Cell::Plain)
        })
    }
}

/// Expressions that were made ready for a batch.
#[derive(Default)]
struct Known(BTreeMap<(String, String), Regex>);

/// Patterns that differ from row to row are not all kept.
const KNOWN_MAX: usize = 64;

impl Known {
    /// Errors: 2201B, 0A000.
    fn regex(&mut self, pattern: &str, flags: Flags) -> SqlResult<&Regex> {
        let key = (pattern.to_string(), format!("{flags:?}"));
        if self.0.len() >= KNOWN_MAX && !self.0.contains_key(&key) {
            self.0.clear();
        }
        match self.0.entry(key) {
            std::collections::btree_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => Ok(place.insert(compiled(pattern, flags)?)),
        }
    }
}

fn text(cell: &Cell) -> SqlResult<&str> {
    match cell {
        Cell::Plain(Datum::Text(text)) => Ok(text),
        _ => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, "functions of regular expressions take texts")
            .hint("You might need to add explicit type casts.")),
    }
}

/// Errors: 22023 for less than the least.
fn integer(cell: &Cell, name: &str, least: i64) -> SqlResult<i64> {
    let number = match cell {
        Cell::Plain(Datum::Int(number)) => Some(*number),
        // A parameter whose type nobody knew.
        Cell::Plain(Datum::Text(text)) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| {
        let told = format!("the argument \"{name}\" of a function of regular expressions is an integer");
        SqlError::new(SqlState::UNDEFINED_FUNCTION, told)
    })?;
    if number < least { Err(wrong_parameter(name, number)) } else { Ok(number) }
}

fn wrong_parameter(name: &str, value: i64) -> SqlError {
    let told = format!("invalid value for parameter \"{name}\": {value}");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told)
}

fn no_global(name: &str, has_other: bool) -> SqlError {
    let told = format!("{name}() does not support the \"global\" option");
    let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told);
    if has_other { error.hint("Use the regexp_matches function instead.") } else { error }
}

/// Where a character from 1 on begins, the one behind the last too.
fn byte_of(text: &str, character: i64) -> Option<usize> {
    let nth = usize::try_from(character - 1).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(nth)
}

/// A match, and what its groups have matched.
struct Found {
    whole: Span,
    groups: Vec<Option<Span>>,
}

fn found(regex: &Regex, text: &str, from: usize) -> Option<Found> {
    let mut captures = regex.create_captures();
    regex.search_captures(&Input::new(text).range(from..), &mut captures);
    let whole = captures.get_group(0)?;
    Some(Found { whole, groups: (1..captures.group_len()).map(|n| captures.get_group(n)).collect() })
}

/// The groups of a match as an array; the whole match where there are none.
fn groups(text: &str, found: &Found) -> Datum {
    let shown = |span: Option<Span>| span.map_or(Datum::Null, |span| Datum::text(&text[span]));
    Datum::Array(match found.groups.is_empty() {
        true => [shown(Some(found.whole))].into(),
        false => found.groups.iter().map(|span| shown(*span)).collect(),
    })
}

/// Matches one after the other: behind an empty one the search goes on at the next character.
struct Matches<'r, 't> {
    regex: &'r Regex,
    text: &'t str,
    from: Option<usize>,
}

impl<'r, 't> Matches<'r, 't> {
    fn new(regex: &'r Regex, text: &'t str, from: usize) -> Matches<'r, 't> {
        Matches { regex, text, from: Some(from) }
    }
}

impl Iterator for Matches<'_, '_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let found = found(self.regex, self.text, self.from?);
        self.from = found.as_ref().and_then(|Found { whole, .. }| match whole.is_empty() {
            true => self.text[whole.end..].chars().next().map(|c| whole.end + c.len_utf8()),
            false => Some(whole.end),
        });
        found
    }
}

/// What lies between matches. An empty match at an end, or behind another one, separates nothing.
fn pieces<'t>(regex: &Regex, text: &'t str) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for Found { whole, .. } in Matches::new(regex, text, 0) {
        if whole.start < text.len() && whole.end > from {
            pieces.push(&text[from..whole.start]);
            from = whole.end;
        }
    }
    pieces.push(&text[from..]);
    pieces
}

/// A part of the nth match from a character on: a group of it, or all for 0.
fn nth_part(regex: &Regex, text: &str, start: i64, nth: i64, group: i64) -> Option<Span> {
    let from = byte_of(text, start)?;
    let found = Matches::new(regex, text, from).nth(usize::try_from(nth - 1).ok()?)?;
    match usize::try_from(group).ok()? {
        0 => Some(found.whole),
        group => found.groups.get(group - 1).copied().flatten(),
    }
}

/// The text with its nth match from a character on replaced, or with all of them for 0.
fn replaced(regex: &Regex, text: &str, with: &str, start: i64, nth: i64) -> String {
    let Some(from) = byte_of(text, start) else { return text.into() };
    let mut made = String::with_capacity(text.len());
    let mut copied = 0;
    for (n, found) in (1i64..).zip(Matches::new(regex, text, from)) {
        if nth > 0 && n < nth {
            continue;
        }
        made.push_str(&text[copied..found.whole.start]);
        write_replacement(&mut made, text, with, &found);
        copied = found.whole.end;
        if nth > 0 {
            break;
        }
    }
    made.push_str(&text[copied..]);
    made
}

/// `\1` is a group, `\&` the whole match, `\\` a backslash.
fn write_replacement(made: &mut String, text: &str, with: &str, found: &Found) {
    let mut rest = with.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().filter(|_| c == '\\');
        match next {
            Some(digit @ '1'..='9') => {
                let group = found.groups.get(digit as usize - '1' as usize).copied().flatten();
                made.push_str(group.map_or("", |span| &text[span]));
            }
            Some('&') => made.push_str(&text[found.whole]),
            Some('\\') => made.push('\\'),
            _ => {
                made.push(c);
                continue;
            }
        }
        rest.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str) -> Regex {
        Regex::new(&translated(pattern, Flags::default()).unwrap()).unwrap()
    }

    #[test]
    fn empty_matches_separate_characters_and_end() {
        assert_eq!(pieces(&regex(""), "abc"), ["a", "b", "c"]);
        assert_eq!(pieces(&regex(" *"), "a  b"), ["a", "b"]);
        assert_eq!(pieces(&regex(","), ",a,"), ["", "a", ""]);
        assert_eq!(pieces(&regex("x"), ""), [""]);
        assert_eq!(Matches::new(&regex("a*"), "äaa", 0).count(), 3);
    }

    #[test]
    fn a_replacement_names_groups() {
        let made = |pattern: &str, text: &str, with: &str, nth| replaced(&regex(pattern), text, with, 1, nth);
        assert_eq!(made("(b)(c)?", "abcb", "[\\2\\1\\&\\\\\\x]", 0), "a[cbbc\\\\x][bb\\\\x]");
        assert_eq!(made("b", "abab", "x", 2), "abax");
        assert_eq!(replaced(&regex("^b"), "ab", "x", 2, 0), "ab");
    }
}
