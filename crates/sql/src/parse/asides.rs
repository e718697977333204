//! Words that say what is so anyway, and strings in PostgreSQL's other spellings.

use super::constraints::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The tokens with
/// - `EXCLUDE NO OTHERS` of a window's frame and `COLLATE "C"` behind a cast as nothing: there is no other order of texts;
/// - `interval(0) '1.5 s'` as `'1.5 s'::interval(0)`: the parser forgets the number;
/// - RESET SESSION AUTHORIZATION as SET SESSION AUTHORIZATION DEFAULT, and RESET TIME ZONE as RESET timezone;
/// - SET LOCAL SESSION AUTHORIZATION and SET SESSION SESSION AUTHORIZATION with the first of the words alone.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_about = |t: &TokenWithSpan| {
        ["exclude", "collate", "authorization", "interval", "zone"].iter().any(|w| is_word(t, w))
    };
    if !tokens.iter().any(is_about) {
        return tokens;
    }
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let [token, behind @ ..] = rest {
        let words = |words: &[&str]| length_of(behind, words);
        let gone = match () {
            () if is_word(token, "exclude") => words(&["no", "others"]),
            () if is_word(token, "collate") && follows_cast(&made) => usual_collation(behind),
            () => None,
        };
        if let Some(gone) = gone {
            rest = &behind[gone..];
            continue;
        }
        if let Some(length) = digits_and_text(behind).filter(|_| is_word(token, "interval")) {
            let put = |token| TokenWithSpan { token, span: rest[0].span };
            let (number, text) = behind[..length].split_at(length - 1);
            made.extend(text.iter().cloned());
            made.extend([put(Token::DoubleColon), token.clone()]);
            made.extend(number.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).cloned());
            rest = &behind[length..];
            continue;
        }
        match authorization(token, behind) {
            Some((said, length)) => {
                let put = |token| TokenWithSpan { token, span: rest[0].span };
                let blank = || put(Token::Whitespace(Whitespace::Space));
                made.extend(said.iter().flat_map(|word| [put(Token::make_word(word, None)), blank()]));
                rest = &behind[length..];
            }
            None => {
                made.push(token.clone());
                rest = behind;
            }
        }
    }
    made
}

/// What is said of whom a session acts as, or of its time zone, in the words that the parser takes, and how many tokens
/// behind the first said it.
fn authorization(
    first: &TokenWithSpan,
    behind: &[TokenWithSpan],
) -> Option<(&'static [&'static str], usize)> {
    const FORMS: &[(&str, &[&str], &[&str])] = &[
        ("reset", &["session", "authorization"], &["SET", "SESSION", "AUTHORIZATION", "DEFAULT"]),
        ("reset", &["time", "zone"], &["RESET", "timezone"]),
        ("set", &["local", "session", "authorization"], &["SET", "LOCAL", "AUTHORIZATION"]),
        ("set", &["session", "session", "authorization"], &["SET", "SESSION", "AUTHORIZATION"]),
    ];
    let mut forms = FORMS.iter().filter(|(word, ..)| is_word(first, word));
    forms.find_map(|(_, words, said)| Some((*said, length_of(behind, words)?)))
}

/// How many tokens these words take at the beginning, with the blanks before each of them.
fn length_of(tokens: &[TokenWithSpan], words: &[&str]) -> Option<usize> {
    let mut at = 0;
    for word in words {
        at += tokens[at..].iter().position(|t| !matches!(t.token, Token::Whitespace(_)))?;
        if !is_word(&tokens[at], word) {
            return None;
        }
        at += 1;
    }
    Some(at)
}

/// How many tokens `(2) 'text'` takes.
fn digits_and_text(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut words = tokens.iter().enumerate().filter(|(_, t)| !matches!(t.token, Token::Whitespace(_)));
    let mut next = || words.next().map(|(at, t)| (at, &t.token));
    matches!(next(), Some((_, Token::LParen))).then_some(())?;
    matches!(next(), Some((_, Token::Number(..)))).then_some(())?;
    matches!(next(), Some((_, Token::RParen))).then_some(())?;
    match next() {
        Some((at, Token::SingleQuotedString(_))) => Some(at + 1),
        _ => None,
    }
}

/// `… :: type`
fn follows_cast(before: &[TokenWithSpan]) -> bool {
    let mut words = before.iter().rev().map(|t| &t.token).filter(|t| !matches!(t, Token::Whitespace(_)));
    matches!((words.next(), words.next()), (Some(Token::Word(_)), Some(Token::DoubleColon)))
}

/// The name of the collation that every text has.
fn usual_collation(tokens: &[TokenWithSpan]) -> Option<usize> {
    let at = tokens.iter().position(|t| !matches!(t.token, Token::Whitespace(_)))?;
    let Token::Word(word) = &tokens[at].token else { return None };
    let is_usual = word.quote_style.is_some() && ["C", "POSIX", "default"].contains(&word.value.as_str());
    is_usual.then_some(at + 1)
}

/// The tokens with `E'…'` and `$$…$$` as the same strings in quotes. One that would be read otherwise when it is written
/// again stays as it is.
pub(super) fn with_plain_strings(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_plain = |text: &str| !text.contains("\\'") && !text.contains("''");
    let plain = |token: Token| match token {
        Token::EscapedStringLiteral(text) if is_plain(&text) => Token::SingleQuotedString(text),
        Token::DollarQuotedString(quoted) if is_plain(&quoted.value) => {
            Token::SingleQuotedString(quoted.value)
        }
        token => token,
    };
    tokens.into_iter().map(|t| TokenWithSpan { token: plain(t.token), span: t.span }).collect()
}

#[cfg(test)]
mod tests {
    fn read(sql: &str) -> String {
        crate::parse::parse(sql).unwrap()[0].to_string()
    }

    #[test]
    fn what_is_so_anyway_is_left_out() {
        assert_eq!(read("select a::text collate \"C\" = 'b'"), "SELECT a::TEXT = 'b'");
        assert_eq!(
            read("select sum(a) over (rows 1 preceding exclude no others) from t"),
            "SELECT sum(a) OVER (ROWS 1 PRECEDING) FROM t"
        );
        assert_eq!(
            read("select interval (1) '1.26 s', interval '1 s'"),
            "SELECT '1.26 s'::INTERVAL(1), INTERVAL '1 s'"
        );
        assert_eq!(read("reset  session authorization"), read("set session authorization default"));
        assert_eq!(read("reset time zone"), "RESET timezone");
        for (sql, plain) in [
            ("set local session authorization a", "set local authorization a"),
            ("set session session authorization 'b'", "set session authorization 'b'"),
        ] {
            assert_eq!(crate::parse::parse(sql).unwrap(), crate::parse::parse(plain).unwrap());
        }
        assert!(crate::parse::parse("select a::text collate other").is_err());
    }

    #[test]
    fn a_string_is_the_same_in_any_spelling() {
        assert_eq!(read("select E'a\\tb', $x$c\\d$x$"), "SELECT 'a\tb', 'c\\d'");
        assert_eq!(read("select '{\"a\\\\\"}'::text[]").replace('"', "~"), "SELECT '{~a\\\\~}'::TEXT[]");
        assert_eq!(read("select E'{\\'}'"), "SELECT '{''}'");
    }
}
