//! Patterns of `SIMILAR TO` as regular expressions.

use base::{SqlError, SqlState};
use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::sql::sqlparser::ast::{self, Expr};
use std::sync::Arc;

/// The function of a pattern and its escape character.
pub(super) const PATTERN: &str = "meridian_similar_pattern";

/// The function for a planner.
pub(super) fn function() -> ScalarUDF {
    let types = vec![DataType::Utf8, DataType::Utf8];
    create_udf(PATTERN, types, DataType::Utf8, Volatility::Immutable, Arc::new(patterns))
}

/// `SIMILAR TO` as a match of a regular expression; `None` if the expression is none.
pub(super) fn as_match(e: &Expr) -> Option<Expr> {
    let Expr::SimilarTo { negated, expr, pattern, escape_char } = e else { return None };
    let escape = match escape_char.as_ref().map(|escape| &escape.value) {
        None => "\\".to_string(),
        Some(ast::Value::SingleQuotedString(escape)) => escape.replace('\'', "''"),
        Some(_) => return None,
    };
    let operator = if *negated { "!~" } else { "~" };
    sql::parse::parse_expr(&format!("({expr}) {operator} {PATTERN}({pattern}, '{escape}')")).ok()
}

fn patterns(arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(arguments)?;
    let (patterns, escapes) = (arrays[0].as_string::<i32>(), arrays[1].as_string::<i32>());
    let made = patterns.iter().zip(escapes).map(|(pattern, escape)| match (pattern, escape) {
        (Some(pattern), Some(escape)) => expression(pattern, escape).map(Some),
        _ => Ok(None),
    });
    let made: StringArray = made.collect::<Result<_>>()?;
    Ok(ColumnarValue::Array(Arc::new(made) as ArrayRef))
}

/// The regular expression that matches what a pattern does: `%` and `_` as in LIKE, `| * + ? { } ( ) [ ]` as there, and every
/// other sign as itself. Errors: 22019 for an escape of several characters.
fn expression(pattern: &str, escape: &str) -> Result<String> {
    let mut characters = escape.chars();
    let (escape, more) = (characters.next(), characters.next());
    if more.is_some() {
        let error = SqlError::new(SqlState(*b"22019"), "invalid escape string");
        return Err(DataFusionError::External(Box::new(error)));
    }
    let mut made = String::from("^(?s:");
    let mut rest = pattern.chars();
    let mut is_class = false;
    while let Some(c) = rest.next() {
        match c {
            c if Some(c) == escape => {
                if let Some(escaped) = rest.next() {
                    literal(&mut made, escaped);
                }
            }
            '[' if !is_class => {
                is_class = true;
                made.push('[');
            }
            ']' if is_class => {
                is_class = false;
                made.push(']');
            }
            '\\' => made.push_str("\\\\"),
            // What has a meaning inside a class in this library alone.
            '[' | '&' | '~' if is_class => made.extend(['\\', c]),
            c if is_class => made.push(c),
            '%' => made.push_str(".*"),
            '_' => made.push('.'),
            '(' => made.push_str("(?:"),
            '.' | '^' | '$' => made.extend(['\\', c]),
            c => made.push(c),
        }
    }
    made.push_str(")$");
    Ok(made)
}

fn literal(made: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        made.push('\\');
    }
    made.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_an_expression_of_the_whole_text() {
        for (pattern, escape, wanted) in [
            ("a%", "\\", "^(?s:a.*)$"),
            ("(a|b)_", "\\", "^(?s:(?:a|b).)$"),
            ("a.b$", "\\", "^(?s:a\\.b\\$)$"),
            ("[a-c_%]+", "\\", "^(?s:[a-c_%]+)$"),
            ("a#%", "#", "^(?s:a\\%)$"),
            ("a\\%", "", "^(?s:a\\\\.*)$"),
        ] {
            assert_eq!(expression(pattern, escape).unwrap(), wanted, "{pattern}");
        }
        assert!(expression("a", "##").is_err());
    }
}
