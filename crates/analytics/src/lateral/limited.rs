//! `LATERAL (… ORDER BY … LIMIT n)`: the first rows for each row of the other side.
//!
//! The other side's rows are numbered, and joined to all rows of the subquery that its conditions leave; within each number
//! the rows are numbered in the subquery's order, and those between OFFSET and LIMIT are kept.
//!
//! KEEPS: rows of the other side that are equal have rows of their own; a row that LEFT JOIN keeps stands once.

use super::super::lifted_subqueries::columns;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::{Sort as Key, WindowFunction};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, JoinType, Limit, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition, cast,
    lit, when,
};

const LEFT_ROW: &str = "left row";
const THERE: &str = "inner there";
const NTH: &str = "nth of left row";
const COUNT: &str = "count of left row";

/// A subquery with nothing from outside but in its conditions, its values and its order.
struct Inlined {
    /// Its rows before its conditions that name columns from outside.
    base: LogicalPlan,
    conditions: Vec<Expr>,
    /// Its columns.
    values: Vec<Expr>,
    order: Vec<Key>,
}

/// A plan with the columns of the other side, under numbers of their own, and what the subquery's columns are there; with it
/// the other side's columns. `None` for a subquery of another form.
pub(super) fn joined(
    left: &LogicalPlan,
    subquery: &LogicalPlan,
    is_outer: bool,
) -> Result<Option<(LogicalPlan, Vec<Expr>, Vec<Expr>)>> {
    let (limit, over) = match peeled(subquery) {
        LogicalPlan::Limit(limit) => (limit, &[][..]),
        LogicalPlan::Projection(projection) => match peeled(&projection.input) {
            LogicalPlan::Limit(limit) => (limit, projection.expr.as_slice()),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    if !names_outside(subquery, left.schema())? {
        return Ok(None);
    }
    let Some((skip, fetch)) = bounds(limit) else { return Ok(None) };
    let place = Place { left: left.schema() };
    let Some(mut inlined) = place.inlined(&limit.input)? else { return Ok(None) };
    if !over.is_empty() {
        let Some(values) = place.all(over, limit.input.schema(), &inlined.values)? else { return Ok(None) };
        inlined.values = values;
    }
    let numbered = numbered(left)?;
    let join_type = if is_outer { JoinType::Left } else { JoinType::Inner };
    let conditions = std::mem::take(&mut inlined.conditions);
    let base = std::mem::replace(&mut inlined.base, left.clone());
    let joined = LogicalPlanBuilder::from(numbered).join_on(base, join_type, conditions)?;
    let by_row = || vec![column(LEFT_ROW)];
    let nth = row_number().partition_by(by_row());
    let nth = if inlined.order.is_empty() { nth } else { nth.order_by(inlined.order) };
    let mut windowed = joined.window(vec![nth.build()?.alias(NTH)])?;
    // Where the first row may be one of those that are left out.
    let is_simple = matches!(skip, Expr::Literal(ScalarValue::Int64(Some(0)), _))
        && matches!(fetch, Expr::Literal(ScalarValue::Int64(Some(1..)), _));
    if is_outer && !is_simple {
        let count = WindowFunctionDefinition::AggregateUDF(count_udaf());
        let count = Expr::WindowFunction(Box::new(WindowFunction::new(count, vec![column(THERE)])));
        windowed = windowed.window(vec![count.partition_by(by_row()).build()?.alias(COUNT)])?;
    }
    let nth = || cast(column(NTH), DataType::Int64);
    let is_within = nth().gt(skip.clone()).and((nth() - skip.clone()).lt_eq(fetch.clone()));
    let kept = match (is_outer, is_simple) {
        (false, _) | (true, true) => is_within.clone(),
        (true, false) => {
            let is_empty = column(COUNT).lt_eq(skip).or(fetch.lt_eq(lit(0_i64)));
            is_within.clone().or(nth().eq(lit(1_i64)).and(is_empty))
        }
    };
    let kept = windowed.filter(kept)?.build()?;
    let is_there = column(THERE).is_not_null().and(is_within);
    let masked = |value: Expr| match (is_outer, is_simple, &value) {
        (false, ..) | (true, true, Expr::Column(_)) => Ok(value),
        _ => when(is_there.clone(), value).end(),
    };
    let values = inlined.values.into_iter().map(masked).collect::<Result<Vec<_>>>()?;
    let lefts = (0..left.schema().fields().len()).map(|n| column(&left_name(n))).collect();
    Ok(Some((kept, lefts, values)))
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

fn left_name(n: usize) -> String {
    format!("left {n}")
}

/// What an alias stands for.
fn peeled(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => peeled(&alias.input),
        plan => plan,
    }
}

/// OFFSET and LIMIT; `None` where they are neither numbers nor parameters.
pub(crate) fn bounds(limit: &Limit) -> Option<(Expr, Expr)> {
    let bound = |e: &Option<Box<Expr>>, otherwise: i64| match e.as_deref() {
        None => Some(lit(otherwise)),
        Some(e @ Expr::Literal(ScalarValue::Int64(Some(_)), _)) => Some(e.clone()),
        Some(e @ Expr::Placeholder(_)) => Some(cast(e.clone(), DataType::Int64)),
        Some(_) => None,
    };
    Some((bound(&limit.skip, 0)?, bound(&limit.fetch, i64::MAX)?))
}

/// Whether a plan names columns of a schema from outside.
fn names_outside(plan: &LogicalPlan, left: &DFSchema) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|e| {
            found |= names_column_of(e, left)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

fn names_column_of(e: &Expr, left: &DFSchema) -> Result<bool> {
    e.exists(|e| Ok(matches!(e, Expr::OuterReferenceColumn(_, column) if left.has_column(column))))
}

/// The other side with a number for each row.
fn numbered(left: &LogicalPlan) -> Result<LogicalPlan> {
    let names = columns(left).into_iter().enumerate().map(|(n, e)| e.alias(left_name(n)));
    LogicalPlanBuilder::from(left.clone())
        .project(names.collect::<Vec<_>>())?
        .window(vec![row_number().alias(LEFT_ROW)])?
        .build()
}

/// Where expressions of the subquery are placed: over the numbered columns of the other side.
struct Place<'a> {
    left: &'a DFSchema,
}

impl Place<'_> {
    fn inlined(&self, plan: &LogicalPlan) -> Result<Option<Inlined>> {
        if !names_outside(plan, self.left)? {
            let (base, order) = match peeled(plan) {
                LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.input.as_ref(), sort.expr.clone()),
                _ => (plan, Vec::new()),
            };
            return self.based(base, &order);
        }
        match plan {
            LogicalPlan::SubqueryAlias(alias) => self.inlined(&alias.input),
            LogicalPlan::Filter(filter) => {
                let Some(mut inlined) = self.inlined(&filter.input)? else { return Ok(None) };
                let condition = self.placed(&filter.predicate, filter.input.schema(), &inlined.values)?;
                let Some(condition) = condition else { return Ok(None) };
                inlined.conditions.push(condition);
                Ok(Some(inlined))
            }
            LogicalPlan::Projection(projection) => {
                let Some(mut inlined) = self.inlined(&projection.input)? else { return Ok(None) };
                let values = self.all(&projection.expr, projection.input.schema(), &inlined.values)?;
                let Some(values) = values else { return Ok(None) };
                inlined.values = values;
                Ok(Some(inlined))
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let Some(mut inlined) = self.inlined(&sort.input)? else { return Ok(None) };
                inlined.order = match self.ordered(&sort.expr, sort.input.schema(), &inlined.values)? {
                    Some(order) => order,
                    None => return Ok(None),
                };
                Ok(Some(inlined))
            }
            _ => Ok(None),
        }
    }

    /// Rows that depend on nothing outside.
    fn based(&self, plan: &LogicalPlan, order: &[Key]) -> Result<Option<Inlined>> {
        let names: Vec<String> = (0..plan.schema().fields().len()).map(|n| format!("inner {n}")).collect();
        let mut all: Vec<Expr> =
            columns(plan).into_iter().zip(&names).map(|(e, name)| e.alias(name)).collect();
        all.push(lit(true).alias(THERE));
        let base = LogicalPlanBuilder::from(plan.clone()).project(all)?.build()?;
        let values: Vec<Expr> = names.iter().map(|name| column(name)).collect();
        let Some(order) = self.ordered(order, plan.schema(), &values)? else { return Ok(None) };
        Ok(Some(Inlined { base, conditions: Vec::new(), values, order }))
    }

    fn ordered(&self, keys: &[Key], within: &DFSchema, values: &[Expr]) -> Result<Option<Vec<Key>>> {
        let mut placed = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(expr) = self.placed(&key.expr, within, values)? else { return Ok(None) };
            placed.push(Key { expr, ..key.clone() });
        }
        Ok(Some(placed))
    }

    fn all(&self, exprs: &[Expr], within: &DFSchema, values: &[Expr]) -> Result<Option<Vec<Expr>>> {
        exprs.iter().map(|e| self.placed(e, within, values)).collect()
    }

    /// An expression of the subquery over both sides. `None` if it has another value each time, or a subquery.
    fn placed(&self, e: &Expr, within: &DFSchema, values: &[Expr]) -> Result<Option<Expr>> {
        let has_subquery = e.exists(|e| {
            Ok(matches!(
                e,
                Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
            ))
        })?;
        if has_subquery || e.is_volatile() {
            return Ok(None);
        }
        let placed = e.clone().transform_up(|e| match e {
            Expr::OuterReferenceColumn(_, ref column) => Ok(match self.left.maybe_index_of_column(column) {
                Some(n) => Transformed::yes(self::column(&left_name(n))),
                None => Transformed::no(e),
            }),
            Expr::Column(column) => Ok(match within.maybe_index_of_column(&column) {
                Some(at) if at < values.len() => Transformed::yes(values[at].clone()),
                _ => Transformed::no(Expr::Column(column)),
            }),
            e => Ok(Transformed::no(e)),
        })?;
        Ok(Some(placed.data.unalias()))
    }
}
