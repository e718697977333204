//! Why files cannot be used.

use durability::{Refused, Stopped};
use std::fmt;
use std::path::{Path, PathBuf};

/// Why files cannot be used.
#[derive(Debug)]
pub enum DiskError {
    /// The system refused.
    Io { path: PathBuf, doing: &'static str, error: std::io::Error },
    /// Not what it should be.
    Foreign { path: PathBuf, why: String },
    /// A node's directory was not opened.
    Refused { directory: PathBuf, why: Refused },
    /// A write or a sync failed.
    Stopped { directory: PathBuf, why: Stopped },
    /// Another process has the directory.
    InUse { path: PathBuf },
    /// The directory was made with another value of this setting.
    Differs { path: PathBuf, name: String, found: String, wanted: String },
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::Io { path, doing, error } => write!(f, "cannot {doing} {}: {error}", path.display()),
            DiskError::Foreign { path, why } => write!(f, "{}: {why}", path.display()),
            DiskError::Refused { directory, why } => {
                write!(f, "in {}: {why}", directory.display())?;
                match why {
                    Refused::Damaged { .. } | Refused::Missing { .. } => f.write_str(
                        ". Data that was synced is lost; restore the directory from a copy, or the database from a backup",
                    ),
                    Refused::Format { found, reads, .. } if found > reads => {
                        f.write_str(". A later build wrote it; start that one")
                    }
                    Refused::Format { .. } => f.write_str(". An earlier build wrote it; start that one"),
                    Refused::Differs { .. } => {
                        f.write_str(". Put the directory back where it was, or name another one with --data")
                    }
                    Refused::Disk(failed) if failed.why == durability::Failure::Full => {
                        f.write_str(". Make room on it and start again; nothing that was answered is lost")
                    }
                    Refused::Disk(_) => Ok(()),
                }
            }
            DiskError::Stopped { directory, why } => write!(f, "in {}: {why}", directory.display()),
            DiskError::InUse { path } => write!(f, "{} is in use by another process", path.display()),
            DiskError::Differs { path, name, found, wanted } => {
                write!(f, "{} was made with {name} {found}, not {wanted}", path.display())
            }
        }
    }
}
impl std::error::Error for DiskError {}

pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> DiskError {
    let path = path.to_path_buf();
    move |error| DiskError::Io { path, doing, error }
}
