//! Views with `security_barrier`: what a statement asks of a row is computed for rows alone that the view shows.
//!
//! A condition that can fail, or that calls a function, could tell of a row that the view hides. So the view's query gets a
//! limit that no number of rows reaches, below which no condition is ever moved; and where a view's query and a statement
//! become one, the statement may only compare columns with constants, which neither fails nor calls anything.

use base::error::SqlError;
use sqlparser::ast::{self, BinaryOperator as Op, Expr, LimitClause, Query, SetExpr, Statement};

/// More rows than there are.
const ALL: &str = "1099511627776";

/// Keeps what is around a query out of it.
pub(super) fn enclose(query: &mut Query) {
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return;
    }
    let all = ast::Value::Number(ALL.into(), false);
    let limit = Some(Expr::Value(all.into()));
    query.limit_clause = Some(LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() });
}

/// Whether the conditions of a statement over a view may become some of a statement over what the view reads.
pub(super) fn lets_through(statement: &Statement) -> bool {
    let condition = match statement {
        Statement::Query(query) => match query.body.as_ref() {
            SetExpr::Select(select) => select.selection.as_ref(),
            _ => return false,
        },
        Statement::Update(update) => match update.from {
            None => update.selection.as_ref(),
            Some(_) => return false,
        },
        Statement::Delete(delete) if delete.using.is_none() => delete.selection.as_ref(),
        Statement::Delete(_) => return false,
        _ => None,
    };
    condition.is_none_or(is_harmless)
}

/// Errors: 0A000, for a write whose condition could tell of rows that the view hides.
pub(super) fn refused(view: &str, what: &str) -> SqlError {
    let told = format!("{what} the view \"{view}\", which has security_barrier, with this condition");
    SqlError::unsupported(told).hint("Conditions may compare its columns with constants.")
}

/// Whether a condition can be computed over any row and tells nothing of it.
fn is_harmless(e: &Expr) -> bool {
    match e {
        Expr::Nested(e) | Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: e } => is_harmless(e),
        Expr::IsNull(e) | Expr::IsNotNull(e) => is_plain(e),
        Expr::IsTrue(e) | Expr::IsNotTrue(e) | Expr::IsFalse(e) | Expr::IsNotFalse(e) => is_harmless(e),
        Expr::BinaryOp { left, op: Op::And | Op::Or, right } => is_harmless(left) && is_harmless(right),
        Expr::BinaryOp { left, op, right } => {
            let compares = matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq);
            compares && is_plain(left) && is_plain(right)
        }
        Expr::Between { expr, low, high, .. } => is_plain(expr) && is_plain(low) && is_plain(high),
        Expr::InList { expr, list, .. } => is_plain(expr) && list.iter().all(is_plain),
        e => is_plain(e),
    }
}

/// A column, a constant or a parameter.
fn is_plain(e: &Expr) -> bool {
    match e {
        Expr::Nested(e) => is_plain(e),
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => {
            matches!(expr.as_ref(), Expr::Value(value) if matches!(value.value, ast::Value::Number(..)))
        }
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_harmless;

    #[test]
    fn what_can_fail_tells_of_a_row() {
        for (condition, harmless) in [
            ("a = 1 AND (v.b > 'x' OR c IS NULL) AND NOT d", true),
            ("a BETWEEN -1 AND $1 AND b IN ('x', 'y')", true),
            ("1 / (a - 5) = 0", false),
            ("f(a)", false),
            ("a = 1 AND b::int = 3", false),
            ("a LIKE 'x%'", false),
            ("a IN (SELECT 1)", false),
        ] {
            assert_eq!(is_harmless(&crate::parse::parse_expr(condition).unwrap()), harmless, "{condition}");
        }
    }
}
