//! Subqueries that depend on the query around them in a way that the planner has no join for.
//!
//! The planner joins a subquery to the query around it where a condition on the subquery's rows says which of them are
//! meant ([`plain`]). Any other subquery is computed for all combinations of the values that it names from outside, each
//! once, and joined by them (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015): the combinations are pushed
//! below the subquery's operators ([`push`]), which do for each of them what they did for one.
//!
//! A subquery is settled before those inside it: what these name from further outside has become a column beside the rows
//! around them by then.
//!
//! KEEPS: schemas; every row around finds its combination, NULLs included. So the rows around, which the combinations are
//! taken from, are computed once where another computation might give others ([`repeatable`]).

mod mentions;
mod order;
mod plain;
mod push;
mod repeatable;

use super::lateral::lateral_of;
use super::lifted_subqueries::columns;
use super::{only, shared};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result, TableReference};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    AggregateUDF, Expr, Filter, Join, JoinConstraint, JoinType, LogicalPlan, LogicalPlanBuilder, Projection,
    lit,
};
pub(super) use mentions::named_in;
use plain::Use;
use push::Domain;
use repeatable::Repeatable;
pub(super) use repeatable::is_same_if_computed_once;
use std::sync::Arc;

/// The plan without such subqueries, and whether there were any. Those that stay are left to be refused.
pub(super) fn settle(plan: LogicalPlan) -> Result<(LogicalPlan, bool)> {
    if !depends_on_outside(&plan)? {
        return Ok((plan, false));
    }
    let mut unnesting = Unnesting { made: 0, changes: 0, computed_once: 0 };
    let settled = unnesting.settle(plan)?;
    Ok((settled, unnesting.made > 0))
}

/// Whether any part of a plan names a column of a query around it.
pub(super) fn depends_on_outside(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= node.contains_outer_reference();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

struct Unnesting {
    /// Domains made so far: each has names of its own.
    made: usize,
    /// Expressions that became others.
    changes: usize,
    /// Plans that are computed once.
    computed_once: usize,
}

impl Unnesting {
    fn settle(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = self.node(plan)?;
        let plan = plan.map_children(|child| self.settle(child).map(Transformed::yes))?.data;
        let inside =
            |subquery: LogicalPlan| subquery.map_children(|child| self.settle(child).map(Transformed::yes));
        Ok(plan.map_subqueries(inside)?.data)
    }

    fn node(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let made = match &plan {
            LogicalPlan::Join(join) => match self.beside(join)? {
                Some(made) => Some(made),
                None => self.on(join)?,
            },
            LogicalPlan::Sort(sort) => match order::with_columns_below(sort)? {
                Some(made) => Some(made),
                None => self.over(&plan)?,
            },
            LogicalPlan::Filter(_)
            | LogicalPlan::Projection(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_) => self.over(&plan)?,
            _ => None,
        };
        Ok(made.unwrap_or(plan))
    }

    /// A node of one input, over an input that has its subqueries' values.
    fn over(&mut self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let [input] = plan.inputs()[..] else { return Ok(None) };
        if !has_subqueries(plan)? {
            return Ok(None);
        }
        let Some(input) = &self.repeated(input)? else { return Ok(None) };
        let mut beside = input.clone();
        let names = NamePreserver::new(plan);
        let mut exprs = Vec::new();
        let before = self.changes;
        for e in plan.expressions() {
            let saved = names.save(&e);
            let new = self.replaced(e, input, &mut beside)?;
            exprs.push(match plan {
                LogicalPlan::Sort(_) => new,
                _ => saved.restore(new),
            });
        }
        if before == self.changes {
            return Ok(None);
        }
        let made = plan.with_new_exprs(exprs, vec![beside])?;
        if matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_)) {
            return Ok(Some(made));
        }
        Ok(Some(LogicalPlan::Projection(Projection::try_new(columns(plan), Arc::new(made))?)))
    }

    /// An expression over an input, with columns that are put beside it for its subqueries.
    fn replaced(&mut self, e: Expr, input: &LogicalPlan, beside: &mut LogicalPlan) -> Result<Expr> {
        let replaced = e.transform_down(|e| {
            let (subquery, used) = match &e {
                Expr::ScalarSubquery(subquery) => (subquery, Use::Value),
                Expr::Exists(exists) => (&exists.subquery, Use::Rows),
                _ => return Ok(Transformed::no(e)),
            };
            let subquery = match used {
                Use::Value => &subquery.subquery,
                _ => plain::without_what_no_row_hangs_on(&subquery.subquery),
            };
            if plain::is_plain(subquery, input.schema(), used)? {
                let bare = subquery.clone();
                return Ok(match e {
                    Expr::Exists(mut exists) if bare != *exists.subquery.subquery => {
                        exists.subquery.subquery = Arc::new(bare);
                        self.changes += 1;
                        Transformed::new(Expr::Exists(exists), true, TreeNodeRecursion::Jump)
                    }
                    e => Transformed::no(e),
                });
            }
            let Some((joined, value)) = self.joined(input, beside, subquery, used)? else {
                return Ok(Transformed::no(e));
            };
            *beside = joined;
            Ok(Transformed::yes(match &e {
                Expr::Exists(exists) if exists.negated => value.is_null(),
                Expr::Exists(_) => value.is_not_null(),
                _ => value,
            }))
        });
        Ok(replaced?.data)
    }

    /// An input with a column for what a subquery is for each row. `None` for a subquery of a form that is not known.
    fn joined(
        &mut self,
        input: &LogicalPlan,
        beside: &LogicalPlan,
        subquery: &LogicalPlan,
        used: Use,
    ) -> Result<Option<(LogicalPlan, Expr)>> {
        let number = self.made + 1;
        let Some(domain) = Domain::of(subquery, input, number)? else { return Ok(None) };
        let Some(rows) = domain.computed(subquery)? else { return Ok(None) };
        let value = format!("value {number}");
        let keys = domain.keys();
        let rows = LogicalPlanBuilder::from(rows);
        let found = match (used, subquery.schema().columns().as_slice()) {
            (Use::Value, [column]) => {
                let of = Expr::Column(column.clone());
                let function = Arc::new(AggregateUDF::from(only::function()));
                let row = AggregateFunction::new_udf(function, vec![of], false, None, Vec::new(), None);
                rows.aggregate(keys, vec![Expr::AggregateFunction(row).alias(&value)])?
            }
            (Use::Value, _) => return Ok(None),
            (_, _) => rows.project(keys)?.distinct()?,
        };
        let mut named = domain.keys_named("found");
        named.push(match used {
            Use::Value => Expr::Column(Column::new_unqualified(&value)),
            _ => lit(true).alias(&value),
        });
        self.made = number;
        self.changes += 1;
        let found = found.project(named)?.build()?;
        let joined = domain.joined(beside, found, JoinType::Left, None)?;
        Ok(Some((joined, Expr::Column(Column::new_unqualified(&value)))))
    }

    /// Rows around, as they may be written into the plan twice; `None` where they may not.
    fn repeated(&mut self, around: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        Ok(match repeatable::how(around)? {
            Repeatable::Always => Some(around.clone()),
            Repeatable::IfComputedOnce => {
                self.computed_once += 1;
                Some(shared::once(around, self.computed_once))
            }
            Repeatable::Never => None,
        })
    }

    /// The conditions of an inner join that hold such subqueries, above it.
    fn on(&mut self, join: &Join) -> Result<Option<LogicalPlan>> {
        let Some(filter) = join.filter.as_ref().filter(|_| join.join_type == JoinType::Inner) else {
            return Ok(None);
        };
        let bare = LogicalPlan::Join(Join { filter: None, ..join.clone() });
        let above = LogicalPlan::Filter(Filter::try_new(filter.clone(), Arc::new(bare))?);
        self.over(&above)
    }

    /// A lateral subquery, joined to what is left of it by what it names of that.
    fn beside(&mut self, join: &Join) -> Result<Option<LogicalPlan>> {
        let Some((subquery, alias)) = lateral_of(&join.right) else { return Ok(None) };
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left)
            || plain::is_plain(subquery, join.left.schema(), Use::Beside)?
        {
            return Ok(None);
        }
        let number = self.made + 1;
        let Some(left) = &self.repeated(&join.left)? else { return Ok(None) };
        let Some(domain) = Domain::of(subquery, left, number)? else { return Ok(None) };
        let Some(rows) = domain.computed(subquery)? else { return Ok(None) };
        self.made = number;
        let mut named = domain.keys_named("found");
        for (relation, field) in subquery.schema().iter() {
            let column = Expr::Column(Column::new(relation.cloned(), field.name()));
            let relation: Option<TableReference> = alias.cloned().or_else(|| relation.cloned());
            named.push(column.alias_qualified(relation, field.name()));
        }
        let found = LogicalPlanBuilder::from(rows).project(named)?.build()?;
        let equal = join.on.iter().map(|(l, r)| l.clone().eq(r.clone()));
        let condition = equal.chain(join.filter.clone()).reduce(Expr::and);
        let joined = domain.joined(left, found, join.join_type, condition)?;
        let shown = join.schema.iter().map(|field| Expr::Column(Column::from(field))).collect();
        Ok(Some(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(joined))?)))
    }
}

/// Whether an expression of a node holds a subquery.
fn has_subqueries(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|e| {
        found |= e.exists(|e| Ok(matches!(e, Expr::ScalarSubquery(_) | Expr::Exists(_))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// A join by columns of which NULLs are equal.
fn by_equal_keys(
    left: &LogicalPlan,
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    join_type: JoinType,
    filter: Option<Expr>,
) -> Result<LogicalPlan> {
    let constraint = JoinConstraint::On;
    let nulls = NullEquality::NullEqualsNull;
    let (left, right) = (Arc::new(left.clone()), Arc::new(right));
    Join::try_new(left, right, on, filter, join_type, constraint, nulls, false).map(LogicalPlan::Join)
}
