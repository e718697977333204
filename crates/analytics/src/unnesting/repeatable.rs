//! Whether a plan that is computed twice gives the same rows twice.
//!
//! It may not: random values differ, which rows a LIMIT takes and how rows are numbered follows from the order in which
//! partitions are read, and so do the last digits of a sum of floats.

use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, TableScan};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repeatable {
    Always,
    /// Only if both places have the rows of one computation.
    IfComputedOnce,
    /// Its rows depend on something that changes while the query runs.
    Never,
}

pub(super) fn how(plan: &LogicalPlan) -> Result<Repeatable> {
    let mut is_same = true;
    let (mut recursive, mut work_tables) = (Vec::new(), Vec::new());
    plan.apply_with_subqueries(|node| {
        is_same &= is_same_each_time(node);
        match node {
            LogicalPlan::RecursiveQuery(query) => recursive.push(query.name.clone()),
            LogicalPlan::TableScan(scan) if is_work_table(scan) => {
                work_tables.push(scan.table_name.table().to_string());
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let is_stepped = work_tables.iter().any(|table| !recursive.contains(table));
    Ok(match is_same {
        true => Repeatable::Always,
        false if is_stepped || names_outside(plan)? => Repeatable::Never,
        false => Repeatable::IfComputedOnce,
    })
}

/// Whether a plan's rows may be others in another computation, and are the same wherever one computation of them is read.
pub(in super::super) fn is_same_if_computed_once(plan: &LogicalPlan) -> Result<bool> {
    Ok(how(plan)? == Repeatable::IfComputedOnce)
}

/// Whether a plan names columns of a query around it. What a subquery in it names may be the plan's own.
fn names_outside(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if matches!(node, LogicalPlan::Subquery(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        found |= node.contains_outer_reference();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn is_same_each_time(node: &LogicalPlan) -> bool {
    let has_order_of_its_own = match node {
        LogicalPlan::TableScan(scan) => scan.fetch.is_some(),
        LogicalPlan::Sort(sort) => sort.fetch.is_some(),
        LogicalPlan::Aggregate(aggregate) => !aggregate.aggr_expr.is_empty(),
        LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => false,
        _ => true,
    };
    !has_order_of_its_own && !node.expressions().iter().any(Expr::is_volatile)
}

/// What a step of a recursive query reads: the rows of the step before.
fn is_work_table(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|table| table.downcast_ref::<CteWorkTable>().is_some())
}
