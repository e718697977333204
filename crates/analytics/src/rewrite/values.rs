//! VALUES whose columns hold moments, intervals, JSON, arrays and the like: a literal without a type of its own, or NULL, is one of
//! them there.
//!
//! The planner finds a common type of a number and a text itself; of these and a text it has none. Nor has it one of texts with
//! a limit (`varchar(5)`) and others.

use super::numbers::is_integer;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, Query, SetExpr, TypedString, Value, VisitorMut,
};
use sql::walk::{NodeMut, WalkMut};
use std::ops::ControlFlow;

struct Literals;

impl VisitorMut for Literals {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Values(values) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        let width = values.rows.first().map_or(0, |row| row.content.len());
        for column in 0..width {
            without_limits(values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)).collect());
            let cells = values.rows.iter().filter_map(|row| row.content.get(column));
            let Some(data_type) = cells.filter_map(type_of).reduce(wider) else { continue };
            for e in values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)) {
                if matches!(&*e, Expr::Value(v) if matches!(v.value, Value::SingleQuotedString(_) | Value::Null))
                    && let Ok(typed) = sql::parse::parse_expr(&format!("CAST({e} AS {data_type})"))
                {
                    *e = typed;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// A column in which some cells are cast to a text of limited length. Where all are of the same limit, NULL is cast to it; else
/// every limit is dropped, as the column has none then.
fn without_limits(mut cells: Vec<&mut Expr>) {
    let Some((own, written)) = cells.iter().find_map(|e| limited_as(e)) else { return };
    let are_of_one = cells.iter().all(|e| is_null(e) || limited_as(e).is_some_and(|(other, _)| other == own));
    for e in &mut cells {
        let made = match limited_as(e) {
            None if are_of_one => format!("CAST({e} AS {written})"),
            // A cast to text would keep what the planner notes of the limit.
            Some(_) if !are_of_one => format!("({e} || '')"),
            _ => continue,
        };
        if let Ok(made) = sql::parse::parse_expr(&made) {
            **e = made;
        }
    }
}

fn is_null(e: &Expr) -> bool {
    match e {
        Expr::Nested(inner) => is_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    }
}

/// The type to which a value is cast, and how it is written, if it is a text of limited length.
fn limited_as(e: &Expr) -> Option<(base::DataType, String)> {
    match e {
        Expr::Nested(inner) => limited_as(inner),
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            let own = sql::names::data_type(data_type).ok()?;
            matches!(own, base::DataType::Varchar { .. } | base::DataType::Char { .. })
                .then(|| (own, data_type.to_string()))
        }
        _ => None,
    }
}

/// The type of an expression that shows it, if it is one of those.
fn type_of(e: &Expr) -> Option<DataType> {
    match e {
        Expr::Nested(inner) => type_of(inner),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => Some(DataType::Boolean),
        Expr::Interval(_) => Some(DataType::Interval { fields: None, precision: None }),
        Expr::Array(array) => {
            let is_text =
                |e: &Expr| matches!(e, Expr::Value(v) if matches!(v.value, Value::SingleQuotedString(_)));
            let own = match array.elem.as_slice() {
                [_, ..] if is_integer(e) => Some(DataType::Integer(None)),
                [_, ..] if array.elem.iter().all(is_text) => Some(DataType::Text),
                elements => elements.iter().find_map(type_of),
            };
            own.map(|own| DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(own), None)))
        }
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            has_own_literals(data_type).then(|| data_type.clone())
        }
        _ => None,
    }
}

fn has_own_literals(shown: &DataType) -> bool {
    matches!(
        shown,
        DataType::Interval { .. }
            | DataType::Time(..)
            | DataType::Date
            | DataType::Timestamp(..)
            | DataType::Uuid
            | DataType::Bool
            | DataType::Boolean
            | DataType::Bytea
            | DataType::JSON
            | DataType::JSONB
            | DataType::Array(_)
    ) || matches!(
        sql::names::data_type(shown),
        Ok(base::DataType::Enum(_)
            | base::DataType::Inet
            | base::DataType::Cidr
            | base::DataType::MacAddr
            | base::DataType::MacAddr8
            | base::DataType::TimeTz)
    )
}

/// Of a date and a moment the moment, and of two kinds of moments the one with a time zone; else the first one.
fn wider(a: DataType, b: DataType) -> DataType {
    let width = |data_type: &DataType| match sql::names::data_type(data_type) {
        Ok(base::DataType::Date) => 1,
        Ok(base::DataType::Timestamp) => 2,
        Ok(base::DataType::TimestampTz) => 3,
        _ => 0,
    };
    let (of_a, of_b) = (width(&a), width(&b));
    if of_a > 0 && of_b > of_a { b } else { a }
}

/// See the module.
pub(super) fn settle_literals(statement: &mut impl NodeMut) {
    let _ = statement.walk_mut(&mut Literals);
}
