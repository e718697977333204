//! What names in a statement that is planned are looked up in.

use analytics::Context;
use sql::routines::scopes::Lookup;
use sqlparser::ast;

/// What names and privileges are held against.
pub(in crate::session) fn names_of<'a>(context: &'a Context<'_>) -> sql::privileges::Check<'a> {
    sql::privileges::Check {
        catalog: context.catalog,
        search_path: context.search_path,
        database: context.database,
        standing: &context.standing,
    }
}

/// What tables and functions are looked up in.
pub(in crate::session) fn lookup_of<'a>(context: &Context<'a>) -> Lookup<'a> {
    Lookup { catalog: context.catalog, search_path: context.search_path, database: context.database }
}

/// Whether a query is `SELECT … INTO t`.
pub fn is_select_into(query: &ast::Query) -> bool {
    matches!(query.body.as_ref(), ast::SetExpr::Select(select) if select.into.is_some())
}
