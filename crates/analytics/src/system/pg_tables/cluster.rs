//! What a cluster has one of: `pg_database`, `pg_tablespace`, `pg_settings`, `pg_extension`, `pg_available_extensions`.

use super::super::settings::{PRESET, of_server};
use super::super::{Made, privileges};
use super::{BOOL, INT, OID, OWNER, PG_CATALOG, TEXT, array_of, int, text, texts};
use crate::context::Context;
use base::Datum;
use base::databases::Database;
use base::roles::{Object, Privileges};
use std::sync::Arc;

pub(super) fn settings(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("name", TEXT),
        ("setting", TEXT),
        ("unit", TEXT),
        ("category", TEXT),
        ("context", TEXT),
        ("vartype", TEXT),
        ("source", TEXT),
        ("boot_val", TEXT),
        ("reset_val", TEXT),
    ]);
    let row =
        |name: &str, setting: &str, [category, context, kind]: [&str; 3], (source, usual): (Datum, Datum)| {
            let words = [category, context, kind].map(text);
            let of_it = [text(name), text(setting), Datum::Null].into_iter().chain(words);
            of_it.chain([source, usual.clone(), usual]).collect()
        };
    let preset = PRESET.into_iter().map(|(name, setting, kind)| {
        row(name, setting, ["Preset Options", "internal", kind], (text("default"), text(setting)))
    });
    // Whether a session has changed it is not known here.
    let unknown = (Datum::Null, Datum::Null);
    let of_session = of_server(context).map(|(name, setting)| {
        row(name, &setting, ["Client Connection Defaults", "user", "string"], unknown.clone())
    });
    made.rows = of_session.chain(preset).collect();
    made
}

/// Who may change which setting: nobody was told by name.
pub(super) fn parameter_privileges() -> Made {
    Made::new(&[("oid", OID), ("parname", TEXT), ("paracl", texts())])
}

/// The number that PostgreSQL 15 gives `plpgsql` when a database is made.
const PLPGSQL: u32 = 13_540;

/// What is there without CREATE EXTENSION, as in a new database of PostgreSQL's.
pub(super) fn extensions() -> Made {
    let mut made = Made::new(&[
        ("oid", OID),
        ("extname", TEXT),
        ("extowner", OID),
        ("extnamespace", OID),
        ("extrelocatable", BOOL),
        ("extversion", TEXT),
        ("extconfig", array_of(OID)),
        ("extcondition", texts()),
    ]);
    let no = Datum::Bool(false);
    let (name, version) = (text("plpgsql"), text("1.0"));
    made.rows.push(vec![
        int(PLPGSQL),
        name,
        int(OWNER),
        int(PG_CATALOG),
        no,
        version,
        Datum::Null,
        Datum::Null,
    ]);
    made
}

pub(super) fn database(context: &Context<'_>) -> Made {
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
    let row = |database: &Arc<Database>| {
        let object = Object::Database(database.id);
        vec![
            int(database.id.0),
            text(&database.name),
            int(context.catalog.roles.owner_of(&object).0),
            int(6),
            text("c"),
            Datum::Bool(database.is_template),
            Datum::Bool(database.allows_connections),
            database.connections_max.map_or(Datum::Int(-1), |max| Datum::Int(i64::from(max))),
            int(1663),
            text("C.UTF-8"),
            text("C.UTF-8"),
            Datum::Null,
            Datum::Null,
            privileges::list(context, &object, Privileges::OF_DATABASE),
        ]
    };
    made.rows = context.catalog.databases.all.values().map(row).collect();
    made
}

pub(super) fn tablespace() -> Made {
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

/// What CREATE EXTENSION accepts.
pub(super) fn available_extensions() -> Made {
    let mut made = Made::new(&[
        ("name", TEXT),
        ("default_version", TEXT),
        ("installed_version", TEXT),
        ("comment", TEXT),
    ]);
    for (name, version, comment) in [
        ("pgcrypto", "1.3", "cryptographic functions"),
        ("plpgsql", "1.0", "PL/pgSQL procedural language"),
        ("uuid-ossp", "1.1", "generate universally unique identifiers (UUIDs)"),
    ] {
        // Their functions are there without being asked for.
        made.rows.push(vec![text(name), text(version), text(version), text(comment)]);
    }
    made
}
