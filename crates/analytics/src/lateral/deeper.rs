//! LATERAL subqueries that name what is left of them in their own subqueries alone.
//!
//! The planner takes such a subquery for one that is not lateral (`create_relation_subquery` of datafusion-sql 55.2 looks for
//! names in the subquery's own expressions), and finds no such column when it plans the join.

use super::lateral_of;
use crate::unnesting::named_in;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ExprSchema, Result, Spans};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery, SubqueryAlias};
use std::sync::Arc;

/// The plan in which they are lateral. `outside` are the schemas of the queries around, whose columns are named like that by
/// other subqueries too.
pub(super) fn tell(plan: LogicalPlan, outside: &mut Vec<DFSchema>) -> Result<LogicalPlan> {
    let plan = plan.map_children(|child| tell(child, outside).map(Transformed::yes))?.data;
    outside.push(merge_schema(&plan.inputs()));
    let told = plan
        .map_subqueries(|subquery| subquery.map_children(|child| tell(child, outside).map(Transformed::yes)));
    outside.pop();
    match told?.data {
        LogicalPlan::Join(join) if lateral_of(&join.right).is_none() => {
            lateral(join, outside).map(LogicalPlan::Join)
        }
        plan => Ok(plan),
    }
}

fn lateral(join: Join, outside: &[DFSchema]) -> Result<Join> {
    let left = join.left.schema();
    let mut named = named_in(&join.right, left)?;
    named.retain(|column| !outside.iter().any(|schema| schema.has_column(column)));
    if named.is_empty() {
        return Ok(join);
    }
    let outer = |column| {
        let field = left.field_from_column(&column)?.clone();
        Ok(Expr::OuterReferenceColumn(field, column))
    };
    let outer_ref_columns = named.into_iter().map(outer).collect::<Result<_>>()?;
    let of = |plan: Arc<LogicalPlan>| {
        LogicalPlan::Subquery(Subquery { subquery: plan, outer_ref_columns, spans: Spans::new() })
    };
    let right = match join.right.as_ref() {
        LogicalPlan::SubqueryAlias(named) => {
            let below = Arc::new(of(named.input.clone()));
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(below, named.alias.clone())?)
        }
        _ => of(join.right.clone()),
    };
    Ok(Join { right: Arc::new(right), ..join })
}
