//! How many values a row has, and for how many columns.

use base::SqlError;
use base::error::{SqlResult, SqlState};
use sqlparser::ast;

/// Whether rows of VALUES are of one length. Errors: 42601.
pub(super) fn refuse_width(first: &[ast::Expr], row: &[ast::Expr]) -> SqlResult<()> {
    if row.len() == first.len() {
        return Ok(());
    }
    Err(SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length"))
}

/// Whether there is a value for every column that the statement names. Errors: 42601.
pub(super) fn refuse_missing(columns: &[ast::ObjectName], targets: &[usize], values: usize) -> SqlResult<()> {
    if columns.is_empty() || values >= targets.len() {
        return Ok(());
    }
    Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions"))
}

/// How many columns a query has, if its text says so.
pub(super) fn width_of(body: &ast::SetExpr) -> Option<usize> {
    let mut body = body;
    loop {
        body = match body {
            ast::SetExpr::Query(inner) => inner.body.as_ref(),
            ast::SetExpr::SetOperation { left, .. } => left,
            ast::SetExpr::Values(values) => return values.rows.first().map(|row| row.content.len()),
            ast::SetExpr::Select(select) => {
                let is_one = |item: &ast::SelectItem| {
                    matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })
                };
                return select.projection.iter().all(is_one).then_some(select.projection.len());
            }
            _ => return None,
        }
    }
}
