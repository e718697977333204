//! DataFusion's surroundings: configuration, memory, functions, and what names mean.

use super::collapse::CollapsePlanner;
use super::interruption;
use super::plan::QueryPlan;
use super::provider::ColumnTable;
use super::shared::SharedPlanner;
use super::system;
use crate::gateway::GatewayConfig;
use crate::session::Context;
use async_trait::async_trait;
use base::TableId;
use base::error::SqlResult;
use colstore::TableStatistics;
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::catalog::Session;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::{QueryPlanner, SessionContext};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What all analytical queries of a gateway share.
pub(crate) struct Analytics {
    pub state: SessionState,
    /// What queries, and rows that sessions keep, take together.
    pub memory: Arc<dyn MemoryPool>,
    pub system: system::SystemTables,
    /// How operators are planned: by PostgreSQL's rules first.
    pub operators: Vec<Arc<dyn ExprPlanner>>,
    /// Figures of tables as they were last seen, for planning before the snapshot is there.
    pub statistics: Mutex<BTreeMap<TableId, KnownStatistics>>,
    /// Plans by search path and text, each with its catalog version.
    pub plans: Mutex<BTreeMap<(String, String), (u64, Arc<QueryPlan>)>>,
}

impl Analytics {
    pub fn new(config: &GatewayConfig) -> SqlResult<Analytics> {
        Analytics::build(config).map_err(super::error::sql_error)
    }

    fn build(config: &GatewayConfig) -> Result<Analytics> {
        let mut session = SessionConfig::new()
            .with_target_partitions(config.query_threads.max(1))
            .with_batch_size(8192)
            .with_default_catalog_and_schema("meridian", "public")
            .with_information_schema(false);
        let options = session.options_mut();
        options.sql_parser.parse_float_as_decimal = true;
        options.sql_parser.enable_options_value_normalization = false;
        options.execution.collect_statistics = true;
        // `now()` has a zone, and what is computed from it.
        options.execution.time_zone = Some("+00:00".into());
        // Grouping before the groups are dealt out is given up early where most rows are groups of their own.
        options.execution.skip_partial_aggregation_probe_rows_threshold = 16_384;
        // What counts below a collapse may be null for the planner; it never is.
        options.execution.skip_physical_aggregate_schema_check = true;
        // One hash table of the smaller side, built once and probed by all threads, costs less than dealing
        // out both sides by hash, as long as there are few threads.
        options.optimizer.hash_join_single_partition_threshold = 256 << 20;
        options.optimizer.hash_join_single_partition_threshold_rows = 4 << 20;
        // Tables are small enough that dealing rows out pays only from some thousands on.
        options.optimizer.repartition_file_scans = false;
        let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(config.query_memory_bytes));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(memory.clone())
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled))
            .build_arc()?;
        let mut analyzer_rules = interruption::analyzer_rules(Analyzer::new().rules);
        analyzer_rules.push(Arc::new(super::checks::CheckIntegers::new()));
        analyzer_rules.push(Arc::new(super::memory::AccountFunctions::new(memory.clone())));
        let state = SessionStateBuilder::new()
            .with_config(session)
            .with_runtime_env(runtime)
            .with_default_features()
            .with_query_planner(Arc::new(Planner))
            .with_analyzer_rules(analyzer_rules)
            .with_optimizer_rules(interruption::optimizer_rules(Optimizer::new().rules))
            .with_physical_optimizer_rules(interruption::physical_rules(super::same_names::kept_apart(
                PhysicalOptimizer::new().rules,
            )))
            .build();
        let context = SessionContext::new_with_state(state);
        let system = system::SystemTables::install(&context)?;
        super::functions::install(&context);
        let state = context.state();
        let mut operators: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(super::scalars::Operators)];
        operators.extend(state.expr_planners().iter().cloned());
        Ok(Analytics {
            state,
            memory,
            system,
            operators,
            statistics: Mutex::default(),
            plans: Mutex::default(),
        })
    }
}

/// DataFusion's planner, which knows our operators too.
#[derive(Debug)]
struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(CollapsePlanner),
            Arc::new(SharedPlanner::default()),
        ]);
        planner.create_physical_plan(plan, session).await
    }
}

/// A table's figures and how often they were used since they were taken.
pub(crate) struct KnownStatistics {
    pub figures: Arc<TableStatistics>,
    pub uses: u32,
}

/// What names mean in one query.
pub(super) struct Names<'a> {
    pub analytics: &'a Analytics,
    pub context: &'a Context<'a>,
    /// Hidden columns have names too.
    pub with_hidden: bool,
    /// The system catalog's columns only stand for PostgreSQL's types.
    pub asks_catalog: bool,
}

impl Names<'_> {
    fn table(&self, name: &TableReference) -> Result<Arc<dyn TableSource>> {
        let (catalog, path) = (self.context.catalog, self.context.search_path);
        let found = match name.schema() {
            Some(schema) => catalog.table_named(schema, name.table()),
            None => path.iter().find_map(|schema| catalog.table_named(schema, name.table())),
        };
        if let Some(table) = found {
            let statistics = self.analytics.statistics.lock().expect("no panic while counting");
            let known = statistics.get(&table.id).map(|k| k.figures.clone());
            return Ok(provider_as_source(Arc::new(ColumnTable::new(
                table.clone(),
                self.with_hidden,
                known,
            ))));
        }
        if let Some(provider) = self.analytics.system.table(self.context, name)? {
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
        self.analytics
            .system
            .function(self.context, name)
            .or_else(|| self.analytics.state.scalar_functions().get(name).cloned())
    }
    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.analytics.state.higher_order_functions().get(name).cloned()
    }
    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
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
