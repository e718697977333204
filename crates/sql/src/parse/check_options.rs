//! `CREATE VIEW v AS … WITH [CASCADED | LOCAL] CHECK OPTION` as the option that PostgreSQL has for it, too:
//! `CREATE VIEW v WITH (check_option = 'local') AS …`.

use super::constraints::is_word;
use sqlparser::ast::{CreateTableOptions, Expr, SqlOption, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

const CHECK_OPTION: &str = "check_option";

/// The check option among a view's options, in small letters; `None`: there are others.
pub fn check_option(options: &CreateTableOptions) -> Option<Option<String>> {
    let options = match options {
        CreateTableOptions::None => return Some(None),
        CreateTableOptions::With(options) => options,
        _ => return None,
    };
    let [SqlOption::KeyValue { key, value }] = options.as_slice() else { return None };
    if !key.value.eq_ignore_ascii_case(CHECK_OPTION) {
        return None;
    }
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(Some(text.to_lowercase())),
            _ => None,
        },
        Expr::Identifier(name) => Some(Some(name.value.to_lowercase())),
        _ => None,
    }
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "option")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len() + 8);
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        made.extend(moved(statement).unwrap_or_else(|| statement.to_vec()));
    }
    made
}

/// The statement with the option in its place; `None`: it has none.
fn moved(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let is_end = |t: &TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
    let end = statement.iter().position(is_end).unwrap_or(statement.len());
    let words: Vec<usize> =
        (0..end).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let view = (1..words.len().min(5))
        .find(|nth| is(*nth, "view"))
        .filter(|_| is(0, "create") && !is(1, "materialized"))?;
    let last = words.len();
    if last < 3 || !(is(last - 1, "option") && is(last - 2, "check")) {
        return None;
    }
    let (kind, with) = match () {
        () if is(last - 3, "with") => ("cascaded", last - 3),
        () if last > 3 && is(last - 4, "with") && is(last - 3, "cascaded") => ("cascaded", last - 4),
        () if last > 3 && is(last - 4, "with") && is(last - 3, "local") => ("local", last - 4),
        () => return None,
    };
    let mut depth = 0;
    let query = (view..with).find(|nth| {
        match statement[words[*nth]].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && is(*nth, "as")
    })?;
    let span = statement[words[with]].span;
    let put = |token: Token| TokenWithSpan { token, span };
    let mut made = statement[..words[query]].to_vec();
    made.extend([
        put(Token::make_keyword("WITH")),
        put(Token::LParen),
        put(Token::make_word(CHECK_OPTION, None)),
        put(Token::Eq),
        put(Token::SingleQuotedString(kind.into())),
        put(Token::RParen),
        put(Token::Whitespace(Whitespace::Space)),
    ]);
    made.extend_from_slice(&statement[words[query]..words[with]]);
    made.extend_from_slice(&statement[end..]);
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::ast::Statement;

    #[test]
    fn a_check_option_is_an_option() {
        let of = |sql: &str| match crate::parse::parse(sql).unwrap().pop() {
            Some(Statement::CreateView(create)) => (check_option(&create.options), create.query.to_string()),
            other => panic!("{other:?}"),
        };
        let query = "SELECT (1) AS a FROM t".to_string();
        let found = |option: Option<&str>| (Some(option.map(String::from)), query.clone());
        assert_eq!(
            of("create view v (a) as select (1) as a from t with check option"),
            found(Some("cascaded"))
        );
        assert_eq!(
            of("create or replace view s.v as select (1) as a from t with local check option;"),
            found(Some("local"))
        );
        assert_eq!(
            of("create view v with (check_option = LOCAL) as select (1) as a from t"),
            found(Some("local"))
        );
        assert_eq!(of("create view v as select (1) as a from t"), found(None));
        assert_eq!(of("create view v with (security_barrier = true) as select (1) as a from t").0, None);
    }
}
