//! ORDER BY of columns that are computed of groups.
//!
//! The planner looks for the terms among the groups and their aggregates. Ordered in a query around it, the
//! columns are there.

use super::bags::query_of;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, OrderByKind, Query, SelectItem, SetExpr, TableFactor, Visitor,
};
use sql::walk::Walk;
use std::ops::ControlFlow;

/// Puts a query of such columns below one that orders them. `names` are those of its columns.
pub(super) fn order_outside(query: &mut Query, names: &[String], is_aggregate: &dyn Fn(&str) -> bool) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(terms, _) => !terms.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let exprs: Option<Vec<&Expr>> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => Some(e),
            _ => None,
        })
        .collect();
    let Some(exprs) = exprs.filter(|exprs| exprs.len() == names.len()) else { return };
    let aggregates = || exprs.iter().any(|e| super::has_aggregate(*e, is_aggregate));
    let is_lost = |e: &Expr| has_window(e) || is_computed(e, is_aggregate);
    if !exprs.iter().any(|e| is_lost(e)) || !(is_grouped || aggregates()) {
        return;
    }
    // Only what names or numbers a column can be ordered outside.
    let Some(order_by) = &query.order_by else { return };
    let OrderByKind::Expressions(terms) = &order_by.kind else { return };
    let place = |e: &Expr| match e {
        Expr::Identifier(ident) => {
            let name = sql::names::fold(ident);
            names.iter().position(|n| super::shown(n) == name).map(|n| n + 1)
        }
        Expr::Value(value) => match &value.value {
            ast::Value::Number(n, _) => n.parse().ok(),
            _ => None,
        },
        _ => None,
    };
    let places: Option<Vec<usize>> = terms.iter().map(|term| place(&term.expr)).collect();
    let Some(places) = places else { return };
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let inner_names = inner_names(select, names);
    let columns: Vec<String> = names
        .iter()
        .zip(&inner_names)
        .map(|(name, inner)| format!("{} AS {}", quoted(inner), quoted(name)))
        .collect();
    let outer = query_of(&format!("SELECT {} FROM (SELECT 1) AS ordered", columns.join(", ")));
    let Some(SetExpr::Select(mut outer)) = outer.map(|outer| *outer.body) else { return };
    let mut inner = select.clone();
    for (item, name) in inner.projection.iter_mut().zip(&inner_names) {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = &*item {
            let alias = ast::Ident::with_quote('"', name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    if let Some(TableFactor::Derived { subquery, .. }) = outer.from.first_mut().map(|from| &mut from.relation)
    {
        *subquery.body = SetExpr::Select(inner);
    }
    *query.body = SetExpr::Select(outer);
    let terms = query.order_by.iter_mut().flat_map(|order_by| match &mut order_by.kind {
        OrderByKind::Expressions(terms) => terms.as_mut_slice(),
        OrderByKind::All(_) => &mut [],
    });
    for (term, place) in terms.zip(places) {
        term.expr = Expr::value(ast::Value::Number(place.to_string(), false));
    }
}

/// Puts a query whose columns have other names for its order's sake below one that names them: others refer to them.
pub(super) fn name_outside(query: &mut Query, names: &[String]) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let column = |(item, name): (&SelectItem, &String)| match item {
        SelectItem::ExprWithAlias { alias, .. } => {
            Some(format!("{} AS {}", quoted(&alias.value), quoted(name)))
        }
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => Some(quoted(name)),
        _ => None,
    };
    if select.projection.len() != names.len() {
        return;
    }
    let columns: Option<Vec<String>> = select.projection.iter().zip(names).map(column).collect();
    let outer = columns
        .and_then(|columns| query_of(&format!("SELECT {} FROM (SELECT 1) AS ordered", columns.join(", "))));
    let Some(mut outer) = outer else { return };
    outer.with = query.with.take();
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(TableFactor::Derived { subquery, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
    {
        std::mem::swap(subquery.as_mut(), query);
    }
    *query = outer;
}

/// Names for the columns below. GROUP BY may mean an alias, which stays; what has none, or one that others have, gets
/// one here.
fn inner_names(select: &ast::Select, names: &[String]) -> Vec<String> {
    let name = |(n, item): (usize, &SelectItem)| {
        let SelectItem::ExprWithAlias { alias, .. } = item else { return format!("column {n}") };
        let name = sql::names::fold(alias);
        let is_alone = names.iter().filter(|other| super::shown(other) == name).count() == 1;
        if is_alone { name } else { format!("column {n}") }
    };
    select.projection.iter().enumerate().map(name).collect()
}

/// Whether an item is anything but a column or an aggregate.
fn is_computed(e: &Expr, is_aggregate: &dyn Fn(&str) -> bool) -> bool {
    match e {
        Expr::Nested(inner) => is_computed(inner, is_aggregate),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => false,
        Expr::Function(call) => {
            let name = sql::names::parts(&call.name).ok().and_then(|mut parts| parts.pop());
            !name.is_some_and(|name| is_aggregate(&name))
        }
        _ => true,
    }
}

/// Whether an item of a SELECT calls a window function or one that makes rows: it is no value of its row alone.
pub(super) fn makes_rows_or_looks_around(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item else { return false };
    has_window(e) || makes_rows(e)
}

/// Whether an expression calls a function that makes rows.
pub(crate) fn makes_rows(e: &Expr) -> bool {
    let text = e.to_string().to_lowercase();
    text.contains("unnest(") || text.contains("generate_series(")
}

/// Whether an expression calls a window function, subqueries left out.
pub(crate) fn has_window(e: &Expr) -> bool {
    struct Calls(usize);
    impl Visitor for Calls {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
            match e {
                Expr::Function(call) if self.0 == 0 && call.over.is_some() => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    e.walk(&mut Calls(0)).is_break()
}
