//! What a subquery names from outside: found, and replaced.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use std::sync::Arc;

/// The subquery of an expression.
pub(super) fn subquery_of(e: &Expr) -> Option<&Subquery> {
    match e {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(list) => Some(&list.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        _ => None,
    }
}

/// Columns of an outside that a plan names, each once. A name means what is nearest: `hidden` are the schemas between.
pub(in super::super) fn named_in(plan: &LogicalPlan, outside: &DFSchema) -> Result<Vec<Column>> {
    let mut named = Vec::new();
    collect(plan, outside, &mut Vec::new(), &mut named)?;
    Ok(named)
}

/// The same of an expression; what its subqueries name included.
pub(super) fn named_by(e: &Expr, over: &DFSchema, outside: &DFSchema) -> Result<Vec<Column>> {
    let mut named = Vec::new();
    collect_of(e, over, outside, &mut Vec::new(), &mut named)?;
    Ok(named)
}

fn collect(
    plan: &LogicalPlan,
    outside: &DFSchema,
    hidden: &mut Vec<DFSchema>,
    named: &mut Vec<Column>,
) -> Result<()> {
    plan.apply(|node| {
        let over = merge_schema(&node.inputs());
        node.apply_expressions(|e| {
            collect_of(e, &over, outside, hidden, named)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

fn collect_of(
    e: &Expr,
    over: &DFSchema,
    outside: &DFSchema,
    hidden: &mut Vec<DFSchema>,
    named: &mut Vec<Column>,
) -> Result<()> {
    e.apply(|e| {
        if let Expr::OuterReferenceColumn(_, column) = e
            && outside.has_column(column)
            && !hidden.iter().any(|schema| schema.has_column(column))
            && !named.contains(column)
        {
            named.push(column.clone());
        }
        if let Some(subquery) = subquery_of(e) {
            hidden.push(over.clone());
            collect(&subquery.subquery, outside, hidden, named)?;
            hidden.pop();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Columns for what is named from outside.
pub(super) struct Substitute<'a> {
    pub named: &'a [Column],
    pub columns: &'a [Column],
}

impl Substitute<'_> {
    /// An expression of the subquery, over rows that have these columns.
    pub fn within(&self, e: Expr, over: &DFSchema) -> Result<Expr> {
        self.replaced(e, over, &mut Vec::new(), false)
    }

    /// A plan whose outside has these columns now.
    pub fn further_in(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        self.inside(plan, &mut Vec::new())
    }

    fn replaced(&self, e: Expr, over: &DFSchema, hidden: &mut Vec<DFSchema>, is_outer: bool) -> Result<Expr> {
        let replaced = e.transform_down(|e| {
            if let Expr::OuterReferenceColumn(field, column) = &e {
                let hides = hidden.iter().any(|schema| schema.has_column(column));
                let Some(n) = self.named.iter().position(|named| named == column && !hides) else {
                    return Ok(Transformed::no(e));
                };
                let column = self.columns[n].clone();
                return Ok(Transformed::yes(match is_outer {
                    true => Expr::OuterReferenceColumn(field.clone(), column),
                    false => Expr::Column(column),
                }));
            }
            let Some(subquery) = subquery_of(&e) else { return Ok(Transformed::no(e)) };
            hidden.push(over.clone());
            let plan = self.inside(&subquery.subquery, hidden)?;
            hidden.pop();
            let new = Subquery {
                outer_ref_columns: plan.all_out_ref_exprs(),
                subquery: Arc::new(plan),
                spans: subquery.spans.clone(),
            };
            let mut e = e;
            match &mut e {
                Expr::ScalarSubquery(subquery) => *subquery = new,
                Expr::Exists(exists) => exists.subquery = new,
                Expr::InSubquery(list) => list.subquery = new,
                Expr::SetComparison(comparison) => comparison.subquery = new,
                _ => {}
            }
            Ok(Transformed::yes(e))
        });
        Ok(replaced?.data)
    }

    fn inside(&self, plan: &LogicalPlan, hidden: &mut Vec<DFSchema>) -> Result<LogicalPlan> {
        let replaced = plan.clone().transform_up(|node| {
            let over = merge_schema(&node.inputs());
            node.map_expressions(|e| Ok(Transformed::yes(self.replaced(e, &over, hidden, true)?)))
        });
        Ok(replaced?.data)
    }
}
