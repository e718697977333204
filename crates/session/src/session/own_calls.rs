//! Queries that are a list of calls of one function which changes the session or the catalog: `SELECT f(a, b, c), …`.
//!
//! A function of a query may not do that: a query may be computed more than once, or on several threads. So such a
//! function stands alone; its arguments are what is queried, and the session does the rest, row by row.

use sqlparser::ast::{self, Expr, SelectItem, SetExpr};

/// A function, and what its arguments are.
pub(super) struct OwnFunction {
    pub name: &'static str,
    pub arguments: &'static [&'static str],
    /// Stands for the last argument where that is left out.
    pub last: Option<&'static str>,
    /// Whether the query may have a FROM.
    pub over_rows: bool,
}

/// The query of the arguments of a query that is a list of such calls, and the names of its columns.
pub(super) fn arguments(query: &ast::Query, function: &OwnFunction) -> Option<(ast::Query, Vec<String>)> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_call = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Function(f)) => is_one(f, function.name),
        SelectItem::ExprWithAlias { expr: Expr::Function(f), .. } => is_one(f, function.name),
        _ => false,
    };
    let is_list = !select.projection.is_empty() && select.projection.iter().all(is_call);
    if !is_list || !(function.over_rows || select.from.is_empty()) {
        return None;
    }
    let mut bare = select.clone();
    let (mut arguments, mut names) = (Vec::new(), Vec::new());
    for item in std::mem::take(&mut bare.projection) {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, function.name.into()),
            SelectItem::ExprWithAlias { expr, alias } => (expr, sql::names::fold(&alias)),
            _ => return None,
        };
        let Expr::Function(ast::Function { args: ast::FunctionArguments::List(list), .. }) = expr else {
            return None;
        };
        let mut given = Vec::new();
        for argument in list.args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) = argument else {
                return None;
            };
            given.push(argument);
        }
        if let Some(last) = function.last
            && given.len() + 1 == function.arguments.len()
        {
            given.push(sql::parse::parse_expr(last).ok()?);
        }
        if given.len() != function.arguments.len() {
            return None;
        }
        for (argument, data_type) in given.into_iter().zip(function.arguments) {
            // Two columns of one query need two names.
            let alias = ast::Ident::new(format!("argument_{}", arguments.len()));
            arguments.push(SelectItem::ExprWithAlias { expr: cast(argument, data_type)?, alias });
        }
        names.push(name);
    }
    bare.projection = arguments;
    let mut query = query.clone();
    *query.body = SetExpr::Select(bare);
    Some((query, names))
}

fn is_one(function: &ast::Function, name: &str) -> bool {
    let written = function.name.to_string().to_ascii_lowercase();
    function.over.is_none() && written.strip_prefix("pg_catalog.").unwrap_or(&written) == name
}

/// The expression as a value of a type. The name of a relation is kept as it is written.
pub(super) fn cast(inner: Expr, data_type: &str) -> Option<Expr> {
    let mut inner = match inner {
        Expr::Cast { expr, data_type, .. } if data_type.to_string().eq_ignore_ascii_case("regclass") => *expr,
        other => other,
    };
    let mut written = sql::parse::parse_expr(&format!("CAST(NULL AS {data_type})")).ok()?;
    let Expr::Cast { expr, .. } = &mut written else { return None };
    std::mem::swap(expr.as_mut(), &mut inner);
    Some(written)
}
