//! Named windows: `WINDOW w AS (…), w2 AS (w ORDER BY …)`, `OVER w`, `OVER (w ROWS …)`.
//!
//! Every reference is written out as the window that it stands for, so that the planner meets none.

use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    self, Expr, NamedWindowDefinition, NamedWindowExpr, Select, SelectItem, VisitorMut, WindowFrameBound,
    WindowFrameUnits, WindowSpec, WindowType,
};
use sql::walk::WalkMut;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Windows by name, each complete.
type Windows = BTreeMap<String, WindowSpec>;

/// Writes out the windows of one SELECT, in its list and in the query's ORDER BY. Errors: 42704, 42P20.
pub(super) fn write_out(select: &mut Select, order_by: Option<&mut ast::OrderBy>) -> SqlResult<()> {
    let mut windows = Windows::new();
    for NamedWindowDefinition(name, definition) in &select.named_window {
        let name = sql::names::fold(name);
        if windows.contains_key(&name) {
            return Err(windowing(format!("window \"{name}\" is already defined")));
        }
        let complete = match definition {
            NamedWindowExpr::NamedWindow(other) => find(&windows, other)?.clone(),
            NamedWindowExpr::WindowSpec(spec) => completed(spec, &windows)?,
        };
        windows.insert(name, complete);
    }
    select.named_window.clear();
    let mut calls = Calls { windows: &windows, depth: 0 };
    let mut outcome = ControlFlow::Continue(());
    for item in &mut select.projection {
        if let (
            ControlFlow::Continue(()),
            SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. },
        ) = (&outcome, item)
        {
            outcome = e.walk_mut(&mut calls);
        }
    }
    if let (ControlFlow::Continue(()), Some(order_by)) = (&outcome, order_by) {
        outcome = order_by.walk_mut(&mut calls);
    }
    match outcome {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Calls of window functions, those of subqueries left out.
struct Calls<'w> {
    windows: &'w Windows,
    depth: usize,
}

impl VisitorMut for Calls<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Function(function) = e else { return ControlFlow::Continue(()) };
        let Some(over) = function.over.as_mut().filter(|_| self.depth == 0) else {
            return ControlFlow::Continue(());
        };
        let complete = match over {
            WindowType::NamedWindow(name) => find(self.windows, name).cloned(),
            WindowType::WindowSpec(spec) => completed(spec, self.windows),
        };
        match complete {
            Ok(spec) => {
                *over = WindowType::WindowSpec(spec);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn find<'w>(windows: &'w Windows, name: &ast::Ident) -> SqlResult<&'w WindowSpec> {
    let name = sql::names::fold(name);
    windows
        .get(&name)
        .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist")))
}

/// A window with what it takes from the one that it names: its partitions, and its order if that has one.
fn completed(spec: &WindowSpec, windows: &Windows) -> SqlResult<WindowSpec> {
    let Some(name) = &spec.window_name else { return with_spans(spec.clone()) };
    let base = find(windows, name)?;
    let name = sql::names::fold(name);
    let cannot = |what: &str| Err(windowing(format!("cannot {what} of window \"{name}\"")));
    let (excluded, divided): (Vec<_>, Vec<_>) =
        spec.partition_by.iter().cloned().partition(sql::parse::is_exclusion);
    if !divided.is_empty() {
        return cannot("override PARTITION BY clause");
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return cannot("override ORDER BY clause");
    }
    if base.window_frame.is_some() {
        return Err(windowing(format!("cannot copy window \"{name}\" because it has a frame clause")));
    }
    let order_by = if base.order_by.is_empty() { &spec.order_by } else { &base.order_by };
    with_spans(WindowSpec {
        window_name: None,
        partition_by: excluded.into_iter().chain(base.partition_by.iter().cloned()).collect(),
        order_by: order_by.clone(),
        window_frame: spec.window_frame.clone(),
    })
}

/// The window with intervals that bound its frame as the planner reads them. Errors: texts that are none.
fn with_spans(mut spec: WindowSpec) -> SqlResult<WindowSpec> {
    let Some(frame) = spec.window_frame.as_mut().filter(|f| f.units == WindowFrameUnits::Range) else {
        return Ok(spec);
    };
    for bound in [Some(&mut frame.start_bound), frame.end_bound.as_mut()].into_iter().flatten() {
        let (WindowFrameBound::Preceding(Some(e)) | WindowFrameBound::Following(Some(e))) = bound else {
            continue;
        };
        if let Some(number) = number(e) {
            **e = number.clone();
        }
        if let Some(text) = interval_text(e) {
            let span = base::interval::parse(text)?;
            let text = format!("{} months {} days {} microseconds", span.months, span.days, span.us);
            **e = Expr::Interval(ast::Interval {
                value: Box::new(Expr::value(ast::Value::SingleQuotedString(text))),
                leading_field: None,
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            });
        }
    }
    Ok(spec)
}

/// The number in a literal of a named type: `2::bigint`. The planner takes it for one of the type of the order.
fn number(e: &Expr) -> Option<&Expr> {
    match e {
        Expr::Nested(inner) => number(inner),
        Expr::Cast { expr, data_type, .. } => {
            use base::DataType as T;
            let is_number = sql::names::data_type(data_type).is_ok_and(|of| {
                matches!(of, T::SmallInt | T::Integer | T::BigInt | T::Numeric { .. } | T::Real | T::Double)
            });
            let is_literal =
                |e: &Expr| matches!(e, Expr::Value(v) if matches!(v.value, ast::Value::Number(..)));
            Some(expr.as_ref()).filter(|e| is_number && is_literal(e))
        }
        _ => None,
    }
}

/// The text of a literal that is an interval where a frame wants a distance.
fn interval_text(e: &Expr) -> Option<&str> {
    match e {
        Expr::Nested(inner) => interval_text(inner),
        Expr::Cast { expr, data_type: ast::DataType::Interval { .. }, .. } => interval_text(expr),
        Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) if text.trim().parse::<f64>().is_err() => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn windowing(message: String) -> SqlError {
    SqlError::new(SqlState(*b"42P20"), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written_out(sql: &str) -> SqlResult<String> {
        let mut statement = sql::parse::parse(sql)?.remove(0);
        let ast::Statement::Query(query) = &mut statement else { panic!("{sql}") };
        let ast::Query { body, order_by, .. } = query.as_mut();
        let ast::SetExpr::Select(select) = body.as_mut() else { panic!("{sql}") };
        write_out(select, order_by.as_mut())?;
        Ok(statement.to_string())
    }

    #[test]
    fn a_window_takes_what_the_named_one_has() {
        let whole = "SELECT sum(a) OVER (PARTITION BY b ORDER BY c ROWS UNBOUNDED PRECEDING) FROM t";
        for sql in [
            "select sum(a) over (w2 rows unbounded preceding) from t window w as (partition by b), w2 as (w order by c)",
            "select sum(a) over w3 from t window w as (partition by b order by c), w3 as (w rows unbounded preceding)",
        ] {
            assert_eq!(written_out(sql).unwrap(), whole);
        }
    }

    #[test]
    fn what_a_named_window_has_cannot_be_overridden() {
        for (sql, state) in [
            ("select sum(a) over v from t window w as ()", b"42704"),
            ("select sum(a) over (w partition by a) from t window w as (partition by b)", b"42P20"),
            ("select sum(a) over (w order by a) from t window w as (order by b)", b"42P20"),
            ("select sum(a) over (w) from t window w as (rows unbounded preceding)", b"42P20"),
            ("select 1 from t window w as (), w as ()", b"42P20"),
        ] {
            assert_eq!(written_out(sql).unwrap_err().state, SqlState(*state), "{sql}");
        }
    }
}
