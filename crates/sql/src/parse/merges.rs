//! Actions of MERGE that the parser does not know: `DO NOTHING` and `INSERT DEFAULT VALUES`.
//!
//! Each becomes an action that it does know, on a column of a name that no other text can say.

use super::constraints::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The column of an action that does nothing.
pub const NOTHING: &str = "\u{f8ff}nothing";

/// The column of an INSERT whose row has defaults alone.
pub const DEFAULT_VALUES: &str = "\u{f8ff}default values";

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "merge")) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&tokens[*i], word));
    let mut made = Vec::with_capacity(tokens.len());
    let (mut copied, mut is_matched) = (0, true);
    for nth in 0..words.len() {
        if is(nth, "matched") {
            is_matched = nth == 0 || !is(nth - 1, "not");
        }
        let column = match () {
            () if is(nth + 1, "do") && is(nth + 2, "nothing") => NOTHING,
            () if is(nth + 1, "insert") && is(nth + 2, "default") && is(nth + 3, "values") => DEFAULT_VALUES,
            () => continue,
        };
        if !is(nth, "then") {
            continue;
        }
        made.extend_from_slice(&tokens[copied..=words[nth]]);
        let last = if column == NOTHING { nth + 2 } else { nth + 3 };
        copied = words[last] + 1;
        let (word, name) = (|word| Token::make_word(word, None), Token::make_word(column, Some('"')));
        let number = || Token::Number("0".into(), false);
        let action = match is_matched && column == NOTHING {
            true => vec![word("UPDATE"), word("SET"), name, Token::Eq, number()],
            false => vec![
                word("INSERT"),
                Token::LParen,
                name,
                Token::RParen,
                word("VALUES"),
                Token::LParen,
                number(),
                Token::RParen,
            ],
        };
        let span = tokens[words[nth]].span;
        for token in action {
            made.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
            made.push(TokenWithSpan { token, span });
        }
    }
    made.extend_from_slice(&tokens[copied..]);
    made
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn actions_of_no_other_dialect_are_read() {
        let sql = "merge into t using s on t.id = s.id when matched and s.a = 1 then do nothing \
                   when not matched and s.b = 2 then do nothing when not matched then insert default values";
        let shown = parse(sql).unwrap()[0].to_string();
        for action in [
            format!("WHEN MATCHED AND s.a = 1 THEN UPDATE SET \"{NOTHING}\" = 0"),
            format!("WHEN NOT MATCHED AND s.b = 2 THEN INSERT (\"{NOTHING}\") VALUES (0)"),
            format!("WHEN NOT MATCHED THEN INSERT (\"{DEFAULT_VALUES}\") VALUES (0)"),
        ] {
            assert!(shown.contains(&action), "{shown}");
        }
        assert!(parse("insert into merge values (1) on conflict do nothing").is_ok());
    }
}
