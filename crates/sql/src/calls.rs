//! Operators and functions that are found by the types of their arguments: what they take, what they give and how it is
//! computed.
//!
//! One table for rows and columns, of full-text search ([`text_search`]) and of addresses ([`networks`]). Both call the same
//! functions of `base`, so that an expression has one value wherever it is computed.

use crate::{networks, text_search};
use base::element::Element;
use base::expr::{Expr, Function};
use base::text_search::{Configuration, Reading, SearchFunction as F};
use base::{DataType, Datum};
use sqlparser::ast::BinaryOperator;

const TEXT: DataType = DataType::Text;
const INTEGER: DataType = DataType::Integer;

/// What an argument has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Argument {
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

    /// Whether a value of a type is one; a literal without a type takes this one. `is_strict`: not only by a cast.
    fn takes(self, given: Option<DataType>, is_strict: bool) -> bool {
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
            (Argument::Of(INTEGER | DataType::BigInt), given) => {
                matches!(given, DataType::SmallInt | DataType::Integer | DataType::BigInt)
            }
            (Argument::Of(DataType::Inet), DataType::Cidr) => !is_strict,
            (Argument::Of(wanted), given) => wanted == given,
            (Argument::Texts, DataType::Array(of)) => is_text(of.data_type()),
            (Argument::Numbers, DataType::Array(of)) => is_number(of.data_type()),
            (Argument::Texts | Argument::Numbers, _) => false,
        }
    }
}

pub(crate) fn is_text(data_type: DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. })
}

/// What is done with the arguments before the function takes them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    Plain,
    /// The configuration of calls that name none goes in front.
    Default,
    /// Both sides change their places.
    Turned,
    /// The first one alone is taken.
    First,
    /// The first one is a text, whose document is taken.
    Document,
    /// Both are texts: a document and the words of a query.
    Texts,
}

/// One of a function's or an operator's forms, for arguments of some types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    arguments: &'static [Argument],
    function: Function,
    form: Form,
    returns: DataType,
}

/// A call that computes what the function says of its arguments.
pub(crate) const fn plain(arguments: &'static [Argument], function: Function, returns: DataType) -> Call {
    formed(Form::Plain, arguments, function, returns)
}

/// One that changes them before.
pub(crate) const fn formed(
    form: Form,
    arguments: &'static [Argument],
    function: Function,
    returns: DataType,
) -> Call {
    Call { arguments, function, form, returns }
}

/// Forms of a function by its name.
type Named = (&'static str, &'static [Call]);

fn all() -> impl Iterator<Item = &'static Named> {
    text_search::FUNCTIONS.iter().chain(networks::FUNCTIONS)
}

/// The names of all functions that no other types have.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, _)| *name)
}

/// What every function of this name gives, for all its arguments, or that of the first form.
pub fn returned(name: &str) -> Option<DataType> {
    let (_, calls) = all().find(|(known, _)| *known == name)?;
    Some(calls.first()?.returns())
}

/// A function for arguments of these types, where `None` is a literal without one; `None` if there is none.
pub fn function(name: &str, given: &[Option<DataType>]) -> Option<Call> {
    match all().find(|(known, _)| *known == name) {
        Some((_, calls)) => fitting(calls, given),
        None => shared(name, given),
    }
}

/// The same of a name that texts or numbers have, too: a literal is one of those.
pub fn shared(name: &str, given: &[Option<DataType>]) -> Option<Call> {
    let (_, calls) = text_search::SHARED.iter().chain(networks::SHARED).find(|(known, _)| *known == name)?;
    fitting(calls, given).filter(|_| given.iter().all(Option::is_some))
}

/// An operator of two sides of these types; `None` if it is none of these.
pub fn operator(op: &BinaryOperator, left: Option<DataType>, right: Option<DataType>) -> Option<Call> {
    let calls = text_search::operators(op, left, right).or_else(|| networks::operators(op, left, right))?;
    fitting(calls, &[left, right])
}

/// The call that takes arguments as they are, or else the first one that takes them.
fn fitting(calls: &[Call], given: &[Option<DataType>]) -> Option<Call> {
    let fits = |is_strict| calls.iter().find(|call| call.fits(given, is_strict));
    fits(true).or_else(|| fits(false)).copied()
}

impl Call {
    fn fits(&self, given: &[Option<DataType>], is_strict: bool) -> bool {
        let mut each = self.arguments.iter().zip(given);
        self.arguments.len() == given.len() && each.all(|(argument, given)| argument.takes(*given, is_strict))
    }

    /// The types that the arguments are taken for.
    pub fn wanted(&self) -> Vec<DataType> {
        self.arguments.iter().map(|argument| argument.data_type()).collect()
    }

    /// The type of what it gives.
    pub fn returns(&self) -> DataType {
        match self.function {
            Function::Search(F::Words) => Argument::Texts.data_type(),
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
            Form::First => arguments.truncate(1),
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
        Expr::Call(self.function, arguments)
    }
}
