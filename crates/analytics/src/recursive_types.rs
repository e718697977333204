//! Types of recursive queries: what the recursive term gives has to be of the type that the other term has.
//!
//! The planner casts the recursive term to it, and answers what PostgreSQL refuses. A cast that is written there is put
//! below a call ([`super::rewrite`]), so that one on top is the planner's. The operator also wants fields of both terms to note
//! the same ([`super::types`]), though CASE has lost the note on one side.

use super::scalars::{Family, Kind, kind_of};
use base::error::SqlState;
use base::{DataType, SqlError};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, RecursiveQuery};
use std::sync::Arc;

/// Errors: 42804.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::RecursiveQuery(query) = node {
            check_query(query).map_err(|e| DataFusionError::External(Box::new(e)))?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The plan, in which a column of one term has the note of the other term's where it has none.
pub(super) fn noted_alike(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::RecursiveQuery(query) = node else { return Ok(Transformed::no(node)) };
        let first = with_notes_of(&query.static_term, &query.recursive_term)?;
        let next = with_notes_of(&query.recursive_term, &query.static_term)?;
        let is_changed = first.is_some() || next.is_some();
        let query = RecursiveQuery {
            static_term: first.unwrap_or_else(|| query.static_term.clone()),
            recursive_term: next.unwrap_or_else(|| query.recursive_term.clone()),
            ..query
        };
        let node = LogicalPlan::RecursiveQuery(query);
        Ok(if is_changed { Transformed::yes(node) } else { Transformed::no(node) })
    })
    .map(|transformed| transformed.data)
}

/// A term with notes of the other one; `None` if it lacks none.
fn with_notes_of(term: &Arc<LogicalPlan>, other: &LogicalPlan) -> Result<Option<Arc<LogicalPlan>>> {
    let mut is_changed = false;
    let columns = term.schema().iter().zip(other.schema().fields()).map(|((qualifier, own), other)| {
        let column = Expr::Column(Column::from((qualifier, own)));
        if own.metadata() == other.metadata() || !own.metadata().is_empty() {
            return column;
        }
        is_changed = true;
        let note = FieldMetadata::from(other.metadata());
        column.alias_qualified_with_metadata(qualifier.cloned(), own.name(), Some(note))
    });
    let columns: Vec<Expr> = columns.collect();
    if !is_changed {
        return Ok(None);
    }
    Ok(Some(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, term.clone())?))))
}

fn check_query(query: &RecursiveQuery) -> std::result::Result<(), SqlError> {
    let Some(given) = projection(&query.recursive_term) else { return Ok(()) };
    for (n, e) in given.expr.iter().enumerate() {
        let Expr::Cast(cast) = e.clone().unalias_nested().data else { continue };
        let found = kind_of(&cast.expr, given.input.schema());
        let Some(wanted) = kind_of_column(&query.static_term, n) else { continue };
        if let (Some(a), Some(b)) = (rank(wanted), rank(found)) {
            let (a_name, b_name) = (wanted.name(), found.name());
            if a.0 != b.0 {
                let told = format!("UNION types {a_name} and {b_name} cannot be matched");
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
            }
            if a.1 < b.1 {
                let told = format!(
                    "recursive query \"{}\" column {} has type {a_name} in non-recursive term but type {b_name} overall",
                    query.name,
                    n + 1
                );
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, told);
                return Err(error.hint("Cast the output of the non-recursive term to the correct type."));
            }
        }
    }
    Ok(())
}

fn projection(plan: &LogicalPlan) -> Option<&Projection> {
    match plan {
        LogicalPlan::Projection(projection) => Some(projection),
        LogicalPlan::SubqueryAlias(alias) => projection(&alias.input),
        _ => None,
    }
}

/// The type of a column; a whole number that is written is an integer.
fn kind_of_column(plan: &LogicalPlan, n: usize) -> Option<Kind> {
    let Some(projection) = projection(plan) else {
        return Some(kind_of(&Expr::Column(plan.schema().columns().get(n)?.clone()), plan.schema()));
    };
    Some(match projection.expr.get(n)?.clone().unalias_nested().data {
        Expr::Literal(ScalarValue::Int64(Some(n)), _) if i32::try_from(n).is_ok() => {
            Kind::Known(DataType::Integer)
        }
        Expr::Column(column)
            if let Some(below) = projection.input.schema().maybe_index_of_column(&column) =>
        {
            kind_of_column(&projection.input, below)?
        }
        e => kind_of(&e, projection.input.schema()),
    })
}

/// Types that meet, and which of them gives way to which. Integers of different widths are one to the planner.
fn rank(kind: Kind) -> Option<(u8, u8)> {
    Some(match (kind.family(), kind) {
        (Family::Integer, _) => (0, 0),
        (Family::Numeric, _) => (0, 1),
        (Family::Float, _) => (0, 2),
        (Family::Text, _) => (1, 0),
        (Family::Date, _) => (2, 0),
        (Family::Moment, Kind::Known(DataType::Timestamp)) => (2, 1),
        (Family::Moment, _) => (2, 2),
        (Family::Boolean, _) => (3, 0),
        _ => return None,
    })
}
