//! Common table expressions whose rows may be others each time that they are computed: random values, and what a LIMIT
//! takes of rows without an order. All places that name such a one have the rows of one computation.
//!
//! The planner writes a common table expression into the plan wherever it is named, under its own name.

use super::{shared, unnesting};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{Query, Statement, Visitor};
use sql::names;
use sql::walk::Walk;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Numbers of shared plans that no other ones have: those are counted from both ends.
const FIRST: usize = usize::MAX / 2;

/// The plan of a statement, with such expressions computed once.
pub(super) fn settle(plan: LogicalPlan, statement: &Statement) -> Result<LogicalPlan> {
    let mut defined = Defined::default();
    let _ = statement.walk(&mut defined);
    if defined.0.is_empty() {
        return Ok(plan);
    }
    let mut places: Vec<LogicalPlan> = Vec::new();
    let mut is_repeated = false;
    plan.apply_with_subqueries(|node| {
        if defined.is_varying(node)? {
            is_repeated |= places.contains(node);
            places.push(node.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !is_repeated {
        return Ok(plan);
    }
    let mut seen: Vec<LogicalPlan> = Vec::new();
    let settled = plan.transform_up_with_subqueries(|node| {
        if !defined.is_varying(&node)? {
            return Ok(Transformed::no(node));
        }
        let number = seen.iter().position(|other| *other == node).unwrap_or_else(|| {
            seen.push(node.clone());
            seen.len() - 1
        });
        Ok(Transformed::yes(shared::once(&node, FIRST + number)))
    })?;
    Ok(settled.data)
}

/// Names of common table expressions.
#[derive(Default)]
struct Defined(BTreeSet<String>);

impl Visitor for Defined {
    type Break = ();
    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(named.map(|cte| names::fold(&cte.alias.name)));
        ControlFlow::Continue(())
    }
}

impl Defined {
    /// Whether a node is a common table expression whose rows vary, and are the same all over the query.
    fn is_varying(&self, node: &LogicalPlan) -> Result<bool> {
        let LogicalPlan::SubqueryAlias(alias) = node else { return Ok(false) };
        if !self.0.contains(alias.alias.table()) {
            return Ok(false);
        }
        let mut varies = false;
        node.apply_with_subqueries(|inner| {
            varies |= match inner {
                LogicalPlan::Limit(_) | LogicalPlan::Distinct(Distinct::On(_)) => true,
                inner => inner.expressions().iter().any(Expr::is_volatile),
            };
            Ok(if varies { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(varies && unnesting::is_same_if_computed_once(node)?)
    }
}
