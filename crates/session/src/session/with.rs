//! WITH whose queries write: `WITH gone AS (DELETE … RETURNING …) INSERT INTO … SELECT … FROM gone`, and WITH whose queries
//! lock rows.
//!
//! The parts are run one after the other in one transaction, and what a part returns is a table of its name for those
//! behind it. KEEPS: each part reads what was there before the statement, and foreign keys are kept at its end.

use super::Session;
use super::plan::{Plan, Planner, WithPart, WithPlan};
use super::transaction::PartRows;
use super::triggers::Pending;
use super::write::Written;
use crate::response::Response;
use analytics::Context;
use base::error::SqlResult;
use base::schema::Table;
use base::{Datum, SqlError};
use sql::lower::insert::assign;
use sql::lower::scope::ParameterTypes;
use sql::types::Column;
use sql::with::Taken;
use sqlparser::ast;
use std::sync::Arc;

impl WithPlan {
    /// Errors: those of its parts, 0A000 for a part that others read and that returns nothing.
    pub fn new(
        context: &Context<'_>,
        query: &ast::Query,
        parameters: &mut ParameterTypes,
        planner: Planner,
    ) -> SqlResult<WithPlan> {
        let mut taken = Taken::of(query).ok_or_else(|| SqlError::internal("a WITH without parts"))?;
        let mut catalog = context.catalog.clone();
        let mut parts = Vec::new();
        while let Some((nth, statement)) = taken.next_part()? {
            let plan = planner(&context.over(&catalog), &statement, parameters)?;
            let table = taken.put_table(nth, plan.columns().as_ref().map(|columns| columns.as_slice()))?;
            let table = table.map(Arc::new);
            if let Some(table) = &table {
                Arc::make_mut(&mut catalog).tables.insert(table.id, table.clone());
            }
            parts.push(WithPart { plan, table });
        }
        let main = planner(&context.over(&catalog), &taken.rest()?, parameters)?;
        if matches!(main, Plan::Utility(_) | Plan::With(_) | Plan::Routine(_)) {
            return Err(SqlError::unsupported("this statement behind a WITH that writes"));
        }
        let is_checked = |plan: &Plan| matches!(plan, Plan::Checked(_));
        if is_checked(&main) || parts.iter().any(|part| is_checked(&part.plan)) {
            let told = "writing to a view WITH CHECK OPTION in a WITH that writes";
            return Err(SqlError::unsupported(told).hint("Write to it in a statement of its own."));
        }
        let columns = main.columns().map(|columns| {
            let is_known = |column: &Column| {
                let of =
                    |table: &Arc<Table>| column.origin.map(|(oid, _)| oid) == Some(sql::lower::oid(table.id));
                !parts.iter().filter_map(|part| part.table.as_ref()).any(of)
            };
            let known = |column: &Column| Column {
                origin: column.origin.filter(|_| is_known(column)),
                ..column.clone()
            };
            Arc::new(columns.iter().map(known).collect())
        });
        let writes = parts.iter().map(|part| &part.plan).chain([&main]).any(|plan| plan.verb().is_some());
        // As PostgreSQL says it: the statement is what stands around its parts.
        let word = writes.then(|| main.verb().unwrap_or("SELECT"));
        let tag = if main.verb() == Some("INSERT") { "INSERT 0" } else { word.unwrap_or("SELECT") };
        Ok(WithPlan { parts, main, catalog, columns, tag, word })
    }

    /// Its parts in the order in which they are run, the statement around them last.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.parts.iter().map(|part| &part.plan).chain([&self.main])
    }
}

impl Session {
    /// Runs the parts in the open transaction; what is answered is what the statement around them returns.
    pub(super) async fn with_buffered(
        &mut self,
        plan: &WithPlan,
        parameters: &[Datum],
        attempts: usize,
    ) -> SqlResult<Written> {
        if self.open().parts.is_some() {
            return Err(SqlError::unsupported("a WITH that writes inside another one"));
        }
        self.pinned().await?;
        let mark = self.open().begin_parts(plan.catalog.clone());
        let mut pending = Pending::default();
        for part in &plan.parts {
            self.open().hide_parts();
            let written = self.part_buffered(&part.plan, parameters, attempts).await?;
            self.open().show_parts();
            pending.extend(written.pending);
            if let Some(table) = &part.table {
                let rows = rows_of(table, written.returned)?;
                self.open().keep_part(table.id, rows);
            }
        }
        self.open().hide_parts();
        let mut written = self.part_buffered(&plan.main, parameters, attempts).await?;
        self.open().end_parts();
        pending.extend(std::mem::take(&mut written.pending));
        written.pending = pending;
        self.end_write(mark, &mut written.pending).await?;
        Ok(written)
    }

    pub(super) async fn part_buffered(
        &mut self,
        plan: &Plan,
        parameters: &[Datum],
        attempts: usize,
    ) -> SqlResult<Written> {
        match plan {
            Plan::Insert(plan, computations) => {
                let plan = self.computed(plan, &computations.values, parameters).await?;
                Box::pin(self.insert_buffered(&plan, computations.conflict.as_ref(), parameters)).await
            }
            Plan::Modify(plan) => Box::pin(self.modify_buffered(plan, parameters)).await,
            Plan::Rich(plan) => Box::pin(self.rich_buffered(plan, parameters, attempts)).await,
            Plan::Merge(plan) => Box::pin(self.merge_buffered(plan, parameters, attempts)).await,
            plan => match Box::pin(self.run_plan(plan, parameters)).await? {
                Response::Rows(mut rows) => {
                    let returned = self.collected(&mut rows.stream).await?;
                    Ok(Written { affected: returned.len() as u64, returned, ..Written::default() })
                }
                _ => Err(SqlError::internal("a query answers rows")),
            },
        }
    }
}

/// Rows as the table keeps them that stands for a part.
fn rows_of(table: &Table, rows: Vec<Vec<Datum>>) -> SqlResult<PartRows> {
    let kept = |row: Vec<Datum>| {
        let values = row.into_iter().zip(&table.columns).map(|(value, column)| assign(value, column));
        values.collect::<SqlResult<Vec<_>>>().map(Arc::new)
    };
    rows.into_iter().map(kept).collect()
}
