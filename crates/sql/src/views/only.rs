//! ONLY before a partitioned table, which itself has no rows: all are those of its partitions.

use super::{called, derived, find};
use crate::parse::{says_only, take_only};
use crate::privileges::Check;
use crate::walk::WalkMut;
use base::error::{SqlError, SqlResult};
use base::views::Relation;
use sqlparser::ast::{self, Expr, ObjectName, Query, Statement, TableFactor, VisitorMut};
use std::ops::ControlFlow;

/// A statement that says ONLY of tables as one that does not. False: it did not say so.
pub(super) fn resolve(check: &Check<'_>, statement: &mut Statement) -> SqlResult<bool> {
    let mut resolving = Resolving { check, found: false };
    let target = match statement {
        Statement::Update(update) => Some((&mut update.table.relation, &mut update.selection)),
        Statement::Delete(delete) => {
            let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
                &mut delete.from;
            from.first_mut().map(|first| (&mut first.relation, &mut delete.selection))
        }
        _ => None,
    };
    if let Some((factor, selection)) = target
        && take_only(factor)
    {
        resolving.found = true;
        if let TableFactor::Table { name, .. } = factor
            && resolving.is_divided(name)
        {
            let none = crate::parse::parse_expr("false")?;
            *selection = Some(match selection.take() {
                None => none,
                Some(given) => Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(given))),
                    op: ast::BinaryOperator::And,
                    right: Box::new(none),
                },
            });
        }
    }
    match statement.walk_mut(&mut resolving) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(resolving.found),
    }
}

/// The same of a view's query.
pub(super) fn resolve_query(check: &Check<'_>, query: Query) -> SqlResult<Query> {
    let mut statement = Statement::Query(Box::new(query));
    if says_only(&statement) {
        resolve(check, &mut statement)?;
    }
    match statement {
        Statement::Query(query) => Ok(*query),
        _ => Err(SqlError::internal("a query stays one")),
    }
}

struct Resolving<'a> {
    check: &'a Check<'a>,
    found: bool,
}

impl Resolving<'_> {
    fn is_divided(&self, name: &ObjectName) -> bool {
        find(self.check, name).map(Relation::shape).is_some_and(|shape| shape.partitioning.is_some())
    }
}

impl VisitorMut for Resolving<'_> {
    type Break = SqlError;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if !take_only(factor) {
            return ControlFlow::Continue(());
        }
        self.found = true;
        let TableFactor::Table { name, alias, .. } = factor else { return ControlFlow::Continue(()) };
        if self.is_divided(name) {
            let alias = alias.clone().unwrap_or_else(|| called(name));
            match without_rows(name) {
                Ok(query) => *factor = derived(query, alias),
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

fn without_rows(name: &ObjectName) -> SqlResult<Query> {
    match crate::parse::parse(&format!("SELECT * FROM {name} WHERE false"))?.pop() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(SqlError::internal("this text is a query")),
    }
}
