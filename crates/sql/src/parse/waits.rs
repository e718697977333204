//! `WAIT FOR LSN '…' [WITH (TIMEOUT '…', NO_THROW)]`, which the parser does not know, as a query of a function that stands
//! alone: `SELECT meridian_wait_for('…', '…', true) AS status`.
//!
//! KEEPS: a text that does not begin so is left as it is.

use base::error::{SqlError, SqlResult, SqlState};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What stands for it.
pub const WAIT_FOR: &str = "meridian_wait_for";

/// Errors: 42601 for what the statement does not have; 0A000 for an option that is not there.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> SqlResult<Vec<TokenWithSpan>> {
    if !tokens.iter().any(|t| is_word(&t.token, "wait")) {
        return Ok(tokens);
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let is_end =
            |t: &&TokenWithSpan| !matches!(t.token, Token::Whitespace(_) | Token::SemiColon | Token::EOF);
        let words: Vec<&TokenWithSpan> = statement.iter().filter(is_end).collect();
        let is = |nth: usize, word: &str| words.get(nth).is_some_and(|t| is_word(&t.token, word));
        if !(is(0, "wait") && is(1, "for")) {
            made.extend_from_slice(statement);
            continue;
        }
        let [_, _, rest @ ..] = &words[..] else { unreachable!("two words were seen") };
        let rest: Vec<&Token> = rest.iter().map(|t| &t.token).collect();
        let asked = Asked::of(&rest)?;
        let put = |token: Token| TokenWithSpan { token, span: words[0].span };
        let text = |text: &str| Token::SingleQuotedString(text.to_string());
        let is_quiet = if asked.no_throw { "TRUE" } else { "FALSE" };
        let call = [
            Token::make_keyword("SELECT"),
            Token::make_word(WAIT_FOR, None),
            Token::LParen,
            text(&asked.lsn),
            Token::Comma,
            text(&asked.timeout),
            Token::Comma,
            Token::make_keyword(is_quiet),
            Token::RParen,
            Token::make_keyword("AS"),
            Token::make_word("status", None),
        ];
        let ends = |t: &&TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
        made.extend(call.into_iter().map(put));
        made.extend(statement.iter().filter(ends).cloned());
    }
    Ok(made)
}

/// What is waited for.
struct Asked {
    lsn: String,
    /// As it is written; `0`: as long as it takes.
    timeout: String,
    no_throw: bool,
}

impl Asked {
    /// From what follows `WAIT FOR`.
    fn of(tokens: &[&Token]) -> SqlResult<Asked> {
        let wrong = || {
            SqlError::new(
                SqlState::SYNTAX_ERROR,
                "WAIT FOR is followed by LSN '…' [WITH (TIMEOUT '…', NO_THROW)]",
            )
            .hint("The position is a token of another session, as SHOW meridian.token printed it.")
        };
        let [lsn, Token::SingleQuotedString(text), rest @ ..] = tokens else { return Err(wrong()) };
        if !is_word(lsn, "lsn") {
            return Err(wrong());
        }
        let mut asked = Asked { lsn: text.clone(), timeout: "0".into(), no_throw: false };
        let rest = match rest {
            [] => return Ok(asked),
            [with, rest @ ..] if is_word(with, "with") => rest,
            rest => rest,
        };
        let [Token::LParen, options @ .., Token::RParen] = rest else { return Err(wrong()) };
        for option in options.split(|token| **token == Token::Comma) {
            match option {
                [word, Token::SingleQuotedString(time) | Token::Number(time, _)]
                    if is_word(word, "timeout") =>
                {
                    asked.timeout = time.clone();
                }
                [word] if is_word(word, "no_throw") => asked.no_throw = true,
                [Token::Word(word), ..] if word.value.eq_ignore_ascii_case("mode") => {
                    return Err(SqlError::unsupported("WAIT FOR with an option MODE"));
                }
                _ => return Err(wrong()),
            }
        }
        Ok(asked)
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    match token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn a_wait_is_a_query_of_a_function_and_what_it_does_not_have_is_an_error() {
        let shown = |sql: &str| {
            let statements = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            statements.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(shown("WAIT FOR LSN '5/77'"), "SELECT meridian_wait_for('5/77', '0', false) AS status");
        assert_eq!(
            shown("wait for lsn '5/77' with (timeout '100ms', no_throw); SELECT 1"),
            "SELECT meridian_wait_for('5/77', '100ms', true) AS status; SELECT 1"
        );
        assert_eq!(shown("SELECT wait FROM t"), "SELECT wait FROM t");
        for (sql, state) in [
            ("WAIT FOR", "42601"),
            ("WAIT FOR LSN", "42601"),
            ("WAIT FOR LSN 5", "42601"),
            ("WAIT FOR LSN '5' WITH (TIMEOUT)", "42601"),
            ("WAIT FOR LSN '5' WITH (TIMEOUT '1s'", "42601"),
            ("WAIT FOR LSN '5' WITH ()", "42601"),
            ("WAIT FOR LSN '5' WITH (MODE 'primary_flush')", "0A000"),
        ] {
            assert_eq!(parse(sql).unwrap_err().state.as_str(), state, "{sql}");
        }
    }
}
