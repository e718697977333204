//! Reads a whole backup and compares it with its manifest.

use crate::manifest::{Manifest, TableRows, hex};
use anyhow::{Context, bail};
use ring::digest::{self, SHA256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// # Errors
/// The first file that is missing or differs, by its name.
pub fn verify(backup: &Path) -> anyhow::Result<Manifest> {
    let manifest = Manifest::read(backup)?;
    manifest.tables.iter().try_for_each(|table| check(backup, table))?;
    Ok(manifest)
}

fn check(backup: &Path, table: &TableRows) -> anyhow::Result<()> {
    let path = backup.join(&table.file);
    let shown = path.display();
    let mut file = File::open(&path).with_context(|| format!("cannot read {shown}"))?;
    let (mut context, mut bytes, mut rows) = (digest::Context::new(&SHA256), 0, 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = file.read(&mut piece).with_context(|| format!("cannot read {shown}"))?;
        if count == 0 {
            break;
        }
        context.update(&piece[..count]);
        bytes += count as u64;
        rows += newlines(&piece[..count]);
    }
    let whose = format!("the rows of {}.{}", table.schema, table.name);
    if bytes != table.bytes {
        bail!("{shown} ({whose}) has {bytes} bytes, and {} were written. Take another backup", table.bytes);
    }
    if rows != table.rows || hex(context.finish()) != table.sha256 {
        bail!("{shown} ({whose}) is not what was written: its digest differs. Take another backup");
    }
    Ok(())
}

/// COPY writes a line break within a value as two characters, so each one ends a row.
pub fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
