//! Operators of full-text search over columns: those of [`sql::text_search`], computed as rows compute them.

use super::documents::{computed, is_ours};
use super::inference::kind_of;
use super::json::{argument, no_operator, own_type};
use super::kinds::Family;
use base::error::SqlResult;
use datafusion::common::ExprSchema;
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use sql::text_search;

/// An operator between two expressions, if it is one of full-text search. Errors: 42883; those of literals.
pub(super) fn operator(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> SqlResult<Option<Expr>> {
    use BinaryOperator as B;
    if !matches!(op, B::AtAt | B::StringConcat | B::PGOverlap | B::LtDashGt) {
        return Ok(None);
    }
    let (a, b) = (kind_of(left, schema), kind_of(right, schema));
    let are_texts = *op == B::AtAt
        && [a, b].into_iter().all(|kind| matches!(kind.family(), Family::Text | Family::Unknown));
    if !is_ours(a) && !is_ours(b) && !are_texts {
        return Ok(None);
    }
    let found = text_search::operator(op, own_type(left, a, schema), own_type(right, b, schema));
    let Some(found) = found else {
        return match (op, a.family(), b.family()) {
            // A text with the text of a value.
            (B::StringConcat, Family::Text, _) | (B::StringConcat, _, Family::Text) => Ok(None),
            _ => Err(no_operator(op, a, b)),
        };
    };
    let wanted = found.wanted();
    let left = argument(left, a, wanted[0])?;
    let right = argument(right, b, wanted[1])?;
    Ok(Some(computed(found, vec![left, right])))
}
