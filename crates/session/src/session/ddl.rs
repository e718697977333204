//! DDL in a session: ordered on its own, or collected until COMMIT.

use super::Session;
use super::attempts::Attempts;
use super::planned::Planned;
use super::write::Written;
use crate::response::Response;
use base::error::{SqlResult, SqlState};
use base::key::KeyRange;
use base::roles::{Object, Privileges, Standing};
use base::schema::triggers::Event;
use base::schema::{Catalog, SchemaAction, SchemaChange, Sequence, Table};
use base::txn::{AccessMode, AccessSet, Granule, Statement as Program, TxnProgram};
use base::{Datum, SqlError};
use sql::ddl::{self, DdlContext};
use sql::lower::modify::ModifyPlan;
use sqlparser::ast::{self, Statement};
use std::sync::Arc;

/// Plans of one DDL statement before it gives up on a catalog that keeps changing.
const PLANS_MAX: usize = 64;

impl Session {
    pub(super) async fn run_ddl(
        &mut self,
        statement: &Statement,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        if self.is_read_only() {
            self.refuse_if_read_only(&ddl::first_words(statement))?;
        }
        if matches!(statement, Statement::CreateIndex(index) if index.concurrently) {
            self.refuse_in_block("CREATE INDEX CONCURRENTLY")?;
        }
        if let Statement::CreateTable(create) = statement
            && create.query.is_some()
        {
            if self.transaction.is_some() {
                return Box::pin(self.create_as(create, parameters)).await;
            }
            return Box::pin(self.run_alone(statement, parameters)).await;
        }
        if sql::parse::has_elements(statement) {
            return match self.transaction {
                Some(_) => Box::pin(self.create_schema(statement)).await,
                None => Box::pin(self.run_alone(statement, parameters)).await,
            };
        }
        if super::materialized::makes_rows(statement) {
            return match self.transaction {
                Some(_) => Box::pin(self.keep_rows(statement)).await,
                None => Box::pin(self.run_alone(statement, parameters)).await,
            };
        }
        if self.transaction.is_some() {
            if !self.moves_home(statement)? {
                let gateway = self.gateway.clone();
                let _turn = gateway.turn_to_change(statement).await;
                return self.collect_ddl(statement).await;
            }
            if self.transaction.as_ref().is_some_and(|t| !t.is_implicit || t.has_begun()) {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "ALTER TABLE … SET (home = …) cannot run inside a transaction block",
                )
                .hint("It takes effect for everybody at once and cannot be taken back."));
            }
            self.end_implicit().await?;
        }
        self.change_at_once(statement, parameters).await
    }

    /// DDL outside a transaction: planned anew until nobody else's came between.
    async fn change_at_once(&mut self, statement: &Statement, parameters: &[Datum]) -> SqlResult<Response> {
        let mut attempts = 0;
        let gateway = self.gateway.clone();
        loop {
            let turn = gateway.turn_to_change(statement).await;
            self.look_up_catalog();
            let mut planned = self.planned_ddl(statement)?;
            if self.is_done_at_once(&planned).await? {
                planned = planned.at_once();
            }
            let tag = planned.tag;
            let notices = planned.notices;
            if planned.actions.is_empty() {
                self.tell_notices(notices);
                return Ok(Response::Command(tag.into()));
            }
            let moves_rows = planned.rewrites.is_some() || !planned.partition_rows.is_empty();
            if moves_rows || self.asks_for_rows(&planned.actions) {
                // Its COMMIT waits for a turn.
                drop(turn);
                return Box::pin(self.run_alone(statement, parameters)).await;
            }
            self.check_made(statement, &planned.actions)?;
            if super::temporary::is_gone_at_once(statement) {
                self.tell_notices(notices);
                return Ok(Response::Command(tag.into()));
            }
            // Blocks of this gateway take other ids for their temporary tables.
            if sql::temporary::makes_some(&planned.actions) {
                self.gateway.keep_ids(sql::temporary::id_behind(&planned.actions));
            }
            let before = self.catalog();
            let base_version = before.version;
            let actions = planned.actions.clone();
            // Should the statement be given up, whoever ends it takes this away.
            self.note_later(planned.later.clone());
            match self.submit_schema(SchemaChange { database: self.database.id, base_version, actions }).await
            {
                Err(e) if super::is_stale(&e) && attempts < PLANS_MAX => {
                    self.note_later(None);
                    attempts += 1;
                    self.refresh_catalog().await?;
                }
                Err(e) => return Err(e),
                Ok(()) => {
                    self.temporary.note(statement, &planned.actions);
                    self.bring_indexes(&before, &planned.actions).await?;
                    if let Some(later) = planned.later {
                        // It may take long, and others may change other tables meanwhile.
                        drop(turn);
                        Box::pin(self.do_later(later)).await?;
                    }
                    self.tell_notices(notices);
                    return Ok(Response::Command(tag.into()));
                }
            }
        }
    }

    /// Says what a change of the catalog has to say; of class 01 it is a warning.
    pub(super) fn tell_notices(&mut self, notices: Vec<(SqlState, String)>) {
        for (state, text) in notices {
            let severity = if state.0.starts_with(b"01") { "WARNING" } else { "NOTICE" };
            self.notice(severity, state, text);
        }
    }

    fn moves_home(&mut self, statement: &Statement) -> SqlResult<bool> {
        let Statement::AlterTable(alter) = statement else { return Ok(false) };
        let sets = |operation| matches!(operation, &ast::AlterTableOperation::SetOptionsParens { .. });
        if !alter.operations.iter().any(sets) {
            return Ok(false);
        }
        self.look_up_catalog();
        let is_move = |action: &SchemaAction| matches!(action, SchemaAction::MoveHome(_));
        Ok(self.plan_ddl(statement)?.actions.iter().any(is_move))
    }

    /// Indexes of a table that is ordered elsewhere than its partitions, and that did not exist when it went there, go
    /// there too. `before`: the catalog that was changed. Should this session end before they have, nothing is wrong but that writes take longer.
    pub(super) async fn bring_indexes(
        &mut self,
        before: &Catalog,
        actions: &[SchemaAction],
    ) -> SqlResult<()> {
        for action in actions {
            let (id, mut moved) = match action {
                SchemaAction::MoveHome(moved) => (moved.table, moved.ids.clone()),
                SchemaAction::AlterTable(altered) if before.homes.contains_key(&altered.id) => {
                    let known = before.table(altered.id);
                    let ids = known.iter().flat_map(|known| &known.indexes).map(|index| index.id);
                    (altered.id, ids.chain([altered.id]).collect())
                }
                _ => continue,
            };
            loop {
                self.refresh_catalog().await?;
                self.look_up_catalog();
                let (known, topology) = (self.known.clone(), self.cluster().topology().clone());
                let (Some(to), Some(table)) = (known.homes.get(&id), known.table(id)) else { break };
                let mut late = ddl::placement::move_home(table, *to, &topology);
                late.ids.retain(|id| !moved.contains(id));
                if late.ids.is_empty() {
                    break;
                }
                moved.extend(late.ids.iter().copied());
                let actions = vec![SchemaAction::MoveHome(late)];
                self.submit_schema(SchemaChange {
                    database: self.database.id,
                    base_version: known.version,
                    actions,
                })
                .await?;
            }
        }
        Ok(())
    }

    /// The same where it holds up nobody: a long list of constraints takes a while to check.
    fn planned_ddl(&self, statement: &Statement) -> SqlResult<ddl::Ddl> {
        let aside = || sql::interrupt::aside(self.gateway.threads(), || self.plan_ddl(statement));
        sql::interrupt::during(&self.cancel, aside)
    }

    pub(super) fn plan_ddl(&self, statement: &Statement) -> SqlResult<ddl::Ddl> {
        let catalog = self.gateway.with_free_ids(self.catalog());
        let standing = self.standing();
        ddl::plan(&self.ddl_context(&catalog, &standing, &Planned(self)), statement)
    }

    /// What a change of a catalog is planned against.
    pub(super) fn ddl_context<'a>(
        &'a self,
        catalog: &'a Arc<Catalog>,
        standing: &'a Standing,
        shapes: &'a Planned<'a>,
    ) -> DdlContext<'a> {
        let cluster = self.cluster();
        DdlContext {
            catalog,
            search_path: &self.settings.search_path,
            database: &self.database.name,
            topology: cluster.topology(),
            region: cluster.region(),
            generators: &self.gateway.node.generators,
            times: self.times(),
            standing,
            secrets: &super::roles::Passwords,
            shapes,
            settings: shapes,
            is_alone: self.transaction.is_none(),
            checks_bodies: super::settings::boolean(self.settings.get("check_function_bodies"))
                != Some(false),
        }
    }

    /// Before the open transaction changes its catalog for the first time.
    pub(super) async fn prepare_own_catalog(&mut self) -> SqlResult<()> {
        if !self.has_own_catalog() {
            // What others have ordered meanwhile would only make COMMIT fail.
            self.refresh_catalog().await?;
            self.look_up_catalog();
            self.check_written()?;
        }
        Ok(())
    }

    /// Inside a transaction changes are collected; its own statements see them at once.
    pub(super) async fn collect_ddl(&mut self, statement: &Statement) -> SqlResult<Response> {
        self.prepare_own_catalog().await?;
        let mut planned = self.planned_ddl(statement)?;
        if !planned.actions.is_empty() {
            let (known, before) = (self.known.clone(), self.catalog());
            let rows = match &planned.rewrites {
                Some(rewrite) => self.all_rows(&rewrite.from).await?,
                None => Vec::new(),
            };
            super::copying::refuse_many(
                rows.len(),
                "a change of a table whose rows have to be written anew",
            )?;
            let moved = self.rows_of_partitions(&planned.partition_rows).await?;
            let numbers = match &planned.rewrites {
                Some(rewrite) => self.numbers(rewrite, rows.len(), &mut planned.actions)?,
                None => Vec::new(),
            };
            self.open().change_catalog(&known, &planned.actions)?;
            self.gateway.keep_ids(self.catalog().next_id);
            self.temporary.note(statement, &planned.actions);
            if let Some(rewrite) = &planned.rewrites {
                self.temporary.follow(rewrite.from.id, rewrite.to);
                self.write_anew(rewrite, rows, &numbers).await?;
            }
            self.enter_rows(&planned.actions).await?;
            self.move_rows_of_partitions(&planned.partition_rows, moved).await?;
            Box::pin(self.hold_rows(&before, &planned.actions)).await?;
            let replaces = planned.rewrites.as_ref().map(|rewrite| (rewrite.to, rewrite.from.id));
            Box::pin(self.validate_foreign_keys(&before, &planned.actions, replaces)).await?;
        }
        self.tell_notices(planned.notices);
        Ok(Response::Command(planned.tag.into()))
    }

    /// Orders a change at every partition.
    pub(super) async fn submit_schema(&mut self, change: SchemaChange) -> SqlResult<()> {
        let access = super::catalog::everywhere(self.cluster().topology());
        self.submit(TxnProgram::Schema(change), access).await.map(|_| ())
    }

    pub(super) async fn run_truncate(&mut self, truncate: &ast::Truncate) -> SqlResult<Response> {
        if self.transaction.is_some() {
            return self.truncate_buffered(truncate).await;
        }
        let restarts = truncate.identity == Some(ast::TruncateIdentityOption::Restart);
        let of_partitions = !self.truncated_partitions(&self.catalog(), truncate)?.is_empty();
        if restarts || of_partitions || self.fires_truncate(truncate)? {
            // Rows and catalog change together, and triggers see a transaction.
            let (mut attempts, told) = (Attempts::default(), self.notices_so_far());
            loop {
                self.forget_notices(told);
                self.begin_attempt(false, &attempts).await;
                let result = Box::pin(self.truncate_buffered(truncate)).await;
                if let Some(response) = self.settle(result, &mut attempts).await? {
                    return Ok(response);
                }
            }
        }
        self.refuse_if_read_only("TRUNCATE TABLE")?;
        let catalog = self.catalog();
        let topology = self.cluster().topology().clone();
        let mut statements = Vec::new();
        let mut access = AccessSet::default();
        for table in self.all_truncated(&catalog, truncate)? {
            for partition in table.partitions(&topology) {
                access.add(partition, Granule::Range(table.id, KeyRange::all()), AccessMode::Write);
                for index in &table.indexes {
                    access.add(partition, Granule::Range(index.id, KeyRange::all()), AccessMode::Write);
                }
            }
            statements.push(Program::Truncate { table: table.id, schema_version: table.version });
        }
        access.normalize();
        if !statements.is_empty() {
            self.submit(TxnProgram::Statements(statements), access).await?;
        }
        Ok(Response::Command("TRUNCATE TABLE".into()))
    }

    /// The tables of a TRUNCATE, with CASCADE those that reference them too. Errors: 0A000 if one that stays does, 42501
    /// for one that may not be.
    fn all_truncated(&mut self, catalog: &Catalog, truncate: &ast::Truncate) -> SqlResult<Vec<Arc<Table>>> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for target in &truncate.table_names {
            let found = self.truncated(catalog, truncate, target)?.cloned();
            if let Some(view) = found.as_ref().filter(|found| sql::materialized::is_one(catalog, found.id)) {
                let told = format!("\"{}\" is not a table", view.name);
                return Err(SqlError::new(SqlState(*b"42809"), told));
            }
            tables.extend(found.filter(|found| tables.iter().all(|t| t.id != found.id)));
        }
        let (standing, mut at) = (self.standing(), 0);
        while at < tables.len() {
            let parent = tables[at].clone();
            at += 1;
            for (child, _) in catalog.referencing(&parent) {
                if tables.iter().any(|t| t.id == child.id) {
                    continue;
                }
                if truncate.cascade != Some(ast::CascadeOption::Cascade) {
                    let told = "cannot truncate a table referenced in a foreign key constraint";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
                        .detail(format!("Table \"{}\" references \"{}\".", child.name, parent.name))
                        .hint(format!(
                            "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                            child.name
                        )));
                }
                let told = format!("truncate cascades to table \"{}\"", child.name);
                self.notice("NOTICE", SqlState::SUCCESSFUL, told);
                // The statement does not name it, so nobody has asked yet.
                if !catalog.roles.may(&standing, &Object::Relation(child.id), Privileges::TRUNCATE) {
                    return Err(sql::privileges::denied("table", &child.name));
                }
                tables.push(child.clone());
            }
        }
        Ok(tables)
    }

    fn truncated<'c>(
        &self,
        catalog: &'c Catalog,
        truncate: &ast::Truncate,
        target: &ast::TruncateTableTarget,
    ) -> SqlResult<Option<&'c Arc<Table>>> {
        let (path, database) = (&self.settings.search_path, &self.database.name);
        let relation = sql::names::find_relation(catalog, path, database, &target.name);
        match sql::names::find_table(catalog, path, database, &target.name) {
            Err(_) if truncate.if_exists => Ok(None),
            // Its rows are its table's.
            Err(_)
                if relation
                    .is_some_and(|of| sql::partitions::partition(catalog, of.shape().id).is_some()) =>
            {
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Deletes the rows of a table in the open transaction, which finds at COMMIT that no others have come.
    pub(super) async fn empty(&mut self, table: Arc<Table>) -> SqlResult<()> {
        let plan = ModifyPlan::delete_all(table);
        // At snapshot isolation too, no row may come meanwhile.
        self.open().reading.keeps = true;
        let emptied = Box::pin(self.modify_rows(&plan, &[], false)).await;
        self.open().reading.keeps = false;
        emptied.map(|_| ())
    }

    /// TRUNCATE in a block deletes row by row: what comes before and after it belongs to the same buffer.
    async fn truncate_buffered(&mut self, truncate: &ast::Truncate) -> SqlResult<Response> {
        self.refuse_if_read_only("TRUNCATE TABLE")?;
        let restarts = truncate.identity == Some(ast::TruncateIdentityOption::Restart);
        if restarts {
            self.prepare_own_catalog().await?;
        }
        let catalog = self.catalog();
        let tables = self.all_truncated(&catalog, truncate)?;
        if restarts {
            let is_theirs = |sequence: &&Arc<Sequence>| {
                sequence.owner.is_some_and(|(owner, _)| tables.iter().any(|table| table.id == owner))
            };
            let owned: Vec<Arc<Sequence>> = catalog.sequences.values().filter(is_theirs).cloned().collect();
            let moved = |sequence: &Arc<Sequence>| {
                SchemaAction::CreateSequence(self.gateway.node.generators.moved(
                    sequence,
                    sequence.start,
                    false,
                ))
            };
            let actions: Vec<SchemaAction> = owned.iter().map(moved).collect();
            let known = self.known.clone();
            self.open().change_catalog(&known, &actions)?;
        }
        let mut written = Written::default();
        for table in &tables {
            self.begin_write(table, Event::Truncate, &[], &mut written.pending).await?;
        }
        for table in tables {
            self.empty(table).await?;
        }
        let partitions = self.truncated_partitions(&catalog, truncate)?;
        self.empty_partitions(partitions).await?;
        self.fire_pending(written.pending).await?;
        Ok(Response::Command("TRUNCATE TABLE".into()))
    }

    /// Whether triggers wait for a TRUNCATE.
    fn fires_truncate(&mut self, truncate: &ast::Truncate) -> SqlResult<bool> {
        let (catalog, told) = (self.catalog(), self.notices_so_far());
        let tables = self.all_truncated(&catalog, truncate)?;
        self.forget_notices(told);
        Ok(tables.iter().any(|table| table.triggers.wait_for(Event::Truncate)))
    }
}
