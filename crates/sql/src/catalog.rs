//! The catalog as SQL sees it.

use crate::names;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::schema::{Catalog, Sequence};
use sqlparser::ast::ObjectName;
use std::sync::Arc;

/// A part of a name that is written in a text, as in `'"Shop".orders'::regclass`.
pub fn unquoted(part: &str) -> String {
    match part.strip_prefix('"').and_then(|p| p.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => part.to_lowercase(),
    }
}

/// The schema of tables that the system writes for itself. Users make no schema of such a name, and the catalogs that they
/// read show nothing of it.
pub const SYSTEM_SCHEMA: &str = "pg_meridian";

/// The catalog as users may look at it; `None`: it is that already.
pub fn without_system_tables(catalog: &Catalog) -> Option<Catalog> {
    if !catalog.schemas.iter().any(|schema| schema == SYSTEM_SCHEMA) {
        return None;
    }
    let mut shown = catalog.clone();
    shown.schemas.retain(|schema| schema != SYSTEM_SCHEMA);
    shown.tables.retain(|_, table| table.schema != SYSTEM_SCHEMA);
    Some(shown)
}

/// The catalog as `information_schema` shows it to a session; `None`: it is that already.
pub fn of_standard(catalog: &Catalog, search_path: &[String]) -> Option<Catalog> {
    let others = crate::temporary::without_others(catalog, search_path);
    let is_materialized = |id| crate::materialized::is_one(catalog, id);
    if !catalog.views.keys().any(|id| is_materialized(*id)) {
        return others;
    }
    let mut shown = others.unwrap_or_else(|| catalog.clone());
    shown.tables.retain(|id, _| !is_materialized(*id));
    shown.views.retain(|id, _| !is_materialized(*id));
    Some(shown)
}

/// A sequence by its name as written in `nextval('…')`. Errors: 42P01.
pub fn find_sequence<'c>(
    catalog: &'c Catalog,
    search_path: &[String],
    text: &str,
) -> SqlResult<&'c Arc<Sequence>> {
    let (schema, name) = written_name(text);
    in_schemas(catalog, search_path, schema.as_deref(), &name).ok_or_else(|| undefined(text))
}

/// The schema, if one is named, and the name of a relation as a text writes them: `"My schema".t`.
pub fn written_name(text: &str) -> (Option<String>, String) {
    let mut is_quoted = false;
    let dot = text.find(|c: char| {
        is_quoted ^= c == '"';
        c == '.' && !is_quoted
    });
    match dot {
        Some(dot) => (Some(unquoted(&text[..dot])), unquoted(&text[dot + 1..])),
        None => (None, unquoted(text)),
    }
}

/// A sequence by its name in a statement. Errors: 42P01.
pub fn find_named_sequence<'c>(
    catalog: &'c Catalog,
    search_path: &[String],
    name: &ObjectName,
) -> SqlResult<&'c Arc<Sequence>> {
    let parts = names::parts(name)?;
    let database = catalog.databases.name(catalog.database());
    if parts.len() > 2 && (parts.len() > 3 || parts[0] != database) {
        return Err(names::cross_database(&name.to_string()));
    }
    let (schema, last) = match parts.as_slice() {
        [.., schema, last] => (Some(schema.as_str()), last),
        [last] => (None, last),
        [] => return Err(undefined("")),
    };
    in_schemas(catalog, search_path, schema, last).ok_or_else(|| undefined(&parts.join(".")))
}

fn in_schemas<'c>(
    catalog: &'c Catalog,
    search_path: &[String],
    schema: Option<&str>,
    name: &str,
) -> Option<&'c Arc<Sequence>> {
    let within = |schema: &str| catalog.sequences.values().find(|s| s.schema == schema && s.name == name);
    crate::temporary::schemas(schema, search_path).find_map(within)
}

fn undefined(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}
