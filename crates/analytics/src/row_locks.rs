//! FOR UPDATE and FOR SHARE: which queries have rows of a table that could be locked.

use super::engine::Analytics;
use super::rewrite::{has_aggregate, has_window, makes_rows};
use base::SqlError;
use base::error::{SqlResult, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, LockType, Query, SelectItem, SetExpr, Statement, Visitor,
};
use sql::walk::Walk;
use std::ops::ControlFlow;

/// Refuses the clause where rows of the result are no rows of a table. Errors: 0A000.
pub fn check_row_locks(query: &Query, analytics: &Analytics) -> SqlResult<()> {
    let Some(clause) = query.locks.first() else { return Ok(()) };
    let word = match clause.lock_type {
        LockType::Update => "FOR UPDATE",
        LockType::Share => "FOR SHARE",
    };
    let refused = |what: &str| {
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{word} is not allowed with {what}")))
    };
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => return refused("UNION/INTERSECT/EXCEPT"),
        SetExpr::Values(_) => {
            let told = format!("{word} cannot be applied to VALUES");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
        }
        _ => return Ok(()),
    };
    let is_aggregate = |name: &str| analytics.state.aggregate_functions().contains_key(name);
    let exprs = || {
        select.projection.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => Some(e),
            _ => None,
        })
    };
    let any = |holds: &dyn Fn(&Expr) -> bool| exprs().any(holds);
    match () {
        () if select.distinct.is_some() => refused("DISTINCT clause"),
        () if !matches!(&select.group_by, GroupByExpr::Expressions(terms, _) if terms.is_empty()) => {
            refused("GROUP BY clause")
        }
        () if select.having.is_some() => refused("HAVING clause"),
        () if any(&|e| has_aggregate(e, &is_aggregate)) => refused("aggregate functions"),
        () if any(&has_window) => refused("window functions"),
        () if any(&makes_rows) => refused("set-returning functions in the target list"),
        () => Ok(()),
    }
}

/// Refuses the clause anywhere in a statement that is computed over columns, where no row is locked. Errors: 0A000.
pub(super) fn refuse_row_locks(statement: &Statement) -> SqlResult<()> {
    struct Locks;
    impl Visitor for Locks {
        type Break = SqlError;
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
            match query.locks.is_empty() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(SqlError::unsupported("FOR UPDATE or FOR SHARE in a subquery")),
            }
        }
    }
    match statement.walk(&mut Locks) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
