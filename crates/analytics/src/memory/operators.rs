//! Operators that write one row many times: joins, window functions, lists turned into rows.
//!
//! A value of a megabyte that is joined with a thousand rows becomes a gigabyte in one batch, and no operator
//! accounts for batches on their way. Texts of tables are views, of which sixteen bytes are copied; what
//! functions make, and constants, is written out. IN: a physical plan. OUT: the same plan, in which the inputs
//! of such operators are measured and what they may make is reserved, and long lists come in parts.

mod spread;

use super::SMALL_BYTES;
use super::functions::is_long;
use super::growth::bytes_at;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use spread::{constant_bytes, spread};
use std::fmt;
use std::sync::{Arc, Mutex};

/// A bound changes neither order nor partitions.
const SAME_PROPERTIES: ReplaceChildrenOptions = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);

/// What one batch of rows that were lists should take at most.
const UNNESTED_BYTES: u64 = 4 << 20;

/// What constants should take at most in one batch. Operators pass on several at a time.
const CONSTANTS_BYTES: u64 = 1 << 20;

/// The plan, bounded.
pub(in super::super) fn bounded(
    plan: Arc<dyn ExecutionPlan>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        Ok(match node.name() {
            "CrossJoinExec" | "NestedLoopJoinExec" | "HashJoinExec" | "SortMergeJoinExec" => {
                measured(node, pool, Multiplied::ByBatches)?
            }
            "WindowAggExec" | "BoundedWindowAggExec" => {
                let how = windows(&node);
                measured(node, pool, how)?
            }
            "FilterExec" | "RepartitionExec" | "CoalesceBatchesExec" => {
                measured(node, pool, Multiplied::Joined)?
            }
            "UnnestExec" => split_lists(node)?,
            "ProjectionExec" => spread_projection(node, pool)?,
            "AggregateExec" => spread_aggregate(node, pool)?.transform_data(slice_for_sets)?,
            _ => Transformed::no(node),
        })
    })
    .map(|t| t.data)
}

// ---- rows that are written many times -----------------------------------------------------------------

/// How often an operator may write a value of its input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Multiplied {
    /// Once, but small batches become large ones.
    Joined,
    /// Into every row of the batches under way.
    ByBatches,
    /// The operator keeps its whole input and a copy.
    Kept,
    /// Also a value for every row.
    ByRows,
    /// Also all values together for every row.
    AllByRows,
}

fn windows(node: &Arc<dyn ExecutionPlan>) -> Multiplied {
    let exprs = match (node.downcast_ref::<WindowAggExec>(), node.downcast_ref::<BoundedWindowAggExec>()) {
        (Some(window), _) => window.window_expr(),
        (_, Some(window)) => window.window_expr(),
        _ => return Multiplied::Kept,
    };
    let mut how = Multiplied::Kept;
    for e in exprs {
        let gathers = ["string_agg", "array_agg"].iter().any(|name| e.name().starts_with(name));
        let is_long = e.field().is_ok_and(|field| is_long(field.data_type()));
        if gathers {
            return Multiplied::AllByRows;
        }
        if is_long {
            how = Multiplied::ByRows;
        }
    }
    how
}

/// The operator with inputs that are measured, if any of their columns are written out.
fn measured(
    node: Arc<dyn ExecutionPlan>,
    pool: &Arc<dyn MemoryPool>,
    how: Multiplied,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_written_out = |input: &Arc<dyn ExecutionPlan>| {
        input.schema().fields().iter().any(|field| is_written_out(field.data_type()))
    };
    let is_by_batches = matches!(how, Multiplied::Joined | Multiplied::ByBatches);
    if is_by_batches && !node.children().into_iter().any(is_written_out) {
        return Ok(Transformed::no(node));
    }
    let name = node.name().to_string();
    let made = node.output_partitioning().partition_count();
    let mut measures = Vec::new();
    let inputs = node.children().into_iter().map(|input| {
        if is_by_batches && !is_written_out(input) {
            return input.clone();
        }
        let memory = MemoryConsumer::new(&name).register(pool);
        let streams = input.output_partitioning().partition_count().max(made);
        let measure =
            Arc::new(Measure { how, streams, seen: Mutex::new(Seen { memory, ..Seen::new(pool) }) });
        measures.push(measure.clone());
        Arc::new(BoundExec { input: input.clone(), work: Work::Measure(measure) }) as Arc<dyn ExecutionPlan>
    });
    let inputs: Vec<_> = inputs.collect();
    let node = node.replace_children(inputs, SAME_PROPERTIES)?;
    // What was reserved for the operator stays so until its own rows are gone.
    Ok(Transformed::yes(Arc::new(BoundExec { input: node, work: Work::Hold(measures) })))
}

fn is_written_out(data_type: &DataType) -> bool {
    is_long(data_type) && !matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// What is known of an operator's input, and reserved for what follows from it.
#[derive(Debug)]
struct Measure {
    how: Multiplied,
    streams: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    rows: u64,
    bytes: u64,
    row_bytes_max: u64,
    /// Rows and bytes of batches that are joined now, and bytes of those before.
    joined: (u64, u64, u64),
    memory: MemoryReservation,
}

impl Seen {
    fn new(pool: &Arc<dyn MemoryPool>) -> Seen {
        let memory = MemoryConsumer::new("rows").register(pool);
        Seen { rows: 0, bytes: 0, row_bytes_max: 0, joined: (0, 0, 0), memory }
    }
}

impl Measure {
    /// Errors: what the operator may make of its rows so far is more than there is memory for.
    fn see(&self, batch: &RecordBatch, batch_rows: usize) -> Result<()> {
        let columns = batch.columns().iter().filter(|column| is_written_out(column.data_type()));
        let columns: Vec<&ArrayRef> = columns.collect();
        let row_bytes = |row: usize| {
            columns.iter().fold(0u64, |sum, column| sum.saturating_add(bytes_at(column.as_ref(), row)))
        };
        let (mut longest, mut sum) = (0, 0u64);
        for bytes in (0..batch.num_rows()).map(row_bytes) {
            longest = longest.max(bytes);
            sum = sum.saturating_add(bytes);
        }
        let mut seen = self.seen.lock().expect("no panic while measuring");
        seen.rows += batch.num_rows() as u64;
        seen.bytes = seen.bytes.saturating_add(batch.get_array_memory_size() as u64);
        seen.row_bytes_max = seen.row_bytes_max.max(longest);
        let under_way = (batch_rows * self.streams) as u64;
        let (rows, bytes, before) = seen.joined;
        seen.joined = match rows >= under_way {
            true => (batch.num_rows() as u64, sum, bytes),
            false => (rows + batch.num_rows() as u64, bytes.saturating_add(sum), before),
        };
        let joined = seen.joined.1.saturating_add(seen.joined.2);
        let batches = seen.row_bytes_max.saturating_mul(under_way);
        let kept = seen.bytes.saturating_mul(2);
        let wanted = match self.how {
            Multiplied::Joined => joined,
            Multiplied::ByBatches => batches,
            Multiplied::Kept => kept,
            Multiplied::ByRows => kept.saturating_add(seen.row_bytes_max.saturating_mul(seen.rows)),
            Multiplied::AllByRows => kept.saturating_add(seen.bytes.saturating_mul(seen.rows)),
        };
        if wanted > SMALL_BYTES || seen.memory.size() > 0 {
            seen.memory.try_resize(usize::try_from(wanted).unwrap_or(usize::MAX))?;
        }
        Ok(())
    }
}

// ---- lists --------------------------------------------------------------------------------------------

fn split_lists(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(unnest) = node.downcast_ref::<UnnestExec>() else { return Ok(Transformed::no(node)) };
    let lists = unnest.list_column_indices();
    let schema = unnest.input().schema();
    let can_be_split =
        |n: usize| matches!(schema.field(n).data_type(), DataType::List(_) | DataType::LargeList(_));
    // Lists of lists that become rows at once are taken apart as a whole.
    if lists.is_empty() || lists.iter().any(|l| l.depth != 1 || !can_be_split(l.index_in_input_schema)) {
        return Ok(Transformed::no(node));
    }
    let lists = lists.iter().map(|l| l.index_in_input_schema).collect();
    let input = unnest.input().clone();
    let split = Arc::new(BoundExec { input, work: Work::SplitLists(lists) });
    node.replace_children(vec![split], SAME_PROPERTIES).map(Transformed::yes)
}

/// The batch in parts, none of which becomes too many rows, or rows that are too long.
fn parts(batch: &RecordBatch, lists: &[usize], batch_rows: usize) -> Result<Vec<RecordBatch>> {
    let others: Vec<&ArrayRef> =
        (0..batch.num_columns()).filter(|n| !lists.contains(n)).map(|n| batch.column(n)).collect();
    let length = |row: usize| lists.iter().map(|n| list_length(batch.column(*n), row)).max().unwrap_or(0);
    let (mut parts, mut first, mut bytes) = (Vec::new(), 0, 0u64);
    for row in 0..batch.num_rows() {
        let beside = others.iter().fold(32u64, |sum, c| sum.saturating_add(bytes_at(c.as_ref(), row)));
        let length = length(row);
        let row_bytes = beside.saturating_mul(length as u64);
        if row > first && bytes.saturating_add(row_bytes) > UNNESTED_BYTES {
            parts.push(batch.slice(first, row - first));
            (first, bytes) = (row, 0);
        }
        bytes = bytes.saturating_add(row_bytes);
        let elements = ((UNNESTED_BYTES / beside).max(1) as usize).min(batch_rows);
        if length > elements {
            if row > first {
                parts.push(batch.slice(first, row - first));
            }
            let one = batch.slice(row, 1);
            for from in (0..length).step_by(elements) {
                parts.push(part_of_row(&one, lists, from, elements)?);
            }
            (first, bytes) = (row + 1, 0);
        }
    }
    if first < batch.num_rows() {
        parts.push(batch.slice(first, batch.num_rows() - first));
    }
    Ok(parts)
}

fn list_length(array: &ArrayRef, row: usize) -> usize {
    if array.is_null(row) {
        return 0;
    }
    match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value_length(row) as usize,
        _ => array.as_list::<i64>().value_length(row) as usize,
    }
}

/// A row with some of the elements of its lists.
fn part_of_row(row: &RecordBatch, lists: &[usize], from: usize, count: usize) -> Result<RecordBatch> {
    fn part<O: OffsetSizeTrait>(array: &ArrayRef, of: &FieldRef, from: usize, count: usize) -> ArrayRef {
        let list = array.as_list::<O>();
        let values = list.value(0);
        let from = from.min(values.len());
        let count = count.min(values.len() - from);
        let offsets = OffsetBuffer::from_lengths([count]);
        let values = values.slice(from, count);
        Arc::new(GenericListArray::<O>::new(of.clone(), offsets, values, None))
    }
    let mut columns = row.columns().to_vec();
    for n in lists {
        let array = &columns[*n];
        if array.is_null(0) {
            continue;
        }
        columns[*n] = match array.data_type().clone() {
            DataType::List(of) => part::<i32>(array, &of, from, count),
            DataType::LargeList(of) => part::<i64>(array, &of, from, count),
            _ => return internal_err!("only lists are split"),
        };
    }
    Ok(RecordBatch::try_new(row.schema(), columns)?)
}

// ---- grouping sets ------------------------------------------------------------------------------------

/// The aggregate, whose batches are so small that they make no more groups than a batch has rows. It reserves what groups
/// take after each batch, and a row is one of a group in every set: a CUBE of 12 columns has 4,096.
fn slice_for_sets(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
    let sets = aggregate.group_expr().groups().len();
    if sets <= 1 || matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned) {
        return Ok(Transformed::no(node));
    }
    let input = Arc::new(BoundExec {
        input: aggregate.input().clone(),
        work: Work::Slice(Slices::GroupingSets(sets)),
    });
    node.replace_children(vec![input], SAME_PROPERTIES).map(Transformed::yes)
}

fn slices(batch: &RecordBatch, rows_max: usize) -> Vec<RecordBatch> {
    let rows_max = rows_max.max(1);
    let starts = (0..batch.num_rows()).step_by(rows_max);
    starts.map(|first| batch.slice(first, rows_max.min(batch.num_rows() - first))).collect()
}

// ---- the operator -------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
enum Work {
    Measure(Arc<Measure>),
    Hold(Vec<Arc<Measure>>),
    SplitLists(Vec<usize>),
    /// Into batches of so many rows at most, in parts of what a batch may have otherwise.
    Slice(Slices),
}

#[derive(Clone, Copy, Debug)]
enum Slices {
    /// Few enough for so many grouping sets.
    GroupingSets(usize),
    /// Few enough for so many bytes of constants in each row.
    Constants(u64),
}

impl Slices {
    fn rows_max(self, batch_rows: usize) -> usize {
        match self {
            Slices::GroupingSets(sets) => batch_rows / sets,
            Slices::Constants(bytes) => usize::try_from(CONSTANTS_BYTES / bytes.max(1)).unwrap_or(usize::MAX),
        }
    }
}

/// Passes its input's rows on, and keeps them within bounds.
#[derive(Debug)]
struct BoundExec {
    input: Arc<dyn ExecutionPlan>,
    work: Work,
}

impl DisplayAs for BoundExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.work {
            Work::Measure(measure) => write!(f, "BoundExec: reserves={:?}", measure.how),
            Work::Hold(_) => write!(f, "BoundExec: keeps"),
            Work::SplitLists(lists) => write!(f, "BoundExec: splits={lists:?}"),
            Work::Slice(slices) => write!(f, "BoundExec: slices={slices:?}"),
        }
    }
}

impl ExecutionPlan for BoundExec {
    fn name(&self) -> &str {
        "BoundExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
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
            (Some(input), true) => Ok(Arc::new(BoundExec { input, work: self.work.clone() })),
            _ => internal_err!("a bound has one input"),
        }
    }
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let input = self.input.execute(partition, context)?;
        let schema = self.input.schema();
        let work = self.work.clone();
        let rows = match work {
            Work::Measure(measure) => input
                .map(move |batch| {
                    let batch = batch?;
                    measure.see(&batch, batch_rows)?;
                    Ok(batch)
                })
                .boxed(),
            Work::Hold(measures) => input.inspect(move |_| _ = &measures).boxed(),
            Work::SplitLists(lists) => input
                .map(move |batch| parts(&batch?, &lists, batch_rows))
                .map_ok(|parts| futures::stream::iter(parts.into_iter().map(Ok)))
                .try_flatten()
                .boxed(),
            Work::Slice(how) => input
                .map_ok(move |batch| slices(&batch, how.rows_max(batch_rows)))
                .map_ok(|slices| futures::stream::iter(slices.into_iter().map(Ok)))
                .try_flatten()
                .boxed(),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

// ---- constants ----------------------------------------------------------------------------------------

fn spread_projection(
    node: Arc<dyn ExecutionPlan>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(node)) };
    let bytes = projection.expr().iter().map(|p| constant_bytes(&p.expr)).fold(0, u64::saturating_add);
    if bytes == 0 {
        return Ok(Transformed::no(node));
    }
    let exprs = projection.expr().iter().map(|p| {
        let expr = spread(&p.expr, pool).unwrap_or_else(|| p.expr.clone());
        ProjectionExpr { expr, alias: p.alias.clone() }
    });
    let work = Work::Slice(Slices::Constants(bytes));
    let input = Arc::new(BoundExec { input: projection.input().clone(), work });
    let exprs = exprs.collect::<Vec<_>>();
    let bounded = ProjectionExec::try_new_with_schema_metadata(exprs, input, &projection.schema())?;
    Ok(Transformed::yes(Arc::new(bounded)))
}

fn spread_aggregate(
    node: Arc<dyn ExecutionPlan>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
    if !matches!(
        aggregate.mode(),
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
    ) {
        return Ok(Transformed::no(node));
    }
    let mut is_changed = false;
    let exprs = aggregate.aggr_expr().iter().map(|e| {
        let all = e.all_expressions();
        let args: Vec<_> = all.args.iter().map(|a| spread(a, pool)).collect();
        if args.iter().all(Option::is_none) {
            return e.clone();
        }
        let args = args.into_iter().zip(&all.args).map(|(new, old)| new.unwrap_or_else(|| old.clone()));
        match e.with_new_expressions(args.collect(), all.order_by_exprs) {
            Some(new) => {
                is_changed = true;
                Arc::new(new)
            }
            None => e.clone(),
        }
    });
    let exprs: Vec<_> = exprs.collect();
    match is_changed {
        true => Ok(Transformed::yes(Arc::new(aggregate.with_new_aggr_exprs(exprs)))),
        false => Ok(Transformed::no(node)),
    }
}
