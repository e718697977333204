//! One client's session: its settings, its transaction, its prepared statements.
//!
//! IN: SQL text and parameters. OUT: [`Response`]s. KEEPS: the next transaction is submitted only after the
//! previous one's reply; the token only grows; after an error inside a block nothing runs until ROLLBACK.

mod advisory;
mod assigned;
mod attempts;
mod blocks;
mod building;
mod calling;
mod catalog;
mod checked_views;
mod computed;
mod copying;
mod create_as;
mod cursor;
mod cuts;
mod databases;
mod ddl;
mod explain;
mod extensions;
mod foreign_keys;
mod found_rows;
mod handed_out;
mod inserting;
mod internal;
mod join;
mod later;
mod left_tables;
mod locked_joins;
mod locking;
mod materialized;
mod merge;
mod merge_clauses;
mod named;
mod new_checks;
mod own_calls;
mod own_functions;
mod parameters;
mod partitions;
mod pipeline;
mod placed_rows;
mod plan;
mod planned;
mod prepared;
mod programs;
mod query;
mod read;
mod remaking;
mod replicas;
mod returning;
mod rich;
mod roles;
mod routines;
mod running;
mod sequences;
mod set_config;
mod settings;
mod several_columns;
mod shapes;
mod signals;
mod simple;
mod stored;
mod submitting;
mod survival;
mod tables;
mod temporary;
mod timeouts;
mod told;
mod transaction;
mod trees;
mod triggers;
mod turns;
mod user_types;
mod utility;
mod waits;
mod whole;
mod with;
mod write;
mod zoned;

pub use prepared::{OTHER_RESULT_TYPE, Prepared};
pub use settings::durations::shown_ms;
pub use timeouts::Deadline;

use crate::gateway::Gateway;
use crate::notifications::Listener;
use crate::response::{Response, TransactionStatus};
use analytics::activity::{self, Activity};
use analytics::{Cluster, Context};
use base::cut::{Consistency, Freshness};
use base::databases::DatabaseId;
use base::error::{SqlResult, SqlState};
use base::schema::Catalog;
use base::{Datum, SqlError, Token};
use node::request::{Reply, Request, Submitted};
use plan::Plan;
use settings::Settings;
use sql::given::{self, GivenValues};
use sql::{cancel::CancelHandle, interrupt};
use sqlparser::ast::Statement;
use std::sync::Arc;
use transaction::Transaction;
use whole::Whole;

/// One client's session.
pub struct Session {
    gateway: Arc<Gateway>,
    login: roles::Login,
    database: databases::Connected,
    settings: Settings,
    /// What this session has seen.
    token: Token,
    transaction: Option<Transaction>,
    prepared: stored::Stored,
    /// Statements of a simple query that are still to run.
    queue: simple::Queue,
    copy: Option<copying::CopyState>,
    running: running::Running,
    cursors: cursor::Cursors,
    told: told::Told,
    cancel: CancelHandle,
    activity: Arc<Activity>,
    /// A transaction was handed to the node, and no answer came.
    in_doubt: bool,
    /// The database's part of the node's catalog as the running statement knows it.
    known: Arc<Catalog>,
    /// How the last query was answered.
    freshness: Option<Freshness>,
    /// Who gave which partitions of the last query, if other readers took part.
    sources: Vec<node::request::Source>,
    /// Its temporary tables that COMMIT empties or drops.
    temporary: temporary::OnCommit,
    /// EXPLAIN ANALYZE is running: what it measures. Only then operators are kept, for they hold hash tables.
    measured: Option<explain::Measured>,
    operators: Option<(analytics::Operators, analytics::Timing)>,
    last: Option<Submitted>,
    /// Advisory locks that it has.
    advisory: advisory::Held,
    /// What sequences have given to it.
    given: Arc<GivenValues>,
    /// What the next transaction is called, if its client may repeat it.
    request: Option<named::NamedRequest>,
}

impl Session {
    pub fn new(gateway: Arc<Gateway>, user: &str, database_id: DatabaseId) -> Session {
        let cluster = &gateway.cluster;
        let known = gateway.catalog_of(database_id);
        let database = databases::Connected::to(database_id, &known);
        let region = cluster.topology().region_name(cluster.region()).to_string();
        let activity = gateway.node.sessions.open(
            cluster.node().0,
            cluster.topology().nodes.len(),
            user,
            &database.name,
            gateway.now_us(),
        );
        let schema = gateway.temporary_schema(activity.process);
        let mut settings = Settings::new(user, cluster.engine(), &region).with_temporary(schema);
        if cluster.topology().unbounded_clocks {
            settings = settings.without_clocks();
        }
        let cancel = CancelHandle::default();
        let (login, all) = (roles::Login::new(user, &known.roles), gateway.notifications.clone());
        let listener = Listener::new(all, activity.process, database_id, login.role, cancel.clone());
        Session {
            login,
            database,
            settings,
            token: Token::default(),
            transaction: None,
            prepared: stored::Stored::default(),
            queue: simple::Queue::default(),
            copy: None,
            running: Default::default(),
            cursors: cursor::Cursors::default(),
            told: told::Told::new(listener, &gateway),
            cancel,
            activity,
            in_doubt: false,
            known,
            freshness: None,
            sources: Vec::new(),
            temporary: temporary::OnCommit::default(),
            measured: None,
            operators: None,
            last: None,
            request: None,
            advisory: advisory::Held::new(&gateway),
            given: Arc::default(),
            gateway,
        }
    }

    /// Runs a prepared statement; parameters have the declared types.
    pub async fn execute(&mut self, prepared: &Arc<Prepared>, parameters: Vec<Datum>) -> SqlResult<Response> {
        self.note_statement(&prepared.shown);
        let cancel = self.cancel.clone();
        cancel.begin(self.settings.statement_timeout_ms);
        let result = tokio::select! {
            biased;
            result = self.execute_now(prepared, &parameters) => result,
            error = cancel.wait() => Err(error),
        };
        let result = self.finish(result);
        // A statement that was given up leaves its own transaction open.
        match result {
            Err(error) => Err(self.give_up_implicit(error).await),
            done => done,
        }
    }

    async fn execute_now(&mut self, prepared: &Arc<Prepared>, parameters: &[Datum]) -> SqlResult<Response> {
        let Some(statement) = &prepared.statement else { return Ok(Response::Empty) };
        if parameters.len() != prepared.parameters.len() {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but the prepared statement requires {}",
                    parameters.len(),
                    prepared.parameters.len()
                ),
            ));
        }
        self.refuse_if_failed(statement)?;
        let is_alone = self.transaction.is_none();
        for attempt in 0.. {
            self.look_up_catalog();
            self.refuse_changed(statement)?;
            let cancel = self.cancel.clone();
            let plan = interrupt::for_text(self.gateway.threads(), &cancel, prepared.sql.len(), || {
                prepared.plan(self, parameters)
            })?;
            self.begin_statement();
            match self.run(&plan, &prepared.scalars(parameters)).await {
                // The catalog moved on: plan again, if nothing depends on what was done before.
                Err(e) if is_stale(&e) && is_alone && self.transaction.is_none() && attempt < 16 => {
                    self.await_catalog(attempt).await?;
                }
                result => return result,
            }
        }
        unreachable!("the loop returns")
    }

    /// Runs a plan in the open transaction, or as a transaction of its own.
    async fn run(&mut self, plan: &Plan, parameters: &[Datum]) -> SqlResult<Response> {
        let given = self.given.clone();
        let ended =
            given::Within::new(given, self.settings.zone, Box::pin(self.run_plan(plan, parameters))).await?;
        self.gateway.tell_given(&self.given).await.map(|()| ended)
    }

    async fn run_plan(&mut self, plan: &Plan, parameters: &[Datum]) -> SqlResult<Response> {
        match plan {
            Plan::Insert(..) | Plan::Modify(_) if self.is_buffered_alone(plan) => {
                Box::pin(self.run_buffered(plan, parameters)).await
            }
            Plan::Constant(projection) => self.run_constant(projection, parameters),
            Plan::SetConfig(plan) => self.run_set_config(plan, parameters),
            Plan::WaitFor(plan) => Box::pin(self.run_wait_for(plan, parameters)).await,
            Plan::SetValue(plan) => Box::pin(self.run_set_value(plan, parameters)).await,
            Plan::OwnFunctions(plan) => Box::pin(self.run_own_functions(plan, parameters)).await,
            Plan::Rows(rows) if rows.heeds_locks() && self.transaction.is_none() => {
                Box::pin(self.run_buffered(plan, parameters)).await
            }
            Plan::Rows(plan) => self.run_rows(plan, parameters).await,
            Plan::Join(plan) => Box::pin(self.run_join(plan, parameters)).await,
            // Boxed, all of these: a future is moved at every level above, whole, whatever branch it takes.
            Plan::Insert(plan, computations) => {
                Box::pin(self.run_insert(plan, computations, parameters)).await
            }
            Plan::Modify(plan) => Box::pin(self.run_modify(plan, parameters)).await,
            Plan::Query(plan) => Box::pin(self.run_query(plan, parameters)).await,
            Plan::Rich(plan) => Box::pin(self.run_whole(Whole::Rich(plan), parameters)).await,
            Plan::Merge(plan) => Box::pin(self.run_whole(Whole::Merge(plan), parameters)).await,
            Plan::LockedJoin(plan) => Box::pin(self.run_whole(Whole::LockedJoin(plan), parameters)).await,
            Plan::Checked(plan) => Box::pin(self.run_checked(plan, parameters)).await,
            Plan::With(plan) => Box::pin(self.run_whole(Whole::With(plan), parameters)).await,
            Plan::Routine(plan) => Box::pin(self.run_whole(Whole::Routine(plan), parameters)).await,
            Plan::Call(plan) => Box::pin(self.run_call(plan, parameters)).await,
            Plan::Calls(plan) => Box::pin(self.run_whole(Whole::Calls(plan), parameters)).await,
            Plan::Do(block) => Box::pin(self.run_do(block)).await,
            // Statements that contain statements come back to `run`.
            Plan::Utility(statement) => Box::pin(self.run_utility(statement, parameters)).await,
        }
    }

    /// Books a statement's end: failure of the block, doubt about an order that had begun.
    fn finish(&mut self, result: SqlResult<Response>) -> SqlResult<Response> {
        let doubt = std::mem::take(&mut self.in_doubt);
        let result = match result {
            Err(error) if doubt => {
                let end = if error.state == SqlState::QUERY_CANCELED {
                    "the statement was canceled"
                } else {
                    "the node stopped"
                };
                Err(SqlError::new(
                    SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
                    format!("the transaction had been sent when {end}; its outcome is not known"),
                )
                .detail(error.into_fields().message)
                .hint(match self.is_named() {
                    true => named::REPEAT,
                    false => "It takes effect completely or not at all. Read what it would have written.",
                }))
            }
            other => other,
        };
        self.settle_request();
        let reading = self.release_read();
        let result = result.and_then(|response| response.accounted(reading, &self.gateway));
        if result.is_err() {
            self.copy = None;
            self.note_failure();
            self.settle_settings(false);
        }
        result
    }

    /// A response could not be read to its end, or a message around a statement was refused: the
    /// transaction block has failed, and the rest of a simple query is dropped.
    pub async fn fail(&mut self) {
        self.queue = simple::Queue::default();
        self.note_failure();
        self.settle_settings(false);
        if self.transaction.as_ref().is_some_and(|t| t.is_implicit) {
            self.roll_back().await;
        }
        // Of a COMMIT that was given up.
        self.end_lone_locks().await;
    }

    fn note_failure(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.fail();
        }
    }

    fn refuse_if_failed(&mut self, statement: &Statement) -> SqlResult<()> {
        if let Some(error) = self.told.listener.mailbox.ending() {
            return Err(error);
        }
        if !matches!(statement, Statement::Rollback { .. }) {
            self.check_advisory()?;
        }
        let failed = self.transaction.as_ref().is_some_and(|t| t.has_failed);
        if failed && !utility::ends_failure(statement) {
            return Err(SqlError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        match &self.transaction {
            Some(transaction) if !utility::ends_failure(statement) => transaction.check_snapshot(),
            _ => Ok(()),
        }
    }

    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }
    /// The id that BackendKeyData, `pg_backend_pid()` and `pg_stat_activity` know the session by.
    pub fn process_id(&self) -> i32 {
        self.activity.process
    }
    /// Where its client is.
    pub fn came_from(&mut self, client: std::net::SocketAddr) {
        self.activity.now().client = Some(client);
    }
    fn note_statement(&self, shown: &Arc<str>) {
        self.activity.begin(shown, self.gateway.now_us(), self.transaction.as_ref().map(|t| t.now_us));
    }
    /// The session waits for its client; answers where it stands.
    pub fn rest(&self) -> TransactionStatus {
        let status = self.transaction_status();
        let state = match status {
            TransactionStatus::Idle => activity::State::Idle,
            TransactionStatus::InTransaction => activity::State::InTransaction,
            TransactionStatus::Failed => activity::State::Failed,
        };
        let since_us = self.transaction.as_ref().map(|t| t.now_us);
        self.activity.rest(state, self.gateway.now_us(), since_us);
        status
    }
    /// Ends the session: rolls back what is open.
    pub async fn close(&mut self) {
        self.roll_back().await;
        self.release_all_advisory().await;
    }

    fn cluster(&self) -> &Arc<dyn Cluster> {
        &self.gateway.cluster
    }

    /// The catalog that names are looked up in: the node's, or the open transaction's with its own changes.
    fn catalog(&self) -> Arc<Catalog> {
        let open = self.transaction.as_ref();
        let of_parts = open.and_then(|open| open.parts.as_ref()).map(|parts| &parts.catalog);
        let own = || open.and_then(|open| open.catalog.as_ref()).map(|own| &own.now);
        of_parts.or_else(own).unwrap_or(&self.known).clone()
    }

    /// Whether the open transaction has changed the catalog.
    fn has_own_catalog(&self) -> bool {
        self.transaction.as_ref().is_some_and(|t| t.catalog.is_some())
    }

    fn context<'a>(&'a self, catalog: &'a Arc<Catalog>) -> Context<'a> {
        Context {
            analytics: &self.gateway.analytics,
            catalog,
            search_path: &self.settings.search_path,
            database: &self.database.name,
            user: self.current_user(),
            standing: self.standing(),
            process_id: self.activity.process,
            settings: self.settings.all(),
            isolation: self.isolation(),
            cancel: &self.cancel,
            reads_here: self.reads_here(),
            through_views: Default::default(),
            given: &self.given,
            zone: self.settings.zone,
        }
    }

    /// Whether what is complete at this node will do, and rows may be elsewhere.
    fn reads_here(&self) -> bool {
        matches!(self.level(), Consistency::Session | Consistency::Stale)
            && !self.cluster().topology().is_replicated()
    }

    /// The level that a statement reads at. What a transaction that may write reads is validated when it commits: at
    /// an older cut it would fail wherever somebody else writes.
    fn level(&self) -> Consistency {
        match &self.transaction {
            Some(open) if open.records_reads() && !open.only_reads => self.settings.strong_level(),
            _ => self.settings.consistency,
        }
    }

    /// Reads and writes of this session come after what a token names.
    fn saw(&mut self, token: &Token) {
        self.token.join(token);
    }

    /// Asks the node something that a statement reads.
    async fn read_from_node(&mut self, request: Request) -> SqlResult<Reply> {
        let since = self.measured.as_ref().map(|_| self.gateway.cluster.now());
        let reply = self.gateway.cluster.request(request).await;
        if let (Some(measured), Some(since)) = (&mut self.measured, since) {
            measured.has_read = true;
            measured.waited_ns += self.gateway.cluster.now().since(since);
            if let Ok(Reply::Rows(Ok(rows))) = &reply {
                measured.asked.extend(&rows.asked);
            }
        }
        reply
    }
}

impl Drop for Session {
    /// A session that was not closed, since its connection broke, holds nothing at its node either.
    fn drop(&mut self) {
        self.gateway.node.sessions.close(self.activity.process);
        self.gateway.temporary.ended.notify_one();
        if let Some((pin, _)) = self.transaction.take().and_then(|t| t.pin) {
            self.gateway.cluster.tell(Request::Unpin(pin));
        }
    }
}

/// Whether a plan was made for another catalog.
fn is_stale(error: &SqlError) -> bool {
    error.state == SqlState::SERIALIZATION_FAILURE && *error == base::schema::stale_schema()
}

fn wrong_reply() -> SqlError {
    SqlError::internal("the node answered another question")
}
