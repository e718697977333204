//! `CREATE VIEW v AS … WITH [CASCADED | LOCAL] CHECK OPTION` as the option that PostgreSQL has for it, too:
//! `CREATE VIEW v WITH (check_option = 'local') AS …`.

use super::constraints::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

const CHECK_OPTION: &str = "check_option";

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
    // Behind other options it is one more.
    let options = options_before(statement, &words[..query]);
    let end_of_head = if options { words[query - 1] } else { words[query] };
    let mut made = statement[..end_of_head].to_vec();
    match options {
        true => made.push(put(Token::Comma)),
        false => made.extend([put(Token::make_keyword("WITH")), put(Token::LParen)]),
    }
    made.extend([
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

/// Whether words end with `WITH (…)`.
fn options_before(statement: &[TokenWithSpan], words: &[usize]) -> bool {
    let token = |nth: usize| &statement[words[nth]];
    let Some(last) = words.len().checked_sub(1) else { return false };
    if token(last).token != Token::RParen {
        return false;
    }
    let open = (0..last).rev().find(|nth| token(*nth).token == Token::LParen);
    open.is_some_and(|open| open > 0 && is_word(token(open - 1), "with"))
}

#[cfg(test)]
mod tests {
    use crate::parse::said_options;
    use sqlparser::ast::{CreateTableOptions, Statement};

    #[test]
    fn a_check_option_is_an_option() {
        let of = |sql: &str| match crate::parse::parse(sql).unwrap().pop() {
            Some(Statement::CreateView(create)) => {
                let options = match &create.options {
                    CreateTableOptions::With(options) => said_options(options),
                    _ => Vec::new(),
                };
                (options, create.query.to_string())
            }
            other => panic!("{other:?}"),
        };
        let query = "SELECT (1) AS a FROM t".to_string();
        let said = |name: &str, value: &str| (name.to_string(), Some(value.to_string()));
        let found = |option: Option<&str>| {
            let options = option.map(|option| said("check_option", option));
            (options.into_iter().collect::<Vec<_>>(), query.clone())
        };
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
            found(Some("LOCAL"))
        );
        assert_eq!(of("create view v as select (1) as a from t"), found(None));
        assert_eq!(
            of("create view v with (security_barrier) as select (1) as a from t with check option").0,
            [said("security_barrier", "true"), said("check_option", "cascaded")]
        );
    }
}
