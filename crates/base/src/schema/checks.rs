//! Checks of a table, and what is known of rows that were there before them.

use super::Table;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expr::Expr;
use crate::{Datum, TableId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    /// As written.
    pub sql: String,
    pub expr: Expr,
    /// False after NOT VALID: rows that were there before are not known to keep it.
    pub is_validated: bool,
}

impl Check {
    /// Whether it says which rows some partition of a partitioned table takes in. It has no name, as no other check has.
    pub fn is_of_partitions(&self) -> bool {
        self.name.is_empty()
    }
}

/// Which checks a row is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    ToAll,
    /// Those that stored rows are known to keep: a change of the schema writes a row anew that was there before the others.
    ToValidated,
}

impl Held {
    pub fn asks(self, check: &Check) -> bool {
        self == Held::ToAll || check.is_validated
    }
}

/// A check that rows were found to keep, at a cut at which the table was described so already: every row that was written
/// since was held against the check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfirmedCheck {
    pub table: TableId,
    /// The table's version at that cut. At any other the check may have been another one.
    pub version: u64,
    pub check: String,
}

impl Table {
    pub fn checks_mut(&mut self) -> impl Iterator<Item = &mut Check> {
        Arc::make_mut(&mut self.checks).iter_mut()
    }
    pub fn add_check(&mut self, check: Check) {
        Arc::make_mut(&mut self.checks).push(check);
    }
    pub fn drop_checks(&mut self, is_dropped: impl Fn(&Check) -> bool) {
        Arc::make_mut(&mut self.checks).retain(|check| !is_dropped(check));
    }
    /// The error for a new row that breaks a check of the table: 23514.
    pub fn violation(&self, check: &Check, failing_row: String) -> SqlError {
        let name = &self.name;
        let told = match (check.is_of_partitions(), &self.partitioning) {
            (true, Some(_)) => format!("no partition of relation \"{name}\" found for row"),
            // The table is described as one of its partitions.
            (true, None) => format!("new row for relation \"{name}\" violates partition constraint"),
            (false, _) => {
                format!("new row for relation \"{name}\" violates check constraint \"{}\"", check.name)
            }
        };
        let error = SqlError::new(SqlState::CHECK_VIOLATION, told).detail(failing_row).table(name);
        if check.is_of_partitions() { error } else { error.constraint(&check.name) }
    }
    /// Checks that users have declared.
    pub fn declared_checks(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.is_of_partitions())
    }
    /// Holds a row's values against the domains of their columns. Errors: 23502, 23514.
    pub fn check_domains(&self, values: &[Datum]) -> SqlResult<()> {
        self.check_domains_as(values, Held::ToAll)
    }
    /// The same with some of the conditions.
    pub fn check_domains_as(&self, values: &[Datum], held: Held) -> SqlResult<()> {
        for (column, domain) in &self.domains {
            let value = values.get(*column).unwrap_or(&Datum::Null);
            let named = |error: SqlError| error.table(&self.name).column(&self.columns[*column].name);
            domain.check_as(value, held).map_err(named)?;
        }
        Ok(())
    }
}
