//! Planning that can be interrupted: between any two rules it is looked whether the statement has to end. Rules that
//! take far longer than the rest for large plans are left out for those.

use super::filter_names::ToldApart;
use super::filter_projections::FiltersPlain;
use super::null_keys::ConditionsKept;
use super::sum_types::SumTypesKept;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use sql::interrupt;
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

/// Joins up to which their order is looked for. The time grows with the cube of their number: forty take some
/// milliseconds, two hundred seconds.
const ORDERED_JOINS_MAX: usize = 40;

/// A rule about the order of joins, for plans of at most [`ORDERED_JOINS_MAX`]. Those of more keep the written order.
#[derive(Debug)]
struct ForFewJoins(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for ForFewJoins {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut joins = 0;
        plan.apply_with_subqueries(|node| {
            joins += usize::from(matches!(node, LogicalPlan::Join(_)));
            Ok(if joins > ORDERED_JOINS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        match joins > ORDERED_JOINS_MAX {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
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
    let bounded = |rule: Arc<dyn OptimizerRule + Send + Sync>| -> Arc<dyn OptimizerRule + Send + Sync> {
        match rule.name() {
            "eliminate_cross_join" => Arc::new(ForFewJoins(Arc::new(ConditionsKept(rule)))),
            "extract_equijoin_predicate" => Arc::new(ConditionsKept(rule)),
            "single_distinct_aggregation_to_group_by" => Arc::new(SumTypesKept(rule)),
            "push_down_filter" => Arc::new(super::barriers::KeptAbove(rule)),
            _ => rule,
        }
    };
    rules.into_iter().flat_map(|rule| [checkpoint.clone(), bounded(rule)]).collect()
}

pub(super) fn physical_rules(
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let checkpoint: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(Checkpoint);
    let careful =
        |rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>| -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
            match rule.name() {
                name if name.starts_with("FilterPushdown") => Arc::new(ToldApart(rule)),
                "ProjectionPushdown" => Arc::new(FiltersPlain(rule)),
                _ => rule,
            }
        };
    rules.into_iter().flat_map(|rule| [checkpoint.clone(), careful(rule)]).collect()
}
