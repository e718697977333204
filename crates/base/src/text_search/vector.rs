//! `tsvector`: a document as its sorted words, each with the places where it stands.

use super::words::{Token, Words};
use crate::error::{SqlError, SqlResult, SqlState};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

/// Bytes that a word may have.
pub(super) const WORD_BYTES_MAX: usize = 2_046;
/// Bytes that the words of a vector may have together.
const WORDS_BYTES_MAX: usize = 1 << 20;
/// Places that a vector keeps of a word.
const PLACES_MAX: usize = 256;
/// The last place; later ones are taken for it.
pub(super) const LAST_PLACE: u16 = 16_383;

/// How much a place counts. The order is that of their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    D,
    C,
    B,
    A,
}

impl Weight {
    /// Reads a letter of either case.
    pub fn of(letter: char) -> Option<Weight> {
        Some(match letter.to_ascii_uppercase() {
            'A' => Weight::A,
            'B' => Weight::B,
            'C' => Weight::C,
            'D' => Weight::D,
            _ => return None,
        })
    }

    /// 0 for D to 3 for A.
    pub fn rank(self) -> usize {
        self as usize
    }
}

/// A place where a word stands in a document, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub at: u16,
    pub weight: Weight,
}

/// A document as its words, in the order of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vector {
    words: BTreeMap<String, Vec<Place>>,
}

impl Vector {
    /// Reads the text of a vector. Errors: 42601; 54000 for words that are too long.
    pub fn parse(text: &str) -> SqlResult<Vector> {
        let mut words = Words::of_vector(text);
        let mut vector = Vector::default();
        while let Some(Token { word, places }) = words.token()? {
            vector.add(word, places)?;
        }
        vector.fitted()
    }

    /// Reads the text that a stored vector has, which is one of a vector.
    pub fn stored(text: &str) -> Vector {
        Vector::parse(text).unwrap_or_default()
    }

    /// Words with their places, in any order. Errors: 54000.
    pub fn of_words(words: impl IntoIterator<Item = (String, u16)>) -> SqlResult<Vector> {
        let mut vector = Vector::default();
        for (word, at) in words {
            vector.words.entry(word).or_default().push(Place { at, weight: Weight::D });
        }
        vector.fitted()
    }

    /// Words without places. Errors: 54000.
    pub fn of_bare_words(words: Vec<String>) -> SqlResult<Vector> {
        let mut vector = Vector::default();
        for word in words {
            vector.add(word, Vec::new())?;
        }
        vector.fitted()
    }

    fn add(&mut self, word: String, places: Vec<Place>) -> SqlResult<()> {
        if word.len() > WORD_BYTES_MAX {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("word is too long ({} bytes, max {WORD_BYTES_MAX} bytes)", word.len()),
            ));
        }
        self.words.entry(word).or_default().extend(places);
        Ok(())
    }

    /// Puts places in order, each once and with its greatest weight. Errors: 54000.
    fn fitted(mut self) -> SqlResult<Vector> {
        self.words.values_mut().for_each(settle);
        let bytes: usize = self.words.keys().map(String::len).sum();
        if bytes > WORDS_BYTES_MAX {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("string is too long for tsvector ({bytes} bytes, max {WORDS_BYTES_MAX} bytes)"),
            ));
        }
        Ok(self)
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words in order, with their places.
    pub fn words(&self) -> impl Iterator<Item = (&str, &[Place])> {
        self.words.iter().map(|(word, places)| (word.as_str(), places.as_slice()))
    }

    /// A word's places; `None` if the document does not have it.
    pub fn places(&self, word: &str) -> Option<&[Place]> {
        self.words.get(word).map(Vec::as_slice)
    }

    /// Words that begin with something, with their places.
    pub fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a [Place]> {
        let from = self.words.range::<str, _>((Bound::Included(start), Bound::Unbounded));
        from.take_while(move |(word, _)| word.starts_with(start)).map(|(_, places)| places.as_slice())
    }

    /// The document followed by another one, whose places count from this one's end. Errors: 54000.
    pub fn followed_by(mut self, other: &Vector) -> SqlResult<Vector> {
        let end = self.words.values().flatten().map(|place| place.at).max().unwrap_or(0);
        for (word, places) in other.words() {
            let later = places.iter().map(|place| Place {
                at: place.at.saturating_add(end).min(LAST_PLACE),
                weight: place.weight,
            });
            self.words.entry(word.to_string()).or_default().extend(later);
        }
        self.fitted()
    }

    /// Gives places a weight: of all words, or of those that are named.
    pub fn weighed(mut self, weight: Weight, only: Option<&[String]>) -> Vector {
        for (word, places) in &mut self.words {
            if only.is_none_or(|only| only.contains(word)) {
                places.iter_mut().for_each(|place| place.weight = weight);
            }
        }
        self
    }

    /// The words alone.
    pub fn stripped(mut self) -> Vector {
        self.words.values_mut().for_each(Vec::clear);
        self
    }

    /// The document without some words.
    pub fn without(mut self, words: &[String]) -> Vector {
        words.iter().for_each(|word| drop(self.words.remove(word)));
        self
    }

    /// What is left of places with one of these weights; words without places go.
    pub fn only(mut self, weights: &[Weight]) -> Vector {
        self.words.values_mut().for_each(|places| places.retain(|place| weights.contains(&place.weight)));
        self.words.retain(|_, places| !places.is_empty());
        self
    }
}

/// Places in order, each once, no more than a vector keeps.
fn settle(places: &mut Vec<Place>) {
    places.sort_by_key(|place| (place.at, std::cmp::Reverse(place.weight)));
    places.dedup_by_key(|place| place.at);
    places.truncate(PLACES_MAX);
}

/// A word between quotes, as vectors and queries show it.
pub(super) fn write_word(f: &mut fmt::Formatter<'_>, word: &str) -> fmt::Result {
    use fmt::Write;
    f.write_char('\'')?;
    for c in word.chars() {
        if matches!(c, '\'' | '\\') {
            f.write_char(c)?;
        }
        f.write_char(c)?;
    }
    f.write_char('\'')
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (word, places)) in self.words().enumerate() {
            if n > 0 {
                f.write_str(" ")?;
            }
            write_word(f, word)?;
            for (n, place) in places.iter().enumerate() {
                f.write_str(if n == 0 { ":" } else { "," })?;
                write!(f, "{}", place.at)?;
                if place.weight != Weight::D {
                    write!(f, "{:?}", place.weight)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Vector::parse(text).unwrap().to_string()
    }

    #[test]
    fn words_are_sorted_and_stand_once() {
        assert_eq!(shown("b a  b:3 a:2B,1,2 'it''s' \\'x"), "'''x' 'a':1,2B 'b':3 'it''s'");
        assert_eq!(shown(""), "");
        assert_eq!(shown("a:20000"), "'a':16383");
        assert_eq!(shown(r"'a\\b' 'x y':4*"), r"'a\\b' 'x y':4A");
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        for text in ["'", "''", "a:x", "a:1,", "a:1AA", "\\", "a:0"] {
            assert_eq!(Vector::parse(text).unwrap_err().state, SqlState::SYNTAX_ERROR, "{text}");
        }
        let long = "x".repeat(WORD_BYTES_MAX + 1);
        assert_eq!(Vector::parse(&long).unwrap_err().state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    }

    #[test]
    fn documents_follow_each_other() {
        let both = Vector::parse("a:1 b:2").unwrap().followed_by(&Vector::parse("c:1 d:2 b:3").unwrap());
        assert_eq!(both.unwrap().to_string(), "'a':1 'b':2,5 'c':3 'd':4");
        assert_eq!(Vector::parse("a:1,2B b").unwrap().stripped().to_string(), "'a' 'b'");
    }
}
