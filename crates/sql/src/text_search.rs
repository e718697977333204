//! Operators and functions of full-text search: what they take, what they give and how it is computed.
//!
//! One table for rows and columns. Both call [`base::text_search`], so that an expression has one value wherever it is
//! computed.

use base::element::Element;
use base::expr::{Expr, Function};
use base::text_search::{Configuration, Reading, SearchFunction as F};
use base::{DataType, Datum, SqlError};
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

/// What an argument has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Argument {
    Of(DataType),
    /// The name of a configuration.
    Config,
    Texts,
    Numbers,
}

impl Argument {
    /// The type as which it is computed with.
    fn data_type(self) -> DataType {
        let array = |of| DataType::Array(Element::of(of).expect("no array"));
        match self {
            Argument::Of(data_type) => data_type,
            Argument::Config => TEXT,
            Argument::Texts => array(TEXT),
            Argument::Numbers => array(DataType::Real),
        }
    }

    /// Whether a value of a type is one; a literal without a type takes this one.
    fn takes(self, given: Option<DataType>) -> bool {
        let Some(given) = given else { return true };
        let is_number = |t| {
            matches!(
                t,
                DataType::SmallInt
                    | DataType::Integer
                    | DataType::BigInt
                    | DataType::Real
                    | DataType::Double
                    | DataType::Numeric { .. }
            )
        };
        match (self, given) {
            (Argument::Of(TEXT) | Argument::Config, given) => is_text(given),
            (Argument::Of(INTEGER), given) => {
                matches!(given, DataType::SmallInt | DataType::Integer | DataType::BigInt)
            }
            (Argument::Of(wanted), given) => wanted == given,
            (Argument::Texts, DataType::Array(of)) => is_text(of.data_type()),
            (Argument::Numbers, DataType::Array(of)) => is_number(of.data_type()),
            (Argument::Texts | Argument::Numbers, _) => false,
        }
    }
}

fn is_text(data_type: DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. })
}

/// What is done with the arguments before the function takes them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Plain,
    /// The configuration of calls that name none goes in front.
    Default,
    /// A query and a document change their places.
    Turned,
    /// The first one is a text, whose document is taken.
    Document,
    /// Both are texts: a document and the words of a query.
    Texts,
}

/// One of a function's or an operator's forms, for arguments of some types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    arguments: &'static [Argument],
    function: F,
    form: Form,
    returns: DataType,
}

const fn call(arguments: &'static [Argument], function: F, returns: DataType) -> Call {
    Call { arguments, function, form: Form::Plain, returns }
}

const fn formed(form: Form, arguments: &'static [Argument], function: F, returns: DataType) -> Call {
    Call { arguments, function, form, returns }
}

/// Functions by their names.
const FUNCTIONS: &[(&str, &[Call])] = {
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

/// `length` of a document, which texts have, too.
const LENGTH: Call = call(&[Argument::Of(VECTOR)], F::Length, INTEGER);

/// The names of all functions that full-text search has alone.
pub fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

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
    FUNCTIONS.iter().any(|(known, calls)| *known == name && calls.iter().all(|call| call.returns == QUERY))
}

/// A function for arguments of these types, where `None` is a literal without one; `None` if there is none.
pub fn function(name: &str, given: &[Option<DataType>]) -> Option<Call> {
    let calls = match name {
        // A literal is a text.
        "length" if given == [Some(VECTOR)] => return Some(LENGTH),
        name => FUNCTIONS.iter().find(|(known, _)| *known == name)?.1,
    };
    calls.iter().find(|call| call.fits(given)).copied()
}

/// What every function of this name gives, for all its arguments.
pub fn returned(name: &str) -> Option<DataType> {
    let (_, calls) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    Some(calls.first()?.returns())
}

/// An operator of two sides of these types; `None` if it is not one of full-text search.
pub fn operator(op: &BinaryOperator, left: Option<DataType>, right: Option<DataType>) -> Option<Call> {
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
    let calls = match op {
        // Of a literal and a query the literal is a text.
        B::AtAt if left.is_none() && right == Some(QUERY) => &matches[2..3],
        B::AtAt if is_ours(left) || is_ours(right) => &matches[..3],
        B::AtAt if given.iter().all(|t| t.is_none_or(is_text)) => &matches[3..],
        B::StringConcat if is_ours(left) || is_ours(right) => &joins[..2],
        B::PGOverlap if is_ours(left) || is_ours(right) => &joins[2..3],
        B::LtDashGt if is_ours(left) || is_ours(right) => &joins[3..],
        _ => return None,
    };
    calls.iter().find(|call| call.fits(&given)).copied()
}

impl Call {
    fn fits(&self, given: &[Option<DataType>]) -> bool {
        let mut each = self.arguments.iter().zip(given);
        self.arguments.len() == given.len() && each.all(|(argument, given)| argument.takes(*given))
    }

    /// The types that the arguments are taken for.
    pub fn wanted(&self) -> Vec<DataType> {
        self.arguments.iter().map(|argument| argument.data_type()).collect()
    }

    /// The type of what it gives.
    pub fn returns(&self) -> DataType {
        match self.function {
            F::Words => Argument::Texts.data_type(),
            _ => self.returns,
        }
    }

    /// The call over arguments that have the types that are wanted.
    pub fn over(&self, mut arguments: Vec<Expr>) -> Expr {
        let config = || Expr::Constant(Datum::text(Configuration::DEFAULT.name()));
        let search = |function, arguments| Expr::Call(Function::Search(function), arguments);
        match self.form {
            Form::Plain => {}
            Form::Default => arguments.insert(0, config()),
            Form::Turned => arguments.reverse(),
            Form::Document | Form::Texts => {
                let right = arguments.pop();
                let document = search(F::ToVector, [vec![config()], arguments].concat());
                let query = right.map(|right| match self.form {
                    Form::Texts => search(F::ToQuery(Reading::Plain), vec![config(), right]),
                    _ => right,
                });
                arguments = std::iter::once(document).chain(query).collect();
            }
        }
        search(self.function, arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let deleted = function("ts_delete", &[Some(VECTOR), Some(Argument::Texts.data_type())]).unwrap();
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
