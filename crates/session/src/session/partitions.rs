//! Rows of partitions: those that ATTACH and DETACH take from one table into another, and those that go with a partition
//! that is dropped or truncated. All is done in the transaction that changes the catalog.

use super::Session;
use super::transaction::SeenRow;
use super::turns::Turn;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Catalog, Table};
use base::views::Relation;
use base::{Datum, SqlError};
use sql::ddl::PartitionRows;
use sqlparser::ast;
use std::sync::Arc;

/// A column of one table with that of another which gets its values.
type Columns = [(usize, usize)];

impl Session {
    /// Rows that a change moves or deletes, for each of what it says of rows, before the catalog changes. Errors: 23514 for
    /// rows that are not where they could stay.
    pub(super) async fn rows_of_partitions(
        &mut self,
        changes: &[PartitionRows],
    ) -> SqlResult<Vec<Vec<SeenRow>>> {
        let mut found = Vec::with_capacity(changes.len());
        for change in changes {
            let (table, condition) = match change {
                PartitionRows::Free { of, condition, .. } => (self.table_of(*of)?, Some(condition)),
                PartitionRows::Attached { from, .. } => (from.clone(), None),
                PartitionRows::Detached { from, condition, .. }
                | PartitionRows::Dropped { from, condition } => (self.table_of(*from)?, Some(condition)),
            };
            let rows = self.matching_rows(&table, condition.cloned()).await?;
            match change {
                PartitionRows::Free { default, .. } if !rows.is_empty() => {
                    let told = format!(
                        "updated partition constraint for default partition \"{default}\" would be violated by some row"
                    );
                    return Err(SqlError::new(SqlState::CHECK_VIOLATION, told).table(default));
                }
                PartitionRows::Attached { from, to, columns, condition } => {
                    let width = self.table_of(*to)?.columns.len();
                    refuse_strangers(from, &rows, |row| placed(row, columns, width), condition)?;
                }
                _ => {}
            }
            super::copying::refuse_many(rows.len(), "a change of partitions")?;
            found.push(rows);
        }
        Ok(found)
    }

    /// Moves and deletes them, behind the change of the catalog.
    pub(super) async fn move_rows_of_partitions(
        &mut self,
        changes: &[PartitionRows],
        found: Vec<Vec<SeenRow>>,
    ) -> SqlResult<()> {
        for (change, rows) in changes.iter().zip(found) {
            match change {
                PartitionRows::Free { .. } => {}
                PartitionRows::Attached { to, columns, .. } => self.put_moved(*to, columns, &rows).await?,
                PartitionRows::Detached { from, to, columns, .. } => {
                    self.put_moved(*to, columns, &rows).await?;
                    self.delete_rows(*from, rows).await?;
                }
                PartitionRows::Dropped { from, .. } => self.delete_rows(*from, rows).await?,
            }
        }
        Ok(())
    }

    fn table_of(&self, id: base::TableId) -> SqlResult<Arc<Table>> {
        let table = self.catalog().table(id).cloned();
        table.ok_or_else(|| SqlError::internal("a partitioned table that is not there"))
    }

    async fn put_moved(&mut self, to: base::TableId, columns: &Columns, rows: &[SeenRow]) -> SqlResult<()> {
        let taken = |row: &SeenRow| columns.iter().map(|(from, _)| row.values[*from].clone()).collect();
        let rows: Vec<Vec<Datum>> = rows.iter().map(taken).collect();
        let targets: Vec<usize> = columns.iter().map(|(_, to)| *to).collect();
        let table = self.table_of(to)?;
        self.open().reading.moves_rows = true;
        let filled = self.fill_columns(table, &targets, rows).await;
        self.open().reading.moves_rows = false;
        filled.map(|_| ())
    }

    async fn delete_rows(&mut self, from: base::TableId, rows: Vec<SeenRow>) -> SqlResult<()> {
        let (table, mut turn) = (self.table_of(from)?, Turn::begin());
        for row in rows {
            turn.give_way().await;
            self.open().change(&table, row.key, &row.values, None)?;
        }
        Ok(())
    }

    /// The partitions that a TRUNCATE names, each as its table and which of its rows it has. Errors: 0A000 for rows that
    /// foreign keys may reference.
    pub(super) fn truncated_partitions(
        &self,
        catalog: &Catalog,
        truncate: &ast::Truncate,
    ) -> SqlResult<Vec<(Arc<Table>, Expr)>> {
        let mut found = Vec::new();
        for target in &truncate.table_names {
            let path = &self.settings.search_path;
            let relation = sql::names::find_relation(catalog, path, &self.database.name, &target.name);
            let divided = relation.map(Relation::shape).is_some_and(|shape| shape.partitioning.is_some());
            if target.only && divided {
                let told = "cannot truncate only a partitioned table";
                return Err(SqlError::new(SqlState(*b"42809"), told).hint(
                    "Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly.",
                ));
            }
            let Some(Relation::View(view)) = relation.filter(|_| !catalog.views.is_empty()) else { continue };
            let Some(root) = sql::partitions::root(catalog, view.shape.id) else { continue };
            if view.partition.is_none() {
                continue;
            }
            if catalog.referencing(root).next().is_some() {
                let told =
                    format!("TRUNCATE of a partition of \"{}\", which foreign keys reference", root.name);
                return Err(SqlError::unsupported(told).hint("Use DELETE, which looks for references."));
            }
            let id = view.shape.id;
            let condition = self.lowered(|lowering| lowering.partition_condition(catalog, root, id))?;
            found.push((root.clone(), condition));
        }
        Ok(found)
    }

    /// Deletes the rows of partitions in the open transaction; no trigger fires, as for TRUNCATE of a table.
    pub(super) async fn empty_partitions(&mut self, partitions: Vec<(Arc<Table>, Expr)>) -> SqlResult<()> {
        for (root, condition) in partitions {
            let rows = self.matching_rows(&root, Some(condition)).await?;
            self.delete_rows(root.id, rows).await?;
        }
        Ok(())
    }
}

/// A row's values in the columns of the table that gets it.
fn placed(row: &SeenRow, columns: &Columns, width: usize) -> Vec<Datum> {
    let mut values = vec![Datum::Null; width];
    columns.iter().for_each(|(from, to)| values[*to] = row.values[*from].clone());
    values
}

/// Errors: 23514 if a row is none that the new partition has.
fn refuse_strangers(
    from: &Table,
    rows: &[SeenRow],
    placed: impl Fn(&SeenRow) -> Vec<Datum>,
    condition: &Expr,
) -> SqlResult<()> {
    for row in rows {
        if condition.eval(&placed(row))? != Datum::Bool(true) {
            let told = format!("partition constraint of relation \"{}\" is violated by some row", from.name);
            return Err(SqlError::new(SqlState::CHECK_VIOLATION, told).table(&from.name));
        }
    }
    Ok(())
}
