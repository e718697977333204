//! A session's temporary tables: what COMMIT does to them, and DISCARD.
//!
//! The tables are in the catalog, in a schema of the session's own ([`sql::temporary`]). What COMMIT does to them only the
//! session knows. KEEPS: a table of ON COMMIT DELETE ROWS has no rows between transactions: what is written to it is
//! forgotten before it is ordered, so nobody else ever hears of it.

use super::Session;
use super::attempts::Attempts;
use super::plan::Plan;
use super::settings::Settings;
use super::transaction::Transaction;
use crate::notifications::Said;
use crate::response::Response;
use base::error::{SqlResult, SqlState};
use base::schema::{Catalog, SchemaAction, SchemaChange, Sequence, Table};
use base::{Datum, SqlError, TableId};
use sqlparser::ast::{self, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often a change of temporary tables is taken to another catalog before it is refused.
const ATTEMPTS: usize = 64;

/// Tables that COMMIT empties (`false`) or drops (`true`). Some of them may have come to nothing.
#[derive(Default)]
pub(super) struct OnCommit {
    drops: BTreeMap<TableId, bool>,
}

impl OnCommit {
    /// Notes what becomes of tables that a statement has made.
    pub fn note(&mut self, statement: &Statement, actions: &[SchemaAction]) {
        let Statement::CreateTable(create) = statement else { return };
        let drops = match &create.on_commit {
            Some(ast::OnCommit::Drop) => true,
            Some(ast::OnCommit::DeleteRows) => false,
            Some(ast::OnCommit::PreserveRows) | None => return,
        };
        let made = actions.iter().filter_map(|action| match action {
            // A partitioned table has no rows of its own, and its partitions keep theirs.
            SchemaAction::CreateTable(table) if !drops && table.partitioning.is_some() => None,
            SchemaAction::CreateTable(table) => Some((table.id, drops)),
            _ => None,
        });
        self.drops.extend(made);
    }

    /// A table takes the place of another one.
    pub fn follow(&mut self, from: TableId, to: TableId) {
        if let Some(drops) = self.drops.get(&from).copied() {
            self.drops.insert(to, drops);
        }
    }

    fn empties(&self, table: TableId) -> bool {
        self.drops.get(&table) == Some(&false)
    }
}

/// Whether a statement outside a block makes a table that its own COMMIT drops.
pub(super) fn is_gone_at_once(statement: &Statement) -> bool {
    let Statement::CreateTable(create) = statement else { return false };
    create.on_commit == Some(ast::OnCommit::Drop)
}

impl Settings {
    /// The same for a session whose temporary tables are in this schema.
    pub fn with_temporary(mut self, schema: String) -> Settings {
        self.search_path.insert(0, schema);
        self
    }

    /// Names are looked up in a schema before all others but the session's own; answers where they were before.
    pub(super) fn exchange_path(&mut self, schema: &str) -> Vec<String> {
        let before = self.search_path.clone();
        let at = usize::from(before.first().is_some_and(|first| sql::temporary::is_temporary(first)));
        self.search_path.insert(at, schema.into());
        before
    }

    /// Names are looked up where they were before.
    pub(super) fn search_path_again(&mut self, before: Vec<String>) {
        self.search_path = before;
    }

    /// Schemas of a search path; `None` if it is no list of names. The session's own comes first unless it is placed.
    pub(super) fn path(&self, value: &str) -> Option<Vec<String>> {
        let own = sql::temporary::own(&self.search_path);
        let schema = |name: String| match name.as_str() {
            sql::temporary::ALIAS => own.map(String::from),
            "$user" | "" => None,
            other => (!sql::temporary::is_temporary(other)).then_some(name),
        };
        let mut path: Vec<String> = sql::names::listed(value)?.into_iter().filter_map(schema).collect();
        let is_placed = sql::temporary::own(&path).is_some();
        if let Some(own) = own.filter(|_| !is_placed) {
            path.insert(0, own.into());
        }
        Some(path)
    }
}

impl Session {
    /// The table with this id, if it is a temporary one of this session.
    fn own_table<'c>(&self, catalog: &'c Catalog, id: TableId) -> Option<&'c Arc<Table>> {
        let own = sql::temporary::own(&self.settings.search_path);
        catalog.table(id).filter(|table| own == Some(&table.schema))
    }

    /// Whether a statement that is executed now, outside a transaction, may write rows that end with it.
    pub(super) fn empties_at_commit(&self) -> bool {
        self.transaction.is_none() && !self.temporary.drops.is_empty() && {
            let catalog = self.catalog();
            self.temporary.drops.keys().any(|id| self.own_table(&catalog, *id).is_some())
        }
    }

    /// Whether a write that is executed now, outside a transaction, cannot be ordered as it is: its rows end with it, or
    /// triggers look at them.
    pub(super) fn is_buffered_alone(&self, plan: &Plan) -> bool {
        let table = match plan {
            Plan::Insert(plan, _) => &plan.table,
            Plan::Modify(plan) => &plan.table,
            _ => return false,
        };
        self.transaction.is_none() && (!table.triggers.is_empty() || self.empties_at_commit())
    }

    /// Runs a statement as a transaction of its own, whose rows are buffered.
    pub(super) async fn run_buffered(&mut self, plan: &Plan, parameters: &[Datum]) -> SqlResult<Response> {
        let (mut attempts, told) = (Attempts::default(), self.notices_so_far());
        loop {
            self.forget_notices(told);
            self.begin_attempt(self.is_read_only(), &attempts).await;
            let result = Box::pin(self.run(plan, parameters)).await;
            if let Some(response) = self.settle(result, &mut attempts).await? {
                return Ok(response);
            }
        }
    }

    /// Empties and drops, before COMMIT, the tables that were made so.
    pub(super) fn end_temporary(&mut self) -> SqlResult<()> {
        if self.temporary.drops.is_empty() || self.transaction.is_none() {
            return Ok(());
        }
        let (catalog, known) = (self.catalog(), self.known.clone());
        self.check_emptied(&catalog)?;
        let mut gone = Vec::new();
        for (id, drops) in std::mem::take(&mut self.temporary.drops) {
            if self.own_table(&catalog, id).is_none() {
                // It is there again if this COMMIT fails.
                if self.own_table(&known, id).is_some() {
                    self.temporary.drops.insert(id, drops);
                }
                continue;
            }
            self.open().forget_rows(id);
            match drops {
                true => gone.push(id),
                false => drop(self.temporary.drops.insert(id, false)),
            }
        }
        let actions = dropped(&catalog, gone);
        if actions.is_empty() {
            return Ok(());
        }
        self.open().change_catalog(&known, &actions)?;
        self.open().forget_undone();
        Ok(())
    }

    /// Errors: 0A000 if a table that COMMIT empties is referenced by one that keeps its rows.
    fn check_emptied(&self, catalog: &Catalog) -> SqlResult<()> {
        let emptied = self.temporary.drops.keys().filter(|id| self.temporary.empties(**id));
        for parent in emptied.filter_map(|id| self.own_table(catalog, *id)) {
            let mut children = catalog.referencing(parent).map(|(child, _)| child);
            if let Some(child) = children.find(|child| !self.temporary.empties(child.id)) {
                return Err(unlike(child, parent));
            }
        }
        Ok(())
    }

    /// The same for tables that a statement makes or alters outside a block.
    pub(super) fn check_made(&self, statement: &Statement, actions: &[SchemaAction]) -> SqlResult<()> {
        let makes_emptied = |create: &ast::CreateTable| create.on_commit == Some(ast::OnCommit::DeleteRows);
        if self.temporary.drops.is_empty()
            || matches!(statement, Statement::CreateTable(create) if makes_emptied(create))
        {
            return Ok(());
        }
        let catalog = self.catalog();
        for action in actions {
            let (SchemaAction::CreateTable(child) | SchemaAction::AlterTable(child)) = action else {
                continue;
            };
            let is_emptied = self.temporary.empties(child.id);
            let keys = child.foreign.own.iter().filter(|_| !is_emptied);
            let mut keys = keys.filter(|key| self.temporary.empties(key.table));
            if let Some(parent) = keys.find_map(|key| self.own_table(&catalog, key.table)) {
                return Err(unlike(child, parent));
            }
        }
        Ok(())
    }

    /// Orders what a transaction has changed of the catalog. A change of temporary relations alone, or of where sequences go
    /// on, is planned again over the newest catalog; any other is refused (40001) if the catalog has changed meanwhile.
    pub(super) async fn commit_changes(&mut self, transaction: &mut Transaction) -> SqlResult<()> {
        let topology = self.cluster().topology().clone();
        let carries_over = transaction.can_be_carried_over() && !self.is_named();
        let gateway = self.gateway.clone();
        let _turn = if carries_over { Some(gateway.temporary.turn().await) } else { None };
        let mut attempts = 0;
        loop {
            if carries_over && !transaction.carry_over(&gateway.catalog_of(self.database.id))? {
                return Err(base::schema::stale_schema());
            }
            let Some(program) = transaction.migration(&topology) else { return Ok(()) };
            match self.submit(program, super::catalog::everywhere(&topology)).await {
                Err(e) if super::is_stale(&e) && carries_over && attempts < ATTEMPTS => attempts += 1,
                ended => return ended.map(|_| ()),
            }
            self.refresh_catalog().await?;
        }
    }

    /// Changes the catalog, as a transaction of its own; nothing is done where there is nothing to do.
    pub(crate) async fn change_alone(
        &mut self,
        plan: impl Fn(&Catalog) -> Vec<SchemaAction>,
    ) -> SqlResult<()> {
        loop {
            self.look_up_catalog();
            let (base_version, actions) = (self.known.version, plan(&self.known));
            if actions.is_empty() {
                return Ok(());
            }
            match self.submit_schema(SchemaChange { database: self.database.id, base_version, actions }).await
            {
                Err(error) if super::is_stale(&error) => self.refresh_catalog().await?,
                ended => return ended,
            }
        }
    }

    pub(super) async fn run_discard(&mut self, statement: &Statement) -> SqlResult<Response> {
        let Statement::Discard { object_type } = statement else {
            return Err(SqlError::internal("this statement is no DISCARD"));
        };
        let is_open = self.transaction.as_ref().is_some_and(|t| !t.is_implicit);
        if is_open {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("DISCARD {object_type} cannot run inside a transaction block"),
            ));
        }
        if matches!(object_type, ast::DiscardObject::ALL) {
            self.forget_session()?;
            self.say(Said::UnlistenAll)?;
        }
        if matches!(object_type, ast::DiscardObject::ALL | ast::DiscardObject::TEMP) {
            self.drop_own(statement).await?;
        }
        Ok(Response::Command(format!("DISCARD {object_type}")))
    }

    /// Drops the session's temporary tables.
    async fn drop_own(&mut self, statement: &Statement) -> SqlResult<()> {
        self.end_implicit().await?;
        self.look_up_catalog();
        let path = self.settings.search_path.clone();
        let own = |catalog: &Catalog| {
            sql::ddl::drop_temporary(catalog, |schema| sql::temporary::own(&path) == Some(schema))
        };
        if own(&self.known).is_empty() {
            return Ok(());
        }
        let gateway = self.gateway.clone();
        let _turn = gateway.turn_to_change(statement).await;
        self.change_alone(own).await?;
        self.temporary = OnCommit::default();
        Ok(())
    }
}

fn unlike(child: &Table, parent: &Table) -> SqlError {
    let told = "unsupported ON COMMIT and foreign key combination";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told).detail(format!(
        "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
        child.name, parent.name
    ))
}

/// Drops tables with what depends on them: views, views that read those, and foreign keys and defaults of tables that stay.
fn dropped(catalog: &Catalog, tables: Vec<TableId>) -> Vec<SchemaAction> {
    let mut gone: BTreeSet<TableId> = tables.iter().copied().collect();
    let (mut unseen, mut actions) = (tables.clone(), Vec::new());
    while let Some(id) = unseen.pop() {
        for view in catalog.views.values().filter(|view| view.uses.contains_key(&id)) {
            let reader = view.shape.id;
            if !gone.insert(reader) {
                continue;
            }
            unseen.push(reader);
            actions.push(SchemaAction::DropView(reader));
            if sql::materialized::is_one(catalog, reader) {
                actions.push(SchemaAction::DropTable(reader));
            }
        }
    }
    for child in catalog.tables.values().filter(|child| !gone.contains(&child.id)) {
        if child.foreign.own.iter().any(|key| gone.contains(&key.table)) {
            let mut next = child.as_ref().clone();
            next.drop_foreign_keys(|key| gone.contains(&key.table));
            actions.push(SchemaAction::AlterTable(next));
        }
    }
    let is_owned = |s: &Sequence| s.owner.is_some_and(|(table, _)| gone.contains(&table));
    sql::ddl::lose_defaults(catalog, is_owned, |table| !gone.contains(&table.id), &mut actions);
    actions.extend(tables.into_iter().map(SchemaAction::DropTable));
    actions
}
