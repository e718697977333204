//! EXCEPT ALL and INTERSECT ALL: rows that are equal are numbered, and the n-th of one side meets the n-th of
//! the other.

use datafusion::sql::sqlparser::ast::{
    self, Query, SelectItem, SetExpr, SetOperator, TableAlias, TableFactor,
};

/// The operation in words that a planner of sets understands; `None` for UNION.
pub(super) fn rewritten(
    operator: SetOperator,
    left: &SetExpr,
    right: &SetExpr,
    names: &[String],
) -> Option<SetExpr> {
    let word = match operator {
        SetOperator::Except | SetOperator::Minus => "EXCEPT",
        SetOperator::Intersect => "INTERSECT",
        SetOperator::Union => return None,
    };
    let columns: Vec<String> = (0..names.len()).map(|n| format!("c{n}")).collect();
    let columns = columns.join(", ");
    let numbered = |side: &str| {
        format!(
            "SELECT {columns}, row_number() OVER (PARTITION BY {columns}) AS nth \
             FROM (SELECT 1) AS {side} ({columns})"
        )
    };
    let text = format!(
        "SELECT {columns} FROM ({} {word} {}) AS bags ({columns}, nth)",
        numbered("l"),
        numbered("r")
    );
    let mut query = query_of(&text)?;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    for (item, name) in select.projection.iter_mut().zip(names) {
        if let SelectItem::UnnamedExpr(expr) = item {
            let alias = ast::Ident::with_quote('"', name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    let TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation else { return None };
    let SetExpr::SetOperation { left: of_left, right: of_right, .. } = subquery.body.as_mut() else {
        return None;
    };
    for (place, side) in [(of_left, left), (of_right, right)] {
        let SetExpr::Select(select) = place.as_mut() else { return None };
        let TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation else {
            return None;
        };
        *subquery.body = side.clone();
    }
    Some(*query.body)
}

/// A derived table of a text, under an alias.
pub(super) fn derived(text: &str, alias: &TableAlias) -> Option<TableFactor> {
    Some(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query_of(text)?),
        alias: Some(alias.clone()),
        sample: None,
    })
}

pub(super) fn query_of(text: &str) -> Option<Query> {
    match sql::parse::parse(text).ok()?.pop()? {
        ast::Statement::Query(query) => Some(*query),
        _ => None,
    }
}
