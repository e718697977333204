//! Words of PostgreSQL's that the parser does not know, as others of the same meaning that it does.

use super::Keyword;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sqlparser::ast::{ColumnDef, DataType};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use std::collections::BTreeSet;

/// Stands for the type of a column of CREATE TABLE AS, which has its query's.
const OF_QUERY: &str = "\u{f8ff}type of the query";

/// The tokens with
/// - ABORT as ROLLBACK;
/// - CREATE UNLOGGED TABLE as CREATE TABLE: a table that keeps more than was asked;
/// - FOR NO KEY UPDATE as FOR UPDATE and FOR KEY SHARE as FOR SHARE, the stronger lock;
/// - CREATE TABLE t (a, b) AS with a type for each column.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |word: &str| tokens.iter().any(|t| is_word(t, word));
    if !(has("abort") || has("unlogged") || has("key") || has("create")) {
        return tokens;
    }
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> = (0..statement.len()).filter(|i| !is_blank(&statement[*i])).collect();
        let named = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        let mut renamed = None;
        let mut typed: BTreeSet<usize> = BTreeSet::new();
        if named(0, "abort") {
            renamed = words.first().copied();
        }
        for nth in 0..words.len() {
            if named(nth, "create") && named(nth + 1, "unlogged") && named(nth + 2, "table") {
                gone.insert(words[nth + 1]);
            }
            let is_update = named(nth + 1, "no") && named(nth + 2, "key") && named(nth + 3, "update");
            if named(nth, "for") && is_update {
                gone.extend([words[nth + 1], words[nth + 2]]);
            }
            if named(nth, "for") && named(nth + 1, "key") && named(nth + 2, "share") {
                gone.insert(words[nth + 1]);
            }
            if named(nth, "table") && nth <= 6 {
                let of_statement: Vec<&TokenWithSpan> = words[nth..].iter().map(|i| &statement[*i]).collect();
                typed.extend(columns_of_query(&of_statement).into_iter().map(|at| words[nth + at]));
            }
        }
        for (i, token) in statement.iter().enumerate() {
            if gone.contains(&i) {
                continue;
            }
            let at = |token| TokenWithSpan { token, span: statement[i].span };
            match renamed == Some(i) {
                true => made.push(at(Token::make_word("ROLLBACK", None))),
                false => made.push(token.clone()),
            }
            if typed.contains(&i) {
                made.push(at(Token::Whitespace(Whitespace::Space)));
                made.push(at(Token::make_word(OF_QUERY, Some('"'))));
            }
        }
    }
    made
}

/// Where in `TABLE [IF NOT EXISTS] name (a, b) AS …` the names of columns stand; none if it is another statement.
fn columns_of_query(words: &[&TokenWithSpan]) -> Vec<usize> {
    let is_name = |t: &TokenWithSpan| match &t.token {
        Token::Word(w) => w.quote_style.is_some() || w.keyword != Keyword::AS,
        _ => false,
    };
    let Some(open) = words.iter().position(|t| matches!(t.token, Token::LParen)) else { return Vec::new() };
    let is_head = |t: &&TokenWithSpan| is_name(t) || matches!(t.token, Token::Period);
    if !words[..open].iter().all(is_head) {
        return Vec::new();
    }
    let mut columns = Vec::new();
    let mut rest = words[open + 1..].iter().enumerate();
    loop {
        match rest.next() {
            Some((at, name)) if is_name(name) => columns.push(open + 1 + at),
            _ => return Vec::new(),
        }
        match rest.next().map(|(_, t)| &t.token) {
            Some(Token::Comma) => {}
            Some(Token::RParen) => break,
            _ => return Vec::new(),
        }
    }
    match rest.next() {
        Some((_, word)) if is_word(word, "as") => columns,
        _ => Vec::new(),
    }
}

/// The names that CREATE TABLE AS gives to columns. Errors: 42601 if it says more of one.
pub fn names_of_columns(columns: &[ColumnDef]) -> SqlResult<Vec<String>> {
    let name = |column: &ColumnDef| match &column.data_type {
        DataType::Custom(name, _) if name.to_string().contains(OF_QUERY) => {
            Ok(crate::names::fold(&column.name))
        }
        other => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("syntax error at or near \"{}\"", other.to_string().to_lowercase()),
        )),
    };
    columns.iter().map(name).collect()
}

fn is_word(t: &TokenWithSpan, word: &str) -> bool {
    match &t.token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

fn is_blank(t: &TokenWithSpan) -> bool {
    matches!(t.token, Token::Whitespace(_) | Token::EOF)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use sqlparser::ast::Statement;

    #[test]
    fn other_words_are_read_as_known_ones() {
        for (sql, wanted) in [
            ("abort", "ROLLBACK"),
            ("abort work", "ROLLBACK"),
            ("create unlogged table t (a int)", "CREATE TABLE t (a INT)"),
            ("select a from t for no key update nowait", "SELECT a FROM t FOR UPDATE NOWAIT"),
            ("select a from t for key share", "SELECT a FROM t FOR SHARE"),
            ("select abort from unlogged", "SELECT abort FROM unlogged"),
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string(), wanted, "{sql}");
        }
    }

    #[test]
    fn columns_of_a_query_are_named() {
        for (sql, wanted) in [
            ("create table s.t (a, \"B c\") as select 1, 2", Some(vec!["a", "B c"])),
            ("create table if not exists t (a) as select 1", Some(vec!["a"])),
            ("create table t (a int) as select 1", None),
            ("create table t as select 1", Some(vec![])),
        ] {
            let Some(Statement::CreateTable(create)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
            let names = names_of_columns(&create.columns).ok();
            assert_eq!(names, wanted.map(|w| w.into_iter().map(String::from).collect()), "{sql}");
        }
        assert!(parse("create table t (a, b)").is_err());
    }
}
