//! VALUES whose columns hold intervals: a literal without a type of its own is read as one there.
//!
//! The planner finds a common type of other literals itself; an interval and a text have none for it.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Query, SetExpr, Value, VisitMut, VisitorMut};
use std::ops::ControlFlow;

struct Intervals;

impl VisitorMut for Intervals {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Values(values) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        let width = values.rows.first().map_or(0, |row| row.content.len());
        for column in 0..width {
            let is_interval = values.rows.iter().any(|row| row.content.get(column).is_some_and(is_interval));
            for e in values.rows.iter_mut().filter(|_| is_interval).filter_map(|r| r.content.get_mut(column))
            {
                if matches!(&*e, Expr::Value(v) if matches!(v.value, Value::SingleQuotedString(_)))
                    && let Ok(typed) = sql::parse::parse_expr(&format!("CAST({e} AS interval)"))
                {
                    *e = typed;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn is_interval(e: &Expr) -> bool {
    match e {
        Expr::Nested(inner) => is_interval(inner),
        Expr::Interval(_) => true,
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
        _ => false,
    }
}

/// See the module.
pub(super) fn settle_intervals(statement: &mut impl VisitMut) {
    let _ = statement.visit(&mut Intervals);
}
