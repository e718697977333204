//! Operators and functions of full-text search: their part of the table of [`calls`]. They are computed by
//! [`base::text_search`].

use crate::calls::{self, Argument, Call, Form, is_text};
use base::expr::Function;
use base::text_search::{Reading, SearchFunction as F};
use base::{DataType, SqlError};
use sqlparser::ast::BinaryOperator;

const TEXT: DataType = DataType::Text;
const VECTOR: DataType = DataType::TsVector;
const QUERY: DataType = DataType::TsQuery;
const INTEGER: DataType = DataType::Integer;

/// What the setting `default_text_search_config` says.
pub const DEFAULT_CONFIG: &str = "pg_catalog.english";

/// Functions that PostgreSQL has beside those here.
const MISSING: [&str; 10] = [
    "ts_headline",
    "ts_rank_cd",
    "ts_rewrite",
    "ts_lexize",
    "ts_parse",
    "ts_debug",
    "ts_stat",
    "ts_token_type",
    "json_to_tsvector",
    "jsonb_to_tsvector",
];

/// The function that the operator `!!` is.
pub const NOT: &str = "tsquery_not";

const fn call(arguments: &'static [Argument], function: F, returns: DataType) -> Call {
    calls::plain(arguments, Function::Search(function), returns)
}

const fn formed(form: Form, arguments: &'static [Argument], function: F, returns: DataType) -> Call {
    calls::formed(form, arguments, Function::Search(function), returns)
}

/// Functions by their names.
pub(crate) const FUNCTIONS: &[(&str, &[Call])] = {
    use Argument::{Config, Numbers, Of, Texts};
    const fn reading(reading: Reading) -> [Call; 2] {
        [
            call(&[Config, Of(TEXT)], F::ToQuery(reading), QUERY),
            formed(Form::Default, &[Of(TEXT)], F::ToQuery(reading), QUERY),
        ]
    }
    &[
        (
            "to_tsvector",
            &[
                call(&[Config, Of(TEXT)], F::ToVector, VECTOR),
                formed(Form::Default, &[Of(TEXT)], F::ToVector, VECTOR),
            ],
        ),
        ("to_tsquery", &reading(Reading::Operators)),
        ("plainto_tsquery", &reading(Reading::Plain)),
        ("phraseto_tsquery", &reading(Reading::Phrase)),
        ("websearch_to_tsquery", &reading(Reading::Web)),
        (
            "tsquery_phrase",
            &[
                call(&[Of(QUERY), Of(QUERY)], F::Followed, QUERY),
                call(&[Of(QUERY), Of(QUERY), Of(INTEGER)], F::Followed, QUERY),
            ],
        ),
        (
            "setweight",
            &[
                call(&[Of(VECTOR), Of(TEXT)], F::SetWeight, VECTOR),
                call(&[Of(VECTOR), Of(TEXT), Texts], F::SetWeight, VECTOR),
            ],
        ),
        ("strip", &[call(&[Of(VECTOR)], F::Strip, VECTOR)]),
        // What `!!` stands for.
        (NOT, &[call(&[Of(QUERY)], F::Not, QUERY)]),
        ("numnode", &[call(&[Of(QUERY)], F::Count, INTEGER)]),
        ("querytree", &[call(&[Of(QUERY)], F::Positive, TEXT)]),
        // Of texts: see `Call::returns`.
        ("tsvector_to_array", &[call(&[Of(VECTOR)], F::Words, TEXT)]),
        ("array_to_tsvector", &[call(&[Texts], F::OfWords, VECTOR)]),
        (
            "ts_delete",
            &[
                call(&[Of(VECTOR), Of(TEXT)], F::Delete, VECTOR),
                call(&[Of(VECTOR), Texts], F::Delete, VECTOR),
            ],
        ),
        ("ts_filter", &[call(&[Of(VECTOR), Texts], F::Filter, VECTOR)]),
        (
            "ts_rank",
            &[
                call(&[Of(VECTOR), Of(QUERY)], F::Rank, DataType::Real),
                call(&[Of(VECTOR), Of(QUERY), Of(INTEGER)], F::Rank, DataType::Real),
                call(&[Numbers, Of(VECTOR), Of(QUERY)], F::Rank, DataType::Real),
                call(&[Numbers, Of(VECTOR), Of(QUERY), Of(INTEGER)], F::Rank, DataType::Real),
            ],
        ),
    ]
};

/// Functions that other types have, too.
pub(crate) const SHARED: &[(&str, &[Call])] =
    &[("length", &[call(&[Argument::Of(VECTOR)], F::Length, INTEGER)])];

/// Whether a function has this name that PostgreSQL has and that is missing here.
pub fn is_missing(name: &str) -> bool {
    MISSING.contains(&name)
}

/// The refusal of such a function. 0A000.
pub fn missing(name: &str) -> SqlError {
    let nearest = match name {
        "ts_rank_cd" => "Use ts_rank.",
        "json_to_tsvector" | "jsonb_to_tsvector" => "Use to_tsvector of a text.",
        _ => "There are to_tsvector, to_tsquery, ts_rank and the operators of tsvector and tsquery.",
    };
    SqlError::unsupported(format!("function {name}")).hint(nearest)
}

/// Whether a function makes a query, of which a row of FROM may be made.
pub fn makes_query(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, calls)| *known == name && calls.iter().all(|call| call.returns() == QUERY))
}

/// What an operator of two sides of these types may be; `None` if it is not one of full-text search.
pub(crate) fn operators(
    op: &BinaryOperator,
    left: Option<DataType>,
    right: Option<DataType>,
) -> Option<&'static [Call]> {
    use Argument::Of;
    use BinaryOperator as B;
    const MATCHES: [Call; 4] = [
        call(&[Of(VECTOR), Of(QUERY)], F::Match, DataType::Boolean),
        formed(Form::Turned, &[Of(QUERY), Of(VECTOR)], F::Match, DataType::Boolean),
        formed(Form::Document, &[Of(TEXT), Of(QUERY)], F::Match, DataType::Boolean),
        formed(Form::Texts, &[Of(TEXT), Of(TEXT)], F::Match, DataType::Boolean),
    ];
    const JOINS: [Call; 4] = [
        call(&[Of(VECTOR), Of(VECTOR)], F::Concat, VECTOR),
        call(&[Of(QUERY), Of(QUERY)], F::Or, QUERY),
        call(&[Of(QUERY), Of(QUERY)], F::And, QUERY),
        call(&[Of(QUERY), Of(QUERY)], F::Followed, QUERY),
    ];
    let is_ours = |t: Option<DataType>| matches!(t, Some(VECTOR | QUERY));
    let given = [left, right];
    let (matches, joins): (&'static [Call], &'static [Call]) = (&MATCHES, &JOINS);
    Some(match op {
        // Of a literal and a query the literal is a text.
        B::AtAt if left.is_none() && right == Some(QUERY) => &matches[2..3],
        B::AtAt if is_ours(left) || is_ours(right) => &matches[..3],
        B::AtAt if given.iter().all(|t| t.is_none_or(is_text)) => &matches[3..],
        B::StringConcat if is_ours(left) || is_ours(right) => &joins[..2],
        B::PGOverlap if is_ours(left) || is_ours(right) => &joins[2..3],
        B::LtDashGt if is_ours(left) || is_ours(right) => &joins[3..],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{function, operator};
    use base::element::Element;
    use base::expr::Expr;

    fn computed(call: Call, arguments: &[&str]) -> String {
        let typed = arguments.iter().zip(call.wanted());
        let constants = typed.map(|(text, t)| Expr::Constant(base::text::parse(text, t).unwrap()));
        let value = call.over(constants.collect()).eval(&[]).unwrap();
        base::text::display_as(&value, call.returns())
    }

    #[test]
    fn functions_are_found_by_their_arguments() {
        let made = function("to_tsvector", &[Some(TEXT)]).unwrap();
        assert_eq!(computed(made, &["The fat cats"]), "'cat':3 'fat':2");
        let made = function("to_tsvector", &[None, None]).unwrap();
        assert_eq!(computed(made, &["simple", "The cats"]), "'cats':2 'the':1");
        assert_eq!(function("to_tsvector", &[Some(INTEGER)]), None);
        let texts = DataType::Array(Element::of(TEXT).unwrap());
        let deleted = function("ts_delete", &[Some(VECTOR), Some(texts)]).unwrap();
        assert_eq!(computed(deleted, &["'a':1 'b':2", "{a}"]), "'b':2");
        assert_eq!(function("length", &[Some(VECTOR)]).map(|call| call.returns()), Some(INTEGER));
        assert_eq!(function("length", &[Some(TEXT)]), None);
    }

    #[test]
    fn a_document_meets_a_query_in_either_order() {
        let matches = |left, right, texts: &[&str]| {
            computed(operator(&BinaryOperator::AtAt, left, right).unwrap(), texts)
        };
        assert_eq!(matches(Some(VECTOR), None, &["'cat':1", "cat"]), "t");
        assert_eq!(matches(Some(QUERY), Some(VECTOR), &["dog", "'cat':1"]), "f");
        assert_eq!(matches(None, Some(QUERY), &["fat cats", "cat"]), "t");
        assert_eq!(matches(Some(TEXT), Some(TEXT), &["a fat cat", "cats fat"]), "t");
        assert_eq!(operator(&BinaryOperator::StringConcat, Some(TEXT), None), None);
        assert_eq!(operator(&BinaryOperator::AtAt, Some(DataType::Jsonb), None), None);
    }
}
