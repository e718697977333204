//! Subqueries as values: EXISTS, IN, ANY and ALL in a select list, rows IN a subquery, and subqueries that have
//! to find one row at most.
//!
//! The planner joins such subqueries in WHERE alone. Elsewhere they become counts, which it knows as scalar
//! subqueries; three-valued logic is spelled out.

mod arrays;
mod only_row;

use super::bags::query_of;
use super::limits::keeps_one;
pub(super) use arrays::array_of;
use base::error::SqlResult;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor,
};

/// Name of a subquery's rows, which no relation of a statement has.
const FOUND: &str = "\"found in a subquery\"";

/// A subquery in an expression, and what is known of it.
pub(super) struct Surroundings<'a> {
    /// The expression is no condition of WHERE, HAVING or ON.
    pub is_value: bool,
    /// The subquery names columns of the query around it.
    pub is_correlated: bool,
    /// Gives names of the query around a qualifier, which inside the subquery mean the same.
    pub qualified: &'a dyn Fn(&Expr) -> Option<Expr>,
    /// Whether an expression names columns of the query around.
    pub names_own: &'a dyn Fn(&Expr) -> bool,
    pub is_aggregate: &'a dyn Fn(&str) -> bool,
}

/// What an expression becomes; `None` if it stays.
pub(super) fn replacement(e: &Expr, around: &Surroundings<'_>) -> SqlResult<Option<Expr>> {
    if around.is_correlated
        && let Some(split) = without_union(e)
    {
        return Ok(Some(replaced_within(split, around)?));
    }
    match e {
        Expr::Exists { subquery, negated } if around.is_value => {
            let operator = if *negated { "=" } else { ">" };
            let count = counted(subquery, None, around);
            count.map(|count| parse(&format!("(({count}) {operator} 0)"))).transpose()
        }
        Expr::InSubquery { expr, subquery, negated } => match expr.as_ref() {
            Expr::Tuple(row) => row_in(row, subquery, *negated, around),
            x if around.is_value => in_values(x, subquery, *negated, around),
            // The planner looks for NULLs among all rows, whichever of them are meant, and not at all for what names no
            // column of the rows around.
            x if around.is_correlated || (*negated && is_of_no_row(x, around)) => {
                refuse_width(subquery)?;
                match row_in(std::slice::from_ref(x), subquery, *negated, around)? {
                    None if *negated => {
                        Err(base::SqlError::unsupported("this NOT IN of a correlated subquery"))
                    }
                    replaced => Ok(replaced),
                }
            }
            _ => Ok(None),
        },
        Expr::AnyOp { left, compare_op, right, .. } => {
            let Some(subquery) = subquery_of(right) else { return Ok(None) };
            match compare_op {
                BinaryOperator::Eq => in_subquery(left, subquery, false, around),
                op => against(left, op, subquery, true, around),
            }
        }
        Expr::AllOp { left, compare_op, right } => {
            let Some(subquery) = subquery_of(right) else { return Ok(None) };
            match compare_op {
                BinaryOperator::NotEq => in_subquery(left, subquery, true, around),
                op => against(left, op, subquery, false, around),
            }
        }
        Expr::Subquery(query) => match only_row::of_row_around(query, around)? {
            None => Ok(only_row::of(query, around).map(Expr::Subquery)),
            value => Ok(value),
        },
        _ => Ok(None),
    }
}

/// Whether an expression is the same for all rows around.
fn is_of_no_row(x: &Expr, around: &Surroundings<'_>) -> bool {
    !(around.names_own)(x) && !super::has_aggregate(x, around.is_aggregate)
}

/// `x = ANY (subquery)` is IN, `x <> ALL (subquery)` is NOT IN. Errors: 0A000 where names of `x` cannot be told apart:
/// the planner's own reading of ANY takes them for the subquery's.
fn in_subquery(
    x: &Expr,
    subquery: &Query,
    negated: bool,
    around: &Surroundings<'_>,
) -> SqlResult<Option<Expr>> {
    if !around.is_value {
        refuse_width(subquery)?;
        let subquery = Box::new(subquery.clone());
        let list = Expr::InSubquery { expr: Box::new(x.clone()), subquery, negated };
        return Ok(Some(replacement(&list, around)?.unwrap_or(list)));
    }
    in_values(x, subquery, negated, around)?.map(Some).ok_or_else(unsupported_comparison)
}

fn unsupported_comparison() -> base::SqlError {
    base::SqlError::unsupported("this comparison with ANY or ALL of a subquery")
}

/// A subquery that is compared has one column. Errors: 42601.
fn refuse_width(subquery: &Query) -> SqlResult<()> {
    match width_of(&subquery.body) {
        Some(width) if width > 1 && lists_columns(&subquery.body) => {
            Err(base::SqlError::new(base::SqlState::SYNTAX_ERROR, "subquery has too many columns"))
        }
        _ => Ok(()),
    }
}

/// The subquery, below one of its own if a relation in it has the name of one that an expression names.
fn unshadowed(subquery: &Query, named_by: &[&Expr]) -> Option<Query> {
    if !named_by.iter().any(|e| super::correlated::shadows(subquery, e)) {
        return Some(subquery.clone());
    }
    let width = width_of(&subquery.body)?;
    let names: Vec<String> = (0..width).map(|n| format!("y{n}")).collect();
    let columns: Vec<String> = names.iter().map(|name| format!("{FOUND}.{name}")).collect();
    let text = format!("SELECT {} FROM (SELECT 1) AS {FOUND} ({})", columns.join(", "), names.join(", "));
    let mut query = query_of(&text)?;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let TableFactor::Derived { subquery: place, .. } = &mut select.from.first_mut()?.relation else {
        return None;
    };
    **place = subquery.clone();
    Some(query)
}

/// EXISTS or IN of a union that depends on what is around it, as one of each operand: only so can the planner join
/// them.
fn without_union(e: &Expr) -> Option<Expr> {
    let (query, negated, x) = match e {
        Expr::Exists { subquery, negated } => (subquery, *negated, None),
        Expr::InSubquery { expr, subquery, negated } => (subquery, *negated, Some(expr)),
        _ => return None,
    };
    let is_bare = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let SetExpr::SetOperation { op: ast::SetOperator::Union, left, right, .. } = query.body.as_ref() else {
        return None;
    };
    let operand = |body: &SetExpr| {
        let mut query = query.clone();
        query.order_by = None;
        query.body = Box::new(body.clone());
        match x {
            None => Expr::Exists { subquery: query, negated },
            Some(x) => Expr::InSubquery { expr: x.clone(), subquery: query, negated },
        }
    };
    let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
    let (left, right) = (Box::new(operand(left)), Box::new(operand(right)));
    is_bare.then(|| Expr::Nested(Box::new(Expr::BinaryOp { left, op, right })))
}

/// The two operands of a split, each replaced in its turn.
fn replaced_within(e: Expr, around: &Surroundings<'_>) -> SqlResult<Expr> {
    Ok(match e {
        Expr::Nested(inner) => Expr::Nested(Box::new(replaced_within(*inner, around)?)),
        Expr::BinaryOp { left, op, right } => Expr::BinaryOp {
            left: Box::new(replaced_within(*left, around)?),
            op,
            right: Box::new(replaced_within(*right, around)?),
        },
        e => replacement(&e, around)?.unwrap_or(e),
    })
}

fn subquery_of(e: &Expr) -> Option<&Query> {
    match e {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery_of(inner),
        _ => None,
    }
}

/// Errors: 54001 where subqueries inside each other have made the text too long: each level says the one below it
/// several times.
fn parse(text: &str) -> SqlResult<Expr> {
    if text.len() > WRITTEN_OUT_BYTES_MAX {
        return Err(sql::parse::too_deep()
            .detail("The statement has too many subqueries inside each other that stand for values."));
    }
    sql::parse::parse_expr(text)
}

/// The longest text that subqueries are written out as, beyond what the statement itself is long.
const WRITTEN_OUT_BYTES_MAX: usize = 256 << 10;

/// The one SELECT that a query is, if it neither groups nor counts nor cuts: each row found is a row of it.
fn plain<'q>(query: &'q Query, around: &Surroundings<'_>) -> Option<&'q Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => !exprs.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let is_plain = query.with.is_none()
        && query.limit_clause.is_none()
        && !is_grouped
        && select.having.is_none()
        && select.distinct.is_none()
        && !select.projection.iter().any(|item| super::has_aggregate(item, around.is_aggregate))
        && !select.projection.iter().any(super::makes_rows_or_looks_around);
    is_plain.then_some(select)
}

/// A query that computes something over the rows of a subquery for which a condition holds. The condition is
/// made of names for the subquery's columns.
fn over(
    subquery: &Query,
    computed: &dyn Fn(&[String]) -> String,
    condition: &dyn Fn(&[String]) -> Option<String>,
    around: &Surroundings<'_>,
) -> Option<Query> {
    let mut subquery = subquery.clone();
    if subquery.limit_clause.as_ref().is_none_or(|limit| keeps_one(limit) == Some(1)) {
        // Of no order, when all count.
        subquery.order_by = None;
    }
    if let Some(select) = plain(&subquery, around) {
        let columns: Option<Vec<String>> = select
            .projection
            .iter()
            .map(|item| match item {
                SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => {
                    Some(format!("({e})"))
                }
                _ => None,
            })
            .collect();
        let columns = match (columns, condition(&[String::new(), String::new()])) {
            (Some(columns), _) => columns,
            // Nothing is asked of the columns.
            (None, None) => Vec::new(),
            (None, Some(_)) => return None,
        };
        let mut select = select.clone();
        let SetExpr::Select(made) = *query_of(&format!("SELECT {}", computed(&columns)))?.body else {
            return None;
        };
        select.projection = made.projection;
        if let Some(condition) = condition(&columns) {
            let condition = parse(&condition).ok()?;
            select.selection = Some(match select.selection.take() {
                None => condition,
                Some(before) => Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(before))),
                    op: BinaryOperator::And,
                    right: Box::new(condition),
                },
            });
        }
        *subquery.body = SetExpr::Select(Box::new(select));
        return Some(subquery);
    }
    over_all(subquery, computed, condition)
}

/// The same over a subquery that becomes a relation.
fn over_all(
    subquery: Query,
    computed: &dyn Fn(&[String]) -> String,
    condition: &dyn Fn(&[String]) -> Option<String>,
) -> Option<Query> {
    let width = width_of(&subquery.body)?;
    over_columns(subquery, width, computed, condition)
}

/// The same over one of so many columns.
fn over_columns(
    subquery: Query,
    width: usize,
    computed: &dyn Fn(&[String]) -> String,
    condition: &dyn Fn(&[String]) -> Option<String>,
) -> Option<Query> {
    let columns: Vec<String> = (0..width).map(|n| format!("{FOUND}.y{n}")).collect();
    let names: Vec<String> = (0..width).map(|n| format!("y{n}")).collect();
    let where_clause = condition(&columns).map(|c| format!(" WHERE {c}")).unwrap_or_default();
    let text = format!(
        "SELECT {} FROM (SELECT 1) AS {FOUND} ({}){where_clause}",
        computed(&columns),
        names.join(", ")
    );
    let mut query = query_of(&text)?;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let TableFactor::Derived { subquery: place, .. } = &mut select.from.first_mut()?.relation else {
        return None;
    };
    **place = subquery;
    Some(query)
}

/// Whether each item of a query's list is one column: `*` may be any number.
fn lists_columns(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select
            .projection
            .iter()
            .all(|item| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })),
        SetExpr::Query(query) => lists_columns(&query.body),
        SetExpr::SetOperation { left, .. } => lists_columns(left),
        _ => true,
    }
}

fn width_of(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => Some(select.projection.len()),
        SetExpr::Query(query) => width_of(&query.body),
        SetExpr::SetOperation { left, .. } => width_of(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

/// How many rows there are, or fulfil a condition on the first column.
fn counted(
    subquery: &Query,
    condition: Option<&dyn Fn(&str) -> String>,
    around: &Surroundings<'_>,
) -> Option<Query> {
    let mut subquery = subquery.clone();
    if condition.is_none() && subquery.limit_clause.as_ref().is_some_and(|limit| keeps_one(limit).is_some()) {
        subquery.limit_clause = None;
    }
    let condition = |columns: &[String]| condition.and_then(|c| columns.first().map(|y| c(y)));
    over(&subquery, &|_| "count(*)".into(), &condition, around)
}

/// `x IN (subquery)` as a value.
fn in_values(
    x: &Expr,
    subquery: &Query,
    negated: bool,
    around: &Surroundings<'_>,
) -> SqlResult<Option<Expr>> {
    refuse_width(subquery)?;
    let Some(x) = (around.qualified)(x) else { return Ok(None) };
    let Some(subquery) = &unshadowed(subquery, &[&x]) else { return Ok(None) };
    let (Some(equal), Some(unknown), Some(all)) = (
        counted(subquery, Some(&|y| format!("{y} = ({x})")), around),
        counted(subquery, Some(&|y| format!("{y} IS NULL")), around),
        counted(subquery, None, around),
    ) else {
        return Ok(None);
    };
    let (found, missing) = if negated { ("false", "true") } else { ("true", "false") };
    parse(&format!(
        "CASE WHEN ({equal}) > 0 THEN {found} WHEN ({unknown}) > 0 THEN CAST(NULL AS boolean) \
         WHEN ({x}) IS NULL AND ({all}) > 0 THEN CAST(NULL AS boolean) ELSE {missing} END"
    ))
    .map(Some)
}

/// `x < ANY (subquery)` and the like: by the least or the greatest value, other operators by how many rows fulfil it.
fn against(
    x: &Expr,
    operator: &BinaryOperator,
    subquery: &Query,
    is_any: bool,
    around: &Surroundings<'_>,
) -> SqlResult<Option<Expr>> {
    refuse_width(subquery)?;
    let x = (around.qualified)(x).ok_or_else(unsupported_comparison)?;
    let subquery = &unshadowed(subquery, &[&x]).ok_or_else(unsupported_comparison)?;
    let is_less = match operator {
        BinaryOperator::Lt | BinaryOperator::LtEq => true,
        BinaryOperator::Gt | BinaryOperator::GtEq => false,
        _ => {
            let holds = |y: &str| format!("(({x}) {operator} {y})");
            let decides = |y: &str| if is_any { holds(y) } else { format!("(NOT {})", holds(y)) };
            let (Some(decided), Some(unknown)) = (
                counted(subquery, Some(&decides), around),
                counted(subquery, Some(&|y| format!("({} IS NULL)", holds(y))), around),
            ) else {
                return Err(unsupported_comparison());
            };
            return parse(&format!(
                "CASE WHEN ({decided}) > 0 THEN {is_any} WHEN ({unknown}) > 0 THEN CAST(NULL AS boolean) \
                 ELSE {} END",
                !is_any
            ))
            .map(Some);
        }
    };
    // Less than any is less than the greatest.
    let extreme = if is_less == is_any { "max" } else { "min" };
    let nothing = |_: &[String]| None;
    let of_first = |what: &'static str| {
        move |columns: &[String]| columns.first().map_or_else(|| what.to_string(), |y| what.replace('?', y))
    };
    let extreme = if extreme == "max" { "max(?)" } else { "min(?)" };
    let (Some(extreme), Some(nulls), Some(all)) = (
        over(subquery, &of_first(extreme), &nothing, around),
        over(subquery, &of_first("count(*) - count(?)"), &nothing, around),
        counted(subquery, None, around),
    ) else {
        return Err(unsupported_comparison());
    };
    let null = "CAST(NULL AS boolean)";
    parse(&match is_any {
        true => format!(
            "CASE WHEN ({x}) {operator} ({extreme}) THEN true WHEN ({nulls}) > 0 THEN {null} \
             WHEN ({x}) IS NULL AND ({all}) > 0 THEN {null} ELSE false END"
        ),
        false => format!(
            "CASE WHEN ({all}) = 0 THEN true WHEN NOT (({x}) {operator} ({extreme})) THEN false \
             WHEN ({nulls}) > 0 OR ({x}) IS NULL THEN {null} ELSE true END"
        ),
    })
    .map(Some)
}

/// `(a, b) IN (SELECT c, d …)`: in a condition a row exists that is equal, or none that may be (NOT IN); as a value
/// what can be said of it.
fn row_in(
    row: &[Expr],
    subquery: &Query,
    negated: bool,
    around: &Surroundings<'_>,
) -> SqlResult<Option<Expr>> {
    let row: Option<Vec<Expr>> = row.iter().map(around.qualified).collect();
    let Some(row) = row else { return Ok(None) };
    let named = match lists_columns(&subquery.body) {
        true => None,
        false => over_columns(subquery.clone(), row.len(), &|columns| columns.join(", "), &|_| None),
    };
    let subquery = named.as_ref().unwrap_or(subquery);
    let width = width_of(&subquery.body);
    if width.is_some_and(|width| width != row.len()) {
        let few = if width < Some(row.len()) { "few" } else { "many" };
        let message = format!("subquery has too {few} columns");
        return Err(base::SqlError::new(base::SqlState::SYNTAX_ERROR, message));
    }
    let Some(subquery) = &unshadowed(subquery, &row.iter().collect::<Vec<_>>()) else { return Ok(None) };
    let equal = |columns: &[String]| {
        let equal: Vec<String> = columns.iter().zip(&row).map(|(y, x)| format!("{y} = ({x})")).collect();
        equal.join(" AND ")
    };
    let may_be_equal = |columns: &[String]| format!("(({}) IS NOT FALSE)", equal(columns));
    if around.is_value {
        let count = |condition: &dyn Fn(&[String]) -> String| {
            over(subquery, &|_| "count(*)".into(), &|columns| Some(condition(columns)), around)
        };
        let (Some(found), Some(possible)) = (count(&equal), count(&may_be_equal)) else { return Ok(None) };
        let (found_is, missing_is) = if negated { ("false", "true") } else { ("true", "false") };
        return parse(&format!(
            "CASE WHEN ({found}) > 0 THEN {found_is} WHEN ({possible}) > 0 THEN CAST(NULL AS boolean) \
             ELSE {missing_is} END"
        ))
        .map(Some);
    }
    let condition = |columns: &[String]| Some(if negated { may_be_equal(columns) } else { equal(columns) });
    let found = over(subquery, &|_| "1".into(), &condition, around);
    let not = if negated { "NOT " } else { "" };
    found.map(|found| parse(&format!("{not}EXISTS ({found})"))).transpose()
}
