//! Loads a backup into a database that has no tables.

use crate::manifest::{Manifest, Statement, TableRows};
use crate::verify::verify;
use crate::{connect, quoted, schema, texts};
use anyhow::{Context, bail};
use bytes::Bytes;
use futures::SinkExt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::pin::pin;
use tokio_postgres::Client;

/// Sent at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Rows that Meridian takes in one transaction of a COPY.
const BATCH_ROWS: u32 = 5_000;

/// # Errors
/// The backup is damaged, the database has tables, or something cannot be made there: then what was made stays, and the
/// error says so.
pub async fn restore(backup: &Path, url: &str, without_placement: bool) -> anyhow::Result<Manifest> {
    let manifest = verify(backup)?;
    let client = connect(url).await?;
    if let Some(table) = schema::tables(&client).await?.first() {
        bail!(
            "the database has tables, {}.{} among them; a backup is restored into an empty one: CREATE DATABASE makes \
             one",
            table.schema,
            table.name
        );
    }
    let restored = load(&client, backup, &manifest, without_placement).await;
    restored.context("the database holds a part of the backup; drop it and restore into an empty one")?;
    Ok(manifest)
}

async fn load(
    client: &Client,
    backup: &Path,
    manifest: &Manifest,
    without_placement: bool,
) -> anyhow::Result<()> {
    // PostgreSQL has no such setting, and takes all rows of a COPY in one transaction.
    _ = client.batch_execute(&format!("SET meridian.copy_batch_rows = {BATCH_ROWS}")).await;
    for Statement { sql, placement, partitioning } in &manifest.before {
        let mut sql = sql.clone();
        for part in placement.iter().filter(|_| !without_placement).chain(partitioning) {
            sql.push_str(&format!(" {part}"));
        }
        client.batch_execute(&sql).await.with_context(|| format!("run {sql}"))?;
    }
    for table in &manifest.tables {
        let name = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
        load_rows(client, backup, table, &name).await.with_context(|| format!("load table {name}"))?;
        let found = texts(client, &format!("SELECT count(*) FROM {name}")).await?;
        let found = found.into_iter().flatten().next().flatten().unwrap_or_default();
        if found != table.rows.to_string() {
            bail!("table {name} has {found} rows now, and the backup {}", table.rows);
        }
    }
    for Statement { sql, .. } in &manifest.after {
        client.batch_execute(sql).await.with_context(|| format!("run {sql}"))?;
    }
    Ok(())
}

async fn load_rows(client: &Client, backup: &Path, table: &TableRows, name: &str) -> anyhow::Result<()> {
    let list: Vec<String> = table.columns.iter().map(|column| quoted(column)).collect();
    let mut sink = pin!(client.copy_in(&format!("COPY {name} ({}) FROM STDIN", list.join(", "))).await?);
    let mut file = File::open(backup.join(&table.file))?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            break;
        }
        sink.send(Bytes::copy_from_slice(&piece[..count])).await?;
    }
    let loaded = sink.finish().await?;
    if loaded != table.rows {
        bail!("{loaded} rows were taken of {}", table.rows);
    }
    Ok(())
}
