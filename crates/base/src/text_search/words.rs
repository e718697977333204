//! How the texts of `tsvector` and `tsquery` write words: bare, between quotes, with escapes, with places.

use super::vector::{LAST_PLACE, Place, Weight};
use crate::error::{SqlError, SqlResult, SqlState};

/// A word with its places.
#[derive(Debug, PartialEq)]
pub(super) struct Token {
    pub word: String,
    pub places: Vec<Place>,
}

/// What the words stand in.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Vector,
    Query,
    /// What people write into a search field: quotes and backslashes are characters like others.
    Web,
}

/// The words of a text.
pub(super) struct Words<'a> {
    all: &'a str,
    rest: &'a str,
    inside: Inside,
}

/// Characters that are operators of queries.
pub(super) fn is_operator(c: char) -> bool {
    matches!(c, '!' | '&' | '|' | '(' | ')')
}

/// An error of a text that is no vector or query. 42601.
pub(super) fn syntax_error(message: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("{message}: \"{text}\""))
}

impl<'a> Words<'a> {
    pub fn of_vector(text: &'a str) -> Words<'a> {
        Words { all: text, rest: text, inside: Inside::Vector }
    }

    /// From some place of a query's text on.
    pub fn of_query(text: &'a str, rest: &'a str) -> Words<'a> {
        Words { all: text, rest, inside: Inside::Query }
    }

    /// From some place of a search field's text on.
    pub fn of_web(text: &'a str, rest: &'a str) -> Words<'a> {
        Words { all: text, rest, inside: Inside::Web }
    }

    /// What comes after the words that were read.
    pub fn rest(&self) -> &'a str {
        self.rest
    }

    fn error(&self) -> SqlError {
        let kind = if self.inside == Inside::Vector { "tsvector" } else { "tsquery" };
        syntax_error(&format!("syntax error in {kind}"), self.all)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn escaped(&mut self) -> SqlResult<char> {
        self.advance().ok_or_else(|| syntax_error("there is no escaped character", self.all))
    }

    /// The next word; `None` at the end. Errors: 42601.
    pub fn token(&mut self) -> SqlResult<Option<Token>> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.peek() else { return Ok(None) };
        if first == '\'' && self.inside != Inside::Web {
            self.advance();
            let word = self.quoted()?;
            let places = match self.inside {
                Inside::Vector if self.peek() == Some(':') => {
                    self.advance();
                    self.places()?
                }
                _ => Vec::new(),
            };
            return Ok(Some(Token { word, places }));
        }
        if self.inside == Inside::Query && (is_operator(first) || first == '<') {
            return Err(self.error());
        }
        self.bare().map(Some)
    }

    fn quoted(&mut self) -> SqlResult<String> {
        let mut word = String::new();
        loop {
            match self.advance() {
                None => return Err(self.error()),
                Some('\\') => word.push(self.escaped()?),
                Some('\'') if self.peek() == Some('\'') => {
                    self.advance();
                    word.push('\'');
                }
                Some('\'') if word.is_empty() => return Err(self.error()),
                Some('\'') => return Ok(word),
                Some(c) => word.push(c),
            }
        }
    }

    fn bare(&mut self) -> SqlResult<Token> {
        let mut word = String::new();
        // Every first character belongs to the word.
        let mut is_first = true;
        while let Some(c) = self.peek() {
            match c {
                '\\' if self.inside != Inside::Web => {
                    self.advance();
                    word.push(self.escaped()?);
                    is_first = false;
                    continue;
                }
                _ if is_first => {}
                ':' if self.inside != Inside::Vector => break,
                ':' => {
                    self.advance();
                    let places = self.places()?;
                    return Ok(Token { word, places });
                }
                c if c.is_whitespace() => break,
                c if self.inside != Inside::Vector && (is_operator(c) || c == '<') => break,
                '"' if self.inside == Inside::Web => break,
                _ => {}
            }
            word.push(c);
            self.advance();
            is_first = false;
        }
        Ok(Token { word, places: Vec::new() })
    }

    /// Places behind a colon: `1,2B`.
    fn places(&mut self) -> SqlResult<Vec<Place>> {
        let mut places = Vec::new();
        loop {
            let digits = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if digits == 0 {
                return Err(self.error());
            }
            let at = self.rest[..digits].parse::<u32>().unwrap_or(u32::MAX);
            self.rest = &self.rest[digits..];
            if at == 0 {
                return Err(syntax_error("wrong position info in tsvector", self.all));
            }
            let at = u16::try_from(at).unwrap_or(LAST_PLACE).min(LAST_PLACE);
            let mut place = Place { at, weight: Weight::D };
            let weight = self.peek().and_then(|c| if c == '*' { Some(Weight::A) } else { Weight::of(c) });
            if let Some(weight) = weight {
                place.weight = weight;
                self.advance();
            }
            places.push(place);
            match self.peek() {
                Some(',') => drop(self.advance()),
                Some(c) if !c.is_whitespace() => return Err(self.error()),
                _ => return Ok(places),
            }
        }
    }
}
