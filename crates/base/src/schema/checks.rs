//! Checks of a table, and what is known of rows that were there before them.

use super::Table;
use crate::TableId;
use crate::expr::Expr;
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
}
