//! The catalog as SQL sees it.

use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::schema::{Catalog, Sequence};
use std::sync::Arc;

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
