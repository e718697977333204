//! A table's columns as DataFusion sees them.
//!
//! A provider is made before the snapshot exists; a scan finds the snapshot in the task's context when it
//! starts to run, so planning and the choice of the cut overlap.

use super::overlay::Overlay;
use super::prune;
use super::types;
use async_trait::async_trait;
use base::TableId;
use base::schema::Table;
use colstore::{ColumnPredicate, TableSnapshot, TableStatistics};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics, internal_err};
use datafusion::datasource::TableType;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// One query's snapshots, there before its first batch is asked for.
#[derive(Default)]
pub(super) struct SnapshotCell {
    pub tables: OnceLock<BTreeMap<TableId, Arc<TableSnapshot>>>,
    /// What the open transaction has written.
    pub overlays: BTreeMap<TableId, Arc<Overlay>>,
}

/// A table's column copy.
#[derive(Debug)]
pub(super) struct ColumnTable {
    pub table: Arc<Table>,
    schema: SchemaRef,
    statistics: Option<Arc<TableStatistics>>,
    /// The column number of each field.
    columns: Vec<usize>,
}

impl ColumnTable {
    /// Hidden columns are left out unless `with_hidden`.
    pub fn new(
        table: Arc<Table>,
        with_hidden: bool,
        statistics: Option<Arc<TableStatistics>>,
    ) -> ColumnTable {
        let columns: Vec<usize> =
            (0..table.columns.len()).filter(|c| with_hidden || !table.columns[*c].hidden).collect();
        ColumnTable { schema: types::schema_of(&table, &columns), table, statistics, columns }
    }
}

impl ColumnTable {
    /// The same table with other figures.
    pub fn with_statistics(&self, statistics: Option<Arc<TableStatistics>>) -> ColumnTable {
        ColumnTable {
            table: self.table.clone(),
            schema: self.schema.clone(),
            statistics,
            columns: self.columns.clone(),
        }
    }
}

#[async_trait]
impl TableProvider for ColumnTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
    fn table_type(&self) -> TableType {
        TableType::Base
    }
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Zone maps and partitions only leave out what cannot match.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (projection, schema) = match projection {
            Some(fields) => {
                (fields.iter().map(|f| self.columns[*f]).collect(), Arc::new(self.schema.project(fields)?))
            }
            None => (self.columns.clone(), self.schema.clone()),
        };
        let predicates = prune::predicates(&self.table, filters);
        let partitions = state.config().target_partitions();
        let statistics = match &self.statistics {
            Some(known) => statistics(&self.table, known, &projection),
            None => Statistics::new_unknown(&schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(ColumnScan {
            table: self.table.clone(),
            schema,
            projection,
            predicates,
            limit: limit.filter(|_| filters.is_empty()),
            statistics: Arc::new(statistics),
            properties: Arc::new(properties),
            next_unit: Arc::default(),
        }))
    }
    fn statistics(&self) -> Option<Statistics> {
        self.statistics.as_ref().map(|known| statistics(&self.table, known, &self.columns))
    }
}

fn statistics(table: &Table, known: &TableStatistics, projection: &[usize]) -> Statistics {
    let column = |&number: &usize| {
        let Some(figures) = known.columns.get(number) else { return ColumnStatistics::new_unknown() };
        let bound = |value: &base::Datum| match types::scalar(value, table.columns[number].data_type) {
            Some(scalar) => Precision::Inexact(scalar),
            None => Precision::Absent,
        };
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.null_count = Precision::Inexact(figures.nulls);
        if let Some((low, high)) = &figures.bounds {
            statistics.min_value = bound(low);
            statistics.max_value = bound(high);
        }
        if let Some(distinct) = figures.distinct {
            statistics.distinct_count = Precision::Inexact(distinct);
        }
        statistics
    };
    Statistics {
        // The snapshot is newer than these figures: never exact.
        num_rows: Precision::Inexact(known.rows),
        total_byte_size: Precision::Absent,
        column_statistics: projection.iter().map(column).collect(),
    }
}

/// Reads the pieces of one table's snapshot; streams take the next piece as they get there.
#[derive(Debug)]
pub(super) struct ColumnScan {
    pub table: Arc<Table>,
    schema: SchemaRef,
    projection: Vec<usize>,
    predicates: Vec<ColumnPredicate>,
    limit: Option<usize>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    next_unit: Arc<AtomicUsize>,
}

impl DisplayAs for ColumnScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> =
            self.projection.iter().map(|c| self.table.columns[*c].name.as_str()).collect();
        write!(f, "ColumnScan: table={}, columns=[{}]", self.table.name, columns.join(", "))?;
        if !self.predicates.is_empty() {
            write!(f, ", pruning={}", self.predicates.len())?;
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
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
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
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let cell = context.session_config().get_extension::<SnapshotCell>();
        let snapshot = cell.as_ref().and_then(|c| c.tables.get()).and_then(|t| t.get(&self.table.id));
        let Some(snapshot) = snapshot.cloned() else {
            return internal_err!("no snapshot of {} was opened", self.table.name);
        };
        let overlay = cell.as_ref().and_then(|c| c.overlays.get(&self.table.id)).cloned();
        let mut read = Read {
            snapshot,
            schema: self.schema.clone(),
            projection: self.projection.clone(),
            predicates: self.predicates.clone(),
            next_unit: self.next_unit.clone(),
            current: None,
            left: self.limit.unwrap_or(usize::MAX),
            own: match &overlay {
                // The transaction's own rows come once.
                Some(overlay) if partition == 0 => Some(overlay.rows(&self.projection)?),
                _ => None,
            },
            overlay,
        };
        let batches = futures::stream::iter(std::iter::from_fn(move || read.next().transpose()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches)))
    }
}

/// One stream's way through the pieces.
struct Read {
    snapshot: Arc<TableSnapshot>,
    schema: SchemaRef,
    projection: Vec<usize>,
    predicates: Vec<ColumnPredicate>,
    next_unit: Arc<AtomicUsize>,
    current: Option<colstore::Scan>,
    left: usize,
    overlay: Option<Arc<Overlay>>,
    own: Option<RecordBatch>,
}

impl Read {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(own) = self.own.take() {
            return self.shaped(own);
        }
        while self.left > 0 {
            if let Some(batch) = self.current.as_mut().and_then(Iterator::next) {
                let batch = match &self.overlay {
                    Some(overlay) => overlay.without_written(batch, self.projection.len())?,
                    None => batch,
                };
                if batch.num_rows() > 0 {
                    return self.shaped(batch);
                }
                continue;
            }
            let unit = self.next_unit.fetch_add(1, Ordering::Relaxed);
            if unit >= self.snapshot.unit_count() {
                return Ok(None);
            }
            if !self.snapshot.unit_may_match(unit, &self.predicates) {
                continue;
            }
            self.current = Some(match &self.overlay {
                // Its key says whether the transaction has written a row.
                Some(overlay) => {
                    let columns = overlay.with_key(&self.projection);
                    self.snapshot.scan(unit, &columns, &self.predicates)
                }
                None => self.snapshot.scan(unit, &self.projection, &self.predicates),
            });
        }
        Ok(None)
    }

    /// The batch with the plan's own schema and not beyond the limit.
    fn shaped(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let batch = if batch.num_rows() > self.left { batch.slice(0, self.left) } else { batch };
        self.left -= batch.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns()[..self.schema.fields().len()].to_vec();
        let shaped = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        shaped.map(Some).map_err(DataFusionError::from)
    }
}
