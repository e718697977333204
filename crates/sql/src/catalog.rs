//! The catalog as SQL sees it.

use crate::names;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::identifier::cut;
use base::schema::{Catalog, Sequence};
use sqlparser::ast::ObjectName;
use std::sync::Arc;

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

/// A sequence by its name as written in `nextval('…')`. Errors: 42P01, and those of [`written_name`].
pub fn find_sequence<'c>(
    catalog: &'c Catalog,
    search_path: &[String],
    text: &str,
) -> SqlResult<&'c Arc<Sequence>> {
    let (schema, name) = written_name(catalog, text)?;
    let found = in_schemas(catalog, search_path, schema.as_deref(), &name);
    found.ok_or_else(|| undefined(schema.as_deref(), &name))
}

/// The schema, if one is named, and the name of a relation as a text writes them: `"My schema".t`. Errors: 42602; 0A000 for
/// another database, 42601 for too many parts.
pub fn written_name(catalog: &Catalog, text: &str) -> SqlResult<(Option<String>, String)> {
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let mut parts = written_parts(text).ok_or_else(invalid)?;
    let all = parts.join(".");
    let name = parts.pop().ok_or_else(invalid)?;
    match parts.as_slice() {
        [] => Ok((None, name)),
        [schema] => Ok((Some(schema.clone()), name)),
        [database, schema] if database == catalog.databases.name(catalog.database()) => {
            Ok((Some(schema.clone()), name))
        }
        [_, _] => Err(names::cross_database(&format!("\"{all}\""))),
        _ => {
            let told = format!("improper relation name (too many dotted names): {all}");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, told))
        }
    }
}

/// The parts of a dotted name in a text; `None`: the text is none.
fn written_parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => names::until_quote(quoted)?,
            None => {
                let end = rest.find(|c: char| c == '.' || c.is_whitespace()).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                (Some(name.to_lowercase()).filter(|name| !name.is_empty())?, after)
            }
        };
        parts.push(cut(&part).to_string());
        let after = after.trim_start();
        match after.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None => return after.is_empty().then_some(parts),
        }
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
        [] => return Err(undefined(None, "")),
    };
    in_schemas(catalog, search_path, schema, last).ok_or_else(|| undefined(schema, last))
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

/// There is no relation of a written name.
pub fn undefined(schema: Option<&str>, name: &str) -> SqlError {
    let shown = schema.map_or_else(|| name.to_string(), |schema| format!("{schema}.{name}"));
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_writes_a_name_as_a_statement_does() {
        let written = |text: &str| written_name(&Catalog::default(), text);
        assert_eq!(written("T").unwrap(), (None, "t".to_string()));
        let (schema, name) = written(" \"My.S\" . \"T\"\"x\" ").unwrap();
        assert_eq!((schema.as_deref(), name.as_str()), (Some("My.S"), "T\"x"));
        for (wrong, state) in [
            ("", "42602"),
            ("a b", "42602"),
            ("a..b", "42602"),
            ("a.", "42602"),
            ("\"a", "42602"),
            ("x.y.z", "0A000"),
            ("w.x.y.z", "42601"),
        ] {
            assert_eq!(written(wrong).unwrap_err().state.to_string(), state, "{wrong}");
        }
    }
}
