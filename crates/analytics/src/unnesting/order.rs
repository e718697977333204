//! ORDER BY a subquery over columns that are not shown.
//!
//! The planner adds columns that a key names to what it sorts, but for those that only a subquery in a key names.

use super::super::lifted_subqueries::columns;
use super::mentions::{Substitute, named_by};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort, SortExpr};
use std::sync::Arc;

/// The sort over rows that have such columns, which it takes away again; `None` if no key names one.
pub(super) fn with_columns_below(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(shown) = sort.input.as_ref() else { return Ok(None) };
    let over = sort.input.schema();
    let mut named: Vec<Column> = Vec::new();
    for key in &sort.expr {
        let of_key = named_by(&key.expr, over, shown.input.schema())?;
        named.extend(of_key.into_iter().filter(|column| !over.has_column(column)));
    }
    if named.is_empty() {
        return Ok(None);
    }
    let beside: Vec<Column> =
        (0..named.len()).map(|n| Column::new_unqualified(format!("ordered by {n}"))).collect();
    let mut exprs = shown.expr.clone();
    exprs.extend(named.iter().zip(&beside).map(|(of, column)| Expr::Column(of.clone()).alias(&column.name)));
    let rows = LogicalPlan::Projection(Projection::try_new(exprs, shown.input.clone())?);
    let substitute = Substitute { named: &named, columns: &beside };
    let mut keys = Vec::with_capacity(sort.expr.len());
    for key in &sort.expr {
        keys.push(SortExpr { expr: substitute.within(key.expr.clone(), over)?, ..key.clone() });
    }
    let sorted = LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(rows), fetch: sort.fetch });
    let shown = columns(&sort.input);
    Ok(Some(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(sorted))?)))
}
