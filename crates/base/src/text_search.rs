//! Full-text search: documents (`tsvector`), queries (`tsquery`), how texts become them and how they meet.
//!
//! Both are kept as their canonical texts; what is computed of them is computed here, for rows and for columns.

mod english;
mod functions;
mod matching;
mod parser;
mod query;
mod rank;
mod vector;
mod web;
mod words;

pub use functions::{Reading, SearchFunction, call};
pub use query::Query;
pub use vector::{Vector, Weight};

use crate::error::{SqlError, SqlResult, SqlState};
use serde::{Deserialize, Serialize};

/// How the words of a text become those of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Configuration {
    /// Each in lower case.
    Simple,
    /// Without those that say nothing, by their stems.
    English,
}

/// Configurations that PostgreSQL has and that are missing here.
const MISSING: &str = "arabic armenian basque catalan danish dutch finnish french german greek hindi hungarian \
    indonesian irish italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish tamil \
    turkish yiddish";

impl Configuration {
    /// The configuration of calls that name none.
    pub const DEFAULT: Configuration = Configuration::English;

    /// By its name, which may say its schema. Errors: 0A000 for languages that are missing; 42704.
    pub fn named(name: &str) -> SqlResult<Configuration> {
        let word = name.strip_prefix("pg_catalog.").unwrap_or(name);
        match word.to_lowercase().as_str() {
            "simple" => Ok(Configuration::Simple),
            "english" => Ok(Configuration::English),
            missing if MISSING.split(' ').any(|word| word == missing) => {
                Err(SqlError::unsupported(format!("text search configuration \"{missing}\""))
                    .hint("There are \"english\" and \"simple\"."))
            }
            _ => Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("text search configuration \"{name}\" does not exist"),
            )),
        }
    }

    /// Its name without its schema.
    pub fn name(self) -> &'static str {
        match self {
            Configuration::Simple => "simple",
            Configuration::English => "english",
        }
    }

    /// What a document keeps of a word; `None` for one that it leaves out.
    fn normal(self, lexeme: parser::Lexeme<'_>) -> Option<String> {
        let lower = lexeme.text.to_lowercase();
        match self {
            Configuration::English if lexeme.is_word => {
                (!english::is_stop_word(&lower)).then(|| english::stem(&lower))
            }
            _ => Some(lower),
        }
    }

    /// The words of texts behind each other with the places where they stand; a word that is left out has a place, too.
    fn words<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = (String, u16)> {
        let lexemes = texts.into_iter().flat_map(parser::lexemes).enumerate();
        lexemes.filter_map(move |(n, lexeme)| {
            let at = u16::try_from(n + 1).unwrap_or(vector::LAST_PLACE).min(vector::LAST_PLACE);
            // A word that is too long is not found, but it has its place.
            self.normal(lexeme).filter(|word| word.len() <= vector::WORD_BYTES_MAX).map(|word| (word, at))
        })
    }

    /// A text as a document. Errors: 54000 for one of too many words.
    pub fn vector(self, text: &str) -> SqlResult<Vector> {
        self.vector_of([text])
    }

    /// Texts behind each other as one document. Errors: 54000.
    pub fn vector_of<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> SqlResult<Vector> {
        Vector::of_words(self.words(texts))
    }
}
