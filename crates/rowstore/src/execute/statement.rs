//! One-shot statements, in order, each seeing the writes of those before it.
//!
//! A participant executes the part whose rows it has. A statement that declares nothing at this participant is
//! skipped here, whatever its range.

use super::Prepared;
use super::overlay::{Run, complete};
use super::violation::check_row;
use crate::store::{Store, TableStore};
use base::error::{SqlError, SqlResult};
use base::expr::Expr;
use base::key::KeyRange;
use base::schema::Location;
use base::txn::{Statement, StatementResult, Transaction};
use base::{Datum, Row};

impl Store {
    pub(super) fn run_statements(
        &self,
        transaction: &Transaction,
        statements: &[Statement],
    ) -> SqlResult<Prepared> {
        Ok(run_all(Run::new(self, transaction), statements)?.prepared)
    }
}

/// Runs statements one after another.
pub(super) fn run_all<'a>(mut run: Run<'a>, statements: &[Statement]) -> SqlResult<Run<'a>> {
    for statement in statements {
        let result = run.statement(statement)?;
        run.prepared.results.push(result);
    }
    Ok(run)
}

impl<'a> Run<'a> {
    fn statement(&mut self, statement: &Statement) -> SqlResult<StatementResult> {
        let (id, version) = match statement {
            Statement::Insert { table, schema_version, .. }
            | Statement::Update { table, schema_version, .. }
            | Statement::Delete { table, schema_version, .. }
            | Statement::Select { table, schema_version, .. }
            | Statement::Truncate { table, schema_version } => (*table, *schema_version),
        };
        let table = self.table(id, version)?;
        let whole = KeyRange::all();
        let target = match statement {
            Statement::Insert { rows, on_conflict, returning, .. } => {
                let mut result = self.insert(table, rows, on_conflict, returning.as_deref())?;
                self.forget_unless_reported(table, &mut result);
                return Ok(result);
            }
            Statement::Update { target, .. }
            | Statement::Delete { target, .. }
            | Statement::Select { target, .. } => target,
            Statement::Truncate { .. } => &whole,
        };
        if !self.declared.overlaps(id, target) {
            return Ok(StatementResult::default());
        }
        let mut result = StatementResult::default();
        for (key, row) in self.rows_in(table, target)? {
            match statement {
                Statement::Update { filter, set, returning, .. } => {
                    let values = complete(table, &row)?;
                    if !satisfies(filter, &values)? {
                        continue;
                    }
                    let new = self.updated(table, &values, &values, set)?;
                    push_returning(&mut result, returning.as_deref(), &new)?;
                    self.put(table, key, Some(&row), Some((Row::of(&new), &new)))?;
                    result.affected += 1;
                }
                Statement::Delete { filter, returning, .. } => {
                    if filter.is_some() || returning.is_some() {
                        let values = complete(table, &row)?;
                        if !satisfies(filter, &values)? {
                            continue;
                        }
                        push_returning(&mut result, returning.as_deref(), &values)?;
                    }
                    self.put(table, key, Some(&row), None)?;
                    result.affected += 1;
                }
                Statement::Select { filter, columns, .. } => {
                    let values = complete(table, &row)?;
                    if satisfies(filter, &values)? {
                        push_returning(&mut result, Some(columns), &values)?;
                    }
                }
                Statement::Truncate { .. } => self.put(table, key, Some(&row), None)?,
                Statement::Insert { .. } => unreachable!("returned above"),
            }
        }
        self.forget_unless_reported(table, &mut result);
        Ok(result)
    }

    fn forget_unless_reported(&self, table: &TableStore, result: &mut StatementResult) {
        if !self.reports(table) {
            *result = StatementResult::default();
        }
    }

    /// `old` with assignments applied; their expressions see `input`.
    ///
    /// Errors: those of the expressions, NOT NULL and CHECK; an assignment that would move the row.
    pub(super) fn updated(
        &self,
        table: &TableStore,
        old: &[Datum],
        input: &[Datum],
        set: &[(usize, Expr)],
    ) -> SqlResult<Vec<Datum>> {
        let desc = &table.desc;
        let mut new = old.to_vec();
        for (column, expr) in set {
            let Some(described) = desc.columns.get(*column) else {
                return Err(SqlError::internal(format!("{} has no column {column}", desc.name)));
            };
            new[*column] = described.data_type.coerce(expr.eval(input)?)?;
        }
        let moves = |column: &usize| old[*column] != new[*column];
        if desc.primary_key.iter().any(moves) {
            return Err(SqlError::unsupported("a one-shot UPDATE of primary-key columns")
                .hint("Run the statement inside BEGIN … COMMIT."));
        }
        if desc.partition_column().as_ref().is_some_and(moves)
            && desc.locate_row(&new, &self.store.topology) != Location::One(self.store.partition)
        {
            return Err(SqlError::unsupported("a one-shot UPDATE that moves a row to another partition")
                .hint("Run the statement inside BEGIN … COMMIT."));
        }
        for index in table.indexes.iter().filter(|index| !index.local) {
            if index.desc.columns.iter().any(moves) {
                return Err(SqlError::unsupported(format!(
                    "a one-shot UPDATE of columns of unique index \"{}\", whose entries live elsewhere,",
                    index.desc.name
                ))
                .hint("Run the statement inside BEGIN … COMMIT."));
            }
        }
        check_row(desc, &new)?;
        Ok(new)
    }
}

pub(super) fn satisfies(filter: &Option<Expr>, values: &[Datum]) -> SqlResult<bool> {
    filter.as_ref().map_or(Ok(true), |filter| filter.holds(values))
}

pub(super) fn push_returning(
    result: &mut StatementResult,
    returning: Option<&[Expr]>,
    values: &[Datum],
) -> SqlResult<()> {
    if let Some(columns) = returning {
        let row: Vec<Datum> = columns.iter().map(|expr| expr.eval(values)).collect::<SqlResult<_>>()?;
        result.rows.push(Row::of(&row));
    }
    Ok(())
}
