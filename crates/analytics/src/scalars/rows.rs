//! Values of composite types over columns: comparisons, tests for NULL, and rows as they are written beside them.

use super::super::composites::ROW;
use super::super::row_values;
use super::evaluated::{Computation, call, row_key};
use super::inference::kind_of;
use super::kinds::{Kind, field_of};
use super::typing::{self, Settled, literal, narrowed};
use base::composite::CompositeType;
use base::convert::{Castable, castable};
use base::error::{SqlResult, SqlState};
use base::expr::Expr as Scalar;
use base::{DataType, SqlError};
use datafusion::common::{Column, ExprSchema};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Projection, Subquery};
use std::sync::Arc;

/// The composite type that a value is of.
fn type_of(e: &Expr, schema: &dyn ExprSchema) -> Option<CompositeType> {
    match kind_of(e, schema) {
        Kind::Known(DataType::Composite(of)) => Some(of),
        _ => None,
    }
}

/// A binary operator, a side of which may be a row as it is written.
pub(super) fn binary(
    operator: Operator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
    is_written: bool,
) -> Settled {
    use Operator as O;
    let is_comparison = matches!(
        operator,
        O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::IsDistinctFrom | O::IsNotDistinctFrom
    );
    let rows = if is_comparison { alike(left, right, schema)? } else { None };
    let (left, right) = rows.as_ref().map_or((left, right), |(left, right)| (left, right));
    typing::binary(operator, left, right, schema, is_written)
}

/// Two sides of a comparison, of which one is of a composite type and the other a row as it is written, both of the type.
/// `None`: they are something else. Errors: 42804.
fn alike(left: &Expr, right: &Expr, schema: &dyn ExprSchema) -> SqlResult<Option<(Expr, Expr)>> {
    let (of, row, is_left) = match (type_of(left, schema), type_of(right, schema)) {
        (Some(of), None) => (of, right, false),
        (None, Some(of)) => (of, left, true),
        _ => return Ok(None),
    };
    let Some(elements) = elements(row) else { return Ok(None) };
    if elements.len() != of.attributes().len() {
        let told = "cannot compare record types with different numbers of columns";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
    }
    let mut values = Vec::with_capacity(elements.len());
    for (at, (e, attribute)) in elements.iter().zip(of.attributes()).enumerate() {
        values.push(element(e, attribute.data_type, at, schema)?);
    }
    let made = row_values::of_values(of, values);
    Ok(Some(if is_left { (made, right.clone()) } else { (left.clone(), made) }))
}

/// The elements of a row as it is written.
fn elements(e: &Expr) -> Option<Vec<&Expr>> {
    let Expr::ScalarFunction(function) = e else { return None };
    match function.name() {
        "struct" => Some(function.args.iter().collect()),
        // Each behind its name.
        ROW => Some(function.args.iter().skip(1).step_by(2).collect()),
        _ => None,
    }
}

/// A row's element as one beside an attribute of a type. Errors: 42804, as PostgreSQL has it.
fn element(e: &Expr, to: DataType, at: usize, schema: &dyn ExprSchema) -> SqlResult<Expr> {
    let narrow = narrowed(e);
    let e = narrow.as_ref().unwrap_or(e);
    let kind = kind_of(e, schema);
    if kind == Kind::Unknown {
        return literal(e, Kind::Known(to));
    }
    let fits = match kind {
        Kind::Known(from) => castable(from, to) == Castable::Implicit,
        Kind::Span => to == DataType::Interval,
        Kind::Unknown | Kind::Foreign => false,
    };
    if !fits {
        let (a, b) = (Kind::Known(to).name(), kind.name());
        let told = format!("cannot compare dissimilar column types {a} and {b} at record column {}", at + 1);
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
    }
    let field = Arc::new(field_of("", Kind::Known(to)));
    Ok(typing::cast(e, &field, schema)?.unwrap_or_else(|| e.clone()))
}

/// `e IS NULL` and `e IS NOT NULL`, of rows: all attributes are NULL, or none is. `None` for others.
pub(super) fn null_test(e: &Expr, schema: &dyn ExprSchema, is_null: bool) -> Settled {
    let Some(of) = type_of(e, schema) else { return Ok(None) };
    let test = sql::lower::expr::rows::is_null(&Scalar::Column(0), of, is_null);
    let row = (e.clone(), Kind::Known(DataType::Composite(of)));
    Ok(Some(call(Computation::Scalar(test), vec![row], Kind::Known(DataType::Boolean))))
}

/// `e IN (SELECT …)` of rows of a composite type, by their keys; `None` for others. Errors: 42883 for another type.
pub(super) fn within(list: &InSubquery, schema: &dyn ExprSchema) -> Settled {
    let Some(of) = type_of(&list.expr, schema) else { return Ok(None) };
    let input = &list.subquery.subquery;
    let Some((qualifier, field)) = input.schema().iter().next() else { return Ok(None) };
    let column = Expr::Column(Column::from((qualifier, field)));
    match kind_of(&column, input.schema().as_ref()) {
        own if own == Kind::Known(DataType::Composite(of)) => {}
        own => return Err(typing::no_operator("=", Kind::Known(DataType::Composite(of)), own)),
    }
    let keys = Projection::try_new(vec![row_key(&column, of).alias(field.name())], input.clone());
    let keys = keys.map_err(|e| SqlError::internal(e.to_string()))?;
    let subquery = Subquery { subquery: Arc::new(LogicalPlan::Projection(keys)), ..list.subquery.clone() };
    let e = Box::new(row_key(&list.expr, of));
    Ok(Some(Expr::InSubquery(InSubquery::new(e, subquery, list.negated))))
}
