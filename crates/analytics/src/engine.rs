//! DataFusion's surroundings: configuration, memory, functions.

use super::collapse::CollapsePlanner;
use super::interruption;
use super::kept_plans::KeptPlans;
use super::memory::RowsMemory;
use super::node_context::NodeContext;
use super::shared::SharedPlanner;
use super::system::SystemTables;
use async_trait::async_trait;
use base::TableId;
use base::error::SqlResult;
use colstore::TableStatistics;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::{QueryPlanner, SessionContext};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What all analytical queries of a gateway share.
pub struct Analytics {
    pub node: Arc<NodeContext>,
    pub state: SessionState,
    /// What queries, and rows that sessions keep, take together.
    pub memory: Arc<dyn MemoryPool>,
    pub system: SystemTables,
    /// How operators are planned: by PostgreSQL's rules first.
    pub operators: Vec<Arc<dyn ExprPlanner>>,
    /// Figures of tables as they were last seen, for planning before the snapshot is there.
    pub statistics: Mutex<BTreeMap<TableId, KnownStatistics>>,
    /// Plans of texts that have come before.
    pub plans: KeptPlans,
}

impl Analytics {
    /// Each query may use so many threads; all of them, and the rows that sessions keep, so much memory together.
    pub fn new(node: Arc<NodeContext>, query_threads: usize, memory_bytes: usize) -> SqlResult<Analytics> {
        Analytics::build(node, query_threads, memory_bytes).map_err(super::error::sql_error)
    }

    /// Memory for rows that a session keeps as values.
    pub fn rows_memory(&self, what: &str) -> RowsMemory {
        let hint = "Read fewer rows or columns at a time, or raise --query-memory-mib.";
        RowsMemory::new(&self.memory, what, usize::MAX, hint)
    }

    fn build(node: Arc<NodeContext>, query_threads: usize, memory_bytes: usize) -> Result<Analytics> {
        let mut session = SessionConfig::new()
            .with_target_partitions(query_threads.max(1))
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
        let memory: Arc<dyn MemoryPool> = Arc::new(super::memory::SharedPool::new(memory_bytes));
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
            .with_physical_optimizer_rules(interruption::physical_rules(PhysicalOptimizer::new().rules))
            .build();
        let context = SessionContext::new_with_state(state);
        let system = SystemTables::install(&context)?;
        super::functions::install(&context);
        super::clocks::functions(&node.cluster).into_iter().for_each(|clock| context.register_udf(clock));
        let state = context.state();
        let mut operators: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(super::scalars::Operators)];
        operators.extend(state.expr_planners().iter().cloned());
        let plans = KeptPlans::new(memory.clone());
        Ok(Analytics { node, state, memory, system, operators, statistics: Mutex::default(), plans })
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
pub struct KnownStatistics {
    pub figures: Arc<TableStatistics>,
    pub uses: u32,
}
