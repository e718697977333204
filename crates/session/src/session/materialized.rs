//! Materialized views: their rows are those of their query at one cut, and are replaced by one transaction.
//!
//! KEEPS: the query is read with the rights of the view's owner; who reads the view sees the rows of one refresh.

use super::Session;
use super::plan::{self, Plan};
use crate::response::Response;
use base::error::SqlResult;
use base::roles::{Object, Standing};
use base::schema::{SchemaAction, Table};
use base::views::View;
use base::{Datum, SqlError, TableId};
use sql::lower::scope::ParameterTypes;
use sql::parse::{Refresh, asks_for_data, refresh_of};
use sqlparser::ast::{ObjectName, Statement};
use std::sync::Arc;

/// Whether a statement makes the rows of a materialized view, or takes them away.
pub(super) fn makes_rows(statement: &Statement) -> bool {
    match statement {
        Statement::CreateView(create) => create.materialized && asks_for_data(create),
        other => refresh_of(other).is_some(),
    }
}

impl Session {
    /// Runs a statement for which [`makes_rows`] holds in the open transaction.
    pub(super) async fn keep_rows(&mut self, statement: &Statement) -> SqlResult<Response> {
        match refresh_of(statement) {
            Some((name, refresh)) => self.refresh(name, refresh).await,
            None => self.create_with_rows(statement).await,
        }
    }

    async fn create_with_rows(&mut self, statement: &Statement) -> SqlResult<Response> {
        self.prepare_own_catalog().await?;
        let planned = self.plan_ddl(statement)?;
        let made = planned.actions.iter().find_map(|action| match action {
            SchemaAction::PutView(view) => Some(view.clone()),
            _ => None,
        });
        let Some(view) = made else {
            self.tell_notices(planned.notices);
            return Ok(Response::Command(planned.tag.into()));
        };
        self.read_at_one_cut_if_alone();
        let standing = self.standing();
        let rows = self.rows_of(&view, standing).await?;
        self.collect_ddl(statement).await?;
        let count = self.put_rows(self.made_by(&planned.actions)?, rows).await?;
        Ok(Response::Command(format!("SELECT {count}")))
    }

    async fn refresh(&mut self, name: &ObjectName, refresh: Refresh) -> SqlResult<Response> {
        self.prepare_own_catalog().await?;
        let catalog = self.catalog();
        let found = sql::materialized::refreshed(&plan::names_of(&self.context(&catalog)), name, refresh);
        let (id, view) = found?;
        self.read_at_one_cut_if_alone();
        let rows = match refresh.with_data {
            true => {
                let roles = &catalog.roles;
                let owner = roles.standing(roles.owner_of(&Object::Relation(id)));
                self.rows_of(&view, Arc::new(owner)).await?
            }
            false => Vec::new(),
        };
        let table = self.kept_in(id)?;
        if sql::materialized::is_populated(&view) != refresh.with_data {
            let next = sql::materialized::over(&view, &table, refresh.with_data);
            // Plans over the table as it was are none any more.
            let again = SchemaAction::AlterTable(table.as_ref().clone());
            let known = self.known.clone();
            self.open().change_catalog(&known, &[SchemaAction::PutView(next), again])?;
        }
        let table = self.kept_in(id)?;
        // Of two refreshes at once one finds that the other has changed the rows, even if there were none.
        self.empty(table.clone()).await?;
        self.put_rows(table, rows).await?;
        Ok(Response::Command("REFRESH MATERIALIZED VIEW".into()))
    }

    /// What the query reads may change meanwhile: a view's rows are those of the cut.
    fn read_at_one_cut_if_alone(&mut self) {
        if self.open().is_implicit && !self.open().has_begun() {
            self.read_at_one_cut();
        }
    }

    /// The table that has a view's rows.
    fn kept_in(&self, id: TableId) -> SqlResult<Arc<Table>> {
        let table = self.catalog().table(id).cloned();
        table.ok_or_else(|| SqlError::internal("a materialized view without a table"))
    }

    async fn put_rows(&mut self, table: Arc<Table>, rows: Vec<Vec<Datum>>) -> SqlResult<u64> {
        let width = table.visible_columns().count();
        self.fill(table, width, rows).await
    }

    /// The rows of a view's query now, for a role.
    async fn rows_of(&mut self, view: &View, standing: Arc<Standing>) -> SqlResult<Vec<Vec<Datum>>> {
        let statement = sql::parse::parse(&view.definition)?.pop();
        let statement = statement.ok_or_else(|| SqlError::internal("a materialized view without a query"))?;
        let catalog = self.catalog();
        let planned = {
            let mut context = self.context(&catalog);
            context.standing = standing;
            plan::plan(&context, &statement, &mut ParameterTypes::default())?
        };
        let answer = match &planned {
            Plan::Utility(_) => return Err(SqlError::internal("a materialized view of no query")),
            planned => Box::pin(self.run(planned, &[])).await?,
        };
        let Response::Rows(mut rows) = answer else {
            return Err(SqlError::internal("a query answers rows"));
        };
        let memory = self.gateway.rows_memory("rows of a materialized view");
        rows.stream.collect_within(&memory).await
    }
}
