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
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

/// One of several places of the same plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SharedPlan {
    /// Which of the query's shared plans.
    number: usize,
    input: Arc<LogicalPlan>,
}

impl PartialOrd for SharedPlan {
    fn partial_cmp(&self, other: &SharedPlan) -> Option<Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for SharedPlan {
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
    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<SharedPlan> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(SharedPlan { number: self.number, input: Arc::new(input) }),
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
        let node = Arc::new(SharedPlan { number, input: Arc::new(node) });
        let shared = LogicalPlan::Extension(Extension { node });
        Ok(Transformed::new(shared, true, TreeNodeRecursion::Jump))
    })
    .map(|t| t.data)
}

/// A plan whose places (clones of what this answers) are computed together. `number` tells those of a query apart.
pub(super) fn once(plan: &LogicalPlan, number: usize) -> LogicalPlan {
    // Equal aggregates are numbered from below.
    let node = Arc::new(SharedPlan { number: usize::MAX - number, input: Arc::new(plan.clone()) });
    LogicalPlan::Extension(Extension { node })
}

/// Whether a plan is one of several places whose rows are computed together.
pub(super) fn is_shared(plan: &LogicalPlan) -> bool {
    input(plan).is_some()
}

/// What such a place computes.
pub(super) fn input(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    extension.node.as_any().downcast_ref::<SharedPlan>().map(|shared| shared.input.as_ref())
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
#[derive(Default)]
pub(super) struct SharedPlanner {
    results: Mutex<BTreeMap<usize, Arc<OnceLock<Computed>>>>,
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
        let Some(node) = node.as_any().downcast_ref::<SharedPlan>() else { return Ok(None) };
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

/// The rows, or why there are none. Operators run once only, so an error is kept too, and a computation whose first
/// asker is gone is carried on by the next one.
type Computed = Shared<BoxFuture<'static, std::result::Result<Arc<Kept>, Arc<DataFusionError>>>>;

async fn compute(input: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Arc<Kept>> {
    let memory = MemoryConsumer::new("SharedExec").register(context.memory_pool());
    let batches = collect_partitioned(input, context.clone()).await?;
    let batches: Vec<RecordBatch> = batches.into_iter().flatten().collect();
    memory.try_grow(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
    Ok(Arc::new(Kept { batches, _memory: memory }))
}

/// One of several operators with the same input, which runs once for all of them.
struct SharedExec {
    number: usize,
    input: Arc<dyn ExecutionPlan>,
    result: Arc<OnceLock<Computed>>,
    properties: Arc<PlanProperties>,
}

impl SharedExec {
    fn new(number: usize, input: Arc<dyn ExecutionPlan>, result: Arc<OnceLock<Computed>>) -> SharedExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        SharedExec { number, input, result, properties: Arc::new(properties) }
    }
}

impl fmt::Debug for SharedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedExec").field("number", &self.number).finish_non_exhaustive()
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
        let streams = self.properties.partitioning.partition_count();
        let computed = self
            .result
            .get_or_init(|| compute(self.input.clone(), context).map_err(Arc::new).boxed().shared());
        let computed = computed.clone();
        let batches = async move {
            let kept = computed.await.map_err(DataFusionError::Shared)?;
            // Dealt out anew: every partition of every copy gets its turn.
            let own: Vec<RecordBatch> =
                kept.batches.iter().skip(partition).step_by(streams).cloned().collect();
            Ok::<_, DataFusionError>(futures::stream::iter(own.into_iter().map(Ok)))
        };
        let batches = futures::stream::once(batches).try_flatten().boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{Schema, SchemaRef};
    use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Answers after a pause, and counts how often it was asked.
    #[derive(Debug)]
    struct Input {
        schema: SchemaRef,
        runs: AtomicUsize,
        fails: bool,
    }

    impl PartitionStream for Input {
        fn schema(&self) -> &SchemaRef {
            &self.schema
        }
        fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
            self.runs.fetch_add(1, Relaxed);
            let answer = match self.fails {
                true => Err(DataFusionError::Execution("it fails".into())),
                false => Ok(RecordBatch::new_empty(self.schema.clone())),
            };
            let batches = futures::stream::once(async move {
                tokio::task::yield_now().await;
                answer
            });
            Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches))
        }
    }

    /// Two places of one plan, and what they read.
    fn places(fails: bool) -> ([SharedExec; 2], Arc<Input>) {
        let schema = Arc::new(Schema::empty());
        let input = Arc::new(Input { schema: schema.clone(), runs: AtomicUsize::new(0), fails });
        let scan = StreamingTableExec::try_new(schema, vec![input.clone()], None, [], false, None).unwrap();
        let scan: Arc<dyn ExecutionPlan> = Arc::new(scan);
        let result = Arc::<OnceLock<Computed>>::default();
        ([SharedExec::new(0, scan.clone(), result.clone()), SharedExec::new(0, scan, result)], input)
    }

    #[tokio::test]
    async fn what_fails_fails_for_all_and_is_not_run_again() {
        let ([one, other], input) = places(true);
        for place in [one, other] {
            let rows = place.execute(0, Arc::default()).unwrap();
            let error = rows.try_collect::<Vec<_>>().await.unwrap_err();
            assert!(error.to_string().contains("it fails"), "{error}");
        }
        assert_eq!(input.runs.load(Relaxed), 1);
    }

    #[tokio::test]
    async fn the_next_asker_carries_on_when_the_first_is_gone() {
        let ([one, other], input) = places(false);
        let mut rows = one.execute(0, Arc::default()).unwrap();
        assert!(rows.next().now_or_never().is_none(), "it pauses");
        drop(rows);
        let rows = other.execute(0, Arc::default()).unwrap().try_collect::<Vec<_>>().await.unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
        assert_eq!(input.runs.load(Relaxed), 1);
    }
}
