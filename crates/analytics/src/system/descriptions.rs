//! Comments in the system catalog: `pg_description`, `obj_description(…)` and its kin.

use super::Made;
use super::pg_tables::{check_oid, foreign_key_oid, primary_key_oid, schema_oid};
use super::triggers::TRIGGER;
use crate::context::Context;
use base::comments::Commented;
use base::roles::Object;
use base::{DataType, Datum, TableId};
use sql::lower::oid;

/// Object ids of the catalogs that comments are about things of.
const CLASS: u32 = 1259;
const NAMESPACE: u32 = 2615;
const CONSTRAINT: u32 = 2606;
const DATABASES: u32 = 1262;
const ROLES: u32 = 1260;
const PROC: u32 = 1255;
const TYPE: u32 = 1247;

/// What a comment is about: a catalog, an object of it, a column of that.
type Place = (u32, u32, u32);

fn place(context: &Context<'_>, what: &Commented) -> Option<Place> {
    Some(match what {
        Commented::Object(Object::Relation(id)) if context.catalog.routines.0.contains_key(id) => {
            (PROC, oid(*id), 0)
        }
        Commented::Object(Object::Relation(id)) if context.catalog.trigger(*id).is_some() => {
            (TRIGGER, oid(*id), 0)
        }
        Commented::Object(Object::Relation(id)) if context.catalog.types.contains(*id) => (TYPE, oid(*id), 0),
        Commented::Object(Object::Relation(id)) => (CLASS, oid(*id), 0),
        Commented::Object(Object::Column(id, column)) => (CLASS, oid(*id), column + 1),
        Commented::Object(Object::Schema(name)) => (NAMESPACE, schema_oid(context, name), 0),
        Commented::Object(Object::Database(id)) => (DATABASES, id.0, 0),
        Commented::Object(Object::Procedure(_) | Object::SchemaOf(..)) => return None,
        Commented::Constraint(table, name) => (CONSTRAINT, constraint(context, *table, name)?, 0),
        Commented::Role(id) => (ROLES, id.0, 0),
    })
}

fn constraint(context: &Context<'_>, table: TableId, name: &str) -> Option<u32> {
    let table = context.catalog.table(table)?;
    if table.primary_key_name == name {
        return Some(primary_key_oid(table));
    }
    let index = table.indexes.iter().find(|index| index.name == name).map(|index| oid(index.id));
    let check = || table.checks.iter().position(|check| check.name == name);
    let reference = || table.foreign.own.iter().position(|key| key.name == name);
    index
        .or_else(|| check().map(|nth| check_oid(table, nth)))
        .or_else(|| reference().map(|nth| foreign_key_oid(table, nth)))
}

/// A table about comments; `None` if there is none of this name.
pub(super) fn make(context: &Context<'_>, name: &str) -> Option<Made> {
    match name {
        "pg_description" => Some(table(context, false)),
        "pg_shdescription" => Some(table(context, true)),
        _ => None,
    }
}

/// `pg_description`, or `pg_shdescription` about what all databases share.
fn table(context: &Context<'_>, is_shared: bool) -> Made {
    const INT: DataType = DataType::Integer;
    let mut columns = vec![("objoid", INT), ("classoid", INT)];
    if !is_shared {
        columns.push(("objsubid", INT));
    }
    columns.push(("description", DataType::Text));
    let mut made = Made::new(&columns);
    for (what, text) in &context.catalog.comments.0 {
        let Some((class, object, column)) = place(context, what) else { continue };
        if matches!(class, DATABASES | ROLES) != is_shared {
            continue;
        }
        let mut row = vec![Datum::Int(object.into()), Datum::Int(class.into())];
        if !is_shared {
            row.push(Datum::Int(column.into()));
        }
        row.push(Datum::text(text));
        made.rows.push(row);
    }
    made
}

/// The comment on an object, or on a column of a relation; `catalog`: where the object id is one.
pub(super) fn of(context: &Context<'_>, object: i64, column: i64, catalog: Option<&str>) -> Option<String> {
    let class = match catalog.map(|name| name.rsplit('.').next().unwrap_or(name)) {
        None => None,
        Some("pg_class") => Some(CLASS),
        Some("pg_namespace") => Some(NAMESPACE),
        Some("pg_proc") => Some(PROC),
        Some("pg_trigger") => Some(TRIGGER),
        Some("pg_type") => Some(TYPE),
        Some("pg_constraint") => Some(CONSTRAINT),
        Some("pg_database") => Some(DATABASES),
        Some("pg_authid") => Some(ROLES),
        Some(_) => return None,
    };
    let comments = context.catalog.comments.0.iter();
    let mut found = comments.filter(|(what, _)| {
        place(context, what).is_some_and(|(of, id, at)| {
            class.is_none_or(|class| class == of) && i64::from(id) == object && i64::from(at) == column
        })
    });
    found.next().map(|(_, text)| text.clone())
}
