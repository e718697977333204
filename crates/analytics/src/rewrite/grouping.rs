//! GROUP BY: ROLLUP and CUBE of several columns at once, positions inside them, and the empty group.

use super::aggregates::has_aggregate;
use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{self, Expr, GroupByExpr, Select, SelectItem};

/// More grouping sets than this are left to the planner to refuse.
const SETS_MAX: usize = 4096;

/// Writes out what the planner does not know.
pub(super) fn write_out(select: &mut Select) {
    let projection = &select.projection;
    let GroupByExpr::Expressions(terms, _) = &mut select.group_by else { return };
    for term in terms.iter_mut() {
        if let Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) = term {
            sets.iter_mut().flatten().for_each(|e| resolve_position(e, projection));
        }
        let is_simple = |sets: &[Vec<Expr>]| sets.iter().all(|set| set.len() == 1);
        match term {
            Expr::Rollup(sets) if !is_simple(sets) => *term = Expr::GroupingSets(rollup(sets)),
            Expr::Cube(sets) if !is_simple(sets) && sets.len() < 12 => *term = Expr::GroupingSets(cube(sets)),
            Expr::GroupingSets(sets) => {
                *sets = sets.iter().flat_map(|set| nested(set)).take(SETS_MAX).collect()
            }
            _ => {}
        }
    }
    let is_empty = |term: &Expr| matches!(term, Expr::Tuple(all) if all.is_empty());
    if terms.iter().any(is_empty) {
        terms.retain(|term| !is_empty(term));
        if terms.is_empty() && !projection.iter().any(|item| item.to_string().contains('(')) {
            terms.push(Expr::GroupingSets(vec![Vec::new()]));
        }
    }
}

/// Errors: 42803 for a group that is an aggregate, by itself or by its position.
pub(super) fn refuse_aggregates(select: &Select, is_aggregate: &dyn Fn(&str) -> bool) -> SqlResult<()> {
    let GroupByExpr::Expressions(terms, _) = &select.group_by else { return Ok(()) };
    for term in terms {
        let term = at_position(term, &select.projection).unwrap_or(term);
        if has_aggregate(term, is_aggregate) {
            let told = "aggregate functions are not allowed in GROUP BY";
            return Err(SqlError::new(SqlState::GROUPING_ERROR, told));
        }
    }
    Ok(())
}

/// A number inside stands for an item of the list.
fn resolve_position(e: &mut Expr, projection: &[SelectItem]) {
    if let Some(item) = at_position(e, projection) {
        *e = item.clone();
    }
}

/// The item of a list that a number stands for.
pub(super) fn at_position<'s>(e: &Expr, projection: &'s [SelectItem]) -> Option<&'s Expr> {
    let n = position(e)?;
    match projection.get(n.checked_sub(1)?) {
        Some(SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) => Some(item),
        _ => None,
    }
}

/// The number that an expression is, in parentheses or not.
pub(super) fn position(e: &Expr) -> Option<usize> {
    match e {
        Expr::Nested(inner) => position(inner),
        Expr::Value(value) => match &value.value {
            ast::Value::Number(n, _) => n.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn rollup(sets: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=sets.len()).rev().map(|n| sets[..n].iter().flatten().cloned().collect()).collect()
}

fn cube(sets: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let all = 1usize << sets.len();
    let chosen = |mask: usize| {
        let is_in = move |n: &usize| mask & (1 << (sets.len() - 1 - n)) != 0;
        (0..sets.len()).filter(is_in).flat_map(|n| sets[n].iter().cloned()).collect()
    };
    (0..all).rev().map(chosen).collect()
}

/// A set that is itself a ROLLUP, CUBE or GROUPING SETS is all of its sets.
fn nested(set: &[Expr]) -> Vec<Vec<Expr>> {
    let arguments = |call: &ast::Function| -> Option<Vec<Vec<Expr>>> {
        let ast::FunctionArguments::List(list) = &call.args else { return None };
        let one = |argument: &ast::FunctionArg| match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(Expr::Tuple(several))) => {
                Some(several.clone())
            }
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(Expr::Nested(e))) => {
                Some(vec![(**e).clone()])
            }
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(vec![e.clone()]),
            _ => None,
        };
        list.args.iter().map(one).collect()
    };
    match set {
        [Expr::Rollup(sets)] => rollup(sets),
        [Expr::Cube(sets)] => cube(sets),
        [Expr::GroupingSets(sets)] => sets.clone(),
        // Inside GROUPING SETS the parser takes them for functions.
        [Expr::Function(call)] => {
            match (sql::names::parts(&call.name).ok().and_then(|mut p| p.pop()).as_deref(), arguments(call)) {
                (Some("rollup"), Some(sets)) => rollup(&sets),
                (Some("cube"), Some(sets)) => cube(&sets),
                _ => vec![set.to_vec()],
            }
        }
        _ => vec![set.to_vec()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_several_columns_are_written_out() {
        for (group_by, wanted) in [
            ("rollup (a, (b, c))", "GROUPING SETS ((a, b, c), (a), ())"),
            ("cube ((a, b), c)", "GROUPING SETS ((a, b, c), (a, b), (c), ())"),
            ("rollup (1, 2)", "ROLLUP (a, b)"),
            ("rollup (a)", "ROLLUP (a)"),
            ("grouping sets (rollup (a), (b))", "GROUPING SETS ((a), (), (b))"),
        ] {
            let mut statement =
                sql::parse::parse(&format!("select a, b from t group by {group_by}")).unwrap().remove(0);
            let ast::Statement::Query(query) = &mut statement else { panic!() };
            let ast::SetExpr::Select(select) = query.body.as_mut() else { panic!() };
            write_out(select);
            assert_eq!(select.group_by.to_string(), format!("GROUP BY {wanted}"));
        }
    }
}
