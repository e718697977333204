//! Window functions by their sort keys.
//!
//! An operator computes functions of one partitioning and order; the planner puts such functions together before subqueries
//! among their keys become columns. Two uses of one subquery may become two columns, and then the keys differ.
//! OUT: a plan in which all functions of a node have the same keys; the columns and their order stay.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::{Expr, LogicalPlan, Window};
use std::sync::Arc;

/// The plan with such nodes taken apart, each over the one before.
pub(super) fn apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Window(window) = &node else { return Ok(Transformed::no(node)) };
        let runs = window.window_expr.chunk_by(|a, b| have_equal_keys(a, b));
        if runs.clone().count() < 2 {
            return Ok(Transformed::no(node));
        }
        let mut plan = window.input.clone();
        for run in runs {
            plan = Arc::new(LogicalPlan::Window(Window::try_new(run.to_vec(), plan)?));
        }
        Ok(Transformed::yes(Arc::unwrap_or_clone(plan)))
    })
    .map(|transformed| transformed.data)
}

fn have_equal_keys(a: &Expr, b: &Expr) -> bool {
    match (parameters(a), parameters(b)) {
        (Some(a), Some(b)) => a.partition_by == b.partition_by && a.order_by == b.order_by,
        _ => true,
    }
}

fn parameters(e: &Expr) -> Option<&WindowFunctionParams> {
    match e {
        Expr::Alias(alias) => parameters(&alias.expr),
        Expr::WindowFunction(call) => Some(&call.params),
        _ => None,
    }
}
