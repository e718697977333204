//! Reading JSON.

use super::{DEPTH_MAX, Json, number, quote, too_deep};
use crate::error::{SqlError, SqlResult, SqlState};

/// A value of a `json` text that lies right inside it: its key if that is an object's, and its own text.
pub type Member<'a> = (Option<String>, &'a str);

/// Reads a `jsonb` value. Errors: 22P02, 22P05, 22003, 54001.
pub fn parse(text: &str) -> SqlResult<Json> {
    let mut parser = Parser { text, at: 0, depth: 0, is_strict: true };
    let value = parser.value()?;
    parser.end()?;
    Ok(value)
}

/// Whether a text is JSON: a `json` value may have numbers and characters that `jsonb` has not. Errors: 22P02, 54001.
pub fn check(text: &str) -> SqlResult<()> {
    let mut parser = Parser { text, at: 0, depth: 0, is_strict: false };
    parser.value()?;
    parser.end()
}

/// What lies right inside an array or an object of a `json` text, in its order; `None` for a scalar.
pub fn members(text: &str) -> SqlResult<Option<Vec<Member<'_>>>> {
    let mut parser = Parser { text, at: 0, depth: 0, is_strict: false };
    let mut found = Vec::new();
    let is_container = parser.container(|parser, key| {
        parser.blanks();
        let start = parser.at;
        parser.value()?;
        found.push((key, &text[start..parser.at]));
        Ok(())
    })?;
    Ok(is_container.map(|_| found))
}

/// A `json` text without blanks and without the members of objects that are null. Errors: 22P02, 54001.
pub(super) fn without_nulls(text: &str) -> SqlResult<String> {
    let mut parser = Parser { text, at: 0, depth: 0, is_strict: false };
    let mut out = String::with_capacity(text.len());
    parser.copy_without_nulls(&mut out)?;
    parser.end()?;
    Ok(out)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// What `jsonb` has no room for is refused.
    is_strict: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Container {
    Array,
    Object,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> SqlResult<Json> {
        self.blanks();
        match self.peek() {
            Some(b'[') => {
                let mut elements = Vec::new();
                self.container(|parser, _| Ok(elements.push(parser.value()?)))?;
                Ok(Json::Array(elements))
            }
            Some(b'{') => {
                let mut members = Vec::new();
                self.container(|parser, key| Ok(members.push((key.unwrap_or_default(), parser.value()?))))?;
                Ok(Json::object(members))
            }
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Json::Number),
            _ => {
                let word = self.word();
                let value = match word {
                    "null" => Json::Null,
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    _ => return Err(self.unexpected("JSON value")),
                };
                self.at += word.len();
                Ok(value)
            }
        }
    }

    /// An array or an object, each of whose values `one` reads; `None` if none begins here.
    fn container(
        &mut self,
        mut one: impl FnMut(&mut Self, Option<String>) -> SqlResult<()>,
    ) -> SqlResult<Option<Container>> {
        self.blanks();
        let (kind, end) = match self.peek() {
            Some(b'[') => (Container::Array, b']'),
            Some(b'{') => (Container::Object, b'}'),
            _ => return Ok(None),
        };
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        self.blanks();
        let mut is_first = true;
        while !(is_first && self.peek() == Some(end)) {
            self.blanks();
            let key = match (kind, self.peek()) {
                (Container::Array, _) => None,
                (Container::Object, Some(b'"')) => Some(self.string()?),
                _ => return Err(self.unexpected(if is_first { "string or \"}\"" } else { "string" })),
            };
            if kind == Container::Object {
                self.blanks();
                self.expect(b':', "\":\"")?;
            }
            one(self, key)?;
            is_first = false;
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b) if b == end => break,
                _ => return Err(self.unexpected(&format!("\",\" or \"{}\"", char::from(end)))),
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(Some(kind))
    }

    /// Appends a value without its members that are null, and says whether it is null itself.
    fn copy_without_nulls(&mut self, out: &mut String) -> SqlResult<bool> {
        self.blanks();
        let start = self.at;
        let close = match self.peek() {
            Some(b'[') => ']',
            Some(b'{') => '}',
            _ => {
                match self.value()? {
                    Json::Text(text) => quote(out, &text).expect("a string takes what is written"),
                    _ => out.push_str(&self.text[start..self.at]),
                }
                return Ok(&self.text[start..self.at] == "null");
            }
        };
        out.push_str(&self.text[start..=start]);
        let first = out.len();
        self.container(|parser, key| {
            let before = out.len();
            if before > first {
                out.push(',');
            }
            if let Some(key) = &key {
                quote(out, key).expect("a string takes what is written");
                out.push(':');
            }
            if parser.copy_without_nulls(out)? && key.is_some() {
                out.truncate(before);
            }
            Ok(())
        })?;
        out.push(close);
        Ok(false)
    }

    fn expect(&mut self, byte: u8, what: &str) -> SqlResult<()> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected(what));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> SqlResult<String> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        let mut plain = self.at;
        loop {
            match self.peek() {
                None => return Err(self.invalid_token(start)),
                Some(b'"') => break,
                Some(b'\\') => {
                    out.push_str(&self.text[plain..self.at]);
                    self.escape(&mut out, start)?;
                    plain = self.at;
                }
                Some(byte @ 0..32) => {
                    return Err(wrong().detail(format!("Character with value 0x{byte:02x} must be escaped.")));
                }
                Some(_) => self.at += 1,
            }
        }
        out.push_str(&self.text[plain..self.at]);
        self.at += 1;
        Ok(out)
    }

    fn escape(&mut self, out: &mut String, start: usize) -> SqlResult<()> {
        let letter =
            self.text.as_bytes().get(self.at + 1).copied().ok_or_else(|| self.invalid_token(start))?;
        let plain = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(out),
            _ => {
                let shown = self.text[self.at + 1..].chars().next().unwrap_or_default();
                return Err(wrong().detail(format!("Escape sequence \"\\{shown}\" is invalid.")));
            }
        };
        self.at += 2;
        out.push(plain);
        Ok(())
    }

    fn unicode(&mut self, out: &mut String) -> SqlResult<()> {
        let first = self.hex()?;
        let code = match first {
            0xD800..0xDC00 => {
                let low_at = |parser: &Self| parser.text[parser.at..].starts_with("\\u");
                let low = if low_at(self) { self.hex()? } else { 0 };
                if !(0xDC00..0xE000).contains(&low) {
                    return Err(wrong().detail("Unicode low surrogate must follow a high surrogate."));
                }
                0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00)
            }
            0xDC00..0xE000 => {
                return Err(wrong().detail("Unicode low surrogate must follow a high surrogate."));
            }
            0 if !self.is_strict => 0,
            code => u32::from(code_point(code)?),
        };
        out.push(char::from_u32(code).unwrap_or_default());
        Ok(())
    }

    /// The four digits of `\uXXXX`.
    fn hex(&mut self) -> SqlResult<u32> {
        let digits =
            self.text.get(self.at + 2..self.at + 6).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 6;
        code.ok_or_else(|| wrong().detail("\"\\u\" must be followed by four hexadecimal digits."))
    }

    fn number(&mut self) -> SqlResult<String> {
        let start = self.at;
        let digits = |parser: &mut Self| {
            let from = parser.at;
            while matches!(parser.peek(), Some(b'0'..=b'9')) {
                parser.at += 1;
            }
            parser.at - from
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leads_with_zero = self.peek() == Some(b'0');
        let whole = digits(self);
        let mut is_right = whole == 1 || (whole > 1 && !leads_with_zero);
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_right &= digits(self) > 0;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            is_right &= digits(self) > 0;
        }
        // What goes on like a word is no number.
        if !is_right || !self.word().is_empty() {
            return Err(self.invalid_token(start));
        }
        let text = &self.text[start..self.at];
        if self.is_strict { number::canonical(text) } else { Ok(text.into()) }
    }

    /// Letters, digits and whatever else is no punctuation, from here on.
    fn word(&self) -> &str {
        let rest = &self.text[self.at.min(self.text.len())..];
        let ends = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_';
        &rest[..rest.find(ends).unwrap_or(rest.len())]
    }

    fn end(&mut self) -> SqlResult<()> {
        self.blanks();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("end of input")),
        }
    }

    fn unexpected(&self, wanted: &str) -> SqlError {
        let Some(next) = self.text.get(self.at..).and_then(|rest| rest.chars().next()) else {
            return wrong().detail("The input string ended unexpectedly.");
        };
        let word = self.word();
        let is_token = "{}[],:\"".contains(next) || matches!(word, "true" | "false" | "null");
        let shown = if word.is_empty() { next.to_string() } else { word.to_string() };
        match is_token || next.is_ascii_digit() {
            true => wrong().detail(format!("Expected {wanted}, but found \"{shown}\".")),
            false => wrong().detail(format!("Token \"{shown}\" is invalid.")),
        }
    }

    fn invalid_token(&self, start: usize) -> SqlError {
        let end = self.text.len().min(self.at + self.word().len());
        let token = self.text.get(start..end).unwrap_or_default();
        wrong().detail(format!("Token \"{token}\" is invalid."))
    }
}

/// The character of a code. Errors: 22P05 for zero, which no text has; 22P02 for what is no character.
pub(super) fn code_point(code: u32) -> SqlResult<char> {
    match char::from_u32(code) {
        Some('\0') => Err(SqlError::new(SqlState(*b"22P05"), "unsupported Unicode escape sequence")
            .detail("\\u0000 cannot be converted to text.")),
        Some(character) => Ok(character),
        None => Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid Unicode code point")),
    }
}

fn wrong() -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
}
