//! Functions and operators of full-text search over values: documents and queries are their texts.

use super::query::{self, Node, Operator, Query, Term};
use super::rank::{self, rank};
use super::vector::{Vector, Weight};
use super::{Configuration, matching, web};
use crate::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use serde::{Deserialize, Serialize};

/// How a text is read as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reading {
    /// `to_tsquery`: with operators.
    Operators,
    /// `plainto_tsquery`: all of its words.
    Plain,
    /// `phraseto_tsquery`: its words behind each other.
    Phrase,
    /// `websearch_to_tsquery`: as people write into a search field.
    Web,
}

/// What is computed of documents and queries. The name of a configuration is a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SearchFunction {
    /// `to_tsvector(configuration, text)`
    ToVector,
    /// A configuration and a text to a query.
    ToQuery(Reading),
    /// `document @@ query`
    Match,
    /// `document || document`
    Concat,
    /// `query && query`
    And,
    /// `query || query`
    Or,
    /// `!! query`
    Not,
    /// `query <-> query`, or with a distance behind them.
    Followed,
    /// `setweight(document, weight [, words])`
    SetWeight,
    /// `strip(document)`
    Strip,
    /// How many words a document has.
    Length,
    /// How many words and operators a query has.
    Count,
    /// `querytree(query)`
    Positive,
    /// The words of a document, an array.
    Words,
    /// A document of an array of words.
    OfWords,
    /// A document without a word, or without an array of them.
    Delete,
    /// A document with places of some weights alone.
    Filter,
    /// `ts_rank`: of the weights, if they are given, a document, a query, and how the rank is divided.
    Rank,
}

/// Computes a function of arguments of which none is NULL; of one that is, it is NULL. Errors: those of texts that are no
/// documents or queries, 42704 and 0A000 for configurations, 22023.
pub fn call(function: SearchFunction, arguments: &[Datum]) -> SqlResult<Datum> {
    use SearchFunction as F;
    if arguments.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    Ok(match (function, arguments) {
        (F::ToVector, [Datum::Text(name), Datum::Text(text)]) => {
            datum(&Configuration::named(name)?.vector(text)?)
        }
        (F::ToQuery(reading), [Datum::Text(name), Datum::Text(text)]) => {
            datum(&Configuration::named(name)?.query(reading, text)?)
        }
        (F::Match, [Datum::Text(vector), Datum::Text(query)]) => {
            Datum::Bool(matching::matches(&Vector::stored(vector), &Query::stored(query)))
        }
        (F::And | F::Or | F::Not | F::Followed | F::Count | F::Positive, [Datum::Text(query), rest @ ..]) => {
            of_query(function, Query::stored(query), rest)?
        }
        (F::Rank, arguments) => ranked(arguments)?,
        (F::OfWords, [Datum::Array(words)]) => datum(&Vector::of_bare_words(words_of(words)?)?),
        (_, [Datum::Text(vector), rest @ ..]) => of_vector(function, Vector::stored(vector), rest)?,
        (function, arguments) => return Err(misfit(function, arguments)),
    })
}

fn misfit(function: SearchFunction, arguments: &[Datum]) -> SqlError {
    let kinds: Vec<&str> = arguments.iter().map(Datum::kind).collect();
    SqlError::internal(format!("{function:?} of {}", kinds.join(", ")))
}

/// A document or a query as it is kept.
fn datum(value: &impl ToString) -> Datum {
    Datum::text(value.to_string())
}

fn of_query(function: SearchFunction, query: Query, rest: &[Datum]) -> SqlResult<Datum> {
    use SearchFunction as F;
    let other = |datum: &Datum| Query::stored(datum.str());
    Ok(match (function, rest) {
        (F::And, [b @ Datum::Text(_)]) => datum(&query.joined(Operator::And, other(b))?),
        (F::Or, [b @ Datum::Text(_)]) => datum(&query.joined(Operator::Or, other(b))?),
        (F::Not, []) => datum(&query.negated()?),
        (F::Followed, [b @ Datum::Text(_)]) => datum(&query.joined(Operator::Phrase(1), other(b))?),
        (F::Followed, [b @ Datum::Text(_), Datum::Int(distance)]) => {
            datum(&query.joined(Operator::Phrase(query::within(*distance)?), other(b))?)
        }
        (F::Count, []) => Datum::Int(query.count() as i64),
        (F::Positive, []) => Datum::text(query.positive()),
        (function, rest) => return Err(misfit(function, rest)),
    })
}

fn of_vector(function: SearchFunction, vector: Vector, rest: &[Datum]) -> SqlResult<Datum> {
    use SearchFunction as F;
    Ok(match (function, rest) {
        (F::Concat, [Datum::Text(other)]) => datum(&vector.followed_by(&Vector::stored(other))?),
        (F::SetWeight, [Datum::Text(weight)]) => datum(&vector.weighed(weight_of(weight)?, None)),
        (F::SetWeight, [Datum::Text(weight), Datum::Array(words)]) => {
            datum(&vector.weighed(weight_of(weight)?, Some(&present(words))))
        }
        (F::Strip, []) => datum(&vector.stripped()),
        (F::Length, []) => Datum::Int(vector.len() as i64),
        (F::Words, []) => Datum::Array(vector.words().map(|(word, _)| Datum::text(word)).collect()),
        (F::Delete, [Datum::Text(word)]) => datum(&vector.without(&[word.to_string()])),
        (F::Delete, [Datum::Array(words)]) => datum(&vector.without(&present(words))),
        (F::Filter, [Datum::Array(weights)]) => {
            let weights = present(weights);
            let weights: SqlResult<Vec<Weight>> = weights.iter().map(|weight| weight_of(weight)).collect();
            datum(&vector.only(&weights?))
        }
        (function, rest) => return Err(misfit(function, rest)),
    })
}

/// The texts of an array that are there.
fn present(array: &[Datum]) -> Vec<String> {
    let text = |datum: &Datum| match datum {
        Datum::Text(text) => Some(text.to_string()),
        _ => None,
    };
    array.iter().filter_map(text).collect()
}

/// The words of an array. Errors: 22004, 2200F.
fn words_of(array: &[Datum]) -> SqlResult<Vec<String>> {
    let words = present(array);
    if words.len() < array.len() {
        return Err(SqlError::new(SqlState(*b"22004"), "lexeme array may not contain nulls"));
    }
    if words.iter().any(String::is_empty) {
        return Err(SqlError::new(SqlState(*b"2200F"), "lexeme array may not contain empty strings"));
    }
    Ok(words)
}

/// Errors: 22023.
fn weight_of(text: &str) -> SqlResult<Weight> {
    let letter = text.chars().next();
    letter.and_then(Weight::of).ok_or_else(|| {
        let message = format!("unrecognized weight: \"{}\"", letter.map(String::from).unwrap_or_default());
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}

fn ranked(arguments: &[Datum]) -> SqlResult<Datum> {
    let (weights, rest) = match arguments {
        [Datum::Array(weights), rest @ ..] => (weights_of(weights)?, rest),
        rest => (rank::WEIGHTS, rest),
    };
    let (vector, query, norms) = match rest {
        [Datum::Text(vector), Datum::Text(query)] => (vector, query, 0),
        [Datum::Text(vector), Datum::Text(query), Datum::Int(norms)] => (vector, query, *norms),
        rest => return Err(misfit(SearchFunction::Rank, rest)),
    };
    let ranked = rank(weights, &Vector::stored(vector), &Query::stored(query), norms);
    Ok(Datum::Float(f64::from(ranked)))
}

/// What places of weight D, C, B and A count. Errors: 2202E, 22004, 22023.
fn weights_of(array: &[Datum]) -> SqlResult<[f32; 4]> {
    let mut weights = rank::WEIGHTS;
    if array.len() < weights.len() {
        return Err(SqlError::new(SqlState(*b"2202E"), "array of weight is too short"));
    }
    for (weight, given) in weights.iter_mut().zip(array) {
        let given = given
            .as_f64()
            .ok_or_else(|| SqlError::new(SqlState(*b"22004"), "array of weight must not contain nulls"))?;
        if given > 1.0 {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "weight out of range"));
        }
        // Below nothing is what it is without an array.
        if given >= 0.0 {
            *weight = given as f32;
        }
    }
    Ok(weights)
}

impl Configuration {
    /// A text as a query. Errors: 42601 of a text that is none, 22023, 54001.
    pub fn query(self, reading: Reading, text: &str) -> SqlResult<Query> {
        match reading {
            Reading::Operators => Query::read(text, &mut |word, weights, is_prefix| {
                self.node(Operator::Phrase(1), &word, &weights, is_prefix)
            }),
            Reading::Plain => Query::of(Some(self.node(Operator::And, text, &[], false)?)),
            Reading::Phrase => Query::of(Some(self.node(Operator::Phrase(1), text, &[], false)?)),
            Reading::Web => web::read(text, &mut |word| self.node(Operator::Phrase(1), word, &[], false)),
        }
    }

    /// The words of a text joined by an operator. Places of words that are left out are kept, but for the first ones and the
    /// last ones.
    fn node(self, operator: Operator, text: &str, weights: &[Weight], is_prefix: bool) -> SqlResult<Node> {
        let (mut parts, mut last): (Vec<Node>, u16) = (Vec::new(), 0);
        for (word, at) in self.words([text]) {
            if last > 0 {
                parts.extend((last + 1..at).map(|_| Node::Stop));
            }
            last = at;
            parts.push(Node::Term(Term { word, weights: weights.to_vec(), is_prefix }));
        }
        Node::row(operator, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(function: SearchFunction, arguments: &[&str]) -> String {
        let arguments: Vec<Datum> = arguments.iter().map(|text| Datum::text(*text)).collect();
        match call(function, &arguments).unwrap() {
            Datum::Text(text) => text.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_text_becomes_a_document() {
        let made = |name, text| computed(SearchFunction::ToVector, &[name, text]);
        assert_eq!(made("english", "The Fat Rats sat"), "'fat':2 'rat':3 'sat':4");
        assert_eq!(made("pg_catalog.simple", "The fat rats"), "'fat':2 'rats':3 'the':1");
        let missing = call(SearchFunction::ToVector, &[Datum::text("german"), Datum::text("x")]);
        assert_eq!(missing.unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
        let unknown = call(SearchFunction::ToVector, &[Datum::text("klingon"), Datum::text("x")]);
        assert_eq!(unknown.unwrap_err().state, SqlState::UNDEFINED_OBJECT);
    }

    #[test]
    fn a_text_becomes_a_query() {
        let made = |reading, text| computed(SearchFunction::ToQuery(reading), &["english", text]);
        assert_eq!(made(Reading::Operators, "The & Fat:a* & rats"), "'fat':*A & 'rat'");
        assert_eq!(
            made(Reading::Operators, "'supernovae stars' & !crab"),
            "'supernova' <-> 'star' & !'crab'"
        );
        assert_eq!(made(Reading::Plain, "The Fat Rats"), "'fat' & 'rat'");
        assert_eq!(made(Reading::Phrase, "The cat and rats"), "'cat' <2> 'rat'");
        let web = "\"supernovae stars\" -crab or the moon";
        assert_eq!(made(Reading::Web, web), "'supernova' <-> 'star' & !'crab' | 'moon'");
        assert_eq!(made(Reading::Web, "\"\" )("), "");
    }

    #[test]
    fn documents_and_queries_are_joined() {
        assert_eq!(computed(SearchFunction::Concat, &["'a':1", "'a':1 'b':2"]), "'a':1,2 'b':3");
        assert_eq!(computed(SearchFunction::Or, &["'a' & 'b'", "'c'"]), "'a' & 'b' | 'c'");
        assert_eq!(computed(SearchFunction::And, &["'a' | 'b'", "'c'"]), "( 'a' | 'b' ) & 'c'");
        assert_eq!(computed(SearchFunction::Not, &["'a' | 'b'"]), "!( 'a' | 'b' )");
        assert_eq!(computed(SearchFunction::Followed, &["'a'", "'b'"]), "'a' <-> 'b'");
        assert_eq!(computed(SearchFunction::SetWeight, &["'a':1,2B 'b'", "A"]), "'a':1A,2A 'b'");
        assert_eq!(call(SearchFunction::Strip, &[Datum::Null]), Ok(Datum::Null));
    }
}
