//! `SELECT … FOR UPDATE SKIP LOCKED LIMIT 1`: the parser knows clauses of locks behind LIMIT, OFFSET and FETCH alone, so
//! they go there.
//!
//! KEEPS: a query with clauses of locks on both sides of LIMIT stays as it is, which is an error as in PostgreSQL.

use super::constraints::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use std::collections::BTreeMap;

/// What begins a clause that bounds how many rows there are.
const LIMITS: &[&str] = &["limit", "offset", "fetch"];

/// For tokens of which each clause names one table at most (`row_locks`).
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |word: &str| tokens.iter().any(|t| is_word(t, word));
    if !has("for") || !LIMITS.iter().any(|word| has(word)) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&tokens[*i], word));
    let mut gone = vec![false; tokens.len()];
    // By the token in front of which they go.
    let mut moved: BTreeMap<usize, Vec<TokenWithSpan>> = BTreeMap::new();
    let mut nth = 0;
    while nth < words.len() {
        let locks = nth..behind_locks(nth, &tokens, &words);
        nth = locks.end.max(nth + 1);
        if locks.is_empty() || !LIMITS.iter().any(|word| is(locks.end, word)) {
            continue;
        }
        let end = behind_limits(locks.end, &tokens, &words);
        if is(end, "for") {
            continue;
        }
        let clauses = moved.entry(words.get(end).copied().unwrap_or(tokens.len())).or_default();
        for i in locks.map(|word| words[word]) {
            gone[i] = true;
            let blank = Token::Whitespace(Whitespace::Space);
            let blank = TokenWithSpan { token: blank, span: tokens[i].span };
            clauses.extend([blank.clone(), tokens[i].clone(), blank]);
        }
    }
    if moved.is_empty() {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len() + 2 * words.len());
    for (i, token) in tokens.into_iter().enumerate() {
        made.extend(moved.remove(&i).unwrap_or_default());
        made.extend((!gone[i]).then_some(token));
    }
    made.extend(moved.into_values().flatten());
    made
}

/// The word behind the clauses of locks that begin at a word; the same word if none does.
fn behind_locks(first: usize, tokens: &[TokenWithSpan], words: &[usize]) -> usize {
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&tokens[*i], word));
    let mut nth = first;
    while is(nth, "for") && (is(nth + 1, "update") || is(nth + 1, "share")) {
        nth += 2;
        if is(nth, "of") {
            nth += 2;
            while words.get(nth).is_some_and(|i| tokens[*i].token == Token::Period) {
                nth += 2;
            }
        }
        if is(nth, "nowait") {
            nth += 1;
        } else if is(nth, "skip") && is(nth + 1, "locked") {
            nth += 2;
        }
    }
    nth
}

/// The word behind LIMIT, OFFSET and FETCH, the first of which begins at a word: where the query ends, or another clause of
/// locks begins.
fn behind_limits(first: usize, tokens: &[TokenWithSpan], words: &[usize]) -> usize {
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&tokens[*i], word));
    let mut depth = 0_usize;
    for (nth, word) in words.iter().enumerate().skip(first) {
        match tokens[*word].token {
            Token::SemiColon | Token::EOF => return nth,
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return nth,
            Token::RParen => depth -= 1,
            // INSERT … SELECT … ON CONFLICT … RETURNING, CREATE TABLE … AS SELECT … WITH NO DATA.
            _ if depth > 0 => {}
            _ if ["for", "on", "returning"].iter().any(|end| is(nth, end)) => return nth,
            _ if is(nth, "with") && !is(nth + 1, "ties") => return nth,
            _ => {}
        }
    }
    words.len()
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn locks_go_behind_limits() {
        for (sql, wanted) in [
            (
                "select id from jobs where not done order by id for update skip locked limit 1;",
                "SELECT id FROM jobs WHERE NOT done ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
            ),
            (
                "update j set s = 1 where id = (select id from j for no key update nowait limit (1 + 1)) returning *",
                "UPDATE j SET s = 1 WHERE id = (SELECT id FROM j LIMIT (1 + 1) FOR UPDATE NOWAIT) RETURNING *",
            ),
            (
                "select 1 from a, b for update of a, b for share of s.c limit 1 offset 2",
                "SELECT 1 FROM a, b LIMIT 1 OFFSET 2 FOR UPDATE OF a FOR UPDATE OF b FOR SHARE OF s.c",
            ),
            (
                "select 1 from a for update fetch first 2 rows only",
                "SELECT 1 FROM a FETCH FIRST 2 ROWS ONLY FOR UPDATE",
            ),
            (
                "insert into t select a from b for update limit 1 on conflict do nothing returning 1",
                "INSERT INTO t SELECT a FROM b LIMIT 1 FOR UPDATE ON CONFLICT DO NOTHING RETURNING 1",
            ),
            ("select 1 from a limit 1 for update", "SELECT 1 FROM a LIMIT 1 FOR UPDATE"),
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string(), wanted, "{sql}");
        }
        assert!(parse("select 1 from a for update limit 1 for update").is_err());
        assert!(parse("select 1 from a for update limit").is_err());
        assert!(parse("select 1 from a for update order by 1").is_err());
    }
}
