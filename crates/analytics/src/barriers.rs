//! What the planner's rules may not move or conclude beside groups that there are without rows, and beside rows that are
//! computed once.
//!
//! A condition without columns (`(SELECT count(*) FROM b) = 7`) is pushed below an aggregate without GROUP BY by the
//! planner, where it takes rows away instead of the one row of the result; so it is below GROUPING SETS, whose empty
//! set makes a row of no rows. Below one of several places that share their rows it would take them from all. A column that has one value below GROUPING SETS has two above, NULL being the other; what
//! the planner knows of the one is kept from it.

use super::shared;
use base::SqlError;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{conjunction, grouping_set_to_exprlist, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, Filter, LogicalPlan, Projection, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Expressions of all grouping sets together: the planner numbers a set by a bit for each, and shifts by their count.
const KEYS_MAX: usize = 63;

/// The plan with keys of GROUPING SETS that are no constants.
pub(super) fn place(plan: LogicalPlan) -> Result<LogicalPlan> {
    let placed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) if is_of_sets(&aggregate) => of_varying_keys(aggregate),
        node => Ok(Transformed::no(node)),
    })?;
    Ok(placed.data)
}

fn is_of_sets(aggregate: &Aggregate) -> bool {
    matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)])
}

/// The rule that pushes conditions down, which leaves those without columns where rows below them are not theirs to take.
#[derive(Debug)]
pub(super) struct KeptAbove(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for KeptAbove {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let Some((kept, moved, input)) = kept_and_moved(&plan) else { return self.0.rewrite(plan, config) };
        let Some(moved) = conjunction(moved) else { return Ok(Transformed::no(plan)) };
        let below = LogicalPlan::Filter(Filter::try_new(moved, Arc::new(input.clone()))?);
        let below = self.0.rewrite(below, config)?;
        if !below.transformed {
            return Ok(Transformed::no(plan));
        }
        let above = Filter::try_new(kept, Arc::new(below.data))?;
        Ok(Transformed::yes(LogicalPlan::Filter(above)))
    }
}

/// The conditions that stay above a node, the others, and the node, if some stay. The rule takes conditions that follow
/// each other together.
fn kept_and_moved(plan: &LogicalPlan) -> Option<(Expr, Vec<Expr>, &LogicalPlan)> {
    let mut conditions = Vec::new();
    let mut input = plan;
    while let LogicalPlan::Filter(filter) = input {
        conditions.splice(0..0, split_conjunction(&filter.predicate).into_iter().cloned());
        input = &filter.input;
    }
    let keeps = match input {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty() || is_of_sets(aggregate),
        node => shared::is_shared(node),
    };
    if !keeps {
        return None;
    }
    let (kept, moved): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|e| e.column_refs().is_empty());
    Some((conjunction(kept)?, moved, input))
}

/// Grouping sets over columns that the planner takes for no constants.
fn of_varying_keys(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let keys: Vec<Expr> = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
    if keys.len() > KEYS_MAX {
        let told = format!("grouping sets over more than {KEYS_MAX} expressions");
        return Err(DataFusionError::External(Box::new(SqlError::unsupported(told))));
    }
    let varying = Arc::new(ScalarUDF::new_from_impl(Varying::new()));
    let unknown = Arc::new(ScalarUDF::new_from_impl(Unknown::new()));
    let mut any = false;
    let exprs: Vec<Expr> = aggregate
        .input
        .schema()
        .columns()
        .into_iter()
        .map(|column| {
            let e = Expr::Column(column.clone());
            if !keys.contains(&e) {
                return e;
            }
            any = true;
            let nothing = Expr::ScalarFunction(ScalarFunction::new_udf(unknown.clone(), Vec::new()));
            let call = ScalarFunction::new_udf(varying.clone(), vec![e, nothing]);
            Expr::ScalarFunction(call).alias_qualified(column.relation, column.name)
        })
        .collect();
    if !any {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let input = LogicalPlan::Projection(Projection::try_new(exprs, aggregate.input)?);
    let made = Aggregate::try_new(Arc::new(input), aggregate.group_expr, aggregate.aggr_expr)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(made)))
}

/// The functions, by their names in SQL.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [ScalarUDF::new_from_impl(Varying::new()), ScalarUDF::new_from_impl(Unknown::new())]
}

/// An expression of the same value that the planner takes for another one, as often as is said.
pub(super) fn told_apart(e: &str, times: usize) -> String {
    (0..times).fold(e.to_string(), |e, _| format!("meridian_varying({e}, meridian_unknown())"))
}

/// Its first argument. The second one is what keeps a constant from being one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Varying {
    signature: Signature,
}

impl Varying {
    fn new() -> Varying {
        Varying { signature: Signature::any(2, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Varying {
    fn name(&self) -> &str {
        "meridian_varying"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(arguments.arg_fields[0].clone())
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(arguments.args[0].clone())
    }
}

/// A value of which the planner knows nothing.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unknown {
    signature: Signature,
}

impl Unknown {
    fn new() -> Unknown {
        Unknown { signature: Signature::nullary(Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Unknown {
    fn name(&self) -> &str {
        "meridian_unknown"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)))
    }
}
