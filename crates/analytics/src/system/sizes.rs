//! Sizes of tables, indexes and the database, as `pg_relation_size` and its kin tell them.
//!
//! They are estimates: rows as the last query over a table's columns counted them, times what a row of its types takes. Of a
//! table that no query has read here since the node began nothing is known, and its size is told as 0.

use super::definitions::relation_named;
use super::pg_tables::{Object, object};
use crate::context::Context;
use base::DataType;
use base::databases::DatabaseId;
use base::error::SqlResult;
use base::schema::{Index, Table};

/// What a row takes beside its values, and an entry of an index beside its key.
const ROW_BYTES: u64 = 24;
/// A text or an array whose length nobody has measured.
const TEXT_BYTES: u64 = 32;

/// What a function is asked about: a number or a name.
pub(super) enum Asked {
    Number(i64),
    Name(String),
}

/// Bytes; `None` for a relation that there is none of. Errors: 42P01, 3D000 for a name of none.
pub(super) fn bytes(
    context: &Context<'_>,
    function: &str,
    asked: Asked,
    fork: Option<&str>,
) -> SqlResult<Option<i64>> {
    if matches!(function, "pg_database_size" | "pg_tablespace_size") {
        let databases = &context.catalog.databases;
        let other = match (&asked, function) {
            (_, "pg_tablespace_size") => None,
            (Asked::Name(name), _) if databases.named(name).is_none() => {
                return Err(base::databases::missing(name));
            }
            (Asked::Name(name), _) => databases.named(name),
            (Asked::Number(number), _) => {
                u32::try_from(*number).ok().and_then(|id| databases.all.get(&DatabaseId(id)))
            }
        };
        return match other {
            // What is in another database is not known here.
            Some(other) if other.id != context.catalog.database() => Ok(Some(0)),
            _ => Ok(Some(signed(context.catalog.tables.values().map(|table| of_all(context, table)).sum()))),
        };
    }
    let number = match asked {
        Asked::Number(number) => number,
        Asked::Name(name) => relation_named(context, &name)?,
    };
    // There is nothing beside the rows themselves.
    let is_main = fork.is_none_or(|fork| fork == "main");
    let found = object(context, number).map(|found| match (found, function) {
        (Object::Table(table), "pg_relation_size") if is_main => of_rows(context, table),
        (Object::Table(table), "pg_table_size") => of_rows(context, table),
        (Object::Table(table), "pg_indexes_size") => of_indexes(context, table),
        (Object::Table(table), "pg_total_relation_size") => of_all(context, table),
        (Object::Index(table, index), name) if name != "pg_indexes_size" && is_main => {
            of_index(context, table, index)
        }
        _ => 0,
    });
    Ok(found.map(signed))
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn rows(context: &Context<'_>, table: &Table) -> u64 {
    let known = context.analytics.statistics.lock().expect("no panic while counting");
    known.get(&table.id).map_or(0, |known| known.figures.rows as u64)
}

fn of_rows(context: &Context<'_>, table: &Table) -> u64 {
    let columns: u64 = table.columns.iter().map(|column| width(column.data_type)).sum();
    rows(context, table) * (ROW_BYTES + columns)
}

fn of_index(context: &Context<'_>, table: &Table, index: &Index) -> u64 {
    let columns = index.columns.iter().chain(&table.primary_key);
    let key: u64 = columns.map(|column| width(table.columns[*column].data_type)).sum();
    rows(context, table) * (ROW_BYTES + key)
}

fn of_indexes(context: &Context<'_>, table: &Table) -> u64 {
    table.indexes.iter().map(|index| of_index(context, table, index)).sum()
}

fn of_all(context: &Context<'_>, table: &Table) -> u64 {
    of_rows(context, table) + of_indexes(context, table)
}

fn width(data_type: DataType) -> u64 {
    match data_type {
        DataType::Varchar { length } | DataType::Char { length } => u64::from(length).min(TEXT_BYTES),
        other => u64::try_from(super::type_descriptions::type_length(other)).unwrap_or(TEXT_BYTES),
    }
}
