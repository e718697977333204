//! VALUES whose columns hold intervals, times, JSON or arrays: a literal without a type of its own is one of them there.
//!
//! The planner finds a common type of other literals itself; these and a text have none for it.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Query, SetExpr, TypedString, Value, VisitorMut};
use sql::walk::{NodeMut, WalkMut};
use std::ops::ControlFlow;

struct Literals;

impl VisitorMut for Literals {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Values(values) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        let width = values.rows.first().map_or(0, |row| row.content.len());
        for column in 0..width {
            let mut cells = values.rows.iter().filter_map(|row| row.content.get(column));
            let Some(data_type) = cells.find_map(type_of) else { continue };
            for e in values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)) {
                if matches!(&*e, Expr::Value(v) if matches!(v.value, Value::SingleQuotedString(_)))
                    && let Ok(typed) = sql::parse::parse_expr(&format!("CAST({e} AS {data_type})"))
                {
                    *e = typed;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The type of an expression that shows it, if it is one of those.
fn type_of(e: &Expr) -> Option<String> {
    let shown = match e {
        Expr::Nested(inner) => return type_of(inner),
        Expr::Interval(_) => return Some("interval".into()),
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => data_type,
        _ => return None,
    };
    let is_one = matches!(
        shown,
        DataType::Interval { .. }
            | DataType::Time(..)
            | DataType::JSON
            | DataType::JSONB
            | DataType::Array(_)
    ) || matches!(sql::names::data_type(shown), Ok(base::DataType::Enum(_)));
    is_one.then(|| shown.to_string())
}

/// See the module.
pub(super) fn settle_literals(statement: &mut impl NodeMut) {
    let _ = statement.walk_mut(&mut Literals);
}
