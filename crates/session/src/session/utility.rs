//! Statements about the session: transaction control, SET and SHOW, PREPARE, and what is refused.

use super::blocks::no_savepoint;
use super::foreign_keys::SetConstraints;
use super::named::{OUTCOME, REQUEST};
use super::roles::{ROLE, SESSION_USER};
use super::settings::{self, Settings};
use super::shapes::{CLOCKS, SURVIVAL, clock_columns, shown_name, survival_columns};
use super::{Prepared, Session, zoned};
use crate::response::{Response, RowStream, Rows};
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};
use node::request::{Reply, Request};
use sql::names;
use sql::types::{Column, ParameterType};
use sqlparser::ast::{self, Set, Statement};
use std::sync::Arc;

/// Whether a statement may run in a failed transaction block.
pub(super) fn ends_failure(statement: &Statement) -> bool {
    matches!(statement, Statement::Commit { .. } | Statement::Rollback { .. })
}

/// Whether a statement of a simple query joins the query's one transaction.
pub(super) fn joins_block(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_)
            | Statement::Copy { .. }
            | Statement::Declare { .. }
            | Statement::Execute { .. }
            | Statement::Explain { .. }
            | Statement::Call(_)
            | Statement::Truncate(_)
            | Statement::LISTEN { .. }
            | Statement::UNLISTEN { .. }
            | Statement::NOTIFY { .. }
    ) || sql::ddl::is_ddl(statement)
}

/// Whether a statement of a simple query leaves everything but the session as it is.
pub(super) fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Query(query) => {
            query.locks.is_empty()
                && !sql::with::has_parts(query)
                && !super::plan::is_select_into(query)
                && matches!(
                    query.body.as_ref(),
                    ast::SetExpr::Select(_)
                        | ast::SetExpr::SetOperation { .. }
                        | ast::SetExpr::Values(_)
                        | ast::SetExpr::Query(_)
                )
        }
        Statement::Set(_) | Statement::Reset(_) | Statement::ShowVariable { .. } => true,
        // Messages are no rows, which would have to be found as they were read.
        Statement::LISTEN { .. } | Statement::UNLISTEN { .. } | Statement::NOTIFY { .. } => true,
        Statement::Explain { statement, .. } => only_reads(statement),
        _ => false,
    }
}

fn done(tag: &str) -> SqlResult<Response> {
    Ok(Response::Command(tag.into()))
}

impl Session {
    /// Types of parameters as PREPARE declares them.
    fn declared(&self, types: &[ast::DataType]) -> SqlResult<Vec<Option<ParameterType>>> {
        let read = || types.iter().map(|t| names::parameter_type(t).map(Some)).collect();
        self.knowing_types(&self.catalog(), read)
    }

    pub(super) async fn run_utility(
        &mut self,
        statement: &Statement,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        match statement {
            Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. } => self.run_transaction_control(statement).await,
            Statement::Set(set) => {
                if let Some(constraints) = SetConstraints::of(set)? {
                    self.set_constraints(&constraints).await?;
                    return done("SET CONSTRAINTS");
                }
                self.run_set(set)?;
                done("SET")
            }
            Statement::Reset(reset) => self.run_reset(reset),
            Statement::ShowVariable { variable } => self.run_show(variable).await,
            Statement::Discard { .. } => self.run_discard(statement).await,
            written @ Statement::Prepare { name, data_types, statement } => {
                let hints = self.declared(data_types)?;
                let name = names::fold(name);
                let sql = statement.to_string();
                let mut prepared = Prepared::new(self, &sql, Some(statement.as_ref().clone()), &hints)?;
                prepared.heading = written.to_string().strip_suffix(sql.as_str()).map(Box::from);
                self.store(&name, Arc::new(prepared))?;
                done("PREPARE")
            }
            Statement::Execute { name: Some(name), parameters: values, .. } => {
                let prepared = self.stored(&names::parts(name)?.join("."))?;
                let values = self.execute_values(&prepared, values, parameters)?;
                let plan = prepared.plan(self, &values)?;
                self.run(&plan, &prepared.scalars(&values)).await
            }
            Statement::Deallocate { name, .. } => self.run_deallocate(name),
            explain @ Statement::Explain { statement, .. } => {
                self.run_explain(explain, statement, parameters).await
            }
            Statement::Declare { .. }
            | Statement::Fetch { .. }
            | Statement::Close { .. }
            | Statement::Update(_)
            | Statement::Delete(_) => self.run_cursor_statement(statement, parameters).await,
            Statement::Copy { source, to, target, options, legacy_options, .. } => {
                self.run_copy(source, *to, target, options, legacy_options).await
            }
            Statement::LISTEN { .. } | Statement::UNLISTEN { .. } | Statement::NOTIFY { .. } => {
                self.run_notification(statement)
            }
            Statement::Truncate(truncate) => self.run_truncate(truncate).await,
            Statement::Lock(lock) => self.run_lock(lock).await,
            // Nothing waits to be vacuumed or analyzed: versions and statistics are kept up by themselves.
            Statement::Vacuum(vacuum) => self.run_vacuum(vacuum),
            Statement::Analyze(analyze) => {
                analyze.table_name.iter().try_for_each(|name| self.has_relation(name))?;
                done("ANALYZE")
            }
            Statement::CreateDatabase { .. } => Box::pin(self.run_database(statement)).await,
            Statement::Query(query) => {
                let create = Statement::CreateTable(super::create_as::select_into(query)?);
                self.run_ddl(&create, parameters).await
            }
            ddl if sql::ddl::is_ddl(ddl) => self.run_ddl(ddl, parameters).await,
            other => self.run_other(other),
        }
    }

    async fn run_transaction_control(&mut self, statement: &Statement) -> SqlResult<Response> {
        match statement {
            Statement::StartTransaction { modes, begin, modifier: None, statements, .. }
                if statements.is_empty() =>
            {
                if self.transaction.as_ref().is_some_and(|t| !t.is_implicit) {
                    self.notice(
                        "WARNING",
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    );
                } else {
                    // Statements before BEGIN in one text belong to the block.
                    match &self.transaction {
                        Some(_) => self.make_block(),
                        None => self.begin(self.settings.read_only, false),
                    }
                }
                self.transaction_modes(modes)?;
                done(if *begin { "BEGIN" } else { "START TRANSACTION" })
            }
            Statement::Commit { chain, .. } => {
                let kept = chain.then(|| self.chained("COMMIT")).transpose()?;
                let tag = self.commit_block().await?;
                self.settle_settings(tag == "COMMIT");
                self.begin_chained(kept);
                done(tag)
            }
            Statement::Rollback { chain, savepoint: None } => {
                let kept = chain.then(|| self.chained("ROLLBACK")).transpose()?;
                if self.transaction.as_ref().is_none_or(|t| t.is_implicit) {
                    self.no_transaction();
                }
                self.roll_back().await;
                self.settle_settings(false);
                self.begin_chained(kept);
                done("ROLLBACK")
            }
            Statement::Rollback { savepoint: Some(name), .. } => {
                let name = names::fold(name);
                let block = self.block("ROLLBACK TO SAVEPOINT")?;
                let settings = block.rollback_to(&name).ok_or_else(|| no_savepoint(&name))?;
                self.settings_as_of(&settings);
                done("ROLLBACK")
            }
            Statement::Savepoint { name } => {
                let settings = self.settings.mark();
                self.block("SAVEPOINT")?.savepoint(names::fold(name), settings);
                done("SAVEPOINT")
            }
            Statement::ReleaseSavepoint { name } => {
                let name = names::fold(name);
                if !self.block("RELEASE SAVEPOINT")?.release(&name) {
                    return Err(no_savepoint(&name));
                }
                done("RELEASE")
            }
            other => Err(SqlError::unsupported(sql::ddl::first_words(other))),
        }
    }

    fn run_reset(&mut self, reset: &ast::ResetStatement) -> SqlResult<Response> {
        match &reset.reset {
            ast::Reset::ALL => {
                self.settings.keep(false);
                self.settings.reset_all();
                self.settings.lasting().into_iter().for_each(Settings::reset_all);
                self.request = None;
            }
            ast::Reset::ConfigurationParameter(name) => {
                let name = Settings::canonical(&names::parts(name)?.join("."))?;
                self.reset(&name, false)?;
            }
        }
        done("RESET")
    }

    /// What DISCARD ALL ends beside temporary tables.
    pub(super) fn forget_session(&mut self) -> SqlResult<()> {
        self.refuse_in_definer(SESSION_USER)?;
        self.forget_all();
        self.cursors.clear();
        self.reset(SESSION_USER, false)?;
        self.settings.reset_all();
        self.request = None;
        self.given = Arc::default();
        // The gateway gives up what it had.
        self.advisory = super::advisory::Held::new(&self.gateway);
        self.show_advisory();
        Ok(())
    }

    fn run_deallocate(&mut self, name: &ast::Ident) -> SqlResult<Response> {
        let folded = names::fold(name);
        if folded == "all" && name.quote_style.is_none() {
            self.forget_all();
            return done("DEALLOCATE ALL");
        }
        self.stored(&folded)?;
        self.forget(&folded);
        done("DEALLOCATE")
    }

    fn run_set(&mut self, set: &Set) -> SqlResult<()> {
        match set {
            Set::SingleAssignment { scope, variable, values, .. } => {
                let name = names::parts(variable)?.join(".");
                let is_local = matches!(scope, Some(ast::ContextModifier::Local));
                if is_local && !self.has_block_for_local() {
                    return Ok(());
                }
                let is_default = matches!(values.as_slice(), [ast::Expr::Identifier(word)]
                    if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"));
                settings::check_count(&name, values.len())?;
                let value = sql::ddl::setting_text(&name, values);
                self.assign(&name, (!is_default).then_some(value.as_str()), is_local)
            }
            Set::SetTimeZone { local, value } => {
                if *local && !self.has_block_for_local() {
                    return Ok(());
                }
                match zoned::zone_text(value)? {
                    Some(zone) => self.set_in("TimeZone", &zone, *local),
                    None => self.assign("TimeZone", None, *local),
                }
            }
            Set::SetRole { context_modifier, role_name } => {
                self.set_role(context_modifier.as_ref(), role_name.as_ref())
            }
            Set::SetSessionAuthorization(wanted) => self.set_session_authorization(wanted),
            Set::SetNames { charset_name, .. } => self.set("client_encoding", &charset_name.value),
            Set::SetNamesDefault {} => Ok(()),
            Set::SetTransaction { modes, snapshot: None, session } => {
                if *session {
                    return self.session_modes(modes);
                }
                if self.transaction.is_none() {
                    self.notice(
                        "WARNING",
                        SqlState::NO_ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION can only be used in transaction blocks",
                    );
                    return Ok(());
                }
                self.transaction_modes(modes)
            }
            other => Err(SqlError::unsupported(format!("{other}"))),
        }
    }

    /// Whether SET LOCAL has a transaction to end with; without one it has no effect.
    pub(super) fn has_block_for_local(&mut self) -> bool {
        let has_block = self.transaction.is_some();
        if !has_block {
            let message = "SET LOCAL can only be used in transaction blocks";
            self.notice("WARNING", SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
        }
        has_block
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> SqlResult<()> {
        self.set_in(name, value, false)
    }

    pub(super) fn set_in(&mut self, name: &str, value: &str, is_local: bool) -> SqlResult<()> {
        if name == REQUEST {
            return self.set_request(value);
        }
        if matches!(name, ROLE | SESSION_USER) {
            self.check_becoming(name, value)?;
        }
        self.settings.keep(is_local);
        if let Some(lasting) = self.settings.lasting().filter(|_| !is_local) {
            lasting.set(name, value)?;
        }
        if let Some(token) = self.settings.set(name, value)? {
            token.check(self.cluster().incarnation())?;
            let now = self.cluster().now();
            // A token from the future would make every later query wait for it.
            if token.rank > self.cluster().topology().latest_rank(now, base::time::SECOND) {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("meridian.token {value} lies in the future"),
                ));
            }
            let partitions = self.cluster().topology().partitions.len();
            if token.positions.keys().any(|p| usize::from(p.0) >= partitions) {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("meridian.token {value} names a partition that does not exist"),
                ));
            }
            self.saw(&token);
        }
        self.report(name);
        Ok(())
    }

    pub(super) fn reset(&mut self, name: &str, is_local: bool) -> SqlResult<()> {
        self.refuse_in_definer(name)?;
        if name == REQUEST {
            self.request = None;
        }
        self.settings.keep(is_local);
        if let Some(lasting) = self.settings.lasting().filter(|_| !is_local) {
            lasting.reset(name)?;
        }
        self.settings.reset(name)?;
        self.report(name);
        Ok(())
    }

    /// The transaction, the text or the pipeline that changed settings is over, unless a block is still open.
    pub(super) fn settle_settings(&mut self, is_committed: bool) {
        if self.transaction.as_ref().is_none_or(|t| t.is_implicit) {
            self.settings.settle(is_committed).into_iter().for_each(|name| self.report(name));
        }
    }

    /// Settings are again what they were at a savepoint.
    pub(super) fn settings_as_of(&mut self, savepoint: &Arc<Settings>) {
        self.settings.go_back(savepoint).into_iter().for_each(|name| self.report(name));
    }

    fn report(&mut self, name: &str) {
        if name == "application_name" {
            self.activity.now().application = self.settings.get(name).into();
        }
        if matches!(name, ROLE | SESSION_USER) {
            self.report("is_superuser");
        }
        if Settings::is_reported(name) {
            self.note_changed(name, self.show(name));
        }
    }

    /// A setting as SHOW prints it.
    pub(super) fn show(&self, name: &str) -> String {
        match name {
            "is_superuser" => if self.standing().is_superuser { "on" } else { "off" }.into(),
            "meridian.token" => settings::show_token(&self.token),
            REQUEST => self.shown_request(),
            "meridian.freshness" => self.freshness.map_or_else(String::new, |f| super::shapes::freshness(&f)),
            "transaction_read_only" => if self.is_read_only() { "on" } else { "off" }.into(),
            "in_hot_standby" if self.cluster().read_only().is_some() => "on".into(),
            "transaction_isolation" => self.isolation().into(),
            _ => self.settings.get(name).into(),
        }
    }

    /// How far others' clocks are ahead of this node's, a row for each that it compares itself with.
    async fn clocks(&self) -> SqlResult<Vec<Vec<Datum>>> {
        let Reply::Status(status) = self.cluster().request(Request::Status).await? else {
            return Err(SqlError::internal("a node answered something else than its status"));
        };
        let topology = self.cluster().topology();
        let region = |node| Datum::text(topology.region_name(topology.region_of(node)));
        let ms = |ns: i64| Datum::Float(ns as f64 / base::time::MS as f64);
        let state = status.out.as_ref().map_or("within bound", |_| "fenced");
        let rows = status.clocks.iter().map(|clock| {
            vec![
                region(self.cluster().node()),
                ms(topology.clock_bound_ns as i64),
                region(clock.node),
                ms(clock.ahead_ns.0),
                ms(clock.ahead_ns.1),
                ms(status.now.since(clock.at) as i64),
                Datum::text(state),
            ]
        });
        Ok(rows.collect())
    }

    async fn run_show(&mut self, variable: &[ast::Ident]) -> SqlResult<Response> {
        let name = shown_name(variable);
        let (columns, rows) = if name.starts_with("expected.latency.") {
            (super::shapes::latency_columns(), self.expected_latency(variable)?)
        } else if name == CLOCKS {
            (clock_columns(), self.clocks().await?)
        } else if name == SURVIVAL {
            (survival_columns(), self.survival()?)
        } else if name == OUTCOME {
            let outcome = self.request_outcome().await?;
            (vec![Column::new(OUTCOME, DataType::Text)], vec![vec![Datum::text(outcome)]])
        } else if name == "all" {
            let rows = self
                .settings
                .all()
                .keys()
                .filter(|name| !analytics::is_custom_setting(name))
                .map(|name| vec![Datum::text(name.as_ref()), Datum::text(self.show(name)), Datum::text("")])
                .collect();
            let names = ["name", "setting", "description"];
            (names.iter().map(|n| Column::new(*n, DataType::Text)).collect(), rows)
        } else {
            let name = Settings::canonical(&name)?;
            let shown = self.parameter(&name).ok_or_else(|| settings::unrecognized(&name))?;
            (vec![Column::new(name.into_owned(), DataType::Text)], vec![vec![Datum::text(shown)]])
        };
        Ok(Response::Rows(Rows { columns: Arc::new(columns), stream: RowStream::values(rows), tag: "SHOW" }))
    }

    /// Values of EXECUTE's list, as the statement's parameter types.
    pub(super) fn execute_values(
        &self,
        prepared: &Prepared,
        values: &[ast::Expr],
        parameters: &[Datum],
    ) -> SqlResult<Vec<Datum>> {
        use sql::lower::{bind::Binding, scope::ParameterTypes, scope::Scope};
        if values.len() != prepared.parameters.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "wrong number of parameters for prepared statement",
            )
            .detail(format!(
                "Expected {} parameters but got {}.",
                prepared.parameters.len(),
                values.len()
            )));
        }
        let catalog = self.catalog();
        let mut types = ParameterTypes::default();
        let mut lowering = sql::lower::Lowering {
            catalog: &catalog,
            search_path: &self.settings.search_path,
            database: &self.database.name,
            parameters: &mut types,
        };
        let scope = Scope::default();
        let binding = Binding {
            parameters,
            times: self.times(),
            generators: &self.gateway.node.generators,
            catalog: &catalog,
        };
        let mut bound = Vec::with_capacity(values.len());
        for (n, (e, parameter)) in values.iter().zip(&prepared.parameters).enumerate() {
            let own = sql::user_types::now(&catalog, parameter.data_type);
            let data_type = if parameter.is_array { base::DataType::Text } else { own };
            let expr = lowering
                .exprs(&scope)
                .assignment(e, &format!("${}", n + 1), data_type)
                .map_err(|r| r.or(|| SqlError::unsupported("this expression as a parameter of EXECUTE")))?;
            let value = binding.value(&expr)?;
            bound.push(if data_type == sql::types::NUMERIC { value } else { data_type.coerce(value)? });
        }
        Ok(bound)
    }
}
