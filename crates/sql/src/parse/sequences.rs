//! What is said of sequences in words that the parser knows.
//!
//! - `ALTER SEQUENCE s …` as `ALTER TABLE s SET ("meridian sequence" = '…')`. A change of name or owner is that of a table.
//! - The options of CREATE SEQUENCE, and of a sequence behind IDENTITY, in the order in which the parser takes them.
//!   `SEQUENCE NAME s`, with which a dump says the name that is chosen anyway, is left out.

use super::constraints::is_word;
use sqlparser::ast::{Expr, Ident, SqlOption, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The option that stands for what is changed.
const CHANGE: &str = "meridian sequence";

/// What follows the name in `ALTER SEQUENCE s …`, if options of a table stand for it.
pub fn change_of(options: &[SqlOption]) -> Option<&str> {
    let [SqlOption::KeyValue { key: Ident { value: key, .. }, value: Expr::Value(value) }] = options else {
        return None;
    };
    match &value.value {
        Value::SingleQuotedString(change) if key == CHANGE => Some(change),
        _ => None,
    }
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "sequence") || is_word(t, "identity")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> =
            (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
        let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        let name = if is(2, "if") && is(3, "exists") { 4 } else { 2 };
        if !(is(0, "alter") && is(1, "sequence") && words.len() > name) {
            made.extend(in_order(statement, &words));
            continue;
        }
        // s, or schema.s
        let is_point = |nth: usize| words.get(nth).is_some_and(|i| statement[*i].token == Token::Period);
        let change = if is_point(name + 1) { name + 3 } else { name + 1 };
        let put = |token: Token| TokenWithSpan { token, span: statement[words[1]].span };
        made.extend_from_slice(&statement[..words[1]]);
        made.push(put(Token::make_keyword("TABLE")));
        let of_tables = is(change, "owner") || is(change, "rename") || is(change, "set");
        let Some(begin) = words.get(change).copied().filter(|_| !of_tables) else {
            made.extend_from_slice(&statement[words[1] + 1..]);
            continue;
        };
        made.extend_from_slice(&statement[words[1] + 1..begin]);
        let ends = |t: &TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
        let end = statement.iter().position(ends).unwrap_or(statement.len());
        let text: String = statement[begin..end].iter().map(|t| t.token.to_string()).collect();
        made.extend([
            put(Token::make_keyword("SET")),
            put(Token::LParen),
            put(Token::make_word(CHANGE, Some('"'))),
            put(Token::Eq),
            put(Token::SingleQuotedString(text.trim_end().to_string())),
            put(Token::RParen),
        ]);
        made.extend_from_slice(&statement[end..]);
    }
    made
}

/// A statement with the options of its sequences in order.
fn in_order(statement: &[TokenWithSpan], words: &[usize]) -> Vec<TokenWithSpan> {
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let creates = is(0, "create") && (0..4).any(|nth| is(nth, "sequence"));
    let begins = |nth: &usize| {
        let is_paren = statement[words[*nth]].token == Token::LParen;
        is_paren && *nth > 0 && is(nth - 1, "identity")
            || creates && option_of(statement, words, *nth).is_some()
    };
    let Some(first) = (0..words.len()).find(begins) else { return statement.to_vec() };
    let first = if statement[words[first]].token == Token::LParen { first + 1 } else { first };
    let mut options: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
    let mut at = first;
    while let Some((rank, length)) = option_of(statement, words, at) {
        options.push((rank, at..(at + length).min(words.len())));
        at += length;
    }
    options.sort_by_key(|(rank, _)| *rank);
    options.retain(|(rank, _)| *rank > 0);
    let mut made = statement[..words[first]].to_vec();
    let blank =
        |i: usize| TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span: statement[i].span };
    for (_, option) in options {
        for i in &words[option] {
            made.extend([statement[*i].clone(), blank(*i)]);
        }
    }
    made.extend(words.get(at).into_iter().flat_map(|i| statement[*i..].iter().cloned()));
    made
}

/// The place that the parser wants an option at that begins with a word, and how many words it has. 0: nowhere.
fn option_of(statement: &[TokenWithSpan], words: &[usize], nth: usize) -> Option<(usize, usize)> {
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let is_token = |nth: usize, token: &Token| words.get(nth).is_some_and(|i| statement[*i].token == *token);
    // A number, perhaps negative.
    let number = |nth: usize| if is_token(nth, &Token::Minus) { 2 } else { 1 };
    let names = |nth: usize| {
        let mut length = 1;
        while is_token(nth + length, &Token::Period) {
            length += 2;
        }
        length
    };
    let after = |optional: &str| if is(nth + 1, optional) { 2 } else { 1 };
    Some(match () {
        () if is(nth, "sequence") && is(nth + 1, "name") => (0, 2 + names(nth + 2)),
        () if is(nth, "as") => (1, 2),
        () if is(nth, "increment") => (2, after("by") + number(nth + after("by"))),
        () if is(nth, "no") && is(nth + 1, "minvalue") => (3, 2),
        () if is(nth, "minvalue") => (3, 1 + number(nth + 1)),
        () if is(nth, "no") && is(nth + 1, "maxvalue") => (4, 2),
        () if is(nth, "maxvalue") => (4, 1 + number(nth + 1)),
        () if is(nth, "start") => (5, after("with") + number(nth + after("with"))),
        () if is(nth, "cache") => (6, 1 + number(nth + 1)),
        () if is(nth, "no") && is(nth + 1, "cycle") => (7, 2),
        () if is(nth, "cycle") => (7, 1),
        () if is(nth, "owned") && is(nth + 1, "by") => (8, 2 + names(nth + 2)),
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::change_of;
    use sqlparser::ast::{AlterTableOperation, Statement};

    #[test]
    fn changes_of_sequences_are_options() {
        let parsed = crate::parse::parse(
            "alter sequence s.q restart with 5; ALTER SEQUENCE if exists \"Q\" OWNED BY public.t.id;\
             alter sequence q owner to r; alter table t rename to sequence",
        )
        .unwrap();
        let changes: Vec<Option<&str>> = parsed
            .iter()
            .map(|statement| match statement {
                Statement::AlterTable(alter) => match alter.operations.as_slice() {
                    [AlterTableOperation::SetOptionsParens { options }] => change_of(options),
                    _ => None,
                },
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(changes, [Some("restart with 5"), Some("OWNED BY public.t.id"), None, None]);
        assert!(parsed[2].to_string().ends_with(" OWNER TO r"));
        assert_eq!(parsed[3].to_string(), "ALTER TABLE t RENAME TO sequence");
        assert!(crate::parse::parse("alter sequence q").is_err());
    }

    #[test]
    fn options_of_sequences_come_in_any_order() {
        for (sql, wanted) in [
            (
                "create sequence s.q as integer start with -1 increment by 5 no minvalue no maxvalue cache 1; select 1",
                "CREATE SEQUENCE s.q AS INTEGER INCREMENT BY 5 NO MINVALUE NO MAXVALUE START WITH -1 CACHE 1",
            ),
            ("create sequence if not exists start start 3", "CREATE SEQUENCE IF NOT EXISTS start START 3"),
            ("create sequence q owned by t.a cycle", "CREATE SEQUENCE q CYCLE OWNED BY t.a"),
            (
                "alter table t alter column a add generated always as identity (sequence name s.q start with 2 \
                 increment by 3)",
                "ALTER TABLE t ALTER COLUMN a ADD GENERATED ALWAYS AS IDENTITY (INCREMENT BY 3 START WITH 2)",
            ),
        ] {
            let parsed = crate::parse::parse(sql).unwrap()[0].to_string();
            assert_eq!(
                parsed.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(" )", ")"),
                wanted
            );
        }
    }
}
