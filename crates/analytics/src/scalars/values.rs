//! Rows that a statement writes out, with PostgreSQL's types.

use super::inference::kind_of;
use super::kinds::{Family, Kind, kind_of_field};
use super::rule::{self, external};
use super::typing;
use base::DataType;
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Values, cast};
use std::sync::Arc;

/// Rows whose columns have types already. Literals stay, but for how an interval is read; what computes is settled, and
/// is of its column's type in the end.
pub(super) fn settled(values: Values, is_written: bool) -> Result<LogicalPlan> {
    let Values { schema, values } = values;
    let nothing = DFSchema::empty();
    let is_simple =
        |e: &Expr| matches!(e, Expr::Literal(..)) || is_cast_of_literal(e) && !is_cast_to_our_own(e);
    let fields = schema.fields().iter().enumerate().map(|(n, field)| {
        let data_type = match field.data_type() {
            // The planner takes the digits of one branch for those of all.
            Arrow::Decimal128(_, scale) if !values.iter().all(|row| is_simple(&row[n])) => {
                Arrow::Decimal128(38, *scale)
            }
            // What it takes for a double may be a root of a numeric.
            Arrow::Float64 if let Some(scale) = scale_of(values.iter().map(|row| &row[n])) => {
                Arrow::Decimal128(38, scale)
            }
            other => other.clone(),
        };
        field.as_ref().clone().with_data_type(data_type)
    });
    let schema = DFSchema::from_unqualified_fields(fields.collect(), schema.as_arrow().metadata().clone())?;
    let one = |(n, e): (usize, Expr)| -> Result<Expr> {
        match typing::folded(&e) {
            Ok(Some(span @ Expr::Literal(ScalarValue::IntervalMonthDayNano(_), _))) => return Ok(span),
            Err(error) if is_cast_to_interval(&e) => return Err(external(error)),
            _ => {}
        }
        let to = schema.field(n).data_type();
        if is_simple(&e) {
            let is_widened = matches!(to, Arrow::Decimal128(38, _)) && e.get_type(&nothing)? != *to;
            return Ok(if is_widened { cast(e, to.clone()) } else { e });
        }
        let settled =
            e.transform_up(|e| match rule::settled(&e, &nothing, is_written).map_err(external)? {
                Some(new) => Ok(Transformed::yes(new)),
                None => Ok(Transformed::no(e)),
            })?;
        let e = settled.data;
        Ok(match e.get_type(&nothing) {
            Ok(from) if from == *to && !matches!(e, Expr::Case(_)) => e,
            _ => cast(e, to.clone()),
        })
    };
    let rows = values.into_iter().map(|row| row.into_iter().enumerate().map(one).collect::<Result<_>>());
    let values = rows.collect::<Result<_>>()?;
    Ok(LogicalPlan::Values(Values { schema: Arc::new(schema), values }))
}

/// Digits behind the point of values that are all numerics.
fn scale_of<'a>(mut values: impl Iterator<Item = &'a Expr>) -> Option<i8> {
    values.try_fold(0, |most, e| match kind_of(e, &DFSchema::empty()) {
        Kind::Known(DataType::Numeric { scale, .. }) => Some(most.max(scale as i8)),
        _ => None,
    })
}

fn is_cast_of_literal(e: &Expr) -> bool {
    matches!(e, Expr::Cast(cast) if matches!(cast.expr.as_ref(), Expr::Literal(..)))
}

/// Of types that the planner's own casts do not read as PostgreSQL does.
fn is_cast_to_our_own(e: &Expr) -> bool {
    let is_ours = |kind: Kind| {
        !kind.family().is_number() && !matches!(kind.family(), Family::Text | Family::Span | Family::Unknown)
    };
    matches!(e, Expr::Cast(Cast { field, .. }) if is_ours(kind_of_field(field)))
}

fn is_cast_to_interval(e: &Expr) -> bool {
    matches!(e, Expr::Cast(Cast { field, .. }) if kind_of_field(field) == Kind::Span)
}
