//! What is special about a system, as small text files.

use anyhow::Context;
use bench::server::Flavour;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How to ask one kind of system.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What stands before a query to execute it and get rows per operator, as text or JSON; empty if there is nothing.
    pub explain: String,
    /// Statements for each connection of an analyst.
    #[serde(default)]
    pub analyst_session: Vec<String>,
    /// The server answers `SHOW meridian.freshness`.
    #[serde(default)]
    pub tells_freshness: bool,
    /// Names of the server's threads that work for queries begin like this; empty if they do not tell.
    #[serde(default)]
    pub query_threads: Vec<String>,
    /// Each connection has a process of its own, whose id `pg_backend_pid()` tells.
    #[serde(default)]
    pub process_per_connection: bool,
}

impl Profile {
    pub fn of(flavour: Flavour) -> Profile {
        let text = match flavour {
            Flavour::Meridian => include_str!("../profiles/meridian.toml"),
            Flavour::PostgreSql => include_str!("../profiles/postgresql.toml"),
            Flavour::Other => include_str!("../profiles/other.toml"),
        };
        toml::from_str(text).expect("a profile of ours is right")
    }
    /// # Errors
    /// If the file is not there or says something else than a profile can.
    pub fn read(file: &Path) -> anyhow::Result<Profile> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("read the profile {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a profile", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flavour_has_a_profile_and_a_wrong_word_is_refused() {
        for flavour in [Flavour::Meridian, Flavour::PostgreSql, Flavour::Other] {
            assert!(Profile::of(flavour).explain.starts_with("EXPLAIN"));
        }
        assert!(toml::from_str::<Profile>("explain = \"\"\nexplian = \"\"").is_err());
    }
}
