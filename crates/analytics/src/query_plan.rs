//! A planned query, and its plan with parameters in it.

use super::error::sql_error;
use super::types;
use base::error::SqlResult;
use base::schema::{Catalog, Table};
use base::{DataType, Datum, SqlError, SqlState, TableId};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use sql::lower::bind::Times;
use sql::types::Column;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A planned query.
#[derive(Clone)]
pub struct QueryPlan {
    /// As written, parameters and all.
    pub(super) written: LogicalPlan,
    /// Optimized, if nothing in it waits for parameters or for the hour.
    pub(super) optimized: Option<LogicalPlan>,
    pub(super) parameters: Vec<DataType>,
    pub columns: Arc<Vec<Column>>,
    /// The types that users have made, as they were when it was planned.
    pub(super) user_types: sql::user_types::Kept,
    /// Tables it reads, as they were when it was planned.
    pub(super) tables: BTreeMap<TableId, Arc<Table>>,
}

pub(super) fn optimize(state: &SessionState, plan: &LogicalPlan) -> SqlResult<LogicalPlan> {
    // What a parameter is, its value says.
    let settled = super::scalars::settle(plan.clone(), false).map_err(sql_error)?;
    let settled = super::groups_over_joins::settle(settled).map_err(sql_error)?;
    let optimized = super::memory::folding(|| state.optimize(&settled)).and_then(super::collapse::collapse);
    optimized.and_then(super::shared::share).map_err(|error| match sql_error(error) {
        // Names were resolved when the plan was made: the planner has lost one of a query around this one.
        e if e.state == SqlState::UNDEFINED_COLUMN => SqlError::unsupported(
            "a subquery of this form that names columns of the query around it, such as LATERAL with LIMIT",
        ),
        e => e,
    })
}

impl QueryPlan {
    /// Whether a cut has to be chosen for it.
    pub fn reads_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// How often it reads a table.
    pub fn scans(&self, table: TableId) -> usize {
        let mut count = 0;
        let counted = self.written.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(provider) = source_as_provider(&scan.source)
                && let Some(columns) = provider.downcast_ref::<super::provider::ColumnTable>()
            {
                count += usize::from(columns.table.id == table);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        counted.map_or(0, |_| count)
    }

    /// Tables it reads.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// Whether its tables are those of a catalog (a transaction may have a catalog of its own).
    pub(super) fn same_tables(&self, catalog: &Catalog) -> bool {
        self.tables.values().all(|t| catalog.table(t.id).is_some_and(|now| Arc::ptr_eq(now, t)))
    }

    /// The plan to run: with parameters and today's time in it.
    pub(super) fn bound(
        &self,
        state: &SessionState,
        values: &[Datum],
        times: Times,
    ) -> SqlResult<LogicalPlan> {
        self.user_types.within(|| self.bound_now(state, values, times))
    }

    fn bound_now(&self, state: &SessionState, values: &[Datum], times: Times) -> SqlResult<LogicalPlan> {
        if let Some(optimized) = &self.optimized {
            return Ok(optimized.clone());
        }
        let mut scalars = Vec::with_capacity(values.len());
        for (value, data_type) in values.iter().zip(&self.parameters) {
            // `numeric` keeps the value's own scale.
            let data_type = match value {
                Datum::Decimal(d) => DataType::Numeric { precision: 38, scale: d.scale() },
                _ => *data_type,
            };
            let scalar = match data_type {
                // As text, which becomes an array of labels where it meets one.
                DataType::Array(of) if of.data_type().enumeration().is_some() && !value.is_null() => {
                    Some(ScalarValue::Utf8(Some(base::text::display_as(value, data_type))))
                }
                _ => types::scalar(value, data_type),
            };
            let scalar = scalar
                .ok_or_else(|| SqlError::internal(format!("a parameter of type {}", data_type.name())))?;
            scalars.push(ScalarAndMetadata::new(scalar, None));
        }
        let plan = match scalars.is_empty() {
            true => self.written.clone(),
            false => {
                let values = ParamValues::List(scalars);
                self.written.clone().replace_params_with_values(&values).map_err(sql_error)?
            }
        };
        let plan = super::clocks::told(plan, times).map_err(sql_error)?;
        optimize(state, &plan)
    }

    /// What the plan takes while it is kept, roughly.
    pub(super) fn kept_bytes(&self, optimized: &LogicalPlan) -> usize {
        super::complexity::kept_bytes(&self.written).saturating_add(super::complexity::kept_bytes(optimized))
    }
}
