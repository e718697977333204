//! What PostgreSQL writes one way and DataFusion another, changed in the statement before planning.

mod aggregates;
mod arrays;
mod bags;
mod calls;
mod correlated;
mod distinct_on;
mod grouping;
mod limits;
mod long_lists;
pub(super) mod marks;
mod named;
mod numbers;
mod ordered;
mod qualifiers;
mod recursion;
mod relations;
mod repeated_keys;
mod rows;
mod samples;
mod shapes;
mod subqueries;
mod ties;
mod today;
mod typed_arguments;
mod values;
mod windows;

pub(super) use marks::shown;
pub(super) use qualifiers::{missing_relation, told_from_columns};
pub(super) use shapes::rewrite as rewrite_shapes;
pub(super) use typed_arguments::{with_typed_arguments, with_typed_literals};

use super::engine::Analytics;
use super::json_functions;
use super::window_arguments;
use super::zones::{AT_UTC, AT_ZONE, TRUNCATED_AT_ZONE};
pub(super) use aggregates::has_aggregate;
use base::error::SqlResult;
use base::{DataType, SqlError};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{self, Expr, Statement};
use numbers::{as_call, exact_numeric, plain_number, signed};
use ordered::makes_rows_or_looks_around;
pub(super) use ordered::{has_window, makes_rows};
use sql::walk::{self, WalkMut};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Rewrites a statement in place. Errors: dates and times that are none (22007, 22008).
pub(super) fn rewrite(statement: &mut Statement, analytics: &Analytics) -> SqlResult<()> {
    long_lists::as_joins(statement);
    repeated_keys::drop(statement);
    if let ControlFlow::Break(error) = statement.walk_mut(&mut calls::CallsInFrom { analytics }) {
        return Err(error);
    }
    values::settle_literals(statement);
    let is_scalar = |name: &str| {
        analytics.state.scalar_functions().contains_key(name)
            && !analytics.state.aggregate_functions().contains_key(name)
            && !analytics.state.window_functions().contains_key(name)
    };
    let outcome = walk::expressions_mut(statement, |e| {
        match refuse_clauses(e, &is_scalar).and_then(|()| replacement(e)) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(new)) => {
                *e = new;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    });
    outcome.break_value().map_or(Ok(()), Err)
}

/// Calls functions that have several names by their first one, once columns have their names. The planner keeps what a
/// call by another name says beside what it is, and says both where such calls are nested: each level doubled the text.
pub(super) fn call_by_first_names(statement: &mut Statement, state: &SessionState) {
    let _: ControlFlow<()> = walk::expressions_mut(statement, |e| {
        if let Some(call) = arrays::as_call(e) {
            *e = call;
        } else if let Expr::Function(call) = e
            && let ast::FunctionArguments::List(_) = call.args
            && let [ast::ObjectNamePart::Identifier(name)] = call.name.0.as_mut_slice()
            && let folded = sql::names::fold(name)
            && let Some(first) = first_name(&folded, state)
        {
            *name = ast::Ident::new(first);
        }
        ControlFlow::Continue(())
    });
}

fn first_name(name: &str, state: &SessionState) -> Option<String> {
    match name {
        // There are few of them inside each other.
        "row" => None,
        "ceiling" => Some("ceil".into()),
        name if super::system::has_function(name) => None,
        name => {
            let function = state.scalar_functions().get(name)?;
            (function.name() != name).then(|| function.name().to_string())
        }
    }
}

/// Functions of the planner's own that PostgreSQL has not.
const UNKNOWN: &[&str] = &[
    "arrow_cast",
    "arrow_metadata",
    "arrow_try_cast",
    "arrow_typeof",
    "get_field",
    "ifnull",
    "make_array",
    "make_map",
    "map",
    "map_entries",
    "map_extract",
    "map_keys",
    "map_values",
    "named_struct",
    "nvl",
    "nvl2",
    "struct",
    "union_extract",
    "union_tag",
];

/// Refuses FILTER and OVER of functions that look at one row, and functions that there are none. Errors: 42809, 42883.
fn refuse_clauses(e: &Expr, is_scalar: &dyn Fn(&str) -> bool) -> SqlResult<()> {
    let Expr::Function(call) = e else { return Ok(()) };
    if let [ast::ObjectNamePart::Identifier(name)] = call.name.0.as_slice()
        && let name = sql::names::fold(name)
        && UNKNOWN.contains(&name.as_str())
    {
        let told = format!("function {name} does not exist");
        return Err(SqlError::new(base::SqlState::UNDEFINED_FUNCTION, told));
    }
    window_arguments::refuse_none(call)?;
    let (clause, what) = match (&call.filter, &call.over) {
        (Some(_), _) => ("FILTER", "an aggregate function"),
        (None, Some(_)) => ("OVER", "a window function nor an aggregate function"),
        (None, None) => return Ok(()),
    };
    let name = sql::names::parts(&call.name).ok().and_then(|mut parts| parts.pop()).unwrap_or_default();
    if !is_scalar(&name) {
        return Ok(());
    }
    let message = format!("{clause} specified, but {name} is not {what}");
    Err(SqlError::new(base::SqlState(*b"42809"), message))
}

fn replacement(e: &Expr) -> Result<Option<Expr>, SqlError> {
    if let Some(row) = super::row_values::cast(e, &replacement)? {
        return Ok(Some(row));
    }
    match super::precision::limited(e)? {
        None => replacement_of_all_digits(e),
        rounded => Ok(rounded),
    }
}

fn replacement_of_all_digits(e: &Expr) -> Result<Option<Expr>, SqlError> {
    if let Some(written_out) = rows::written_out(e)? {
        return Ok(Some(written_out));
    }
    if let Some((value, domain)) = super::domains::cast(e) {
        let value = replacement(&value)?.unwrap_or(value);
        return Ok(super::domains::checked(&value, &domain));
    }
    match e {
        Expr::SimilarTo { .. } => Ok(super::similar::as_match(e)),
        Expr::IsNormalized { .. } => Ok(super::normal_forms::as_function(e)),
        Expr::CompoundFieldAccess { .. } => calls::open_slice(e),
        Expr::Extract { field, expr, .. } => calls::extract(field, expr).map(Some),
        Expr::AtTimeZone { timestamp, time_zone } => at_time_zone(timestamp, time_zone).map(Some),
        Expr::Substring {
            expr,
            substring_from: Some(pattern),
            substring_for: None,
            shorthand: false,
            ..
        } if is_text(pattern) => {
            // The part that the parentheses match, or the whole match.
            sql::parse::parse_expr(&format!("(regexp_match({expr}, {pattern}))[1]")).map(Some)
        }
        Expr::Value(value) if matches!(value.value, ast::Value::HexStringLiteral(_)) => {
            Err(SqlError::unsupported("a bit string"))
        }
        Expr::Value(value) => plain_number(&value.value),
        Expr::UnaryOp { .. } => {
            Ok(signed(e).or_else(|| super::scalars::power_of_negative(e)).or_else(|| as_call(e)))
        }
        Expr::Array(_) | Expr::BinaryOp { .. } => Ok(arrays::of_integers(e)),
        Expr::Interval(interval) => super::scalars::cast_to_interval(interval),
        Expr::Function(function) => {
            calls::refuse_star(function)?;
            if let Some(placed) = named::placed(function)? {
                return Ok(Some(replacement(&placed)?.unwrap_or(placed)));
            }
            Ok(match json_functions::replaced(function)? {
                Some(json) => Some(json),
                None => function_replacement(function).or_else(|| subqueries::array_of(function)),
            })
        }
        Expr::Cast { expr, data_type, .. } if sql::json::is_path(data_type) => {
            json_functions::path_of(&expr.to_string()).map(Some)
        }
        Expr::Cast { kind, expr, data_type, array, format }
            if sql::names::is_unlimited_numeric(data_type) =>
        {
            Ok(exact_numeric(expr).map(|data_type| Expr::Cast {
                kind: kind.clone(),
                expr: expr.clone(),
                data_type,
                array: *array,
                format: format.clone(),
            }))
        }
        Expr::Like { escape_char: Some(escape), pattern, .. }
        | Expr::ILike { escape_char: Some(escape), pattern, .. } => {
            Ok(with_backslash(pattern, escape).map(|plain| like_without_escape(e, plain)))
        }
        Expr::TypedString(typed) => typed_string(typed),
        _ => Ok(None),
    }
}

/// LIKE with another pattern, whose escape is the backslash.
fn like_without_escape(like: &Expr, plain: Expr) -> Expr {
    let mut like = like.clone();
    if let Expr::Like { escape_char, pattern, .. } | Expr::ILike { escape_char, pattern, .. } = &mut like {
        *escape_char = None;
        **pattern = plain;
    }
    like
}

/// A date or a moment in the one form that the planner reads. Errors: 22007, 22008.
fn typed_string(typed: &ast::TypedString) -> SqlResult<Option<Expr>> {
    let Ok(to @ (DataType::Date | DataType::Timestamp | DataType::TimestampTz)) =
        sql::names::data_type(&typed.data_type)
    else {
        return Ok(None);
    };
    let ast::Value::SingleQuotedString(text) = &typed.value.value else { return Ok(None) };
    let value = sql::zones::parse(text, to)?;
    let mut typed = typed.clone();
    typed.value.value = ast::Value::SingleQuotedString(base::text::display_as(&value, to));
    Ok(Some(Expr::TypedString(typed)))
}

/// Whether an expression is a text that is no number.
fn is_text(e: &Expr) -> bool {
    match e {
        Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => text.trim().parse::<i64>().is_err(),
            _ => false,
        },
        _ => false,
    }
}

/// A moment at a time zone.
fn at_time_zone(timestamp: &Expr, zone: &Expr) -> SqlResult<Expr> {
    let is_utc = match zone {
        Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(name) => {
                ["utc", "gmt", "z", "zulu", "etc/utc"].contains(&name.to_lowercase().as_str())
            }
            _ => false,
        },
        _ => false,
    };
    sql::parse::parse_expr(&match is_utc {
        true => format!("{AT_UTC}({timestamp})"),
        false => format!("{AT_ZONE}({zone}, {timestamp})"),
    })
}

/// Tells arguments of aggregates apart that differ by their cast alone: the planner names an aggregate after its
/// argument without the cast.
pub(super) fn tell_casts_apart(statement: &mut Statement, state: &SessionState) {
    // What is cast, and to what in the order of their coming.
    let mut casts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let _: ControlFlow<()> = walk::expressions_mut(statement, |e| {
        let Expr::Function(call) = e else { return ControlFlow::Continue(()) };
        let name = sql::names::parts(&call.name).ok().and_then(|mut parts| parts.pop()).unwrap_or_default();
        let ast::FunctionArguments::List(list) = &mut call.args else { return ControlFlow::Continue(()) };
        if !state.aggregate_functions().contains_key(&name) {
            return ControlFlow::Continue(());
        }
        for argument in &mut list.args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) = argument else { continue };
            let Expr::Cast { expr, data_type, .. } = &*e else { continue };
            let types = casts.entry(expr.to_string()).or_default();
            let data_type = data_type.to_string();
            let place = types.iter().position(|known| *known == data_type).unwrap_or_else(|| {
                types.push(data_type);
                types.len() - 1
            });
            // The first value that is not null, of one. Many types of one column are left to be refused.
            let wrapped = (0..place.min(8)).fold(e.to_string(), |text, _| format!("coalesce({text})"));
            if place > 0
                && let Ok(wrapped) = sql::parse::parse_expr(&wrapped)
            {
                *e = wrapped;
            }
        }
        ControlFlow::Continue(())
    });
}

/// A pattern whose escape character is not the backslash, in the words of one whose is.
fn with_backslash(pattern: &Expr, escape: &ast::ValueWithSpan) -> Option<Expr> {
    let ast::Value::SingleQuotedString(escape) = &escape.value else { return None };
    if escape == "\\" {
        return None;
    }
    sql::parse::parse_expr(&format!("meridian_like_pattern({pattern}, '{}')", escape.replace('\'', "''")))
        .ok()
}

fn function_replacement(function: &ast::Function) -> Option<Expr> {
    let name = sql::names::parts(&function.name).ok()?.pop()?;
    if let Some(moment) = today::told(&name, &function.args) {
        let moment = sql::parse::parse_expr(&moment).ok()?;
        let limited = super::precision::limited(&moment).ok().flatten();
        return Some(limited.unwrap_or(moment));
    }
    if name == "current_time" {
        return super::precision::current_time(&function.args);
    }
    if name == "make_interval" {
        return calls::interval_of_parts(function);
    }
    if let Some(returns) = calls::returned(&name, function.over.is_some()) {
        return sql::parse::parse_expr(&format!("CAST({function} AS {returns})")).ok();
    }
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let arguments: Vec<&Expr> = list
        .args
        .iter()
        .map(|a| match a {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let nested = |e: &Expr| Box::new(Expr::Nested(Box::new(e.clone())));
    if let Some(over_list) = super::ordered_sets::over_list(function, &name, &arguments) {
        return Some(over_list);
    }
    match (name.as_str(), arguments.as_slice()) {
        ("age", [from]) => {
            sql::parse::parse_expr(&format!("age(CAST(current_date AS timestamp), {from})")).ok()
        }
        ("make_timestamptz", [parts @ .., zone]) if parts.len() == 6 => moment_of_parts(parts, Some(zone)),
        ("make_timestamptz", parts) if parts.len() == 6 => moment_of_parts(parts, None),
        ("normalize", [of, form]) => super::normal_forms::with_form(of, form),
        ("array_fill", [of, lengths]) => arrays::filled(of, lengths),
        (name, _) if let Some(made) = arrays::with_integers(function, name) => Some(made),
        (name, []) if name.contains("_build_") => empty_json(name),
        ("get_current_ts_config", []) => sql::parse::parse_expr("CAST('english' AS text)").ok(),
        ("uuid_generate_v4", []) => sql::parse::parse_expr("gen_random_uuid()").ok(),
        // The library's takes no zone.
        ("date_trunc", [unit, at, zone]) => {
            sql::parse::parse_expr(&format!("{TRUNCATED_AT_ZONE}({unit}, {at}, {zone})")).ok()
        }
        ("mod", [a, b]) => Some(Expr::Nested(Box::new(Expr::BinaryOp {
            left: nested(a),
            op: ast::BinaryOperator::Modulo,
            right: nested(b),
        }))),
        // An array without elements has no dimension.
        ("array_length", [array, dimension]) => {
            sql::parse::parse_expr(&format!("CAST(nullif(list_length({array}, {dimension}), 0) AS integer)"))
                .ok()
        }
        (name, [a, b]) if let Some(operator) = operator_of(name) => as_operator(a, operator, b),
        (set, given) if let Some(rows) = rows_of_set(set, given) => Some(rows),
        ("string_agg" | "array_agg", [of, ..]) => in_order(function, list, of),
        (name, [_]) => other_name(name).map(|other| renamed(function, other)),
        _ => None,
    }
}

/// `make_timestamptz`, in the session's zone unless another one is given.
fn moment_of_parts(parts: &[&Expr], zone: Option<&Expr>) -> Option<Expr> {
    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    let made = format!("make_timestamp({})", parts.join(", "));
    let moment = match zone {
        Some(zone) => format!("{AT_ZONE}({}, {made})", east_as_minus(zone)),
        None => format!("CAST({made} AS timestamptz)"),
    };
    sql::parse::parse_expr(&moment).ok()
}

/// The same under another name.
fn other_name(function: &str) -> Option<&'static str> {
    Some(match function {
        "array_to_json" => "to_json",
        "every" => "bool_and",
        "sign" => "signum",
        "variance" => "var_samp",
        _ => return None,
    })
}

/// A call as the operator that it is another name of. A literal is a `jsonb` then.
fn as_operator(left: &Expr, operator: &str, right: &Expr) -> Option<Expr> {
    let is_literal = matches!(left, Expr::Value(_));
    let left = if is_literal { format!("CAST({left} AS jsonb)") } else { format!("({left})") };
    sql::parse::parse_expr(&format!("({left} {operator} ({right}))")).ok()
}

/// The operator that a function of `jsonb` is another name of.
fn operator_of(function: &str) -> Option<&'static str> {
    Some(match function {
        "jsonb_concat" => "||",
        "jsonb_contained" => "<@",
        "jsonb_contains" => "@>",
        "jsonb_delete" => "-",
        "jsonb_delete_path" => "#-",
        "jsonb_exists" => "?",
        "jsonb_exists_all" => "?&",
        "jsonb_exists_any" => "?|",
        _ => return None,
    })
}

/// An offset as AT TIME ZONE takes it, which counts to the west.
fn east_as_minus(zone: &Expr) -> Expr {
    let Expr::Value(value) = zone else { return zone.clone() };
    let ast::Value::SingleQuotedString(text) = &value.value else { return zone.clone() };
    let turned = match text.split_at_checked(1) {
        Some(("+", rest)) => format!("-{rest}"),
        Some(("-", rest)) => format!("+{rest}"),
        _ => return zone.clone(),
    };
    Expr::value(ast::Value::SingleQuotedString(turned))
}

/// What a function that builds JSON makes of nothing; `None` for others.
fn empty_json(function: &str) -> Option<Expr> {
    let empty = match function {
        "json_build_array" => "CAST('[]' AS json)",
        "jsonb_build_array" => "CAST('[]' AS jsonb)",
        "json_build_object" => "CAST('{}' AS json)",
        "jsonb_build_object" => "CAST('{}' AS jsonb)",
        _ => return None,
    };
    sql::parse::parse_expr(empty).ok()
}

/// A function that makes rows, in a list of columns. `None` for others.
fn rows_of_set(name: &str, arguments: &[&Expr]) -> Option<Expr> {
    let text = match (name, arguments) {
        (crate::sets::SERIES, [_, _] | [_, _, _]) => format!("unnest({})", calls::list_of(arguments)?),
        (calls::SUBSCRIPTS, given) => format!("unnest({})", calls::subscripts_of(given)?),
        (set, given) if crate::regexes::SETS.contains(&set) => {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            crate::regexes::unnested(set, &given)?
        }
        _ => return None,
    };
    sql::parse::parse_expr(&text).ok()
}

/// What is aggregated once comes sorted.
fn in_order(function: &ast::Function, list: &ast::FunctionArgumentList, of: &Expr) -> Option<Expr> {
    let is_open = list.clauses.is_empty() && function.over.is_none();
    let has_subquery = walk::expressions(of, |e| match e {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if has_subquery.is_break()
        || !is_open
        || list.duplicate_treatment != Some(ast::DuplicateTreatment::Distinct)
    {
        return None;
    }
    let by = ast::OrderByExpr { expr: of.clone(), options: Default::default(), with_fill: None };
    let mut function = function.clone();
    if let ast::FunctionArguments::List(list) = &mut function.args {
        list.clauses.push(ast::FunctionArgumentClause::OrderBy(vec![by]));
    }
    Some(Expr::Function(function))
}

/// The same call of another function.
fn renamed(function: &ast::Function, name: &str) -> Expr {
    let mut function = function.clone();
    function.name = ast::ObjectName::from(vec![ast::Ident::new(name)]);
    Expr::Function(function)
}
