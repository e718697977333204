//! One client's session: its settings, its transaction, its prepared statements.
//!
//! IN: SQL text and parameters. OUT: [`Response`]s. KEEPS: the next transaction is submitted only
//! after the previous one's reply; the token only grows; after an error inside a transaction block
//! nothing runs until ROLLBACK.

mod calling;
mod catalog;
mod computed;
mod copying;
mod create_as;
mod cursor;
mod ddl;
mod explain;
mod inserting;
mod join;
mod locking;
mod named;
mod pipeline;
mod plan;
mod prepared;
mod query;
mod read;
mod returning;
mod rich;
mod settings;
mod shapes;
mod timeouts;
mod transaction;
mod turns;
mod utility;
mod write;

pub use prepared::{OTHER_RESULT_TYPE, Prepared};
pub use settings::durations::shown_ms;
pub use timeouts::Deadline;

use crate::gateway::Gateway;
use crate::response::{Notice, Response, TransactionStatus};
use analytics::Cluster;
use analytics::Context;
use analytics::activity::{self, Activity};
use base::cut::{Consistency, Freshness};
use base::error::{SqlResult, SqlState};
use base::schema::Catalog;
use base::{Datum, SqlError, Token};
use node::request::{Reply, Request, Submitted};
use plan::Plan;
use settings::Settings;
use sql::cancel::CancelHandle;
use sql::interrupt::{self, SHORT_BYTES};
use sql::types::ParameterType;
use sqlparser::ast::Statement;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use transaction::Transaction;
use turns::{give_way, tree_bytes};

/// One client's session.
pub struct Session {
    gateway: Arc<Gateway>,
    user: String,
    database: String,
    settings: Settings,
    /// What this session has seen.
    token: Token,
    transaction: Option<Transaction>,
    prepared: BTreeMap<String, Arc<Prepared>>,
    /// Bytes of the texts of named ones.
    prepared_bytes: usize,
    /// Statements of a simple query that are still to run.
    queue: VecDeque<Statement>,
    /// The queue's statements share one transaction.
    queue_is_block: bool,
    /// Length of the text that the queue came from.
    queue_bytes: usize,
    copy: Option<copying::CopyState>,
    /// What the running statement's rows take that were read one by one.
    reading: Option<analytics::RowsMemory>,
    cursors: BTreeMap<String, cursor::Cursor>,
    notices: Vec<Notice>,
    changed: Vec<(String, String)>,
    cancel: CancelHandle,
    activity: Arc<Activity>,
    /// A transaction was handed to the node, and no answer came.
    in_doubt: bool,
    /// The node's catalog as the running statement knows it.
    known: Arc<Catalog>,
    /// How the last query was answered.
    freshness: Option<Freshness>,
    /// Who gave which partitions of the last query, if other readers took part.
    sources: Vec<node::request::Source>,
    /// EXPLAIN ANALYZE is running: what it measures. Only then operators are kept, for they hold hash tables.
    measured: Option<explain::Measured>,
    operators: Option<(analytics::Operators, analytics::Timing)>,
    last: Option<Submitted>,
    /// What the next transaction is called, if its client may repeat it.
    request: Option<named::NamedRequest>,
}

impl Session {
    pub fn new(gateway: Arc<Gateway>, user: &str, database: &str) -> Session {
        let cluster = &gateway.cluster;
        let region = cluster.topology().region_name(cluster.region()).to_string();
        let activity = gateway.node.sessions.open(
            cluster.node().0,
            cluster.topology().nodes.len(),
            user,
            database,
            gateway.now_us(),
        );
        let mut settings = Settings::new(user, cluster.engine(), &region);
        if cluster.topology().unbounded_clocks {
            settings = settings.without_clocks();
        }
        Session {
            user: user.into(),
            database: database.into(),
            settings,
            token: Token::default(),
            transaction: None,
            prepared: BTreeMap::new(),
            prepared_bytes: 0,
            queue: VecDeque::new(),
            queue_is_block: false,
            queue_bytes: 0,
            copy: None,
            reading: None,
            cursors: BTreeMap::new(),
            notices: Vec::new(),
            changed: Vec::new(),
            cancel: CancelHandle::default(),
            activity,
            in_doubt: false,
            known: cluster.catalog(),
            freshness: None,
            sources: Vec::new(),
            measured: None,
            operators: None,
            last: None,
            request: None,
            gateway,
        }
    }

    /// Parses and plans one statement. `hints` are the types the client declared, `None` where it
    /// left them open; the answer has all of them. Errors: everything that can be known before the
    /// parameters are; inside a failed transaction 25P02.
    pub async fn prepare(&mut self, sql: &str, hints: &[Option<ParameterType>]) -> SqlResult<Arc<Prepared>> {
        let cancel = self.cancel.clone();
        cancel.begin(self.settings.statement_timeout_ms);
        let gateway = self.gateway.clone();
        let result = self.reserve_tree(sql).and_then(|()| {
            interrupt::for_text(gateway.threads(), &cancel, sql.len(), || self.prepare_now(sql, hints))
        });
        cancel.hold(None);
        if result.is_err() {
            self.note_failure();
        }
        result
    }

    fn prepare_now(&mut self, sql: &str, hints: &[Option<ParameterType>]) -> SqlResult<Arc<Prepared>> {
        let mut statements = sql::parse::parse(sql)?;
        if statements.len() > 1 {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let statement = statements.pop();
        self.look_up_catalog();
        if let Some(statement) = &statement {
            self.refuse_if_failed(statement)?;
        }
        Prepared::new(self, sql, statement, hints).map(Arc::new)
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
        if result.is_err() && self.transaction.as_ref().is_some_and(|t| t.is_implicit) {
            self.roll_back().await;
        }
        result
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
            let cancel = self.cancel.clone();
            let plan = interrupt::for_text(self.gateway.threads(), &cancel, prepared.sql.len(), || {
                prepared.plan(self, parameters)
            })?;
            match self.run(&plan, &prepared.scalars(parameters)).await {
                // The catalog moved on: plan again, if nothing depends on what was done before.
                Err(e) if is_stale(&e) && is_alone && self.transaction.is_none() && attempt < 16 => {
                    self.refresh_catalog().await?;
                }
                result => return result,
            }
        }
        unreachable!("the loop returns")
    }

    /// Starts a simple query: a text of any number of statements, which are one transaction unless
    /// they say otherwise. Errors: 42601, before anything ran.
    pub fn start_simple(&mut self, sql: &str) -> SqlResult<()> {
        self.note_statement(&activity::kept_text(sql));
        let cancel = self.cancel.clone();
        cancel.begin(self.settings.statement_timeout_ms);
        let parsed = self.reserve_tree(sql).and_then(|()| {
            interrupt::for_text(self.gateway.threads(), &cancel, sql.len(), || sql::parse::parse(sql))
        });
        self.queue = match parsed {
            Ok(statements) => statements.into(),
            Err(error) => {
                self.note_failure();
                return Err(error);
            }
        };
        self.queue_is_block = self.queue.len() > 1;
        self.queue_bytes = sql.len();
        Ok(())
    }

    /// Runs the next statement of the simple query; `None` at its end. After an error the rest is
    /// dropped. Read a response to its end (and finish a copy) before asking for the next.
    pub async fn next_simple(&mut self) -> Option<SqlResult<Response>> {
        let Some(statement) = self.queue.pop_front() else {
            self.cancel.hold(None);
            self.queue_is_block = false;
            if self.transaction.as_ref().is_some_and(|t| t.is_implicit) {
                let result = self.end_implicit().await;
                self.settle_request();
                return result.err().map(Err);
            }
            return None;
        };
        let cancel = self.cancel.clone();
        cancel.begin(self.settings.statement_timeout_ms);
        let result = tokio::select! {
            biased;
            result = self.run_statement(statement) => result,
            error = cancel.wait() => Err(error),
        };
        let result = self.finish(result);
        if result.is_err() {
            self.queue.clear();
            self.queue_is_block = false;
            if self.transaction.as_ref().is_some_and(|t| t.is_implicit) {
                self.roll_back().await;
            }
        }
        Some(result)
    }

    /// Plans and runs one statement without parameters.
    async fn run_statement(&mut self, statement: Statement) -> SqlResult<Response> {
        self.refuse_if_failed(&statement)?;
        if self.queue_is_block && self.transaction.is_none() && utility::joins_block(&statement) {
            self.begin(self.settings.read_only, true);
            let only_reads = std::iter::once(&statement).chain(&self.queue).all(utility::only_reads);
            self.open().only_reads = only_reads;
        }
        let mut retries = 0;
        // A COMMIT that failed is no transaction's end any more: it is not said again.
        let is_alone = self.transaction.is_none();
        loop {
            self.look_up_catalog();
            let cancel = self.cancel.clone();
            let plan = interrupt::for_text(self.gateway.threads(), &cancel, self.queue_bytes, || {
                Prepared::plan_once(self, &statement)
            })?;
            match self.run(&plan, &[]).await {
                Err(e) if is_stale(&e) && is_alone && self.transaction.is_none() && retries < 16 => {
                    retries += 1;
                    self.refresh_catalog().await?;
                }
                result => return result,
            }
        }
    }

    /// All responses of a simple query.
    pub async fn simple(&mut self, sql: &str) -> Vec<SqlResult<Response>> {
        if let Err(e) = self.start_simple(sql) {
            return vec![Err(e)];
        }
        let mut responses = Vec::new();
        while let Some(response) = self.next_simple().await {
            responses.push(response);
        }
        responses
    }

    /// Runs a plan in the open transaction, or as a transaction of its own.
    async fn run(&mut self, plan: &Plan, parameters: &[Datum]) -> SqlResult<Response> {
        match plan {
            Plan::Constant(projection) => self.run_constant(projection, parameters),
            Plan::Rows(plan) => self.run_rows(plan, parameters).await,
            Plan::Join(plan) => Box::pin(self.run_join(plan, parameters)).await,
            // Boxed, all of these: a future is moved at every level above, whole, whatever branch it takes.
            Plan::Insert(plan, computations) => {
                Box::pin(self.run_insert(plan, computations, parameters)).await
            }
            Plan::Modify(plan) => Box::pin(self.run_modify(plan, parameters)).await,
            Plan::Query(plan) => Box::pin(self.run_query(plan, parameters)).await,
            Plan::Rich(plan) => Box::pin(self.run_rich(plan, parameters)).await,
            Plan::Call(plan) => Box::pin(self.run_call(plan, parameters)).await,
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
        let reading = self.reading.take();
        let result = result.and_then(|response| response.accounted(reading, &self.gateway));
        if result.is_err() {
            self.copy = None;
            self.note_failure();
        }
        result
    }

    /// A response could not be read to its end, or a message around a statement was refused: the
    /// transaction block has failed, and the rest of a simple query is dropped.
    pub async fn fail(&mut self) {
        self.queue.clear();
        self.queue_is_block = false;
        self.note_failure();
        if self.transaction.as_ref().is_some_and(|t| t.is_implicit) {
            self.roll_back().await;
        }
    }

    fn note_failure(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.fail();
        }
    }

    fn refuse_if_failed(&self, statement: &Statement) -> SqlResult<()> {
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

    /// Keeps a statement under a name ("" is the unnamed one); EXECUTE and DEALLOCATE see it too.
    /// Errors: 42P05 if a named one exists.
    pub fn store(&mut self, name: &str, prepared: Arc<Prepared>) -> SqlResult<()> {
        if !name.is_empty() && self.prepared.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        if !name.is_empty() {
            let bytes = self.prepared_bytes + prepared.sql.len();
            if self.prepared.len() >= PREPARED_MAX || bytes > PREPARED_BYTES_MAX {
                return Err(SqlError::new(
                    SqlState::CONFIGURATION_LIMIT_EXCEEDED,
                    "too many prepared statements",
                )
                .detail(format!(
                    "One session may keep {PREPARED_MAX} statements under names, of {PREPARED_BYTES_MAX} bytes of \
                     text together."
                ))
                .hint("DEALLOCATE those that are not needed any more."));
            }
            self.prepared_bytes = bytes;
        }
        self.prepared.insert(name.into(), prepared);
        Ok(())
    }
    /// A statement by name. Errors: 26000.
    pub fn stored(&self, name: &str) -> SqlResult<Arc<Prepared>> {
        self.prepared.get(name).cloned().ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }
    /// Forgets a statement, if there is one.
    pub fn forget(&mut self, name: &str) {
        let forgotten = self.prepared.remove(name).filter(|_| !name.is_empty());
        self.prepared_bytes -= forgotten.map_or(0, |prepared| prepared.sql.len());
    }
    pub(self) fn forget_all(&mut self) {
        self.prepared.clear();
        self.prepared_bytes = 0;
    }

    pub fn transaction_status(&self) -> TransactionStatus {
        match &self.transaction {
            Some(t) if t.is_implicit => TransactionStatus::Idle,
            Some(t) if t.has_failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::InTransaction,
            None => TransactionStatus::Idle,
        }
    }
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }
    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
    /// A setting as SHOW prints it; `None` if there is none of this name.
    pub fn parameter(&self, name: &str) -> Option<String> {
        Settings::canonical(name).ok().map(|name| self.show(name))
    }
    /// Sets an option of the start-up message, which is obeyed or refused.
    pub fn set_option(&mut self, name: &str, value: &str) -> SqlResult<()> {
        let name = Settings::canonical(name)?;
        self.set(name, value)?;
        self.settings.keep_initial(name);
        Ok(())
    }
    /// What the server knows of itself, for SHOW.
    pub fn tell(&mut self, name: &str, value: String) {
        let name = Settings::canonical(name).expect("the server tells settings that there are");
        self.settings.tell(name, value);
    }
    /// Sets a parameter of the start-up message. A value that is not built yet (a time zone, say) leaves
    /// the setting as it is, with a warning: drivers send such values unasked.
    pub fn set_parameter(&mut self, name: &str, value: &str) -> SqlResult<()> {
        match self.set_option(name, value) {
            Err(e) if e.state == SqlState::FEATURE_NOT_SUPPORTED => {
                self.notice("WARNING", e.state, e.into_fields().message);
                Ok(())
            }
            result => result,
        }
    }
    /// Settings that a client is told at the start.
    pub fn reported_parameters(&self) -> Vec<(String, String)> {
        self.settings.reported()
    }
    /// Reported settings (ParameterStatus) that changed since the last call.
    pub fn take_changed_parameters(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.changed)
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
    }

    /// Reserves memory for the tree of a long text, until the next text comes. Errors: 53200.
    fn reserve_tree(&self, sql: &str) -> SqlResult<()> {
        self.cancel.hold(None);
        if sql.len() > SHORT_BYTES {
            let memory = self.gateway.rows_memory("a statement's text");
            memory.grow(tree_bytes(sql))?;
            self.cancel.hold(Some(Arc::new(memory)));
        }
        Ok(())
    }

    fn cluster(&self) -> &Arc<dyn Cluster> {
        &self.gateway.cluster
    }

    /// The catalog that names are looked up in: the node's, or the open transaction's with its own changes.
    fn catalog(&self) -> Arc<Catalog> {
        match self.transaction.as_ref().and_then(|t| t.catalog.as_ref()) {
            Some(own) => own.now.clone(),
            None => self.known.clone(),
        }
    }

    /// Whether the open transaction has changed the catalog.
    fn has_own_catalog(&self) -> bool {
        self.transaction.as_ref().is_some_and(|t| t.catalog.is_some())
    }

    /// Asks the node for its catalog, once per statement.
    fn look_up_catalog(&mut self) {
        self.known = self.gateway.cluster.catalog();
    }

    fn context<'a>(&'a self, catalog: &'a Arc<Catalog>) -> Context<'a> {
        Context {
            analytics: &self.gateway.analytics,
            catalog,
            search_path: &self.settings.search_path,
            database: &self.database,
            user: &self.user,
            process_id: self.activity.process,
            cancel: &self.cancel,
            reads_here: self.reads_here(),
        }
    }

    /// Whether what is complete at this node will do, and rows may be elsewhere.
    fn reads_here(&self) -> bool {
        matches!(self.level(), Consistency::Session | Consistency::Stale)
            && !self.cluster().topology().is_replicated()
    }

    /// Waits until the node knows a catalog at least as new as any it has seen in order.
    async fn refresh_catalog(&mut self) -> SqlResult<()> {
        self.gateway.cluster.request(Request::Catalog).await.map(|_| ())
    }

    /// The level that a statement reads at. What a transaction that may write reads is validated when it commits: at
    /// an older cut it would fail wherever somebody else writes.
    fn level(&self) -> Consistency {
        match &self.transaction {
            Some(open) if !open.read_only && !open.only_reads => self.settings.strong_level(),
            _ => self.settings.consistency,
        }
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

    /// µs since 2000-01-01: the open transaction's start, or now.
    fn now_us(&self) -> i64 {
        self.transaction.as_ref().map_or_else(|| self.gateway.now_us(), |t| t.now_us)
    }

    /// Hands a program to the node and waits for its outcome.
    async fn submit(
        &mut self,
        program: base::txn::TxnProgram,
        access: base::txn::AccessSet,
    ) -> SqlResult<Vec<base::txn::StatementResult>> {
        let mut submission = base::txn::Submission {
            program: Arc::new(program),
            access: Arc::new(access),
            token: self.token.clone(),
            request: None,
        };
        self.name_submission(&mut submission);
        self.in_doubt = true;
        let reply = self.gateway.cluster.request(Request::Submit(submission)).await;
        self.in_doubt = reply.is_err();
        let submitted = match reply? {
            Reply::Submitted(submitted) => submitted?,
            _ => return Err(wrong_reply()),
        };
        self.note_answer(&submitted);
        self.token.join(&submitted.token);
        let outcome = submitted.outcome.clone();
        self.last = Some(submitted);
        match outcome {
            base::txn::Outcome::Committed { results } => Ok(results),
            base::txn::Outcome::Aborted(error) => Err(self.hint_at_name(error)),
        }
    }

    fn notice(&mut self, severity: &'static str, state: SqlState, message: impl Into<String>) {
        if !self.settings.notices_from.sends(severity) || self.notices.len() >= NOTICES_MAX {
            return;
        }
        self.notices.push(Notice { severity, state, message: message.into() });
    }
}

impl Drop for Session {
    /// A session that was not closed, since its connection broke, holds nothing at its node either.
    fn drop(&mut self) {
        self.gateway.node.sessions.close(self.activity.process);
        if let Some((pin, _)) = self.transaction.take().and_then(|t| t.pin) {
            self.gateway.cluster.tell(Request::Unpin(pin));
        }
    }
}

/// Statements that a session may keep under names, and bytes of their texts.
const PREPARED_MAX: usize = 5_000;
const PREPARED_BYTES_MAX: usize = 8 << 20;

/// Notices that wait to be sent; one statement's later ones are dropped.
const NOTICES_MAX: usize = 1_000;

/// Whether a plan was made for another catalog.
fn is_stale(error: &SqlError) -> bool {
    error.state == SqlState::SERIALIZATION_FAILURE && *error == base::schema::stale_schema()
}

fn wrong_reply() -> SqlError {
    SqlError::internal("the node answered another question")
}
