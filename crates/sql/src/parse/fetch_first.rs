//! `FETCH FIRST (a + b) ROWS ONLY` as `LIMIT (a + b)`: the parser takes only a number or a parameter behind FIRST.
//!
//! With TIES the parentheses are left out around a single value, and a cast of it.

use super::constraints::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan};

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "fetch")) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&tokens[*i], word));
    let token = |nth: usize| words.get(nth).map(|i| &tokens[*i].token);
    let mut gone = vec![false; tokens.len()];
    let mut limits = Vec::new();
    for nth in 0..words.len() {
        let begins = is(nth, "fetch") && (is(nth + 1, "first") || is(nth + 1, "next"));
        let opens = nth + 2;
        if !begins || token(opens) != Some(&Token::LParen) {
            continue;
        }
        let Some(closes) = closing(opens, &token) else { continue };
        if !is(closes + 1, "row") && !is(closes + 1, "rows") {
            continue;
        }
        if is(closes + 2, "only") {
            limits.push(words[nth]);
            [nth + 1, closes + 1, closes + 2].iter().for_each(|nth| gone[words[*nth]] = true);
        } else if closes == opens + 2 || token(opens + 2) == Some(&Token::DoubleColon) {
            gone[words[opens]] = true;
            (opens + 2..=closes).for_each(|nth| gone[words[nth]] = true);
        }
    }
    let mut made = Vec::with_capacity(tokens.len());
    for (i, token) in tokens.into_iter().enumerate().filter(|(i, _)| !gone[*i]) {
        match limits.contains(&i) {
            true => made.push(TokenWithSpan { token: Token::make_keyword("LIMIT"), span: token.span }),
            false => made.push(token),
        }
    }
    made
}

/// The place of the parenthesis that closes the one at a place.
fn closing<'t>(opens: usize, token: &impl Fn(usize) -> Option<&'t Token>) -> Option<usize> {
    let mut depth = 0;
    for nth in opens.. {
        match token(nth)? {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(nth);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn a_count_in_parentheses_is_read() {
        for (sql, wanted) in [
            ("select 1 fetch first (1 + (2)) rows only", "SELECT 1 LIMIT (1 + (2))"),
            ("select 1 offset 2 rows fetch next ($1) row only", "SELECT 1 LIMIT ($1) OFFSET 2 ROWS"),
            (
                "select a from t order by a fetch first ($1::int) rows with ties",
                "FETCH FIRST $1 ROWS WITH TIES",
            ),
            ("select 1 fetch first 2 rows only", "FETCH FIRST 2 ROWS ONLY"),
        ] {
            let shown = parse(sql).unwrap()[0].to_string();
            assert!(shown.ends_with(wanted), "{shown}");
        }
    }
}
