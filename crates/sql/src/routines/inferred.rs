//! What is known of the type of an expression, and what literals and casts tell of theirs.

use super::{type_of, unlimited};
use base::DataType;
use base::convert::{Castable, castable};
use base::element::Element;
use base::routines::TypeOf;
use sqlparser::ast::{self, Expr, UnaryOperator, Value};

/// What is known of the type of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inferred {
    Known(DataType),
    /// A literal or a parameter, which takes the type of what it meets.
    Untyped,
    /// The text does not tell.
    Unknown,
}

/// Whether an expression is a literal that takes any type.
pub fn is_untyped(e: &Expr) -> bool {
    match e {
        Expr::Nested(e) => is_untyped(e),
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_)
                | Value::EscapedStringLiteral(_)
                | Value::DollarQuotedString(_)
                | Value::UnicodeStringLiteral(_)
                | Value::Null
        ),
        _ => false,
    }
}

/// The type of a literal or a cast; `None` for any other expression.
pub(super) fn of_literal(e: &Expr) -> Option<Inferred> {
    let known = |written: &ast::DataType| {
        let of = type_of(written).ok().and_then(TypeOf::known);
        of.map_or(Inferred::Unknown, Inferred::Known)
    };
    Some(match e {
        Expr::Nested(e) => return of_literal(e),
        e if is_untyped(e) => Inferred::Untyped,
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Inferred::Known(number(text)),
            Value::Boolean(_) => Inferred::Known(DataType::Boolean),
            _ => return None,
        },
        Expr::Cast { data_type, .. } => known(data_type),
        Expr::TypedString(typed) => known(&typed.data_type),
        Expr::Interval(_) => Inferred::Known(DataType::Interval),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => return of_literal(expr),
        _ => return None,
    })
}

/// The type that values of one column come to, if they are literals or casts; `None`: their texts do not tell.
pub(super) fn of_values<'e>(values: impl Iterator<Item = &'e Expr>) -> Option<DataType> {
    match together(values.map(|e| of_literal(e).unwrap_or(Inferred::Unknown))) {
        Inferred::Known(of) => Some(of),
        Inferred::Untyped | Inferred::Unknown => None,
    }
}

/// The array of elements, if they are all of one type or literals.
pub(super) fn array_of(elements: impl Iterator<Item = Inferred>) -> Inferred {
    let mut found = None;
    for of in elements {
        match (found, of) {
            (_, Inferred::Unknown) => return Inferred::Unknown,
            (_, Inferred::Untyped) => {}
            (Some(before), Inferred::Known(of)) if is_number(before) && is_number(of) => {
                match wider(before, of) {
                    Inferred::Known(wide) => found = Some(wide),
                    _ => return Inferred::Unknown,
                }
            }
            (Some(before), Inferred::Known(of)) if before != unlimited(of) => {
                return Inferred::Unknown;
            }
            (_, Inferred::Known(of)) => found = Some(unlimited(of)),
        }
    }
    found.and_then(Element::of).map_or(Inferred::Unknown, |of| Inferred::Known(DataType::Array(of)))
}

/// The type that several values come to.
pub(super) fn together(values: impl Iterator<Item = Inferred>) -> Inferred {
    match array_of(values) {
        Inferred::Known(DataType::Array(of)) => Inferred::Known(of.data_type()),
        _ => Inferred::Unknown,
    }
}

/// What subscripts take out of an array.
pub(super) fn elements(array: Inferred, access: &[ast::AccessExpr]) -> Inferred {
    match (array, access) {
        (
            Inferred::Known(DataType::Array(of)),
            [ast::AccessExpr::Subscript(ast::Subscript::Index { .. })],
        ) => Inferred::Known(of.data_type()),
        (Inferred::Known(DataType::Array(_)), [ast::AccessExpr::Subscript(ast::Subscript::Slice { .. })]) => {
            array
        }
        _ => Inferred::Unknown,
    }
}

fn number(text: &str) -> DataType {
    if text.contains(['.', 'e', 'E']) {
        return crate::types::NUMERIC;
    }
    match text.parse::<i64>() {
        Ok(value) if i32::try_from(value).is_ok() => DataType::Integer,
        Ok(_) => DataType::BigInt,
        Err(_) => crate::types::NUMERIC,
    }
}

pub(super) fn is_number(of: DataType) -> bool {
    use DataType as T;
    matches!(of, T::SmallInt | T::Integer | T::BigInt | T::Numeric { .. } | T::Real | T::Double)
}

/// The type of what two numbers give.
pub(super) fn wider(a: DataType, b: DataType) -> Inferred {
    let (a, b) = (unlimited(a), unlimited(b));
    match (castable(a, b), castable(b, a)) {
        // real and numeric make double precision.
        _ if matches!(
            (a, b),
            (DataType::Real, DataType::Numeric { .. }) | (DataType::Numeric { .. }, DataType::Real)
        ) =>
        {
            Inferred::Known(DataType::Double)
        }
        (Castable::Implicit, _) => Inferred::Known(b),
        (_, Castable::Implicit) => Inferred::Known(a),
        _ => Inferred::Unknown,
    }
}
