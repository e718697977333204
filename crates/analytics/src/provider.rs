//! A table's columns as DataFusion sees them.
//!
//! A provider is made before the snapshot exists; a scan finds the snapshot in the task's context when it
//! starts to run, so planning and the choice of the cut overlap.

use super::overlay::Overlay;
use super::prune;
use super::scan::ColumnScan;
use super::types;
use async_trait::async_trait;
use base::TableId;
use base::schema::Table;
use colstore::{TableSnapshot, TableStatistics};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Constraint, Constraints, Result, Statistics};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use std::collections::BTreeMap;
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
    /// What GROUP BY of the primary key determines.
    constraints: Constraints,
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
        let place = |column: &usize| columns.iter().position(|c| c == column);
        let key: Option<Vec<usize>> = table.primary_key.iter().map(place).collect();
        // Rows of a part of the statement have none.
        let key = key.filter(|key| !key.is_empty());
        let constraints = Constraints::new_unverified(key.map(Constraint::PrimaryKey).into_iter().collect());
        ColumnTable { schema: types::schema_of(&table, &columns), table, statistics, columns, constraints }
    }
}

impl ColumnTable {
    /// The number of the column that a field is.
    pub fn column_number(&self, field: usize) -> Option<usize> {
        self.columns.get(field).copied()
    }

    /// Numbers of the columns that a scan may look at: what it shows, what its filters name, and the key, by which
    /// a transaction's own rows are known.
    pub fn read_by(&self, projection: Option<&Vec<usize>>, filters: &[Expr]) -> Vec<usize> {
        let mut read = match projection {
            Some(fields) => fields.iter().map(|f| self.columns[*f]).collect(),
            None => self.columns.clone(),
        };
        read.extend(&self.table.primary_key);
        let named = filters.iter().flat_map(|filter| filter.column_refs());
        read.extend(named.filter_map(|column| self.table.column_named(&column.name)));
        read
    }

    /// The same table with other figures.
    pub fn with_statistics(&self, statistics: Option<Arc<TableStatistics>>) -> ColumnTable {
        ColumnTable {
            table: self.table.clone(),
            schema: self.schema.clone(),
            statistics,
            columns: self.columns.clone(),
            constraints: self.constraints.clone(),
        }
    }
}

#[async_trait]
impl TableProvider for ColumnTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }
    fn table_type(&self) -> TableType {
        TableType::Base
    }
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // The logical plan keeps its filters, because partitions are chosen by them; the physical plan's
        // go into the scan.
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
        let limit = limit.filter(|_| filters.is_empty());
        let scan = ColumnScan::new(self.table.clone(), schema, projection, partitions);
        Ok(Arc::new(scan.pruned(predicates, limit).with_statistics(statistics)))
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
