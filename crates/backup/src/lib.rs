//! Backups over the PostgreSQL wire protocol: a database's schema and its rows as of one cut, in files with digests.
//!
//! IN: a running cluster, a directory. OUT: a directory that [`verify()`] reads through and that [`restore()`] loads into
//! another, empty cluster, of any engine, any number of regions and any later build. KEEPS:
//! 1. all rows are read in one read-only transaction at REPEATABLE READ: at one cut, which holds whatever was answered
//!    before the backup began;
//! 2. the manifest is written last, after every file was synced: a directory without one is no backup. It names each
//!    file with its length, rows and SHA-256 digest, and ends with a digest of itself;
//! 3. nothing is restored from a backup of which a byte differs, or into a database that has tables.
//!
//! It knows no other crate: a cluster is an address, and what a table is made of is read from its system catalogs.
//!
//! Suggested reading order: [`manifest`], [`schema`], [`create()`], [`verify()`], [`restore()`].

pub mod create;
pub mod manifest;
pub mod restore;
pub mod schema;
pub mod verify;

use anyhow::{Context, bail};
use std::path::PathBuf;
use std::str::FromStr;
use tokio_postgres::{Client, Config, NoTls};

/// What `meridian backup` can do.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Write tables and rows of one database as of one cut into a new directory
    Create(CreateArgs),
    /// Read a whole backup and compare it with its digests
    Verify(FromArgs),
    /// Verify a backup and load it into a database that has no tables
    Restore(RestoreArgs),
}

#[derive(clap::Args, Debug)]
pub struct CreateArgs {
    /// The database, as postgres://user:password@host:port/database; a backup is of this one, so back up others by their own
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// A directory, or a file:// URL of one; it must not exist or be empty
    #[arg(long, value_name = "DIRECTORY", value_parser = directory)]
    pub to: PathBuf,
}

#[derive(clap::Args, Debug)]
pub struct FromArgs {
    /// The backup: a directory, or a file:// URL of one
    #[arg(long, value_name = "DIRECTORY", value_parser = directory)]
    pub from: PathBuf,
}

#[derive(clap::Args, Debug)]
pub struct RestoreArgs {
    /// The backup: a directory, or a file:// URL of one
    #[arg(long, value_name = "DIRECTORY", value_parser = directory)]
    pub from: PathBuf,
    /// The database to load it into, which has to be there, as postgres://user:password@host:port/database
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// Leave out where tables live (home, home_by, replicated): for a cluster that has other regions
    #[arg(long)]
    pub without_placement: bool,
}

/// Runs one of the commands and prints what came of it.
///
/// # Errors
/// Why the command failed: a chain of sentences that ends in what to do.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Create(args) => {
            let manifest = create::create(&args.url, &args.to).await?;
            println!("{} as of {}: {}", args.to.display(), manifest.taken_at, manifest.summary());
            let others = create::other_databases(&args.url).await?;
            if !others.is_empty() {
                println!(
                    "Not in it: other databases, each to be backed up by its own URL: {}",
                    others.join(", ")
                );
            }
        }
        Command::Verify(args) => {
            let manifest = verify::verify(&args.from)?;
            println!("{} as of {} is whole: {}", args.from.display(), manifest.taken_at, manifest.summary());
        }
        Command::Restore(args) => {
            let manifest = restore::restore(&args.from, &args.url, args.without_placement).await?;
            println!("Restored {} as of {}.", manifest.summary(), manifest.taken_at);
        }
    }
    Ok(())
}

/// A path, or a `file://` URL.
fn directory(text: &str) -> Result<PathBuf, String> {
    match text.split_once("://") {
        None => Ok(PathBuf::from(text)),
        Some(("file", path)) if path.starts_with('/') => Ok(PathBuf::from(path)),
        Some(("file", _)) => Err(format!("'{text}' names a host; write file:///path")),
        Some((scheme, _)) => Err(format!("backups go to directories and file:// URLs, not to {scheme}://")),
    }
}

/// A session.
pub(crate) async fn connect(url: &str) -> anyhow::Result<Client> {
    let config = Config::from_str(url).with_context(|| {
        format!("'{url}' is not a server's URL: write postgres://user@host:port/database")
    })?;
    if config.get_hosts().is_empty() {
        bail!("'{url}' names no host: write postgres://user@host:port/database");
    }
    let (client, connection) = config.connect(NoTls).await.context("cannot connect")?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection ends when its client is dropped; its error reaches whoever waits for an answer"
    )]
    tokio::spawn(connection);
    Ok(client)
}

/// The texts of a query's rows.
pub(crate) async fn texts(client: &Client, sql: &str) -> anyhow::Result<Vec<Vec<Option<String>>>> {
    let answered = client.simple_query(sql).await.with_context(|| format!("ask {sql}"))?;
    let rows = answered.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.map(|row| (0..row.len()).map(|at| row.get(at).map(str::to_string)).collect()).collect())
}

/// A name as SQL text.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL text.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
