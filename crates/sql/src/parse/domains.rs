//! CREATE DOMAIN and ALTER DOMAIN, as `ALTER TABLE d SET ("meridian domain" = '…')`: the parser knows no ALTER DOMAIN, and of
//! CREATE DOMAIN not all. What follows the name is kept as its text.

use super::constraints::is_word;
use sqlparser::ast::{Expr, Ident, SqlOption, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The option that stands for what is said of a domain.
const DOMAIN: &str = "meridian domain";

/// What a statement does with a domain, and the text behind its name.
#[derive(Debug, PartialEq)]
pub enum OfDomain<'a> {
    Create(&'a str),
    Alter(&'a str),
}

/// What is said of a domain, if options of a table stand for it.
pub fn of_domain(options: &[SqlOption]) -> Option<OfDomain<'_>> {
    let [SqlOption::KeyValue { key: Ident { value: key, .. }, value: Expr::Value(value) }] = options else {
        return None;
    };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let (verb, rest) = text.split_once(' ').filter(|_| key == DOMAIN)?;
    Some(if verb == "create" { OfDomain::Create(rest) } else { OfDomain::Alter(rest) })
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "domain")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        made.extend(read(statement).unwrap_or_else(|| statement.to_vec()));
    }
    made
}

/// The statement in other words; `None`: it is none about domains.
fn read(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let ends = |t: &TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
    let end = statement.iter().position(ends).unwrap_or(statement.len());
    let words: Vec<usize> =
        (0..end).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let verb = ["create", "alter"].into_iter().find(|verb| is(0, verb)).filter(|_| is(1, "domain"))?;
    // d, or schema.d
    let is_point = words.get(3).is_some_and(|i| statement[*i].token == Token::Period);
    let begin = *words.get(if is_point { 5 } else { 3 })?;
    let put = |token: Token| TokenWithSpan { token, span: statement[words[1]].span };
    let text: String = statement[begin..end].iter().map(|t| written(&t.token)).collect();
    let mut made = vec![put(Token::make_keyword("ALTER")), statement[words[0] + 1].clone()];
    made.push(put(Token::make_keyword("TABLE")));
    made.extend_from_slice(&statement[words[1] + 1..begin]);
    made.extend([
        put(Token::make_keyword("SET")),
        put(Token::LParen),
        put(Token::make_word(DOMAIN, Some('"'))),
        put(Token::Eq),
        put(Token::SingleQuotedString(format!("{verb} {}", text.trim_end()))),
        put(Token::RParen),
    ]);
    made.extend_from_slice(&statement[end..]);
    Some(made)
}

/// A token as it has to be written to be read again.
pub(super) fn written(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) => format!("'{}'", text.replace('\'', "''")),
        Token::EscapedStringLiteral(text) => {
            format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
        }
        Token::Word(word) if word.quote_style.is_some() => {
            format!("\"{}\"", word.value.replace('"', "\"\""))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::ast::{AlterTableOperation, Statement};

    #[test]
    fn what_is_said_of_domains_is_an_option() {
        let parsed = crate::parse::parse(
            "create domain s.d as text default 'it''s' check (value <> E'a\\'\\\\b'); \
             ALTER DOMAIN \"D\" DROP NOT NULL; alter table domain set schema x; drop domain d cascade",
        )
        .unwrap();
        let of = |statement: &Statement| match statement {
            Statement::AlterTable(alter) => match alter.operations.as_slice() {
                [AlterTableOperation::SetOptionsParens { options }] => {
                    of_domain(options).map(|of| (alter.name.to_string(), format!("{of:?}")))
                }
                _ => None,
            },
            _ => None,
        };
        let create = "Create(\"as text default 'it''s' check (value <> E'a''\\\\\\\\b')\")";
        assert_eq!(of(&parsed[0]), Some(("s.d".into(), create.into())));
        assert_eq!(of(&parsed[1]), Some(("\"D\"".into(), "Alter(\"DROP NOT NULL\")".into())));
        assert_eq!(of(&parsed[2]), None);
        assert!(matches!(parsed[3], Statement::DropDomain(_)));
        assert!(crate::parse::parse("alter domain d").is_err());
    }
}
