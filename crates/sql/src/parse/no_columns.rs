//! `CREATE TABLE t ()`: the parser takes it for a statement that says nothing of columns. A column that no client can name stands
//! in the list.

use super::constraints::is_word;
use sqlparser::ast::ColumnDef;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Stands for the columns of a table that has none.
const NONE: &str = "\u{f8ff}no column";

/// Whether a column stands for none.
pub fn is_no_column(column: &ColumnDef) -> bool {
    column.name.value == NONE
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let creates = tokens.iter().any(|t| is_word(t, "create")) && tokens.iter().any(|t| is_word(t, "table"));
    if !creates {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let Some(open) = empty_list(statement) else {
            made.extend_from_slice(statement);
            continue;
        };
        let put = |token| TokenWithSpan { token, span: statement[open].span };
        made.extend_from_slice(&statement[..=open]);
        made.push(put(Token::make_word(NONE, Some('"'))));
        made.push(put(Token::Whitespace(Whitespace::Space)));
        made.push(put(Token::make_keyword("INT")));
        made.extend_from_slice(&statement[open + 1..]);
    }
    made
}

/// Where the list of columns begins that stands behind the name in CREATE TABLE and has nothing in it.
fn empty_list(statement: &[TokenWithSpan]) -> Option<usize> {
    let words: Vec<usize> =
        (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let is_token = |nth: usize, token: &Token| words.get(nth).is_some_and(|i| statement[*i].token == *token);
    let table = (1..4).find(|nth| is(*nth, "table")).filter(|_| is(0, "create"))?;
    let said = is(table + 1, "if") && is(table + 2, "not") && is(table + 3, "exists");
    let mut open = if said { table + 5 } else { table + 2 };
    while is_token(open, &Token::Period) {
        open += 2;
    }
    let is_empty = is_token(open, &Token::LParen) && is_token(open + 1, &Token::RParen);
    is_empty.then(|| words[open])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use sqlparser::ast::Statement;

    #[test]
    fn a_table_may_have_no_columns() {
        for (sql, none) in [
            ("create table t ()", true),
            ("CREATE TEMP TABLE IF NOT EXISTS s.t ( );", true),
            ("create table t (a int)", false),
        ] {
            let Some(Statement::CreateTable(create)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
            assert_eq!(create.columns.len(), 1, "{sql}");
            assert_eq!(is_no_column(&create.columns[0]), none, "{sql}");
        }
        assert_eq!(
            parse("create table t as select now()").unwrap()[0].to_string(),
            "CREATE TABLE t AS SELECT now()"
        );
        assert!(parse("create function f () returns int language sql as 'select 1'").is_ok());
    }
}
