//! Subqueries that depend on the query around them, as far as their text tells more than their plan.
//!
//! An aggregate over columns from outside is one of the query around, which the planner does not know; `IN` a subquery of
//! one row is a comparison. How such subqueries are joined is the plan's matter ([`crate::unnesting`]).

mod mentions;

use super::aggregates::has_aggregate;
use base::SqlError;
use base::error::SqlResult;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, GroupByExpr, Query, Select, SetExpr, VisitorMut,
};
use mentions::{columns_in, named_in, names_of, relations_in};
pub(super) use mentions::{has_subquery, shadows};
use sql::walk::WalkMut;
use std::ops::ControlFlow;

/// The query around a subquery.
pub(super) struct Outside<'a> {
    /// What its columns can be qualified with.
    pub qualifiers: Vec<String>,
    pub is_aggregate: &'a dyn Fn(&str) -> bool,
}

/// Refuses a subquery with an aggregate that is of the query around. Errors: 0A000.
pub(super) fn refuse_outer_aggregate(e: &Expr, outside: &Outside<'_>) -> SqlResult<()> {
    let subquery = match e {
        Expr::Subquery(subquery) => subquery,
        Expr::Exists { subquery, .. } | Expr::InSubquery { subquery, .. } => subquery,
        _ => return Ok(()),
    };
    let has_one = Dependent::of(subquery, outside).is_some_and(|query| query.has_aggregate_of_outside());
    match has_one {
        true => Err(SqlError::unsupported("an aggregate in a subquery over columns of the query around it")),
        false => Ok(()),
    }
}

/// An expression whose subqueries are looked at side by side.
pub(super) fn rewrite(e: &mut Expr, outside: &Outside<'_>) {
    let _ = e.walk_mut(&mut Subqueries { outside, depth: 0 });
}

struct Subqueries<'a, 'o> {
    outside: &'a Outside<'o>,
    depth: usize,
}

impl VisitorMut for Subqueries<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        // An aggregate without groups gives exactly one row, so that IN compares with its value.
        if let Expr::InSubquery { expr, subquery, negated } = e
            && is_one_row(subquery, self.outside)
            && Dependent::of(subquery, self.outside).is_some()
        {
            let op = if *negated { BinaryOperator::NotEq } else { BinaryOperator::Eq };
            let left = Box::new(Expr::Nested(expr.clone()));
            let right = Box::new(Expr::Subquery(subquery.clone()));
            *e = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
        }
        ControlFlow::Continue(())
    }
}

/// A subquery that names columns from outside.
struct Dependent<'a, 'o> {
    select: &'a Select,
    /// With the qualifiers that no relation inside takes.
    outside: Outside<'o>,
}

impl<'a, 'o> Dependent<'a, 'o> {
    fn of(query: &'a Query, outside: &Outside<'o>) -> Option<Dependent<'a, 'o>> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        // A relation that only a derived table reads is not seen from here.
        let mut relations: Vec<String> = select.from.iter().flat_map(names_of).collect();
        relations.extend(relations_in(&select.projection));
        relations.extend(relations_in(&select.selection));
        relations.extend(relations_in(&select.having));
        relations.extend(relations_in(&query.order_by));
        let qualifiers = outside.qualifiers.iter().filter(|q| !relations.contains(q)).cloned().collect();
        let outside = Outside { qualifiers, is_aggregate: outside.is_aggregate };
        (!named_in(query, &outside).is_empty()).then_some(Dependent { select, outside })
    }

    /// Whether an aggregate has nothing but columns from outside as its arguments: it is one of the rows around.
    fn has_aggregate_of_outside(&self) -> bool {
        let is_of_outside = std::cell::Cell::new(false);
        let look = |call: &Expr| {
            let named = named_in(call, &self.outside).len();
            // Columns of relations that subqueries of the call read say nothing of whose it is.
            let inside = Outside { qualifiers: relations_in(call), is_aggregate: self.outside.is_aggregate };
            let all = columns_in(call) - named_in(call, &inside).len();
            is_of_outside.set(is_of_outside.get() || named > 0 && named == all);
            null()
        };
        let mut projection = self.select.projection.clone();
        for item in &mut projection {
            let mut each = Aggregates { is_aggregate: self.outside.is_aggregate, with: &look };
            let _ = item.walk_mut(&mut each);
        }
        is_of_outside.get()
    }
}

fn null() -> Expr {
    Expr::value(ast::Value::Null)
}

fn is_ungrouped(select: &Select) -> bool {
    matches!(&select.group_by, GroupByExpr::Expressions(terms, _) if terms.is_empty())
}

/// Whether a query has one row, whatever there is.
fn is_one_row(query: &Query, outside: &Outside<'_>) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    is_ungrouped(select)
        && select.having.is_none()
        && query.limit_clause.is_none()
        && select.projection.iter().any(|item| has_aggregate(item, outside.is_aggregate))
}

fn qualifier_of(e: &Expr) -> Option<String> {
    match e {
        Expr::CompoundIdentifier(path) if path.len() == 2 => Some(sql::names::fold(&path[0])),
        _ => None,
    }
}

/// Puts something in the place of each call of an aggregate, subqueries left out.
struct Aggregates<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
    with: &'a dyn Fn(&Expr) -> Expr,
}

impl VisitorMut for Aggregates<'_> {
    type Break = ();
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = &*e
            && call.over.is_none()
            && let Some(name) = sql::names::parts(&call.name).ok().and_then(|mut parts| parts.pop())
            && (self.is_aggregate)(&name)
        {
            *e = (self.with)(e);
        }
        ControlFlow::Continue(())
    }
}
