//! FETCH FIRST … WITH TIES: rows up to the count, and those that the order puts beside the last of them.

use super::bags::query_of;
use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, LimitClause, OrderByKind, Query, SelectItem, SetExpr, TableFactor,
};

/// Ranks the rows by their order and keeps those whose rank is within the count. `names` are those of its columns.
/// Errors: 42601 without ORDER BY, 0A000 where the order is not one of a SELECT's own.
pub(super) fn write_out(query: &mut Query, names: Option<&[String]>, count: Expr) -> SqlResult<()> {
    let Some(order_by) = query.order_by.take() else {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "WITH TIES cannot be specified without ORDER BY clause",
        ));
    };
    let offset = match query.limit_clause.take() {
        Some(LimitClause::LimitOffset { offset, .. }) => offset.map(|offset| offset.value),
        _ => None,
    };
    let unsupported = || SqlError::unsupported("FETCH … WITH TIES of this query");
    let names = names.ok_or_else(unsupported)?;
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(unsupported()) };
    let OrderByKind::Expressions(mut terms) = order_by.kind else { return Err(unsupported()) };
    let exprs: Option<Vec<Expr>> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => Some(e.clone()),
            _ => None,
        })
        .collect();
    let exprs = exprs.filter(|exprs| exprs.len() == names.len() && select.distinct.is_none());
    let exprs = exprs.ok_or_else(unsupported)?;
    // A window knows no columns of the result.
    for term in &mut terms {
        let place = match &term.expr {
            Expr::Identifier(ident) => {
                let name = sql::names::fold(ident);
                names.iter().position(|n| super::shown(n) == name)
            }
            Expr::Value(value) => match &value.value {
                ast::Value::Number(n, _) => n.parse::<usize>().ok().and_then(|n| n.checked_sub(1)),
                _ => None,
            },
            _ => None,
        };
        if let Some(place) = place {
            term.expr = exprs.get(place).cloned().ok_or_else(unsupported)?;
        }
    }
    let order: Vec<String> = terms.iter().map(ToString::to_string).collect();
    let order = order.join(", ");
    let mut projection: Vec<SelectItem> = exprs
        .into_iter()
        .enumerate()
        .map(|(n, expr)| SelectItem::ExprWithAlias { expr, alias: Ident::new(format!("c{n}")) })
        .collect();
    for (function, alias) in [("rank", "place"), ("row_number", "nth")] {
        let call = sql::parse::parse_expr(&format!("{function}() OVER (ORDER BY {order})"))?;
        projection.push(SelectItem::ExprWithAlias { expr: call, alias: Ident::new(alias) });
    }
    let mut inner = select.clone();
    inner.projection = projection;
    let columns: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(n, name)| format!("c{n} AS \"{}\"", name.replace('"', "\"\"")))
        .collect();
    let skipped = offset.map_or_else(|| "0".to_string(), |offset| format!("({offset})"));
    let text = format!(
        "SELECT {} FROM (SELECT 1) AS ranked WHERE ranked.place <= ({count}) + {skipped} AND ranked.nth > {skipped} \
         ORDER BY ranked.nth",
        columns.join(", ")
    );
    let mut outer = query_of(&text).ok_or_else(unsupported)?;
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        *subquery.body = SetExpr::Select(inner);
    }
    query.body = outer.body;
    query.order_by = outer.order_by;
    Ok(())
}
