//! What a cluster's tables are made of, as statements that make them again.
//!
//! KEEPS: what is read is what `psql` reads for `\d`. Roles, their passwords and privileges are not part of it.

mod comments;
mod partitions;
mod sequences;
mod views;

use crate::manifest::Statement;
use crate::{literal, quoted, texts};
use anyhow::{Context, bail};
use sequences::Sequence;
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Client;

/// A table or a materialized view that is there.
pub struct Table {
    oid: String,
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
    /// As an array of texts.
    options: Option<String>,
    /// Of a partitioned table, how its rows are divided.
    division: Option<String>,
}

pub struct Column {
    /// As `pg_attribute.attnum`.
    number: String,
    pub name: String,
    data_type: String,
    not_null: bool,
    default: Option<String>,
    /// As the system catalog has it: `d`, `a` or nothing.
    identity: String,
    /// Computed from others: its default says how, and no copy has its values.
    pub is_generated: bool,
}

/// Everything that is not rows.
pub struct Schema {
    pub before: Vec<Statement>,
    pub tables: Vec<Table>,
    pub after: Vec<Statement>,
}

/// Schemas of users, without those of temporary tables.
const OURS: &str = "n.nspname NOT IN ('pg_catalog', 'information_schema', 'meridian', 'pg_toast') \
                    AND n.nspname NOT LIKE 'pg\\_temp\\_%'";

impl Schema {
    pub async fn read(client: &Client) -> anyhow::Result<Schema> {
        let mut schema = Schema { before: Vec::new(), tables: tables(client).await?, after: Vec::new() };
        let plain = |sql: String| Statement { sql, placement: None, partitioning: None };
        let names = format!("SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE {OURS} ORDER BY 1");
        for row in texts(client, &names).await? {
            let [Some(name)] = &row[..] else { bail!("a schema has no name") };
            if name != "public" && !name.starts_with("pg_") {
                schema.before.push(plain(format!("CREATE SCHEMA {}", quoted(name))));
            }
        }
        schema.before.extend(types(client).await?.into_iter().map(plain));
        schema.before.extend(composites(client).await?.into_iter().map(plain));
        schema.before.extend(domains(client).await?.into_iter().map(plain));
        let sequences = sequences::sequences(client).await?;
        schema.before.extend(sequences.iter().filter_map(Sequence::made).map(plain));
        // Defaults call functions, and what these read is made later.
        let (alone, of_rows) = functions(client).await?;
        if !alone.is_empty() || !of_rows.is_empty() {
            schema.before.push(plain("SET check_function_bodies = off".into()));
        }
        schema.before.extend(alone.into_iter().map(plain));
        let mut later = Vec::new();
        for table in &schema.tables {
            let made = made(client, table, &sequences).await?;
            schema.before.push(made.table);
            schema.after.extend(made.indexes.into_iter().map(plain));
            later.extend(made.later.into_iter().map(plain));
        }
        schema.before.extend(partitions::partitions(client).await?.into_iter().map(plain));
        // A foreign key needs a unique index of another table.
        schema.after.extend(later);
        schema.after.extend(partitions::own_keys(client).await?.into_iter().map(plain));
        let readers = views::readers(client, of_rows).await?;
        schema.after.extend(readers.made.into_iter().map(plain));
        for view in relations(client, "c.relkind = 'm'").await? {
            schema
                .after
                .extend(indexes_of(client, &view).await?.into_iter().map(|index| plain(index.definition)));
        }
        schema.after.extend(readers.filled.into_iter().map(plain));
        for sequence in &sequences {
            schema.after.extend(sequence.given(&schema.tables).map(plain));
            schema.after.push(plain(sequence.stands(client, &schema.tables).await?));
        }
        // Rows that are restored were written when they fired.
        schema.after.extend(triggers(client).await?.into_iter().map(plain));
        schema.after.extend(comments::comments(client).await?.into_iter().map(plain));
        Ok(schema)
    }
}

/// Tables of users, in the order of their names.
pub async fn tables(client: &Client) -> anyhow::Result<Vec<Table>> {
    // A partitioned table has the rows of its partitions.
    relations(client, "c.relkind IN ('r', 'p') AND NOT c.relispartition").await
}

/// `wanted`: a condition over `pg_class`.
async fn relations(client: &Client, wanted: &str) -> anyhow::Result<Vec<Table>> {
    let sql = format!(
        "SELECT c.oid, n.nspname, c.relname, c.reloptions, pg_catalog.pg_get_partkeydef(c.oid) \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE {wanted} AND {OURS} ORDER BY 2, 3"
    );
    let mut tables = Vec::new();
    for row in texts(client, &sql).await? {
        let [Some(oid), Some(schema), Some(name), options, division] = &row[..] else {
            bail!("a table has no name")
        };
        let columns = columns(client, oid).await?;
        let (oid, schema, name) = (oid.clone(), schema.clone(), name.clone());
        let (options, division) = (options.clone(), division.clone());
        tables.push(Table { oid, schema, name, columns, options, division });
    }
    Ok(tables)
}

async fn columns(client: &Client, table: &str) -> anyhow::Result<Vec<Column>> {
    let sql = format!(
        "SELECT a.attnum, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, \
         pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated \
         FROM pg_catalog.pg_attribute a \
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = {table} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    );
    let column = |row: Vec<Option<String>>| {
        let [number, name, data_type, not_null, default, identity, generated] =
            <[Option<String>; 7]>::try_from(row).ok().context("a column has seven fields")?;
        Ok(Column {
            number: number.context("a column has no number")?,
            name: name.context("a column has no name")?,
            data_type: data_type.context("a column has no type")?,
            not_null: not_null.as_deref() == Some("t"),
            default,
            identity: identity.unwrap_or_default(),
            is_generated: generated.as_deref() == Some("s"),
        })
    };
    texts(client, &sql).await?.into_iter().map(column).collect()
}

impl Table {
    /// Quoted.
    fn full_name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }
}

/// Functions, procedures and aggregates: those that need no table, and those that give a table's rows, by their object id.
async fn functions(client: &Client) -> anyhow::Result<(Vec<String>, BTreeMap<u64, String>)> {
    let sql = format!(
        "SELECT p.oid, CASE p.prokind WHEN 'a' THEN pg_catalog.meridian_aggregate_definition(p.oid) \
         ELSE pg_catalog.pg_get_functiondef(p.oid) END, \
         p.prorettype = 2249 AND pg_catalog.pg_get_function_result(p.oid) NOT LIKE 'TABLE(%' \
         AND pg_catalog.pg_get_function_result(p.oid) NOT IN ('record', 'SETOF record') \
         FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE p.prokind IN ('f', 'p', 'a') AND {OURS} ORDER BY p.oid"
    );
    let (mut alone, mut of_rows) = (Vec::new(), BTreeMap::new());
    for row in texts(client, &sql).await? {
        let [Some(oid), Some(definition), gives_rows] = &row[..] else {
            bail!("a function has no definition")
        };
        match gives_rows.as_deref() {
            Some("t") => _ = of_rows.insert(oid.parse()?, definition.clone()),
            _ => alone.push(definition.clone()),
        }
    }
    Ok((alone, of_rows))
}

/// Triggers, each with what says when it fires where that is not as a new one does.
async fn triggers(client: &Client) -> anyhow::Result<Vec<String>> {
    let sql = format!(
        "SELECT n.nspname, c.relname, t.tgname, t.tgenabled, pg_catalog.pg_get_triggerdef(t.oid) \
         FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE {OURS} ORDER BY 1, 2, 3"
    );
    let mut made = Vec::new();
    for row in texts(client, &sql).await? {
        let [Some(schema), Some(table), Some(name), Some(firing), Some(definition)] = &row[..] else {
            bail!("a trigger has no definition")
        };
        made.push(definition.clone());
        let how = match firing.as_str() {
            "D" => "DISABLE",
            "A" => "ENABLE ALWAYS",
            "R" => "ENABLE REPLICA",
            _ => continue,
        };
        let table = format!("{}.{}", quoted(schema), quoted(table));
        made.push(format!("ALTER TABLE {table} {how} TRIGGER {}", quoted(name)));
    }
    Ok(made)
}

/// Enumerated types, with their labels in their order.
async fn types(client: &Client) -> anyhow::Result<Vec<String>> {
    let sql = format!(
        "SELECT n.nspname, t.typname, e.enumlabel FROM pg_catalog.pg_type t \
         JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
         LEFT JOIN pg_catalog.pg_enum e ON e.enumtypid = t.oid \
         WHERE t.typtype = 'e' AND {OURS} ORDER BY 1, 2, e.enumsortorder"
    );
    let mut labels: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for row in texts(client, &sql).await? {
        let [Some(schema), Some(name), label] = &row[..] else { bail!("a type has no name") };
        let of = labels.entry((schema.clone(), name.clone())).or_default();
        of.extend(label.as_deref().map(literal));
    }
    let made = |((schema, name), labels): ((String, String), Vec<String>)| {
        format!("CREATE TYPE {}.{} AS ENUM ({})", quoted(&schema), quoted(&name), labels.join(", "))
    };
    Ok(labels.into_iter().map(made).collect())
}

/// Composite types, in the order in which they were made: attributes may be of earlier ones.
async fn composites(client: &Client) -> anyhow::Result<Vec<String>> {
    let sql = format!(
        "SELECT n.nspname, t.typname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) \
         FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid \
         WHERE t.typtype = 'c' AND {OURS} ORDER BY t.oid, a.attnum"
    );
    let mut made: Vec<(String, Vec<String>)> = Vec::new();
    for row in texts(client, &sql).await? {
        let [Some(schema), Some(name), attribute, of] = &row[..] else { bail!("a type has no name") };
        let name = format!("{}.{}", quoted(schema), quoted(name));
        if made.last().is_none_or(|(last, _)| *last != name) {
            made.push((name, Vec::new()));
        }
        if let (Some((_, attributes)), Some(attribute), Some(of)) = (made.last_mut(), attribute, of) {
            attributes.push(format!("{} {of}", quoted(attribute)));
        }
    }
    let made = made.into_iter();
    Ok(made.map(|(name, attributes)| format!("CREATE TYPE {name} AS ({})", attributes.join(", "))).collect())
}

/// Domains, with their conditions.
async fn domains(client: &Client) -> anyhow::Result<Vec<String>> {
    let sql = format!(
        "SELECT t.oid, n.nspname, t.typname, pg_catalog.format_type(t.typbasetype, t.typtypmod), t.typnotnull, \
         t.typdefault FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
         WHERE t.typtype = 'd' AND {OURS} ORDER BY 2, 3"
    );
    let mut made = Vec::new();
    for row in texts(client, &sql).await? {
        let [Some(oid), Some(schema), Some(name), Some(of), Some(not_null), default] = &row[..] else {
            bail!("a domain has no name")
        };
        let name = format!("{}.{}", quoted(schema), quoted(name));
        let default = default.as_ref().map_or(String::new(), |default| format!(" DEFAULT {default}"));
        let not_null = if not_null == "t" { " NOT NULL" } else { "" };
        made.push(format!("CREATE DOMAIN {name} AS {of}{default}{not_null}"));
        let sql = format!(
            "SELECT conname, pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint \
             WHERE contypid = {oid} ORDER BY 1"
        );
        for row in texts(client, &sql).await? {
            let [Some(constraint), Some(definition)] = &row[..] else { bail!("a condition has no name") };
            made.push(format!("ALTER DOMAIN {name} ADD CONSTRAINT {} {definition}", quoted(constraint)));
        }
    }
    Ok(made)
}

/// Statements that make a table.
struct Made {
    /// With all constraints but foreign keys.
    table: Statement,
    indexes: Vec<String>,
    /// Foreign keys, and conditions that not all rows need pass.
    later: Vec<String>,
}

async fn made(client: &Client, table: &Table, sequences: &[Sequence]) -> anyhow::Result<Made> {
    let full_name = table.full_name();
    let counted = |column: &Column| sequences.iter().find(|sequence| sequence.is_of(table, &column.number));
    let mut parts: Vec<String> =
        table.columns.iter().map(|column| of_column(column, counted(column))).collect();
    let sql = format!(
        "SELECT conname, contype, pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint \
         WHERE conrelid = {} AND contype IN ('p', 'u', 'c', 'f', 'x') ORDER BY contype DESC, conname",
        table.oid
    );
    let (mut keys, mut checks, mut later) = (BTreeSet::new(), Vec::new(), Vec::new());
    for row in texts(client, &sql).await? {
        let [Some(name), Some(kind), Some(definition)] = &row[..] else { bail!("a constraint has no name") };
        let constraint = format!("CONSTRAINT {} {definition}", quoted(name));
        match kind.as_str() {
            "p" | "u" => {
                keys.insert(name.clone());
                parts.push(constraint);
            }
            // A table with rows may have one that not all of them pass.
            "c" if definition.ends_with("NOT VALID") => {
                later.push(format!("ALTER TABLE {full_name} ADD {constraint}"));
            }
            "c" => checks.push(constraint),
            "f" => later.push(format!("ALTER TABLE {full_name} ADD {constraint}")),
            _ => bail!("table {full_name} has a constraint that a backup cannot hold: {definition}"),
        }
    }
    parts.extend(checks);
    let indexes = indexes_of(client, table).await?.into_iter();
    let indexes = indexes.filter(|index| !keys.contains(&index.name)).map(|index| index.definition).collect();
    let placement = options_of(&full_name, table.options.as_deref())?;
    let placement = (!placement.is_empty()).then_some(placement);
    let partitioning = table.division.as_ref().map(|by| format!("PARTITION BY {by}"));
    let sql = format!("CREATE TABLE {full_name} ({})", parts.join(", "));
    let table = Statement { sql, placement, partitioning };
    Ok(Made { table, indexes, later })
}

/// `counted`: the sequence of an identity column.
fn of_column(column: &Column, counted: Option<&Sequence>) -> String {
    let mut text = format!("{} {}", quoted(&column.name), column.data_type);
    if column.not_null {
        text.push_str(" NOT NULL");
    }
    match column.identity.as_str() {
        identity @ ("a" | "d") => {
            let given = if identity == "a" { "ALWAYS" } else { "BY DEFAULT" };
            text.push_str(&format!(" GENERATED {given} AS IDENTITY"));
            if let Some(sequence) = counted {
                text.push_str(&format!(" ({})", sequence.options));
            }
        }
        _ => {
            if let Some(default) = &column.default {
                text.push_str(&match column.is_generated {
                    true => format!(" GENERATED ALWAYS AS ({default}) STORED"),
                    false => format!(" DEFAULT {default}"),
                });
            }
        }
    }
    text
}

struct Index {
    name: String,
    /// CREATE INDEX.
    definition: String,
}

async fn indexes_of(client: &Client, table: &Table) -> anyhow::Result<Vec<Index>> {
    let sql = format!(
        "SELECT c.relname, pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i \
         JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = {} ORDER BY c.relname",
        table.oid
    );
    let mut indexes = Vec::new();
    for row in texts(client, &sql).await? {
        let [Some(name), Some(definition)] = &row[..] else { bail!("an index has no definition") };
        indexes.push(Index { name: name.clone(), definition: definition.clone() });
    }
    Ok(indexes)
}

/// A relation's options, as they stand in the statement that makes it: of a table, where it lives. Empty if it has none.
fn options_of(name: &str, text: Option<&str>) -> anyhow::Result<String> {
    let Some(text) = text else { return Ok(String::new()) };
    let found = options(text).with_context(|| format!("{name} has options that cannot be read: {text}"))?;
    let found: Vec<String> =
        found.into_iter().map(|(name, value)| format!("{name} = {}", literal(&value))).collect();
    Ok(if found.is_empty() { String::new() } else { format!("WITH ({})", found.join(", ")) })
}

/// `{home_by=region,"home_map=us=1,eu=2"}`, an array of texts.
fn options(text: &str) -> Option<Vec<(String, String)>> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let (mut all, mut one, mut is_quoted, mut is_escaped) = (Vec::new(), String::new(), false, false);
    for c in inside.chars() {
        match c {
            _ if is_escaped => {
                one.push(c);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => all.push(std::mem::take(&mut one)),
            _ => one.push(c),
        }
    }
    if !one.is_empty() {
        all.push(one);
    }
    all.iter().map(|one| one.split_once('=').map(|(name, value)| (name.into(), value.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_an_array_of_texts() {
        let read = |text| {
            options(text).map(|all| all.into_iter().map(|(n, v)| format!("{n}:{v}")).collect::<Vec<_>>())
        };
        assert_eq!(read("{}"), Some(vec![]));
        assert_eq!(read("{home=us}"), Some(vec!["home:us".into()]));
        assert_eq!(
            read(r#"{home_by=r,"home_map=a=us,\"b\"=eu"}"#),
            Some(vec!["home_by:r".into(), "home_map:a=us,\"b\"=eu".into()])
        );
        assert_eq!(read("home=us"), None);
        assert_eq!(read("{home}"), None);
    }
}
