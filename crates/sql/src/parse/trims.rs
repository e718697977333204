//! Forms of TRIM that the parser does not know, or reads without their side, as the functions that they are: `trim(FROM x)`,
//! `trim(LEADING FROM x)`, `trim(TRAILING x, y)`.

use super::constraints::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::{BTreeMap, BTreeSet};

/// Sides, and the functions that trim there.
const SIDES: [(&str, &str); 3] = [("leading", "ltrim"), ("trailing", "rtrim"), ("both", "btrim")];

/// The tokens with `btrim`, `ltrim` and `rtrim` in the place of such forms.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "trim")) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_))).collect();
    let mut gone: BTreeSet<usize> = BTreeSet::new();
    let mut renamed: BTreeMap<usize, &str> = BTreeMap::new();
    for nth in 0..words.len() {
        let token = |nth: usize| words.get(nth).map(|i| &tokens[*i]);
        let is = |nth: usize, word: &str| token(nth).is_some_and(|t| is_word(t, word));
        if !is(nth, "trim") || !token(nth + 1).is_some_and(|t| t.token == Token::LParen) {
            continue;
        }
        let side = SIDES.iter().find(|(side, _)| is(nth + 2, side));
        let from = nth + 2 + usize::from(side.is_some());
        let has_from = is(from, "from");
        if has_from || side.is_some() && is_list(&tokens, &words[nth + 2..]) {
            renamed.insert(words[nth], side.map_or("btrim", |(_, function)| *function));
            gone.extend(side.map(|_| words[nth + 2]));
            gone.extend(has_from.then(|| words[from]));
        }
    }
    let kept = tokens.into_iter().enumerate().filter(|(i, _)| !gone.contains(i));
    let made = kept.map(|(i, t)| match renamed.get(&i) {
        Some(function) => TokenWithSpan { token: Token::make_word(function, None), span: t.span },
        None => t,
    });
    made.collect()
}

/// Whether what stands up to the closing parenthesis are expressions with commas between them, and no FROM.
fn is_list(tokens: &[TokenWithSpan], words: &[usize]) -> bool {
    let mut depth = 0;
    let mut is_list = false;
    for i in words {
        match &tokens[*i].token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket if depth == 0 => break,
            Token::RParen | Token::RBracket => depth -= 1,
            Token::Comma => is_list |= depth == 0,
            _ if depth == 0 && is_word(&tokens[*i], "from") => return false,
            _ => {}
        }
    }
    is_list
}

#[cfg(test)]
mod tests {
    #[test]
    fn sides_without_characters_are_functions() {
        for (given, wanted) in [
            ("trim(from x)", "btrim(x)"),
            ("trim(leading from x)", "ltrim(x)"),
            ("trim(both from trim(trailing from x))", "btrim(rtrim(x))"),
            ("trim(trailing f(x, y), 'z')", "rtrim(f(x, y), 'z')"),
            ("trim(leading f(x, y) from z)", "TRIM(LEADING f(x, y) FROM z)"),
            ("trim(leading x)", "TRIM(LEADING x)"),
        ] {
            let made = crate::parse::parse(&format!("select {given}")).unwrap();
            assert_eq!(made[0].to_string(), format!("SELECT {wanted}"));
        }
    }
}
