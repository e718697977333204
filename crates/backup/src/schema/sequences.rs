//! Sequences: how they count, whose they are, and where they stand.

use super::{OURS, Table};
use crate::{literal, quoted, texts};
use anyhow::bail;
use tokio_postgres::Client;

pub(super) struct Sequence {
    /// Quoted.
    pub name: String,
    /// As CREATE SEQUENCE and an identity column take them.
    pub options: String,
    data_type: String,
    owner: Option<Owner>,
}

/// The column that a sequence goes with.
struct Owner {
    /// Object id of its table.
    table: String,
    /// As `pg_attribute.attnum`.
    column: String,
    is_identity: bool,
}

pub(super) async fn sequences(client: &Client) -> anyhow::Result<Vec<Sequence>> {
    let sql = format!(
        "SELECT n.nspname, c.relname, pg_catalog.format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, \
         s.seqmax, s.seqcache, s.seqcycle, d.refobjid, d.refobjsubid, d.deptype = 'i' \
         FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_catalog.pg_depend d ON d.objid = c.oid AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i') \
         WHERE {OURS} ORDER BY 1, 2"
    );
    let mut found = Vec::new();
    for row in texts(client, &sql).await? {
        let [
            Some(schema),
            Some(name),
            Some(data_type),
            Some(start),
            Some(step),
            Some(min),
            Some(max),
            Some(cache),
            Some(cycles),
            table,
            column,
            identity,
        ] = &row[..]
        else {
            bail!("a sequence has no name")
        };
        let cycle = if cycles == "t" { "CYCLE" } else { "NO CYCLE" };
        let owner = table.clone().zip(column.clone());
        found.push(Sequence {
            name: format!("{}.{}", quoted(schema), quoted(name)),
            options: format!(
                "INCREMENT BY {step} MINVALUE {min} MAXVALUE {max} START WITH {start} CACHE {cache} {cycle}"
            ),
            data_type: data_type.clone(),
            owner: owner.map(|(table, column)| Owner {
                table,
                column,
                is_identity: identity.as_deref() == Some("t"),
            }),
        });
    }
    Ok(found)
}

impl Sequence {
    /// Whether it counts this identity column, and is made with it.
    pub fn is_of(&self, table: &Table, column: &str) -> bool {
        self.owner.as_ref().is_some_and(|o| o.is_identity && o.table == table.oid && o.column == column)
    }

    /// The statement that makes it, if none that makes a table does.
    pub fn made(&self) -> Option<String> {
        let with_table = self.owner.as_ref().is_some_and(|owner| owner.is_identity);
        (!with_table).then(|| format!("CREATE SEQUENCE {} AS {} {}", self.name, self.data_type, self.options))
    }

    /// The name of the column that it goes with, among these tables.
    fn column<'t>(&self, tables: &'t [Table]) -> Option<(&'t Table, &'t str)> {
        let owner = self.owner.as_ref()?;
        let table = tables.iter().find(|table| table.oid == owner.table)?;
        let column = table.columns.iter().find(|column| column.number == owner.column)?;
        Some((table, column.name.as_str()))
    }

    /// The statement that gives it to its column, if it was not made with it.
    pub fn given(&self, tables: &[Table]) -> Option<String> {
        let (table, column) = self.column(tables).filter(|_| self.made().is_some())?;
        Some(format!("ALTER SEQUENCE {} OWNED BY {}.{}", self.name, table.full_name(), quoted(column)))
    }

    /// The statement that lets it go on where it stands.
    pub async fn stands(&self, client: &Client, tables: &[Table]) -> anyhow::Result<String> {
        let stands = texts(client, &format!("SELECT last_value, is_called FROM {}", self.name)).await?;
        let Some([Some(value), Some(is_called)]) = stands.first().map(Vec::as_slice) else {
            bail!("the sequence {} does not tell where it stands", self.name)
        };
        let name = match self.column(tables).filter(|_| self.made().is_none()) {
            // It is made with its table, and named then.
            Some((table, column)) => {
                format!("pg_get_serial_sequence({}, {})", literal(&table.full_name()), literal(column))
            }
            None => literal(&self.name),
        };
        Ok(format!("SELECT setval({name}, {value}, {})", is_called == "t"))
    }
}
