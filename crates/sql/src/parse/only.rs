//! ONLY before a table's name, which the parser does not know: as a function of the table, and once that is read as a hint
//! of the table. Most tables have no others below them, so that the hint says nothing.

use super::constraints::is_word;
use crate::walk::{Walk, WalkMut};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Statement, TableFactor, Visitor, VisitorMut,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The function, and the hint.
const ONLY: &str = "\u{f8ff}only";

/// Takes ONLY away from a table; false if it was not said.
pub fn take_only(factor: &mut TableFactor) -> bool {
    let TableFactor::Table { with_hints, .. } = factor else { return false };
    let before = with_hints.len();
    with_hints.retain(|hint| !is_mark(hint));
    with_hints.len() < before
}

/// Whether a statement says ONLY of some table.
pub fn says_only(statement: &Statement) -> bool {
    struct Looking;
    impl Visitor for Looking {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match factor {
                TableFactor::Table { with_hints, .. } if with_hints.iter().any(is_mark) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    statement.walk(&mut Looking).is_break()
}

fn is_mark(hint: &Expr) -> bool {
    matches!(hint, Expr::Identifier(name) if name.value == ONLY)
}

/// Whether a token is the function's name.
pub(super) fn is_said(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if word.value == ONLY)
}

/// The tokens with `ONLY s.t` as `"…"(s.t)`.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "only")) {
        return tokens;
    }
    let is_said = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    let words: Vec<usize> = (0..tokens.len()).filter(is_said).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|at| is_word(&tokens[*at], word));
    let token = |nth: usize| words.get(nth).map(|at| &tokens[*at].token);
    let (mut marked, mut opened, mut closed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for nth in 1..words.len() {
        let names_table = ["from", "join", "update"].iter().any(|word| is(nth - 1, word));
        if !names_table || !is(nth, "only") {
            continue;
        }
        match token(nth + 1) {
            Some(Token::LParen) => drop(marked.insert(words[nth])),
            Some(Token::Word(_)) => {
                let mut last = nth + 1;
                while token(last + 1) == Some(&Token::Period)
                    && matches!(token(last + 2), Some(Token::Word(_)))
                {
                    last += 2;
                }
                marked.insert(words[nth]);
                opened.insert(words[nth]);
                closed.insert(words[last]);
            }
            _ => {}
        }
    }
    let mut made = Vec::with_capacity(tokens.len() + 2 * closed.len());
    for (at, token) in tokens.iter().enumerate() {
        let with = |token| TokenWithSpan { token, span: tokens[at].span };
        match marked.contains(&at) {
            true => made.push(with(Token::make_word(ONLY, Some('"')))),
            false => made.push(token.clone()),
        }
        made.extend(opened.contains(&at).then(|| with(Token::LParen)));
        made.extend(closed.contains(&at).then(|| with(Token::RParen)));
    }
    made
}

/// Makes the function a hint.
pub(super) fn as_hints(statement: &mut Statement) {
    struct Hinting;
    impl VisitorMut for Hinting {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            let TableFactor::Table { name, args, with_hints, .. } = factor else {
                return ControlFlow::Continue(());
            };
            let is_only = match name.0.as_slice() {
                [part] => part.as_ident().is_some_and(|ident| ident.value == ONLY),
                _ => false,
            };
            let given = args.as_ref().filter(|_| is_only).map(|args| args.args.as_slice());
            let Some([FunctionArg::Unnamed(FunctionArgExpr::Expr(of))]) = given else {
                return ControlFlow::Continue(());
            };
            let parts = match of {
                Expr::Identifier(part) => vec![part.clone()],
                Expr::CompoundIdentifier(parts) => parts.clone(),
                _ => return ControlFlow::Continue(()),
            };
            *name = ObjectName::from(parts);
            *args = None;
            with_hints.push(Expr::Identifier(Ident::with_quote('"', ONLY)));
            ControlFlow::Continue(())
        }
    }
    let _ = statement.walk_mut(&mut Hinting);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    #[test]
    fn only_is_said_of_a_table() {
        for (sql, plain) in [
            ("select a from only s.t x, u", "SELECT a FROM s.t x, u"),
            ("select a from u join only (t) on true", "SELECT a FROM u JOIN t ON true"),
            ("update only t set a = 1", "UPDATE t SET a = 1"),
            ("delete from only s.\"T\" where a = 1", "DELETE FROM s.\"T\" WHERE a = 1"),
        ] {
            let mut statement = parse(sql).unwrap().pop().unwrap();
            assert!(says_only(&statement), "{sql}");
            // A stored query says so too.
            assert!(says_only(&parse(&statement.to_string()).unwrap()[0]), "{statement}");
            struct Taking;
            impl VisitorMut for Taking {
                type Break = ();
                fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
                    take_only(factor);
                    ControlFlow::Continue(())
                }
            }
            let _ = statement.walk_mut(&mut Taking);
            assert_eq!(statement.to_string(), plain);
        }
        assert!(!says_only(&parse("select 1 from t fetch first 2 rows only").unwrap()[0]));
    }
}
