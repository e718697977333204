//! Several `string_agg` of one query, each in an order of its own.
//!
//! The planner sorts what groups are made of once for all of them, and refuses orders that do not go together. `array_agg`
//! sorts for itself, so they become arrays, which are joined above.

use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_nested::string::array_to_string_udf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr};

/// The aggregate with arrays in the place of such texts, and what is shown above it; `None` if all have one order.
pub(super) fn apart(aggregate: &Aggregate) -> Result<Option<(Aggregate, Vec<Expr>)>> {
    let mut orders = aggregate.aggr_expr.iter().filter_map(joined).map(|call| call.params.order_by);
    let Some(first) = orders.next() else { return Ok(None) };
    if orders.all(|order| order == first) {
        return Ok(None);
    }
    let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let mut shown: Vec<Expr> =
        aggregate.schema.columns().into_iter().take(groups).map(Expr::Column).collect();
    let mut exprs = Vec::with_capacity(aggregate.aggr_expr.len());
    for (n, (e, column)) in
        aggregate.aggr_expr.iter().zip(aggregate.schema.columns().into_iter().skip(groups)).enumerate()
    {
        let Some(mut call) = joined(e) else {
            exprs.push(e.clone());
            shown.push(Expr::Column(column));
            continue;
        };
        let Some(separator) = call.params.args.pop() else { return Ok(None) };
        // NULLs are left out, and of nothing else there is NULL.
        let is_there = call.params.args[0].clone().is_not_null();
        let filter = call.params.filter.take();
        call.params.filter = Some(Box::new(match filter {
            None => is_there,
            Some(filter) => is_there.and(*filter),
        }));
        call.func = array_agg_udaf();
        let name = format!("texts {n}");
        exprs.push(Expr::AggregateFunction(call).alias(&name));
        let texts = Expr::Column(Column::new_unqualified(name));
        let text = array_to_string_udf().call(vec![texts, separator]);
        shown.push(text.alias_qualified(column.relation, column.name));
    }
    let made = Aggregate::try_new(aggregate.input.clone(), aggregate.group_expr.clone(), exprs)?;
    Ok(Some((made, shown)))
}

/// A `string_agg` with an order and one separator for all rows.
fn joined(e: &Expr) -> Option<AggregateFunction> {
    match e.clone().unalias() {
        Expr::AggregateFunction(call)
            if call.func.name() == "string_agg"
                && !call.params.order_by.is_empty()
                && matches!(call.params.args.as_slice(), [_, Expr::Literal(..)]) =>
        {
            Some(call)
        }
        _ => None,
    }
}
