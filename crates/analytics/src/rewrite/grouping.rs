//! GROUP BY: ROLLUP and CUBE of several columns at once, positions inside them, and the empty group.

use super::aggregates::has_aggregate;
use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{self, Expr, GroupByExpr, Select, SelectItem};
use sql::walk;
use std::ops::ControlFlow;

/// Grouping sets of a query, as in PostgreSQL.
const SETS_MAX: usize = 4096;

/// Elements of a CUBE, as in PostgreSQL.
const CUBE_MAX: usize = 12;

/// Expressions in all grouping sets of a query, with those inside them: each set is a list of its own.
const GROUPED_MAX: usize = 100_000;

/// Writes out what the planner does not know. Errors: 54001, 54011 for more sets than there may be.
pub(super) fn write_out(select: &mut Select) -> SqlResult<()> {
    let projection = &select.projection;
    let GroupByExpr::Expressions(terms, _) = &mut select.group_by else { return Ok(()) };
    refuse_too_many(terms, projection)?;
    for term in terms.iter_mut() {
        refuse_constants(term)?;
        if let Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) = term {
            sets.iter_mut().flatten().for_each(|e| resolve_position(e, projection));
        }
        let is_simple = |sets: &[Vec<Expr>]| sets.iter().all(|set| set.len() == 1) && !repeats(sets);
        match term {
            Expr::Rollup(sets) if !is_simple(sets) => *term = Expr::GroupingSets(rollup(sets)),
            Expr::Cube(sets) if !is_simple(sets) => *term = Expr::GroupingSets(cube(sets)),
            Expr::GroupingSets(sets) => *sets = sets.iter().flat_map(|set| nested(set)).collect(),
            _ => {}
        }
        if let Expr::GroupingSets(sets) = term {
            sets.iter_mut().for_each(keep_first);
        }
    }
    let is_empty = |term: &Expr| matches!(term, Expr::Tuple(all) if all.is_empty());
    if terms.iter().any(is_empty) {
        terms.retain(|term| !is_empty(term));
        if terms.is_empty() && !projection.iter().any(|item| item.to_string().contains('(')) {
            terms.push(Expr::GroupingSets(vec![Vec::new()]));
        }
    }
    Ok(())
}

/// HAVING in a query that has neither GROUP BY nor aggregates. All rows are one group, even if there are none, so the query
/// shows at most one row. If nothing names a column, HAVING becomes a condition on that row.
pub(super) fn having_of_all_rows(select: &mut Select, is_aggregate: &dyn Fn(&str) -> bool) -> SqlResult<()> {
    let is_ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(terms, _) if terms.is_empty());
    let Some(having) = select.having.as_ref().filter(|_| is_ungrouped) else { return Ok(()) };
    let is_one_row =
        |e: &Expr| !has_aggregate(e, is_aggregate) && !super::ordered::has_window(e) && is_constant(e);
    let items = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => is_one_row(e),
        _ => false,
    };
    if !is_one_row(having) || !select.projection.iter().all(items) {
        return Ok(());
    }
    let condition = select.having.take();
    let before = select.selection.take();
    select.selection = match select.from.is_empty() {
        true => condition,
        // The tables have to be there, and their rows count for nothing.
        false => {
            let from: Vec<String> = select.from.drain(..).map(|from| from.to_string()).collect();
            let rows = before.map(|e| format!(" WHERE {e}")).unwrap_or_default();
            let rows = format!("(SELECT count(*) FROM {}{rows}) >= 0", from.join(", "));
            let rows = sql::parse::parse_expr(&rows)?;
            condition.map(|condition| Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(condition))),
                op: ast::BinaryOperator::And,
                right: Box::new(rows),
            })
        }
    };
    Ok(())
}

/// Whether an expression names nothing.
fn is_constant(e: &Expr) -> bool {
    let found: ControlFlow<()> = walk::expressions(e, |e| match e {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Subquery(_)
        | Expr::Exists { .. }
        | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_continue()
}

/// Counts grouping sets before any is written out. Errors: 54001; 54011 for a CUBE of too many elements.
fn refuse_too_many(terms: &[Expr], projection: &[SelectItem]) -> SqlResult<()> {
    let too_many = |told: String| Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, told));
    let weight = |e: &Expr| expressions(at_position(e, projection).unwrap_or(e));
    let mut all = Sets { count: 1, weight: 0 };
    for term in terms {
        let own = counted(std::slice::from_ref(term), &weight)?;
        // Each set of one goes with each set of the other.
        all.weight =
            (all.weight.saturating_mul(own.count)).saturating_add(own.weight.saturating_mul(all.count));
        all.count = all.count.saturating_mul(own.count);
    }
    if all.count > SETS_MAX {
        return too_many(format!("too many grouping sets present (maximum {SETS_MAX})"));
    }
    if all.count > 1 && all.weight > GROUPED_MAX {
        return too_many(format!("grouping sets have more than {GROUPED_MAX} expressions together"));
    }
    Ok(())
}

/// Grouping sets, and how many expressions they have together.
#[derive(Clone, Copy)]
struct Sets {
    count: usize,
    weight: usize,
}

/// The sets that one stands for. Errors: 54011.
fn counted(set: &[Expr], weight: &dyn Fn(&Expr) -> usize) -> SqlResult<Sets> {
    let one = |set: &Vec<Expr>| -> usize { set.iter().map(weight).sum() };
    let rolled = |sets: &[Vec<Expr>]| {
        let kept = (1..=sets.len()).rev();
        Sets {
            count: sets.len() + 1,
            weight: sets.iter().zip(kept).map(|(set, times)| one(set) * times).sum(),
        }
    };
    let cubed = |sets: &[Vec<Expr>]| {
        if sets.len() > CUBE_MAX {
            let told = format!("CUBE is limited to {CUBE_MAX} elements");
            return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, told));
        }
        let count = 1 << sets.len();
        Ok(Sets { count, weight: sets.iter().map(one).sum::<usize>() * count / 2 })
    };
    match set {
        [Expr::Rollup(sets)] => Ok(rolled(sets)),
        [Expr::Cube(sets)] => cubed(sets),
        [Expr::GroupingSets(sets)] => sets.iter().try_fold(Sets { count: 0, weight: 0 }, |all, set| {
            let more = counted(set, weight)?;
            Ok(Sets { count: all.count + more.count, weight: all.weight + more.weight })
        }),
        // Inside GROUPING SETS the parser takes them for functions.
        [Expr::Function(call)] => match called(call) {
            Some(("rollup", sets)) => Ok(rolled(&sets)),
            Some((_, sets)) => cubed(&sets),
            None => Ok(Sets { count: 1, weight: weight(&set[0]) }),
        },
        _ => Ok(Sets { count: 1, weight: set.iter().map(weight).sum() }),
    }
}

/// The expressions that an expression is made of.
fn expressions(e: &Expr) -> usize {
    let mut count = 0;
    let _: ControlFlow<()> = walk::expressions(e, |_| {
        count += 1;
        ControlFlow::Continue(())
    });
    count
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

/// Errors: 42601 for a constant as a group that stands for no item of the list.
fn refuse_constants(term: &Expr) -> SqlResult<()> {
    match term {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
            sets.iter().flatten().try_for_each(refuse_constants)
        }
        term => refuse_constant(term, "GROUP BY"),
    }
}

/// A constant that is no whole number stands for no item of the list. Errors: 42601.
pub(super) fn refuse_constant(e: &Expr, clause: &str) -> SqlResult<()> {
    let mut e = e;
    while let Expr::Nested(inner) = e {
        e = inner;
    }
    let is_refused = match e {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(n, _) => n.parse::<i32>().is_err(),
            ast::Value::Null | ast::Value::Boolean(_) | ast::Value::SingleQuotedString(_) => true,
            _ => false,
        },
        _ => false,
    };
    match is_refused {
        true => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}"))),
        false => Ok(()),
    }
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

/// Whether an expression is in the list more than once.
fn repeats(sets: &[Vec<Expr>]) -> bool {
    let all: Vec<&Expr> = sets.iter().flatten().collect();
    (1..all.len()).any(|n| all[..n].contains(&all[n]))
}

/// Rows are grouped by an expression once, however often a set says it.
fn keep_first(set: &mut Vec<Expr>) {
    let mut n = 0;
    while n < set.len() {
        match set[..n].contains(&set[n]) {
            true => _ = set.remove(n),
            false => n += 1,
        }
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
    match set {
        [Expr::Rollup(sets)] => rollup(sets),
        [Expr::Cube(sets)] => cube(sets),
        [Expr::GroupingSets(sets)] => sets.clone(),
        // Inside GROUPING SETS the parser takes them for functions.
        [Expr::Function(call)] => match called(call) {
            Some(("rollup", sets)) => rollup(&sets),
            Some((_, sets)) => cube(&sets),
            None => vec![set.to_vec()],
        },
        _ => vec![set.to_vec()],
    }
}

/// A ROLLUP or CUBE that the parser took for a function: which one, and its sets.
fn called(call: &ast::Function) -> Option<(&'static str, Vec<Vec<Expr>>)> {
    let name = match sql::names::parts(&call.name).ok()?.pop()?.as_str() {
        "rollup" => "rollup",
        "cube" => "cube",
        _ => return None,
    };
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let one = |argument: &ast::FunctionArg| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(Expr::Tuple(several))) => Some(several.clone()),
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(Expr::Nested(e))) => Some(vec![(**e).clone()]),
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(vec![e.clone()]),
        _ => None,
    };
    Some((name, list.args.iter().map(one).collect::<Option<_>>()?))
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
            ("rollup (a, a)", "GROUPING SETS ((a), (a), ())"),
            ("grouping sets ((a, a), (b, a, b))", "GROUPING SETS ((a), (b, a))"),
            ("grouping sets (rollup (a), (b))", "GROUPING SETS ((a), (), (b))"),
        ] {
            let mut statement =
                sql::parse::parse(&format!("select a, b from t group by {group_by}")).unwrap().remove(0);
            let ast::Statement::Query(query) = &mut statement else { panic!() };
            let ast::SetExpr::Select(select) = query.body.as_mut() else { panic!() };
            write_out(select).unwrap();
            assert_eq!(select.group_by.to_string(), format!("GROUP BY {wanted}"));
        }
    }
}
