//! Subqueries as values where the planner has no join for them: in arguments of aggregates and windows, and in keys
//! of a sort. They are computed by a projection below.
//!
//! What a window is partitioned and ordered by is computed there as a whole if it has a subquery or is volatile. The
//! planner computes such a key wherever it needs it: to deal out rows, to sort them, to find where a partition ends;
//! `random()` would be another number each time, and over a table of which no column is read it fails.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{
    Aggregate, Expr, Join, JoinType, LogicalPlan, Projection, Sort, SortExpr, Window,
};
use std::sync::Arc;

/// The plan with such subqueries below. Its schema and names are what they were.
pub(super) fn lift(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let lifted = match &node {
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate)?,
            LogicalPlan::Window(window) => of_window(window)?,
            LogicalPlan::Sort(sort) => of_sort(sort)?,
            LogicalPlan::Join(join) => of_join(join)?,
            _ => None,
        };
        Ok(lifted.map_or_else(|| Transformed::no(node), Transformed::yes))
    })
    .map(|t| t.data)
}

fn has_subquery(e: &Expr) -> bool {
    e.exists(|e| Ok(matches!(e, Expr::ScalarSubquery(_)))).unwrap_or(false)
}

/// Columns of subqueries that were found, and the input that has them.
struct Lifted {
    input: Arc<LogicalPlan>,
    found: Vec<(Expr, String)>,
    /// What the columns' names begin with.
    named: &'static str,
}

impl Lifted {
    fn below(input: &Arc<LogicalPlan>) -> Lifted {
        Lifted { input: input.clone(), found: Vec::new(), named: "lifted" }
    }

    /// The column that stands for an expression.
    fn column(&mut self, e: Expr) -> Expr {
        let known = self.found.iter().find(|(found, _)| *found == e).map(|(_, name)| name.clone());
        let name = known.unwrap_or_else(|| {
            // Numbered within their node, above which nobody sees them: subqueries that are equal remain so when some
            // of theirs are lifted.
            let name = format!("{} {}", self.named, self.found.len() + 1);
            self.found.push((e, name.clone()));
            name
        });
        Expr::Column(Column::new_unqualified(name))
    }

    /// The window with columns for the keys that have to be computed below it.
    fn with_keys_below(&mut self, window: &Expr) -> Result<Expr> {
        let settled = window.clone().transform_down(|e| {
            let Expr::WindowFunction(mut function) = e else { return Ok(Transformed::no(e)) };
            let params = &mut function.params;
            let order_by = params.order_by.iter_mut().map(|term| &mut term.expr);
            for key in params.partition_by.iter_mut().chain(order_by) {
                if has_subquery(key) || key.is_volatile() {
                    *key = self.column(key.clone());
                }
            }
            Ok(Transformed::yes(Expr::WindowFunction(function)))
        });
        settled.map(|t| t.data)
    }

    /// The expression with columns in the place of its subqueries.
    fn without_subqueries(&mut self, e: &Expr) -> Result<Expr> {
        if !has_subquery(e) {
            return Ok(e.clone());
        }
        e.clone()
            .transform_down(|e| {
                if !matches!(e, Expr::ScalarSubquery(_)) {
                    return Ok(Transformed::no(e));
                }
                Ok(Transformed::yes(self.column(e)))
            })
            .map(|t| t.data)
    }

    fn projection(self) -> Result<Arc<LogicalPlan>> {
        if self.found.is_empty() {
            return Ok(self.input);
        }
        let mut exprs = columns(&self.input);
        exprs.extend(self.found.into_iter().map(|(subquery, name)| subquery.alias(name)));
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, self.input)?)))
    }
}

/// All columns of a plan, as they are called there.
pub(super) fn columns(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().iter().map(|field| Expr::Column(Column::from(field))).collect()
}

fn of_aggregate(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    if !aggregate.aggr_expr.iter().any(has_subquery) {
        return Ok(None);
    }
    let mut lifted = Lifted::below(&aggregate.input);
    let mut exprs = Vec::with_capacity(aggregate.aggr_expr.len());
    for e in &aggregate.aggr_expr {
        let name = e.schema_name().to_string();
        let new = lifted.without_subqueries(e)?;
        exprs.push(if new == *e { new } else { new.alias(name) });
    }
    let input = lifted.projection()?;
    Ok(Some(LogicalPlan::Aggregate(Aggregate::try_new(input, aggregate.group_expr.clone(), exprs)?)))
}

fn of_window(window: &Window) -> Result<Option<LogicalPlan>> {
    let is_lifted = |e: &Expr| has_subquery(e) || e.is_volatile();
    if !window.window_expr.iter().any(is_lifted) {
        return Ok(None);
    }
    let mut lifted = Lifted::below(&window.input);
    let mut exprs = Vec::with_capacity(window.window_expr.len());
    for e in &window.window_expr {
        let name = e.schema_name().to_string();
        let new = lifted.with_keys_below(e)?;
        let new = lifted.without_subqueries(&new)?;
        exprs.push(if new == *e { new } else { new.alias(name) });
    }
    if lifted.found.is_empty() {
        return Ok(None);
    }
    let shown = window.schema.iter().map(|field| Expr::Column(Column::from(field))).collect();
    let windows = LogicalPlan::Window(Window::try_new(exprs, lifted.projection()?)?);
    Ok(Some(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(windows))?)))
}

fn of_sort(sort: &Sort) -> Result<Option<LogicalPlan>> {
    if !sort.expr.iter().any(|key| has_subquery(&key.expr)) {
        return Ok(None);
    }
    let mut lifted = Lifted::below(&sort.input);
    let mut keys = Vec::with_capacity(sort.expr.len());
    for key in &sort.expr {
        keys.push(SortExpr { expr: lifted.without_subqueries(&key.expr)?, ..key.clone() });
    }
    let shown = columns(&sort.input);
    let sorted = LogicalPlan::Sort(Sort { expr: keys, input: lifted.projection()?, fetch: sort.fetch });
    Ok(Some(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(sorted))?)))
}

/// The condition of an outer join: a subquery over columns of one side is a value of each of its rows.
fn of_join(join: &Join) -> Result<Option<LogicalPlan>> {
    let is_inner = matches!(join.join_type, JoinType::Inner);
    let Some(filter) = join.filter.as_ref().filter(|filter| !is_inner && has_subquery(filter)) else {
        return Ok(None);
    };
    let mut left = Lifted::below(&join.left);
    let mut right = Lifted { named: "lifted right", ..Lifted::below(&join.right) };
    let filter = filter.clone().transform_down(|e| {
        let Expr::ScalarSubquery(subquery) = &e else { return Ok(Transformed::no(e)) };
        let is_over = |side: &Lifted| {
            let is_column = |e: &Expr| match e {
                Expr::OuterReferenceColumn(_, column) => side.input.schema().has_column(column),
                _ => false,
            };
            subquery.outer_ref_columns.iter().all(is_column)
        };
        Ok(match (is_over(&left), is_over(&right)) {
            (true, _) => Transformed::yes(left.column(e)),
            (false, true) => Transformed::yes(right.column(e)),
            (false, false) => Transformed::no(e),
        })
    })?;
    let shown = join.schema.iter().map(|field| Expr::Column(Column::from(field))).collect();
    let joined = Join {
        left: left.projection()?,
        right: right.projection()?,
        filter: Some(filter.data),
        ..join.clone()
    };
    let joined = LogicalPlan::Join(joined).recompute_schema()?;
    Ok(Some(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(joined))?)))
}
