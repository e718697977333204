//! `[NOT] DEFERRABLE` of a transaction, which the parser does not know: left out. In PostgreSQL it lets a serializable
//! transaction that only reads wait for a snapshot in which it cannot fail; here it reads at one cut anyway.

use super::constraints::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Statements that say modes of a transaction.
const WITH_MODES: &[&[&str]] = &[
    &["begin"],
    &["start", "transaction"],
    &["set", "transaction"],
    &["set", "local", "transaction"],
    &["set", "session", "transaction"],
    &["set", "session", "characteristics"],
];

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "deferrable")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> =
            (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
        let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        let begins = |with: &&[&str]| with.iter().enumerate().all(|(nth, word)| is(nth, word));
        let gone = if WITH_MODES.iter().any(begins) { modes(statement, &words) } else { Vec::new() };
        let kept = statement.iter().enumerate().filter(|(i, _)| !gone.contains(i));
        made.extend(kept.map(|(_, token)| token.clone()));
    }
    made
}

/// Which tokens of a statement say `[NOT] DEFERRABLE`, each with one comma beside it.
fn modes(statement: &[TokenWithSpan], words: &[usize]) -> Vec<usize> {
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let is_token = |nth: usize, token: Token| words.get(nth).is_some_and(|i| statement[*i].token == token);
    let is_end = |nth: usize| nth >= words.len() || is_token(nth, Token::SemiColon);
    let mut gone = Vec::new();
    for nth in (1..words.len()).filter(|nth| is(*nth, "deferrable")) {
        let first = if is(nth - 1, "not") { nth - 1 } else { nth };
        gone.extend([words[first], words[nth]]);
        if is_token(nth + 1, Token::Comma) && !is_end(nth + 2) {
            gone.push(words[nth + 1]);
        } else if is_token(first - 1, Token::Comma) {
            gone.push(words[first - 1]);
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn a_transaction_may_be_deferrable() {
        for (sql, wanted) in [
            ("begin deferrable", "BEGIN"),
            ("BEGIN TRANSACTION NOT DEFERRABLE;", "BEGIN TRANSACTION"),
            (
                "begin isolation level serializable read only deferrable",
                "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY",
            ),
            (
                "begin isolation level serializable, deferrable, read only",
                "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY",
            ),
            ("start transaction read only, deferrable;", "START TRANSACTION READ ONLY"),
            ("start transaction not deferrable, read write", "START TRANSACTION READ WRITE"),
            ("set transaction deferrable", "SET TRANSACTION"),
            (
                "set session characteristics as transaction read only, not deferrable",
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            ),
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string(), wanted, "{sql}");
        }
        for sql in ["begin deferrable,", "begin read only,, deferrable", "commit deferrable"] {
            assert!(parse(sql).is_err(), "{sql}");
        }
        assert!(parse("begin deferrable; create table t (a int references b deferrable); commit").is_ok());
    }
}
