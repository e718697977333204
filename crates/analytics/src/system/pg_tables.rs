//! `pg_catalog` tables about what users made.

mod class;
mod cluster;
mod depend;
mod keys;
mod listings;

use super::primary_keys::FIRST_PRIMARY_KEY;
pub(super) use super::primary_keys::{has_primary_key, primary_key_oid};
use super::type_descriptions::type_length;
use super::{Made, array_of, partitions, privileges, texts};
use crate::context::Context;
use base::domain::Domain;
use base::rng::fnv1a;
use base::roles::{Object as Owned, Privileges};
use base::schema::{ForeignKey, Identity, Index, Table};
use base::views::View;
use base::{DataType, Datum, TableId};
use class::class;
use cluster::{available_extensions, database, settings, tablespace};
pub(super) use keys::elements;
use keys::{constraint, index, keys};
use listings::{indexes, tables};
use sql::ddl::indexes::written;
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
/// So many numbers follow from names of schemas of temporary tables.
const FIRST_TEMPORARY: u32 = 0x3000_0000;
const TEMPORARY_MAX: u32 = 0x1000_0000;
const FIRST_CHECK: u32 = 0x6000_0000;
const CHECK_NUMBERS: u32 = 0x2000_0000;
const CHECKS_MAX: usize = 128;
pub(super) const OWNER: u32 = 10;
const BTREE: u32 = 403;
const HASH: u32 = 405;
const GIN: u32 = 2742;
const GIST: u32 = 783;
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
        "pg_roles" | "pg_authid" | "pg_user" => privileges::roles(context, name),
        "pg_auth_members" => privileges::members(context),
        "pg_db_role_setting" => privileges::settings(context),
        "pg_tables" => tables(context),
        "pg_indexes" => indexes(context),
        "pg_settings" => settings(context),
        "pg_views" => super::views_of_users::pg_views(context),
        "pg_matviews" => super::views_of_users::pg_matviews(context),
        "pg_depend" => depend::depend(context),
        "pg_tablespace" => tablespace(),
        "pg_available_extensions" => available_extensions(),
        "pg_timezone_names" => super::time_zones::names(context),
        "pg_timezone_abbrevs" => super::time_zones::abbreviations(),
        "pg_policy" => listings::policies(),
        "pg_parameter_acl" => cluster::parameter_privileges(),
        "pg_extension" => cluster::extensions(),
        "pg_enum" => super::user_types::pg_enum(context),
        "meridian_dump_types" => super::user_types::dumped(context),
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
            // Those of temporary tables come and go, and leave the numbers of the others alone.
            if sql::temporary::is_temporary(name) {
                return FIRST_TEMPORARY + fnv1a(0, name.as_bytes()) as u32 % TEMPORARY_MAX;
            }
            let mut stay = sql::temporary::shown(&context.catalog.schemas);
            FIRST_SCHEMA + stay.position(|s| s == name).unwrap_or(0) as u32
        }
    }
}

pub(super) fn check_oid(table: &Table, nth: usize) -> u32 {
    constraint_oid(table.id, nth)
}

/// The object id of a constraint of a table or a domain.
pub(super) fn constraint_oid(of: TableId, nth: usize) -> u32 {
    // Beyond 2 million tables that there ever were, numbers come again.
    FIRST_CHECK + of.0.wrapping_mul(256).wrapping_add(nth as u32) % CHECK_NUMBERS
}

/// Checks have the first half of a table's numbers, foreign keys the second. Those that one partition alone has are among
/// the numbers of the partition.
pub(super) fn foreign_key_oid(table: &Table, nth: usize) -> u32 {
    let (before, from) = table.foreign.own.split_at(nth);
    let of = from.first().and_then(ForeignKey::partition_id);
    let nth = before.iter().filter(|key| key.partition_id() == of).count();
    constraint_oid(of.unwrap_or(table.id), nth + CHECKS_MAX)
}

/// The place among a table's foreign keys of the one that has a number among those of the table, or of one of its
/// partitions.
fn foreign_key_at(table: &Table, of: TableId, nth: usize) -> Option<usize> {
    let of = (of != table.id).then_some(of);
    let own = table.foreign.own.iter().enumerate();
    own.filter(|(_, key)| key.partition_id() == of).nth(nth).map(|(at, _)| at)
}

/// What an object id names.
#[derive(Clone, Copy)]
pub(super) enum Object<'a> {
    Table(&'a Arc<Table>),
    PrimaryKey(&'a Arc<Table>),
    Index(&'a Arc<Table>, &'a Index),
    Check(&'a Arc<Table>, usize),
    OfDomain(&'a Arc<Domain>, usize),
    ForeignKey(&'a Arc<Table>, usize),
    Sequence,
    View(&'a Arc<View>),
}

pub(super) fn object<'a>(context: &Context<'a>, number: i64) -> Option<Object<'a>> {
    let number = u32::try_from(number).ok()?;
    if number >= FIRST_CHECK {
        let (table, nth) = ((number - FIRST_CHECK) / 256, (number - FIRST_CHECK) as usize % 256);
        if let Some(domain) = context.catalog.types.domains.get(&TableId(table)) {
            return Some(Object::OfDomain(domain, nth));
        }
        // A partition has the checks of its table.
        let (of, table) = (TableId(table), sql::partitions::root(context.catalog, TableId(table))?);
        return Some(match nth.checked_sub(CHECKS_MAX) {
            None => Object::Check(table, nth),
            Some(nth) => Object::ForeignKey(table, foreign_key_at(table, of, nth)?),
        });
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
    if let Some(view) = context.catalog.views.get(&id) {
        return Some(Object::View(view));
    }
    context.catalog.index(id).map(|(t, i)| Object::Index(t, i))
}

fn namespace(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[("oid", OID), ("nspname", TEXT), ("nspowner", OID), ("nspacl", TEXT)]);
    let system = ["pg_catalog", "information_schema", "meridian"];
    let names = system.into_iter().chain(context.catalog.schemas.iter().map(String::as_str));
    made.rows = names
        .map(|name| {
            let (roles, object) = (&context.catalog.roles, Owned::Schema(name.into()));
            let owner = roles.owner_of(&object);
            let list = privileges::list(context, &object, Privileges::OF_SCHEMA);
            vec![int(schema_oid(context, name)), text(name), int(owner.0), list]
        })
        .collect();
    made
}

/// Foreign keys, of a table or to it, are triggers in PostgreSQL: clients ask for keys where there are some.
pub(super) fn has_triggers(context: &Context<'_>, table: &Table) -> bool {
    !table.triggers.is_empty()
        || !table.foreign.own.is_empty()
        || context.catalog.referencing(table).next().is_some()
}

/// The object id of a column's type: of its domain, if it is of one.
fn type_of(table: &Table, column: usize) -> u32 {
    let domain = table.domains.get(&column).map(|domain| oid(domain.id));
    domain.unwrap_or_else(|| type_oid(table.columns[column].data_type))
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
    let mut add = |relation: u32, number: usize, column: &base::schema::Column, of: u32, is_index: bool| {
        let id = TableId(relation.saturating_sub(FIRST_OID));
        let is_inherited = partitions::is_one(context.catalog, id);
        let object = Owned::Column(id, number as u32 - 1);
        let list = privileges::list(context, &object, Privileges::NONE);
        let identity = match column.identity {
            Identity::Always if !is_index => "a",
            Identity::ByDefault if !is_index => "d",
            _ => "",
        };
        let has_default = column.default.is_some() && identity.is_empty() && !is_index;
        made.rows.push(vec![
            int(relation),
            text(&column.name),
            int(of),
            int(-1),
            int(type_length(column.data_type)),
            int(number as i64),
            int(i64::from(matches!(column.data_type, DataType::Array(_)))),
            // A domain has its base type's limits.
            if of == type_oid(column.data_type) { int(type_modifier(column.data_type)) } else { int(-1) },
            Datum::Bool(type_length(column.data_type) > 0),
            text("p"),
            text("i"),
            Datum::Bool(column.not_null && !is_index),
            Datum::Bool(has_default),
            Datum::Bool(false),
            text(identity),
            text(if column.identity == Identity::Generated && !is_index { "s" } else { "" }),
            Datum::Bool(false),
            Datum::Bool(!is_inherited),
            int(i32::from(is_inherited)),
            int(0),
            if is_index { Datum::Null } else { list },
            Datum::Null,
            text(""),
            Datum::Null,
        ]);
    };
    for table in context.catalog.tables.values() {
        for (number, column) in table.visible_columns() {
            add(oid(table.id), number + 1, column, type_of(table, number), false);
        }
        if has_primary_key(table) {
            for (at, &c) in table.primary_key.iter().enumerate() {
                let column = &table.columns[c];
                add(primary_key_oid(table), at + 1, column, type_oid(column.data_type), true);
            }
        }
        for index in &table.indexes {
            let columns = index.keys().iter().chain(&index.form.include);
            for (at, (&c, name)) in columns.zip(written::column_names(table, index)).enumerate() {
                let column = base::schema::Column { name, ..table.columns[c].clone() };
                add(oid(index.id), at + 1, &column, type_oid(column.data_type), true);
            }
        }
    }
    for view in sql::materialized::plain(context.catalog) {
        let columns = view.shape.columns.iter().zip(&view.type_oids).enumerate();
        for (number, (column, of)) in columns {
            let domain = partitions::domain(context.catalog, &view.shape, number);
            let column = partitions::shown(context.catalog, &view.shape, column);
            let of = domain.map_or(*of, |domain| oid(domain.id));
            add(oid(view.shape.id), number + 1, &column, of, false);
        }
    }
    for of in context.catalog.types.composites.values() {
        for (number, attribute) in of.attributes().iter().enumerate() {
            let column = base::schema::Column {
                name: attribute.name.clone(),
                data_type: attribute.data_type,
                not_null: false,
                default: None,
                missing: Datum::Null,
                identity: Identity::No,
                hidden: false,
            };
            add(oid(of.id()), number + 1, &column, type_oid(column.data_type), false);
        }
    }
    made
}

/// The object id of a column's default.
pub(super) fn default_oid(table: &Table, column: usize) -> i64 {
    (i64::from(oid(table.id)) * 1600 + column as i64) % i64::from(i32::MAX)
}

fn attrdef(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[("oid", OID), ("adrelid", OID), ("adnum", SMALL), ("adbin", TEXT)]);
    for table in partitions::tables(context.catalog) {
        for (number, column) in table.visible_columns() {
            if let Some(default) = column.default.as_ref().filter(|_| !column.identity.is_identity()) {
                made.rows.push(vec![
                    int(default_oid(table, number)),
                    int(oid(table.id)),
                    int(number as i64 + 1),
                    text(default),
                ]);
            }
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
                int(type_oid(s.limits.data_type)),
                int(s.start),
                int(s.increment),
                int(s.limits.max),
                int(s.limits.min),
                int(s.limits.cache),
                Datum::Bool(s.limits.cycles),
            ]
        })
        .collect();
    made
}
