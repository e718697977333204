//! Puts a body and the arguments of a call in the place of the call.

use super::body::{self, argument_of};
use super::hiding;
use crate::aggregates::is_aggregate;
use crate::names;
use crate::names::quoted;
use crate::volatile::is_volatile;
use crate::walk::{self, Node, NodeMut, Walk};
use base::routines::TypeOf;
use sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, LimitClause, Query, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, Value, Visitor,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Begins names that no text of a user has.
const OWN: char = crate::parse::OWN_NAMES;

/// Functions that give many rows where a value is asked for.
const SETS: &[&str] = &[
    "generate_series",
    "unnest",
    "regexp_matches",
    "regexp_split_to_table",
    "string_to_table",
    "json_array_elements",
    "jsonb_array_elements",
    "json_array_elements_text",
    "jsonb_array_elements_text",
    "json_each",
    "jsonb_each",
    "json_object_keys",
    "jsonb_object_keys",
    "jsonb_path_query",
    "jsonb_path_query_tz",
    "generate_subscripts",
];

/// The expression that a query is about, if it is about one alone.
pub(super) fn plain(query: &Query) -> Option<&Expr> {
    let is_bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_one_row = select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && select.qualify.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    match select.projection.as_slice() {
        [item] if is_bare && is_one_row => {
            body::expression(item).filter(|e| !has_aggregate(*e) && !has_set(e))
        }
        _ => None,
    }
}

pub(super) fn has_aggregate(node: &(impl Node + ?Sized)) -> bool {
    let found: ControlFlow<()> = walk::expressions(node, |e| match e {
        Expr::Function(function) if function.over.is_some() || is_aggregate(function) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn has_set(e: &Expr) -> bool {
    let found: ControlFlow<()> = walk::expressions(e, |e| match e {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(names::fold);
            match name.is_some_and(|name| SETS.contains(&name.as_str())) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

pub(super) fn has_subquery(e: &Expr) -> bool {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    e.walk(&mut Queries).is_break()
}

/// The first row of a query as a query, as far as it may have more than one.
pub(super) fn first_row(mut query: Query) -> Query {
    let gives_one = match query.body.as_ref() {
        SetExpr::Select(select) => {
            let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
            let is_total =
                !is_grouped && select.projection.iter().filter_map(body::expression).any(aggregates);
            let is_value = select.from.is_empty()
                && select.projection.iter().filter_map(body::expression).all(|e| !has_set(e));
            is_total || is_value
        }
        _ => false,
    };
    if gives_one {
        return query;
    }
    let one = || Expr::Value(Value::Number("1".into(), false).into());
    match &mut query.limit_clause {
        None if query.fetch.is_none() => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(one()), offset: None, limit_by: Vec::new() });
            query
        }
        Some(LimitClause::LimitOffset { limit, limit_by, .. })
            if limit_by.is_empty() && is_some_number(limit.as_ref()) =>
        {
            *limit = Some(one());
            query
        }
        _ => {
            let mut outer = select_of(Vec::new());
            if let SetExpr::Select(select) = outer.body.as_mut() {
                select.projection = vec![SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())];
            }
            set_from(&mut outer, query, "rows", &[]);
            first_row(outer)
        }
    }
}

/// Whether a limit is none, or a number of rows that is not 0.
fn is_some_number(limit: Option<&Expr>) -> bool {
    match limit {
        None => true,
        Some(Expr::Value(value)) => {
            matches!(&value.value, Value::Number(n, _) if n.parse::<u64>().is_ok_and(|n| n > 0))
        }
        Some(_) => false,
    }
}

/// Whether an expression aggregates the rows of its own query.
fn aggregates(e: &Expr) -> bool {
    struct Own {
        depth: usize,
    }
    impl Visitor for Own {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
            match e {
                Expr::Function(f) if self.depth == 0 && f.over.is_none() && is_aggregate(f) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    e.walk(&mut Own { depth: 0 }).is_break()
}

/// How often each argument is read.
fn uses(node: &(impl Node + ?Sized), count: usize) -> Vec<usize> {
    let mut uses = vec![0; count];
    let _: ControlFlow<()> = walk::expressions(node, |e| {
        if let Some(place) = argument_of(e).and_then(|nth| uses.get_mut(nth.wrapping_sub(1))) {
            *place += 1;
        }
        ControlFlow::Continue(())
    });
    uses
}

/// Arguments that have to be computed before the body is: their value is another one each time, or takes a query.
pub(super) fn computed_once(node: &(impl Node + ?Sized), bound: &[Expr]) -> Vec<bool> {
    let uses = uses(node, bound.len());
    uses.iter().zip(bound).map(|(uses, e)| *uses > 1 && (is_volatile(e) || has_subquery(e))).collect()
}

/// Expressions of a body with its arguments put in.
pub(super) fn size_with(node: &(impl Node + ?Sized), bound: &[Expr]) -> usize {
    let uses = uses(node, bound.len());
    size(node) + uses.iter().zip(bound).map(|(uses, e)| uses * size(e)).sum::<usize>()
}

fn size(node: &(impl Node + ?Sized)) -> usize {
    let mut count = 0;
    let _: ControlFlow<()> = walk::expressions(node, |_| {
        count += 1;
        ControlFlow::Continue(())
    });
    count
}

/// A value over a row of the arguments that are computed once.
pub(super) fn over_arguments(mut value: Expr, bound: &[Expr], once: &[bool]) -> Expr {
    let name = |nth: usize| format!("argument{nth}");
    let _: ControlFlow<()> = walk::expressions_mut(&mut value, |e| {
        if let Some(nth) = argument_of(e).filter(|nth| once.get(nth.wrapping_sub(1)) == Some(&true)) {
            *e = Expr::CompoundIdentifier(vec![own("arguments"), quoted(&name(nth))]);
        }
        ControlFlow::Continue(())
    });
    let kept = bound.iter().enumerate().filter(|(at, _)| once[*at]);
    let row = select_of(kept.map(|(at, e)| (e.clone(), name(at + 1))).collect());
    let mut query = select_of(vec![(value, "value".into())]);
    set_from(&mut query, row, "arguments", &[]);
    Expr::Subquery(Box::new(query))
}

pub(super) fn own(name: &str) -> Ident {
    Ident::with_quote('"', format!("{OWN}{name}"))
}

/// Puts arguments where they are read. What the body's tables are called hides nothing that they name.
pub(super) fn put(node: &mut (impl NodeMut + Node + ?Sized), bound: &[Expr], once: &[bool]) {
    let mut named = BTreeSet::new();
    for e in bound {
        let _: ControlFlow<()> = walk::expressions(e, |e| {
            if let Expr::CompoundIdentifier(path) = e
                && let [.., of, _] = path.as_slice()
            {
                named.insert(names::fold(of));
            }
            ControlFlow::Continue(())
        });
    }
    hiding::rename(node, &named);
    let _: ControlFlow<()> = walk::expressions_mut(node, |e| {
        if let Some(at) = argument_of(e).map(|nth| nth.wrapping_sub(1))
            && let Some(argument) = bound.get(at).filter(|_| once.get(at) == Some(&false))
        {
            *e = match argument {
                Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Nested(_) => {
                    argument.clone()
                }
                Expr::Cast { data_type, .. } if !matches!(data_type, ast::DataType::Array(_)) => {
                    argument.clone()
                }
                other => Expr::Nested(Box::new(other.clone())),
            };
        }
        ControlFlow::Continue(())
    });
    body::bare_limits(node);
}

/// NULL where an argument is NULL.
pub(super) fn strict(value: Expr, bound: &[Expr]) -> Expr {
    let Some(is_null) = tests(bound, Expr::IsNull, ast::BinaryOperator::Or) else { return value };
    let null = Expr::Value(Value::Null.into());
    Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![ast::CaseWhen { condition: is_null, result: null }],
        else_result: Some(Box::new(value)),
    }
}

/// No rows where an argument is NULL.
pub(super) fn unless_null(query: Query, bound: &[Expr]) -> Query {
    let Some(is_known) = tests(bound, Expr::IsNotNull, ast::BinaryOperator::And) else { return query };
    let mut outer = select_of(Vec::new());
    if let SetExpr::Select(select) = outer.body.as_mut() {
        select.projection = vec![SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())];
        select.selection = Some(is_known);
    }
    set_from(&mut outer, query, "rows", &[]);
    outer
}

/// A test of every argument that is not a value already.
fn tests(bound: &[Expr], test: impl Fn(Box<Expr>) -> Expr, op: ast::BinaryOperator) -> Option<Expr> {
    let is_value = |e: &Expr| match e {
        Expr::Cast { expr, .. } => is_value(expr),
        e => is_value(e),
    };
    let open = bound.iter().enumerate().filter(|(_, e)| !is_value(e));
    let tests = open.map(|(at, _)| test(Box::new(body::argument(at + 1))));
    tests.reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    })
}

fn is_value(e: &Expr) -> bool {
    matches!(e, Expr::Value(value) if !matches!(value.value, Value::Null | Value::Placeholder(_)))
}

/// One row: the first of a query, or one of NULLs.
pub(super) fn one_row(query: Query, wanted: &[(String, TypeOf)]) -> Query {
    let names: Vec<String> = wanted.iter().map(|(name, _)| name.clone()).collect();
    let (one, rows) = (own("one"), own("rows"));
    let text =
        format!("SELECT {rows}.* FROM (SELECT 1 AS one) AS {one} LEFT JOIN (SELECT 1) AS {rows} ON true");
    let mut outer = parsed(&text);
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(TableFactor::Derived { subquery, alias: Some(alias), .. }) =
            select.from.first_mut().and_then(|from| from.joins.first_mut()).map(|join| &mut join.relation)
    {
        **subquery = first_row(query);
        alias.columns = columns(&names);
    }
    outer
}

fn columns(names: &[String]) -> Vec<ast::TableAliasColumnDef> {
    names.iter().map(|name| ast::TableAliasColumnDef { name: quoted(name), data_type: None }).collect()
}

/// `SELECT … AS …, …`.
pub(super) fn select_of(items: Vec<(Expr, String)>) -> Query {
    let mut query = parsed("SELECT 1");
    if let SetExpr::Select(select) = query.body.as_mut() {
        let item = |(expr, name): (Expr, String)| SelectItem::ExprWithAlias { expr, alias: quoted(&name) };
        select.projection = items.into_iter().map(item).collect();
    }
    query
}

fn parsed(text: &str) -> Query {
    match crate::parse::parse(text).map(|mut statements| statements.pop()) {
        Ok(Some(Statement::Query(query))) => *query,
        _ => unreachable!("{text} is a query"),
    }
}

/// Reads a query in FROM.
pub(super) fn set_from(outer: &mut Query, query: Query, alias: &str, names: &[String]) {
    let alias = ast::TableAlias { explicit: true, name: own(alias), columns: columns(names), at: None };
    let relation =
        TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
    if let SetExpr::Select(select) = outer.body.as_mut() {
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
}

/// More rows than a query has. Rows of a subquery stay in their order where it has a limit.
pub(super) const ALL_ROWS: &str = "4611686018427387903";

/// The rows of a query with their numbers behind their columns.
pub(super) fn numbered(mut query: Query) -> Query {
    let is_sorted = query.order_by.is_some() && query.fetch.is_none();
    let all = Some(Expr::Value(Value::Number(ALL_ROWS.into(), false).into()));
    match &mut query.limit_clause {
        none @ None if is_sorted => {
            *none = Some(LimitClause::LimitOffset { limit: all, offset: None, limit_by: Vec::new() });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) if is_sorted => *limit = all,
        _ => {}
    }
    let rows = own("rows");
    let mut outer = parsed(&format!("SELECT {rows}.*, row_number() OVER () AS ordinality"));
    set_from(&mut outer, query, "rows", &[]);
    outer
}

/// The items of a query's own list, if a cast of one is a cast of its values.
pub(super) fn items_mut(query: &mut Query) -> Option<&mut Vec<SelectItem>> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let is_list = select.projection.iter().all(|item| body::expression(item).is_some());
    (is_list && select.distinct.is_none() && query.order_by.is_none()).then_some(&mut select.projection)
}
