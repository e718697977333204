//! `ARRAY(SELECT …)`: rows gathered into a list.

use super::super::bags::query_of;
use super::parse;
use crate::empty_lists::OR_EMPTY;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Query, SelectItem, SetExpr, TableFactor};

/// `ARRAY(SELECT …)` as a subquery that gathers its rows.
pub(in super::super) fn array_of(function: &ast::Function) -> Option<Expr> {
    let ast::FunctionArguments::Subquery(query) = &function.args else { return None };
    if sql::names::parts(&function.name).ok()?.pop()? != "array" {
        return None;
    }
    // Rows of one SELECT are gathered where they are, so that it may depend on what is around it.
    if let SetExpr::Select(select) = query.body.as_ref()
        && let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
            select.projection.as_slice()
        && query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && select.distinct.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(terms, _) if terms.is_empty())
        && select.having.is_none()
        && !select.from.is_empty()
        && !item.to_string().contains('(')
    {
        let is_place = |term: &ast::OrderByExpr| matches!(term.expr, Expr::Value(_));
        let order = match query.order_by.as_ref().map(|o| &o.kind) {
            // There is one column to be ordered by its place.
            Some(ast::OrderByKind::Expressions(terms)) if terms.iter().all(is_place) => {
                let directions: Vec<String> =
                    terms.iter().take(1).map(|term| format!("{item}{}", term.options)).collect();
                format!(" ORDER BY {}", directions.join(", "))
            }
            Some(ast::OrderByKind::Expressions(terms)) if !terms.iter().any(is_place) => {
                let terms: Vec<String> = terms.iter().map(ToString::to_string).collect();
                format!(" ORDER BY {}", terms.join(", "))
            }
            None => String::new(),
            Some(_) => return gathered(query),
        };
        let mut query = query.clone();
        query.order_by = None;
        let SetExpr::Select(select) = query.body.as_mut() else { return None };
        let call = parse(&format!("array_agg({item}{order})")).ok()?;
        select.projection = vec![SelectItem::UnnamedExpr(call)];
        return or_empty(query);
    }
    gathered(query)
}

/// The rows of any query of one column, in its order.
fn gathered(query: &Query) -> Option<Expr> {
    let mut made = query_of("SELECT array_agg(gathered.item) FROM (SELECT 1) AS gathered (item)")?;
    let SetExpr::Select(select) = made.body.as_mut() else { return None };
    let TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation else { return None };
    **subquery = query.clone();
    or_empty(Box::new(made))
}

fn or_empty(query: Box<Query>) -> Option<Expr> {
    parse(&format!("{OR_EMPTY}(({query}))")).ok()
}
