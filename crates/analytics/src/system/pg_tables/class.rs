//! `pg_class`.

use super::{
    BOOL, BTREE, GIN, GIST, HASH, HEAP, INT, Made, OID, Object, Owned, SMALL, TEXT, has_primary_key,
    has_triggers, int, object, primary_key_oid, privileges, schema_oid, text, texts,
};
use crate::context::Context;
use crate::system::partitions;
use base::roles::Privileges;
use base::schema::{AccessMethod, Table};
use base::views::{CheckOption, View};
use base::{DataType, Datum, TableId};
use sql::lower::{FIRST_OID, oid};

/// What the row of a relation tells that does not follow from its object id.
struct Relation<'a> {
    number: u32,
    name: &'a str,
    schema: &'a str,
    kind: &'static str,
    columns: usize,
    checks: usize,
    has_index: bool,
}

pub(super) fn class(context: &Context<'_>) -> Made {
    let mut made = empty();
    let catalog = context.catalog;
    let mut add = |relation: Relation<'_>| made.rows.push(row(context, &relation));
    for table in catalog.tables.values() {
        add(Relation {
            number: oid(table.id),
            name: &table.name,
            schema: &table.schema,
            kind: if sql::materialized::is_one(catalog, table.id) { "m" } else { partitions::kind(table) },
            columns: table.visible_columns().count(),
            checks: table.declared_checks().count(),
            has_index: has_primary_key(table) || !table.indexes.is_empty(),
        });
        // What a partitioned table has is partitioned.
        let kind = if table.partitioning.is_some() { "I" } else { "i" };
        let (schema, checks, has_index) = (table.schema.as_str(), 0, false);
        if has_primary_key(table) {
            let (number, name) = (primary_key_oid(table), table.primary_key_name.as_str());
            let columns = table.primary_key.len();
            add(Relation { number, name, schema, kind, columns, checks, has_index });
        }
        for index in &table.indexes {
            let (number, name) = (oid(index.id), index.name.as_str());
            let columns = index.keys().len() + index.form.include.len();
            add(Relation { number, name, schema, kind, columns, checks, has_index });
        }
    }
    for sequence in catalog.sequences.values() {
        let (number, name, schema) = (oid(sequence.id), sequence.name.as_str(), sequence.schema.as_str());
        add(Relation { number, name, schema, kind: "S", columns: 3, checks: 0, has_index: false });
    }
    for view in sql::materialized::plain(catalog) {
        let shape = &view.shape;
        add(Relation {
            number: oid(shape.id),
            name: &shape.name,
            schema: &shape.schema,
            kind: partitions::kind_of_view(view),
            columns: shape.columns.len(),
            checks: partitions::checks_of_view(catalog, view),
            has_index: false,
        });
    }
    for of in catalog.types.composites.values() {
        add(Relation {
            number: oid(of.id()),
            name: &of.description().name,
            schema: &of.description().schema,
            kind: "c",
            columns: of.attributes().len(),
            checks: 0,
            has_index: false,
        });
    }
    made
}

fn empty() -> Made {
    Made::new(&[
        ("oid", OID),
        ("relname", TEXT),
        ("relnamespace", OID),
        ("reltype", OID),
        ("reloftype", OID),
        ("relowner", OID),
        ("relam", OID),
        ("relfilenode", OID),
        ("reltablespace", OID),
        ("relpages", INT),
        ("reltuples", DataType::Real),
        ("relallvisible", INT),
        ("reltoastrelid", OID),
        ("relhasindex", BOOL),
        ("relisshared", BOOL),
        ("relpersistence", TEXT),
        ("relkind", TEXT),
        ("relnatts", SMALL),
        ("relchecks", SMALL),
        ("relhasrules", BOOL),
        ("relhastriggers", BOOL),
        ("relhassubclass", BOOL),
        ("relrowsecurity", BOOL),
        ("relforcerowsecurity", BOOL),
        ("relispopulated", BOOL),
        ("relreplident", TEXT),
        ("relispartition", BOOL),
        ("relrewrite", OID),
        ("reloptions", texts()),
        ("relpartbound", TEXT),
        ("relacl", TEXT),
    ])
}

fn oid_of(method: AccessMethod) -> u32 {
    match method {
        AccessMethod::Btree => BTREE,
        AccessMethod::Hash => HASH,
        AccessMethod::Gin => GIN,
        AccessMethod::Gist => GIST,
    }
}

fn row(context: &Context<'_>, relation: &Relation<'_>) -> Vec<Datum> {
    let Relation { number, name, schema, kind, columns, checks, has_index } = *relation;
    let catalog = context.catalog;
    let found = object(context, i64::from(number));
    let view = match found {
        Some(Object::View(view)) => Some(view),
        _ => None,
    };
    let (options, triggers) = match found {
        Some(Object::Table(table)) => (placed(context, table), has_triggers(context, table)),
        Some(Object::View(view)) => (of_view(view), of_partition(context, view)),
        _ => (Datum::Null, false),
    };
    // An index is its table's.
    let id = match found {
        Some(Object::PrimaryKey(table) | Object::Index(table, _)) => table.id,
        _ => TableId(number.saturating_sub(FIRST_OID)),
    };
    let owned = Owned::Relation(id);
    let list = match kind {
        "r" | "p" | "v" | "m" => privileges::list(context, &owned, Privileges::OF_TABLE),
        "S" => privileges::list(context, &owned, Privileges::OF_SEQUENCE),
        _ => Datum::Null,
    };
    let access = match (kind, found) {
        ("r" | "m", _) => HEAP,
        ("i" | "I", Some(Object::Index(_, index))) => oid_of(index.form.method),
        ("i" | "I", _) => BTREE,
        _ => 0,
    };
    let has_partitions = kind == "p" && !sql::partitions::children(catalog, id).is_empty();
    let no = || Datum::Bool(false);
    vec![
        int(number),
        text(name),
        int(schema_oid(context, schema)),
        int(0),
        int(0),
        int(catalog.roles.owner_of(&owned).0),
        int(access),
        int(number),
        int(0),
        int(0),
        Datum::Float(-1.0),
        int(0),
        int(0),
        Datum::Bool(has_index),
        no(),
        text(if sql::temporary::is_temporary(schema) { "t" } else { "p" }),
        text(kind),
        int(columns as i64),
        int(checks as i64),
        no(),
        Datum::Bool(triggers),
        Datum::Bool(has_partitions),
        no(),
        no(),
        Datum::Bool(sql::materialized::has_rows(catalog, id)),
        text("d"),
        Datum::Bool(view.is_some_and(|view| view.partition.is_some())),
        int(0),
        options,
        view.and_then(|view| partitions::bound(context, view)).map_or(Datum::Null, text),
        list,
    ]
}

/// Whether a view is a partition whose table has triggers, which fire for it too.
fn of_partition(context: &Context<'_>, view: &View) -> bool {
    let table = view.partition.as_ref().and_then(|of| sql::partitions::root(context.catalog, of.parent));
    table.is_some_and(|table| has_triggers(context, table))
}

/// The options of a view.
fn of_view(view: &View) -> Datum {
    let check_option = match view.check_option {
        _ if view.partition.is_some() => return Datum::Null,
        CheckOption::No => None,
        CheckOption::Local => Some("check_option=local"),
        CheckOption::Cascaded => Some("check_option=cascaded"),
    };
    let options: Vec<Datum> =
        view.security.shown().into_iter().chain(check_option.map(String::from)).map(text).collect();
    if options.is_empty() { Datum::Null } else { Datum::Array(options.into()) }
}

/// Storage parameters: where the table's rows live.
fn placed(context: &Context<'_>, table: &Table) -> Datum {
    let topology = context.cluster().topology();
    let parts = sql::ddl::placement::described(table, context.catalog, topology);
    Datum::Array(parts.iter().map(|(name, value)| text(format!("{name}={value}"))).collect())
}
