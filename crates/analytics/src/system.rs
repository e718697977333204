//! The system catalog: `pg_catalog`, `information_schema`, `meridian`.
//!
//! Tables about user objects are made from the catalog when a query names them; types, operators and
//! the like are PostgreSQL's own, as data of datafusion-pg-catalog. Tables for features that Meridian
//! does not have are empty, and a query that only joins them has no rows: it is answered without being
//! planned, because clients ask such queries in ways DataFusion cannot plan.

mod activity;
mod definitions;
mod descriptions;
mod domains;
mod dump;
mod format_type;
mod function_names;
mod functions;
mod kept_subqueries;
mod opened;
mod partition_functions;
mod partitions;
mod pg_tables;
mod primary_keys;
mod privileges;
mod questions;
mod reflection;
mod routine_names;
mod routines;
mod settings;
mod sizes;
mod time_zones;
mod triggers;
mod type_descriptions;
mod user_types;
mod vectors;
mod views;
mod views_of_users;

use super::context::Context;
use base::element::Element;
use base::{DataType, Datum};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::{Result, TableReference};
use datafusion::logical_expr::ScalarUDF;
use futures::FutureExt;
use std::sync::Arc;

pub(super) use questions::SystemTables;
pub(super) use vectors::is_vector;

/// A made table: column names with types, and rows.
pub(super) struct Made {
    pub columns: Vec<(&'static str, DataType)>,
    pub rows: Vec<Vec<Datum>>,
}

/// A table of the system catalog; `None` if there is none of this name.
pub(super) fn table(context: &Context<'_>, name: &TableReference) -> Result<Option<Arc<dyn TableProvider>>> {
    if let Some(shown) = sql::catalog::without_system_tables(context.catalog) {
        return table(&context.over(&Arc::new(shown)), name);
    }
    let table = name.table();
    if table == "pg_stat_activity" && matches!(name.schema(), None | Some("pg_catalog")) {
        return Ok(Some(Arc::new(activity::ActivityTable::new(context)?)));
    }
    if matches!(name.schema(), None | Some("pg_catalog"))
        && let Some(opened) = opened::OpenedTable::named(context, table)?
    {
        return Ok(Some(Arc::new(opened)));
    }
    let made = match name.schema() {
        None | Some("pg_catalog") => pg_tables::make(context, table)
            .or_else(|| descriptions::make(context, table))
            .or_else(|| dump::tables::make(context, table))
            .or_else(|| partitions::make(context, table))
            .or_else(|| triggers::make(context, table)),
        // The standard knows no materialized views, and other sessions' temporary tables are theirs.
        Some("information_schema") => {
            let shown = sql::catalog::of_standard(context.catalog, context.search_path).map(Arc::new);
            views::information_schema(&context.over(shown.as_ref().unwrap_or(context.catalog)), table)
        }
        Some("meridian") => views::meridian(context, table),
        Some(_) => return Ok(None),
    };
    if let Some(made) = made {
        return made.into_table().map(Some);
    }
    if !matches!(name.schema(), None | Some("pg_catalog")) {
        return Ok(None);
    }
    // Fixed tables are there at once.
    let fixed = context.analytics.system.fixed.table(table).now_or_never().unwrap_or(Ok(None))?;
    match (fixed, table) {
        (Some(fixed), "pg_type") => {
            let domains = &context.catalog.types.domains;
            let field =
                |name: &str| domains.values().map(|d| domains::type_field(context, d, name)).collect();
            user_types::with_own(context, fixed, &field).map(Some)
        }
        (Some(fixed), "pg_proc") => {
            let own = context.catalog.routines.0.values();
            let rows: Vec<_> = own.collect();
            let field = |name: &str| rows.iter().map(|of| routines::field(context, of, name)).collect();
            user_types::appended("pg_proc", fixed, rows.len(), &field).map(Some)
        }
        (Some(fixed), "pg_aggregate") => {
            let own = context.catalog.routines.0.values();
            let rows: Vec<_> = own.filter(|routine| routine.aggregate().is_some()).collect();
            let field =
                |name: &str| rows.iter().map(|of| routines::aggregates::field(context, of, name)).collect();
            user_types::appended("pg_aggregate", fixed, rows.len(), &field).map(Some)
        }
        (fixed, _) => Ok(fixed),
    }
}

/// A function that knows the catalog.
pub(super) fn function(context: &Context<'_>, name: &str) -> Option<Arc<ScalarUDF>> {
    functions::find(context, name)
}

/// Whether a function is one of them.
pub(super) fn has_function(name: &str) -> bool {
    functions::is_one(name)
}

/// `text[]`.
fn texts() -> DataType {
    array_of(DataType::Text)
}

/// The type of arrays of a type that is none itself.
fn array_of(element: DataType) -> DataType {
    Element::of(element).map_or(DataType::Text, DataType::Array)
}

impl Made {
    pub fn new(columns: &[(&'static str, DataType)]) -> Made {
        Made { columns: columns.to_vec(), rows: Vec::new() }
    }

    fn into_table(self) -> Result<Arc<dyn TableProvider>> {
        let fields: Vec<Field> = self
            .columns
            .iter()
            .map(|(name, data_type)| Field::new(*name, colstore::arrow_type(*data_type), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let arrays = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (_, data_type))| {
                let values: Vec<Datum> = self.rows.iter().map(|row| row[i].clone()).collect();
                colstore::array_of(*data_type, &values)
            })
            .collect();
        let batch = RecordBatch::try_new(schema.clone(), arrays)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}
