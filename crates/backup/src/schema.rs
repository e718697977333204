//! What a cluster's tables are made of, as statements that make them again.
//!
//! KEEPS: what is read is what `psql` reads for `\d`. Roles, their passwords and privileges are not part of it.

use crate::manifest::Statement;
use crate::{literal, quoted, texts};
use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Client;

/// A table that is there.
pub struct Table {
    oid: String,
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
}

pub struct Column {
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
        let plain = |sql: String| Statement { sql, placement: None };
        let names = format!("SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE {OURS} ORDER BY 1");
        for row in texts(client, &names).await? {
            let [Some(name)] = &row[..] else { bail!("a schema has no name") };
            if name != "public" && !name.starts_with("pg_") {
                schema.before.push(plain(format!("CREATE SCHEMA {}", quoted(name))));
            }
        }
        schema.before.extend(types(client).await?.into_iter().map(plain));
        schema.before.extend(domains(client).await?.into_iter().map(plain));
        let sequences = sequences(client, &schema.tables).await?;
        schema.before.extend(sequences.into_iter().map(plain));
        // Defaults call functions, and what these read is made later.
        let (alone, of_rows) = functions(client).await?;
        if !alone.is_empty() || !of_rows.is_empty() {
            schema.before.push(plain("SET check_function_bodies = off".into()));
        }
        schema.before.extend(alone.into_iter().map(plain));
        for table in &schema.tables {
            let (made, indexes) = made(client, table).await?;
            schema.before.push(made);
            schema.after.extend(indexes.into_iter().map(plain));
        }
        schema.after.extend(of_rows.into_iter().map(plain));
        schema.after.extend(counts(client, &schema.tables).await?.into_iter().map(plain));
        // Rows that are restored were written when they fired.
        schema.after.extend(triggers(client).await?.into_iter().map(plain));
        Ok(schema)
    }
}

/// Tables of users, in the order of their names.
pub async fn tables(client: &Client) -> anyhow::Result<Vec<Table>> {
    let sql = format!(
        "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND {OURS} ORDER BY 2, 3"
    );
    let mut tables = Vec::new();
    for row in texts(client, &sql).await? {
        let [Some(oid), Some(schema), Some(name)] = &row[..] else { bail!("a table has no name") };
        let columns = columns(client, oid).await?;
        tables.push(Table { oid: oid.clone(), schema: schema.clone(), name: name.clone(), columns });
    }
    Ok(tables)
}

async fn columns(client: &Client, table: &str) -> anyhow::Result<Vec<Column>> {
    let sql = format!(
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, \
         pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated \
         FROM pg_catalog.pg_attribute a \
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = {table} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    );
    let column = |row: Vec<Option<String>>| {
        let [name, data_type, not_null, default, identity, generated] =
            <[Option<String>; 6]>::try_from(row).ok().context("a column has six fields")?;
        Ok(Column {
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

impl Column {
    /// Whether it is a `serial` column: its default counts a sequence that was made with the table.
    fn is_serial(&self, table: &str) -> bool {
        let sequence = format!("{table}_{}_seq", self.name);
        let counts = |default: &String| default.starts_with("nextval('") && default.contains(&sequence);
        self.identity.is_empty() && self.default.as_ref().is_some_and(counts)
    }
}

/// Functions and procedures: those that need no table, and those that give a table's rows.
async fn functions(client: &Client) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let sql = format!(
        "SELECT pg_catalog.pg_get_functiondef(p.oid), \
         p.prorettype = 2249 AND pg_catalog.pg_get_function_result(p.oid) NOT LIKE 'TABLE(%' \
         FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE p.prokind IN ('f', 'p') AND {OURS} ORDER BY p.oid"
    );
    let (mut alone, mut of_rows) = (Vec::new(), Vec::new());
    for row in texts(client, &sql).await? {
        let [Some(definition), gives_rows] = &row[..] else { bail!("a function has no definition") };
        let place = if gives_rows.as_deref() == Some("t") { &mut of_rows } else { &mut alone };
        place.push(definition.clone());
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

/// Sequences that belong to no column: the others are made with their tables.
async fn sequences(client: &Client, tables: &[Table]) -> anyhow::Result<Vec<String>> {
    let owned: BTreeSet<(String, String)> = tables
        .iter()
        .flat_map(|table| {
            let own = table.columns.iter().filter(|c| !c.identity.is_empty() || c.is_serial(&table.name));
            own.map(|column| (table.schema.clone(), format!("{}_{}_seq", table.name, column.name)))
        })
        .collect();
    let sql = format!(
        "SELECT n.nspname, c.relname, s.seqstart, s.seqincrement, \
         pg_catalog.format_type(s.seqtypid, NULL), s.seqmin, s.seqmax, s.seqcache, s.seqcycle \
         FROM pg_catalog.pg_sequence s \
         JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE {OURS} ORDER BY 1, 2"
    );
    let mut made = Vec::new();
    for row in texts(client, &sql).await? {
        let row: Option<Vec<String>> = row.into_iter().collect();
        let Some([schema, name, start, step, of, min, max, cache, cycles]) = row.as_deref() else {
            bail!("a sequence has no name")
        };
        if !owned.contains(&(schema.clone(), name.clone())) {
            let name = format!("{}.{}", quoted(schema), quoted(name));
            let cycle = if cycles == "t" { "CYCLE" } else { "NO CYCLE" };
            made.push(format!(
                "CREATE SEQUENCE {name} AS {of} INCREMENT BY {step} MINVALUE {min} MAXVALUE {max} \
                 START WITH {start} CACHE {cache} {cycle}"
            ));
        }
    }
    Ok(made)
}

/// Statements that let sequences go on where they stand.
async fn counts(client: &Client, tables: &[Table]) -> anyhow::Result<Vec<String>> {
    let mut made = Vec::new();
    let sql = format!(
        "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S' AND {OURS} ORDER BY 1, 2"
    );
    let owned = tables.iter().flat_map(|table| {
        let counted = table.columns.iter().filter(|c| !c.identity.is_empty() || c.is_serial(&table.name));
        counted.map(move |column| (table, column))
    });
    let owners: BTreeMap<(String, String), (&Table, &Column)> = owned
        .map(|(table, column)| {
            let name = format!("{}_{}_seq", table.name, column.name);
            ((table.schema.clone(), name), (table, column))
        })
        .collect();
    for row in texts(client, &sql).await? {
        let [Some(schema), Some(name)] = &row[..] else { bail!("a sequence has no name") };
        let sequence = format!("{}.{}", quoted(schema), quoted(name));
        let stands = texts(client, &format!("SELECT last_value, is_called FROM {sequence}")).await?;
        let Some([Some(value), Some(is_called)]) = stands.first().map(Vec::as_slice) else {
            bail!("the sequence {sequence} does not tell where it stands")
        };
        made.push(match owners.get(&(schema.clone(), name.clone())) {
            None => format!("SELECT setval({}, {value}, {})", literal(&sequence), is_called == "t"),
            // The sequence was made with its table, and was named then.
            Some((table, column)) => {
                let of = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
                let sequence = format!("pg_get_serial_sequence({}, {})", literal(&of), literal(&column.name));
                format!("SELECT setval({sequence}, {value}, {})", is_called == "t")
            }
        });
    }
    Ok(made)
}

/// The statement that makes a table with its constraints, and those that make its indexes.
async fn made(client: &Client, table: &Table) -> anyhow::Result<(Statement, Vec<String>)> {
    let mut parts: Vec<String> = table.columns.iter().map(|column| of_column(table, column)).collect();
    let sql = format!(
        "SELECT conname, contype, pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint \
         WHERE conrelid = {} AND contype IN ('p', 'u', 'c', 'f', 'x') ORDER BY contype DESC, conname",
        table.oid
    );
    let (mut keys, mut checks) = (BTreeSet::new(), Vec::new());
    for row in texts(client, &sql).await? {
        let [Some(name), Some(kind), Some(definition)] = &row[..] else { bail!("a constraint has no name") };
        match kind.as_str() {
            "p" | "u" => _ = keys.insert(name.clone()),
            "c" => checks.push(format!("CONSTRAINT {} {definition}", quoted(name))),
            _ => bail!(
                "table {}.{} has a constraint that a backup cannot hold: {definition}",
                table.schema,
                table.name
            ),
        }
    }
    let full_name = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
    let mut indexes = Vec::new();
    for index in indexes_of(client, table).await? {
        let columns = index.columns.join(", ");
        let name = quoted(&index.name);
        match keys.contains(&index.name) {
            true if index.is_primary => parts.push(format!("CONSTRAINT {name} PRIMARY KEY ({columns})")),
            true => parts.push(format!("CONSTRAINT {name} UNIQUE ({columns})")),
            // The definition names the index's expressions and its predicate, too.
            false => indexes.push(index.definition),
        }
    }
    parts.extend(checks);
    let sql = format!("CREATE TABLE {full_name} ({})", parts.join(", "));
    Ok((Statement { sql, placement: placement(client, table).await? }, indexes))
}

fn of_column(table: &Table, column: &Column) -> String {
    if column.is_serial(&table.name) {
        let data_type = match column.data_type.as_str() {
            "smallint" => "smallserial",
            "bigint" => "bigserial",
            _ => "serial",
        };
        return format!("{} {data_type}", quoted(&column.name));
    }
    let mut text = format!("{} {}", quoted(&column.name), column.data_type);
    if column.not_null {
        text.push_str(" NOT NULL");
    }
    match column.identity.as_str() {
        "a" => text.push_str(" GENERATED ALWAYS AS IDENTITY"),
        "d" => text.push_str(" GENERATED BY DEFAULT AS IDENTITY"),
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
    is_primary: bool,
    /// CREATE INDEX.
    definition: String,
    /// Quoted.
    columns: Vec<String>,
}

async fn indexes_of(client: &Client, table: &Table) -> anyhow::Result<Vec<Index>> {
    let sql = format!(
        "SELECT i.indexrelid, c.relname, i.indisprimary, i.indnatts, pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i \
         JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = {} ORDER BY c.relname",
        table.oid
    );
    let mut indexes = Vec::new();
    for row in texts(client, &sql).await? {
        let [Some(oid), Some(name), Some(is_primary), Some(count), Some(definition)] = &row[..] else {
            bail!("an index has no name")
        };
        let mut columns = Vec::new();
        for nth in 1..=count.parse::<u32>().context("an index has no columns")? {
            let sql = format!("SELECT pg_catalog.pg_get_indexdef({oid}, {nth}, false)");
            let found = texts(client, &sql).await?;
            let found = found.into_iter().flatten().next().flatten().context("an index has no column")?;
            // Quoted or not, by what answers.
            let bare = found.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            columns.push(quoted(&bare.map_or(found.clone(), |bare| bare.replace("\"\"", "\""))));
        }
        let (is_primary, definition) = (is_primary == "t", definition.clone());
        indexes.push(Index { name: name.clone(), is_primary, definition, columns });
    }
    Ok(indexes)
}

/// Where the table lives, as options of CREATE TABLE.
async fn placement(client: &Client, table: &Table) -> anyhow::Result<Option<String>> {
    let sql = format!("SELECT reloptions FROM pg_catalog.pg_class WHERE oid = {}", table.oid);
    let found = texts(client, &sql).await?.into_iter().flatten().next().flatten();
    let Some(text) = found else { return Ok(None) };
    let options = options(&text).with_context(|| {
        format!("table {}.{} has options that cannot be read: {text}", table.schema, table.name)
    })?;
    let options = options.into_iter().map(|(name, value)| format!("{name} = {}", literal(&value)));
    let options: Vec<String> = options.collect();
    Ok((!options.is_empty()).then(|| format!("WITH ({})", options.join(", "))))
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
