//! Types of set operations, as PostgreSQL finds them: a literal takes the type of what it meets, and types of
//! different kinds do not meet.

use super::lifted_subqueries::columns;
use super::types;
use base::composite::CompositeType;
use base::enumeration::EnumType;
use base::error::SqlState;
use base::{DataType, Datum, SqlError};
use datafusion::arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Cast, Distinct, Expr, Join, JoinType, LogicalPlan, Projection, Union};
use std::sync::Arc;

/// Kinds of types that have a common one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Number,
    Text,
    Time,
    Label(EnumType),
    Row(CompositeType),
}

/// The plan with its literals typed. Errors: 42804, and those of literals that are no value of their type.
pub(super) fn settle(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_sets = false;
    plan.apply_with_subqueries(|node| {
        has_sets |= is_set_operation(node);
        Ok(if has_sets { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_sets {
        return Ok(plan);
    }
    let mut is_changed = false;
    let settled = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Union(union) => {
            let inputs = typed("UNION", &union.inputs)?;
            let unchanged = inputs.iter().zip(&union.inputs).all(|(a, b)| Arc::ptr_eq(a, b));
            if unchanged {
                return Ok(Transformed::no(LogicalPlan::Union(union)));
            }
            is_changed = true;
            Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
        }
        LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull => {
            let word = match join.join_type {
                JoinType::LeftAnti => "EXCEPT",
                _ => "INTERSECT",
            };
            let inputs = typed(word, &[join.left.clone(), join.right.clone()])?;
            let [left, right] = inputs.as_slice() else {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            };
            if Arc::ptr_eq(left, &join.left) && Arc::ptr_eq(right, &join.right) {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            }
            is_changed = true;
            Ok(Transformed::yes(of_operands(&join, left.clone(), right.clone())?))
        }
        // What stands above has the types of what changed.
        node if is_changed => Ok(Transformed::yes(node.recompute_schema()?)),
        node => Ok(Transformed::no(node)),
    })?;
    Ok(settled.data)
}

fn is_set_operation(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Union(_) => true,
        LogicalPlan::Join(join) => join.null_equality == NullEquality::NullEqualsNull,
        _ => false,
    }
}

/// INTERSECT or EXCEPT of other operands: a join by all of their columns.
pub(super) fn of_operands(
    join: &Join,
    left: Arc<LogicalPlan>,
    right: Arc<LogicalPlan>,
) -> Result<LogicalPlan> {
    let key = |input: &LogicalPlan, n| Expr::Column(Column::from(input.schema().qualified_field(n)));
    let on = (0..left.schema().fields().len()).map(|n| (key(&left, n), key(&right, n))).collect();
    LogicalPlan::Join(Join { left, right, on, ..join.clone() }).recompute_schema()
}

/// Operands of a set operation, literals among them of the types of the others.
fn typed(operation: &str, inputs: &[Arc<LogicalPlan>]) -> Result<Vec<Arc<LogicalPlan>>> {
    let mut inputs = inputs.to_vec();
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    for n in 0..width {
        let of = |input: &Arc<LogicalPlan>| input.schema().field(n).data_type().clone();
        let known: Vec<_> = inputs.iter().filter(|i| literal(i, n).is_none()).map(of).collect();
        let [first, rest @ ..] = known.as_slice() else { continue };
        for other in rest {
            refuse(operation, types::from_arrow(first), types::from_arrow(other))?;
        }
        let data_type = types::from_arrow(first);
        if matches!(data_type, DataType::Text) {
            unpad(&mut inputs, n)?;
            continue;
        }
        for input in &mut inputs {
            let text = match literal(input, n) {
                Some(Literal::Text(text)) => text,
                Some(Literal::Parameter(parameter)) => {
                    let field = Arc::new(Field::new("", first.clone(), true));
                    let typed = Expr::Placeholder(Placeholder::new_with_field(parameter, Some(field)));
                    *input = Arc::new(with_value(input, n, typed)?);
                    continue;
                }
                _ => continue,
            };
            let value = sql::zones::parse(text.trim(), unlimited(data_type)).map_err(external)?;
            let scalar = match value {
                Datum::Decimal(d) => ScalarValue::Decimal128(Some(d.units()), 38, d.scale() as i8),
                value => types::scalar(&value, data_type)
                    .ok_or_else(|| external(SqlError::internal("a literal of this type")))?,
            };
            *input = Arc::new(with_value(input, n, Expr::Literal(scalar, None))?);
        }
    }
    Ok(inputs)
}

/// The type of a column is the first operand's: what is padded in others is a text without its padding beside it.
fn unpad(inputs: &mut [Arc<LogicalPlan>], n: usize) -> Result<()> {
    let shown = |plan: &LogicalPlan| types::shown_type(plan.schema().field(n));
    let is_padded = |plan: &LogicalPlan| matches!(shown(plan), DataType::Char { .. });
    let first = inputs.iter().find(|input| literal(input, n).is_none());
    if first.is_none_or(|first| is_padded(first.as_ref())) {
        return Ok(());
    }
    for input in inputs {
        if !is_padded(input.as_ref()) {
            continue;
        }
        let mut exprs = columns(input);
        let (qualifier, field) = input.schema().qualified_field(n);
        let text = Expr::Cast(Cast::new(Box::new(exprs[n].clone()), field.data_type().clone()));
        exprs[n] = text.alias_qualified(qualifier.cloned(), field.name());
        *input = Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, input.clone())?));
    }
    Ok(())
}

/// A literal of numeric keeps its own digits.
fn unlimited(data_type: DataType) -> DataType {
    match data_type {
        DataType::Numeric { .. } => sql::types::NUMERIC,
        other => other,
    }
}

enum Literal {
    Text(String),
    Null,
    /// A parameter that nothing gives a type.
    Parameter(String),
}

/// The literal that a column is, if nothing gives it a type.
fn literal(plan: &LogicalPlan, column: usize) -> Option<Literal> {
    if let LogicalPlan::Distinct(Distinct::All(input)) = plan {
        return literal(input, column);
    }
    let LogicalPlan::Projection(projection) = plan else {
        // The planner has a type of its own for what is only null.
        return plan.schema().field(column).data_type().is_null().then_some(Literal::Null);
    };
    match projection.expr.get(column)?.clone().unalias_nested().data {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            _,
        ) => Some(Literal::Text(text)),
        Expr::Literal(value, _) if value.is_null() => Some(Literal::Null),
        Expr::Placeholder(parameter) if parameter.field.is_none() => Some(Literal::Parameter(parameter.id)),
        _ => None,
    }
}

/// The operand with a value in the place of a column.
fn with_value(plan: &LogicalPlan, column: usize, value: Expr) -> Result<LogicalPlan> {
    if let LogicalPlan::Distinct(Distinct::All(input)) = plan {
        return Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(with_value(input, column, value)?))));
    }
    let LogicalPlan::Projection(projection) = plan else { return Ok(plan.clone()) };
    let mut exprs = projection.expr.clone();
    let (_, field) = projection.schema.qualified_field(column);
    exprs[column] = value.alias(field.name());
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, projection.input.clone())?))
}

/// Errors: 42804 for types that do not meet; 0A000 for those that meet in a zone's time.
fn refuse(operation: &str, a: DataType, b: DataType) -> Result<()> {
    let kind = |t: DataType| match t {
        DataType::Boolean => Some(Kind::Boolean),
        DataType::SmallInt | DataType::Integer | DataType::BigInt => Some(Kind::Number),
        DataType::Numeric { .. } | DataType::Real | DataType::Double => Some(Kind::Number),
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => Some(Kind::Text),
        DataType::Date | DataType::Timestamp | DataType::TimestampTz => Some(Kind::Time),
        DataType::Time | DataType::Interval | DataType::Json | DataType::Jsonb => None,
        DataType::Uuid | DataType::Bytea | DataType::Array(_) | DataType::Inet => None,
        DataType::Cidr | DataType::MacAddr | DataType::MacAddr8 | DataType::TimeTz => None,
        DataType::TsVector | DataType::TsQuery => None,
        DataType::Enum(of) => Some(Kind::Label(of)),
        DataType::Composite(of) => Some(Kind::Row(of)),
    };
    let is_moment = |t| t == DataType::TimestampTz;
    match (kind(a), kind(b)) {
        (Some(Kind::Time), Some(Kind::Time))
            if is_moment(a) != is_moment(b) && !sql::zones::current().is_utc() =>
        {
            let told = format!("{operation} with moments on one side only, in a time zone other than UTC");
            Err(external(SqlError::unsupported(told).hint("Cast both sides to one type.")))
        }
        (None, None)
            if [(DataType::Inet, DataType::Cidr), (DataType::Cidr, DataType::Inet)].contains(&(a, b)) =>
        {
            let told = format!("{operation} of inet and cidr");
            Err(external(SqlError::unsupported(told).hint("Cast both sides to inet.")))
        }
        (Some(of_a), Some(of_b)) if of_a != of_b => {
            let (a, b) = (sql::lower::expr::type_name(a), sql::lower::expr::type_name(b));
            let message = format!("{operation} types {a} and {b} cannot be matched");
            Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)))
        }
        _ => Ok(()),
    }
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
