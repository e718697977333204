//! Flags about old versions of rows, which open transactions read.

use session::OldVersions;
use std::time::Duration;

/// What a region keeps for open transactions.
#[derive(clap::Args, Clone, Debug)]
pub struct OldVersionsArgs {
    /// Old versions of rows that a region keeps for open transactions, in MiB: beyond it the oldest transaction ends
    /// with 72000, snapshot too old
    #[arg(long, env = "MERIDIAN_OLD_VERSIONS_MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    pub old_versions_mib: u64,
    /// A transaction whose snapshot is older than this, in seconds, ends with 72000
    #[arg(long, env = "MERIDIAN_OLD_VERSIONS_AGE", value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..))]
    pub old_versions_age: u64,
}

impl OldVersionsArgs {
    /// As sessions look at them.
    pub fn limits(&self) -> OldVersions {
        OldVersions {
            bytes_max: self.old_versions_mib << 20,
            age_max: Duration::from_secs(self.old_versions_age),
        }
    }
}
