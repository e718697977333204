//! `FOR UPDATE OF a, b NOWAIT`, of which the parser knows one table alone: as one clause for each of them.

use super::constraints::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "of")) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&tokens[*i], word));
    let is_token = |nth: usize, token: &Token| words.get(nth).is_some_and(|i| tokens[*i].token == *token);
    let mut made = Vec::with_capacity(tokens.len());
    let (mut copied, mut nth) = (0, 0);
    while nth < words.len() {
        let begins = is(nth, "for") && (is(nth + 1, "update") || is(nth + 1, "share")) && is(nth + 2, "of");
        if !begins {
            nth += 1;
            continue;
        }
        let verb = nth;
        let mut names: Vec<std::ops::Range<usize>> = Vec::new();
        nth += 3;
        loop {
            let first = nth;
            nth += 1;
            while is_token(nth, &Token::Period) {
                nth += 2;
            }
            names.push(first..nth.min(words.len()));
            if !is_token(nth, &Token::Comma) {
                break;
            }
            nth += 1;
        }
        let behind = match () {
            () if is(nth, "nowait") => nth..nth + 1,
            () if is(nth, "skip") && is(nth + 1, "locked") => nth..nth + 2,
            () => nth..nth,
        };
        if names.len() == 1 {
            continue;
        }
        made.extend_from_slice(&tokens[copied..words[verb]]);
        for name in names {
            for word in (verb..verb + 3).chain(name).chain(behind.clone()) {
                let token = tokens[words[word]].clone();
                let blank = Token::Whitespace(Whitespace::Space);
                let is_name = matches!(token.token, Token::Word(_));
                made.extend(is_name.then(|| TokenWithSpan { token: blank, span: token.span }));
                made.push(token);
            }
        }
        nth = behind.end;
        copied = words.get(nth).copied().unwrap_or(tokens.len());
        let end = tokens[words[verb]].span;
        made.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span: end });
    }
    made.extend_from_slice(&tokens[copied..]);
    made
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn each_table_of_a_list_has_a_clause_of_its_own() {
        for (sql, wanted) in [
            (
                "select 1 from a, s.b for update of a, s.b skip locked",
                "SELECT 1 FROM a, s.b FOR UPDATE OF a SKIP LOCKED FOR UPDATE OF s.b SKIP LOCKED",
            ),
            (
                "select 1 from a, b, c for share of a for no key update of b, \"C d\" nowait;",
                "SELECT 1 FROM a, b, c FOR SHARE OF a FOR UPDATE OF b NOWAIT FOR UPDATE OF \"C d\" NOWAIT",
            ),
            ("select (select 1 from a for update of a), 2", "SELECT (SELECT 1 FROM a FOR UPDATE OF a), 2"),
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string(), wanted, "{sql}");
        }
        assert!(parse("select 1 from a for update of a,").is_err());
        assert!(parse("select 1 from a for update of").is_err());
    }
}
