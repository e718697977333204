//! `CREATE SCHEMA s CREATE TABLE … GRANT …`: what is made in the schema stands behind it as the text of an option.

use super::constraints::is_word;
use super::domains::written;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sqlparser::ast::{Expr, SqlOption, Statement, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The option that stands for what is made.
const ELEMENTS: &str = "\u{f8ff}elements";

/// Whether a schema is made with something in it.
pub fn has_elements(statement: &Statement) -> bool {
    text_of(statement).is_some()
}

/// The statements that make what is in a new schema, in the order in which they are run: what others need comes first.
/// Errors: 42601, 0A000 for what cannot be made so.
pub fn elements_of(statement: &Statement) -> SqlResult<Vec<Statement>> {
    let Some(text) = text_of(statement) else { return Ok(Vec::new()) };
    if let Statement::CreateSchema { if_not_exists: true, .. } = statement {
        let told = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
    }
    let mut elements = super::parse(text)?;
    for element in &elements {
        rank(element).ok_or_else(|| {
            SqlError::unsupported(format!("{} in CREATE SCHEMA", crate::ddl::first_words(element)))
                .hint("Create it with a statement of its own.")
        })?;
    }
    elements.sort_by_key(rank);
    Ok(elements)
}

/// When something is made; `None`: never.
fn rank(element: &Statement) -> Option<usize> {
    match element {
        Statement::CreateSequence { .. } => Some(0),
        Statement::CreateTable(create) if create.query.is_none() => Some(1),
        Statement::CreateView(create) if !create.materialized => Some(2),
        Statement::CreateIndex(create) if !create.concurrently => Some(3),
        Statement::Grant(_) => Some(4),
        _ => None,
    }
}

fn text_of(statement: &Statement) -> Option<&str> {
    let Statement::CreateSchema { with: Some(options), .. } = statement else { return None };
    let [SqlOption::KeyValue { key, value: Expr::Value(value) }] = options.as_slice() else { return None };
    match &value.value {
        Value::SingleQuotedString(text) if key.value == ELEMENTS => Some(text),
        _ => None,
    }
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "schema")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        made.extend(carried(statement).unwrap_or_else(|| statement.to_vec()));
    }
    made
}

/// The statement with its elements as an option; `None`: it has none.
fn carried(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let is_end = |t: &TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
    let end = statement.iter().position(is_end).unwrap_or(statement.len());
    let words: Vec<usize> =
        (0..end).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let is_comma = |nth: usize| words.get(nth).is_some_and(|i| statement[*i].token == Token::Comma);
    if !is(0, "create") || !is(1, "schema") {
        return None;
    }
    // CREATE is a privilege, too.
    let begins =
        |nth: usize| is(nth, "grant") || is(nth, "create") && !is(nth + 1, "on") && !is_comma(nth + 1);
    let first = (3..words.len()).find(|nth| begins(*nth))?;
    let (mut text, mut depth) = (String::new(), 0_usize);
    for nth in first..words.len() {
        let token = &statement[words[nth]].token;
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if nth > first && depth == 0 && begins(nth) => text.push(';'),
            _ => {}
        }
        text.push_str(&written(token));
        let next = words.get(nth + 1).copied().unwrap_or(end);
        if next > words[nth] + 1 {
            text.push(' ');
        }
    }
    let put = |token: Token| TokenWithSpan { token, span: statement[words[first]].span };
    let blank = || put(Token::Whitespace(Whitespace::Space));
    let mut made = statement[..words[first]].to_vec();
    made.extend([
        blank(),
        put(Token::make_keyword("WITH")),
        put(Token::LParen),
        put(Token::make_word(ELEMENTS, Some('"'))),
        put(Token::Eq),
        put(Token::SingleQuotedString(text)),
        put(Token::RParen),
    ]);
    made.extend_from_slice(&statement[end..]);
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    #[test]
    fn what_is_made_in_a_schema_is_read_in_order() {
        let sql = "create schema s authorization r create view v as select a from t where b = 'x''y' \
                   grant select, insert on v to r create table t (a int, b text); select 1";
        let parsed = parse(sql).unwrap();
        assert_eq!(parsed.len(), 2);
        let elements: Vec<String> =
            elements_of(&parsed[0]).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            elements,
            [
                "CREATE TABLE t (a INT, b TEXT)",
                "CREATE VIEW v AS SELECT a FROM t WHERE b = 'x''y'",
                "GRANT SELECT, INSERT ON v TO r"
            ]
        );
        assert!(!has_elements(&parse("create schema s").unwrap()[0]));
        assert!(elements_of(&parse("create schema s create role r").unwrap()[0]).is_err());
        let twice = parse("create schema if not exists s create table t (a int)").unwrap();
        assert!(elements_of(&twice[0]).is_err());
    }
}
