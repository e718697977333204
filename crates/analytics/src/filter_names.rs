//! Filters that are pushed from operator to operator find their columns by name.
//!
//! A join tells what is below it which keys its other side has, a sort with a limit which rows come too late. On its way down
//! each operator looks such a filter's columns up by name in what is below it (`FilterRemapper` of
//! datafusion-physical-plan 55.2), and of two columns of one name it takes the first, or in a projection the last
//! (`ProjectionExec::collect_reverse_alias`), whichever was meant: rows were missing. An operator's filters stay with it where a name of their columns stands for two somewhere below.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The rule that pushes filters, which leaves those whose columns would not be told apart.
#[derive(Debug)]
pub(super) struct ToldApart(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for ToldApart {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (plan, _) = with_ends(plan)?;
        let pushed = self.0.optimize(plan, config)?;
        let bare = pushed.transform_up(|node| match node.downcast_ref::<End>() {
            Some(end) => Ok(Transformed::yes(end.input.clone())),
            None => Ok(Transformed::no(node)),
        });
        Ok(bare?.data)
    }
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Names that stand for two columns.
#[derive(Default)]
struct Doubtful {
    /// Of what an operator gives.
    here: BTreeSet<String>,
    /// Of what is below it.
    below: BTreeSet<String>,
}

/// The plan with ends for the filters that are not to pass, and the names that are doubtful in it.
fn with_ends(plan: Arc<dyn ExecutionPlan>) -> Result<(Arc<dyn ExecutionPlan>, Doubtful)> {
    let mut doubtful = Doubtful { here: repeated_names(&plan), below: BTreeSet::new() };
    let mut children = Vec::with_capacity(plan.children().len());
    for (n, child) in plan.children().into_iter().enumerate() {
        let (mut child, of_child) = with_ends(child.clone())?;
        let names = names_in_filters(&plan, n);
        // A join knows by their places which columns are whose.
        let is_join = child.is::<HashJoinExec>();
        let is_doubtful =
            |name: &String| of_child.below.contains(name) || (!is_join && of_child.here.contains(name));
        if names.iter().any(is_doubtful) {
            child = Arc::new(End { input: child });
        }
        doubtful.below.extend(of_child.here);
        doubtful.below.extend(of_child.below);
        children.push(child);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        for item in projection.expr() {
            if names_of(&item.expr).any(|name| doubtful.below.contains(&name)) {
                doubtful.here.insert(item.alias.clone());
            }
        }
    }
    Ok((replace_children_if_necessary(plan, children)?, doubtful))
}

fn repeated_names(plan: &Arc<dyn ExecutionPlan>) -> BTreeSet<String> {
    let schema = plan.schema();
    let mut seen = BTreeSet::new();
    let repeated = schema.fields().iter().filter(|field| !seen.insert(field.name().as_str()));
    repeated.map(|field| field.name().clone()).collect()
}

fn names_of(e: &Arc<dyn PhysicalExpr>) -> impl Iterator<Item = String> + use<> {
    collect_columns(e).into_iter().map(|column| column.name().to_string())
}

/// Names of the columns by which an operator filters what one of its children gives.
fn names_in_filters(plan: &Arc<dyn ExecutionPlan>, child: usize) -> BTreeSet<String> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let keys = join.on().iter().filter(|_| child == 1);
        return keys.flat_map(|(_, right)| names_of(right)).collect();
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return names_of(filter.predicate()).collect();
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return sort.expr().iter().flat_map(|key| names_of(&key.expr)).collect();
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let arguments = aggregate.aggr_expr().iter().flat_map(|call| call.expressions());
        return arguments.flat_map(|e| names_of(&e)).collect();
    }
    BTreeSet::new()
}

/// Where filters from above end. It is there while the rule runs.
#[derive(Debug)]
struct End {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for End {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FiltersEnd")
    }
}

impl ExecutionPlan for End {
    fn name(&self) -> &str {
        "FiltersEnd"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(End { input })),
            _ => internal_err!("an end of filters has one input"),
        }
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
