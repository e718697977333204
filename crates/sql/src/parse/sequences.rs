//! `ALTER SEQUENCE s …` in words that the parser knows: as `ALTER TABLE s SET ("meridian sequence" = '…')`. A change of name or
//! owner is that of a table.

use sqlparser::ast::{Expr, Ident, SqlOption, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan};

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
    if !tokens.iter().any(|t| is_word(t, "sequence")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> =
            (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
        let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        let name = if is(2, "if") && is(3, "exists") { 4 } else { 2 };
        if !(is(0, "alter") && is(1, "sequence") && words.len() > name) {
            made.extend_from_slice(statement);
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

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
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
        assert_eq!(parsed[2].to_string(), "ALTER TABLE q OWNER TO r");
        assert_eq!(parsed[3].to_string(), "ALTER TABLE t RENAME TO sequence");
        assert!(crate::parse::parse("alter sequence q").is_err());
    }
}
