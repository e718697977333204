//! Operators and functions of `json` and `jsonb`: what they take, what they give and how it is computed.
//!
//! One table for rows and columns. Both call [`base::json`], so that an expression has one value wherever it is computed.

use base::element::Element;
use base::expr::{Expr, Function};
use base::json::{JsonFunction as F, PathFunction as P};
use base::{DataType, Datum};
use sqlparser::ast::{self, BinaryOperator};
use std::sync::Arc;

const JSON: DataType = DataType::Json;
const JSONB: DataType = DataType::Jsonb;
const TEXT: DataType = DataType::Text;

/// The function of rows alone.
pub const ROW_TO_JSON: &str = "row_to_json";
/// `to_json` for `json_agg`, which begins a new line for each row and each array.
pub const LINE: &str = "json_meridian_line";
/// `row_to_json` of a record that is written as its names and values.
pub const RECORD: &str = "json_meridian_record";

/// The type of paths as a function of texts: what it gives is a text, as PostgreSQL shows the path.
pub const JSONPATH: &str = "jsonpath";

/// Whether a type is that of paths.
pub fn is_path(data_type: &ast::DataType) -> bool {
    let ast::DataType::Custom(name, _) = data_type else { return false };
    crate::names::parts(name).is_ok_and(|parts| match parts.as_slice() {
        [word] => word == JSONPATH,
        [schema, word] => schema == "pg_catalog" && word == JSONPATH,
        _ => false,
    })
}

/// An array of texts: a path, or several keys.
pub fn texts() -> DataType {
    array(TEXT)
}

fn array(of: DataType) -> DataType {
    DataType::Array(Element::of(of).expect("no array"))
}

/// An operator between two types, with the types that it takes its sides for, and its result's.
pub struct Operator {
    pub function: F,
    pub left: DataType,
    pub right: DataType,
    pub returns: DataType,
}

/// The operator of JSON for two sides of which one has a type of its own; `None` if there is none.
pub fn operator(op: &BinaryOperator, left: Option<DataType>, right: Option<DataType>) -> Option<Operator> {
    use BinaryOperator as B;
    let is_integer = matches!(right, Some(DataType::SmallInt | DataType::Integer | DataType::BigInt));
    let is_json = |t: Option<DataType>| matches!(t, Some(JSON | JSONB));
    let key = if is_integer { DataType::Integer } else { TEXT };
    // Of a literal and a jsonb each operator takes two of them.
    let left = match (left, right) {
        (None, Some(JSONB)) if matches!(op, B::AtArrow | B::ArrowAt | B::StringConcat) => JSONB,
        (left, _) if is_json(left) => left?,
        _ => return None,
    };
    let (function, wanted, returns) = match op {
        B::Arrow => (F::Get, key, left),
        B::LongArrow => (F::GetText, key, TEXT),
        B::HashArrow => (F::Path, texts(), left),
        B::HashLongArrow => (F::PathText, texts(), TEXT),
        _ if left == JSON => return None,
        B::AtArrow => (F::Contains, JSONB, DataType::Boolean),
        B::ArrowAt => (F::IsContained, JSONB, DataType::Boolean),
        B::Question => (F::HasKey, TEXT, DataType::Boolean),
        B::QuestionPipe => (F::HasAny, texts(), DataType::Boolean),
        B::QuestionAnd => (F::HasAll, texts(), DataType::Boolean),
        B::AtQuestion => (F::JsonPath(P::Exists), TEXT, DataType::Boolean),
        B::AtAt => (F::JsonPath(P::Match), TEXT, DataType::Boolean),
        B::StringConcat => (F::Concat, JSONB, JSONB),
        B::HashMinus => (F::DeletePath, texts(), JSONB),
        B::Minus => match right {
            Some(DataType::Array(_)) => (F::Delete, texts(), JSONB),
            _ => (F::Delete, key, JSONB),
        },
        _ => return None,
    };
    let fits = match (right, wanted) {
        (None, _) => true,
        (Some(_), DataType::Integer) => true,
        (Some(DataType::Text | DataType::Varchar { .. } | DataType::Char { .. }), TEXT) => true,
        (Some(right), wanted) => right == wanted,
    };
    fits.then_some(Operator { function, left, right: wanted, returns })
}

/// A function: what its arguments are, and what it gives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// Of these types, of which the last ones may be left out for what stands here.
    Fixed(F, &'static [Argument], &'static [Default]),
    ToJson,
    Array,
    Object,
    /// An object as `row_to_json` writes it.
    Record,
    /// Of a value and any number of keys.
    Path(F),
    /// Of arrays.
    Gather(F),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Argument {
    /// The type that the function's name begins with.
    Own,
    Text,
    Texts,
    Boolean,
}

/// What stands for an argument that was left out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Default {
    Truth(bool),
    EmptyObject,
    NoArray,
}

impl Default {
    fn value(self) -> Datum {
        match self {
            Default::Truth(truth) => Datum::Bool(truth),
            Default::EmptyObject => Datum::Json(Arc::from("{}")),
            Default::NoArray => Datum::Bool(false),
        }
    }
}

/// What functions of paths take: a value, a path, variables, and whether errors are silent.
const OF_PATHS: (&[Argument], &[Default]) = (
    &[Argument::Own, Argument::Text, Argument::Own, Argument::Boolean],
    &[Default::EmptyObject, Default::Truth(false)],
);

/// Functions without the type in front of their names.
const FUNCTIONS: &[(&str, Shape, Result)] = {
    use Argument::{Boolean, Own, Text, Texts};
    const fn of_path(function: P) -> Shape {
        Shape::Fixed(F::JsonPath(function), OF_PATHS.0, OF_PATHS.1)
    }
    &[
        ("typeof", Shape::Fixed(F::TypeName, &[Own], &[]), Result::Text),
        ("array_length", Shape::Fixed(F::ArrayLength, &[Own], &[]), Result::Integer),
        ("extract_path", Shape::Path(F::Path), Result::Own),
        ("extract_path_text", Shape::Path(F::PathText), Result::Text),
        ("build_array", Shape::Array, Result::Own),
        ("build_object", Shape::Object, Result::Own),
        ("meridian_record", Shape::Record, Result::Own),
        ("strip_nulls", Shape::Fixed(F::StripNulls, &[Own], &[]), Result::Own),
        ("object", Shape::Fixed(F::ObjectOfTexts, &[Texts, Texts], &[Default::NoArray]), Result::Own),
        // Of jsonb alone.
        ("pretty", Shape::Fixed(F::Pretty, &[Own], &[]), Result::JsonbText),
        ("set", Shape::Fixed(F::Set, &[Own, Texts, Own, Boolean], &[Default::Truth(true)]), Result::Jsonb),
        (
            "insert",
            Shape::Fixed(F::Insert, &[Own, Texts, Own, Boolean], &[Default::Truth(false)]),
            Result::Jsonb,
        ),
        ("path_exists", of_path(P::Exists), Result::JsonbBoolean),
        ("path_match", of_path(P::Match), Result::JsonbBoolean),
        ("path_query_array", of_path(P::QueryArray), Result::Jsonb),
        ("path_query_first", of_path(P::QueryFirst), Result::Jsonb),
        ("meridian_path_query", of_path(P::Query), Result::Jsonbs),
        (JSONPATH, Shape::Fixed(F::JsonPath(P::Canonical), &[Text], &[]), Result::Text),
        // What stands for a set of rows: the array of what they show.
        ("meridian_keys", Shape::Fixed(F::Keys, &[Own], &[]), Result::Texts),
        ("meridian_values", Shape::Fixed(F::Values, &[Own], &[]), Result::Owns),
        ("meridian_values_text", Shape::Fixed(F::ValuesText, &[Own], &[]), Result::Texts),
        ("meridian_elements", Shape::Fixed(F::Elements, &[Own], &[]), Result::Owns),
        ("meridian_elements_text", Shape::Fixed(F::ElementsText, &[Own], &[]), Result::Texts),
        // What aggregates make of the arrays of their values.
        ("meridian_gather", Shape::Gather(F::Gather), Result::Own),
        ("meridian_gather_object", Shape::Gather(F::GatherObject), Result::Own),
    ]
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Result {
    Own,
    Owns,
    Text,
    Texts,
    Integer,
    /// Where the function is one of jsonb alone.
    Jsonb,
    Jsonbs,
    JsonbText,
    JsonbBoolean,
}

impl Result {
    /// `None`: the function is not one of this type.
    fn data_type(self, own: DataType) -> Option<DataType> {
        Some(match self {
            Result::Own => own,
            Result::Owns => array(own),
            Result::Text => TEXT,
            Result::Texts => texts(),
            Result::Integer => DataType::Integer,
            _ if own == JSON => return None,
            Result::Jsonb => JSONB,
            Result::Jsonbs => array(JSONB),
            Result::JsonbText => TEXT,
            Result::JsonbBoolean => DataType::Boolean,
        })
    }
}

/// What an argument has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    Any,
    Of(DataType),
}

/// A function of JSON.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    shape: Shape,
    /// `json` or `jsonb`.
    own: DataType,
    pub returns: DataType,
}

/// The names of all functions.
pub fn names() -> Vec<String> {
    let named = FUNCTIONS.iter().flat_map(|(name, ..)| [format!("json_{name}"), format!("jsonb_{name}")]);
    let of_paths = FUNCTIONS.iter().filter(|(name, ..)| name.starts_with("path_"));
    let with_zones = of_paths.map(|(name, ..)| format!("jsonb_{name}_tz"));
    let others = ["to_json", "to_jsonb", ROW_TO_JSON, LINE, JSONPATH].map(String::from);
    let all = named.chain(with_zones).chain(others);
    all.filter(|name| call(name).is_some()).collect()
}

/// A function by its name.
pub fn call(name: &str) -> Option<Call> {
    let own = match name {
        "to_json" | "to_jsonb" | ROW_TO_JSON | LINE => {
            let own = if name == "to_jsonb" { JSONB } else { JSON };
            return Some(Call { shape: Shape::ToJson, own, returns: own });
        }
        JSONPATH => JSONB,
        name if name.starts_with("jsonb_") => JSONB,
        name if name.starts_with("json_") => JSON,
        _ => return None,
    };
    let rest = match name.split_once('_') {
        // Nothing that paths do here depends on the zone.
        Some((_, rest)) if rest.starts_with("path_") => rest.strip_suffix("_tz").unwrap_or(rest),
        Some((_, rest)) if rest != JSONPATH => rest,
        None if name == JSONPATH => name,
        _ => return None,
    };
    let (_, shape, result) = FUNCTIONS.iter().find(|(name, ..)| *name == rest)?;
    Some(Call { shape: *shape, own, returns: result.data_type(own)? })
}

impl Call {
    /// Whether it may take long, and make far more than its arguments are.
    pub fn is_of_paths(&self) -> bool {
        matches!(self.shape, Shape::Fixed(F::JsonPath(_), ..))
    }

    /// What the n-th of so many arguments has to be; `None` if there may not be so many.
    pub fn wanted(&self, n: usize, count: usize) -> Option<Wanted> {
        Some(match self.shape {
            Shape::Fixed(_, arguments, defaults) => {
                if count > arguments.len() || count + defaults.len() < arguments.len() {
                    return None;
                }
                Wanted::Of(match arguments[n] {
                    Argument::Own => self.own,
                    Argument::Text => TEXT,
                    Argument::Texts => texts(),
                    Argument::Boolean => DataType::Boolean,
                })
            }
            Shape::ToJson if count != 1 => return None,
            Shape::ToJson | Shape::Array | Shape::Object | Shape::Record | Shape::Gather(_) => Wanted::Any,
            Shape::Path(_) if n == 0 => Wanted::Of(self.own),
            Shape::Path(_) => Wanted::Of(TEXT),
        })
    }

    /// The call over arguments of these types; those that are wanted have them.
    pub fn over(&self, arguments: Vec<(Expr, DataType)>) -> Expr {
        let json = |function: F, arguments: Vec<Expr>| Expr::Call(Function::Json(function), arguments);
        let own = |text: Expr| match self.own {
            JSONB => Expr::Convert(Box::new(text), JSON, JSONB),
            _ => text,
        };
        let shown = |(e, t): (Expr, DataType)| match t {
            JSON => e,
            t => json(F::ToJson(t), vec![e]),
        };
        match self.shape {
            Shape::Fixed(function, wanted, defaults) => {
                let missing = wanted.len() - arguments.len();
                let defaults = defaults[defaults.len() - missing..].iter();
                let mut all: Vec<Expr> = arguments.into_iter().map(|(e, _)| e).collect();
                all.extend(defaults.map(|default| Expr::Constant(default.value())));
                let made = json(function, all);
                if function == F::ObjectOfTexts { own(made) } else { made }
            }
            Shape::ToJson => {
                let (e, t) = arguments.into_iter().next().expect("one argument");
                match self.own {
                    JSONB => json(F::ToJsonb(t), vec![e]),
                    _ => json(F::ToJson(t), vec![e]),
                }
            }
            Shape::Array => own(json(F::BuildArray, arguments.into_iter().map(shown).collect())),
            Shape::Object | Shape::Record => {
                let members = arguments.into_iter().enumerate().map(|(n, (e, t))| match (n % 2, t) {
                    (0, TEXT) => e,
                    (0, t) => Expr::Convert(Box::new(e), t, TEXT),
                    (_, t) => shown((e, t)),
                });
                let build = if self.shape == Shape::Record { F::BuildRecord } else { F::BuildObject };
                own(json(build, members.collect()))
            }
            Shape::Gather(function) => json(function, arguments.into_iter().map(|(e, _)| e).collect()),
            Shape::Path(function) => {
                let mut arguments = arguments.into_iter().map(|(e, _)| e);
                let target = arguments.next().expect("a value and its path");
                json(function, vec![target, json(F::ArrayOf, arguments.collect())])
            }
        }
    }

    /// Errors: an object is made of pairs (22023).
    pub fn refuse_odd(&self, count: usize) -> base::error::SqlResult<()> {
        if self.shape != Shape::Object || count % 2 == 0 {
            return Ok(());
        }
        let message = "argument list must have even number of elements";
        let name = if self.own == JSON { "json_build_object()" } else { "jsonb_build_object()" };
        Err(base::SqlError::new(base::SqlState::INVALID_PARAMETER_VALUE, message)
            .hint(format!("The arguments of {name} must consist of alternating keys and values.")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_call() {
        let names = names();
        assert!(names.contains(&"jsonb_set".to_string()) && !names.contains(&"json_set".to_string()));
        for name in names {
            assert!(call(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_call_computes_what_it_says() {
        let constant = |text: &str, t| (Expr::Constant(base::text::parse(text, t).unwrap()), t);
        let value = |name: &str, arguments| {
            let made = call(name).unwrap().over(arguments).eval(&[]).unwrap();
            base::text::display(&made)
        };
        let arguments = || vec![constant("a", TEXT), constant("1.50", crate::types::NUMERIC)];
        assert_eq!(value("jsonb_build_object", arguments()), r#"{"a": 1.5000000000}"#);
        assert_eq!(value("json_build_array", arguments()), r#"["a", 1.5000000000]"#);
        let set = vec![constant("[1]", JSONB), constant("{5}", texts()), constant("2", JSONB)];
        assert_eq!(value("jsonb_set", set), "[1, 2]");
        let keys = || vec![constant("{b,1,a,NULL}", texts())];
        assert_eq!(value("jsonb_object", keys()), r#"{"a": null, "b": "1"}"#);
        assert_eq!(value("json_object", keys()), r#"{"b" : "1", "a" : null}"#);
        let path = vec![constant(r#"{"a":{"b":7}}"#, JSONB), constant("a", TEXT), constant("b", TEXT)];
        assert_eq!(value("jsonb_extract_path_text", path), "7");
    }
}
