//! DISTINCT ON: a set of expressions, where the planner wants a list that begins as ORDER BY does.

use super::grouping::{at_position, position, refuse_constant};
use super::marks::MARK;
use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    self, Distinct, Expr, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr,
};
use std::collections::{BTreeMap, BTreeSet};

/// Names each expression once, in the order of ORDER BY, and orders by what ORDER BY leaves open. Where ORDER BY begins
/// otherwise, the planner refuses it. Errors: 42P10 for a position that the list has not, 0A000 for one behind `*`.
pub(super) fn settle(select: &mut Select, order_by: Option<&mut OrderBy>) -> SqlResult<()> {
    let Some(Distinct::On(on)) = &mut select.distinct else { return Ok(()) };
    for e in on.iter_mut() {
        resolve(e, &select.projection)?;
    }
    tell_apart(&mut select.projection)?;
    let mut known = BTreeSet::new();
    on.retain(|e| known.insert(e.to_string()));
    let Some(OrderBy { kind: OrderByKind::Expressions(terms), .. }) = order_by else { return Ok(()) };
    for term in terms.iter_mut() {
        resolve(&mut term.expr, &select.projection)?;
    }
    // The same once more says nothing, and the planner's operator counts on that.
    let mut ordered = BTreeSet::new();
    terms.retain(|term| ordered.insert(term.expr.to_string()));
    let mut left: Vec<Expr> = std::mem::take(on);
    let mut sorted = Vec::with_capacity(left.len());
    for term in terms.iter() {
        let text = term.expr.to_string();
        match left.iter().position(|e| e.to_string() == text) {
            Some(place) => sorted.push(left.remove(place)),
            None => break,
        }
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
    Ok(())
}

/// PostgreSQL finds the rows by sorting, so they come sorted where nothing else is asked for.
pub(super) fn order(query: &mut Query) {
    let (None, SetExpr::Select(select)) = (&query.order_by, query.body.as_ref()) else { return };
    let Some(Distinct::On(on)) = &select.distinct else { return };
    let term = |e: &Expr| OrderByExpr { expr: e.clone(), options: Default::default(), with_fill: None };
    let kind = OrderByKind::Expressions(on.iter().map(term).collect());
    query.order_by = Some(OrderBy { kind, interpolate: None });
}

/// Makes items that repeat others different ones: the planner keeps one of each. Errors: 0A000 if there are many.
fn tell_apart(projection: &mut [SelectItem]) -> SqlResult<()> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (n, item) in projection.iter_mut().enumerate() {
        let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item else { continue };
        let text = e.to_string();
        let seen = times.entry(text.clone()).or_default();
        if *seen > 8 {
            return Err(SqlError::unsupported("DISTINCT ON with one expression many times"));
        }
        if *seen > 0 {
            let name = sql::lower::output_name(e);
            let expr = sql::parse::parse_expr(&crate::barriers::told_apart(&text, *seen))?;
            *item = match item {
                SelectItem::ExprWithAlias { alias, .. } => {
                    SelectItem::ExprWithAlias { expr, alias: alias.clone() }
                }
                _ => {
                    let alias = ast::Ident::with_quote('"', format!("{name}{MARK}{n}"));
                    SelectItem::ExprWithAlias { expr, alias }
                }
            };
        }
        *seen += 1;
    }
    Ok(())
}

/// A position or the name of an output column stands for that column.
fn resolve(e: &mut Expr, projection: &[SelectItem]) -> SqlResult<()> {
    refuse_constant(e, "DISTINCT ON")?;
    if let Some(n) = position(e) {
        let stars = |item: &SelectItem| {
            !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
        };
        if projection.iter().take(n).any(stars) {
            return Err(SqlError::unsupported("a position in DISTINCT ON behind *"));
        }
        *e = at_position(e, projection).cloned().ok_or_else(|| {
            let told = format!("SELECT DISTINCT ON position {n} is not in select list");
            SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, told)
        })?;
        return Ok(());
    }
    let Expr::Identifier(name) = &*e else { return Ok(()) };
    let name = sql::names::fold(name);
    let named = projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if sql::names::fold(alias) == name => Some(expr.clone()),
        _ => None,
    });
    if let Some(named) = named {
        *e = named;
    }
    Ok(())
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
            (
                "select distinct on (2, s) a, b + 1, c as s from t order by s, 2 desc",
                "SELECT DISTINCT ON (c, b + 1) a, b + 1, c AS s FROM t ORDER BY c, b + 1 DESC",
            ),
        ] {
            let Some(Statement::Query(mut query)) = sql::parse::parse(sql).unwrap().pop() else { panic!() };
            let SetExpr::Select(select) = query.body.as_mut() else { panic!() };
            settle(select, query.order_by.as_mut()).unwrap();
            assert_eq!(query.to_string(), wanted);
        }
    }
}
