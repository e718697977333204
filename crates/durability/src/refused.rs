//! Why a directory is not opened. Nothing in it was changed but its incarnation and what a crash left unfinished.

use crate::disk::Failed;

/// Something that must be equal and is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    pub what: &'static str,
    pub found: String,
    pub wanted: String,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The disk failed, or is full.
    Disk(Failed),
    /// The directory, or a file in it, belongs to another cluster, node or topology.
    Differs { path: String, differences: Vec<Difference> },
    /// Written in a format that this program does not read.
    Format { path: String, found: u32, reads: u32 },
    /// Bytes at this offset are not what was synced there.
    Damaged { path: String, at: u64, why: &'static str },
    /// Something that was synced is not there.
    Missing { path: String, why: String },
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Disk(failed) => write!(f, "{failed}"),
            Refused::Differs { path, differences } => {
                let each = |d: &Difference| format!("{} is {}, not {}", d.what, d.found, d.wanted);
                let all: Vec<String> = differences.iter().map(each).collect();
                write!(f, "{path} belongs elsewhere: {}", all.join("; "))
            }
            Refused::Format { path, found, reads } => {
                write!(f, "{path} has format {found}; this program reads format {reads}")
            }
            Refused::Damaged { path, at, why } => write!(f, "{path} is damaged at offset {at}: {why}"),
            Refused::Missing { path, why } => write!(f, "{path} is missing: {why}"),
        }
    }
}
impl std::error::Error for Refused {}

impl From<Failed> for Refused {
    fn from(failed: Failed) -> Refused {
        Refused::Disk(failed)
    }
}
