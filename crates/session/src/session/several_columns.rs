//! Assignments to several columns at once, `SET (a, b) = …`, as one for each.

use base::SqlError;
use base::error::{SqlResult, SqlState};
use sql::names;
use sql::parse::OWN_NAMES;
use sqlparser::ast::{self, AssignmentTarget, Expr, SelectItem, SetExpr, Statement};

/// How many columns a subquery has.
pub(super) type Width<'a> = &'a dyn Fn(&ast::Query) -> SqlResult<usize>;

/// `a = 1`, `(a, b) = (1, 2)` and `(a, b) = (SELECT …)` as pairs. Errors: 42601 for more columns than values, or less.
pub(super) fn single_assignments<'s>(
    assignments: &'s [ast::Assignment],
    width: Width<'_>,
) -> SqlResult<Vec<(&'s ast::ObjectName, Expr)>> {
    let mut pairs = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let columns = match &assignment.target {
            AssignmentTarget::ColumnName(column) => {
                pairs.push((column, assignment.value.clone()));
                continue;
            }
            AssignmentTarget::Tuple(columns) => columns,
        };
        let values = match &assignment.value {
            Expr::Tuple(values) => values.clone(),
            Expr::Subquery(query) => values_of(query, columns.len(), width)?,
            value => row_of(value).ok_or_else(|| SqlError::unsupported("this form of SET"))?,
        };
        refuse_count(columns.len(), values.len())?;
        pairs.extend(columns.iter().zip(values));
    }
    Ok(pairs)
}

/// What a subquery has for each of so many columns, as a subquery of its own.
fn values_of(query: &ast::Query, columns: usize, width: Width<'_>) -> SqlResult<Vec<Expr>> {
    let Some(items) = plain_items(query) else {
        refuse_count(columns, width(query)?)?;
        return (0..columns).map(|nth| nth_of(query, nth, columns)).collect();
    };
    let with_one = |item: &SelectItem| {
        let mut one = query.clone();
        if let SetExpr::Select(select) = one.body.as_mut() {
            select.projection = vec![item.clone()];
        }
        Expr::Subquery(Box::new(one))
    };
    Ok(items.iter().map(with_one).collect())
}

/// What a query lists, if each item is a column and the rows do not depend on the others.
fn plain_items(query: &ast::Query) -> Option<&[SelectItem]> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_plain =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    let are_plain = select.distinct.is_none() && select.projection.iter().all(is_plain);
    are_plain.then_some(select.projection.as_slice())
}

/// `(SELECT c1 FROM (query) AS q (c0, c1, …))`
fn nth_of(query: &ast::Query, nth: usize, columns: usize) -> SqlResult<Expr> {
    let name = |nth: usize| format!("\"{OWN_NAMES}c{nth}\"");
    let names: Vec<String> = (0..columns).map(name).collect();
    let text = format!("SELECT {} FROM (SELECT 1) AS \"{OWN_NAMES}set\" ({})", name(nth), names.join(", "));
    if let Some(Statement::Query(mut outer)) = sql::parse::parse(&text)?.pop()
        && let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let ast::TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        **subquery = query.clone();
        return Ok(Expr::Subquery(outer));
    }
    Err(SqlError::internal("this text is a query"))
}

/// The values of `ROW(…)`, and of `(VALUES (…))`, which the parser reads as a function too.
fn row_of(value: &Expr) -> Option<Vec<Expr>> {
    let (function, name) = match value {
        Expr::Function(function) => (function, "row"),
        Expr::Nested(inner) => match inner.as_ref() {
            Expr::Function(function) => (function, "values"),
            _ => return None,
        },
        _ => return None,
    };
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    if names::parts(&function.name).ok()? != [name] {
        return None;
    }
    let values = list.args.iter().map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e.clone()),
        _ => None,
    });
    values.collect()
}

/// Errors: 42601 for a column that has a value already.
pub(super) fn refuse_again<T>(set: &[(usize, T)], number: usize, column: &str) -> SqlResult<()> {
    if set.iter().all(|(other, _)| *other != number) {
        return Ok(());
    }
    let message = format!("multiple assignments to same column \"{column}\"");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

fn refuse_count(columns: usize, values: usize) -> SqlResult<()> {
    if columns == values {
        return Ok(());
    }
    let message = "number of columns does not match number of values";
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(set: &str, width: usize) -> SqlResult<Vec<String>> {
        let parsed = sql::parse::parse(&format!("UPDATE t SET {set}")).unwrap().pop();
        let Some(Statement::Update(update)) = parsed else { panic!("this text is an UPDATE") };
        let pairs = single_assignments(&update.assignments, &|_| Ok(width))?;
        Ok(pairs.iter().map(|(column, value)| format!("{column} = {value}")).collect())
    }

    #[test]
    fn each_column_has_a_value_of_its_own() {
        assert_eq!(assigned("(a, b) = (1, 2), c = 3", 0).unwrap(), ["a = 1", "b = 2", "c = 3"]);
        assert_eq!(assigned("(a, b) = ROW(1, 2)", 0).unwrap(), ["a = 1", "b = 2"]);
        let of_items = assigned("(a, b) = (SELECT x, y FROM u)", 0).unwrap();
        assert_eq!(of_items, ["a = (SELECT x FROM u)", "b = (SELECT y FROM u)"]);
        let of_all = assigned("(a, b) = (SELECT * FROM u)", 2).unwrap();
        assert!(of_all[1].contains("(SELECT * FROM u)"), "{of_all:?}");
        assert_eq!(assigned("(a, b) = (SELECT * FROM u)", 3).unwrap_err().state, SqlState::SYNTAX_ERROR);
        assert_eq!(assigned("(a, b) = (SELECT x FROM u)", 2).unwrap_err().state, SqlState::SYNTAX_ERROR);
    }
}
