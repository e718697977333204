//! `ON CONFLICT (lower(a), b) WHERE c DO …`: the parser knows a list of columns alone.
//!
//! Anything else becomes a list of one column whose name no other text can say, which has the whole clause in it.

use super::constraints::is_word;
use super::{OWN_NAMES, parse_expr};
use base::error::SqlResult;
use sqlparser::ast::{Expr, Ident};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Begins the name that has the clause in it, and stands between its elements and its condition.
const MARK: &str = "\u{f8ff}conflict ";

/// What ON CONFLICT names an index by.
#[derive(Clone, Debug, PartialEq)]
pub struct Inference {
    pub elements: Vec<Expr>,
    pub predicate: Option<Expr>,
}

/// The tokens with such clauses in a form that the parser knows.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "conflict")) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_))).collect();
    let mut made = Vec::with_capacity(tokens.len());
    let mut copied = 0;
    for nth in 1..words.len() {
        let Some(found) = clause(&tokens, &words, nth).filter(|_| words[nth] >= copied) else { continue };
        let text = |from: usize, to: usize| {
            tokens[words[from]..words[to]].iter().map(|t| t.token.to_string()).collect::<String>()
        };
        let mut name = format!("{MARK}{}", text(found.open + 1, found.close));
        if found.has_condition {
            name.push_str(MARK);
            name.push_str(&text(found.close + 2, found.end));
        }
        made.extend_from_slice(&tokens[copied..=words[found.open]]);
        let span = tokens[words[found.open]].span;
        made.push(TokenWithSpan { token: Token::make_word(&name, Some('"')), span });
        made.push(tokens[words[found.close]].clone());
        made.push(TokenWithSpan { token: Token::Whitespace(super::Whitespace::Space), span });
        copied = words[found.end];
    }
    made.extend_from_slice(&tokens[copied..]);
    made
}

/// Where a clause stands, by numbers of words.
struct Clause {
    open: usize,
    close: usize,
    has_condition: bool,
    /// DO.
    end: usize,
}

/// The clause whose CONFLICT is a word, if the parser does not know it.
fn clause(tokens: &[TokenWithSpan], words: &[usize], nth: usize) -> Option<Clause> {
    let token = |nth: usize| words.get(nth).map(|i| &tokens[*i]);
    let is = |nth: usize, word: &str| token(nth).is_some_and(|t| is_word(t, word));
    let open = nth + 1;
    if !(is(nth, "conflict") && is(nth - 1, "on") && matches!(token(open)?.token, Token::LParen)) {
        return None;
    }
    let mut depth = 0_usize;
    let mut close = None;
    let mut end = open;
    loop {
        match &token(end)?.token {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.checked_sub(1)?;
                close = close.or((depth == 0).then_some(end));
            }
            Token::SemiColon | Token::EOF => return None,
            _ if depth == 0 && is(end, "do") => break,
            _ => {}
        }
        end += 1;
    }
    let close = close?;
    let has_condition = is(close + 1, "where") && close + 2 < end;
    if !has_condition && close + 1 != end {
        return None;
    }
    let are_columns = (open + 1..close).all(|nth| {
        token(nth).is_some_and(|t| match (&t.token, (nth - open) % 2) {
            (Token::Word(_), 1) => true,
            (Token::Comma, 0) => true,
            _ => false,
        })
    });
    (has_condition || !are_columns).then_some(Clause { open, close, has_condition, end })
}

/// What a list of columns says, whether the parser knew it or not. Errors: 42601.
pub fn inference(columns: &[Ident]) -> SqlResult<Inference> {
    let [Ident { value, .. }] = columns else { return Ok(plain(columns)) };
    let Some(text) = value.strip_prefix(MARK) else { return Ok(plain(columns)) };
    let (elements, predicate) = match text.split_once(MARK) {
        Some((elements, predicate)) => (elements, Some(predicate)),
        None => (text, None),
    };
    let elements = match parse_expr(&format!("({elements})"))? {
        Expr::Tuple(elements) => elements,
        Expr::Nested(element) => vec![*element],
        other => vec![other],
    };
    Ok(Inference { elements, predicate: predicate.map(parse_expr).transpose()? })
}

fn plain(columns: &[Ident]) -> Inference {
    Inference { elements: columns.iter().cloned().map(Expr::Identifier).collect(), predicate: None }
}

impl Inference {
    /// The same as a list of columns.
    pub fn columns(&self) -> Vec<Ident> {
        let column = |e: &Expr| match e {
            Expr::Identifier(ident) => Some(ident.clone()),
            _ => None,
        };
        let columns: Option<Vec<Ident>> = self.elements.iter().map(column).collect();
        if let Some(columns) = columns.filter(|_| self.predicate.is_none()) {
            return columns;
        }
        let elements: Vec<String> = self.elements.iter().map(ToString::to_string).collect();
        let mut name = format!("{MARK}{}", elements.join(", "));
        if let Some(predicate) = &self.predicate {
            name.push_str(&format!("{MARK}{predicate}"));
        }
        debug_assert!(name.starts_with(OWN_NAMES), "no client says such a name");
        vec![Ident::with_quote('"', name)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use sqlparser::ast::{ConflictTarget, OnInsert, Statement};

    fn read(clause: &str) -> Inference {
        let sql = format!("insert into t (a, b) values (1, 2) on conflict {clause} do nothing");
        let Some(Statement::Insert(insert)) = parse(&sql).unwrap().pop() else { panic!("{sql}") };
        let Some(OnInsert::OnConflict(conflict)) = insert.on else { panic!("{sql}") };
        let Some(ConflictTarget::Columns(columns)) = conflict.conflict_target else { panic!("{sql}") };
        inference(&columns).unwrap()
    }

    #[test]
    fn a_clause_is_read_whatever_is_in_it() {
        for (clause, elements, predicate) in [
            ("(a, \"B\")", &["a", "\"B\""][..], None),
            ("(a) where b is null and (c = 'do')", &["a"], Some("b IS NULL AND (c = 'do')")),
            ("(lower(a))", &["lower(a)"], None),
            ("(b, (a ->> 'x'), lower(a)) where \"Do\"", &["b", "(a ->> 'x')", "lower(a)"], Some("\"Do\"")),
        ] {
            let found = read(clause);
            let shown: Vec<String> = found.elements.iter().map(ToString::to_string).collect();
            assert_eq!(shown, elements, "{clause}");
            assert_eq!(found.predicate.as_ref().map(ToString::to_string).as_deref(), predicate, "{clause}");
            assert_eq!(inference(&found.columns()).unwrap(), found, "{clause}");
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for sql in [
            "insert into t values (1) on conflict(a) do nothing",
            "insert into t values (1) on conflict on constraint t_pkey do nothing",
            "insert into t values (1) on conflict do nothing",
            "select conflict from t where a = (1)",
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string().to_lowercase(), sql);
        }
        for sql in [
            "insert into t values (1) on conflict (a",
            "insert into t values (1) on conflict (a) where do nothing",
            "insert into t values (1) on conflict (a) b do nothing",
            "insert into t values (1) on conflict",
        ] {
            assert!(parse(sql).is_err(), "{sql}");
        }
    }
}
