//! Operands of UNION, INTERSECT and EXCEPT, each column with the type that all of them have in common.

use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Projection, Union, cast};
use datafusion::optimizer::analyzer::type_coercion::coerce_union_schema;
use std::sync::Arc;

/// A set operation whose operands have one type, so that what stands above it knows that type; as it is, where the type
/// hangs on parameters that have no values yet.
pub(super) fn of_one_type(node: LogicalPlan) -> LogicalPlan {
    let made = match &node {
        LogicalPlan::Union(union) if differ(&union.inputs) => union_of_one_type(&union.inputs),
        // INTERSECT and EXCEPT are joins in a plan.
        LogicalPlan::Join(join)
            if matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
                && join.null_equality == NullEquality::NullEqualsNull
                && join.on.len() == join.left.schema().fields().len()
                && differ(&[join.left.clone(), join.right.clone()]) =>
        {
            join_of_one_type(join)
        }
        _ => return node,
    };
    made.unwrap_or(node)
}

fn differ(inputs: &[Arc<LogicalPlan>]) -> bool {
    let types = |input: &LogicalPlan| -> Vec<Arrow> {
        input.schema().fields().iter().map(|field| field.data_type().clone()).collect()
    };
    inputs.windows(2).any(|pair| types(&pair[0]) != types(&pair[1]))
}

fn union_of_one_type(inputs: &[Arc<LogicalPlan>]) -> Result<LogicalPlan> {
    let schema = Arc::new(coerce_union_schema(inputs)?);
    let input =
        |input: &Arc<LogicalPlan>| coerce_plan_expr_for_schema(input.as_ref().clone(), &schema).map(Arc::new);
    let inputs = inputs.iter().map(input).collect::<Result<_>>()?;
    Ok(LogicalPlan::Union(Union { inputs, schema }))
}

fn join_of_one_type(join: &Join) -> Result<LogicalPlan> {
    let common = coerce_union_schema(&[join.left.clone(), join.right.clone()])?;
    let types: Vec<Arrow> = common.fields().iter().map(|field| field.data_type().clone()).collect();
    let (left, right) = (with_types(&join.left, &types)?, with_types(&join.right, &types)?);
    crate::set_types::of_operands(join, left, right)
}

/// The same rows under the same names, with columns of these types.
fn with_types(input: &Arc<LogicalPlan>, types: &[Arrow]) -> Result<Arc<LogicalPlan>> {
    let columns = input.schema().iter().zip(types).map(|((qualifier, field), wanted)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match field.data_type() == wanted {
            true => column,
            false => cast(column, wanted.clone()).alias_qualified(qualifier.cloned(), field.name()),
        }
    });
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns.collect(), input.clone())?)))
}
