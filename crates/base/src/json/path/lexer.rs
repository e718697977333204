//! The words of a path.

use super::super::parse::code_point;
use crate::error::{SqlError, SqlResult, SqlState};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    End,
    /// A character that stands for itself.
    Mark(char),
    /// Two of them that belong together.
    Pair(&'static str),
    Text(String),
    Variable(String),
    Integer(String),
    Number(String),
    /// A name, and the word of the language that it may be.
    Word(String, Option<&'static str>),
}

/// A token, and what an error shows of it; nothing where PostgreSQL says that the input ended.
#[derive(Clone, Debug)]
pub(super) struct Lexed {
    pub token: Token,
    pub shown: String,
}

const PAIRS: [&str; 8] = ["&&", "||", "**", "==", "<>", "!=", "<=", ">="];

/// Words in any case, and those that are only words in lower case.
const WORDS: [&str; 19] = [
    "abs",
    "ceiling",
    "datetime",
    "double",
    "exists",
    "flag",
    "floor",
    "is",
    "keyvalue",
    "last",
    "lax",
    "like_regex",
    "size",
    "starts",
    "strict",
    "to",
    "type",
    "unknown",
    "with",
];
const LOWER_WORDS: [&str; 3] = ["false", "null", "true"];

fn word(text: &str) -> Option<&'static str> {
    let in_any_case = WORDS.into_iter().find(|word| word.eq_ignore_ascii_case(text));
    in_any_case.or_else(|| LOWER_WORDS.into_iter().find(|word| *word == text))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

fn is_mark(c: char) -> bool {
    "?%$.[]{}()|&!=<>@#,*:-+/".contains(c)
}

/// Whether a name can have it.
fn is_other(c: char) -> bool {
    !is_blank(c) && !is_mark(c) && !matches!(c, '"' | '\\')
}

pub(super) fn wrong(message: &str, shown: &str) -> SqlError {
    let message = match shown {
        "" => format!("{message} at end of jsonpath input"),
        shown => format!("{message} at or near \"{shown}\" of jsonpath input"),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

pub(super) fn invalid_path() -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type jsonpath")
}

pub(super) struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Lexer<'a> {
        Lexer { rest: text }
    }

    /// Errors: 42601 and, for what escapes mean, 22P02 and 22P05.
    pub fn next(&mut self) -> SqlResult<Lexed> {
        self.blanks()?;
        let Some(first) = self.rest.chars().next() else {
            return Ok(Lexed { token: Token::End, shown: String::new() });
        };
        if let Some(pair) = PAIRS.into_iter().find(|pair| self.rest.starts_with(pair)) {
            self.take(pair.len());
            return Ok(Lexed { token: Token::Pair(pair), shown: pair.into() });
        }
        let second = self.rest[first.len_utf8()..].chars().next();
        let begins_number =
            first.is_ascii_digit() || (first == '.' && second.is_some_and(|c| c.is_ascii_digit()));
        match (first, second) {
            _ if begins_number && let Some(number) = self.number()? => Ok(number),
            ('"', _) => self.quoted(1).map(|text| Lexed { token: Token::Text(text), shown: "\"".into() }),
            ('$', Some('"')) => {
                self.quoted(2).map(|name| Lexed { token: Token::Variable(name), shown: "\"".into() })
            }
            ('$', Some(c)) if is_other(c) => {
                let rest = &self.rest[1..];
                let name = self.take(1 + run(rest, is_other))[1..].to_string();
                Ok(Lexed { shown: format!("${name}"), token: Token::Variable(name) })
            }
            (c, _) if is_mark(c) => Ok(Lexed { token: Token::Mark(c), shown: self.take(1).into() }),
            _ => {
                let name = self.name()?;
                let word = word(&name);
                Ok(Lexed { token: Token::Word(name, word), shown: String::new() })
            }
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// Blanks and comments.
    fn blanks(&mut self) -> SqlResult<()> {
        loop {
            self.rest = self.rest.trim_start_matches(is_blank);
            let Some(comment) = self.rest.strip_prefix("/*") else { return Ok(()) };
            let end = comment.find("*/").ok_or_else(|| wrong("unexpected end of comment", ""))?;
            self.rest = &comment[end + 2..];
        }
    }

    /// A number; `None` if a name begins with digits here, which it may if it goes on for long enough.
    fn number(&mut self) -> SqlResult<Option<Lexed>> {
        let text = self.rest;
        let digits = |at: usize| run(&text[at..], |c| c.is_ascii_digit());
        let mut end = if text.starts_with('0') { 1 } else { digits(0) };
        let mut is_integer = true;
        if text[end..].starts_with('.') {
            end += 1 + digits(end + 1);
            is_integer = false;
        }
        if text[end..].starts_with(['e', 'E']) {
            let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
            match (digits(end + 1 + sign), sign) {
                (0, 1) => return Err(wrong("invalid numeric literal", &text[..end + 2])),
                (0, _) => {}
                (count, _) => (end, is_integer) = (end + 1 + sign + count, false),
            }
        }
        let name_end = run(text, is_other);
        match text[end..].chars().next().filter(|c| is_other(*c)) {
            Some(c) if name_end > end + c.len_utf8() => Ok(None),
            Some(c) => Err(wrong("trailing junk after numeric literal", &text[..end + c.len_utf8()])),
            None => {
                let number = self.take(end).to_string();
                let shown = number.clone();
                let token = if is_integer { Token::Integer(number) } else { Token::Number(number) };
                Ok(Some(Lexed { token, shown }))
            }
        }
    }

    fn name(&mut self) -> SqlResult<String> {
        let mut name = String::new();
        loop {
            name.push_str(self.take(run(self.rest, is_other)));
            if !self.rest.starts_with('\\') {
                return Ok(name);
            }
            self.escape(&mut name)?;
        }
    }

    /// What stands in quotes, behind so many bytes.
    fn quoted(&mut self, opening: usize) -> SqlResult<String> {
        self.take(opening);
        let mut text = String::new();
        loop {
            text.push_str(self.take(run(self.rest, |c| !matches!(c, '"' | '\\'))));
            match self.rest.chars().next() {
                None => return Err(wrong("unexpected end of quoted string", "")),
                Some('"') => break,
                Some(_) => self.escape(&mut text)?,
            }
        }
        self.take(1);
        Ok(text)
    }

    fn escape(&mut self, out: &mut String) -> SqlResult<()> {
        let Some(letter) = self.rest[1..].chars().next() else {
            return Err(wrong("unexpected end after backslash", "\\"));
        };
        match letter {
            'u' => return self.unicode(out),
            'x' => {
                let digits = run(&self.rest[2..], |c| c.is_ascii_hexdigit()).min(2);
                if digits < 2 {
                    return Err(wrong("invalid hex character sequence", &self.rest[..2 + digits]));
                }
                let code = u32::from_str_radix(&self.take(4)[2..], 16).unwrap_or_default();
                out.push(code_point(code)?);
                return Ok(());
            }
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\u{b}'),
            other => out.push(other),
        }
        self.take(1 + letter.len_utf8());
        Ok(())
    }

    /// `\u1234` or `\u{1F600}`; halves of a pair follow each other.
    fn unicode(&mut self, out: &mut String) -> SqlResult<()> {
        let half = |detail: &str| invalid_path().detail(detail.to_string());
        let first = self.unicode_code()?;
        let code = match first {
            0xD800..0xDC00 if !self.rest.starts_with("\\u") => {
                return Err(half("Unicode low surrogate must follow a high surrogate."));
            }
            0xD800..0xDC00 => match self.unicode_code()? {
                low @ 0xDC00..0xE000 => 0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00),
                0xD800..0xDC00 => {
                    return Err(half("Unicode high surrogate must not follow a high surrogate."));
                }
                _ => return Err(half("Unicode low surrogate must follow a high surrogate.")),
            },
            0xDC00..0xE000 => return Err(half("Unicode low surrogate must follow a high surrogate.")),
            code => code,
        };
        out.push(code_point(code)?);
        Ok(())
    }

    fn unicode_code(&mut self) -> SqlResult<u32> {
        let is_braced = self.rest[2..].starts_with('{');
        let start = if is_braced { 3 } else { 2 };
        let most = if is_braced { 6 } else { 4 };
        let digits = run(&self.rest[start..], |c| c.is_ascii_hexdigit()).min(most);
        let is_whole = match is_braced {
            true => digits > 0 && self.rest[start + digits..].starts_with('}'),
            false => digits == 4,
        };
        if !is_whole {
            return Err(wrong("invalid unicode sequence", &self.rest[..start + digits]));
        }
        let code = u32::from_str_radix(&self.rest[start..start + digits], 16);
        self.take(start + digits + usize::from(is_braced));
        Ok(code.unwrap_or_default())
    }
}

/// How many bytes from the start on have such characters.
fn run(text: &str, is_one: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_one(c)).unwrap_or(text.len())
}
