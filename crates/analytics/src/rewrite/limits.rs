//! FETCH FIRST as LIMIT, and the order of a subquery below a LIMIT.

use super::bags::query_of;
use base::SqlError;
use base::error::SqlResult;
use datafusion::sql::sqlparser::ast::{
    self, Expr, LimitClause, Query, SelectItem, SetExpr, TableFactor, Visitor,
};
use sql::walk::Walk;
use std::ops::ControlFlow;

/// More rows than there are.
const ALL_ROWS: &str = "1099511627776";

/// `FETCH FIRST n ROWS ONLY` is `LIMIT n`. `WITH TIES` is left to [`super::ties`]: its count is answered. Errors:
/// 0A000 for PERCENT.
pub(super) fn fetch_as_limit(query: &mut Query) -> SqlResult<Option<Expr>> {
    let Some(fetch) = query.fetch.take() else { return Ok(None) };
    if fetch.percent {
        return Err(SqlError::unsupported("FETCH … PERCENT"));
    }
    let count = match fetch.quantity {
        Some(count) => count,
        None => sql::parse::parse_expr("1")?,
    };
    if fetch.with_ties {
        return Ok(Some(count));
    }
    let offset = match query.limit_clause.take() {
        Some(LimitClause::LimitOffset { offset, .. }) => offset,
        _ => None,
    };
    query.limit_clause = Some(LimitClause::LimitOffset { limit: Some(count), offset, limit_by: Vec::new() });
    Ok(None)
}

/// Whether a limit leaves a row if there is one: a positive number, and nothing is skipped.
pub(super) fn keeps_one(limit: &LimitClause) -> Option<u64> {
    let LimitClause::LimitOffset { limit: Some(Expr::Value(value)), offset: None, .. } = limit else {
        return None;
    };
    match &value.value {
        ast::Value::Number(n, _) => n.parse::<u64>().ok().filter(|n| *n > 0),
        _ => None,
    }
}

/// The planner drops the order of a subquery, except below a limit of its own. Where the first rows are wanted,
/// or all in their order, subqueries that say an order get one that takes nothing away.
pub(super) fn keep_order_below(query: &mut Query) {
    if query.order_by.is_some() {
        return;
    }
    let has_limit = query.limit_clause.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if !has_limit && !select.projection.iter().any(depends_on_order) {
        return;
    }
    let [from] = select.from.as_mut_slice() else { return };
    if !from.joins.is_empty() {
        return;
    }
    match &mut from.relation {
        TableFactor::Derived { subquery, .. } => keep_order(subquery),
        TableFactor::Table { name, args: None, .. } => {
            let Ok(words) = sql::names::parts(name) else { return };
            let ctes = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
            for cte in ctes.filter(|c| words == [sql::names::fold(&c.alias.name)]) {
                keep_order(&mut cte.query);
            }
        }
        _ => {}
    }
}

fn keep_order(query: &mut Query) {
    if query.order_by.is_some() && query.limit_clause.is_none() {
        let limited = query_of(&format!("SELECT 1 LIMIT {ALL_ROWS}"));
        query.limit_clause = limited.and_then(|limited| limited.limit_clause);
    }
}

/// Whether an item gathers values in the order that they come in.
fn depends_on_order(item: &SelectItem) -> bool {
    struct Gathering;
    impl Visitor for Gathering {
        type Break = ();
        fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
            let Expr::Function(call) = e else { return ControlFlow::Continue(()) };
            let name = sql::names::parts(&call.name).ok().and_then(|mut parts| parts.pop());
            let gathers = matches!(name.as_deref(), Some("array_agg" | "string_agg"));
            let says_order = match &call.args {
                ast::FunctionArguments::List(list) => !list.clauses.is_empty(),
                _ => false,
            };
            if gathers && !says_order { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    item.walk(&mut Gathering).is_break()
}
