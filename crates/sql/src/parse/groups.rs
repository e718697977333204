//! Lists of ROLLUP and CUBE: an expression that begins with a parenthesis, `rollup ((a)::int)`.
//!
//! The parser takes the parenthesis for that of a list of columns. One more around the expression makes it one.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens with such expressions in parentheses.
pub(super) fn enclosed(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins_list = |t: &TokenWithSpan| match &t.token {
        Token::Word(w) if w.quote_style.is_none() => {
            w.value.eq_ignore_ascii_case("rollup") || w.value.eq_ignore_ascii_case("cube")
        }
        _ => false,
    };
    if !tokens.iter().any(begins_list) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_))).collect();
    let closing = closing(&tokens, &words);
    let mut opened = vec![false; tokens.len()];
    let mut closed = vec![false; tokens.len()];
    for at in 0..words.len() {
        let Some(end) = closing.get(at + 1).copied().flatten().filter(|_| begins_list(&tokens[words[at]]))
        else {
            continue;
        };
        let mut first = at + 2;
        while first < end {
            // To the end of the element: what is in parentheses is stepped over.
            let mut last = closing[first].unwrap_or(first);
            while last + 1 < end && !matches!(tokens[words[last + 1]].token, Token::Comma) {
                last = closing[last + 1].unwrap_or(last + 1);
            }
            if closing[first].is_some_and(|closes| closes < last) {
                opened[words[first]] = true;
                closed[words[last]] = true;
            }
            first = last + 2;
        }
    }
    let mut made = Vec::with_capacity(tokens.len() + 8);
    for (i, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        made.extend(opened[i].then_some(TokenWithSpan { token: Token::LParen, span }));
        made.push(token);
        made.extend(closed[i].then_some(TokenWithSpan { token: Token::RParen, span }));
    }
    made
}

/// Which of these tokens closes the parenthesis that one of them opens.
fn closing(tokens: &[TokenWithSpan], words: &[usize]) -> Vec<Option<usize>> {
    let mut closing = vec![None; words.len()];
    let mut open = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match tokens[*word].token {
            Token::LParen => open.push(at),
            Token::RParen => {
                if let Some(opened) = open.pop() {
                    closing[opened] = Some(at);
                }
            }
            _ => {}
        }
    }
    closing
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn elements_may_begin_with_parentheses() {
        for (sql, wanted) in [
            ("rollup ((a)::text)", "ROLLUP ((a)::TEXT)"),
            ("cube (b, (a + 1) * 2, (a, b))", "CUBE (b, (a + 1) * 2, (a, b))"),
            ("rollup ((a), (b))", "ROLLUP (a, b)"),
            ("rollup (abs((a)), (a) in (select 1))", "ROLLUP (abs((a)), (a) IN (SELECT 1))"),
        ] {
            let text = parse(&format!("select 1 from t group by {sql}")).unwrap()[0].to_string();
            assert_eq!(text, format!("SELECT 1 FROM t GROUP BY {wanted}"));
        }
        assert_eq!(parse("select rollup from cube").unwrap().len(), 1);
    }
}
