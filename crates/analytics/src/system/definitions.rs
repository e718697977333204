//! Definitions of relations as SQL, and relations by the names that are written.

use super::dump::{CATALOGS, OTHER_CATALOGS};
use crate::context::Context;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::Table;
use datafusion::arrow::array::Int64Array;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use sql::lower::oid;
use sql::views::quoted;

/// `CREATE INDEX …` as PostgreSQL prints it.
pub(super) fn index_definition(table: &Table, name: &str, columns: &[usize], unique: bool) -> String {
    format!(
        "CREATE {}INDEX {} ON {}.{} USING btree ({})",
        if unique { "UNIQUE " } else { "" },
        quoted(name),
        quoted(&table.schema),
        quoted(&table.name),
        list(table, columns)
    )
}

pub(super) fn list(table: &Table, columns: &[usize]) -> String {
    columns.iter().map(|c| quoted(&table.columns[*c].name).to_string()).collect::<Vec<_>>().join(", ")
}

/// `regclass` of names: the relations' object ids, NULL for NULL. Errors: 42P01.
pub(super) fn relations_named(
    context: &Context<'_>,
    names: impl Iterator<Item = Option<String>>,
) -> Result<Int64Array> {
    let found = names.map(|name| name.map(|name| relation_named(context, &name)).transpose());
    let found = found.collect::<SqlResult<Int64Array>>();
    found.map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The object id of a relation by its name as text, or of a number as text. Errors: 42P01.
fn relation_named(context: &Context<'_>, text: &str) -> SqlResult<i64> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let parts: Vec<String> = text.split('.').map(sql::catalog::unquoted).collect();
    let (schemas, name) = match parts.as_slice() {
        [name] => (context.search_path.to_vec(), name.as_str()),
        [.., schema, name] => (vec![schema.clone()], name.as_str()),
        [] => unreachable!("a split text has a part"),
    };
    let catalog = context.catalog;
    let found = schemas.iter().find_map(|schema| {
        let sequence = || catalog.sequences.values().find(|s| s.schema == *schema && s.name == name);
        let relation = catalog.relation_named(schema, name).map(|relation| relation.shape().id);
        let index = || catalog.index_named(schema, name).map(|(_, index)| index.id);
        relation.or_else(|| sequence().map(|sequence| sequence.id)).or_else(index)
    });
    let is_catalog = parts.len() == 1 || parts[0] == "pg_catalog";
    let known = || {
        let mut catalogs = CATALOGS.iter().chain(OTHER_CATALOGS).filter(|_| is_catalog);
        catalogs.find(|(known, _)| *known == name).map(|(_, number)| *number)
    };
    found.map(oid).or_else(known).map(i64::from).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{text}\" does not exist"))
    })
}
