//! Planning that can be interrupted: between any two rules it is looked whether the statement has to end.

use crate::interrupt;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// A rule that changes nothing and fails once the statement has to end.
#[derive(Debug)]
struct Checkpoint;

fn check() -> Result<()> {
    interrupt::check().map_err(|error| DataFusionError::External(Box::new(error)))
}

impl AnalyzerRule for Checkpoint {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        check().map(|()| plan)
    }
    fn name(&self) -> &str {
        "checkpoint"
    }
}

impl OptimizerRule for Checkpoint {
    fn name(&self) -> &str {
        "checkpoint"
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check().map(|()| Transformed::no(plan))
    }
}

impl PhysicalOptimizerRule for Checkpoint {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        check().map(|()| plan)
    }
    fn name(&self) -> &str {
        "checkpoint"
    }
    fn schema_check(&self) -> bool {
        false
    }
}

pub(super) fn analyzer_rules(
    rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let checkpoint: Arc<dyn AnalyzerRule + Send + Sync> = Arc::new(Checkpoint);
    rules.into_iter().flat_map(|rule| [checkpoint.clone(), rule]).collect()
}

pub(super) fn optimizer_rules(
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let checkpoint: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(Checkpoint);
    rules.into_iter().flat_map(|rule| [checkpoint.clone(), rule]).collect()
}

pub(super) fn physical_rules(
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let checkpoint: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(Checkpoint);
    rules.into_iter().flat_map(|rule| [checkpoint.clone(), rule]).collect()
}
