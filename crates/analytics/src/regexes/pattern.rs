//! The pattern of `~` as PostgreSQL reads it, in the syntax of the library.

use base::error::SqlResult;
use base::patterns::{Flags, translated};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ScalarUDF};
use std::sync::Arc;

/// The function that translates a pattern, for those that are no constants.
pub(super) const TRANSLATED: &str = "meridian_regex";

/// The right side of `~` in the library's syntax; `None` if it is that already. Errors: 2201B, 0A000.
pub(in super::super) fn settled_operand(pattern: &Expr) -> SqlResult<Option<Expr>> {
    let of = match pattern {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
            // The call is a constant, which is computed once more.
            if translated(text, Flags::default())? == *text {
                return Ok(None);
            }
            pattern.clone()
        }
        Expr::Literal(..) => return Ok(None),
        Expr::ScalarFunction(call) if call.name() == TRANSLATED || call.name() == crate::similar::PATTERN => {
            return Ok(None);
        }
        other => other.clone(),
    };
    let function = Arc::new(ScalarUDF::from(super::functions::translation()));
    Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of]))))
}
