//! Operators of full-text search and of addresses over columns: those of [`sql::calls`], computed as rows compute them.

use super::documents::{computed, is_ours};
use super::inference::kind_of;
use super::json::{argument, no_operator, own_type};
use super::kinds::{Family, Kind};
use base::DataType;
use base::error::SqlResult;
use datafusion::common::ExprSchema;
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use sql::{calls, networks};

/// An operator between two expressions, if it is one of full-text search or of addresses. Errors: 42883; those of literals.
pub(super) fn operator(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> SqlResult<Option<Expr>> {
    use BinaryOperator as B;
    let is_of_search = matches!(op, B::AtAt | B::StringConcat | B::PGOverlap | B::LtDashGt);
    if !is_of_search && !networks::has_operator(DataType::Inet, op) {
        return Ok(None);
    }
    let (a, b) = (kind_of(left, schema), kind_of(right, schema));
    let are_texts = *op == B::AtAt
        && [a, b].into_iter().all(|kind| matches!(kind.family(), Family::Text | Family::Unknown));
    let is_of_addresses = |kind: Kind| matches!(kind, Kind::Known(of) if networks::has_operator(of, op));
    let is_found = is_of_search && (is_ours(a) || is_ours(b) || are_texts);
    if !is_found && !is_of_addresses(a) && !is_of_addresses(b) {
        return Ok(None);
    }
    let found = calls::operator(op, own_type(left, a, schema), own_type(right, b, schema));
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
