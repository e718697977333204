//! ORDER BY of columns that window functions over groups compute.
//!
//! The planner looks for the terms among the groups and their aggregates. Ordered in a query around it, the
//! columns are there.

use super::bags::query_of;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, OrderByKind, Query, SelectItem, SetExpr, TableFactor, Visit, Visitor,
};
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
    if !exprs.iter().any(|e| has_window(e)) || !(is_grouped || aggregates()) {
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
    let columns: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(n, name)| format!("c{n} AS \"{}\"", name.replace('"', "\"\"")))
        .collect();
    let outer = query_of(&format!("SELECT {} FROM (SELECT 1) AS ordered", columns.join(", ")));
    let Some(SetExpr::Select(mut outer)) = outer.map(|outer| *outer.body) else { return };
    let mut inner = select.clone();
    for (n, item) in inner.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = &*item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: ast::Ident::new(format!("c{n}")) };
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

/// Whether an item of a SELECT calls a window function or one that makes rows: it is no value of its row alone.
pub(super) fn makes_rows_or_looks_around(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item else { return false };
    let text = e.to_string().to_lowercase();
    has_window(e) || text.contains("unnest(") || text.contains("generate_series(")
}

/// Whether an expression calls a window function, subqueries left out.
fn has_window(e: &Expr) -> bool {
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
    e.visit(&mut Calls(0)).is_break()
}
