//! Frames of windows: `EXCLUDE …` and offsets such as `'1 day'::interval`, which the parser does not know.
//!
//! What a frame leaves out becomes a text among the expressions that the window is divided by, the same for all rows. It
//! stands in parentheses: the planner drops a bare constant there.

use super::constraints::is_word;
use sqlparser::ast::{Expr, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use std::collections::BTreeMap;

/// Begins the text; behind it stands `current row`, `group` or `ties`.
pub const EXCLUDES: &str = "\u{f8ff}exclude ";

/// Whether an expression of PARTITION BY says what the frame leaves out.
pub fn is_exclusion(e: &Expr) -> bool {
    match e {
        Expr::Nested(inner) => is_exclusion(inner),
        Expr::Value(value) => {
            matches!(&value.value, Value::SingleQuotedString(text) if text.starts_with(EXCLUDES))
        }
        _ => false,
    }
}

/// For tokens whose frames are said as the parser has them.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_of_frame =
        |t: &TokenWithSpan| ["exclude", "preceding", "following"].iter().any(|word| is_word(t, word));
    if !tokens.iter().any(is_of_frame) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&tokens[*i], word));
    let is_token = |nth: usize, token: &Token| words.get(nth).is_some_and(|i| tokens[*i].token == *token);
    let mut gone = vec![false; tokens.len()];
    // By the token in front of which they go.
    let mut added: BTreeMap<usize, Vec<Token>> = BTreeMap::new();
    for nth in 0..words.len() {
        // `'1 day'::interval PRECEDING`: a text in its place is an interval.
        let is_cast = is_token(nth, &Token::DoubleColon) && is(nth + 1, "interval");
        if is_cast && (is(nth + 2, "preceding") || is(nth + 2, "following")) {
            (gone[words[nth]], gone[words[nth + 1]]) = (true, true);
        }
        let said = match () {
            _ if !is(nth, "exclude") => continue,
            _ if is(nth + 1, "current") && is(nth + 2, "row") => "current row",
            _ if is(nth + 1, "no") && is(nth + 2, "others") => "",
            _ if is(nth + 1, "group") => "group",
            _ if is(nth + 1, "ties") => "ties",
            _ => continue,
        };
        let end = nth + if matches!(said, "group" | "ties") { 2 } else { 3 };
        let begin = if is_token(end, &Token::RParen) { opening(&tokens, &words, nth) } else { None };
        let Some(begin) = begin else { continue };
        words[nth..end].iter().for_each(|at| gone[*at] = true);
        if said.is_empty() {
            continue;
        }
        let text = Token::SingleQuotedString(format!("{EXCLUDES}{said}"));
        let text = [Token::LParen, text, Token::RParen];
        let blank = || Token::Whitespace(Whitespace::Space);
        // Behind the name of another window.
        let clauses = ["partition", "order", "range", "rows", "groups"];
        let first = begin + 1 + usize::from(!clauses.iter().any(|clause| is(begin + 1, clause)));
        let (at, put) = match is(first, "partition") {
            true => (first + 2, text.into_iter().chain([Token::Comma, blank()]).collect()),
            false => {
                let word = |word: &str| Token::make_word(word, None);
                let by = [word("PARTITION"), blank(), word("BY"), blank()];
                (first, by.into_iter().chain(text).chain([blank()]).collect())
            }
        };
        added.insert(words.get(at).copied().unwrap_or(tokens.len()), put);
    }
    let mut made = Vec::with_capacity(tokens.len() + 8);
    for (i, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        made.extend(added.remove(&i).into_iter().flatten().map(|token| TokenWithSpan { token, span }));
        made.extend((!gone[i]).then_some(token));
    }
    made
}

/// The parenthesis that what stands at a word is in.
fn opening(tokens: &[TokenWithSpan], words: &[usize], nth: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for at in (0..nth).rev() {
        match tokens[words[at]].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return Some(at),
            Token::LParen => depth -= 1,
            Token::SemiColon => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn what_a_frame_leaves_out_is_among_what_divides_its_window() {
        for (sql, wanted) in [
            (
                "select sum(a) over (order by b rows 1 preceding exclude current row) from t",
                "SELECT sum(a) OVER (PARTITION BY ('!current row') ORDER BY b ROWS 1 PRECEDING) FROM t",
            ),
            (
                "select sum(a) over (partition by c order by b groups current row exclude ties), 1 from t",
                "SELECT sum(a) OVER (PARTITION BY ('!ties'), c ORDER BY b GROUPS CURRENT ROW), 1 FROM t",
            ),
            (
                "select sum(a) over (w rows current row exclude group) from t window w as (order by b)",
                "SELECT sum(a) OVER (w PARTITION BY ('!group') ROWS CURRENT ROW) FROM t WINDOW w AS (ORDER BY b)",
            ),
            (
                "select sum(a) over (rows unbounded preceding exclude no others) from t",
                "SELECT sum(a) OVER (ROWS UNBOUNDED PRECEDING) FROM t",
            ),
            ("select a as exclude from t", "SELECT a AS exclude FROM t"),
        ] {
            let wanted = wanted.replace('!', super::EXCLUDES);
            assert_eq!(parse(sql).unwrap()[0].to_string(), wanted, "{sql}");
        }
        let offset = "select sum(a) over (order by b range between '1 day'::interval preceding and current row) from t";
        assert_eq!(
            parse(offset).unwrap()[0].to_string(),
            parse(&offset.replace("::interval", "")).unwrap()[0].to_string()
        );
        assert!(parse("select sum(a) over (rows current row exclude ties, 1) from t").is_err());
    }
}
