//! What a cluster has one of: `pg_database`, `pg_tablespace`, `pg_settings`, `pg_available_extensions`.

use super::super::{Made, privileges};
use super::{BOOL, DATABASE, INT, OID, OWNER, TEXT, int, text};
use crate::context::Context;
use base::Datum;
use base::roles::{Object, Privileges};

/// What is the same in every session; `SHOW ALL` tells the rest.
pub(super) fn settings() -> Made {
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
        privileges::list(context, &Object::Database, Privileges::OF_DATABASE),
    ]);
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
