//! Tables made for `pg_dump`: relations, columns, defaults, indexes and comments as it asks for them.
//!
//! KEEPS: the columns of a table are numbered without holes, in all of these alike.

use super::{CLASS, CONSTRAINT};
use crate::context::Context;
use crate::system::definitions::primary_index;
use crate::system::pg_tables::{
    check_oid, default_oid, foreign_key_oid, has_primary_key, has_triggers, primary_key_oid, schema_oid,
};
use crate::system::triggers::TRIGGER;
use crate::system::{Made, domains, partitions, privileges, routines};
use base::comments::Commented;
use base::roles::{Object, Privileges};
use base::schema::{Identity, Index, Sequence, Table};
use base::views::CheckOption;
use base::{DataType, Datum, TableId};
use sql::ddl::indexes::written::{self, Style};
use sql::lower::oid;
use sql::types::type_modifier;

const INT: DataType = DataType::Integer;
const TEXT: DataType = DataType::Text;
const BOOL: DataType = DataType::Boolean;

fn int(i: impl Into<i64>) -> Datum {
    Datum::Int(i.into())
}
fn text(s: impl AsRef<str>) -> Datum {
    Datum::text(s)
}
fn no() -> Datum {
    Datum::Bool(false)
}

/// A table for one of the questions; `None` if there is none of this name.
pub(in crate::system) fn make(context: &Context<'_>, name: &str) -> Option<Made> {
    Some(match name {
        "meridian_dump_relations" => relations(context),
        "meridian_dump_columns" => columns(context),
        "meridian_dump_defaults" => defaults(context),
        "meridian_dump_indexes" => indexes(context),
        "meridian_dump_comments" => comments(context),
        "meridian_dump_functions" => routines::dumped(context),
        "meridian_dump_function_details" => routines::dumped_details(context),
        "meridian_dump_aggregate_details" => routines::aggregates::dumped_details(context),
        _ => return None,
    })
}

/// A column's number among those that are shown.
fn place(table: &Table, column: usize) -> i64 {
    table.visible_columns().filter(|(at, _)| *at <= column).count() as i64
}

/// The places of an index's columns; an expression has none.
fn places(table: &Table, index: &Index) -> String {
    let of = |c: &usize| if index.expression(*c).is_some() { 0 } else { place(table, *c) };
    let columns = index.keys().iter().chain(&index.form.include);
    columns.map(|c| of(c).to_string()).collect::<Vec<_>>().join(" ")
}

const RELATIONS: &[(&str, DataType)] = &[
    ("tableoid", INT),
    ("oid", INT),
    ("relname", TEXT),
    ("relnamespace", INT),
    ("relkind", TEXT),
    ("reltype", INT),
    ("relowner", INT),
    ("relchecks", INT),
    ("relhasindex", BOOL),
    ("relhasrules", BOOL),
    ("relpages", INT),
    ("relhastriggers", BOOL),
    ("relpersistence", TEXT),
    ("reloftype", INT),
    ("relacl", TEXT),
    ("acldefault", TEXT),
    ("foreignserver", INT),
    ("relfrozenxid", INT),
    ("tfrozenxid", INT),
    ("toid", INT),
    ("toastpages", INT),
    ("toast_reloptions", TEXT),
    ("owning_tab", INT),
    ("owning_col", INT),
    ("reltablespace", TEXT),
    ("relhasoids", BOOL),
    ("relispopulated", BOOL),
    ("relreplident", TEXT),
    ("relrowsecurity", BOOL),
    ("relforcerowsecurity", BOOL),
    ("relminmxid", INT),
    ("tminmxid", INT),
    ("reloptions", TEXT),
    ("checkoption", TEXT),
    ("amname", TEXT),
    ("is_identity_sequence", BOOL),
    ("ispartition", BOOL),
];

/// WITH CHECK OPTION of a view.
fn check_option(context: &Context<'_>, id: TableId) -> Datum {
    let view = context.catalog.views.get(&id).filter(|view| view.partition.is_none());
    match view.map(|view| view.check_option) {
        Some(CheckOption::Local) => text("LOCAL"),
        Some(CheckOption::Cascaded) => text("CASCADED"),
        _ => Datum::Null,
    }
}

/// Other options of a view, as an array.
fn security(context: &Context<'_>, id: TableId) -> String {
    let view = context.catalog.views.get(&id).filter(|view| view.partition.is_none());
    format!("{{{}}}", view.map_or_else(Vec::new, |view| view.security.shown()).join(","))
}

/// The table and the place of the column that a sequence goes with, and whether that is an identity column.
fn owned(context: &Context<'_>, sequence: &Sequence) -> Option<(u32, i64, bool)> {
    let (of, column) = sequence.owner?;
    let table = context.catalog.table(of)?;
    let is_identity = table.columns.get(column)?.identity.is_identity();
    Some((oid(of), place(table, column), is_identity))
}

/// Where rows live is no storage parameter of PostgreSQL's, and is left out.
fn relations(context: &Context<'_>) -> Made {
    let mut made = Made::new(RELATIONS);
    let roles = &context.catalog.roles;
    let mut add =
        |id, name: &str, schema: &str, kind: &str, checks: usize, owned: Option<(u32, i64, bool)>| {
            let object = Object::Relation(id);
            let owner = roles.owner_of(&object);
            let (of_kind, default) = match kind {
                "S" => (Privileges::OF_SEQUENCE, "s"),
                _ => (Privileges::OF_TABLE, "r"),
            };
            let default = privileges::default_list(context, default, owner);
            let table = context.catalog.table(id);
            made.rows.push(vec![
                int(CLASS),
                int(oid(id)),
                text(name),
                int(schema_oid(context, schema)),
                text(kind),
                int(0),
                int(owner.0),
                int(checks as i64),
                Datum::Bool(table.is_some_and(|t| has_primary_key(t) || !t.indexes.is_empty())),
                no(),
                int(0),
                Datum::Bool(table.is_some_and(|t| has_triggers(context, t))),
                text(if sql::temporary::is_temporary(schema) { "t" } else { "p" }),
                int(0),
                privileges::list(context, &object, of_kind),
                default.map_or(Datum::Null, text),
                int(0),
                int(0),
                Datum::Null,
                Datum::Null,
                Datum::Null,
                Datum::Null,
                owned.map_or(Datum::Null, |(table, ..)| int(table)),
                owned.map_or(Datum::Null, |(_, column, _)| int(column)),
                Datum::Null,
                no(),
                Datum::Bool(sql::materialized::has_rows(context.catalog, id)),
                text("d"),
                no(),
                no(),
                int(0),
                Datum::Null,
                text(security(context, id)),
                check_option(context, id),
                if matches!(kind, "r" | "m") { text("heap") } else { Datum::Null },
                Datum::Bool(owned.is_some_and(|(.., is_identity)| is_identity)),
                Datum::Bool(partitions::is_one(context.catalog, id)),
            ]);
        };
    for table in context.catalog.tables.values() {
        let is_materialized = sql::materialized::is_one(context.catalog, table.id);
        let kind = if is_materialized { "m" } else { partitions::kind(table) };
        add(table.id, &table.name, &table.schema, kind, table.declared_checks().count(), None);
    }
    for sequence in context.catalog.sequences.values() {
        add(sequence.id, &sequence.name, &sequence.schema, "S", 0, owned(context, sequence));
    }
    for view in sql::materialized::plain(context.catalog) {
        let kind = partitions::kind_of_view(view);
        let checks = partitions::checks_of_view(context.catalog, view);
        add(view.shape.id, &view.shape.name, &view.shape.schema, kind, checks, None);
    }
    made
}

const COLUMNS: &[(&str, DataType)] = &[
    ("attrelid", INT),
    ("attnum", INT),
    ("attname", TEXT),
    ("atttypmod", INT),
    ("attstattarget", INT),
    ("attstorage", TEXT),
    ("typstorage", TEXT),
    ("attnotnull", BOOL),
    ("atthasdef", BOOL),
    ("attisdropped", BOOL),
    ("attlen", INT),
    ("attalign", TEXT),
    ("attislocal", BOOL),
    ("atttypname", TEXT),
    ("attoptions", TEXT),
    ("attcollation", INT),
    ("attfdwoptions", TEXT),
    ("attcompression", TEXT),
    ("attidentity", TEXT),
    ("attmissingval", TEXT),
    ("attgenerated", TEXT),
];

/// A type's name, which means the same under any search path.
fn qualified(data_type: DataType) -> String {
    match data_type {
        DataType::Array(element) => format!("{}[]", qualified(element.data_type())),
        other => other.qualified_name(),
    }
}

fn columns(context: &Context<'_>) -> Made {
    let mut made = Made::new(COLUMNS);
    for table in sql::materialized::shapes(context.catalog) {
        for (number, column) in table.visible_columns() {
            let domain = partitions::domain(context.catalog, table, number);
            let column = partitions::shown(context.catalog, table, column);
            let identity = match column.identity {
                Identity::Always => "a",
                Identity::ByDefault => "d",
                _ => "",
            };
            let type_name = match (domain, column.data_type) {
                (Some(domain), _) => domains::qualified(domain),
                (None, sql::types::NUMERIC) => "numeric".to_string(),
                (None, other) => qualified(other),
            };
            made.rows.push(vec![
                int(oid(table.id)),
                int(place(table, number)),
                text(&column.name),
                int(type_modifier(column.data_type)),
                int(-1),
                text("x"),
                text("x"),
                Datum::Bool(column.not_null),
                Datum::Bool(column.default.is_some() && identity.is_empty()),
                no(),
                int(-1),
                text("i"),
                Datum::Bool(true),
                text(type_name),
                text(""),
                int(0),
                text(""),
                text(""),
                text(identity),
                Datum::Null,
                text(if column.identity == Identity::Generated { "s" } else { "" }),
            ]);
        }
    }
    made
}

fn defaults(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("adrelid", INT),
        ("adnum", INT),
        ("tableoid", INT),
        ("oid", DataType::BigInt),
        ("adsrc", TEXT),
    ]);
    for table in partitions::tables(context.catalog) {
        for (number, column) in table.visible_columns() {
            let Some(default) = &column.default else { continue };
            if column.identity.is_identity() {
                continue;
            }
            let (relation, nth) = (oid(table.id), place(table, number));
            let id = default_oid(table, number);
            // A sequence is named with its schema, because a dump is read with no search path.
            let owned = |s: &&std::sync::Arc<Sequence>| s.owner == Some((table.id, number));
            let source = match context.catalog.sequences.values().find(owned) {
                Some(sequence) => {
                    let name = format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name));
                    format!("nextval('{}'::regclass)", name.replace('\'', "''"))
                }
                None => default.clone(),
            };
            made.rows.push(vec![int(relation), int(nth), int(2604u32), int(id), text(source)]);
        }
    }
    made
}

fn quoted(name: &str) -> String {
    sql::views::quoted(name).to_string()
}

const INDEXES: &[(&str, DataType)] = &[
    ("indrelid", INT),
    ("indexname", TEXT),
    ("tableoid", INT),
    ("oid", INT),
    ("indexdef", TEXT),
    ("indkey", TEXT),
    ("indisclustered", BOOL),
    ("contype", TEXT),
    ("conname", TEXT),
    ("condeferrable", BOOL),
    ("condeferred", BOOL),
    ("contableoid", INT),
    ("conoid", INT),
    ("condef", TEXT),
    ("tablespace", TEXT),
    ("indreloptions", TEXT),
    ("indisreplident", BOOL),
    ("parentidx", INT),
    ("indnkeyatts", INT),
    ("indnatts", INT),
    ("indstatcols", TEXT),
    ("indstatvals", TEXT),
    ("indnullsnotdistinct", BOOL),
];

fn indexes(context: &Context<'_>) -> Made {
    let mut made = Made::new(INDEXES);
    for table in context.catalog.tables.values() {
        let mut add = |number: u32, index: &Index, kind: Option<&str>| {
            let name = &index.name;
            let constraint = kind.map(|kind| written::constraint(table, index, kind == "p"));
            let definition = written::definition(table, index, Style::Plain);
            made.rows.push(vec![
                int(oid(table.id)),
                text(name),
                int(CLASS),
                int(number),
                text(definition),
                text(places(table, index)),
                no(),
                kind.map_or(Datum::Null, text),
                kind.map_or(Datum::Null, |_| text(name)),
                kind.map_or(Datum::Null, |_| no()),
                kind.map_or(Datum::Null, |_| no()),
                kind.map_or(Datum::Null, |_| int(CONSTRAINT)),
                kind.map_or(Datum::Null, |_| int(number)),
                constraint.map_or(Datum::Null, text),
                Datum::Null,
                Datum::Null,
                no(),
                Datum::Null,
                int(index.keys().len() as i64),
                int((index.keys().len() + index.form.include.len()) as i64),
                text(""),
                text(""),
                Datum::Bool(index.form.nulls_are_equal),
            ]);
        };
        if has_primary_key(table) {
            add(primary_key_oid(table), &primary_index(table), Some("p"));
        }
        for index in &table.indexes {
            let kind = index.constraint.then_some("u");
            add(oid(index.id), index, kind);
        }
    }
    made
}

/// The catalog of functions, as `classoid` tells it.
const PROC: u32 = 1255;

/// The catalog of types.
const TYPE: u32 = 1247;

/// Comments, with columns numbered as [`columns`] does.
fn comments(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[("description", TEXT), ("classoid", INT), ("objoid", INT), ("objsubid", INT)]);
    for (what, comment) in &context.catalog.comments.0 {
        let (class, object, column) = match what {
            Commented::Object(Object::Relation(id)) if context.catalog.routines.0.contains_key(id) => {
                (PROC, oid(*id), 0)
            }
            Commented::Object(Object::Relation(id)) if context.catalog.trigger(*id).is_some() => {
                (TRIGGER, oid(*id), 0)
            }
            Commented::Object(Object::Relation(id)) if context.catalog.types.contains(*id) => {
                (TYPE, oid(*id), 0)
            }
            Commented::Object(Object::Relation(id)) => (CLASS, oid(*id), 0),
            Commented::Object(Object::Column(id, column)) => {
                let Some(relation) = context.catalog.relation(*id) else { continue };
                (CLASS, oid(*id), place(relation.shape(), *column as usize))
            }
            Commented::Object(Object::Schema(name)) => (2615, schema_oid(context, name), 0),
            Commented::Constraint(id, name) => {
                let Some(table) = context.catalog.table(*id) else { continue };
                let index = table.indexes.iter().find(|index| index.name == *name);
                let check = table.checks.iter().position(|check| check.name == *name);
                let reference = table.foreign.own.iter().position(|key| key.name == *name);
                let number = match (index, check, reference) {
                    (Some(index), ..) => oid(index.id),
                    (None, Some(nth), _) => check_oid(table, nth),
                    (None, None, Some(nth)) => foreign_key_oid(table, nth),
                    (None, None, None) => primary_key_oid(table),
                };
                (CONSTRAINT, number, 0)
            }
            _ => continue,
        };
        made.rows.push(vec![text(comment), int(class), int(object), int(column)]);
    }
    // The client looks for what it wants by halving.
    made.rows.sort_by_key(|row| row[1..].iter().map(|value| value.int()).collect::<Vec<_>>());
    made
}
