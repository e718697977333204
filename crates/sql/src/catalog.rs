//! The catalog as SQL sees it.

use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::schema::{Catalog, Sequence};
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

/// A sequence by its name as written in `nextval('…')`. Errors: 42P01.
pub fn find_sequence<'c>(
    catalog: &'c Catalog,
    search_path: &[String],
    name: &str,
) -> SqlResult<&'c Arc<Sequence>> {
    let clean = |part: &str| match part.strip_prefix('"').and_then(|p| p.strip_suffix('"')) {
        Some(quoted) => quoted.to_string(),
        None => part.to_lowercase(),
    };
    let found = match name.split_once('.') {
        Some((schema, name)) => {
            let (schema, name) = (clean(schema), clean(name));
            catalog.sequences.values().find(|s| s.schema == schema && s.name == name)
        }
        None => {
            let name = clean(name);
            search_path
                .iter()
                .find_map(|schema| catalog.sequences.values().find(|s| s.schema == *schema && s.name == name))
        }
    };
    found.ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
    })
}
