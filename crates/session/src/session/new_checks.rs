//! Rows that are there, held against what ALTER TABLE adds in a transaction block: checks and NOT NULL.
//!
//! COMMIT holds all rows against them, since others write until then. This tells the statement that adds them. Stored rows
//! are read at a new cut and not recorded as read: what is true of them now need not stay true.

use super::Session;
use super::later::violated;
use base::error::SqlResult;
use base::expr::{Expr, UnaryOperator};
use base::key::KeyRange;
use base::schema::{Catalog, Check, SchemaAction, Table};
use base::txn::RowRead;
use sql::lower::bind;

/// A constraint that a statement has added.
struct Added<'a> {
    name: &'a str,
    /// It is NOT NULL of this column.
    not_null: Option<usize>,
    /// True of rows that do not keep it.
    against: Expr,
}

impl Session {
    /// `before`: the catalog that the open transaction has changed. Errors: 23514, 23502, and those that a check's expression raises.
    pub(super) async fn hold_rows(&mut self, before: &Catalog, actions: &[SchemaAction]) -> SqlResult<()> {
        for action in actions {
            let SchemaAction::AlterTable(table) = action else { continue };
            let Some(old) = before.table(table.id) else { continue };
            for added in added(old, table) {
                if self.has_row_of(table, &added.against).await? {
                    return Err(violated(table, added.name, added.not_null));
                }
            }
        }
        Ok(())
    }

    /// Whether a row that is stored, or that the open transaction has written, satisfies a condition.
    async fn has_row_of(&mut self, table: &Table, condition: &Expr) -> SqlResult<bool> {
        let open = self.open();
        let mut written = 0;
        for (_, values) in open.buffer_of(table.id) {
            written += 1;
            if let Some(values) = values
                && condition.holds(values)?
            {
                return Ok(true);
            }
        }
        // The node knows the table as it was before the transaction: columns that came since are not stored.
        let stored = open.catalog.as_ref().and_then(|own| own.base.table(table.id)).cloned();
        let Some(stored) = stored else { return Ok(false) };
        let filter = bind::map_columns(condition, &|column| match column < stored.columns.len() {
            true => Expr::Column(column),
            false => Expr::Constant(table.columns[column].missing.clone()),
        });
        let reads = self.written_where_found(&stored).into_iter().map(|(partition, _)| RowRead {
            partition,
            table: stored.id,
            index: None,
            range: KeyRange::all(),
            filter: Some(filter.clone()),
            // Rows that the transaction has written may stand before the first of the others.
            limit: Some(written + 1),
            descending: false,
        });
        let (_, found) = self.ask_rows(reads.collect(), None).await?;
        let open = self.open();
        Ok(found.iter().flatten().any(|(key, _)| !open.is_buffered(table.id, key)))
    }
}

fn added<'a>(old: &Table, now: &'a Table) -> Vec<Added<'a>> {
    let kept: Vec<&Check> = old.checks.iter().filter(|check| check.is_validated).collect();
    let keeps = |expr: &Expr| kept.iter().any(|check| check.expr == *expr);
    let mut all = Vec::new();
    for (number, column) in now.columns.iter().enumerate() {
        let was_not_null = old.columns.get(number).is_some_and(|column| column.not_null);
        if column.not_null && !was_not_null && !keeps(&Expr::is_not_null(number)) {
            let against = Expr::IsNull(Box::new(Expr::Column(number)));
            all.push(Added { name: &column.name, not_null: Some(number), against });
        }
    }
    for check in now.declared_checks().filter(|check| check.is_validated && !keeps(&check.expr)) {
        // What a check makes of nulls is no violation.
        let against = Expr::Unary(UnaryOperator::Not, Box::new(check.expr.clone()));
        all.push(Added { name: &check.name, not_null: None, against });
    }
    all
}
