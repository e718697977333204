//! Statements about roles in words that the parser knows: users are roles that may log in.

use super::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The tokens with
/// - CREATE USER as CREATE ROLE … LOGIN, ALTER USER and DROP USER as ALTER ROLE and DROP ROLE;
/// - ENCRYPTED PASSWORD as PASSWORD: there is no other;
/// - ALTER ROLE … SET name TO a, b as ALTER ROLE … SET name TO (a, b);
/// - GRANT a, b TO c as GRANT ROLE a, ROLE b TO c, REVOKE likewise, and WITH ADMIN OPTION as WITH GRANT OPTION;
/// - TEMP as TEMPORARY where it is granted or revoked.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_about =
        |t: &TokenWithSpan| ["user", "role", "grant", "revoke"].iter().any(|word| is_word(t, word));
    if !tokens.iter().any(is_about) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len() + 8);
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words = words_of(statement);
        let named = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        let defines = ["create", "alter", "drop"].iter().any(|verb| named(0, verb));
        if defines && (named(1, "user") || named(1, "role")) {
            match with_list(statement, &words) {
                Some(listed) => define(&listed, &words_of(&listed), &mut made),
                None => define(statement, &words, &mut made),
            }
        } else if named(0, "grant") || named(0, "revoke") {
            grant(statement, &words, &mut made);
        } else {
            made.extend_from_slice(statement);
        }
    }
    made
}

/// Where tokens other than white space stand.
fn words_of(statement: &[TokenWithSpan]) -> Vec<usize> {
    (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect()
}

fn define(statement: &[TokenWithSpan], words: &[usize], made: &mut Vec<TokenWithSpan>) {
    let any = |word: &str| words[2.min(words.len())..].iter().any(|i| is_word(&statement[*i], word));
    let is_user = is_word(&statement[words[1]], "user");
    let logs_in = is_user && is_word(&statement[words[0]], "create") && !any("login") && !any("nologin");
    for (i, token) in statement.iter().enumerate() {
        let next = words.iter().find(|next| **next > i);
        let is_end = matches!(token.token, Token::SemiColon | Token::EOF);
        if is_end && logs_in {
            made.extend(word("LOGIN", token));
        }
        if i == words[1] {
            made.extend(word("ROLE", token));
        } else if !(is_word(token, "encrypted") && next.is_some_and(|n| is_word(&statement[*n], "password")))
        {
            made.push(token.clone());
        }
    }
    // A text may end without any end.
    let ends = statement.last().is_some_and(|t| matches!(t.token, Token::SemiColon | Token::EOF));
    if logs_in && !ends {
        made.extend(word("LOGIN", &statement[statement.len() - 1]));
    }
}

/// ALTER ROLE … SET with several values in parentheses; `None`: it has one, or is another statement.
fn with_list(statement: &[TokenWithSpan], words: &[usize]) -> Option<Vec<TokenWithSpan>> {
    let token = |nth: usize| words.get(nth).map(|i| &statement[*i]);
    let is = |nth: usize, word: &str| token(nth).is_some_and(|t| is_word(t, word));
    let set = (2..words.len()).find(|nth| is(*nth, "set")).filter(|_| is(0, "alter"))?;
    let is_before = |nth: &usize| is(*nth, "to") || token(*nth).is_some_and(|t| t.token == Token::Eq);
    let first = (set..words.len()).find(is_before)? + 1;
    let is_end = |nth: &usize| token(*nth).is_none_or(|t| matches!(t.token, Token::SemiColon | Token::EOF));
    let end = (first..=words.len()).find(is_end)?;
    let is_list = (first..end).any(|nth| token(nth).is_some_and(|t| t.token == Token::Comma));
    let (first, last) = (*words.get(first)?, *words.get(end.checked_sub(1)?)?);
    let put = |token: Token| TokenWithSpan { token, span: statement[first].span };
    let mut made = statement.to_vec();
    made.insert(last + 1, put(Token::RParen));
    made.insert(first, put(Token::LParen));
    is_list.then_some(made)
}

fn grant(statement: &[TokenWithSpan], words: &[usize], made: &mut Vec<TokenWithSpan>) {
    let is = |i: &usize, word: &str| is_word(&statement[*i], word);
    let end = words.iter().position(|i| is(i, "to") || is(i, "from")).unwrap_or(words.len());
    let head = &words[..end];
    let is_of_roles = end < words.len() && head.len() > 1 && !head.iter().any(|i| is(i, "on"));
    if !is_of_roles || head[1..].iter().any(|i| is(i, "option") || is(i, "role")) {
        let temp = temp_of(statement, head);
        for (i, token) in statement.iter().enumerate() {
            match temp.contains(&i) {
                true => made.extend(word("TEMPORARY", token)),
                false => made.push(token.clone()),
            }
        }
        return;
    }
    for (i, token) in statement.iter().enumerate() {
        let at = words.iter().position(|word| *word == i);
        let before = at.and_then(|at| at.checked_sub(1)).map(|before| &statement[words[before]]);
        let begins = at.is_some_and(|at| at > 0 && at < end)
            && before.is_some_and(|t| {
                matches!(t.token, Token::Comma) || is_word(t, "grant") || is_word(t, "revoke")
            });
        if begins {
            made.extend(word("ROLE", token));
        }
        let is_option = at.is_some_and(|at| {
            at > end && is_word(token, "admin") && words.get(at + 1).is_some_and(|next| is(next, "option"))
        });
        match is_option {
            true => made.extend(word("GRANT", token)),
            false => made.push(token.clone()),
        }
    }
}

/// Where TEMP stands among the privileges in front of ON, and names no column.
fn temp_of(statement: &[TokenWithSpan], head: &[usize]) -> Vec<usize> {
    let on = head.iter().position(|i| is_word(&statement[*i], "on")).unwrap_or(0);
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for i in head[..on].iter().skip(1) {
        match statement[*i].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_word(&statement[*i], "temp") => found.push(*i),
            _ => {}
        }
    }
    found
}

fn word(text: &str, at: &TokenWithSpan) -> [TokenWithSpan; 3] {
    let blank = || TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span: at.span };
    [blank(), TokenWithSpan { token: Token::make_word(text, None), span: at.span }, blank()]
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    match &token.token {
        Token::Word(w) => {
            w.quote_style.is_none() && w.keyword != Keyword::NoKeyword && w.value.eq_ignore_ascii_case(word)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn statements_about_roles_are_read() {
        for (sql, wanted) in [
            ("CREATE USER a", "CREATE ROLE a LOGIN"),
            ("create user a password 'x' nologin;", "CREATE ROLE a NOLOGIN PASSWORD 'x'"),
            ("CREATE USER a WITH ENCRYPTED PASSWORD 'x';", "CREATE ROLE a LOGIN PASSWORD 'x'"),
            ("CREATE ROLE a CONNECTION LIMIT 3 IN ROLE b", "CREATE ROLE a CONNECTION LIMIT 3 IN ROLE b"),
            ("ALTER USER \"A\" PASSWORD 'x'", "ALTER ROLE \"A\" WITH PASSWORD 'x'"),
            ("DROP USER IF EXISTS a, b", "DROP ROLE IF EXISTS a, b"),
            (
                "alter user a set search_path = \"$user\", public, 'x';",
                "ALTER ROLE a SET search_path TO (\"$user\", public, 'x')",
            ),
            (
                "ALTER ROLE all IN DATABASE b SET a.b TO c, d",
                "ALTER ROLE all IN DATABASE b SET a.b TO (c, d)",
            ),
            ("ALTER ROLE a SET x TO 'y'", "ALTER ROLE a SET x TO 'y'"),
            ("GRANT a, \"b c\" TO d", "GRANT ROLE a, ROLE \"b c\" TO d"),
            ("GRANT a TO b WITH ADMIN OPTION", "GRANT ROLE a TO b WITH GRANT OPTION"),
            ("REVOKE a FROM b", "REVOKE ROLE a FROM b"),
            ("GRANT SELECT (k, x), INSERT ON t TO b", "GRANT SELECT (k, x), INSERT ON t TO b"),
            (
                "GRANT ALL ON ALL TABLES IN SCHEMA s TO PUBLIC",
                "GRANT ALL ON ALL TABLES IN SCHEMA s TO PUBLIC",
            ),
            ("SELECT user FROM t; GRANT a TO b", "SELECT user FROM t"),
            ("GRANT TEMP ON DATABASE d TO r", "GRANT TEMPORARY ON DATABASE d TO r"),
            ("REVOKE CONNECT, TEMP ON DATABASE d FROM r;", "REVOKE CONNECT, TEMPORARY ON DATABASE d FROM r"),
            ("GRANT SELECT (temp) ON t TO b", "GRANT SELECT (temp) ON t TO b"),
        ] {
            let parsed = crate::parse::parse(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
            assert_eq!(parsed[0].to_string().trim_end(), wanted, "{sql}");
        }
    }
}
