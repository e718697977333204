//! What PostgreSQL says of constraints and the parser does not know, as something that it does.

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Begins the name that stands behind FOREIGN KEY for the columns of SET NULL (…); a line each.
pub const SET_COLUMNS: &str = "\u{f8ff}set columns\n";

/// Stands for the name in RENAME TO schema.name that SET SCHEMA becomes.
pub const SAME_NAME: &str = "\u{f8ff}same name";

/// The setting that SET CONSTRAINTS becomes an assignment to: DEFERRED or IMMEDIATE, and the names; none for ALL.
pub const CONSTRAINTS: &str = "meridian set constraints";

/// The tokens with
/// - FOREIGN KEY (…) … ON DELETE SET NULL (a, b) with the columns as a name behind FOREIGN KEY;
/// - ALTER TABLE t SET SCHEMA s as RENAME TO s.[`SAME_NAME`];
/// - SET CONSTRAINTS … as an assignment to [`CONSTRAINTS`].
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |word: &str| tokens.iter().any(|t| is_word(t, word));
    let is_about = has("constraints") || has("foreign") && has("set") || has("alter") && has("schema");
    if !is_about {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len() + 8);
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<&TokenWithSpan> = statement
            .iter()
            .filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::SemiColon | Token::EOF))
            .collect();
        let named = |nth: usize, word: &str| words.get(nth).is_some_and(|t| is_word(t, word));
        let end = statement.iter().filter(|t| matches!(t.token, Token::SemiColon | Token::EOF));
        if named(0, "set") && named(1, "constraints") && words.len() > 3 {
            made.extend(spaced(set_constraints(&words)));
            made.extend(end.cloned());
        } else if named(0, "alter") && named(1, "table") && has_pair(&words, "set", "schema") {
            made.extend(spaced(set_schema(&words)));
            made.extend(end.cloned());
        } else if has_pair(&words, "foreign", "key") && has_pair(&words, "set", "null")
            || has_pair(&words, "foreign", "key") && has_pair(&words, "set", "default")
        {
            made.extend(with_set_columns(statement));
        } else {
            made.extend_from_slice(statement);
        }
    }
    made
}

/// `SET CONSTRAINTS ALL | names DEFERRED | IMMEDIATE`.
fn set_constraints(words: &[&TokenWithSpan]) -> Vec<TokenWithSpan> {
    let [set, constraints, names @ .., last] = words else { return Vec::new() };
    let at = |token| TokenWithSpan { token, span: constraints.span };
    let mut made =
        vec![(*set).clone(), at(Token::make_word(CONSTRAINTS, Some('"'))), at(Token::Eq), (*last).clone()];
    if !matches!(names, [all] if is_word(all, "all")) {
        made.push(at(Token::Comma));
        made.extend(names.iter().map(|t| (*t).clone()));
    }
    made
}

fn set_schema(words: &[&TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut made = Vec::with_capacity(words.len() + 2);
    for (nth, word) in words.iter().enumerate() {
        let at = |token| TokenWithSpan { token, span: word.span };
        let follows = |back: usize, text: &str| nth >= back && is_word(words[nth - back], text);
        match () {
            () if is_word(word, "set") && words.get(nth + 1).is_some_and(|t| is_word(t, "schema")) => {
                made.push(at(Token::make_word("RENAME", None)));
            }
            () if is_word(word, "schema") && follows(1, "set") => {
                made.push(at(Token::make_word("TO", None)));
            }
            () if follows(1, "schema") && follows(2, "set") => {
                made.push((*word).clone());
                made.push(at(Token::Period));
                made.push(at(Token::make_word(SAME_NAME, Some('"'))));
            }
            () => made.push((*word).clone()),
        }
    }
    made
}

/// The columns behind SET NULL and SET DEFAULT stand behind the FOREIGN KEY before them.
fn with_set_columns(statement: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let words: Vec<usize> =
        (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let mut gone = vec![false; statement.len()];
    let mut named: Vec<(usize, String)> = Vec::new();
    let mut key = None;
    for nth in 0..words.len() {
        if is(nth, "foreign") && is(nth + 1, "key") {
            key = Some(words[nth + 1]);
        }
        let sets = is(nth, "set") && (is(nth + 1, "null") || is(nth + 1, "default"));
        let on_delete = nth >= 2 && is(nth - 1, "delete") && is(nth - 2, "on");
        let opens = words.get(nth + 2).is_some_and(|i| matches!(statement[*i].token, Token::LParen));
        let Some(key) = key.filter(|_| sets && on_delete && opens) else { continue };
        let mut list = SET_COLUMNS.to_string();
        for at in &words[nth + 2..] {
            gone[*at] = true;
            match &statement[*at].token {
                Token::Word(word) if word.quote_style.is_some() => list.push_str(&word.value),
                Token::Word(word) => list.push_str(&word.value.to_lowercase()),
                Token::Comma => list.push('\n'),
                Token::RParen => break,
                _ => {}
            }
        }
        named.push((key, list));
    }
    let mut made = Vec::with_capacity(statement.len() + 2);
    for (i, token) in statement.iter().enumerate() {
        if !gone[i] {
            made.push(token.clone());
        }
        for (_, list) in named.iter().filter(|(key, _)| *key == i) {
            let at = |token| TokenWithSpan { token, span: statement[i].span };
            made.push(at(Token::Whitespace(Whitespace::Space)));
            made.push(at(Token::make_word(list, Some('"'))));
            made.push(at(Token::Whitespace(Whitespace::Space)));
        }
    }
    made
}

fn has_pair(words: &[&TokenWithSpan], first: &str, second: &str) -> bool {
    words.windows(2).any(|pair| is_word(pair[0], first) && is_word(pair[1], second))
}

pub(super) fn spaced(words: Vec<TokenWithSpan>) -> impl Iterator<Item = TokenWithSpan> {
    words.into_iter().flat_map(|word| {
        let blank = TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span: word.span };
        [word, blank]
    })
}

pub(super) fn is_word(t: &TokenWithSpan, word: &str) -> bool {
    match &t.token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn what_is_said_of_constraints_is_read() {
        for (sql, wanted) in [
            ("set constraints all deferred", "SET \"meridian set constraints\" = DEFERRED"),
            (
                "SET CONSTRAINTS a, \"B c\", s.d IMMEDIATE;",
                "SET \"meridian set constraints\" = IMMEDIATE, a, \"B c\", s.d",
            ),
            ("alter table t set schema s", "ALTER TABLE t RENAME TO s.\"\u{f8ff}same name\""),
            (
                "alter table t add foreign key (a, b) references p on delete set null (b)",
                "ALTER TABLE t ADD FOREIGN KEY \"\u{f8ff}set columns\nb\" (a, b) REFERENCES p ON DELETE SET NULL",
            ),
        ] {
            let shown = parse(sql).unwrap()[0].to_string();
            assert_eq!(shown.to_lowercase(), wanted.to_lowercase(), "{sql}");
        }
    }
}
