//! Where queries put what does not fit into memory.
//!
//! KEEPS: files are made in the directory alone, and are gone once the query that made them is; without a directory none
//! are made, and a query that needs more memory than there is ends with 53200.

use base::SqlError;
use base::error::SqlState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use std::path::PathBuf;

/// A directory for temporary files of queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spill {
    /// It is there, and nobody else uses it.
    pub directory: PathBuf,
    /// What all files together may take.
    pub bytes_max: u64,
}

/// Memory that a sort keeps, from its beginning, for merging what it has put away; a 32nd of all at most.
const MERGE_BYTES: usize = 10 << 20;

/// The same with so much memory for all queries.
pub(super) fn merge_bytes(memory_bytes: usize) -> usize {
    MERGE_BYTES.min(memory_bytes / 32)
}

/// Makes files there, or none.
pub(super) fn disk(spill: Option<&Spill>) -> DiskManagerBuilder {
    let builder = DiskManagerBuilder::default();
    match spill {
        None => builder.with_mode(DiskManagerMode::Disabled),
        Some(Spill { directory, bytes_max }) => builder
            .with_mode(DiskManagerMode::Directories(vec![directory.clone()]))
            .with_max_temp_directory_size(*bytes_max),
    }
}

/// Why a temporary file could not be written or read, as a client is told: 53400 beyond the limit, 53100 where the disk is
/// full, 58030 for anything else.
pub(super) fn refused(said: &str) -> SqlError {
    if said.contains("exceeded the allowable limit") {
        let error = SqlError::new(
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            "temporary files of queries would take more than --spill-mib",
        );
        return error.hint("Read less of the tables, or start the server with a higher --spill-mib.");
    }
    let full = ["No space left on device", "os error 28", "quota exceeded", "os error 122"];
    if full.iter().any(|told| said.contains(told)) {
        let error = SqlError::new(
            SqlState::DISK_FULL,
            "could not write a temporary file of the query: No space left on device",
        );
        return error.hint("Make room on the disk of --spill-dir, or read less of the tables.");
    }
    let told = said.lines().next().unwrap_or_default();
    SqlError::new(SqlState(*b"58030"), format!("could not use a temporary file of the query: {told}"))
}
