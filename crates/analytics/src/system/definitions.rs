//! Definitions of relations as SQL, and relations by the names that are written.

use super::dump::{CATALOGS, OTHER_CATALOGS};
use super::pg_tables::{Object, has_primary_key, object, primary_key_oid};
use crate::context::Context;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::{Index, IndexForm, Table};
use datafusion::arrow::array::Int64Array;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::Expr;
use sql::lower::{FIRST_OID, oid};
use sql::views::quoted;
use std::borrow::Cow;

/// A primary key as an index, under the id of its table.
pub(super) fn primary_index(table: &Table) -> Index {
    Index {
        id: table.id,
        name: table.primary_key_name.clone(),
        columns: table.primary_key.clone(),
        unique: true,
        constraint: true,
        form: IndexForm::default(),
    }
}

/// The index that an object is, with its table.
pub(super) fn index<'a>(found: Object<'a>) -> Option<(&'a Table, Cow<'a, Index>)> {
    match found {
        Object::PrimaryKey(table) => Some((table, Cow::Owned(primary_index(table)))),
        Object::Index(table, index) => Some((table, Cow::Borrowed(index))),
        _ => None,
    }
}

/// Columns of an index as the catalog numbers them, from 1: those of INCLUDE last, and 0 for an expression.
pub(super) fn key_numbers(index: &Index) -> Vec<usize> {
    let number = |column: &usize| if index.expression(*column).is_some() { 0 } else { column + 1 };
    index.keys().iter().chain(&index.form.include).map(number).collect()
}

pub(super) fn list(table: &Table, columns: &[usize]) -> String {
    columns.iter().map(|c| quoted(&table.columns[*c].name).to_string()).collect::<Vec<_>>().join(", ")
}

/// Functions that give the object ids of names. Those of this program's own names fail where there is nothing of a name.
pub(super) const NAMED: [&str; 4] = ["meridian_regclass", "meridian_regtype", "to_regclass", "to_regtype"];

/// Object ids of relations or types by their names, NULL for NULL. Errors: 42P01, 42704.
pub(super) fn named(
    context: &Context<'_>,
    function: &str,
    names: impl Iterator<Item = Option<String>>,
) -> Result<Int64Array> {
    let one = |name: String| match function {
        "meridian_regclass" => relation_named(context, &name).map(Some),
        "to_regclass" => match relation_named(context, &name) {
            Err(error) if error.state == SqlState::UNDEFINED_TABLE => Ok(None),
            found => found.map(Some),
        },
        "to_regtype" => Ok(type_named(context, &name)),
        _ => match name.parse().ok().or_else(|| type_named(context, &name)) {
            Some(found) => Ok(Some(found)),
            None => {
                let told = format!("type \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told))
            }
        },
    };
    let found = names.map(|name| name.map_or(Ok(None), one)).collect::<SqlResult<Int64Array>>();
    found.map_err(|error| DataFusionError::External(Box::new(error)))
}

/// Types that no value has: what functions take and give.
const PSEUDO_TYPES: [(&str, i64); 8] = [
    ("record", 2249),
    ("cstring", 2275),
    ("any", 2276),
    ("anyarray", 2277),
    ("void", 2278),
    ("trigger", 2279),
    ("internal", 2281),
    ("event_trigger", 3838),
];

/// A type's object id; `None` if there is no such type.
fn type_named(context: &Context<'_>, name: &str) -> Option<i64> {
    if let Some((_, number)) =
        PSEUDO_TYPES.iter().find(|(known, _)| name.trim_start_matches("pg_catalog.") == *known)
    {
        return Some(*number);
    }
    let Expr::Cast { data_type, .. } = sql::parse::parse_expr(&format!("CAST(NULL AS {name})")).ok()? else {
        return None;
    };
    let found = || match sql::names::domain(&data_type) {
        Some(domain) => Some(oid(domain.id)),
        None => sql::names::data_type(&data_type).ok().map(sql::types::type_oid),
    };
    sql::user_types::within(context.catalog, context.search_path, found).map(i64::from)
}

/// Schema and name of a relation or an index by its object id.
fn schema_and_name(context: &Context<'_>, number: i64) -> Option<(String, String)> {
    let (schema, name) = match object(context, number)? {
        Object::Table(table) => (&table.schema, &table.name),
        Object::View(view) => (&view.shape.schema, &view.shape.name),
        Object::PrimaryKey(table) => (&table.schema, &table.primary_key_name),
        Object::Index(table, index) => (&table.schema, &index.name),
        Object::Sequence => {
            let id = u32::try_from(number).ok().and_then(|n| n.checked_sub(FIRST_OID)).map(base::TableId)?;
            let sequence = context.catalog.sequences.get(&id)?;
            (&sequence.schema, &sequence.name)
        }
        Object::Check(..) | Object::OfDomain(..) | Object::ForeignKey(..) => return None,
    };
    Some((schema.clone(), name.clone()))
}

/// Whether a name without a schema means the relation or index of this schema.
fn is_first(context: &Context<'_>, schema: &str, name: &str) -> bool {
    let catalog = context.catalog;
    let has_it = |schema: &&String| {
        let is_key = |t: &std::sync::Arc<Table>| t.schema == **schema && t.primary_key_name == name;
        catalog.relation_named(schema, name).is_some()
            || catalog.index_named(schema, name).is_some()
            || catalog.sequences.values().any(|s| s.schema == **schema && s.name == name)
            || catalog.tables.values().any(is_key)
    };
    context.search_path.iter().find(has_it).is_some_and(|first| first == schema)
}

/// Whether a relation or an index is found by its name alone; what is none of ours is.
pub(super) fn is_visible(context: &Context<'_>, number: i64) -> bool {
    schema_and_name(context, number).is_none_or(|(schema, name)| is_first(context, &schema, &name))
}

/// What `regclass` shows of an object id: the relation's name, with its schema where the name alone does not mean it; of
/// what is none, the number.
pub(super) fn relation_shown(context: &Context<'_>, number: i64) -> String {
    match schema_and_name(context, number) {
        Some((schema, name)) if is_first(context, &schema, &name) => quoted(&name).to_string(),
        Some((schema, name)) => format!("{}.{}", quoted(&schema), quoted(&name)),
        None => {
            let mut catalogs = CATALOGS.iter().chain(OTHER_CATALOGS);
            let known = catalogs.find(|(_, known)| i64::from(*known) == number);
            known.map_or_else(|| number.to_string(), |(name, _)| name.to_string())
        }
    }
}

/// PostgreSQL's number of an encoding; -1 for one that is not spoken here.
pub(super) fn encoding_named(name: &str) -> i64 {
    const UTF8: i64 = 6;
    if ["utf8", "utf-8", "unicode"].contains(&name.to_lowercase().as_str()) { UTF8 } else { -1 }
}

/// `pg_size_pretty`: bytes in the unit in which they have at most five digits, rounded.
pub(super) fn size_shown(bytes: i64) -> String {
    const BYTES_MAX: i64 = 10 << 10;
    const OTHERS_MAX: i64 = (20 << 10) - 1;
    if bytes.unsigned_abs() < BYTES_MAX as u64 {
        return format!("{bytes} bytes");
    }
    // One bit more than the unit has, for rounding.
    let mut halves = bytes / (1 << 9);
    for unit in ["kB", "MB", "GB", "TB"] {
        if halves.abs() < OTHERS_MAX {
            return format!("{} {unit}", (halves + halves.signum()) / 2);
        }
        halves /= 1 << 10;
    }
    format!("{} PB", (halves + halves.signum()) / 2)
}

/// `pg_size_pretty` of a number of bytes with a fraction, which is shown where the unit is bytes and cut off otherwise.
pub(super) fn with_fraction(shown: String, bytes: &str) -> String {
    match bytes.contains('.') && shown.ends_with(" bytes") {
        true => format!("{} bytes", bytes.trim_end_matches('0').trim_end_matches('.')),
        false => shown,
    }
}

/// Whether there is a schema of a name, the catalog's own among them.
pub(super) fn is_schema(context: &Context<'_>, name: &str) -> bool {
    matches!(name, "pg_catalog" | "information_schema")
        || context.catalog.schemas.iter().any(|schema| schema == name)
}

/// `pg_get_serial_sequence`: the sequence that counts a column. Errors: 42P01, 42703.
pub(super) fn serial_sequence(context: &Context<'_>, table: &str, column: &str) -> SqlResult<Option<String>> {
    let number = match relation_named(context, table) {
        // Another session's is shown under a name that nobody else finds.
        Err(error) if error.state == SqlState::UNDEFINED_TABLE && sql::temporary::is_temporary(table) => {
            return Ok(None);
        }
        found => found?,
    };
    let table = match object(context, number) {
        Some(Object::Table(table)) => table,
        Some(Object::View(view)) => &view.shape,
        _ => return Ok(None),
    };
    let at = table.column_named(column).filter(|at| !table.columns[*at].hidden).ok_or_else(|| {
        let told = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
        SqlError::new(SqlState::UNDEFINED_COLUMN, told)
    })?;
    let mut sequences = context.catalog.sequences.values();
    let owned = sequences.find(|sequence| sequence.owner == Some((table.id, at)));
    let called = base::identifier::quoted;
    Ok(owned.map(|sequence| format!("{}.{}", called(&sequence.schema), called(&sequence.name))))
}

/// The object id of a relation by its name as text, or of a number as text. Errors: 42P01, and those of a name.
pub(super) fn relation_named(context: &Context<'_>, text: &str) -> SqlResult<i64> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let (written, name) = sql::catalog::written_name(context.catalog, text)?;
    let schemas: Vec<&str> = sql::temporary::schemas(written.as_deref(), context.search_path).collect();
    let catalog = context.catalog;
    let found = schemas.iter().find_map(|schema| {
        let sequence = || catalog.sequences.values().find(|s| s.schema == *schema && s.name == name);
        let relation = catalog.relation_named(schema, &name).map(|relation| relation.shape().id);
        let index = || catalog.index_named(schema, &name).map(|(_, index)| index.id);
        relation.or_else(|| sequence().map(|sequence| sequence.id)).or_else(index)
    });
    // A primary key has no id of its own.
    let of_key = || {
        let has_it = |t: &&std::sync::Arc<Table>| {
            has_primary_key(t) && t.primary_key_name == name && schemas.contains(&t.schema.as_str())
        };
        catalog.tables.values().find(has_it).map(|table| primary_key_oid(table))
    };
    let is_catalog = written.as_deref().is_none_or(|schema| schema == "pg_catalog");
    let known = || {
        let mut catalogs = CATALOGS.iter().chain(OTHER_CATALOGS).filter(|_| is_catalog);
        catalogs.find(|(known, _)| *known == name).map(|(_, number)| *number)
    };
    let number = found.map(oid).or_else(of_key).or_else(known).map(i64::from);
    number.ok_or_else(|| sql::catalog::undefined(written.as_deref(), &name))
}
