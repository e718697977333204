//! Which subqueries the planner joins by itself.

use super::mentions::{named_by, named_in, subquery_of};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, Limit, LogicalPlan, Operator};

/// How a subquery is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Its row is a value.
    Value,
    /// Whether there are rows.
    Rows,
    /// Its rows stand beside those around.
    Beside,
}

/// What EXISTS asks of: duplicates, order and a limit that leaves a row make no difference.
pub(super) fn without_what_no_row_hangs_on(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Distinct(Distinct::All(input)) => without_what_no_row_hangs_on(input),
        LogicalPlan::SubqueryAlias(alias) => without_what_no_row_hangs_on(&alias.input),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => without_what_no_row_hangs_on(&sort.input),
        LogicalPlan::Limit(limit) if leaves_a_row(limit) => without_what_no_row_hangs_on(&limit.input),
        plan => plan,
    }
}

fn leaves_a_row(limit: &Limit) -> bool {
    let number = |e: &Option<Box<Expr>>| match e.as_deref() {
        Some(Expr::Literal(ScalarValue::Int64(n), _)) => Some(*n),
        Some(_) => None,
        None => Some(None),
    };
    matches!(number(&limit.skip), Some(None | Some(0)))
        && matches!(number(&limit.fetch), Some(None | Some(1..)))
}

/// Whether the planner joins a subquery to an outside, or it does not depend on it.
pub(super) fn is_plain(plan: &LogicalPlan, outside: &DFSchema, used: Use) -> Result<bool> {
    if named_in(plan, outside)?.is_empty() {
        return Ok(true);
    }
    // The planner would not know its column from one around it.
    let is_around = |name: &str| outside.fields().iter().any(|field| field.name() == name);
    if used == Use::Value && plan.schema().fields().iter().any(|field| is_around(field.name())) {
        return Ok(false);
    }
    Spine { outside, used, joined_by: Vec::new() }.is_plain(plan, false)
}

struct Spine<'a> {
    outside: &'a DFSchema,
    used: Use,
    /// The subquery's columns in conditions that name the outside.
    joined_by: Vec<Column>,
}

impl Spine<'_> {
    fn is_plain(&mut self, plan: &LogicalPlan, is_below_aggregate: bool) -> Result<bool> {
        if named_in(plan, self.outside)?.is_empty() {
            return Ok(self.used != Use::Value || is_below_aggregate);
        }
        match plan {
            LogicalPlan::Projection(projection) => Ok((self.used == Use::Rows
                || self.are_free(&projection.expr, plan)?)
                && self.is_plain(&projection.input, is_below_aggregate)?),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() && self.used != Use::Rows => {
                let keys: Vec<Expr> = sort.expr.iter().map(|key| key.expr.clone()).collect();
                Ok(self.are_free(&keys, plan)? && self.is_plain(&sort.input, is_below_aggregate)?)
            }
            LogicalPlan::Filter(filter) => {
                let is_joined = match self.used {
                    Use::Value => {
                        is_below_aggregate && self.are_equalities(&filter.predicate, &filter.input)?
                    }
                    Use::Rows | Use::Beside => {
                        !self.names_deeper(&filter.predicate, &filter.input)? && !mixes(&filter.predicate)?
                    }
                };
                Ok(is_joined
                    && self.tells_apart(&filter.predicate)
                    && self.is_plain_or_free(&filter.input, is_below_aggregate)?)
            }
            LogicalPlan::Aggregate(aggregate) => Ok(self.used == Use::Value
                && !is_below_aggregate
                && aggregate.group_expr.is_empty()
                && self.are_free(&aggregate.aggr_expr, plan)?
                && self.is_plain(&aggregate.input, true)?),
            _ => Ok(false),
        }
    }

    fn is_plain_or_free(&mut self, plan: &LogicalPlan, is_below_aggregate: bool) -> Result<bool> {
        Ok(named_in(plan, self.outside)?.is_empty() || self.is_plain(plan, is_below_aggregate)?)
    }

    /// Whether columns in conditions that name the outside have names of their own. The planner joins by them under their
    /// names alone: of `b.id = t.x AND c.id = t.y` it makes conditions on one column.
    fn tells_apart(&mut self, condition: &Expr) -> bool {
        let conditions = split_conjunction(condition).into_iter().filter(|e| e.contains_outer());
        for column in conditions.flat_map(|e| e.column_refs()) {
            match self.joined_by.iter().find(|other| other.name == column.name) {
                Some(other) if other != column => return false,
                Some(_) => {}
                None => self.joined_by.push(column.clone()),
            }
        }
        true
    }

    fn are_free(&self, exprs: &[Expr], node: &LogicalPlan) -> Result<bool> {
        let over = datafusion::logical_expr::utils::merge_schema(&node.inputs());
        for e in exprs {
            if !named_by(e, &over, self.outside)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a subquery of a condition names the outside of this one.
    fn names_deeper(&self, condition: &Expr, input: &LogicalPlan) -> Result<bool> {
        condition.exists(|e| {
            Ok(subquery_of(e).is_some() && !named_by(e, input.schema(), self.outside)?.is_empty())
        })
    }

    /// Whether conditions that name the outside are equalities of a column inside and something outside.
    fn are_equalities(&self, condition: &Expr, input: &LogicalPlan) -> Result<bool> {
        if self.names_deeper(condition, input)? {
            return Ok(false);
        }
        for e in split_conjunction(condition) {
            let is_outside = |e: &Expr| e.column_refs().is_empty();
            let is_column = |e: &Expr| matches!(e, Expr::Column(_));
            let is_equality = match e {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    (is_column(left) && is_outside(right)) || (is_column(right) && is_outside(left))
                }
                _ => false,
            };
            if e.contains_outer() && !is_equality {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a condition is about a subquery and the outside at once, as of `a IN (…) OR b = outside.c`. The planner takes
/// what names the outside up to the join before it joins such subqueries, which it does not do above.
fn mixes(condition: &Expr) -> Result<bool> {
    for e in split_conjunction(condition) {
        if e.contains_outer() && e.exists(|e| Ok(subquery_of(e).is_some()))? {
            return Ok(true);
        }
    }
    Ok(false)
}
