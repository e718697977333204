//! Groups over joins, told apart from keys of the tables below.
//!
//! A join repeats rows, so that what was a key is none any more. The planner notes that, and forgets it at the next grouping
//! whose keys hold the former key: it takes `id` for a key of `SELECT DISTINCT t.id, u.b FROM t JOIN u …`, drops a DISTINCT
//! above and rows of a join (`aggregate_functional_dependencies` of datafusion-common 55.2 compares what keys determine, not
//! whether it is all). It looks for the former key by its name: under other names the groups are what they are.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Projection};
use std::sync::Arc;

/// The plan with other names for such groups, where something above may ask for their keys. Its schema is what it was.
pub(super) fn settle(plan: LogicalPlan) -> Result<LogicalPlan> {
    below(plan, false)
}

fn below(plan: LogicalPlan, is_asked: bool) -> Result<LogicalPlan> {
    let asks = is_asked
        || matches!(
            plan,
            LogicalPlan::Join(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Distinct(_)
                | LogicalPlan::Subquery(_)
        );
    let plan = plan.map_children(|child| below(child, asks).map(Transformed::yes))?.data;
    let plan = plan.map_subqueries(|subquery| below(subquery, true).map(Transformed::yes))?.data;
    match plan {
        LogicalPlan::Aggregate(aggregate) if is_asked && is_over_join(&aggregate.input)? => {
            renamed(aggregate)
        }
        LogicalPlan::Distinct(Distinct::All(input)) if is_asked && is_over_join(&input)? => {
            let groups = super::lifted_subqueries::columns(&input);
            renamed(Aggregate::try_new(input, groups, Vec::new())?)
        }
        plan => Ok(plan),
    }
}

fn is_over_join(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Join(_) | LogicalPlan::Unnest(_))))
}

fn renamed(aggregate: Aggregate) -> Result<LogicalPlan> {
    let groups = aggregate.group_expr.len();
    if groups == 0 || aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_))) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let named = |(n, e): (usize, &Expr)| e.clone().unalias().alias(format!("group {n}"));
    // The schema has a key once, however often it is written.
    let mut once: Vec<&Expr> = Vec::with_capacity(groups);
    for key in &aggregate.group_expr {
        if !once.contains(&key) {
            once.push(key);
        }
    }
    let keys = once.into_iter().enumerate().map(named).collect();
    let schema = aggregate.schema.clone();
    let made = Aggregate::try_new(aggregate.input, keys, aggregate.aggr_expr)?;
    let mut shown = Vec::with_capacity(schema.fields().len());
    for (column, (relation, field)) in made.schema.columns().into_iter().zip(schema.iter()) {
        shown.push(Expr::Column(column).alias_qualified(relation.cloned(), field.name()));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(LogicalPlan::Aggregate(made)))?))
}
