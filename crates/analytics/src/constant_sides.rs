//! Conditions that compare a column with a constant, the constant on the right.
//!
//! The planner takes two conditions that say what one column equals for a contradiction if they are not written alike:
//! `'x' = s` and `s = 'x'` (`simplify_predicates` of datafusion-optimizer 55.2). Written one way, equal ones are alike.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator};

/// The plan with such conditions in filters and joins, where no column is named after them.
pub(super) fn settle(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        Ok(match node {
            LogicalPlan::Filter(filter) => {
                let predicate = of_condition(filter.predicate)?;
                let made = Filter::try_new(predicate.data, filter.input).map(LogicalPlan::Filter)?;
                if predicate.transformed { Transformed::yes(made) } else { Transformed::no(made) }
            }
            LogicalPlan::Join(mut join) => {
                let filter = join.filter.take().map(of_condition).transpose()?;
                let is_changed = filter.as_ref().is_some_and(|filter| filter.transformed);
                join.filter = filter.map(|filter| filter.data);
                let made = LogicalPlan::Join(join);
                if is_changed { Transformed::yes(made) } else { Transformed::no(made) }
            }
            node => Transformed::no(node),
        })
    })
    .map(|t| t.data)
}

fn of_condition(condition: Expr) -> Result<Transformed<Expr>> {
    condition.transform_up(|e| match e {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_constant(&left) && !is_constant(&right) && is_order(op) =>
        {
            let op = op.swap().unwrap_or(op);
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: right, op, right: left })))
        }
        e => Ok(Transformed::no(e)),
    })
}

fn is_order(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Whether an expression is a literal or a parameter, cast or not.
fn is_constant(e: &Expr) -> bool {
    match e {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(cast) => is_constant(&cast.expr),
        _ => false,
    }
}
