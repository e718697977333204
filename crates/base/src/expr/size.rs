//! How large a value may be that an expression makes.

use crate::Datum;
use crate::error::SqlResult;
use crate::text_bounds::check;

/// The value. Errors: it is too long (54000).
pub(super) fn bounded(value: Datum) -> SqlResult<Datum> {
    check(value.text_bytes())?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;
    use crate::error::SqlState;
    use crate::expr::{Expr, Function};
    use crate::text_bounds::TEXT_BYTES_MAX;
    use std::sync::Arc;

    #[test]
    fn what_is_stored_is_shorter() {
        assert_eq!(TEXT_BYTES_MAX, 2 * crate::row::BYTES_MAX);
    }

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
        assert!(value.text_bytes() <= TEXT_BYTES_MAX);
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
