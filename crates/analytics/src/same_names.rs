//! Filters that are pushed down while a query is planned physically: not where columns of one name stand side by side.
//!
//! DataFusion follows a filter through a projection by its columns' names, and takes the last of those that are called
//! the same for the one that is meant (apache/datafusion, `ProjectionExec::collect_reverse_alias` in 55.2). A join of
//! two tables with an `id` each would lose rows: what a hash join knows of one `id` would be asked of the other.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rules, with those that push filters down kept from plans with such projections.
pub(super) fn kept_apart(
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    rules
        .into_iter()
        .map(|rule| match rule.name().starts_with("FilterPushdown") {
            true => Arc::new(KeptApart { rule }) as Arc<dyn PhysicalOptimizerRule + Send + Sync>,
            false => rule,
        })
        .collect()
}

#[derive(Debug)]
struct KeptApart {
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl PhysicalOptimizerRule for KeptApart {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if has_same_names(&plan)? { Ok(plan) } else { self.rule.optimize(plan, config) }
    }
    fn name(&self) -> &str {
        self.rule.name()
    }
    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

fn has_same_names(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let mut names = BTreeSet::new();
            found |= !projection.expr().iter().all(|e| names.insert(e.alias.as_str()));
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
