//! What the parser does not know of calls, as names of this program's own that it does: `VARIADIC` before an argument, `ROWS
//! FROM (…)`, and a list of columns behind a call that is given no name.

use super::constraints::is_word;
use sqlparser::ast::{Ident, ObjectName};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use std::collections::BTreeMap;

/// The name that an argument behind VARIADIC is given by.
const VARIADIC: &str = "\u{f8ff}variadic";

/// The function in FROM whose arguments are the calls of ROWS FROM.
const ROWS_FROM: &str = "\u{f8ff}rows from";

/// Words that begin what stands in parentheses behind AS and is no list of columns.
const QUERIES: [&str; 9] =
    ["select", "values", "with", "table", "insert", "update", "delete", "merge", "execute"];

/// Whether an argument's name says that it is the array of all arguments from there on.
pub fn is_variadic(name: &Ident) -> bool {
    name.value.starts_with(VARIADIC)
}

/// The name of an argument behind VARIADIC, if it has one.
pub fn name_behind_variadic(name: &Ident) -> Option<&str> {
    name.value.strip_prefix(VARIADIC)?.strip_prefix(' ')
}

/// Whether a function in FROM stands for ROWS FROM.
pub fn is_rows_from(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == ROWS_FROM))
}

/// The tokens with
/// - `f(VARIADIC x)` as `f("…variadic" => x)`, and `f(VARIADIC a => x)` as `f("…variadic a" => x)`;
/// - `ROWS FROM (f(), g())` as `"…rows from"(f(), g())`;
/// - `f() AS (a integer)` as `f() AS f (a integer)`.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_said = |t: &TokenWithSpan| ["variadic", "rows", "as"].iter().any(|word| is_word(t, word));
    if !tokens.iter().any(is_said) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let token = |nth: usize| words.get(nth).map(|at| &tokens[*at].token);
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|at| is_word(&tokens[*at], word));
    let mut put: BTreeMap<usize, Vec<Token>> = BTreeMap::new();
    let (mut opened, mut called): (Vec<Option<Token>>, Option<Token>) = (Vec::new(), None);
    for nth in 0..words.len() {
        match token(nth) {
            Some(Token::LParen) => {
                let name = nth.checked_sub(1).and_then(token).filter(|t| matches!(t, Token::Word(_)));
                opened.push(name.cloned());
            }
            Some(Token::RParen) => called = opened.pop().flatten(),
            _ => {}
        }
        let before = nth.checked_sub(1).and_then(token);
        let follows_call = before == Some(&Token::RParen);
        let is_argument = matches!(before, Some(Token::LParen | Token::Comma));
        if is_argument && is(nth, "variadic") && !matches!(token(nth + 1), Some(Token::Comma | Token::RParen))
        {
            let mark = |text: &str| Token::make_word(text, Some('"'));
            match (token(nth + 1), token(nth + 2)) {
                (Some(Token::Word(name)), Some(Token::RArrow | Token::Assignment)) => {
                    let name = match name.quote_style {
                        Some(_) => name.value.clone(),
                        None => name.value.to_lowercase(),
                    };
                    put.insert(words[nth], vec![mark(&format!("{VARIADIC} {name}"))]);
                    put.insert(words[nth + 1], Vec::new());
                }
                _ => drop(put.insert(words[nth], vec![mark(VARIADIC), Token::RArrow])),
            }
        } else if is(nth, "rows") && is(nth + 1, "from") && token(nth + 2) == Some(&Token::LParen) {
            put.insert(words[nth], vec![Token::make_word(ROWS_FROM, Some('"'))]);
            put.insert(words[nth + 1], Vec::new());
        } else if follows_call
            && is(nth, "as")
            && token(nth + 1) == Some(&Token::LParen)
            && matches!((token(nth + 2), token(nth + 3)), (Some(Token::Word(_)), Some(Token::Word(_))))
            && !QUERIES.iter().any(|word| is(nth + 2, word))
            && let Some(name) = called.clone()
        {
            put.insert(words[nth], vec![Token::make_keyword("AS"), name]);
        }
    }
    let mut made = Vec::with_capacity(tokens.len() + 2 * put.len());
    for (at, token) in tokens.iter().enumerate() {
        let Some(others) = put.remove(&at) else {
            made.push(token.clone());
            continue;
        };
        for (nth, other) in others.into_iter().enumerate() {
            if nth > 0 {
                made.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span: token.span });
            }
            made.push(TokenWithSpan { token: other, span: token.span });
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    fn read(sql: &str) -> String {
        parse(sql).unwrap().pop().unwrap().to_string().replace('\u{f8ff}', "~")
    }

    #[test]
    fn calls_are_read_as_postgresql_writes_them() {
        assert_eq!(read("select f(1, variadic array[2])"), "SELECT f(1, \"~variadic\" => ARRAY[2])");
        assert_eq!(read("select f(variadic a => b)"), "SELECT f(\"~variadic a\" => b)");
        assert_eq!(read("select f(a := 1 + 1)"), "SELECT f(a := 1 + 1)");
        assert_eq!(
            read("select * from rows from (f(1), g()) with ordinality as t (a, b)"),
            "SELECT * FROM \"~rows from\"(f(1), g()) WITH ORDINALITY AS t (a, b)"
        );
        assert_eq!(read("select * from f(1) as (a int, b text)"), "SELECT * FROM f(1) AS f (a INT, b TEXT)");
    }

    #[test]
    fn what_only_looks_like_it_stays() {
        for sql in [
            "WITH x (a) AS (SELECT a FROM t) SELECT a FROM x",
            "SELECT sum(a) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
            "SELECT variadic FROM t AS x (a, b)",
        ] {
            assert_eq!(read(sql), sql);
        }
    }
}
