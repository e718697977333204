//! Values of VALUES that are computed when a query runs.
//!
//! The planner computes VALUES while it makes the physical plan, where nothing long may be made ([`crate::memory`]). IN: an
//! optimized plan. OUT: the same rows in the same order, of which what is more than a constant by then is computed by a
//! projection: the row's number chooses among the expressions of a column.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, Projection, Values, lit};
use std::sync::Arc;

/// Column of the row's number, among columns that have their own names.
const NUMBER: &str = "meridian_row_number";

/// The plan, whose VALUES are constants.
pub(super) fn computed_later(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Values(values) if values.values.iter().flatten().any(|e| !is_constant(e)) => {
            projected(values).map(Transformed::yes)
        }
        node => Ok(Transformed::no(node)),
    })
    .map(|t| t.data)
}

/// Whether a value takes no memory to speak of where it is computed.
fn is_constant(e: &Expr) -> bool {
    match e {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => is_constant(&cast.expr),
        _ => false,
    }
}

fn projected(Values { schema, mut values }: Values) -> Result<LogicalPlan> {
    let nothing = DFSchema::empty();
    let number = || Expr::Column(Column::from_name(NUMBER));
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (n, (qualifier, field)) in schema.iter().enumerate() {
        let mut branches = Vec::new();
        for (row, cells) in values.iter_mut().enumerate().filter(|(_, cells)| !is_constant(&cells[n])) {
            let absent = match field.is_nullable() {
                true => ScalarValue::try_from(field.data_type())?,
                false => ScalarValue::new_default(field.data_type())?,
            };
            let later = std::mem::replace(&mut cells[n], Expr::Literal(absent, None));
            let typed = later.cast_to(field.data_type(), &nothing)?;
            branches.push((Box::new(number().eq(lit(row as u64))), Box::new(typed)));
        }
        let known = Expr::Column(Column::from_name(field.name()));
        let value = match branches.is_empty() {
            true => known,
            false => Expr::Case(Case::new(None, branches, Some(Box::new(known)))),
        };
        columns.push(value.alias_qualified(qualifier.cloned(), field.name()));
    }
    let mut fields: Vec<_> = schema.fields().iter().map(|field| (None, field.clone())).collect();
    fields.push((None, Arc::new(Field::new(NUMBER, DataType::UInt64, false))));
    for (row, cells) in values.iter_mut().enumerate() {
        cells.push(lit(row as u64));
    }
    let numbered = DFSchema::new_with_metadata(fields, schema.metadata().clone())?;
    let constants = LogicalPlan::Values(Values { schema: Arc::new(numbered), values });
    Ok(LogicalPlan::Projection(Projection::try_new_with_schema(columns, Arc::new(constants), schema)?))
}
