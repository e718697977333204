//! How large a value may be that an expression makes.
//!
//! KEEPS: what an operation gets is within the bound, so that what it makes takes a small multiple of the bound before it
//! is looked at. Texts of arrays and of JSON double with each level at which they are quoted: without a look at every
//! level, forty levels are a terabyte.

use crate::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

/// Longest text that an expression over a row makes, in bytes: what is stored has at most half of it.
pub const TEXT_BYTES_MAX: usize = 2 * crate::row::BYTES_MAX;

/// About the bytes of a value's text where it may be long, never more than that.
pub(crate) fn bytes(value: &Datum) -> usize {
    match value {
        Datum::Text(text) | Datum::Json(text) => text.len(),
        Datum::Bytes(bytes) => 2 * bytes.len(),
        // With a separator each. An element that stands in it many times counts as often.
        Datum::Array(elements) => elements.iter().map(|element| bytes(element).saturating_add(1)).sum(),
        _ => 0,
    }
}

/// Errors: so much is too long (54000).
pub(crate) fn check(total: usize) -> SqlResult<()> {
    if total <= TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
        .detail(format!("An expression over a row makes a text of at most {TEXT_BYTES_MAX} bytes.")))
}

/// The value. Errors: it is too long (54000).
pub(super) fn bounded(value: Datum) -> SqlResult<Datum> {
    check(bytes(&value))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;
    use crate::expr::{Expr, Function};
    use std::sync::Arc;

    #[test]
    fn a_text_that_doubles_with_each_level_ends() {
        // An array of a text, as a text, in an array, forty times: quotes and backslashes double each time.
        let mut value = Datum::text("a \"b\"");
        let mut refused = None;
        for _ in 0..40 {
            let array = Expr::Constant(Datum::Array(Arc::from([value.clone()])));
            let text = Expr::Call(Function::Concat, vec![Expr::constant("a "), array.clone()]);
            let cast = Expr::Cast(Box::new(array), DataType::Text);
            match (text.eval(&[]), cast.eval(&[])) {
                (Ok(text), Ok(_)) => value = text,
                (Err(error), _) | (_, Err(error)) => {
                    refused = Some(error.state);
                    break;
                }
            }
        }
        assert_eq!(refused, Some(SqlState::PROGRAM_LIMIT_EXCEEDED));
        assert!(bytes(&value) <= TEXT_BYTES_MAX);
    }

    #[test]
    fn a_cast_alone_is_bounded_too() {
        // Statements cast their constants where they are read, without an expression.
        let text = DataType::Array(crate::element::Element::of(DataType::Text).expect("no array"));
        let mut value = Datum::text("a\"");
        let refused = (0..40).find_map(|_| {
            match crate::convert::cast(Datum::Array(Arc::from([value.clone()])), text, DataType::Text) {
                Ok(cast) => {
                    value = cast;
                    None
                }
                Err(error) => Some(error.state),
            }
        });
        assert_eq!(refused, Some(SqlState::PROGRAM_LIMIT_EXCEEDED));
    }

    #[test]
    fn an_array_of_one_long_text_many_times_is_refused_before_it_is_written() {
        let long = Datum::text("x".repeat(1 << 20));
        let array = Datum::Array(vec![long; 10_000].into());
        let text = Expr::Call(Function::Concat, vec![Expr::Constant(array)]);
        assert_eq!(text.eval(&[]).unwrap_err().state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
}
