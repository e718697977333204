//! Reads a cluster at one cut and writes it down.

use crate::manifest::{FORMAT, Manifest, TABLES, TableRows, hex};
use crate::schema::{Schema, Table};
use crate::verify::newlines;
use crate::{connect, quoted, texts};
use anyhow::{Context, bail};
use futures::StreamExt;
use ring::digest::{self, SHA256};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::pin::pin;
use tokio_postgres::Client;

/// # Errors
/// The cluster cannot be read, the directory not be written, or it holds something.
pub async fn create(url: &str, backup: &Path) -> anyhow::Result<Manifest> {
    let is_empty = std::fs::read_dir(backup).map_or(true, |mut inside| inside.next().is_none());
    if !is_empty {
        bail!("{} holds files; a backup goes into a directory of its own", backup.display());
    }
    let client = connect(url).await?;
    let tables = backup.join(TABLES);
    std::fs::create_dir_all(&tables).with_context(|| format!("cannot make {}", tables.display()))?;
    let mut manifest = read(&client, backup).await?;
    manifest.tables.sort_by(|a, b| a.file.cmp(&b.file));
    for directory in [tables.as_path(), backup] {
        let synced = File::open(directory).and_then(|opened| opened.sync_all());
        synced.with_context(|| format!("cannot sync {}", directory.display()))?;
    }
    manifest.write(backup)?;
    Ok(manifest)
}

/// Names of the databases that a backup of one leaves out.
///
/// # Errors
/// The cluster cannot be asked.
pub async fn other_databases(url: &str) -> anyhow::Result<Vec<String>> {
    let client = connect(url).await?;
    let sql = "SELECT datname FROM pg_catalog.pg_database WHERE datallowconn AND datname <> current_database() ORDER BY 1";
    Ok(texts(&client, sql).await?.into_iter().flatten().flatten().collect())
}

async fn read(client: &Client, backup: &Path) -> anyhow::Result<Manifest> {
    // What is read from the catalog is of the same transaction, which ends if a table changes meanwhile.
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let one =
        |rows: Vec<Vec<Option<String>>>| rows.into_iter().flatten().next().flatten().unwrap_or_default();
    let server = one(texts(client, "SELECT version()").await?);
    let taken_at = one(texts(client, "SELECT now()").await?);
    let schema = Schema::read(client).await?;
    let mut tables = Vec::new();
    for (nth, table) in schema.tables.iter().enumerate() {
        let file = format!("{TABLES}/{:04}.copy", nth + 1);
        let read = rows(client, table, backup, file).await;
        tables.push(read.with_context(|| format!("read table {}.{}", table.schema, table.name))?);
    }
    client.batch_execute("COMMIT").await?;
    let program = env!("CARGO_PKG_VERSION").to_string();
    let Schema { before, after, .. } = schema;
    Ok(Manifest { format: FORMAT, program, server, taken_at, before, tables, after })
}

/// Writes a table's rows into a file, as they come.
async fn rows(client: &Client, table: &Table, backup: &Path, file: String) -> anyhow::Result<TableRows> {
    let path = backup.join(&file);
    let cannot = || format!("cannot write {}", path.display());
    let columns: Vec<String> = table
        .columns
        .iter()
        .filter(|column| !column.is_generated)
        .map(|column| column.name.clone())
        .collect();
    let list: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let sql =
        format!("COPY {}.{} ({}) TO STDOUT", quoted(&table.schema), quoted(&table.name), list.join(", "));
    let mut pieces = pin!(client.copy_out(&sql).await?);
    let mut written = BufWriter::with_capacity(1 << 20, File::create(&path).with_context(cannot)?);
    let (mut context, mut rows, mut bytes) = (digest::Context::new(&SHA256), 0, 0);
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        context.update(&piece);
        rows += newlines(&piece);
        bytes += piece.len() as u64;
        written.write_all(&piece).with_context(cannot)?;
    }
    let synced = written.into_inner().map_err(std::io::IntoInnerError::into_error);
    synced.and_then(|file| file.sync_all()).with_context(cannot)?;
    let (schema, name) = (table.schema.clone(), table.name.clone());
    Ok(TableRows { schema, name, columns, file, rows, bytes, sha256: hex(context.finish()) })
}
