//! Memory for queries, and the directory where queries put what does not fit into it.
//!
//! KEEPS: of a directory a process uses the part of its own nodes, which is locked; what a process that crashed has left
//! there is removed before it is used, and nothing else ever is.

use anyhow::{anyhow, bail};
use base::NodeId;
use session::Spill;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// What queries of a region may take.
#[derive(clap::Args, Clone, Debug)]
pub struct MemoryArgs {
    /// Memory for queries and for rows that sessions buffer, per region, in MiB
    #[arg(long, env = "MERIDIAN_QUERY_MEMORY_MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..))]
    pub query_memory_mib: u64,
    /// Directory for temporary files of queries: sorts and groups that need more memory go there. Without it such a query
    /// ends with 53200
    #[arg(long, env = "MERIDIAN_SPILL_DIR", value_name = "DIR")]
    pub spill_dir: Option<PathBuf>,
    /// What temporary files of a region's queries may take together, in MiB [default: 10240]
    #[arg(long, env = "MERIDIAN_SPILL_MIB", value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub spill_mib: Option<u64>,
}

const SPILL_MIB: u64 = 10_240;
const LOCK: &str = "lock";
/// What makes temporary files makes directories whose names begin so.
const TEMPORARY: &str = "datafusion-";

impl MemoryArgs {
    /// Errors: a limit without a directory.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.spill_mib.is_some() && self.spill_dir.is_none() {
            bail!("--spill-mib limits what is in --spill-dir, which is missing");
        }
        Ok(())
    }

    /// Takes a node's part of the directory, if one is given. `replica`: the name of one in a process of its own, whose
    /// number another life of it need not have. Errors: it cannot be used, or another process uses it.
    pub fn spill(&self, node: NodeId, replica: Option<&str>) -> anyhow::Result<Option<SpillDir>> {
        let Some(directory) = &self.spill_dir else { return Ok(None) };
        let bytes_max = self.spill_mib.unwrap_or(SPILL_MIB) << 20;
        let part = replica.map_or_else(|| format!("node-{}", node.0), |name| format!("replica-{name}"));
        SpillDir::open(&directory.join(part), bytes_max).map(Some)
    }
}

/// A directory that is this process's as long as this is kept.
#[derive(Debug)]
pub struct SpillDir {
    spill: Spill,
    _lock: File,
}

impl SpillDir {
    fn open(directory: &Path, bytes_max: u64) -> anyhow::Result<SpillDir> {
        let unusable =
            |error: std::io::Error| anyhow!("--spill-dir: cannot use {}: {error}", directory.display());
        make(directory).map_err(unusable)?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(directory.join(LOCK));
        let lock = lock.map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("--spill-dir: {} is in use by another process", directory.display())
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        remove_left(directory).map_err(unusable)?;
        // Before queries rely on it.
        let tried = directory.join(format!("{TEMPORARY}tried"));
        std::fs::create_dir(&tried).and_then(|()| std::fs::remove_dir(&tried)).map_err(unusable)?;
        Ok(SpillDir { spill: Spill { directory: directory.to_path_buf(), bytes_max }, _lock: lock })
    }

    pub fn spill(&self) -> Spill {
        self.spill.clone()
    }
}

fn make(directory: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Removes what a process has left that crashed.
fn remove_left(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) && entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(spill_dir: Option<PathBuf>, spill_mib: Option<u64>) -> MemoryArgs {
        MemoryArgs { query_memory_mib: 64, spill_dir, spill_mib }
    }

    #[test]
    fn a_directory_belongs_to_one_process_and_what_a_crash_left_there_is_removed() {
        let scratch = std::env::temp_dir().join(format!("meridian-spill-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&scratch);
        let (left, other) = (scratch.join("node-0/datafusion-x"), scratch.join("node-0/other"));
        std::fs::create_dir_all(&left).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        std::fs::write(left.join("file"), "what a query has put away").unwrap();
        let args = args(Some(scratch.clone()), Some(5));
        let first = args.spill(NodeId(0), None).unwrap().unwrap();
        assert!(!left.exists() && other.exists(), "only what queries left is removed");
        assert_eq!(first.spill(), Spill { directory: scratch.join("node-0"), bytes_max: 5 << 20 });
        let refused = args.spill(NodeId(0), None).unwrap_err().to_string();
        assert!(refused.contains("node-0 is in use by another process"), "{refused}");
        assert!(args.spill(NodeId(1), None).unwrap().is_some(), "another node has a part of its own");
        let replica = args.spill(NodeId(0), Some("r1")).unwrap().unwrap();
        assert_eq!(replica.spill().directory, scratch.join("replica-r1"));
        drop(first);
        assert!(args.spill(NodeId(0), None).unwrap().is_some());
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn without_a_directory_there_are_no_files() {
        assert!(args(None, None).spill(NodeId(0), None).unwrap().is_none());
        assert!(args(None, None).check().is_ok());
        let refused = args(None, Some(5)).check().unwrap_err().to_string();
        assert!(refused.contains("--spill-dir"), "{refused}");
        let nowhere = args(Some("/proc/none".into()), None).spill(NodeId(0), None).unwrap_err().to_string();
        assert!(nowhere.contains("--spill-dir: cannot use /proc/none/node-0"), "{nowhere}");
    }
}
