//! `parse_ident`: the names of which a qualified one consists.

use super::rowwise::{Cell, Returns};
use super::small_functions::{Small, no_such, text_of};
use base::element::Element;
use base::error::SqlResult;
use base::{DataType, Datum};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ScalarUDF, Signature, TypeSignature, Volatility};

/// Makes the function known, in the place of another one of its name.
pub(super) fn install(context: &SessionContext) {
    let names = Element::of(DataType::Text).expect("a text is an element");
    let counts = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
    let function = Small {
        name: "parse_ident",
        signature: Signature::one_of(counts, Volatility::Immutable),
        returns: Returns::Plain(DataType::Array(names)),
        is_strict: true,
        compute: parse_ident,
    };
    context.register_udf(ScalarUDF::new_from_impl(function));
}

/// Errors: 22023 for a text that is no name, 42883 for arguments of other types.
fn parse_ident(cells: &[Cell]) -> SqlResult<Cell> {
    let is_strict = match cells.get(1) {
        None => true,
        Some(Cell::Plain(Datum::Bool(is_strict))) => *is_strict,
        Some(_) => return Err(no_such("parse_ident")),
    };
    let parts = base::identifier::parts(text_of(&cells[0])?.unwrap_or_default(), is_strict)?;
    Ok(Cell::Plain(Datum::Array(parts.into_iter().map(Datum::text).collect())))
}
