//! What one partition has of its own: checks and indexes that its table keeps for the partition's rows alone. They are
//! known by the partition's condition, with which their text begins. Bounds never change, so it stays the same.

use crate::ddl::indexes::{drop_indexes, sweep};
use crate::parse::parse_expr;
use base::error::SqlResult;
use base::schema::{Check, Index, Table};
use sqlparser::ast::Expr;
use std::sync::Arc;

/// The condition of a partition, as kept texts begin with it.
pub(super) struct Condition {
    check: String,
    predicate: String,
}

impl Condition {
    pub fn of(condition: &str) -> SqlResult<Condition> {
        let check = parse_expr(&for_rows(condition, "true"))?.to_string();
        let check = check.strip_suffix("true)").unwrap_or(&check).to_string();
        Ok(Condition { check, predicate: parse_expr(condition)?.to_string() })
    }

    /// Whether a check is the partition's own.
    pub fn is_of(&self, check: &Check) -> bool {
        self.of_check(&check.sql).is_some()
    }

    /// Whether an index is the partition's own.
    pub fn is_of_index(&self, index: &Index) -> bool {
        index.form.predicate.as_deref().is_some_and(|text| self.of_predicate(text).is_some())
    }

    /// What a check says of the partition's rows, if it is about no others.
    fn of_check<'t>(&self, sql: &'t str) -> Option<&'t str> {
        sql.strip_prefix(&self.check)?.strip_suffix(')')
    }

    /// What the predicate of an index says besides that a row is the partition's, if it says that.
    fn of_predicate<'t>(&self, text: &'t str) -> Option<Option<&'t str>> {
        let rest = text.strip_prefix(&self.predicate)?;
        match rest {
            "" => Some(None),
            rest => rest.strip_prefix(" AND (")?.strip_suffix(')').map(Some),
        }
    }

    /// Takes away what is the partition's own.
    pub fn take_from(&self, table: &mut Table) {
        if table.checks.iter().any(|check| self.is_of(check)) {
            table.drop_checks(|check| self.is_of(check));
        }
        if table.indexes.iter().any(|index| self.is_of_index(index)) {
            drop_indexes(table, |index| self.is_of_index(index));
            sweep(table);
        }
    }

    /// Makes what is the partition's own hold for all rows of a table that has the partition's only.
    pub fn spread_over(&self, table: &mut Table) {
        for check in Arc::make_mut(&mut table.checks) {
            if let Some(own) = self.of_check(&check.sql) {
                check.sql = own.to_string();
            }
        }
        for index in &mut table.indexes {
            let own = index.form.predicate.as_deref().and_then(|text| self.of_predicate(text));
            if let Some(own) = own.map(|own| own.map(str::to_string)) {
                if own.is_none() {
                    index.columns.pop();
                }
                index.form.predicate = own;
            }
        }
    }
}

/// A check of a partition as one of its table.
pub(super) fn check_within(condition: &str, sql: &str) -> SqlResult<Expr> {
    parse_expr(&for_rows(condition, sql))
}

fn for_rows(condition: &str, sql: &str) -> String {
    format!("NOT ({condition}) OR ({sql})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_one_partition() {
        let own = Condition::of("(a IS NOT NULL AND a >= 0 AND a < 10)").unwrap();
        let other = Condition::of("(a IS NOT NULL AND a >= 0 AND a < 1)").unwrap();
        let check = check_within("(a IS NOT NULL AND a >= 0 AND a < 10)", "b > 0 OR c").unwrap().to_string();
        assert_eq!(own.of_check(&check), Some("b > 0 OR c"));
        assert_eq!(other.of_check(&check), None);
        let predicate = "(a IS NOT NULL AND a >= 0 AND a < 10) AND (b > 0)";
        assert_eq!(own.of_predicate(predicate), Some(Some("b > 0")));
        assert_eq!(own.of_predicate(&own.predicate), Some(None));
        assert_eq!(other.of_predicate(predicate), None);
    }
}
