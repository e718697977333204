//! What a unique constraint says of its index: `INCLUDE (a, b)` behind the columns as a COMMENT, which the parser knows there,
//! and `UNIQUE NULLS NOT DISTINCT` of a column likewise.

use super::constraints::is_word;
use sqlparser::ast::{ColumnOption, Ident, IndexOption};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Begins the comment that stands for INCLUDE; a line for each column.
const INCLUDE: &str = "\u{f8ff}include";

/// The comment that stands for NULLS NOT DISTINCT.
const NOT_DISTINCT: &str = "\u{f8ff}nulls not distinct";

/// The columns that a constraint includes.
pub fn included(options: &[IndexOption]) -> Vec<Ident> {
    let of = |option: &IndexOption| match option {
        IndexOption::Comment(text) => text.strip_prefix(INCLUDE).map(str::to_string),
        IndexOption::Using(_) => None,
    };
    let Some(names) = options.iter().find_map(of) else { return Vec::new() };
    names.lines().skip(1).map(|name| Ident::with_quote('"', name)).collect()
}

/// Whether an option of a column says of the unique constraint before it that nulls are equal.
pub fn nulls_are_equal(option: &ColumnOption) -> bool {
    matches!(option, ColumnOption::Comment(text) if text == NOT_DISTINCT)
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "include") || is_word(t, "distinct")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> =
            (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
        let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        let is_about =
            is(0, "create") && (1..5).any(|nth| is(nth, "table")) || is(0, "alter") && is(1, "table");
        match is_about {
            true => made.extend(written(statement, &words)),
            false => made.extend_from_slice(statement),
        }
    }
    made
}

fn written(statement: &[TokenWithSpan], words: &[usize]) -> Vec<TokenWithSpan> {
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let is_token = |nth: usize, token: &Token| words.get(nth).is_some_and(|i| statement[*i].token == *token);
    let mut made = Vec::with_capacity(statement.len());
    let mut at = 0;
    while at < words.len() {
        let mut said = None;
        if is(at, "include") && at > 0 && is_token(at - 1, &Token::RParen) && is_token(at + 1, &Token::LParen)
        {
            let close = (at + 2..words.len()).find(|nth| is_token(*nth, &Token::RParen));
            said = close.map(|close| (listed(statement, &words[at + 2..close]), close + 1));
        } else if is(at, "nulls") && at > 0 && is(at - 1, "unique") {
            let end = if is(at + 1, "not") { at + 3 } else { at + 2 };
            let is_of_column = is(end - 1, "distinct") && !is_token(end, &Token::LParen);
            let text = if end == at + 3 { NOT_DISTINCT } else { "" };
            said = is_of_column.then(|| (text.to_string(), end));
        }
        let Some((comment, end)) = said else {
            let next = words.get(at + 1).copied().unwrap_or(statement.len());
            let from = if at == 0 { 0 } else { words[at] };
            made.extend_from_slice(&statement[from..next]);
            at += 1;
            continue;
        };
        let put = |token| TokenWithSpan { token, span: statement[words[at]].span };
        if !comment.is_empty() {
            made.extend([
                put(Token::make_keyword("COMMENT")),
                put(Token::Whitespace(Whitespace::Space)),
                put(Token::SingleQuotedString(comment)),
                put(Token::Whitespace(Whitespace::Space)),
            ]);
        }
        at = end;
    }
    made
}

/// The comment for a list of columns.
fn listed(statement: &[TokenWithSpan], words: &[usize]) -> String {
    let mut comment = INCLUDE.to_string();
    for at in words {
        match &statement[*at].token {
            Token::Word(word) if word.quote_style.is_some() => comment.push_str(&format!("\n{}", word.value)),
            Token::Word(word) => comment.push_str(&format!("\n{}", word.value.to_lowercase())),
            _ => {}
        }
    }
    comment
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use sqlparser::ast::{Statement, TableConstraint};

    #[test]
    fn constraints_include_columns() {
        let sql = "create table t (a int, b int unique nulls not distinct, c int unique nulls distinct, \
                   primary key (a) include (b, \"C\"), unique nulls not distinct (a) include (b))";
        let Some(Statement::CreateTable(create)) = parse(sql).unwrap().pop() else { panic!() };
        let [TableConstraint::PrimaryKey(key), TableConstraint::Unique(unique)] =
            create.constraints.as_slice()
        else {
            panic!("{:?}", create.constraints)
        };
        let names = |options: &[IndexOption]| {
            included(options).iter().map(|name| name.value.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&key.index_options), ["b", "C"]);
        assert_eq!(names(&unique.index_options), ["b"]);
        let says = |nth: usize| create.columns[nth].options.iter().any(|o| nulls_are_equal(&o.option));
        assert_eq!([says(0), says(1), says(2)], [false, true, false]);
        let altered = "alter table t add constraint x unique (a) include (b)";
        assert!(parse(altered).is_ok());
        assert!(parse("select include from t; create index i on t (a) include (b)").is_ok());
    }
}
