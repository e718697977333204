//! Words of PostgreSQL's that the parser does not know, as others of the same meaning that it does.

use super::Keyword;
use super::constraints::is_word;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sqlparser::ast::{ColumnDef, DataType};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use std::collections::{BTreeMap, BTreeSet};

/// Stands for the type of a column of CREATE TABLE AS, which has its query's.
const OF_QUERY: &str = "\u{f8ff}type of the query";

/// The tokens with
/// - ABORT as ROLLBACK;
/// - TABLE t as SELECT * FROM t;
/// - OPERATOR(pg_catalog.=) as the operator: there are no others;
/// - CREATE UNLOGGED TABLE as CREATE TABLE: a table that keeps more than was asked;
/// - FOR NO KEY UPDATE as FOR UPDATE and FOR KEY SHARE as FOR SHARE, the stronger lock;
/// - VACUUM and ANALYZE without their options and lists of columns, which change nothing here;
/// - `->-1` as `-> -1`;
/// - COPY (FREEZE on) and (HEADER off) as true and false;
/// - CREATE TABLE t (a, b) AS with a type for each column.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens = with_signs_apart(tokens);
    let has = |word: &str| tokens.iter().any(|t| is_word(t, word));
    const WORDS: &[&str] =
        &["abort", "unlogged", "key", "create", "vacuum", "analyze", "analyse", "copy", "table", "operator"];
    if !WORDS.iter().any(|word| has(word)) {
        return tokens;
    }
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> = (0..statement.len()).filter(|i| !is_blank(&statement[*i])).collect();
        let named = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        let mut typed: BTreeSet<usize> = BTreeSet::new();
        let mut renamed: BTreeMap<usize, &str> = BTreeMap::new();
        if named(0, "abort") {
            renamed.insert(words[0], "ROLLBACK");
        }
        if named(0, "vacuum") || named(0, "analyze") || named(0, "analyse") {
            gone.extend(maintenance_options(statement, &words));
            if named(0, "analyse") {
                renamed.insert(words[0], "ANALYZE");
            }
        }
        if named(0, "copy") {
            for at in 1..words.len() {
                let names_flag = named(at - 1, "freeze") || named(at - 1, "header");
                if names_flag && (named(at, "on") || named(at, "off")) {
                    renamed.insert(words[at], if named(at, "on") { "TRUE" } else { "FALSE" });
                }
            }
        }
        for nth in 0..words.len() {
            // OPERATOR ( pg_catalog . = )
            let is = |nth: usize, token: Token| words.get(nth).is_some_and(|i| statement[*i].token == token);
            if named(nth, "operator") && is(nth + 1, Token::LParen) && named(nth + 2, "pg_catalog") {
                if is(nth + 3, Token::Period) && is(nth + 5, Token::RParen) {
                    gone.extend([0, 1, 2, 3, 5].map(|offset| words[nth + offset]));
                }
            }
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
            if named(nth, "table") && begins_query(statement, &words[..=nth]) {
                let is_name = |i: &usize| matches!(statement[*i].token, Token::Word(_));
                if words.get(nth + 1).is_some_and(is_name) {
                    renamed.insert(words[nth], "SELECT * FROM");
                }
            } else if named(nth, "table") && nth <= 6 {
                let of_statement: Vec<&TokenWithSpan> = words[nth..].iter().map(|i| &statement[*i]).collect();
                typed.extend(columns_of_query(&of_statement).into_iter().map(|at| words[nth + at]));
            }
        }
        for (i, token) in statement.iter().enumerate() {
            if gone.contains(&i) {
                continue;
            }
            let at = |token| TokenWithSpan { token, span: statement[i].span };
            match renamed.get(&i) {
                Some(words) => {
                    for (nth, word) in words.split(' ').enumerate() {
                        if nth > 0 {
                            made.push(at(Token::Whitespace(Whitespace::Space)));
                        }
                        made.push(at(if word == "*" { Token::Mul } else { Token::make_word(word, None) }));
                    }
                }
                None => made.push(token.clone()),
            }
            if typed.contains(&i) {
                made.push(at(Token::Whitespace(Whitespace::Space)));
                made.push(at(Token::make_word(OF_QUERY, Some('"'))));
            }
        }
    }
    made
}

/// `->-1` is an arrow and a number with a sign: no operator of PostgreSQL's ends so.
fn with_signs_apart(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let arrow = |t: &TokenWithSpan| match &t.token {
        Token::CustomBinaryOperator(operator) if operator == "->-" => Some(Token::Arrow),
        Token::CustomBinaryOperator(operator) if operator == "->>-" => Some(Token::LongArrow),
        _ => None,
    };
    if !tokens.iter().any(|t| arrow(t).is_some()) {
        return tokens;
    }
    let apart = |t: TokenWithSpan| match arrow(&t) {
        Some(token) => [token, Token::Minus].map(|token| TokenWithSpan { token, span: t.span }).to_vec(),
        None => vec![t],
    };
    tokens.into_iter().flat_map(apart).collect()
}

/// Whether the last of a statement's words, TABLE, stands where a query may begin.
fn begins_query(statement: &[TokenWithSpan], words: &[usize]) -> bool {
    let [before @ .., _] = words else { return false };
    let Some(last) = before.last().map(|i| &statement[*i]) else { return true };
    let is = |word| is_word(last, word);
    let creates = || is_word(&statement[before[0]], "create");
    let combines = ["union", "except", "intersect", "all"].into_iter().any(is);
    matches!(last.token, Token::LParen) || combines || is("as") && creates()
}

/// Which tokens of `VACUUM [(options) | words] [table [(columns)], …]` say what makes no difference here: all but the
/// first table.
fn maintenance_options(statement: &[TokenWithSpan], words: &[usize]) -> Vec<usize> {
    const OPTIONS: &[&str] = &["full", "freeze", "verbose", "analyze", "analyse"];
    let token = |at: usize| &statement[words[at]];
    let is_name = |at: usize| matches!(token(at).token, Token::Word(_) | Token::Period);
    let mut at = 1;
    if at < words.len() && matches!(token(at).token, Token::LParen) {
        let close = (at..words.len()).find(|i| matches!(token(*i).token, Token::RParen));
        at = close.map_or(at, |close| close + 1);
    }
    while at < words.len() && OPTIONS.iter().any(|option| is_word(token(at), option)) {
        at += 1;
    }
    let first = at;
    while at < words.len() && is_name(at) {
        at += 1;
    }
    // What follows is a list: of columns, of tables, or both.
    let is_list = at < words.len() && matches!(token(at).token, Token::LParen | Token::Comma);
    let end = match words.len().checked_sub(1) {
        Some(last) if matches!(token(last).token, Token::SemiColon) => last,
        _ => words.len(),
    };
    let behind = if is_list { at..end } else { 0..0 };
    words[1..first].iter().copied().chain(words[behind].iter().copied()).collect()
}

/// Where in `TABLE [IF NOT EXISTS] name (a, b) [ON COMMIT …] AS …` the names of columns stand; none if it is another statement.
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
    // Of a temporary table, what becomes of it may come first: ON COMMIT DROP, ON COMMIT DELETE ROWS.
    let rest: Vec<&TokenWithSpan> = rest.map(|(_, word)| *word).collect();
    let is = |nth: usize, word: &str| rest.get(nth).is_some_and(|t| is_word(t, word));
    let clause = match is(0, "on") && is(1, "commit") {
        true if is(2, "drop") => 3,
        true => 4,
        false => 0,
    };
    if is(clause, "as") { columns } else { Vec::new() }
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
            ("table s.t limit 1", "SELECT * FROM s.t LIMIT 1"),
            ("select 1 union all table t", "SELECT 1 UNION ALL SELECT * FROM t"),
            ("select (table t)", "SELECT (SELECT * FROM t)"),
            ("create view v as table t", "CREATE VIEW v AS SELECT * FROM t"),
            ("drop table t", "DROP TABLE t"),
            ("select 1 operator(pg_catalog.=) any (array[1])", "SELECT 1 = ANY(ARRAY[1])"),
            ("select 1 as table from t", "SELECT 1 AS table FROM t"),
            ("create unlogged table t (a int)", "CREATE TABLE t (a INT)"),
            ("select a from t for no key update nowait", "SELECT a FROM t FOR UPDATE NOWAIT"),
            ("select a from t for key share", "SELECT a FROM t FOR SHARE"),
            ("vacuum analyze t", "VACUUM t"),
            ("vacuum (full, freeze) s.t (a, b), u", "VACUUM s.t"),
            ("vacuum full", "VACUUM"),
            ("analyse t", "ANALYZE t"),
            ("analyze verbose t (a); vacuum", "ANALYZE t"),
            ("copy t from stdin with (freeze on)", "COPY t FROM STDIN (FREEZE)"),
            ("copy t from stdin (header off, format csv)", "COPY t FROM STDIN (HEADER FALSE, FORMAT csv)"),
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
