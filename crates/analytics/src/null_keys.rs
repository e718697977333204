//! Joins for which NULLs are equal keep conditions that they are not equal for.
//!
//! INTERSECT, `IS NOT DISTINCT FROM` and unnested subqueries join by keys of which NULLs are equal. The planner's rules make
//! other equalities of such a join keys too (`extract_equijoin_predicate` and `eliminate_cross_join` of datafusion-optimizer
//! 55.2): rows whose condition is NULL were answered.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// A rule that makes keys of a join's conditions, and leaves such joins as they are.
#[derive(Debug)]
pub(super) struct ConditionsKept(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for ConditionsKept {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_kept = match self.apply_order() {
            // The rule is asked of each node.
            Some(_) => takes_nulls_for_equal(&plan),
            // It looks for joins below by itself, and at inner ones alone.
            None => plan.exists(|node| Ok(is_inner(node) && takes_nulls_for_equal(node)))?,
        };
        if is_kept {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

fn takes_nulls_for_equal(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull)
}

fn is_inner(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner)
}
