//! What is said of materialized views in words that the parser knows.
//!
//! - `REFRESH MATERIALIZED VIEW v …` as `ALTER TABLE v SET ("meridian refresh" = '…')`.
//! - `ALTER MATERIALIZED VIEW v …` as `ALTER TABLE v …`.
//! - `CREATE MATERIALIZED VIEW v AS … WITH NO DATA` as `CREATE MATERIALIZED VIEW v WITH ("meridian no data" = true) AS …`.

use super::constraints::is_word;
use sqlparser::ast::{self, AlterTableOperation, Expr, Ident, ObjectName, SqlOption, Statement, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The option that stands for a refresh.
const REFRESH: &str = "meridian refresh";

/// The option that stands for WITH NO DATA.
const NO_DATA: &str = "meridian no data";

/// How a materialized view gets its rows anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    pub concurrently: bool,
    pub with_data: bool,
}

/// What is refreshed, and how; `None` if a statement is another one.
pub fn refresh_of(statement: &Statement) -> Option<(&ObjectName, Refresh)> {
    let Statement::AlterTable(alter) = statement else { return None };
    let [AlterTableOperation::SetOptionsParens { options }] = alter.operations.as_slice() else {
        return None;
    };
    let [SqlOption::KeyValue { key: Ident { value: key, .. }, value: Expr::Value(value) }] =
        options.as_slice()
    else {
        return None;
    };
    match &value.value {
        Value::SingleQuotedString(how) if key == REFRESH => {
            let refresh = Refresh { concurrently: how.contains('c'), with_data: !how.contains('n') };
            Some((&alter.name, refresh))
        }
        _ => None,
    }
}

/// Whether a materialized view is made with rows.
pub fn asks_for_data(create: &ast::CreateView) -> bool {
    let ast::CreateTableOptions::With(options) = &create.options else { return true };
    let is_it =
        |option: &SqlOption| matches!(option, SqlOption::KeyValue { key, .. } if key.value == NO_DATA);
    !options.iter().any(is_it)
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "materialized")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> =
            (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
        let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        match is(1, "materialized") && is(2, "view") && words.len() > 3 {
            true if is(0, "refresh") => made.extend(refreshed(statement, &words)),
            true if is(0, "alter") => {
                made.extend_from_slice(&statement[..words[1]]);
                made.push(put(statement, &words, Token::make_keyword("TABLE")));
                made.extend_from_slice(&statement[words[2] + 1..]);
            }
            true if is(0, "create") => made.extend(created(statement, &words)),
            _ => made.extend_from_slice(statement),
        }
    }
    made
}

fn put(statement: &[TokenWithSpan], words: &[usize], token: Token) -> TokenWithSpan {
    TokenWithSpan { token, span: statement[words[1]].span }
}

/// How many of the last words say WITH DATA (2) or WITH NO DATA (3); 0: neither is said.
fn data_clause(statement: &[TokenWithSpan], words: &[usize]) -> usize {
    let is_end = |t: &Token| matches!(t, Token::SemiColon | Token::EOF);
    let count = words.iter().take_while(|i| !is_end(&statement[**i].token)).count();
    let is = |back: usize, word: &str| {
        count.checked_sub(back).is_some_and(|nth| is_word(&statement[words[nth]], word))
    };
    match is(1, "data") {
        true if is(2, "with") => 2,
        true if is(2, "no") && is(3, "with") => 3,
        _ => 0,
    }
}

/// The words before what ends a statement, without so many of the last ones.
fn without_last<'a>(
    statement: &'a [TokenWithSpan],
    words: &[usize],
    last: usize,
) -> (usize, &'a [TokenWithSpan]) {
    let is_end = |t: &Token| matches!(t, Token::SemiColon | Token::EOF);
    let count = words.iter().take_while(|i| !is_end(&statement[**i].token)).count();
    let end = words.get(count).map_or(statement.len(), |i| *i);
    let begin = words.get(count - last).map_or(end, |i| *i);
    (begin, &statement[end..])
}

fn refreshed(statement: &[TokenWithSpan], words: &[usize]) -> Vec<TokenWithSpan> {
    let clause = data_clause(statement, words);
    let is_concurrent = is_word(&statement[words[3]], "concurrently");
    let first = words.get(if is_concurrent { 4 } else { 3 }).map_or(statement.len(), |i| *i);
    let (end, rest) = without_last(statement, words, clause);
    let mut how = String::new();
    how.extend(is_concurrent.then_some('c'));
    how.extend((clause == 3).then_some('n'));
    let put = |token| put(statement, words, token);
    let space = || put(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space));
    let mut made =
        vec![put(Token::make_keyword("ALTER")), space(), put(Token::make_keyword("TABLE")), space()];
    made.extend_from_slice(&statement[first.min(end)..end]);
    made.extend([
        space(),
        put(Token::make_keyword("SET")),
        put(Token::LParen),
        put(Token::make_word(REFRESH, Some('"'))),
        put(Token::Eq),
        put(Token::SingleQuotedString(how)),
        put(Token::RParen),
    ]);
    made.extend_from_slice(rest);
    made
}

fn created(statement: &[TokenWithSpan], words: &[usize]) -> Vec<TokenWithSpan> {
    let clause = data_clause(statement, words);
    let begins = words.iter().find(|i| is_word(&statement[**i], "as")).copied();
    let Some(query) = begins.filter(|_| clause > 0) else { return statement.to_vec() };
    let (end, rest) = without_last(statement, words, clause);
    let mut made = statement[..query].to_vec();
    let put = |token| put(statement, words, token);
    if clause == 3 {
        made.extend([
            put(Token::make_keyword("WITH")),
            put(Token::LParen),
            put(Token::make_word(NO_DATA, Some('"'))),
            put(Token::Eq),
            put(Token::make_keyword("TRUE")),
            put(Token::RParen),
            put(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space)),
        ]);
    }
    made.extend_from_slice(&statement[query..end]);
    made.extend_from_slice(rest);
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    #[test]
    fn a_refresh_says_what_and_how() {
        for (sql, name, concurrently, with_data) in [
            ("refresh materialized view v", "v", false, true),
            ("REFRESH MATERIALIZED VIEW CONCURRENTLY s.\"V\" WITH DATA;", "s.\"V\"", true, true),
            ("refresh materialized view v with no data", "v", false, false),
        ] {
            let statements = parse(sql).unwrap();
            let (found, refresh) = refresh_of(&statements[0]).expect(sql);
            assert_eq!((found.to_string().as_str(), refresh), (name, Refresh { concurrently, with_data }));
        }
        assert_eq!(refresh_of(&parse("alter table v rename to w").unwrap()[0]), None);
        assert!(parse("refresh materialized view").is_err());
        assert!(parse("refresh materialized view v with some data").is_err());
    }

    #[test]
    fn a_view_is_made_with_rows_or_without() {
        for (sql, wanted) in [
            ("create materialized view v as select 1", true),
            ("create materialized view if not exists v (a) as select 1 with data", true),
            ("create materialized view v as select 1 as data with no data;", false),
        ] {
            let statements = parse(sql).unwrap();
            let Statement::CreateView(create) = &statements[0] else { panic!("{sql}") };
            assert_eq!((asks_for_data(create), create.materialized), (wanted, true), "{sql}");
            assert!(!create.query.to_string().to_lowercase().contains("with"), "{sql}");
        }
    }
}
