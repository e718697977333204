//! An aggregate that a query names twice is computed once.
//!
//! A common table expression that is used twice is written into the plan twice. Equal aggregates (equal
//! as plans: same tables, conditions, groups and calls) become one: whoever asks first runs it, and its
//! rows, which are few beside what they were made of, are kept until the query ends. The same is done for rows that must
//! not differ between two places of a plan ([`once`]).

use super::provider::ColumnTable;
use async_trait::async_trait;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    collect_partitioned,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::{StreamExt, TryStreamExt};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use tokio::sync::OnceCell;

/// One of several places of the same plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shared {
    /// Which of the query's shared plans.
    number: usize,
    input: Arc<LogicalPlan>,
}

impl PartialOrd for Shared {
    fn partial_cmp(&self, other: &Shared) -> Option<Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for Shared {
    fn name(&self) -> &str {
        "Shared"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }
    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: {}", self.number)
    }
    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Shared> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Shared { number: self.number, input: Arc::new(input) }),
            _ => internal_err!("a shared plan has one input"),
        }
    }
}

/// Shares equal aggregates.
pub(super) fn share(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut seen: Vec<(LogicalPlan, usize)> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if is_worth_it(node) {
            match seen.iter_mut().find(|(other, _)| other == node) {
                Some((_, count)) => *count += 1,
                None => seen.push((node.clone(), 1)),
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    seen.retain(|(_, count)| *count > 1);
    if seen.is_empty() {
        return Ok(plan);
    }
    plan.transform_down_with_subqueries(|node| {
        let Some(number) = seen.iter().position(|(other, _)| *other == node) else {
            return Ok(Transformed::no(node));
        };
        let node = Arc::new(Shared { number, input: Arc::new(node) });
        let shared = LogicalPlan::Extension(Extension { node });
        Ok(Transformed::new(shared, true, TreeNodeRecursion::Jump))
    })
    .map(|t| t.data)
}

/// A plan whose places (clones of what this answers) are computed together. `number` tells those of a query apart.
pub(super) fn once(plan: &LogicalPlan, number: usize) -> LogicalPlan {
    // Equal aggregates are numbered from below.
    let node = Arc::new(Shared { number: usize::MAX - number, input: Arc::new(plan.clone()) });
    LogicalPlan::Extension(Extension { node })
}

/// Whether a plan is one of several places whose rows are computed together.
pub(super) fn is_shared(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Extension(extension) if extension.node.as_any().is::<Shared>())
}

/// Aggregates over something, the same whenever they are computed.
fn is_worth_it(node: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(_) = node else { return false };
    let mut is_constant = true;
    let mut reads = false;
    let visited = node.apply_with_subqueries(|inner| {
        if let LogicalPlan::TableScan(scan) = inner {
            // The work table of a recursive query changes from step to step.
            let is_table = |p: Arc<dyn TableProvider>| p.downcast_ref::<ColumnTable>().is_some();
            is_constant &= source_as_provider(&scan.source).is_ok_and(is_table);
            reads = true;
        }
        is_constant &= inner.expressions().iter().all(|e| !e.is_volatile() && !e.contains_outer());
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok() && reads && is_constant
}

/// Makes operators of shared plans; one of it per query.
#[derive(Debug, Default)]
pub(super) struct SharedPlanner {
    results: Mutex<BTreeMap<usize, Arc<OnceCell<Kept>>>>,
}

#[async_trait]
impl ExtensionPlanner for SharedPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<Shared>() else { return Ok(None) };
        let result =
            self.results.lock().expect("no panic while looking up").entry(node.number).or_default().clone();
        Ok(Some(Arc::new(SharedExec::new(node.number, inputs[0].clone(), result))))
    }
}

/// Rows of a shared plan and the memory they take.
#[derive(Debug)]
struct Kept {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

/// One of several operators with the same input. The first to be asked runs it.
#[derive(Debug)]
struct SharedExec {
    number: usize,
    input: Arc<dyn ExecutionPlan>,
    result: Arc<OnceCell<Kept>>,
    properties: Arc<PlanProperties>,
}

impl SharedExec {
    fn new(number: usize, input: Arc<dyn ExecutionPlan>, result: Arc<OnceCell<Kept>>) -> SharedExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        SharedExec { number, input, result, properties: Arc::new(properties) }
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedExec: number={} (computed once)", self.number)
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &str {
        "SharedExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(SharedExec::new(self.number, input, self.result.clone()))),
            _ => internal_err!("a shared plan has one input"),
        }
    }
    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }
    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<datafusion::common::Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<datafusion::common::Statistics>> {
        Ok(inputs[0].clone())
    }
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (result, input) = (self.result.clone(), self.input.clone());
        let streams = self.properties.partitioning.partition_count();
        let batches = async move {
            let kept = result
                .get_or_try_init(|| async {
                    let memory = MemoryConsumer::new("SharedExec").register(context.memory_pool());
                    let batches = collect_partitioned(input, context.clone()).await?;
                    let batches: Vec<RecordBatch> = batches.into_iter().flatten().collect();
                    memory.try_grow(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
                    Ok::<Kept, DataFusionError>(Kept { batches, _memory: memory })
                })
                .await?;
            // Dealt out anew: every partition of every copy gets its turn.
            let own: Vec<RecordBatch> =
                kept.batches.iter().skip(partition).step_by(streams).cloned().collect();
            Ok::<_, DataFusionError>(futures::stream::iter(own.into_iter().map(Ok)))
        };
        let batches = futures::stream::once(batches).try_flatten().boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches)))
    }
}
