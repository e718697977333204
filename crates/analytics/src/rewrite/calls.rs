//! Functions behind FROM and functions that make rows in select lists, as the planner knows them.
//!
//! A column of a set that has an alias is called by it; a function that is no set is a set of one row. A series over anything
//! but constants, and any set that is numbered (WITH ORDINALITY), is the list of its values, which `unnest` makes rows of.

mod sets;

use crate::engine::Analytics;
use crate::regexes;
use crate::sets::{SERIES, SERIES_LIST};
use base::{DataType, SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, Ident, SelectItem, Statement, TableAlias, TableAliasColumnDef,
    TableFactor, VisitorMut,
};
use sets::{is_small, number, set_over_outside, type_bounds};
use sql::walk;
use std::ops::ControlFlow;

/// The set of an array's places.
pub(super) const SUBSCRIPTS: &str = "generate_subscripts";

/// Functions behind FROM.
pub(super) struct CallsInFrom<'a> {
    pub analytics: &'a Analytics,
}

impl VisitorMut for CallsInFrom<'_> {
    type Break = SqlError;

    /// A set in a list of columns keeps its name.
    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<SqlError> {
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr @ Expr::Function(_)) = &*item
                    && let name = sql::lower::output_name(expr)
                    && (name == SERIES || name == SUBSCRIPTS || regexes::SETS.contains(&name.as_str()))
                {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(name) };
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// A set beside another relation may be one over its columns.
    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<SqlError> {
        for (n, from) in select.from.iter_mut().enumerate() {
            if n == 0
                && let Some(query) = set_over_outside(&from.relation)
            {
                from.relation = query;
            }
            let first = Some(&mut from.relation).filter(|_| n > 0);
            for factor in first.into_iter().chain(from.joins.iter_mut().map(|join| &mut join.relation)) {
                let (name, alias, arguments) = match &*factor {
                    TableFactor::Table { name, alias, args: Some(args), with_ordinality: false, .. } => {
                        (name, alias, &args.args)
                    }
                    TableFactor::Function { name, alias, args, with_ordinality: false, .. } => {
                        (name, alias, args)
                    }
                    _ => continue,
                };
                if !names_columns(arguments) {
                    continue;
                }
                if let Some(TableFactor::Derived { subquery, alias, sample, .. }) =
                    set_as_query(name, arguments, alias.as_ref())
                {
                    *factor = TableFactor::Derived { lateral: true, subquery, alias, sample };
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        type_bounds(factor);
        match factor {
            TableFactor::Table { sample: Some(_), .. } => match super::samples::query_of_sample(factor) {
                Ok(Some(sample)) => {
                    *factor = sample;
                    return ControlFlow::Continue(());
                }
                Ok(None) => return ControlFlow::Break(SqlError::unsupported("TABLESAMPLE of a function")),
                Err(error) => return ControlFlow::Break(error),
            },
            TableFactor::UNNEST { array_exprs, .. } if array_exprs.iter().all(crate::system::is_vector) => {
                return ControlFlow::Continue(());
            }
            _ => {}
        }
        if let Some(unnested) = several_lists(factor).or_else(|| as_list(factor)) {
            *factor = unnested;
        }
        match factor {
            TableFactor::Table { with_ordinality: true, .. }
            | TableFactor::Function { with_ordinality: true, .. }
            | TableFactor::UNNEST { with_ordinality: true, .. } => {
                return ControlFlow::Break(SqlError::unsupported("WITH ORDINALITY of this function"));
            }
            _ => {}
        }
        let TableFactor::Table { name, alias, args: Some(arguments), .. } = factor else {
            return ControlFlow::Continue(());
        };
        let Some(function) = sql::names::parts(name).ok().and_then(|mut parts| parts.pop()) else {
            return ControlFlow::Continue(());
        };
        let given: Vec<String> = arguments.args.iter().map(ToString::to_string).collect();
        if let Some(derived) = set_as_query(name, &arguments.args, alias.as_ref()) {
            *factor = derived;
            return ControlFlow::Continue(());
        }
        let state = &self.analytics.state;
        if state.table_functions().contains_key(&function) {
            if let Some(alias) = alias.as_mut().filter(|a| a.columns.is_empty()) {
                let column = TableAliasColumnDef { name: alias.name.clone(), data_type: None };
                alias.columns.push(column);
            }
        } else if state.scalar_functions().contains_key(&function) {
            let shown = alias.as_ref().map_or_else(|| Ident::new(&function), |a| a.name.clone());
            let text = format!("SELECT 1 FROM (SELECT {name}({}) AS {shown}) AS {shown}", given.join(", "));
            if let Some(mut derived) = first_factor(&text) {
                if let (TableFactor::Derived { alias: made, .. }, Some(alias)) = (&mut derived, alias.take())
                {
                    *made = Some(alias);
                }
                *factor = derived;
            }
        }
        ControlFlow::Continue(())
    }

    /// Literals are integers in PostgreSQL, where the planner's series has bigints only.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let TableFactor::Table { name, alias, args: Some(arguments), .. } = factor else {
            return ControlFlow::Continue(());
        };
        let function = sql::names::parts(name).ok().and_then(|mut parts| parts.pop());
        if function.as_deref() != Some("generate_series") {
            return ControlFlow::Continue(());
        }
        let are_small = arguments.args.iter().all(is_small);
        // The planner's series computes nothing.
        for argument in &mut arguments.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(
                e @ (Expr::BinaryOp { .. } | Expr::Cast { .. } | Expr::UnaryOp { .. } | Expr::Nested(_)),
            )) = argument
                && let Some(n) = number(e)
            {
                *e = Expr::value(ast::Value::Number(n.to_string(), false));
            }
        }
        if !are_small {
            return ControlFlow::Continue(());
        }
        let shown = alias.as_ref().map_or_else(|| Ident::new("generate_series"), |a| a.name.clone());
        let named = alias.as_ref().and_then(|a| a.columns.first()).map(|c| c.name.clone());
        let column = named.unwrap_or_else(|| shown.clone());
        let given: Vec<String> = arguments.args.iter().map(ToString::to_string).collect();
        let text = format!(
            "SELECT 1 FROM (SELECT CAST(n AS integer) AS {column} FROM {name}({}) AS s(n)) AS {shown}({column})",
            given.join(", ")
        );
        if let Some(derived) = first_factor(&text) {
            *factor = derived;
        }
        ControlFlow::Continue(())
    }
}

fn names_columns(arguments: &[FunctionArg]) -> bool {
    let arguments = arguments.to_vec();
    let found = walk::expressions(&arguments, |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Rows of JSON or of matches, as a query in the place of their function. `None` for other functions.
fn set_as_query(
    name: &ast::ObjectName,
    arguments: &[FunctionArg],
    alias: Option<&TableAlias>,
) -> Option<TableFactor> {
    let function = sql::names::parts(name).ok()?.pop()?;
    if let Some(text) = crate::json_functions::in_from(&function, arguments, alias) {
        return first_factor(&text);
    }
    let given: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let written = alias.map(|alias| alias.name.to_string());
    if let Some(text) = crate::text_search_functions::in_from(&function, &given, written.as_deref()) {
        return first_factor(&text);
    }
    let unnested = regexes::unnested(&function, &given)?;
    let shown = alias.map_or_else(|| Ident::new(&function), |a| a.name.clone());
    let named = alias.map_or_else(|| format!("AS {shown}"), ToString::to_string);
    first_factor(&format!("SELECT 1 FROM (SELECT {unnested} AS {shown}) {named}"))
}

/// `generate_series` and `unnest` of lists that have to be made, with the names that their columns have; `None` for others.
fn as_list(factor: &TableFactor) -> Option<TableFactor> {
    let (mut lists, alias, shown, is_numbered) = match factor {
        TableFactor::Table { name, args: Some(arguments), alias, with_ordinality, .. } => {
            let (list, shown) = list_of_set(name, &arguments.args, *with_ordinality)?;
            (vec![list], alias, shown, *with_ordinality)
        }
        // LATERAL changes nothing where no other table is named, and may be left out where one is.
        TableFactor::Function { name, args, alias, with_ordinality, .. } => match args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] if is_named(name, "unnest") => {
                (vec![list.clone()], alias, "unnest", *with_ordinality)
            }
            args => {
                let (list, shown) = list_of_set(name, args, true)?;
                (vec![list], alias, shown, *with_ordinality)
            }
        },
        TableFactor::UNNEST { array_exprs, alias, with_ordinality, with_offset: false, .. } => {
            let is_named = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
            if array_exprs.len() != 1 || is_named && !with_ordinality {
                return None;
            }
            (array_exprs.clone(), alias, "unnest", *with_ordinality)
        }
        _ => return None,
    };
    if is_numbered {
        let list = &lists[0];
        let numbers =
            format!("{SERIES_LIST}(CAST(1 AS bigint), CAST(coalesce(array_length({list}, 1), 0) AS bigint))");
        lists.push(sql::parse::parse_expr(&numbers).ok()?);
    }
    let mut alias = alias.clone().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(shown),
        columns: Vec::new(),
        at: None,
    });
    let column = |name: Ident| TableAliasColumnDef { name, data_type: None };
    if alias.columns.is_empty() {
        alias.columns.push(column(alias.name.clone()));
    }
    if is_numbered && alias.columns.len() == 1 {
        alias.columns.push(column(Ident::new("ordinality")));
    }
    Some(TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: lists,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    })
}

/// `unnest(a, b, …)` as a query that unnests each list in a column of its own: the planner would take equal lists for one,
/// and calls the columns by their lists. `None` for others, and where a list names a column.
fn several_lists(factor: &TableFactor) -> Option<TableFactor> {
    let TableFactor::UNNEST { array_exprs, alias, with_ordinality, with_offset: false, .. } = factor else {
        return None;
    };
    let names_a_column = walk::expressions(array_exprs, |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if array_exprs.len() < 2 || names_a_column.is_break() {
        return None;
    }
    let mut columns: Vec<String> =
        array_exprs.iter().map(|list| format!("{} AS unnest", elements_of(list))).collect();
    if *with_ordinality {
        let lengths: Vec<String> =
            array_exprs.iter().map(|list| format!("coalesce(array_length({list}, 1), 0)")).collect();
        let longest = format!("CAST(greatest({}) AS bigint)", lengths.join(", "));
        columns.push(format!("unnest({SERIES_LIST}(CAST(1 AS bigint), {longest})) AS ordinality"));
    }
    let alias = alias.as_ref().map_or_else(|| "AS unnest".to_string(), ToString::to_string);
    first_factor(&format!("SELECT 1 FROM (SELECT {}) {alias}", columns.join(", ")))
}

/// The elements of a list, with the type that the list does not keep of its own elements.
fn elements_of(list: &Expr) -> String {
    let element = match list {
        Expr::Nested(inner) => return elements_of(inner),
        Expr::Array(array) => array.elem.first(),
        _ => None,
    };
    let rows = format!("unnest({list})");
    match element {
        Some(Expr::Cast { data_type, .. })
            if matches!(sql::names::data_type(data_type), Ok(DataType::Uuid | DataType::Json)) =>
        {
            format!("CAST({rows} AS {data_type})")
        }
        _ => rows,
    }
}

fn is_named(function: &ast::ObjectName, name: &str) -> bool {
    sql::names::parts(function).is_ok_and(|parts| parts.last().is_some_and(|last| last == name))
}

/// The list that a set of rows is, and the set's name. `None` for other functions.
fn list_of_set(
    name: &ast::ObjectName,
    arguments: &[FunctionArg],
    even_constants: bool,
) -> Option<(Expr, &'static str)> {
    if let Some(list) = series(name, arguments, even_constants) {
        return Some((list, SERIES));
    }
    if is_named(name, SUBSCRIPTS) {
        return subscripts_of(&values_of(arguments)?).map(|list| (list, SUBSCRIPTS));
    }
    let set = *regexes::SETS.iter().find(|set| is_named(name, set))?;
    let given: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let (list, element) = regexes::set_as_list(set, &given)?;
    // Elements of another type are made of the list's once there are rows of them.
    if element == "text" { sql::parse::parse_expr(&list).ok().map(|list| (list, set)) } else { None }
}

/// Arguments that have no names.
fn values_of(arguments: &[FunctionArg]) -> Option<Vec<&Expr>> {
    arguments
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e),
            _ => None,
        })
        .collect()
}

/// The list of the places in an array that `generate_subscripts` gives. `None` for other arguments, and for vectors of the
/// catalog, which begin at 0.
pub(super) fn subscripts_of(arguments: &[&Expr]) -> Option<Expr> {
    let [list, dimension] = arguments else { return None };
    if crate::system::is_vector(list) {
        return None;
    }
    let last = format!("coalesce(CAST(array_length({list}, {dimension}) AS integer), 0)");
    sql::parse::parse_expr(&format!("{SERIES_LIST}(CAST(1 AS integer), CAST({last} AS integer))")).ok()
}

/// A call of `generate_series` as an expression, unless the planner has a table of its rows: one of constants.
fn series(name: &ast::ObjectName, arguments: &[FunctionArg], even_constants: bool) -> Option<Expr> {
    if !is_named(name, SERIES) {
        return None;
    }
    let given = values_of(arguments)?;
    if !even_constants && given.iter().all(|e| is_whole_constant(e)) {
        return None;
    }
    list_of(&given)
}

/// The list of a series' values. Small literals are integers, as in PostgreSQL.
pub(super) fn list_of(arguments: &[&Expr]) -> Option<Expr> {
    let moment = arguments.iter().take(2).find_map(|e| moment_type(e));
    let typed = |(n, e): (usize, &&Expr)| match (&moment, n, e) {
        (Some(moment), 0 | 1, Expr::Value(_)) => Some(format!("CAST({e} AS {moment})")),
        (_, 2, Expr::Value(value)) if is_word(&value.value) => Some(format!("CAST({e} AS interval)")),
        _ => None,
    };
    let shown = |e: &&Expr| match is_small(&FunctionArg::Unnamed(FunctionArgExpr::Expr((*e).clone()))) {
        true => format!("CAST({e} AS integer)"),
        false => e.to_string(),
    };
    let given: Vec<String> =
        arguments.iter().enumerate().map(|at| typed(at).unwrap_or_else(|| shown(at.1))).collect();
    sql::parse::parse_expr(&format!("{SERIES_LIST}({})", given.join(", "))).ok()
}

/// The type of a bound that shows it: a literal beside it is one, too.
fn moment_type(e: &Expr) -> Option<String> {
    let shown = match e {
        Expr::Nested(inner) => return moment_type(inner),
        Expr::Cast { data_type, .. } | Expr::TypedString(ast::TypedString { data_type, .. }) => data_type,
        _ => return None,
    };
    let is_moment = matches!(sql::names::data_type(shown), Ok(DataType::Timestamp | DataType::TimestampTz));
    is_moment.then(|| shown.to_string())
}

/// A text that is no whole number.
fn is_word(value: &ast::Value) -> bool {
    matches!(value, ast::Value::SingleQuotedString(text) if text.trim().parse::<i64>().is_err())
}

/// Whether an expression is a whole number or NULL, as far as can be told without types.
fn is_whole_constant(e: &Expr) -> bool {
    match e {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse::<i64>().is_ok(),
            other => *other == ast::Value::Null,
        },
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_whole_constant(inner),
        Expr::BinaryOp { .. } | Expr::Cast { .. } => number(e).is_some(),
        _ => false,
    }
}

fn first_factor(text: &str) -> Option<TableFactor> {
    let Some(Statement::Query(query)) = sql::parse::parse(text).ok()?.pop() else { return None };
    match *query.body {
        ast::SetExpr::Select(mut select) => select.from.pop().map(|from| from.relation),
        _ => None,
    }
}

/// Only `count` takes `*`. Errors: 42883 for others.
pub(super) fn refuse_star(function: &ast::Function) -> base::error::SqlResult<()> {
    let ast::FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] = list.args.as_slice() else { return Ok(()) };
    match sql::names::parts(&function.name)?.pop() {
        Some(name) if name != "count" => {
            let told = format!("function {name}() does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, told).hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            ))
        }
        _ => Ok(()),
    }
}

/// What a function returns, where the planner's returns something else.
pub(super) fn returned(name: &str, is_over_window: bool) -> Option<&'static str> {
    match name {
        // Numbers without a sign in the planner, which unite with no integer.
        "row_number" | "rank" | "dense_rank" if is_over_window => Some("bigint"),
        "ntile" if is_over_window => Some("integer"),
        // Most units are integers in the planner.
        "date_part" => Some("double precision"),
        "array_position" | "cardinality" => Some("integer"),
        "array_positions" => Some("integer[]"),
        _ => None,
    }
}

/// `make_interval`, whose arguments may be named and left out, with all of them. `None` for others than there are.
pub(super) fn interval_of_parts(function: &ast::Function) -> Option<Expr> {
    const PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let is_named = |argument: &FunctionArg| matches!(argument, FunctionArg::Named { .. });
    if list.args.len() == PARTS.len() && !list.args.iter().any(is_named) {
        return None;
    }
    let mut parts = PARTS.map(|_| "0".to_string());
    for (n, argument) in list.args.iter().enumerate() {
        let (at, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => (n, e),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(e), .. } => {
                let name = sql::names::fold(name);
                (PARTS.iter().position(|part| *part == name)?, e)
            }
            _ => return None,
        };
        *parts.get_mut(at)? = value.to_string();
    }
    sql::parse::parse_expr(&format!("make_interval({})", parts.join(", "))).ok()
}

/// `a[2:]`, with the last element that there can be as its end. `None` where there is no such slice.
pub(super) fn open_slice(e: &Expr) -> base::error::SqlResult<Option<Expr>> {
    use ast::{AccessExpr, Subscript};
    let Expr::CompoundFieldAccess { root, access_chain } = e else { return Ok(None) };
    let (mut access_chain, mut any) = (access_chain.clone(), false);
    for access in &mut access_chain {
        if let AccessExpr::Subscript(Subscript::Slice { upper_bound: end @ None, .. }) = access {
            *end = Some(sql::parse::parse_expr(&i32::MAX.to_string())?);
            any = true;
        }
    }
    Ok(any.then(|| Expr::CompoundFieldAccess { root: root.clone(), access_chain }))
}

/// `extract(unit FROM at)` as a call, which the planner would take for one of `date_part`.
pub(super) fn extract(unit: &ast::DateTimeField, at: &Expr) -> base::error::SqlResult<Expr> {
    let unit = unit.to_string();
    let unit = unit.trim_matches(|c| c == '\'' || c == '"').replace('\'', "''");
    sql::parse::parse_expr(&format!("\"extract\"('{unit}', {at})"))
}
