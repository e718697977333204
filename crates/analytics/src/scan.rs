//! Reading a column copy: pieces in turn, filters first, other columns only where a row is left.
//!
//! The scan takes the filters above it into itself, and those that joins and sorts find out while they
//! run. KEEPS: of the rows that the snapshot and the transaction's own writes show, exactly those leave
//! that satisfy all static filters; a filter found at run time may let more through.

use super::filters::{Filters, over_table};
use super::overlay::Overlay;
use super::provider::SnapshotCell;
use base::schema::Table;
use colstore::{Block, ColumnPredicate, TableSnapshot};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads the pieces of one table's snapshot; streams take the next piece as they get there.
#[derive(Clone, Debug)]
pub(super) struct ColumnScan {
    pub table: Arc<Table>,
    schema: SchemaRef,
    /// Column number of each field.
    projection: Vec<usize>,
    predicates: Vec<ColumnPredicate>,
    /// Their columns are columns of the table, by number.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    limit: Option<usize>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    next_unit: Arc<AtomicUsize>,
    metrics: ExecutionPlanMetricsSet,
}

impl ColumnScan {
    pub fn new(table: Arc<Table>, schema: SchemaRef, projection: Vec<usize>, streams: usize) -> ColumnScan {
        ColumnScan {
            table,
            projection,
            predicates: Vec::new(),
            filters: Vec::new(),
            limit: None,
            statistics: Arc::new(Statistics::new_unknown(&schema)),
            properties: Arc::new(properties(&schema, streams)),
            schema,
            next_unit: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub fn pruned(self, predicates: Vec<ColumnPredicate>, limit: Option<usize>) -> ColumnScan {
        ColumnScan { predicates, limit, ..self }
    }

    pub fn with_statistics(self, statistics: Statistics) -> ColumnScan {
        ColumnScan { statistics: Arc::new(statistics), ..self }
    }
}

fn properties(schema: &SchemaRef, streams: usize) -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(schema.clone()),
        Partitioning::UnknownPartitioning(streams),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

impl DisplayAs for ColumnScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> =
            self.projection.iter().map(|c| self.table.columns[*c].name.as_str()).collect();
        write!(f, "ColumnScan: table={}, columns=[{}]", self.table.name, columns.join(", "))?;
        if !self.predicates.is_empty() {
            write!(f, ", pruning={}", self.predicates.len())?;
        }
        if !self.filters.is_empty() {
            let filters: Vec<String> = self.filters.iter().map(ToString::to_string).collect();
            write!(f, ", filters=[{}]", filters.join(", "))?;
        }
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ColumnScan {
    fn name(&self) -> &str {
        "ColumnScan"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }
    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in &self.filters {
            if visit(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("a scan has no inputs");
        }
        Ok(self)
    }
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // Recursion reads the table once per step.
        let mut fresh = self.as_ref().clone();
        fresh.next_unit = Arc::default();
        fresh.metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(fresh))
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        if arguments.partition().is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema)));
        }
        Ok(self.statistics.clone())
    }
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let fields: Option<Vec<usize>> =
            projection.expr().iter().map(|p| p.expr.downcast_ref::<Column>().map(Column::index)).collect();
        let Some(fields) = fields else { return Ok(None) };
        let mut scan = self.clone();
        scan.schema = projection.schema();
        scan.projection = fields.iter().map(|f| self.projection[*f]).collect();
        let mut statistics = self.statistics.as_ref().clone();
        statistics.column_statistics =
            fields.iter().map(|f| self.statistics.column_statistics[*f].clone()).collect();
        scan.statistics = Arc::new(statistics);
        let streams = self.properties.partitioning.partition_count();
        scan.properties = Arc::new(properties(&scan.schema, streams));
        Ok(Some(Arc::new(scan)))
    }
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // A filter above a limit sees fewer rows than one below it.
        if self.limit.is_some() || result.parent_filters.is_empty() {
            return Ok(FilterPushdownPropagation::all_unsupported(result));
        }
        let mut scan = self.clone();
        for filter in &result.parent_filters {
            scan.filters.push(over_table(&filter.filter, &self.projection)?);
        }
        // What is found out later is a hint: whoever found it looks again.
        let answer = match phase {
            FilterPushdownPhase::Pre => PushedDown::Yes,
            FilterPushdownPhase::Post => PushedDown::No,
        };
        let answers = vec![answer; result.parent_filters.len()];
        let taken = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        Ok(taken.with_updated_node(Arc::new(scan)))
    }
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let cell = context.session_config().get_extension::<SnapshotCell>();
        let snapshot = cell.as_ref().and_then(|c| c.tables.get()).and_then(|t| t.get(&self.table.id));
        let snapshot = snapshot.cloned();
        let overlay = cell.as_ref().and_then(|c| c.overlays.get(&self.table.id)).cloned();
        if snapshot.is_none() && !overlay.as_ref().is_some_and(|o| o.is_whole) {
            return internal_err!("no snapshot of {} was opened", self.table.name);
        }
        let batch_rows = context.session_config().batch_size();
        let mut small = BatchCoalescer::new(self.schema.clone(), batch_rows);
        small = small.with_biggest_coalesce_batch_size(Some(batch_rows / 4));
        let mut read = Read {
            snapshot,
            schema: self.schema.clone(),
            projection: self.projection.clone(),
            predicates: self.predicates.clone(),
            filters: Filters::new(&self.table, &self.filters),
            next_unit: self.next_unit.clone(),
            blocks: Vec::new().into_iter(),
            left: self.limit.unwrap_or(usize::MAX),
            // The transaction's own rows come once.
            own: overlay.is_some() && partition == 0,
            overlay,
            small,
            is_finished: false,
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let next = move || {
            let timer = metrics.elapsed_compute().timer();
            let batch = read.next();
            timer.done();
            if let Ok(Some(batch)) = &batch {
                metrics.record_output(batch.num_rows());
            }
            batch.transpose()
        };
        let batches = futures::stream::iter(std::iter::from_fn(next));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches)))
    }
}

/// One stream's way through the pieces.
struct Read {
    /// `None`: the transaction's own rows are all there are.
    snapshot: Option<Arc<TableSnapshot>>,
    schema: SchemaRef,
    projection: Vec<usize>,
    predicates: Vec<ColumnPredicate>,
    filters: Filters,
    next_unit: Arc<AtomicUsize>,
    blocks: std::vec::IntoIter<Block>,
    left: usize,
    overlay: Option<Arc<Overlay>>,
    own: bool,
    /// Collects what filters left of blocks.
    small: BatchCoalescer,
    is_finished: bool,
}

impl Read {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.small.next_completed_batch() {
                return Ok(Some(batch));
            }
            if self.is_finished {
                return Ok(None);
            }
            match self.next_block()? {
                Some(batch) if self.filters.is_empty() => return Ok(Some(batch)),
                Some(batch) => self.small.push_batch(batch)?,
                None => {
                    self.is_finished = true;
                    self.small.finish_buffered_batch()?;
                }
            }
        }
    }

    /// What is left of the next block that has something left.
    fn next_block(&mut self) -> Result<Option<RecordBatch>> {
        if std::mem::take(&mut self.own)
            && let Some(overlay) = &self.overlay
        {
            let own = overlay.rows(&self.filters.columns_with(&self.projection))?;
            let own = self.filters.of_batch(&self.projection, own)?;
            return self.shaped(own).map(Some);
        }
        let Some(snapshot) = self.snapshot.clone() else { return Ok(None) };
        while self.left > 0 {
            let Some(block) = self.blocks.next() else {
                let unit = self.next_unit.fetch_add(1, Ordering::Relaxed);
                if unit >= snapshot.unit_count() {
                    return Ok(None);
                }
                self.blocks = snapshot.blocks(unit).collect::<Vec<_>>().into_iter();
                continue;
            };
            self.filters.refresh()?;
            if !block.may_match(&self.predicates) || !self.filters.may_match(&block) {
                continue;
            }
            let batch = match &self.overlay {
                // Its key says whether the transaction has written a row.
                Some(overlay) => {
                    let wanted = self.filters.columns_with(&self.projection);
                    let batch = block.batch(&overlay.with_key(&wanted), &block.visible());
                    let batch = overlay.without_written(batch, wanted.len())?;
                    self.filters.of_batch(&self.projection, batch)?
                }
                None => match self.filters.of_block(&block, &self.projection)? {
                    Some(batch) => batch,
                    None => continue,
                },
            };
            if batch.num_rows() > 0 {
                return self.shaped(batch).map(Some);
            }
        }
        Ok(None)
    }

    /// The batch with the plan's own schema and not beyond the limit.
    fn shaped(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = if batch.num_rows() > self.left { batch.slice(0, self.left) } else { batch };
        self.left -= batch.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns()[..self.schema.fields().len()].to_vec();
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(DataFusionError::from)
    }
}
