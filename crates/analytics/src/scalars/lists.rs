//! Operators and functions of arrays over columns, which are lists there, and functions of byte strings.

use super::super::{fields, types};
use super::evaluated::{Computation, call};
use super::inference::kind_of;
use super::kinds::{Family, Kind};
use super::plain::Plain;
use super::typing::{self, Settled, as_text, constant, converted, literal, no_function};
use base::element::Element;
use base::error::SqlResult;
use base::expr::{Expr as Scalar, Function};
use base::json::JsonFunction;
use base::{DataType, SqlError, SqlState};
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::{Column, ExprSchema, ScalarValue};
use datafusion::functions::core::greatest;
use datafusion::functions_nested::position::array_position_udf;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlanBuilder, Operator, ScalarUDF, Subquery, lit, when,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// An operator of which a side is an array: `@>`, `<@`, `&&`, and any other beside a literal, which is an array of the
/// other side's type. `None` for what the planner does itself. Errors: those of literals.
pub(super) fn operator(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> SqlResult<Option<Expr>> {
    use BinaryOperator as B;
    let plain = match op {
        B::AtArrow | B::ArrowAt | B::PGOverlap => None,
        B::Eq => Some(Operator::Eq),
        B::NotEq => Some(Operator::NotEq),
        B::Lt => Some(Operator::Lt),
        B::LtEq => Some(Operator::LtEq),
        B::Gt => Some(Operator::Gt),
        B::GtEq => Some(Operator::GtEq),
        B::StringConcat => Some(Operator::StringConcat),
        _ => return Ok(None),
    };
    let is_open = |e: &Expr| kind_of(e, schema) == Kind::Unknown;
    let (a, b) = (element_of(left, schema), element_of(right, schema));
    let (left, right, is_changed) = match (a, b) {
        (Some(of), None) if is_open(right) => {
            (left.clone(), literal(right, Kind::Known(DataType::Array(of)))?, true)
        }
        (None, Some(of)) if is_open(left) => {
            (literal(left, Kind::Known(DataType::Array(of)))?, right.clone(), true)
        }
        (Some(_), Some(_)) => (left.clone(), right.clone(), false),
        _ => return Ok(None),
    };
    let call =
        |udf: Arc<ScalarUDF>, arguments| Some(Expr::ScalarFunction(ScalarFunction::new_udf(udf, arguments)));
    Ok(match (op, plain) {
        (B::AtArrow, _) => Some(of_sets(Plain::Contains, left, right, a.or(b))),
        (B::ArrowAt, _) => Some(of_sets(Plain::Contains, right, left, a.or(b))),
        (B::PGOverlap, _) => Some(of_sets(Plain::Overlaps, left, right, a.or(b))),
        // The planner appends and joins itself, once both are arrays.
        (B::StringConcat, _) if is_changed => {
            call(datafusion::functions_nested::concat::array_concat_udf(), vec![left, right])
        }
        (_, Some(plain)) if is_changed => {
            Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), plain, Box::new(right))))
        }
        _ => None,
    })
}

/// Two arrays as sets: the library lets nulls equal each other.
fn of_sets(operation: Plain, left: Expr, right: Expr, of: Option<Element>) -> Expr {
    let kind = of.map_or(Kind::Foreign, |of| Kind::Known(DataType::Array(of)));
    call(Computation::Plain(operation), vec![(left, kind), (right, kind)], Kind::Known(DataType::Boolean))
}

/// `array_remove`, which removes nulls too; `None` for what is no list of ours. Errors: those of literals.
pub(super) fn removed(list: &Expr, of: &Expr, schema: &dyn ExprSchema) -> Settled {
    let Some(element) = element_of(list, schema) else { return Ok(None) };
    let (array, own) = (Kind::Known(DataType::Array(element)), Kind::Known(element.data_type()));
    let (of, kind) = match kind_of(of, schema) {
        Kind::Unknown => (literal(of, own)?, own),
        kind => (of.clone(), kind),
    };
    Ok(Some(call(Computation::Plain(Plain::Remove), vec![(list.clone(), array), (of, kind)], array)))
}

/// `array_replace` of all such elements, and of nulls; the library replaces the first one. `None` for values of another type
/// than the elements'. Errors: those of literals.
pub(super) fn replaced([list, from, to]: [&Expr; 3], schema: &dyn ExprSchema) -> Settled {
    let Some(element) = element_of(list, schema) else { return Ok(None) };
    let (array, own) = (Kind::Known(DataType::Array(element)), Kind::Known(element.data_type()));
    let typed = |e: &Expr| -> SqlResult<Option<(Expr, Kind)>> {
        let e = typing::narrowed(e).unwrap_or_else(|| e.clone());
        Ok(match (kind_of(&e, schema), own) {
            (Kind::Unknown, _) => Some((literal(&e, own)?, own)),
            (Kind::Known(DataType::Integer), Kind::Known(DataType::BigInt)) => Some((e, own)),
            (kind, _) => (kind == own).then_some((e, own)),
        })
    };
    let (Some(from), Some(to)) = (typed(from)?, typed(to)?) else { return Ok(None) };
    Ok(Some(call(Computation::Plain(Plain::Replace), vec![(list.clone(), array), from, to], array)))
}

/// The type of a list's elements; `None` for what is no list.
pub(super) fn element_of(e: &Expr, schema: &dyn ExprSchema) -> Option<Element> {
    if kind_of(e, schema) != Kind::Foreign {
        return None;
    }
    let field = fields::field(e, schema).ok()?;
    types::element_type(field.data_type()).and_then(Element::of)
}

/// Whether a value is an array of rows, which the library does not compare.
pub(super) fn is_of_rows(e: &Expr, schema: &dyn ExprSchema) -> bool {
    fields::field(e, schema).is_ok_and(|field| match field.data_type() {
        Arrow::List(of) => matches!(of.data_type(), Arrow::Struct(_)),
        _ => false,
    })
}

/// Values of which one is an array, with literals beside it as arrays of its type. `None` where there are none. Errors: those
/// of literals.
pub(super) fn beside(values: &[Expr], schema: &dyn ExprSchema) -> SqlResult<Option<Vec<Expr>>> {
    let Some(of) = values.iter().find_map(|e| element_of(e, schema)) else { return Ok(None) };
    let mut any = false;
    let typed = values.iter().map(|e| match kind_of(e, schema) {
        Kind::Unknown => {
            any = true;
            literal(e, Kind::Known(DataType::Array(of)))
        }
        _ => Ok(e.clone()),
    });
    let typed = typed.collect::<SqlResult<Vec<Expr>>>()?;
    Ok(any.then_some(typed))
}

/// Functions of lists and elements of them.
const OF_ELEMENTS: [&str; 9] = [
    "make_array",
    "array_append",
    "array_prepend",
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_all",
    "array_replace",
    "array_has",
];

/// Whether a function shows its arguments: labels are texts for it, for where it is computed nobody knows their type.
fn shows(name: &str) -> bool {
    ["array_to_string", "struct", crate::composites::ROW].contains(&name) || sql::json::call(name).is_some()
}

/// Arguments of a function of labels and of arrays of them: literals are labels of their type, and what is shown is text.
/// `None` for functions that have nothing to do with labels, or do not take them. Errors: those of literals; 42804.
pub(super) fn of_labels(
    name: &str,
    arguments: &[Expr],
    schema: &dyn ExprSchema,
) -> SqlResult<Option<Vec<Expr>>> {
    if !OF_ELEMENTS.contains(&name) && !shows(name) {
        return Ok(None);
    }
    let elements: Vec<Option<DataType>> =
        arguments.iter().map(|e| element_of(e, schema).map(Element::data_type)).collect();
    let of_list = |n: usize| elements[n].filter(|t| t.enumeration().is_some());
    let of_value = |e: &Expr| match kind_of(e, schema) {
        Kind::Known(t @ DataType::Enum(_)) => Some(t),
        _ => None,
    };
    let found = arguments.iter().enumerate().find_map(|(n, e)| of_list(n).or_else(|| of_value(e)));
    let Some(label) = found else { return Ok(None) };
    if shows(name) {
        let texts = DataType::Array(Element::of(DataType::Text).expect("no array"));
        let shown = |(n, e): (usize, &Expr)| match of_list(n).and_then(Element::of) {
            Some(of) => converted(e.clone(), DataType::Array(of), texts),
            None => as_text_of_label(e, schema),
        };
        return Ok(Some(arguments.iter().enumerate().map(shown).collect()));
    }
    let typed = arguments.iter().enumerate().map(|(n, e)| match kind_of(e, schema) {
        // Behind or before an element stands an array.
        Kind::Unknown if name != "make_array" && is_place_of_list(name, n) => {
            literal(e, Kind::Known(Element::of(label).map_or(label, DataType::Array)))
        }
        Kind::Unknown => literal(e, Kind::Known(label)),
        Kind::Known(other) if name == "make_array" && other != label => {
            let told = format!("ARRAY types {} and {} cannot be matched", label.name(), other.name());
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told))
        }
        _ => Ok(e.clone()),
    });
    typed.collect::<SqlResult<Vec<Expr>>>().map(Some)
}

/// A label as its text; anything else as it is.
fn as_text_of_label(e: &Expr, schema: &dyn ExprSchema) -> Expr {
    match kind_of(e, schema) {
        kind @ Kind::Known(DataType::Enum(_)) => as_text(e.clone(), kind),
        _ => e.clone(),
    }
}

/// A subquery whose value is an array of labels: the planner shows such values, so it comes as text. `None` for others.
pub(super) fn subquery_of_labels(subquery: &Subquery) -> SqlResult<Option<Expr>> {
    let plan = &subquery.subquery;
    let Some((qualifier, field)) = plan.schema().iter().next() else { return Ok(None) };
    let of = types::element_type(field.data_type()).filter(|of| of.enumeration().is_some());
    let Some(list) = of.and_then(Element::of).map(DataType::Array) else { return Ok(None) };
    let value = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let text = converted(value, list, DataType::Text).alias(field.name());
    let shown =
        LogicalPlanBuilder::from(plan.as_ref().clone()).project(vec![text]).and_then(|made| made.build());
    let shown = Subquery { subquery: Arc::new(shown.map_err(SqlError::internal)?), ..subquery.clone() };
    Ok(Some(converted(Expr::ScalarSubquery(shown), DataType::Text, list)))
}

/// Whether an argument of a function of lists is the list.
fn is_place_of_list(name: &str, n: usize) -> bool {
    n == usize::from(name == "array_prepend")
}

/// The list that labels are made to. `None` if none of them is a label.
pub(super) fn list_of_labels(elements: &[Expr], schema: &dyn ExprSchema) -> Option<Expr> {
    let kinds: Vec<Kind> = elements.iter().map(|e| kind_of(e, schema)).collect();
    let of = kinds.iter().find_map(|kind| match kind {
        Kind::Known(t @ DataType::Enum(_)) => Element::of(*t),
        _ => None,
    })?;
    let columns = (0..elements.len()).map(Scalar::Column).collect();
    let list = Scalar::Call(Function::Json(JsonFunction::ArrayOf), columns);
    let arguments = elements.iter().cloned().zip(kinds).collect();
    Some(call(Computation::Scalar(list), arguments, Kind::Known(DataType::Array(of))))
}

/// What `enum_first` and its kin give. Errors: 42883 for what is no label, 55000 for a type without labels, 0A000 for bounds
/// that are no constants.
pub(super) fn labels(name: &str, arguments: &[Expr], schema: &dyn ExprSchema) -> SqlResult<Expr> {
    let kinds: Vec<Kind> = arguments.iter().map(|e| kind_of(e, schema)).collect();
    let of = kinds.iter().find_map(|kind| match kind {
        Kind::Known(DataType::Enum(of)) => Some(*of),
        _ => None,
    });
    let Some(of) = of else { return Err(no_function(name, &kinds)) };
    let label = Kind::Known(DataType::Enum(of));
    let bounds = match arguments {
        [from, to] => [bound(from, label, schema)?, bound(to, label, schema)?],
        _ => [None, None],
    };
    let value = sql::user_types::labels(name, of, bounds)?;
    let data_type =
        if name == "enum_range" { Element::of(DataType::Enum(of)).map(DataType::Array) } else { None };
    Ok(constant(&value, data_type.unwrap_or(DataType::Enum(of))))
}

/// The code of a label that a range begins or ends with; `None` for NULL, which is no bound.
fn bound(e: &Expr, label: Kind, schema: &dyn ExprSchema) -> SqlResult<Option<i64>> {
    let typed = if kind_of(e, schema) == Kind::Unknown { literal(e, label)? } else { e.clone() };
    match typed.unalias() {
        Expr::Literal(ScalarValue::TimestampSecond(code, _), _) => Ok(code),
        _ => Err(SqlError::unsupported("enum_range of labels that are no constants")),
    }
}

/// A function of lists as PostgreSQL has it; `None` if the library's is so.
pub(super) fn function(name: &str, udf: &Arc<ScalarUDF>, arguments: &[Expr]) -> Option<Expr> {
    match (name, arguments) {
        ("array_has", [list, of]) if !matches!(list, Expr::Literal(..)) => has(udf, list, of),
        // The library counts from a list's end by numbers below nothing, where an array has no elements.
        ("array_element" | "array_slice", [list, bounds @ ..]) => {
            let arguments = within(list, bounds)?;
            Some(Expr::ScalarFunction(ScalarFunction::new_udf(udf.clone(), arguments)))
        }
        _ => None,
    }
}

/// A list and its subscripts, none of them below nothing; `None` if none can be.
fn within(list: &Expr, bounds: &[Expr]) -> Option<Vec<Expr>> {
    let is_within = |e: &Expr| match e {
        Expr::Literal(ScalarValue::Int64(Some(n)), _) => *n > 0,
        Expr::ScalarFunction(call) => call.name() == "greatest",
        _ => false,
    };
    if bounds.iter().all(is_within) {
        return None;
    }
    let mut arguments = vec![list.clone()];
    for (n, bound) in bounds.iter().enumerate() {
        // A slice begins with the first element at the earliest.
        let least = if n == 0 && bounds.len() > 1 { 1 } else { 0 };
        let bound = bound.clone();
        arguments.push(match is_within(&bound) || n > 1 {
            true => bound,
            false => {
                let bound = datafusion::logical_expr::cast(bound, Arrow::Int64);
                Expr::ScalarFunction(ScalarFunction::new_udf(greatest(), vec![bound, lit(least as i64)]))
            }
        });
    }
    Some(arguments)
}

/// `x = ANY (list)`: unknown where it is none of the elements and one of them is. `None`: it is so already.
fn has(udf: &Arc<ScalarUDF>, list: &Expr, of: &Expr) -> Option<Expr> {
    let call = |udf: Arc<ScalarUDF>, arguments| Expr::ScalarFunction(ScalarFunction::new_udf(udf, arguments));
    let has = call(udf.clone(), vec![list.clone(), of.clone()]);
    let position = call(array_position_udf(), vec![list.clone(), lit(ScalarValue::Null)]);
    let unknown = lit(ScalarValue::Boolean(None));
    let otherwise = when(position.is_not_null(), unknown).otherwise(has.clone()).ok()?;
    when(has, lit(true)).otherwise(otherwise).ok()
}

/// Of texts alone in the planner: it would read bytes as UTF-8. Errors: 42883.
pub(super) fn length_of_bytes(name: &str, bytes: &Expr, kinds: &[Kind]) -> Settled {
    if name == "char_length" {
        return Err(no_function(name, kinds));
    }
    let length = Scalar::Call(Function::Length, vec![Scalar::Column(0)]);
    let returns = Kind::Known(DataType::Integer);
    Ok(Some(call(Computation::Scalar(length), vec![(bytes.clone(), kinds[0])], returns)))
}

/// A digest of bytes alone: a literal is a byte string. Errors: 42883, and those of literals.
pub(super) fn digest_of_bytes(name: &str, udf: &Arc<ScalarUDF>, of: &Expr, kinds: &[Kind]) -> Settled {
    match kinds[0].family() {
        Family::Unknown => {
            typing::literal(of, Kind::Known(DataType::Bytea)).map(|bytes| Some(renewed(udf, vec![bytes])))
        }
        Family::Bytes | Family::Foreign => Ok(None),
        _ => Err(no_function(name, kinds)),
    }
}

/// A function of byte strings: a literal beside one is one. Errors: 42883, and those of literals.
pub(super) fn of_bytes(name: &str, udf: &Arc<ScalarUDF>, arguments: &[Expr], kinds: &[Kind]) -> Settled {
    let bytes = Kind::Known(DataType::Bytea);
    let mut changed = false;
    let mut typed = Vec::with_capacity(arguments.len());
    for (n, (e, kind)) in arguments.iter().zip(kinds).enumerate() {
        let is_number = n > 1 || name == "substr" && n == 1;
        typed.push(match kind.family() {
            Family::Unknown if !is_number => {
                changed = true;
                typing::literal(e, bytes)?
            }
            Family::Integer | Family::Unknown if is_number => e.clone(),
            Family::Bytes if !is_number => e.clone(),
            Family::Foreign => e.clone(),
            _ => return Err(no_function(name, kinds)),
        });
    }
    Ok(changed.then(|| renewed(udf, typed)))
}

fn renewed(udf: &Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(udf.clone(), arguments))
}
