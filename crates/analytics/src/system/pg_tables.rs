//! `pg_catalog` tables about what users made.

use super::Made;
use crate::context::Context;
use base::schema::{Identity, Index, Table};
use base::{DataType, Datum, TableId};
use sql::lower::{FIRST_OID, oid};
use sql::types::{type_modifier, type_oid};
use std::sync::Arc;

const OID: DataType = DataType::Integer;
const INT: DataType = DataType::Integer;
const SMALL: DataType = DataType::SmallInt;
const BOOL: DataType = DataType::Boolean;
const TEXT: DataType = DataType::Text;

/// Object ids of schemas, and of primary keys, which have no id of their own.
const PG_CATALOG: u32 = 11;
const PUBLIC: u32 = 2200;
const INFORMATION_SCHEMA: u32 = 13_000;
const MERIDIAN: u32 = 13_001;
const FIRST_SCHEMA: u32 = 0x2000_0000;
const FIRST_PRIMARY_KEY: u32 = 0x4000_0000;
const FIRST_CHECK: u32 = 0x6000_0000;
pub(super) const DATABASE: u32 = 16_000;
pub(super) const OWNER: u32 = 10;
const BTREE: u32 = 403;
const HEAP: u32 = 2;

fn int(i: impl Into<i64>) -> Datum {
    Datum::Int(i.into())
}
fn text(s: impl AsRef<str>) -> Datum {
    Datum::text(s)
}

/// A table by name; `None` if it is not about user objects.
pub(super) fn make(context: &Context<'_>, name: &str) -> Option<Made> {
    Some(match name {
        "pg_namespace" => namespace(context),
        "pg_class" => class(context),
        "pg_attribute" => attribute(context),
        "pg_attrdef" => attrdef(context),
        "pg_index" => index(context),
        "pg_constraint" => constraint(context),
        "meridian_index_keys" => keys(index(context), "indexrelid", "indkey"),
        "meridian_constraint_keys" => keys(constraint(context), "oid", "conkey"),
        "pg_sequence" => sequence(context),
        "pg_database" => database(context),
        "pg_roles" | "pg_authid" | "pg_user" => roles(context),
        "pg_tables" => tables(context),
        "pg_indexes" => indexes(context),
        "pg_settings" => settings(),
        "pg_views" => {
            Made::new(&[("schemaname", TEXT), ("viewname", TEXT), ("viewowner", TEXT), ("definition", TEXT)])
        }
        "pg_tablespace" => tablespace(),
        _ => return None,
    })
}

pub(super) fn schema_oid(context: &Context<'_>, name: &str) -> u32 {
    match name {
        "pg_catalog" => PG_CATALOG,
        "public" => PUBLIC,
        "information_schema" => INFORMATION_SCHEMA,
        "meridian" => MERIDIAN,
        _ => {
            let at = context.catalog.schemas.iter().position(|s| s == name).unwrap_or(0);
            FIRST_SCHEMA + at as u32
        }
    }
}

pub(super) fn primary_key_oid(table: &Table) -> u32 {
    FIRST_PRIMARY_KEY + table.id.0
}

pub(super) fn check_oid(table: &Table, nth: usize) -> u32 {
    FIRST_CHECK + table.id.0 * 256 + nth as u32
}

/// Whether the primary key was declared.
pub(super) fn has_primary_key(table: &Table) -> bool {
    !table.primary_key.iter().any(|c| table.columns[*c].hidden)
}

/// What an object id names.
pub(super) enum Object<'a> {
    Table(&'a Arc<Table>),
    PrimaryKey(&'a Arc<Table>),
    Index(&'a Arc<Table>, &'a Index),
    Check(&'a Arc<Table>, usize),
    Sequence,
}

pub(super) fn object<'a>(context: &Context<'a>, number: i64) -> Option<Object<'a>> {
    let number = u32::try_from(number).ok()?;
    if number >= FIRST_CHECK {
        let (table, nth) = ((number - FIRST_CHECK) / 256, (number - FIRST_CHECK) % 256);
        return context.catalog.table(TableId(table)).map(|t| Object::Check(t, nth as usize));
    }
    if number >= FIRST_PRIMARY_KEY {
        return context.catalog.table(TableId(number - FIRST_PRIMARY_KEY)).map(Object::PrimaryKey);
    }
    let id = TableId(number.checked_sub(FIRST_OID)?);
    if let Some(table) = context.catalog.table(id) {
        return Some(Object::Table(table));
    }
    if context.catalog.sequences.contains_key(&id) {
        return Some(Object::Sequence);
    }
    context.catalog.index(id).map(|(t, i)| Object::Index(t, i))
}

fn namespace(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[("oid", OID), ("nspname", TEXT), ("nspowner", OID), ("nspacl", TEXT)]);
    let system = ["pg_catalog", "information_schema", "meridian"];
    let names = system.into_iter().chain(context.catalog.schemas.iter().map(String::as_str));
    made.rows =
        names.map(|name| vec![int(schema_oid(context, name)), text(name), int(OWNER), Datum::Null]).collect();
    made
}

fn class(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
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
        ("reloptions", TEXT),
        ("relpartbound", TEXT),
        ("relacl", TEXT),
    ]);
    let mut add =
        |number: u32, name: &str, schema: &str, kind: &str, columns: usize, checks: usize, indexed: bool| {
            let options = match object(context, i64::from(number)) {
                Some(Object::Table(table)) => text(placed(context, table)),
                _ => Datum::Null,
            };
            let access = match kind {
                "r" => HEAP,
                "i" => BTREE,
                _ => 0,
            };
            let no = || Datum::Bool(false);
            made.rows.push(vec![
                int(number),
                text(name),
                int(schema_oid(context, schema)),
                int(0),
                int(0),
                int(OWNER),
                int(access),
                int(number),
                int(0),
                int(0),
                Datum::Float(-1.0),
                int(0),
                int(0),
                Datum::Bool(indexed),
                no(),
                text("p"),
                text(kind),
                int(columns as i64),
                int(checks as i64),
                no(),
                no(),
                no(),
                no(),
                no(),
                Datum::Bool(true),
                text("d"),
                no(),
                int(0),
                options,
                Datum::Null,
                Datum::Null,
            ]);
        };
    for table in context.catalog.tables.values() {
        let indexed = has_primary_key(table) || !table.indexes.is_empty();
        let columns = table.visible_columns().count();
        add(oid(table.id), &table.name, &table.schema, "r", columns, table.checks.len(), indexed);
        if has_primary_key(table) {
            let number = primary_key_oid(table);
            add(number, &table.primary_key_name, &table.schema, "i", table.primary_key.len(), 0, false);
        }
        for index in &table.indexes {
            add(oid(index.id), &index.name, &table.schema, "i", index.columns.len(), 0, false);
        }
    }
    for sequence in context.catalog.sequences.values() {
        add(oid(sequence.id), &sequence.name, &sequence.schema, "S", 3, 0, false);
    }
    made
}

/// Storage parameters as PostgreSQL prints an array of them.
fn placed(context: &Context<'_>, table: &Table) -> String {
    let topology = context.cluster().topology();
    let parts = sql::ddl::placement::described(table, &context.catalog, topology);
    let parts = parts.iter().map(|(name, value)| match value.contains([',', ' ']) {
        true => format!("\"{name}={value}\""),
        false => format!("{name}={value}"),
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

fn attribute(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("attrelid", OID),
        ("attname", TEXT),
        ("atttypid", OID),
        ("attstattarget", INT),
        ("attlen", SMALL),
        ("attnum", SMALL),
        ("attndims", INT),
        ("atttypmod", INT),
        ("attbyval", BOOL),
        ("attstorage", TEXT),
        ("attalign", TEXT),
        ("attnotnull", BOOL),
        ("atthasdef", BOOL),
        ("atthasmissing", BOOL),
        ("attidentity", TEXT),
        ("attgenerated", TEXT),
        ("attisdropped", BOOL),
        ("attislocal", BOOL),
        ("attinhcount", INT),
        ("attcollation", OID),
        ("attacl", TEXT),
        ("attoptions", TEXT),
        ("attcompression", TEXT),
        ("attfdwoptions", TEXT),
    ]);
    let mut add = |relation: u32, number: usize, column: &base::schema::Column, is_index: bool| {
        let identity = if column.identity == Identity::Always && !is_index { "a" } else { "" };
        let has_default = column.default.is_some() && identity.is_empty() && !is_index;
        made.rows.push(vec![
            int(relation),
            text(&column.name),
            int(type_oid(column.data_type)),
            int(-1),
            int(type_length(column.data_type)),
            int(number as i64),
            int(0),
            int(type_modifier(column.data_type)),
            Datum::Bool(type_length(column.data_type) > 0),
            text("p"),
            text("i"),
            Datum::Bool(column.not_null && !is_index),
            Datum::Bool(has_default),
            Datum::Bool(false),
            text(identity),
            text(""),
            Datum::Bool(false),
            Datum::Bool(true),
            int(0),
            int(0),
            Datum::Null,
            Datum::Null,
            text(""),
            Datum::Null,
        ]);
    };
    for table in context.catalog.tables.values() {
        for (number, column) in table.visible_columns() {
            add(oid(table.id), number + 1, column, false);
        }
        if has_primary_key(table) {
            for (at, &c) in table.primary_key.iter().enumerate() {
                add(primary_key_oid(table), at + 1, &table.columns[c], true);
            }
        }
        for index in &table.indexes {
            for (at, &c) in index.columns.iter().enumerate() {
                add(oid(index.id), at + 1, &table.columns[c], true);
            }
        }
    }
    made
}

fn type_length(data_type: DataType) -> i64 {
    match data_type {
        DataType::Boolean => 1,
        DataType::SmallInt => 2,
        DataType::Integer | DataType::Real | DataType::Date => 4,
        DataType::BigInt | DataType::Double | DataType::Timestamp | DataType::TimestampTz => 8,
        DataType::Uuid => 16,
        _ => -1,
    }
}

fn attrdef(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[("oid", OID), ("adrelid", OID), ("adnum", SMALL), ("adbin", TEXT)]);
    for table in context.catalog.tables.values() {
        for (number, column) in table.visible_columns() {
            if let Some(default) = &column.default {
                let id = i64::from(oid(table.id)) * 1600 + number as i64;
                made.rows.push(vec![
                    int(id % i64::from(i32::MAX)),
                    int(oid(table.id)),
                    int(number as i64 + 1),
                    text(default),
                ]);
            }
        }
    }
    made
}

/// What is the same in every session; `SHOW ALL` tells the rest.
fn settings() -> Made {
    let mut made = Made::new(&[("name", TEXT), ("setting", TEXT), ("unit", TEXT), ("category", TEXT)]);
    let known = [
        ("block_size", "8192"),
        ("max_identifier_length", "63"),
        ("max_index_keys", "32"),
        ("server_encoding", "UTF8"),
        ("server_version_num", "150000"),
    ];
    let row =
        |(name, setting): (&str, &str)| vec![text(name), text(setting), Datum::Null, text("Preset Options")];
    made.rows = known.into_iter().map(row).collect();
    made
}

/// A row per column of a vector: see [`super::vectors`].
fn keys(of: Made, key: &str, vector: &str) -> Made {
    let at = |name: &str| of.columns.iter().position(|(n, _)| *n == name).expect("a column of this table");
    let (key, vector) = (at(key), at(vector));
    let mut made = Made::new(&[
        ("meridian_of", OID),
        ("meridian_nth", INT),
        ("meridian_element", SMALL),
        ("meridian_opclass", OID),
        ("meridian_option", SMALL),
        ("meridian_foreign", SMALL),
    ]);
    for row in &of.rows {
        for (n, element) in elements(&base::text::display(&row[vector])).into_iter().enumerate() {
            made.rows.push(vec![
                row[key].clone(),
                int(n as i64 + 1),
                int(element),
                int(0),
                int(0),
                Datum::Null,
            ]);
        }
    }
    made
}

/// Elements of a vector or an array of numbers in its text form.
pub(super) fn elements(text: &str) -> Vec<i64> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '-');
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Column numbers as an int2vector prints them.
fn vector(columns: &[usize]) -> Datum {
    let numbers: Vec<String> = columns.iter().map(|c| (c + 1).to_string()).collect();
    text(numbers.join(" "))
}

fn index(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("indexrelid", OID),
        ("indrelid", OID),
        ("indnatts", SMALL),
        ("indnkeyatts", SMALL),
        ("indisunique", BOOL),
        ("indnullsnotdistinct", BOOL),
        ("indisprimary", BOOL),
        ("indisexclusion", BOOL),
        ("indimmediate", BOOL),
        ("indisclustered", BOOL),
        ("indisvalid", BOOL),
        ("indcheckxmin", BOOL),
        ("indisready", BOOL),
        ("indislive", BOOL),
        ("indisreplident", BOOL),
        ("indkey", TEXT),
        ("indclass", TEXT),
        ("indoption", TEXT),
        ("indexprs", TEXT),
        ("indpred", TEXT),
    ]);
    let mut add = |number: u32, table: &Table, columns: &[usize], unique: bool, primary: bool| {
        let zeros: Vec<&str> = columns.iter().map(|_| "0").collect();
        let (yes, no) = (|| Datum::Bool(true), || Datum::Bool(false));
        made.rows.push(vec![
            int(number),
            int(oid(table.id)),
            int(columns.len() as i64),
            int(columns.len() as i64),
            Datum::Bool(unique),
            no(),
            Datum::Bool(primary),
            no(),
            yes(),
            no(),
            yes(),
            no(),
            yes(),
            yes(),
            no(),
            vector(columns),
            text(zeros.join(" ")),
            text(zeros.join(" ")),
            Datum::Null,
            Datum::Null,
        ]);
    };
    for table in context.catalog.tables.values() {
        if has_primary_key(table) {
            add(primary_key_oid(table), table, &table.primary_key, true, true);
        }
        for index in &table.indexes {
            add(oid(index.id), table, &index.columns, index.unique, false);
        }
    }
    made
}

fn constraint(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("oid", OID),
        ("conname", TEXT),
        ("connamespace", OID),
        ("contype", TEXT),
        ("condeferrable", BOOL),
        ("condeferred", BOOL),
        ("convalidated", BOOL),
        ("conrelid", OID),
        ("contypid", OID),
        ("conindid", OID),
        ("conparentid", OID),
        ("confrelid", OID),
        ("confupdtype", TEXT),
        ("confdeltype", TEXT),
        ("confmatchtype", TEXT),
        ("conislocal", BOOL),
        ("coninhcount", INT),
        ("connoinherit", BOOL),
        ("conkey", TEXT),
        ("confkey", TEXT),
        ("conbin", TEXT),
    ]);
    let mut add = |number: u32,
                   name: &str,
                   table: &Table,
                   kind: &str,
                   index: u32,
                   columns: Option<&[usize]>,
                   bin: Datum| {
        let key = columns.map_or(Datum::Null, |columns| {
            let numbers: Vec<String> = columns.iter().map(|c| (c + 1).to_string()).collect();
            text(format!("{{{}}}", numbers.join(",")))
        });
        let no = || Datum::Bool(false);
        made.rows.push(vec![
            int(number),
            text(name),
            int(schema_oid(context, &table.schema)),
            text(kind),
            no(),
            no(),
            Datum::Bool(true),
            int(oid(table.id)),
            int(0),
            int(index),
            int(0),
            int(0),
            text(" "),
            text(" "),
            text(" "),
            Datum::Bool(true),
            int(0),
            Datum::Bool(true),
            key,
            Datum::Null,
            bin,
        ]);
    };
    for table in context.catalog.tables.values() {
        if has_primary_key(table) {
            let number = primary_key_oid(table);
            add(number, &table.primary_key_name, table, "p", number, Some(&table.primary_key), Datum::Null);
        }
        for index in table.indexes.iter().filter(|i| i.constraint) {
            add(oid(index.id), &index.name, table, "u", oid(index.id), Some(&index.columns), Datum::Null);
        }
        for (nth, check) in table.checks.iter().enumerate() {
            add(check_oid(table, nth), &check.name, table, "c", 0, None, text(&check.sql));
        }
    }
    made
}

fn sequence(context: &Context<'_>) -> Made {
    let big = DataType::BigInt;
    let mut made = Made::new(&[
        ("seqrelid", OID),
        ("seqtypid", OID),
        ("seqstart", big),
        ("seqincrement", big),
        ("seqmax", big),
        ("seqmin", big),
        ("seqcache", big),
        ("seqcycle", BOOL),
    ]);
    made.rows = context
        .catalog
        .sequences
        .values()
        .map(|s| {
            vec![
                int(oid(s.id)),
                int(20),
                int(s.start),
                int(s.increment),
                int(i64::MAX),
                int(1),
                int(100),
                Datum::Bool(false),
            ]
        })
        .collect();
    made
}

fn database(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("oid", OID),
        ("datname", TEXT),
        ("datdba", OID),
        ("encoding", INT),
        ("datlocprovider", TEXT),
        ("datistemplate", BOOL),
        ("datallowconn", BOOL),
        ("datconnlimit", INT),
        ("dattablespace", OID),
        ("datcollate", TEXT),
        ("datctype", TEXT),
        ("daticulocale", TEXT),
        ("datcollversion", TEXT),
        ("datacl", TEXT),
    ]);
    made.rows.push(vec![
        int(DATABASE),
        text(context.database),
        int(OWNER),
        int(6),
        text("c"),
        Datum::Bool(false),
        Datum::Bool(true),
        int(-1),
        int(1663),
        text("C.UTF-8"),
        text("C.UTF-8"),
        Datum::Null,
        Datum::Null,
        Datum::Null,
    ]);
    made
}

fn roles(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("oid", OID),
        ("rolname", TEXT),
        ("rolsuper", BOOL),
        ("rolinherit", BOOL),
        ("rolcreaterole", BOOL),
        ("rolcreatedb", BOOL),
        ("rolcanlogin", BOOL),
        ("rolreplication", BOOL),
        ("rolconnlimit", INT),
        ("rolpassword", TEXT),
        ("rolvaliduntil", DataType::TimestampTz),
        ("rolbypassrls", BOOL),
        ("rolconfig", TEXT),
        ("usename", TEXT),
        ("usesysid", OID),
        ("usesuper", BOOL),
    ]);
    let yes = || Datum::Bool(true);
    made.rows.push(vec![
        int(OWNER),
        text(context.user),
        yes(),
        yes(),
        yes(),
        yes(),
        yes(),
        Datum::Bool(false),
        int(-1),
        Datum::Null,
        Datum::Null,
        yes(),
        Datum::Null,
        text(context.user),
        int(OWNER),
        yes(),
    ]);
    made
}

fn tablespace() -> Made {
    let mut made = Made::new(&[
        ("oid", OID),
        ("spcname", TEXT),
        ("spcowner", OID),
        ("spcacl", TEXT),
        ("spcoptions", TEXT),
    ]);
    made.rows.push(vec![int(1663), text("pg_default"), int(OWNER), Datum::Null, Datum::Null]);
    made
}

fn tables(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("schemaname", TEXT),
        ("tablename", TEXT),
        ("tableowner", TEXT),
        ("tablespace", TEXT),
        ("hasindexes", BOOL),
        ("hasrules", BOOL),
        ("hastriggers", BOOL),
        ("rowsecurity", BOOL),
    ]);
    made.rows = context
        .catalog
        .tables
        .values()
        .map(|t| {
            let no = || Datum::Bool(false);
            let indexed = Datum::Bool(has_primary_key(t) || !t.indexes.is_empty());
            vec![text(&t.schema), text(&t.name), text(context.user), Datum::Null, indexed, no(), no(), no()]
        })
        .collect();
    made
}

fn indexes(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("schemaname", TEXT),
        ("tablename", TEXT),
        ("indexname", TEXT),
        ("tablespace", TEXT),
        ("indexdef", TEXT),
    ]);
    for table in context.catalog.tables.values() {
        let mut add = |name: &str, columns: &[usize], unique: bool| {
            let definition = super::functions::index_definition(table, name, columns, unique);
            made.rows.push(vec![
                text(&table.schema),
                text(&table.name),
                text(name),
                Datum::Null,
                text(definition),
            ]);
        };
        if has_primary_key(table) {
            add(&table.primary_key_name, &table.primary_key, true);
        }
        table.indexes.iter().for_each(|i| add(&i.name, &i.columns, i.unique));
    }
    made
}
