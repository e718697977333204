//! What a backup consists of.
//!
//! ```text
//! manifest.json       written last
//! tables/0001.copy    a table's rows, as COPY writes them as text
//! ```

use anyhow::{Context, bail};
use ring::digest::{self, SHA256};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The format that is written, and the only one that is read.
pub const FORMAT: u32 = 1;
pub const MANIFEST: &str = "manifest.json";
pub const TABLES: &str = "tables";

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// The program that wrote it.
    pub program: String,
    /// What `version()` says of the cluster.
    pub server: String,
    /// The cluster's time at which the cut was chosen.
    pub taken_at: String,
    /// Statements that make schemas, sequences and tables, before rows are loaded.
    pub before: Vec<Statement>,
    pub tables: Vec<TableRows>,
    /// Statements that make indexes, after rows were loaded.
    pub after: Vec<Statement>,
}

/// SQL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    pub sql: String,
    /// What comes behind it to say where a table lives.
    pub placement: Option<String>,
    /// What comes behind both to say how a table is partitioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioning: Option<String>,
}

/// A table's rows in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableRows {
    pub schema: String,
    pub name: String,
    /// In the order of the file.
    pub columns: Vec<String>,
    /// Relative to the backup.
    pub file: String,
    pub rows: u64,
    pub bytes: u64,
    pub sha256: String,
}

/// A manifest as it is written: its text, and the digest of that.
#[derive(Serialize, Deserialize)]
struct Sealed {
    sha256: String,
    manifest: serde_json::Value,
}

/// A format, before anything else of a manifest is believed.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Manifest {
    /// In words.
    pub fn summary(&self) -> String {
        let (rows, bytes) = self.tables.iter().fold((0, 0), |all, one| (all.0 + one.rows, all.1 + one.bytes));
        format!("{} tables, {rows} rows, {bytes} bytes", self.tables.len())
    }

    /// Writes it so that it is there completely or not at all.
    pub fn write(&self, backup: &Path) -> anyhow::Result<()> {
        let manifest = serde_json::to_value(self)?;
        let sealed =
            Sealed { sha256: hex(digest::digest(&SHA256, manifest.to_string().as_bytes())), manifest };
        let (new, path) = (backup.join(format!("{MANIFEST}.new")), backup.join(MANIFEST));
        let written = || -> std::io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(serde_json::to_string_pretty(&sealed)?.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &path)?;
            File::open(backup)?.sync_all()
        };
        written().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Errors: there is none, it is damaged, or of another format.
    pub fn read(backup: &Path) -> anyhow::Result<Manifest> {
        let path = backup.join(MANIFEST);
        let shown = path.display();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {shown}: {} is no complete backup", backup.display()))?;
        let damaged = || format!("{shown} is damaged; take another backup");
        let sealed: Sealed = serde_json::from_str(&text).with_context(damaged)?;
        let Format { format } = serde_json::from_value(sealed.manifest.clone()).with_context(damaged)?;
        if format != FORMAT {
            bail!(
                "{shown} has format {format}; this program reads format {FORMAT}. Use the program that wrote it"
            );
        }
        if hex(digest::digest(&SHA256, sealed.manifest.to_string().as_bytes())) != sealed.sha256 {
            bail!("{}: its digest is wrong", damaged());
        }
        serde_json::from_value(sealed.manifest).with_context(damaged)
    }
}

pub fn hex(digest: digest::Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
