//! What stands behind LATERAL and has no table of its own: functions that make rows over columns of other tables, and
//! lists of expressions; what has a LIMIT ([`limited`]); and what names the other tables in subqueries alone ([`deeper`]).
//!
//! The planner joins a lateral subquery to what is left of it where conditions connect the two. A subquery without a table
//! has no conditions: its row is computed beside each row of the other side, which is what it is made of here.
//!
//! KEEPS: the columns of both sides, with their names and in their order; rows that LEFT JOIN keeps.

mod deeper;
mod limited;

pub(super) use limited::bounds;

use super::lifted_subqueries::columns;
use super::unnesting::depends_on_outside;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, NullHandling, Result, TableReference};
use datafusion::logical_expr::{
    Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias,
};
use std::sync::Arc;

/// The plan without such joins. Its schema is what it was.
pub(super) fn settle(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = match depends_on_outside(&plan)? {
        true => deeper::tell(plan, &mut Vec::new())?,
        false => plan,
    };
    let settled = plan.transform_up_with_subqueries(|node| {
        let made = match &node {
            LogicalPlan::Join(join) => beside(join)?,
            _ => None,
        };
        Ok(made.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(settled.data)
}

/// The join as a computation beside each row of its left side; `None` if it is another one.
fn beside(join: &Join) -> Result<Option<LogicalPlan>> {
    let is_outer = match join.join_type {
        JoinType::Inner => false,
        // What is kept of LEFT JOIN is known where every row has a partner, unless a series of it has no values.
        JoinType::Left if join.on.is_empty() && join.filter.as_ref().is_none_or(is_true) => true,
        _ => return Ok(None),
    };
    let Some((subquery, alias)) = lateral_of(&join.right) else { return Ok(None) };
    let left = join.left.as_ref();
    let mut graft = Graft { left, is_outer, made: 0 };
    let (input, mut exprs, values) = match limited::joined(left, subquery, is_outer)? {
        Some((input, lefts, values)) => {
            let named = lefts.into_iter().zip(left.schema().iter());
            (
                input,
                named.map(|(e, (of, field))| e.alias_qualified(of.cloned(), field.name())).collect(),
                values,
            )
        }
        None => match graft.onto_left(subquery)? {
            Some((input, values)) => (input, columns(left), values),
            None => return Ok(None),
        },
    };
    for (value, field) in values.into_iter().zip(subquery.schema().iter()) {
        let relation: Option<TableReference> = alias.cloned().or_else(|| field.0.cloned());
        exprs.push(value.alias_qualified(relation, field.1.name()));
    }
    let made = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?);
    // Conditions that the planner has taken out of ON already are equalities.
    let equal = join.on.iter().map(|(l, r)| l.clone().eq(r.clone()));
    let condition = equal.chain(join.filter.clone()).filter(|e| !is_true(e)).reduce(Expr::and);
    Ok(Some(match condition.filter(|_| !is_outer) {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(made))?),
        None => made,
    }))
}

/// The lateral subquery that is a join's right side, and what it is called.
pub(super) fn lateral_of(right: &LogicalPlan) -> Option<(&LogicalPlan, Option<&TableReference>)> {
    match right {
        LogicalPlan::Subquery(subquery) => Some((&subquery.subquery, None)),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => match input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some((&subquery.subquery, Some(alias))),
            _ => None,
        },
        _ => None,
    }
}

fn is_true(e: &Expr) -> bool {
    matches!(e, Expr::Literal(datafusion::common::ScalarValue::Boolean(Some(true)), _))
}

/// A subquery that is put beside the rows of a plan.
struct Graft<'a> {
    left: &'a LogicalPlan,
    /// Rows of the left side stay where the subquery has none.
    is_outer: bool,
    /// Columns that were made so far: an expression is computed once, however often it is named.
    made: usize,
}

impl Graft<'_> {
    /// A plan over the left side that has all its columns, and what the subquery's columns are there.
    fn onto_left(&mut self, subquery: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<Expr>)>> {
        match subquery {
            LogicalPlan::EmptyRelation(empty)
                if empty.produce_one_row && empty.schema.fields().is_empty() =>
            {
                Ok(Some((self.left.clone(), Vec::new())))
            }
            LogicalPlan::SubqueryAlias(alias) => self.onto_left(&alias.input),
            LogicalPlan::Filter(filter) if !self.is_outer => {
                let Some((input, values)) = self.onto_left(&filter.input)? else { return Ok(None) };
                let condition = self.placed(filter.predicate.clone(), filter.input.schema(), &values)?;
                Ok(Some((LogicalPlan::Filter(Filter::try_new(condition, Arc::new(input))?), values)))
            }
            LogicalPlan::Projection(projection) => {
                let Some((input, values)) = self.onto_left(&projection.input)? else { return Ok(None) };
                let within = projection.input.schema();
                let (mut exprs, mut names) = (columns(&input), Vec::new());
                for e in &projection.expr {
                    self.made += 1;
                    let name = format!("beside {}", self.made);
                    exprs.push(self.placed(e.clone(), within, &values)?.alias(&name));
                    names.push(Expr::Column(Column::new_unqualified(name)));
                }
                let made = Projection::try_new(exprs, Arc::new(input))?;
                Ok(Some((LogicalPlan::Projection(made), names)))
            }
            LogicalPlan::Unnest(unnest) => {
                let Some((input, values)) = self.onto_left(&unnest.input)? else { return Ok(None) };
                let mut exprs = columns(&input);
                let names = unnest.input.schema().fields().iter().map(|field| field.name());
                exprs.extend(values.into_iter().zip(names).map(|(value, name)| value.alias(name)));
                let mut options = unnest.options.clone();
                if self.is_outer {
                    options = options.with_null_handling(NullHandling::PreserveAndExpandEmpty);
                }
                let made = LogicalPlanBuilder::from(input)
                    .project(exprs)?
                    .unnest_columns_with_options(unnest.exec_columns.clone(), options)?
                    .build()?;
                let column = |name: &String| Expr::Column(Column::new_unqualified(name));
                let values = unnest.schema.fields().iter().map(|field| column(field.name())).collect();
                Ok(Some((made, values)))
            }
            _ => Ok(None),
        }
    }

    /// An expression of the subquery, over the left side.
    fn placed(&self, e: Expr, within: &DFSchema, values: &[Expr]) -> Result<Expr> {
        let placed = e.transform_up(|e| match e {
            Expr::OuterReferenceColumn(_, column) if self.left.schema().has_column(&column) => {
                Ok(Transformed::yes(Expr::Column(column)))
            }
            Expr::Column(column) => Ok(match within.maybe_index_of_column(&column) {
                Some(at) if at < values.len() => Transformed::yes(values[at].clone()),
                _ => Transformed::no(Expr::Column(column)),
            }),
            e => Ok(Transformed::no(e)),
        })?;
        Ok(placed.data.unalias())
    }
}
