//! Arguments of PostgreSQL's own functions that are given by name, or as one array behind VARIADIC, as the list that they are.

use base::error::{SqlError, SqlResult};
use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use sql::parse::{is_variadic, parse_expr};

/// Functions whose arguments have names: the names, and of those that may be left out what they are then.
const NAMES: &[(&str, &[(&str, &str)])] = &[
    ("make_date", &[("year", ""), ("month", ""), ("day", "")]),
    ("make_time", &[("hour", ""), ("min", ""), ("sec", "")]),
    ("make_timestamp", &[("year", ""), ("month", ""), ("mday", ""), ("hour", ""), ("min", ""), ("sec", "")]),
    ("jsonb_set", &[("jsonb_in", ""), ("path", ""), ("replacement", ""), ("create_if_missing", "true")]),
    ("jsonb_insert", &[("jsonb_in", ""), ("path", ""), ("replacement", ""), ("insert_after", "false")]),
    ("jsonb_path_exists", PATH),
    ("jsonb_path_match", PATH),
    ("jsonb_path_query", PATH),
    ("jsonb_path_query_array", PATH),
    ("jsonb_path_query_first", PATH),
];

/// Arguments of functions of JSON paths.
const PATH: &[(&str, &str)] = &[("target", ""), ("path", ""), ("vars", "'{}'"), ("silent", "false")];

/// Functions that take any number of arguments.
const VARIADIC: [&str; 11] = [
    "concat",
    "concat_ws",
    "format",
    "json_build_array",
    "json_build_object",
    "jsonb_build_array",
    "jsonb_build_object",
    "json_extract_path",
    "json_extract_path_text",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
];

/// The call with its arguments in their places; `None` if they have neither names nor VARIADIC, or are not known by names.
/// Errors: 0A000 for VARIADIC before what has to be computed first.
pub(super) fn placed(function: &ast::Function) -> SqlResult<Option<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let is_named = |argument: &FunctionArg| matches!(argument, FunctionArg::Named { .. });
    if !list.args.iter().any(is_named) {
        return Ok(None);
    }
    let name = sql::names::parts(&function.name)?.pop().unwrap_or_default();
    if let Some((FunctionArg::Named { name: mark, arg: FunctionArgExpr::Expr(array), .. }, before)) =
        list.args.split_last()
        && is_variadic(mark)
    {
        let spread = spread(function, &name, before, array).filter(|_| VARIADIC.contains(&name.as_str()));
        return spread.map(Some).ok_or_else(|| {
            SqlError::unsupported(format!("VARIADIC before an argument of {name}"))
                .hint("Write the array as ARRAY[…], or its elements one by one.")
        });
    }
    let Some(values) = in_order(&name, &list.args) else { return Ok(None) };
    let mut made = function.clone();
    if let FunctionArguments::List(list) = &mut made.args {
        list.args = values.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    }
    Ok(Some(Expr::Function(made)))
}

/// Arguments in the order of their names.
fn in_order(function: &str, arguments: &[FunctionArg]) -> Option<Vec<Expr>> {
    let (_, names) = NAMES.iter().find(|(known, _)| *known == function)?;
    let mut values: Vec<Option<Expr>> = vec![None; names.len()];
    for (nth, argument) in arguments.iter().enumerate() {
        let (at, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => (nth, e),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(e), .. } => {
                let name = sql::names::fold(name);
                (names.iter().position(|(known, _)| *known == name)?, e)
            }
            _ => return None,
        };
        if values.get_mut(at)?.replace(value.clone()).is_some() {
            return None;
        }
    }
    let filled = values.into_iter().zip(*names).map(|(value, (_, default))| match value {
        Some(value) => Some(value),
        None => parse_expr(default).ok(),
    });
    filled.collect()
}

/// A call over the elements of an array: of one that is written out each by itself, of any other one what the function does
/// with all of them.
fn spread(function: &ast::Function, name: &str, before: &[FunctionArg], array: &Expr) -> Option<Expr> {
    if let Expr::Array(written) = array {
        let mut made = function.clone();
        if let FunctionArguments::List(list) = &mut made.args {
            let elements = written.elem.iter().cloned();
            let elements = elements.map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e)));
            list.args = before.iter().cloned().chain(elements).collect();
        }
        return Some(Expr::Function(made));
    }
    match (name, before) {
        ("concat", []) => parse_expr(&format!("array_to_string({array}, '')")).ok(),
        ("concat_ws", [separator]) => parse_expr(&format!("array_to_string({array}, {separator})")).ok(),
        _ => None,
    }
}
