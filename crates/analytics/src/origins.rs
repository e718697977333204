//! Where a query's columns come from: the table and column that RowDescription names.

use super::provider::ColumnTable;
use base::schema::Table;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::JoinType;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use std::sync::Arc;

/// The table and number of the column that a plan's n-th column is, if it is one as it stands.
pub(super) fn origin(plan: &LogicalPlan, n: usize) -> Option<(Arc<Table>, usize)> {
    let (mut plan, mut n) = (plan, n);
    loop {
        let expr = match plan {
            LogicalPlan::Projection(p) => p.expr.get(n)?,
            LogicalPlan::Aggregate(a) => a.group_expr.get(n)?,
            LogicalPlan::SubqueryAlias(a) => {
                plan = &a.input;
                continue;
            }
            LogicalPlan::Filter(f) => {
                plan = &f.input;
                continue;
            }
            LogicalPlan::Extension(_) => {
                plan = super::shared::input(plan)?;
                continue;
            }
            LogicalPlan::Sort(s) => {
                plan = &s.input;
                continue;
            }
            LogicalPlan::Limit(l) => {
                plan = &l.input;
                continue;
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                plan = input;
                continue;
            }
            LogicalPlan::Window(w) if n < w.input.schema().fields().len() => {
                plan = &w.input;
                continue;
            }
            LogicalPlan::Join(j) => {
                let left = j.left.schema().fields().len();
                match j.join_type {
                    JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                        (plan, n) = if n < left { (&j.left, n) } else { (&j.right, n - left) };
                    }
                    JoinType::LeftSemi | JoinType::LeftAnti if n < left => plan = &j.left,
                    JoinType::RightSemi | JoinType::RightAnti => plan = &j.right,
                    _ => return None,
                }
                continue;
            }
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source).ok()?;
                let columns = provider.downcast_ref::<ColumnTable>()?;
                let field = match &scan.projection {
                    Some(fields) => *fields.get(n)?,
                    None => n,
                };
                return Some((columns.table.clone(), columns.column_number(field)?));
            }
            _ => return None,
        };
        let mut expr = expr;
        while let Expr::Alias(alias) = expr {
            expr = &alias.expr;
        }
        let Expr::Column(column) = expr else { return None };
        let input = plan.inputs().into_iter().next()?;
        n = input.schema().index_of_column(column).ok()?;
        plan = input;
    }
}
