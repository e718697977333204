//! The COMMENT ON statements of a database: for relations, columns, schemas, functions, types, constraints and triggers.

use super::OURS;
use crate::{literal, quoted, texts};
use anyhow::bail;
use tokio_postgres::Client;

/// Kinds of relations as COMMENT ON calls them, by `pg_class.relkind`.
const RELATIONS: &[(&str, &str)] = &[
    ("r", "TABLE"),
    ("p", "TABLE"),
    ("v", "VIEW"),
    ("m", "MATERIALIZED VIEW"),
    ("i", "INDEX"),
    ("I", "INDEX"),
    ("S", "SEQUENCE"),
];

pub(super) async fn comments(client: &Client) -> anyhow::Result<Vec<String>> {
    let mut made = Vec::new();
    for (of, said) in of_relations(client).await?.into_iter().chain(of_others(client).await?) {
        made.push(format!("COMMENT ON {of} IS {}", literal(&said)));
    }
    Ok(made)
}

/// Relations and their columns, with what is said of them.
async fn of_relations(client: &Client) -> anyhow::Result<Vec<(String, String)>> {
    let sql = format!(
        "SELECT c.relkind, n.nspname, c.relname, a.attname, d.description FROM pg_catalog.pg_description d \
         JOIN pg_catalog.pg_class c ON c.oid = d.objoid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0 \
         WHERE d.classoid = 'pg_catalog.pg_class'::regclass AND {OURS} ORDER BY 2, 3, d.objsubid"
    );
    let mut found = Vec::new();
    for row in texts(client, &sql).await? {
        let [Some(kind), Some(schema), Some(name), column, Some(said)] = &row[..] else {
            bail!("a comment is about nothing")
        };
        let name = format!("{}.{}", quoted(schema), quoted(name));
        let of = match (column, RELATIONS.iter().find(|(short, _)| short == kind)) {
            (Some(column), _) => format!("COLUMN {name}.{}", quoted(column)),
            (None, Some((_, kind))) => format!("{kind} {name}"),
            (None, None) => {
                bail!("{name} has a comment and is of a kind that a backup does not know: {kind}")
            }
        };
        found.push((of, said.clone()));
    }
    Ok(found)
}

/// Schemas, functions, types, constraints and triggers, with what is said of them.
async fn of_others(client: &Client) -> anyhow::Result<Vec<(String, String)>> {
    let on = "n.nspname, c.relname, d.description FROM pg_catalog.pg_description d";
    let table = "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace";
    let queries = [
        "SELECT 'SCHEMA', NULL, n.nspname, NULL, NULL, d.description FROM pg_catalog.pg_description d \
         JOIN pg_catalog.pg_namespace n ON n.oid = d.objoid \
         WHERE d.classoid = 'pg_catalog.pg_namespace'::regclass"
            .to_string(),
        "SELECT CASE p.prokind WHEN 'p' THEN 'PROCEDURE' WHEN 'a' THEN 'AGGREGATE' ELSE 'FUNCTION' END, \
         CASE WHEN p.prokind = 'a' AND p.pronargs = 0 THEN '*' \
         ELSE pg_catalog.pg_get_function_identity_arguments(p.oid) END, p.proname, n.nspname, NULL, d.description \
         FROM pg_catalog.pg_description d JOIN pg_catalog.pg_proc p ON p.oid = d.objoid \
         JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE d.classoid = 'pg_catalog.pg_proc'::regclass"
            .to_string(),
        "SELECT CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, NULL, t.typname, n.nspname, NULL, d.description \
         FROM pg_catalog.pg_description d JOIN pg_catalog.pg_type t ON t.oid = d.objoid \
         JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
         WHERE d.classoid = 'pg_catalog.pg_type'::regclass"
            .to_string(),
        format!(
            "SELECT 'CONSTRAINT', NULL, o.conname, {on} JOIN pg_catalog.pg_constraint o ON o.oid = d.objoid \
             JOIN pg_catalog.pg_class c ON c.oid = o.conrelid {table} \
             WHERE d.classoid = 'pg_catalog.pg_constraint'::regclass"
        ),
        format!(
            "SELECT 'TRIGGER', NULL, t.tgname, {on} JOIN pg_catalog.pg_trigger t ON t.oid = d.objoid \
             JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid {table} \
             WHERE d.classoid = 'pg_catalog.pg_trigger'::regclass"
        ),
    ];
    let mut found = Vec::new();
    for sql in queries {
        for row in texts(client, &format!("{sql} AND {OURS} ORDER BY 4, 5, 3, 2")).await? {
            let [Some(kind), arguments, Some(name), schema, table, Some(said)] = &row[..] else {
                bail!("a comment is about nothing")
            };
            let mut of = format!("{kind} ");
            if let (Some(schema), None) = (schema, table) {
                of += &format!("{}.", quoted(schema));
            }
            of += &quoted(name);
            if let Some(arguments) = arguments {
                of += &format!("({arguments})");
            }
            if let (Some(schema), Some(table)) = (schema, table) {
                of += &format!(" ON {}.{}", quoted(schema), quoted(table));
            }
            found.push((of, said.clone()));
        }
    }
    Ok(found)
}
