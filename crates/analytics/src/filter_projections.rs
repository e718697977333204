//! Projections are pushed through filters that have none of their own.
//!
//! A filter can leave out columns of what it lets pass. The second run of the rule that pushes projections down takes the
//! columns of such a filter's predicate, which count what comes in, for those that go out (`FilterExec::try_swapping_with_projection`
//! of datafusion-physical-plan 55.2; joins of that kind decline): where a name and a place were the same by accident, a filter looked
//! at another column, or planning failed. Such a filter becomes one with a projection above it first, which the rule puts back.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// The rule that pushes projections, which meets filters without projections of their own.
#[derive(Debug)]
pub(super) struct FiltersPlain(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for FiltersPlain {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| match node.downcast_ref::<FilterExec>() {
            Some(filter) => {
                Ok(plain(filter)?.map_or_else(|| Transformed::no(node.clone()), Transformed::yes))
            }
            None => Ok(Transformed::no(node)),
        })?;
        self.0.optimize(plan.data, config)
    }
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// A filter that leaves columns out as one that does not, below a projection that does.
fn plain(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(kept) = filter.projection() else { return Ok(None) };
    let input = filter.input().schema();
    let columns = kept.iter().map(|&place| {
        let name = input.field(place).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, place)), alias: name.clone() }
    });
    let whole = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
    Ok(Some(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::new(whole))?)))
}
