//! Counts of distinct values beside sums of `numeric`.
//!
//! The planner's rule that counts distinct values by grouping twice sums sums, and a sum of a `numeric` has more digits than
//! what it is of: conditions above (`HAVING sum(n) > 1`) met another type than the one they were planned for
//! (`single_distinct_to_groupby` of datafusion-optimizer 55.2).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// That rule, which leaves groups with such a sum as they are.
#[derive(Debug)]
pub(super) struct SumTypesKept(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for SumTypesKept {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Aggregate(aggregate) = &plan {
            let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
            let mut results = aggregate.schema.fields().iter().skip(groups);
            if results.any(|field| matches!(field.data_type(), DataType::Decimal128(..))) {
                return Ok(Transformed::no(plan));
            }
        }
        self.0.rewrite(plan, config)
    }
}
