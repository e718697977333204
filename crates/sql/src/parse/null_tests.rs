//! `x ISNULL` and `x NOTNULL`, which the parser takes for an alias, as `x IS NULL` and `x IS NOT NULL`.

use super::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let test = |t: &TokenWithSpan| match &t.token {
        Token::Word(w) if w.quote_style.is_none() => match w.value.to_ascii_uppercase().as_str() {
            "ISNULL" => Some(&["IS", "NULL"][..]),
            "NOTNULL" => Some(&["IS", "NOT", "NULL"][..]),
            _ => None,
        },
        _ => None,
    };
    if !tokens.iter().any(|t| test(t).is_some()) {
        return tokens;
    }
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    // Behind a value it is a test, anywhere else a name.
    let mut is_behind_value = false;
    for token in tokens {
        match test(&token).filter(|_| is_behind_value) {
            None => {
                is_behind_value = match &token.token {
                    Token::Whitespace(_) => is_behind_value,
                    Token::Word(w) => w.quote_style.is_some() || w.keyword == Keyword::NoKeyword,
                    Token::RParen | Token::RBracket => true,
                    Token::Number(..) | Token::SingleQuotedString(_) => true,
                    _ => false,
                };
                made.push(token);
            }
            Some(words) => {
                for word in words {
                    let blank = Token::Whitespace(Whitespace::Space);
                    made.push(TokenWithSpan { token: blank, span: token.span });
                    made.push(TokenWithSpan { token: Token::make_word(word, None), span: token.span });
                }
                is_behind_value = false;
            }
        }
    }
    made
}
