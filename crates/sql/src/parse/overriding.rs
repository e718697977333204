//! `OVERRIDING {SYSTEM | USER} VALUE` of INSERT, which the parser does not know.
//!
//! The words become a clause of another dialect in the same place, under a name that no other text can say.

use base::SqlError;
use base::error::SqlResult;
use sqlparser::ast::{Expr, Insert, ObjectName};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whose values an identity column takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    /// The statement's, even where the column makes its own always.
    System,
    /// The column's own, whatever the statement says.
    User,
}

const SYSTEM: &str = "\u{f8ff}overriding system value";
const USER: &str = "\u{f8ff}overriding user value";

/// The tokens with the clause in a form that the parser knows.
pub(super) fn marked(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_word = |t: &TokenWithSpan, word: &str| match &t.token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    if !tokens.iter().any(|t| is_word(t, "overriding")) {
        return tokens;
    }
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let words: Vec<usize> =
            (0..behind.len()).filter(|i| !matches!(behind[*i].token, Token::Whitespace(_))).take(3).collect();
        let found = match words.as_slice() {
            [kind, value, next] if is_word(first, "overriding") && is_word(&behind[*value], "value") => {
                // What follows is what is inserted.
                let is_clause = is_word(&behind[*next], "values")
                    || is_word(&behind[*next], "select")
                    || is_word(&behind[*next], "with")
                    || is_word(&behind[*next], "table")
                    || matches!(behind[*next].token, Token::LParen);
                let name = match () {
                    () if is_word(&behind[*kind], "system") => Some(SYSTEM),
                    () if is_word(&behind[*kind], "user") => Some(USER),
                    () => None,
                };
                name.filter(|_| is_clause).map(|name| (name, *value))
            }
            _ => None,
        };
        let Some((name, end)) = found else {
            made.push(first.clone());
            continue;
        };
        let at = |token| TokenWithSpan { token, span: first.span };
        made.extend([
            at(Token::make_word("PARTITION", None)),
            at(Token::LParen),
            at(Token::make_word(name, Some('"'))),
            at(Token::RParen),
        ]);
        rest = &behind[end + 1..];
    }
    made
}

/// What an INSERT says of identity columns, and the columns that it names. Errors: 0A000 for the other dialect's clause.
pub fn overriding(insert: &Insert) -> SqlResult<(Option<Overriding>, &[ObjectName])> {
    let said = |name: &str| match name {
        SYSTEM => Some(Overriding::System),
        USER => Some(Overriding::User),
        _ => None,
    };
    // Without columns the clause stands where they would.
    if let [column] = insert.columns.as_slice()
        && let Some(said) = crate::names::parts(column)?.pop().and_then(|name| said(&name))
    {
        return Ok((Some(said), &[]));
    }
    match insert.partitioned.as_deref() {
        None => Ok((None, &insert.columns)),
        Some([Expr::Identifier(ident)]) if said(&ident.value).is_some() => {
            Ok((said(&ident.value), &insert.columns))
        }
        Some(_) => Err(SqlError::unsupported("PARTITION in INSERT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use sqlparser::ast::Statement;

    #[test]
    fn the_clause_is_read_where_it_stands() {
        for (sql, wanted) in [
            ("insert into t (a) overriding system value values (1)", Some(Overriding::System)),
            ("insert into t overriding  USER value select 1", Some(Overriding::User)),
            ("insert into overriding (value) values (1)", None),
        ] {
            let Some(Statement::Insert(insert)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
            assert_eq!(overriding(&insert).unwrap().0, wanted, "{sql}");
        }
        let Some(Statement::Insert(insert)) =
            parse("insert into t (a) partition (a) values (1)").unwrap().pop()
        else {
            panic!()
        };
        assert!(overriding(&insert).is_err());
    }
}
