//! One-shot statements, in order, each seeing the writes of those before it.
//!
//! A participant executes the part whose rows it has. A statement that declares nothing at this participant is
//! skipped here, whatever its range. A statement over many rows takes several steps: what it wrote so far is in the
//! overlay, and it goes on behind the last key that it has seen, which it cannot have moved.

use super::costs::cost_of_a_row;
use super::overlay::{Run, complete};
use super::violation::check_row;
use crate::planted::Mutant;
use crate::table::TableStore;
use base::error::{SqlError, SqlResult};
use base::expr::Expr;
use base::key::KeyRange;
use base::schema::{Held, Location};
use base::txn::{Statement, StatementResult};
use base::{Datum, Key, Row};
use std::collections::BTreeSet;

/// What it takes to find out what a statement has to do here, if anything: there are as many as keys in a long list.
const STATEMENT_UNITS: u64 = 2;

/// Where a program of statements goes on.
#[derive(Default)]
pub(crate) struct StatementsAt {
    /// Statements that are done.
    done: usize,
    /// What is known of the one under way.
    pub current: StatementAt,
}

/// Where a statement goes on.
#[derive(Default)]
pub(crate) struct StatementAt {
    /// Rows of an INSERT that are done.
    pub rows: usize,
    /// Rows that it inserted or updated, for DO UPDATE.
    pub affected: BTreeSet<Key>,
    /// Keys below this one are done.
    from: Option<Key>,
    pub result: StatementResult,
}

impl<'a> Run<'a> {
    /// Runs statements one after another, from where they were. Answers whether that was all: else the step is over.
    pub(super) fn go_on_with(
        &mut self,
        statements: &'a [Statement],
        at: &mut StatementsAt,
    ) -> SqlResult<bool> {
        while let Some(statement) = statements.get(at.done) {
            if !self.statement(statement, &mut at.current)? {
                return Ok(false);
            }
            self.answer(std::mem::take(&mut at.current).result);
            at.done += 1;
            // After it: each step gets ahead, however little it may do.
            self.spend(STATEMENT_UNITS);
            if self.allowance.is_spent() && at.done < statements.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes on with a statement; whether it is done.
    fn statement(&mut self, statement: &'a Statement, at: &mut StatementAt) -> SqlResult<bool> {
        let (id, version) = match statement {
            Statement::Insert { table, schema_version, .. }
            | Statement::Update { table, schema_version, .. }
            | Statement::Delete { table, schema_version, .. }
            | Statement::Select { table, schema_version, .. }
            | Statement::Truncate { table, schema_version }
            | Statement::Enter { table, schema_version, .. } => (*table, *schema_version),
        };
        let table = self.table(id, version)?;
        let whole = KeyRange::all();
        let is_done = match statement {
            Statement::Insert { rows, on_conflict, returning, .. } => {
                self.insert(table, rows, on_conflict, returning.as_deref(), at)?
            }
            Statement::Update { target, .. }
            | Statement::Delete { target, .. }
            | Statement::Select { target, .. } => self.for_rows(table, target, statement, at)?,
            Statement::Truncate { .. } => self.for_rows(table, &whole, statement, at)?,
            Statement::Enter { index, target, .. } => {
                let is_done = self.for_rows(table, target, statement, at)?;
                if is_done && self.declared.overlaps(id, target) {
                    self.has_entered(*index, target);
                }
                is_done
            }
        };
        if is_done {
            self.forget_unless_reported(table, &mut at.result);
        }
        Ok(is_done)
    }

    /// Goes on with a statement over a range of rows; whether it is done.
    fn for_rows(
        &mut self,
        table: &'a TableStore,
        target: &KeyRange,
        statement: &Statement,
        at: &mut StatementAt,
    ) -> SqlResult<bool> {
        if !self.declared.overlaps(table.desc.id, target) {
            return Ok(true);
        }
        let cost = cost_of_a_row(table, statement);
        loop {
            let low = at.from.take();
            let rest = low.map(|low| KeyRange { low, high: target.high.clone() });
            let keys_max = self.allowance.rows_of(cost);
            let (mut rows, next) = self.rows_from(table, rest.as_ref().unwrap_or(target), keys_max)?;
            let is_last = next.is_none() && matches!(statement, Statement::Enter { .. });
            if is_last && self.store.planted(Mutant::SkipLastRow) {
                rows.pop();
            }
            if rows.is_empty() {
                self.spend(cost);
            }
            let mut rows = rows.into_iter();
            while let Some((key, row)) = rows.next() {
                self.spend(cost);
                self.change(table, key, row, statement, &mut at.result)?;
                // Rows may get much longer than the expressions tell.
                if self.allowance.is_spent()
                    && let Some((key, _)) = rows.as_slice().first()
                {
                    at.from = Some(key.clone());
                    return Ok(false);
                }
            }
            if next.is_none() {
                return Ok(true);
            }
            at.from = next;
            if self.allowance.is_spent() {
                return Ok(false);
            }
        }
    }

    /// What a statement over a range makes of one of its rows.
    fn change(
        &mut self,
        table: &'a TableStore,
        key: Key,
        row: Row,
        statement: &Statement,
        result: &mut StatementResult,
    ) -> SqlResult<()> {
        match statement {
            Statement::Update { filter, set, returning, .. } => {
                let values = complete(table, &row)?;
                if satisfies(filter, &values)? {
                    let new = self.updated(table, &values, &values, set)?;
                    push_returning(result, returning.as_deref(), &new)?;
                    self.put(table, key, Some(&row), Some((Row::of(&new), &new)))?;
                    result.affected += 1;
                }
            }
            Statement::Delete { filter, returning, .. } => {
                if filter.is_some() || returning.is_some() {
                    let values = complete(table, &row)?;
                    if !satisfies(filter, &values)? {
                        return Ok(());
                    }
                    push_returning(result, returning.as_deref(), &values)?;
                }
                self.put(table, key, Some(&row), None)?;
                result.affected += 1;
            }
            Statement::Select { filter, columns, .. } => {
                let values = complete(table, &row)?;
                if satisfies(filter, &values)? {
                    push_returning(result, Some(columns), &values)?;
                }
            }
            Statement::Truncate { .. } => self.put(table, key, Some(&row), None)?,
            Statement::Enter { index, .. } => self.enter_late(table, *index, key, &row)?,
            Statement::Insert { .. } => unreachable!("it has rows of its own"),
        }
        Ok(())
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
        // What an index computes, and nothing else: the row was there before the index.
        let enters = set.iter().all(|(column, _)| desc.is_of_index(*column));
        check_row(desc, &new, if enters { Held::ToValidated } else { Held::ToAll })?;
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
