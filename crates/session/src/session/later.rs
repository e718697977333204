//! What follows a change of a table with many rows, in transactions of its own, while others go on.
//!
//! A change of the catalog waits for everything at its partitions and everything waits for it, so it may not look at many
//! rows. An index is entered in batches ([`super::building`]). A check comes first as one that is not validated: every row
//! that is written from then on is held against it. Then the rows that are there are read, and then the check is validated
//! without another look. NOT NULL of a column begins as such a check.
//!
//! KEEPS: when a check is validated all rows keep it. Rows written since it came were held against it, and the others are
//! found by the read, whose cut is not before the table's last change; if the table changes again before the check is
//! validated, its rows are read again. What a statement began and did not end goes away again with its failure.

use super::Session;
use super::read::Wanted;
use base::error::{SqlResult, SqlState};
use base::expr::{Expr, UnaryOperator};
use base::key::KeyRange;
use base::schema::{Check, ConfirmedCheck, SchemaAction, SchemaChange, Table};
use base::{Key, SqlError};
use sql::ddl::{Checking, Ddl, Later};
use sql::lower::keys::{Reach, Reached};
use std::sync::Arc;

impl Session {
    /// Whether all that a planned change brings is better done with it: in one step of each node, which is short where the
    /// table has few rows. With an engine that merges write sets an index is always filled at once: rows that nobody writes
    /// enter none.
    pub(super) async fn is_done_at_once(&mut self, planned: &Ddl) -> SqlResult<bool> {
        let Some(described) = planned.may_follow() else { return Ok(false) };
        let Some(table) = self.known.table(described.id).cloned() else { return Ok(true) };
        if self.settings.merges_epochs() && matches!(planned.later, Some(Later::Index(_))) {
            return Ok(true);
        }
        for (from, _) in self.written_where_found(&table) {
            if self.next_batch(&table, from, Key::new()).await?.is_some_and(|range| range.high.is_some()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does what follows a change that has come into the catalog; if that fails, what came goes again.
    pub(super) async fn do_later(&mut self, later: Later) -> SqlResult<()> {
        match &later {
            Later::Index(building) => self.build_index(building.id).await?,
            Later::Check(checking) => self.hold_rows_against(checking).await?,
        }
        self.note_later(None);
        Ok(())
    }

    /// Takes away what a statement had begun and not ended when it failed or was given up; answers what it ends with.
    pub(super) async fn abandon_later(&mut self, error: SqlError) -> SqlError {
        match self.take_later() {
            Some(Later::Index(building)) => self.abandon_build(building, error).await,
            Some(Later::Check(checking)) if checking.is_new => self.abandon_check(&checking, error).await,
            Some(Later::Check(_)) | None => error,
        }
    }

    async fn hold_rows_against(&mut self, checking: &Checking) -> SqlResult<()> {
        loop {
            let (table, check) = self.being_checked(checking).await?;
            if self.has_row_against(&table, &check).await? {
                return Err(violated(&table, &check.name, checking.not_null));
            }
            let confirmed =
                ConfirmedCheck { table: table.id, version: table.version, check: checking.name.clone() };
            let mut actions = vec![SchemaAction::ConfirmCheck(confirmed)];
            let mut next = table.as_ref().clone();
            checking.end(&mut next);
            if next != *table {
                actions.push(SchemaAction::AlterTable(next));
            }
            let change =
                SchemaChange { database: self.database.id, base_version: self.known.version, actions };
            match self.submit_schema(change).await {
                Err(error) if super::is_stale(&error) => {}
                ended => return ended,
            }
        }
    }

    /// The table and the check, as the catalog has them now. Errors: 42704 if it is gone.
    async fn being_checked(&mut self, checking: &Checking) -> SqlResult<(Arc<Table>, Check)> {
        self.refresh_catalog().await?;
        self.look_up_catalog();
        let table = self.known.table(checking.table).cloned();
        let found = table.and_then(|table| checking.check(&table).cloned().map(|check| (table, check)));
        found.filter(|(_, check)| !check.is_validated).ok_or_else(|| {
            let told = format!("constraint \"{}\" is gone: another session changed its table", checking.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, told)
        })
    }

    async fn has_row_against(&mut self, table: &Arc<Table>, check: &Check) -> SqlResult<bool> {
        // What a check makes of nulls is no violation.
        let filter = Expr::Unary(UnaryOperator::Not, Box::new(check.expr.clone()));
        for (from, _) in self.written_where_found(table) {
            let reaches = vec![Reach { range: KeyRange::all(), partitions: vec![from] }];
            let reached = Reached { reaches, is_exact: true };
            let wanted = Wanted {
                table,
                index: None,
                reached: &reached,
                filter: Some(filter.clone()),
                descending: false,
                limit: Some(1),
                columns: None,
                is_rewritten: false,
            };
            let found = self.keys_of(&wanted).await;
            self.release_read();
            if !found?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn abandon_check(&mut self, checking: &Checking, error: SqlError) -> SqlError {
        // What was sent may be on its way still: a check that comes later stays, not validated, for DROP CONSTRAINT.
        while let Ok((table, _)) = self.being_checked(checking).await {
            let mut next = table.as_ref().clone();
            checking.remove(&mut next);
            let actions = vec![SchemaAction::AlterTable(next)];
            match self
                .submit_schema(SchemaChange {
                    database: self.database.id,
                    base_version: self.known.version,
                    actions,
                })
                .await
            {
                Err(stale) if super::is_stale(&stale) => {}
                _ => break,
            }
        }
        error
    }
}

/// A row that is there is against a constraint: told as of the statement that adds it.
pub(super) fn violated(table: &Table, check: &str, not_null: Option<usize>) -> SqlError {
    match not_null {
        Some(column) => {
            let column = &table.columns[column].name;
            let told = format!("column \"{column}\" of relation \"{}\" contains null values", table.name);
            SqlError::new(SqlState::NOT_NULL_VIOLATION, told).table(&table.name).column(column)
        }
        None => {
            let told = format!(
                "check constraint \"{check}\" of relation \"{}\" is violated by some row",
                table.name
            );
            SqlError::new(SqlState::CHECK_VIOLATION, told).table(&table.name).constraint(check)
        }
    }
}
