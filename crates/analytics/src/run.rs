//! Running a planned query: partitions, snapshot, physical plan, batches.

use super::batches::BatchStream;
use super::engine::{Analytics, KnownStatistics};
use super::error::sql_error;
use super::overlay::{Overlay, OwnRows};
use super::plan::fenced;
use super::provider::{ColumnTable, SnapshotCell};
use super::prune;
use super::query_plan::QueryPlan;
use crate::cluster::Cluster;
use base::cut::{Consistency, Freshness};
use base::error::SqlResult;
use base::{Datum, NodeId, PartitionId, Rank, SqlError, TableId, Token};
use colstore::{TableSnapshot, Wanted};
use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use futures::{FutureExt, StreamExt};
use node::request::{OpenSnapshot, Reply, Request, Snapshot, Source};
use sql::cancel::CancelHandle;
use sql::interrupt;
use sql::lower::bind::Times;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// At what cut a query reads.
pub struct How<'a> {
    pub at: Option<Rank>,
    pub consistency: Consistency,
    pub token: Token,
    /// Ends the statement, its planning too.
    pub cancel: CancelHandle,
    /// When the transaction and the statement began.
    pub times: Times,
    /// The open transaction, whose own writes are seen.
    pub transaction: Option<&'a dyn OwnRows>,
    /// All rows of tables that the transaction itself has made or altered.
    pub own_tables: BTreeMap<TableId, Vec<Arc<Vec<Datum>>>>,
}

/// A query under way.
pub struct Answer {
    pub stream: BatchStream,
    /// `None`: it read no table.
    pub token: Option<Token>,
    pub freshness: Option<Freshness>,
    /// What it may have read.
    pub reads: BTreeMap<TableId, BTreeSet<PartitionId>>,
    /// Who gave which partitions, if other readers took part.
    pub sources: Vec<Source>,
    /// Other nodes that the node asked.
    pub asked: BTreeSet<NodeId>,
    /// What runs, and counts while it does.
    pub operators: Operators,
    pub timing: Timing,
}

/// Where the time before the first batch went, from the same start.
#[derive(Clone, Copy, Default)]
pub struct Timing {
    /// Until the physical plan was there.
    pub planned_ns: u64,
    /// Until the snapshot was there: its cut chosen, closed and waited for. Both go on at once if the
    /// tables' figures are known from an earlier query.
    pub opened_ns: u64,
}

/// The operators of a query, for EXPLAIN ANALYZE.
#[derive(Clone)]
pub struct Operators(Arc<dyn ExecutionPlan>);

impl Operators {
    /// What they did, an operator a line.
    pub fn lines(&self) -> Vec<String> {
        let text = DisplayableExecutionPlan::with_metrics(self.0.as_ref()).indent(false).to_string();
        text.lines().map(str::to_string).collect()
    }
}

/// How often figures of a table are used before they are taken again.
const STATISTICS_USES: u32 = 32;

/// Runs a query. Errors: 40001 if the catalog at the cut is not the one it was planned with.
pub async fn run(
    analytics: &Arc<Analytics>,
    plan: &QueryPlan,
    parameters: &[Datum],
    how: How<'_>,
) -> SqlResult<Answer> {
    let mut state = analytics.state.clone();
    state.mark_start_execution();
    let state = Arc::new(state);
    let cancel = how.cancel.clone();
    let logical = bound(analytics, plan, &state, &cancel, parameters, how.times)?;
    let mut reads = reads(analytics, &logical)?;
    let mut cell = SnapshotCell::default();
    for (id, rows) in how.own_tables {
        reads.remove(&id);
        if let Some(table) = plan.tables.get(&id) {
            cell.overlays.insert(id, Arc::new(Overlay::whole(table, rows)));
        }
    }
    if reads.is_empty() {
        let physical = physical_plan(analytics, &state, &cancel, logical)?;
        let operators = Operators(physical.operators.clone());
        let stream = execute(analytics, plan, physical, cell)?;
        let timing = Timing::default();
        let (sources, asked) = (Vec::new(), BTreeSet::new());
        return Ok(Answer { stream, token: None, freshness: None, reads, sources, asked, operators, timing });
    }
    if let Some(transaction) = how.transaction {
        for id in transaction.written_tables() {
            if let Some(table) = plan.tables.get(&id).filter(|_| reads.contains_key(&id)) {
                cell.overlays.insert(id, Arc::new(Overlay::of(table, transaction)));
            }
        }
    }
    let request = Request::OpenSnapshot(OpenSnapshot {
        at: how.at,
        consistency: how.consistency,
        token: how.token,
        tables: reads.clone(),
        wanted: wanted(&logical, &reads)?,
    });
    let start = analytics.node.cluster.now();
    let since_start = || analytics.node.cluster.now().since(start);
    let mut timing = Timing::default();
    let (snapshot, physical) = if has_statistics(analytics, &reads) {
        // The node is asked first: the cut is chosen, closed and waited for while the physical plan is made.
        let opening = async {
            let snapshot = open(analytics.node.cluster.as_ref(), request).await;
            (snapshot, since_start())
        };
        let planning = async {
            let logical = with_statistics(analytics, &logical)?;
            let physical = physical_plan(analytics, &state, &cancel, logical)?;
            Ok::<_, SqlError>((physical, since_start()))
        };
        let ((snapshot, opened_ns), planned) = futures::join!(opening, planning);
        let (physical, planned_ns) = planned?;
        timing = Timing { planned_ns, opened_ns };
        (snapshot?, physical)
    } else {
        let snapshot = open(analytics.node.cluster.as_ref(), request).await?;
        timing.opened_ns = since_start();
        check_versions(plan, &reads, &snapshot)?;
        remember(analytics, &snapshot.tables);
        // Plan again from the start: figures enter where tables are named.
        let logical = with_statistics(analytics, &logical)?;
        let physical = physical_plan(analytics, &state, &cancel, logical)?;
        timing.planned_ns = since_start();
        (snapshot, physical)
    };
    check_versions(plan, &reads, &snapshot)?;
    remember(analytics, &snapshot.tables);
    cell.tables.set(snapshot.tables).unwrap_or_else(|_| unreachable!("set once"));
    let operators = Operators(physical.operators.clone());
    let stream = execute(analytics, plan, physical, cell)?;
    let (token, freshness, sources) = (Some(snapshot.token), Some(snapshot.freshness), snapshot.sources);
    let asked = snapshot.asked;
    Ok(Answer { stream, token, freshness, reads, sources, asked, operators, timing })
}

/// The plan that would run, and what it would read.
pub fn explain(
    analytics: &Arc<Analytics>,
    plan: &QueryPlan,
    parameters: &[Datum],
    times: Times,
    cancel: &CancelHandle,
) -> SqlResult<(String, BTreeMap<TableId, BTreeSet<PartitionId>>)> {
    let state = Arc::new(analytics.state.clone());
    let logical = bound(analytics, plan, &state, cancel, parameters, times)?;
    let reads = reads(analytics, &logical)?;
    let logical = with_statistics(analytics, &logical)?;
    let physical = physical_plan(analytics, &state, cancel, logical)?;
    Ok((displayable(physical.operators.as_ref()).indent(false).to_string(), reads))
}

async fn open(cluster: &dyn Cluster, request: Request) -> SqlResult<Snapshot> {
    match cluster.request(request).await? {
        Reply::Snapshot(snapshot) => snapshot,
        _ => Err(SqlError::internal("the node answered another question")),
    }
}

/// Computes for a statement, out of other connections' way and behind a fence. The statement ends when it has to,
/// wherever the computation is.
fn computed<T: Send + 'static>(
    analytics: &Analytics,
    cancel: &CancelHandle,
    work: impl FnOnce() -> SqlResult<T> + Send + 'static,
) -> SqlResult<T> {
    interrupt::during(cancel, || interrupt::apart(analytics.node.threads(), || fenced(work)))
}

/// The plan with its parameters, optimized.
fn bound(
    analytics: &Analytics,
    plan: &QueryPlan,
    state: &Arc<SessionState>,
    cancel: &CancelHandle,
    parameters: &[Datum],
    times: Times,
) -> SqlResult<LogicalPlan> {
    if let Some(optimized) = &plan.optimized {
        return Ok(optimized.clone());
    }
    let (plan, state, parameters) = (plan.clone(), state.clone(), parameters.to_vec());
    computed(analytics, cancel, move || plan.bound(&state, &parameters, times))
}

/// A plan that can run.
struct Physical {
    operators: Arc<dyn ExecutionPlan>,
    /// What they take, for as long as they are there.
    memory: MemoryReservation,
}

/// The operators of a plan. Making them waits for nothing, so it computes like the rest of planning.
fn physical_plan(
    analytics: &Analytics,
    state: &Arc<SessionState>,
    cancel: &CancelHandle,
    logical: LogicalPlan,
) -> SqlResult<Physical> {
    let state = state.clone();
    computed(analytics, cancel, move || {
        interrupt::check()?;
        let memory = &state.runtime_env().memory_pool;
        let logical = super::window_keys::apart(logical).map_err(sql_error)?;
        let logical = super::recursive_types::noted_alike(logical).map_err(sql_error)?;
        let bytes = super::complexity::bytes(&logical);
        let reserved = super::memory::reserve(memory, "a plan", bytes).map_err(sql_error)?;
        let kept_bytes = super::complexity::kept_bytes(&logical);
        let logical = super::long_values::computed_later(logical).map_err(sql_error)?;
        let planning = state.query_planner().create_physical_plan(&logical, state.as_ref());
        let planned = super::memory::folding(|| futures::executor::block_on(planning));
        let bounded = planned.and_then(|plan| super::memory::bounded(plan, memory));
        let operators = bounded.and_then(interruptible).map_err(sql_error)?;
        drop(logical);
        reserved.resize(kept_bytes);
        Ok(Physical { operators, memory: reserved })
    })
}

/// Makes joins give way now and then. A join can produce rows for hours that a filter above drops; without
/// a pause among them nothing could cancel the query.
fn interruptible(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    plan.transform_up(|node| {
        Ok(match node.name() {
            "CrossJoinExec" | "NestedLoopJoinExec" | "HashJoinExec" => {
                Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>)
            }
            _ => Transformed::no(node),
        })
    })
    .map(|t| t.data)
}

/// Tables with the partitions whose rows can matter, over the whole plan.
fn reads(analytics: &Analytics, plan: &LogicalPlan) -> SqlResult<BTreeMap<TableId, BTreeSet<PartitionId>>> {
    let topology = analytics.node.cluster.topology();
    let kept = &topology.nodes[analytics.node.cluster.node().0 as usize].subscribes;
    let here = || topology.partitions_in(analytics.node.cluster.region());
    let near = here().find(|p| kept.contains(p)).or_else(|| here().next());
    let mut reads: BTreeMap<TableId, BTreeSet<PartitionId>> = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(TreeNodeRecursion::Continue) };
        let provider = source_as_provider(&scan.source)?;
        if let Some(columns) = provider.downcast_ref::<ColumnTable>() {
            let table = &columns.table;
            let partitions = match (table.partition_column(), near) {
                // Every partition has a full copy: one near here will do.
                (None, Some(near)) => BTreeSet::from([near]),
                (None, None) => topology.partition_ids().take(1).collect(),
                _ => prune::partitions(table, &scan.filters, topology),
            };
            reads.entry(table.id).or_default().extend(partitions);
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(sql_error)?;
    Ok(reads)
}

/// What the plan looks at of the tables that it reads; what other readers send is no more.
fn wanted(
    plan: &LogicalPlan,
    reads: &BTreeMap<TableId, BTreeSet<PartitionId>>,
) -> SqlResult<BTreeMap<TableId, Wanted>> {
    let mut all: BTreeMap<TableId, (BTreeSet<usize>, Vec<Wanted>)> = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(TreeNodeRecursion::Continue) };
        let provider = source_as_provider(&scan.source)?;
        if let Some(columns) = provider.downcast_ref::<ColumnTable>() {
            let (found, scans) = all.entry(columns.table.id).or_default();
            found.extend(columns.read_by(scan.projection.as_ref(), &scan.filters));
            let predicates = prune::predicates(&columns.table, &scan.filters);
            scans.push(Wanted { columns: Vec::new(), predicates });
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(sql_error)?;
    all.retain(|table, _| reads.contains_key(table));
    let wanted = all.into_iter().map(|(table, (columns, mut scans))| {
        // A table that is read twice is sent once, with what either wants.
        let only = if scans.len() == 1 { scans.pop() } else { None };
        (table, Wanted { columns: columns.into_iter().collect(), ..only.unwrap_or_default() })
    });
    Ok(wanted.collect())
}

fn check_versions(
    plan: &QueryPlan,
    reads: &BTreeMap<TableId, BTreeSet<PartitionId>>,
    snapshot: &Snapshot,
) -> SqlResult<()> {
    let same = |table: &Arc<base::schema::Table>| {
        snapshot.catalog.table(table.id).is_some_and(|t| t.version == table.version)
    };
    if plan.tables.values().filter(|t| reads.contains_key(&t.id)).all(same) {
        Ok(())
    } else {
        Err(base::schema::stale_schema())
    }
}

fn has_statistics(analytics: &Analytics, reads: &BTreeMap<TableId, BTreeSet<PartitionId>>) -> bool {
    let known = analytics.statistics.lock().expect("no panic while counting");
    reads.keys().all(|table| known.contains_key(table))
}

fn remember(analytics: &Analytics, tables: &BTreeMap<TableId, Arc<TableSnapshot>>) {
    for (id, snapshot) in tables {
        {
            let mut known = analytics.statistics.lock().expect("no panic while counting");
            if let Some(known) = known.get_mut(id) {
                known.uses += 1;
                if known.uses < STATISTICS_USES {
                    continue;
                }
            }
        }
        let figures = Arc::new(snapshot.statistics());
        let mut known = analytics.statistics.lock().expect("no panic while counting");
        known.insert(*id, KnownStatistics { figures, uses: 0 });
    }
}

/// The plan with tables that know their figures.
fn with_statistics(analytics: &Analytics, plan: &LogicalPlan) -> SqlResult<LogicalPlan> {
    use datafusion::catalog::default_table_source::provider_as_source;
    let known = analytics.statistics.lock().expect("no panic while counting");
    plan.clone()
        .transform_down_with_subqueries(|node| match node {
            LogicalPlan::TableScan(mut scan) => {
                let provider = source_as_provider(&scan.source)?;
                let Some(columns) = provider.downcast_ref::<ColumnTable>() else {
                    return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
                };
                let figures = known.get(&columns.table.id).map(|k| k.figures.clone());
                scan.source = provider_as_source(Arc::new(columns.with_statistics(figures)));
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            other => Ok(Transformed::no(other)),
        })
        .map(|t| t.data)
        .map_err(sql_error)
}

/// Starts the plan; batches come as they are asked for.
fn execute(
    analytics: &Analytics,
    plan: &QueryPlan,
    physical: Physical,
    cell: SnapshotCell,
) -> SqlResult<BatchStream> {
    let Physical { operators: physical, memory: plan_memory } = physical;
    let state = &analytics.state;
    let config = state.config().clone().with_extension(Arc::new(cell));
    let task = TaskContext::default().with_session_config(config).with_runtime(state.runtime_env().clone());
    let task = Arc::new(task);
    let types = plan.columns.iter().map(|c| c.data_type).collect();
    let batches = match &analytics.node.query_threads {
        None => {
            execute_stream(physical, task).map_err(sql_error)?.map(|batch| batch.map_err(sql_error)).boxed()
        }
        Some(pool) => {
            // The query's own threads do the work; a client that goes away stops it at the next batch.
            let threads = pool.lease();
            let (sender, receiver) = tokio::sync::mpsc::channel(4);
            let to_client = sender.clone();
            threads.handle().spawn(async move {
                let ended = AssertUnwindSafe(send_batches(physical, task, to_client)).catch_unwind().await;
                if let Err(panic) = ended {
                    // Without this the rows so far would pass for all of them. Nobody may listen any more.
                    _ = sender.send(Err(sql::panics::error(panic))).await;
                }
            });
            futures::stream::unfold((receiver, threads), |(mut receiver, threads)| async move {
                receiver.recv().await.map(|batch| (batch, (receiver, threads)))
            })
            .boxed()
        }
    };
    let batches = AssertUnwindSafe(batches)
        .catch_unwind()
        .map(move |batch| {
            _ = &plan_memory;
            batch.unwrap_or_else(|panic| Err(sql::panics::error(panic)))
        })
        .boxed();
    let memory = analytics.rows_memory("rows on their way to the client");
    Ok(BatchStream::new(batches, types, memory))
}

/// Runs a plan until its end, its first error, or nobody takes its batches any more.
async fn send_batches(
    physical: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    sender: tokio::sync::mpsc::Sender<SqlResult<RecordBatch>>,
) {
    let mut batches = match execute_stream(physical, task) {
        Ok(batches) => batches,
        Err(e) => {
            _ = sender.send(Err(sql_error(e))).await;
            return;
        }
    };
    let error = loop {
        tokio::select! {
            batch = batches.next() => match batch {
                None => return,
                Some(Ok(batch)) => {
                    if sender.send(Ok(batch)).await.is_err() {
                        return;
                    }
                }
                Some(Err(error)) => break error,
            },
            () = sender.closed() => return,
        }
    };
    drop(batches);
    parts_ended().await;
    _ = sender.send(Err(sql_error(error))).await;
}

/// Waits until the parts of a query that other threads compute have ended and given their memory back: who is refused
/// may ask again at once. Not for long: threads may be shared, and a part looks up at its next batch only.
async fn parts_ended() {
    let threads = tokio::runtime::Handle::current().metrics();
    for _ in 0..PARTS_LOOKS {
        // This task is one.
        if threads.num_alive_tasks() <= 1 {
            return;
        }
        tokio::time::sleep(PARTS_LOOK_EVERY).await;
    }
}

const PARTS_LOOK_EVERY: Duration = Duration::from_millis(1);
const PARTS_LOOKS: usize = 250;
