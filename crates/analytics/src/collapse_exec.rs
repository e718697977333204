//! The operator that makes one row of neighbours with equal keys.
//!
//! IN: batches, rows in any order. OUT: per run of rows with equal keys inside a batch, the keys and what
//! the rows come to. A stream whose runs turn out short stops looking for them: then every row is a run.

use super::collapse::Kind;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, UInt32Array};
use datafusion::arrow::compute::{BatchCoalescer, partition, take};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase,
    FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::TryStreamExt;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Collapses runs of its input.
#[derive(Debug)]
pub(super) struct CollapseExec {
    input: Arc<dyn ExecutionPlan>,
    /// Fields of the input.
    keys: Vec<usize>,
    partials: Vec<(Kind, Arc<dyn PhysicalExpr>)>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Rows to look at before a stream decides whether looking for runs pays.
const JUDGED_ROWS: usize = 32_768;
/// With more runs per row than this it does not.
const RUNS_SHARE_MAX: f64 = 0.7;

impl CollapseExec {
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        keys: Vec<usize>,
        partials: Vec<(Kind, Arc<dyn PhysicalExpr>)>,
        schema: SchemaRef,
    ) -> CollapseExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties);
        let metrics = ExecutionPlanMetricsSet::new();
        CollapseExec { input, keys, partials, schema, properties, metrics }
    }
}

impl DisplayAs for CollapseExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&str> =
            self.schema.fields()[..self.keys.len()].iter().map(|f| f.name().as_str()).collect();
        let partials: Vec<String> = self.partials.iter().map(|(kind, e)| format!("{kind:?}({e})")).collect();
        write!(f, "CollapseExec: keys=[{}], partials=[{}]", keys.join(", "), partials.join(", "))
    }
}

impl ExecutionPlan for CollapseExec {
    fn name(&self) -> &str {
        "CollapseExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for (_, argument) in &self.partials {
            if visit(argument)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a collapse has one input");
        };
        let (keys, partials) = (self.keys.clone(), self.partials.clone());
        Ok(Arc::new(CollapseExec::new(input, keys, partials, self.schema.clone())))
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }
    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        // No more runs than rows, and about as many as the keys have different values.
        let mut distinct =
            self.keys.iter().map(|key| inputs[0].column_statistics[*key].distinct_count.get_value());
        let groups =
            distinct.try_fold(1usize, |all, count| count.map(|count| all.saturating_mul(*count.max(&1))));
        let rows = inputs[0].num_rows.get_value().map(|rows| groups.unwrap_or(*rows).min(*rows));
        let keys = self.keys.iter().map(|key| inputs[0].column_statistics[*key].clone());
        let partials = self.partials.iter().map(|_| ColumnStatistics::new_unknown());
        Ok(Arc::new(Statistics {
            num_rows: rows.map_or(Precision::Absent, Precision::Inexact),
            total_byte_size: Precision::Absent,
            column_statistics: keys.chain(partials).collect(),
        }))
    }
    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // Rows of one run agree in their keys: a filter over those takes all or none.
        let keys = (0..self.keys.len()).collect();
        let child = ChildFilterDescription::from_child_with_allowed_indices(&filters, keys, &self.input)?;
        Ok(FilterDescription::new().with_child(child))
    }
    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let batch_rows = context.session_config().batch_size();
        let runs = Runs {
            keys: self.keys.clone(),
            partials: self.partials.clone(),
            schema: self.schema.clone(),
            rows: 0,
            runs: 0,
        };
        let out = BatchCoalescer::new(self.schema.clone(), batch_rows)
            .with_biggest_coalesce_batch_size(Some(batch_rows / 2));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let state = (input, runs, out, metrics, false);
        let batches = futures::stream::try_unfold(state, |mut state| async move {
            let (input, runs, out, metrics, is_finished) = &mut state;
            loop {
                if let Some(batch) = out.next_completed_batch() {
                    metrics.record_output(batch.num_rows());
                    return Ok(Some((batch, state)));
                }
                if *is_finished {
                    return Ok(None);
                }
                let batch = input.try_next().await?;
                let timer = metrics.elapsed_compute().timer();
                match batch {
                    Some(batch) => out.push_batch(runs.collapse(&batch)?)?,
                    None => {
                        *is_finished = true;
                        out.finish_buffered_batch()?;
                    }
                }
                timer.done();
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches)))
    }
}

/// One stream's work.
struct Runs {
    keys: Vec<usize>,
    partials: Vec<(Kind, Arc<dyn PhysicalExpr>)>,
    schema: SchemaRef,
    /// Rows and runs so far.
    rows: usize,
    runs: usize,
}

impl Runs {
    fn collapse(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = self.keys.iter().map(|key| batch.column(*key).clone()).collect();
        let arguments = self.partials.iter().map(|(kind, argument)| {
            let values = argument.evaluate(batch)?.into_array(batch.num_rows())?;
            Ok((*kind, values))
        });
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let types = self.schema.fields()[self.keys.len()..].iter().map(|f| f.data_type());
        let is_long = self.rows < JUDGED_ROWS || self.runs as f64 <= self.rows as f64 * RUNS_SHARE_MAX;
        let count = if is_long && batch.num_rows() > 0 {
            let runs = partition(&columns)?.ranges();
            self.rows += batch.num_rows();
            self.runs += runs.len();
            let firsts: UInt32Array = runs.iter().map(|run| Some(run.start as u32)).collect();
            columns = columns.iter().map(|c| take(c.as_ref(), &firsts, None)).collect::<Result<_, _>>()?;
            for ((kind, values), data_type) in arguments.iter().zip(types) {
                columns.push(of_runs(*kind, values, &runs, data_type)?);
            }
            runs.len()
        } else {
            for ((kind, values), data_type) in arguments.iter().zip(types) {
                columns.push(of_rows(*kind, values, data_type)?);
            }
            batch.num_rows()
        };
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(DataFusionError::from)
    }
}

/// The partial aggregate of each run.
fn of_runs(kind: Kind, values: &ArrayRef, runs: &[Range<usize>], data_type: &DataType) -> Result<ArrayRef> {
    let nulls = values.logical_nulls();
    let valid = |run: &Range<usize>| match &nulls {
        None => run.len(),
        Some(nulls) => run.clone().filter(|row| nulls.is_valid(*row)).count(),
    };
    Ok(match (kind, data_type) {
        (Kind::Count, _) => Arc::new(Int64Array::from_iter_values(runs.iter().map(|r| valid(r) as i64))),
        (Kind::Sum, DataType::Decimal128(..)) => {
            let units = values.as_primitive::<Decimal128Type>().values();
            let sum = |run: &Range<usize>| {
                let rows = run.clone().filter(|row| nulls.as_ref().is_none_or(|n| n.is_valid(*row)));
                rows.map(|row| units[row]).reduce(i128::wrapping_add)
            };
            let sums: Decimal128Array = runs.iter().map(sum).collect();
            Arc::new(sums.with_data_type(data_type.clone()))
        }
        (Kind::Sum, _) => {
            let numbers = values.as_primitive::<Int64Type>().values();
            let sum = |run: &Range<usize>| {
                let rows = run.clone().filter(|row| nulls.as_ref().is_none_or(|n| n.is_valid(*row)));
                rows.map(|row| numbers[row]).reduce(i64::wrapping_add)
            };
            Arc::new(runs.iter().map(sum).collect::<Int64Array>())
        }
    })
}

/// The partial aggregate of each row by itself.
fn of_rows(kind: Kind, values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match (kind, data_type) {
        (Kind::Count, _) => {
            let nulls = values.logical_nulls();
            let is_valid = |row| i64::from(nulls.as_ref().is_none_or(|n| n.is_valid(row)));
            Arc::new(Int64Array::from_iter_values((0..values.len()).map(is_valid)))
        }
        (Kind::Sum, DataType::Decimal128(..)) => {
            let units = values.as_primitive::<Decimal128Type>().clone();
            Arc::new(units.with_data_type(data_type.clone()))
        }
        (Kind::Sum, _) => values.clone(),
    })
}
