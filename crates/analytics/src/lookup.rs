//! What names mean in a query: tables, functions, types.

use super::context::Context;
use super::engine::Analytics;
use super::provider::ColumnTable;
use super::system;
use base::TableId;
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion::logical_expr::{AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF};
use std::sync::Arc;

/// What names mean in one query.
pub(super) struct Names<'a> {
    pub analytics: &'a Analytics,
    pub context: &'a Context<'a>,
    /// Tables whose hidden columns have names too: those that the statement writes.
    pub hidden: &'a [TableId],
    /// The system catalog's columns only stand for PostgreSQL's types.
    pub asks_catalog: bool,
}

impl Names<'_> {
    fn table(&self, name: &TableReference) -> Result<Arc<dyn TableSource>> {
        let (catalog, path) = (self.context.catalog, self.context.search_path);
        if name.catalog().is_some_and(|database| database != self.context.database) {
            let error = sql::names::cross_database(&name.to_string());
            return Err(DataFusionError::External(Box::new(error)));
        }
        let found =
            sql::temporary::schemas(name.schema(), path).find_map(|s| catalog.table_named(s, name.table()));
        if let Some(table) = found {
            // The statement was held against its privileges already; a name that was read otherwise there is not here.
            if !self.context.has_some_right(table) {
                let error = sql::privileges::denied("table", &table.name);
                return Err(DataFusionError::External(Box::new(error)));
            }
            let statistics = self.analytics.statistics.lock().expect("no panic while counting");
            let known = statistics.get(&table.id).map(|k| k.figures.clone());
            return Ok(provider_as_source(Arc::new(ColumnTable::new(
                table.clone(),
                self.hidden.contains(&table.id),
                known,
            ))));
        }
        if let Some(provider) = system::table(self.context, name)? {
            return Ok(provider_as_source(provider));
        }
        let shown = match name.schema() {
            Some(schema) => format!("{schema}.{}", name.table()),
            None => name.table().to_string(),
        };
        Err(DataFusionError::External(Box::new(base::SqlError::new(
            base::SqlState::UNDEFINED_TABLE,
            format!("relation \"{shown}\" does not exist"),
        ))))
    }
}

impl ContextProvider for Names<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        self.table(&name)
    }
    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let Some(function) = self.analytics.state.table_functions().get(name) else {
            return plan_err!("Invalid function '{name}'");
        };
        let arguments = datafusion::catalog::TableFunctionArgs::new(&args, &self.analytics.state);
        Ok(provider_as_source(function.create_table_provider_with_args(arguments)?))
    }
    fn create_cte_work_table(
        &self,
        name: &str,
        schema: datafusion::arrow::datatypes::SchemaRef,
    ) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(datafusion::datasource::cte_worktable::CteWorkTable::new(
            name, schema,
        ))))
    }
    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        if self.asks_catalog { self.analytics.state.expr_planners() } else { &self.analytics.operators }
    }
    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(super::types::SqlTypes))
    }
    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        system::function(self.context, name)
            .or_else(|| super::domains::function(self.context, name))
            .or_else(|| super::row_values::function(self.context.catalog, name))
            .or_else(|| super::folds::function(self.context, name))
            .or_else(|| super::json_functions::over_types(self.context.catalog, name))
            .or_else(|| self.analytics.state.scalar_functions().get(name).cloned())
    }
    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.analytics.state.higher_order_functions().get(name).cloned()
    }
    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        if !self.asks_catalog && name == "avg" {
            return Some(Arc::new(super::averages::function()));
        }
        self.analytics.state.aggregate_functions().get(name).cloned()
    }
    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.analytics.state.window_functions().get(name).cloned()
    }
    fn get_variable_type(&self, _: &[String]) -> Option<Arrow> {
        None
    }
    fn options(&self) -> &ConfigOptions {
        self.analytics.state.config_options()
    }
    fn udf_names(&self) -> Vec<String> {
        self.analytics.state.scalar_functions().keys().cloned().collect()
    }
    fn higher_order_function_names(&self) -> Vec<String> {
        self.analytics.state.higher_order_functions().keys().cloned().collect()
    }
    fn udaf_names(&self) -> Vec<String> {
        self.analytics.state.aggregate_functions().keys().cloned().collect()
    }
    fn udwf_names(&self) -> Vec<String> {
        self.analytics.state.window_functions().keys().cloned().collect()
    }
}
