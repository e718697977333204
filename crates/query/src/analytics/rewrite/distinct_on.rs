//! DISTINCT ON: a set of expressions, where the planner wants a list that begins as ORDER BY does.

use datafusion::sql::sqlparser::ast::{Distinct, Expr, OrderBy, OrderByExpr, OrderByKind, Select};
use std::collections::BTreeSet;

/// Names each expression once, in the order of ORDER BY, and orders by what ORDER BY leaves open. Where ORDER BY begins
/// otherwise, the planner refuses it.
pub(super) fn settle(select: &mut Select, order_by: Option<&mut OrderBy>) {
    let Some(Distinct::On(on)) = &mut select.distinct else { return };
    let mut known = BTreeSet::new();
    on.retain(|e| known.insert(e.to_string()));
    let Some(OrderBy { kind: OrderByKind::Expressions(terms), .. }) = order_by else { return };
    let mut left: Vec<Expr> = std::mem::take(on);
    let mut sorted = Vec::with_capacity(left.len());
    let mut ordered = BTreeSet::new();
    for term in terms.iter() {
        let text = term.expr.to_string();
        match left.iter().position(|e| e.to_string() == text) {
            Some(place) => sorted.push(left.remove(place)),
            // The same once more says nothing.
            None if ordered.contains(&text) => {}
            None => break,
        }
        ordered.insert(text);
    }
    if sorted.len() == terms.len() {
        let open = left.iter().map(|e| OrderByExpr {
            expr: e.clone(),
            options: Default::default(),
            with_fill: None,
        });
        terms.extend(open);
    }
    sorted.extend(left);
    *on = sorted;
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};

    #[test]
    fn the_expressions_are_a_set() {
        for (sql, wanted) in [
            ("select distinct on (a, b, a) a from t", "SELECT DISTINCT ON (a, b) a FROM t"),
            (
                "select distinct on (a, b, c) a from t order by c, a",
                "SELECT DISTINCT ON (c, a, b) a FROM t ORDER BY c, a, b",
            ),
            (
                "select distinct on (a, b) a from t order by b desc, a, c",
                "SELECT DISTINCT ON (b, a) a FROM t ORDER BY b DESC, a, c",
            ),
            (
                "select distinct on (a) a from t order by c, a",
                "SELECT DISTINCT ON (a) a FROM t ORDER BY c, a",
            ),
        ] {
            let Some(Statement::Query(mut query)) = crate::parse::parse(sql).unwrap().pop() else { panic!() };
            let SetExpr::Select(select) = query.body.as_mut() else { panic!() };
            settle(select, query.order_by.as_mut());
            assert_eq!(query.to_string(), wanted);
        }
    }
}
