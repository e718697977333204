//! Shapes of queries that PostgreSQL has and the planner has not, or reads otherwise: the entry.

use super::recursion;
use super::relations::{Place, Resolver, Tables};
use crate::context::Context;
use crate::engine::Analytics;
use base::error::SqlResult;
use datafusion::sql::sqlparser::ast::{Query, Statement, VisitorMut};
use sql::walk::WalkMut;
use std::ops::ControlFlow;

/// Rewrites a query in place, and answers how many columns its joins have together. Errors: names, windows and
/// recursions that PostgreSQL refuses.
pub(crate) fn rewrite(
    statement: &mut Statement,
    context: &Context<'_>,
    analytics: &Analytics,
) -> SqlResult<u64> {
    let is_aggregate = |name: &str| analytics.state.aggregate_functions().contains_key(name);
    if let ControlFlow::Break(error) = statement.walk_mut(&mut Recursions { is_aggregate: &is_aggregate }) {
        return Err(error);
    }
    let Statement::Query(query) = statement else { return Ok(0) };
    let tables = Tables { catalog: context.catalog, search_path: context.search_path };
    let mut resolver = Resolver::new(tables, &is_aggregate);
    resolver.query(query, Place::Top)?;
    Ok(resolver.joined_columns())
}

/// Checks every WITH RECURSIVE.
struct Recursions<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
}

impl VisitorMut for Recursions<'_> {
    type Break = base::SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<base::SqlError> {
        match query.with.as_mut().map(|with| recursion::check(with, self.is_aggregate)) {
            Some(Err(error)) => ControlFlow::Break(error),
            _ => ControlFlow::Continue(()),
        }
    }
}
