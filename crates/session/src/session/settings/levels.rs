//! Levels of isolation: their names, and what is given of them.

use super::Settings;
use base::txn::Isolation;

/// PostgreSQL's names of levels of isolation.
pub const READ_COMMITTED: &str = "read committed";
pub const READ_UNCOMMITTED: &str = "read uncommitted";
pub const REPEATABLE_READ: &str = "repeatable read";
pub const SERIALIZABLE: &str = "serializable";

/// What PostgreSQL calls a level: snapshot isolation is its REPEATABLE READ.
pub fn shown_level(level: Isolation) -> &'static str {
    match level {
        Isolation::ReadCommitted => READ_COMMITTED,
        Isolation::Snapshot | Isolation::RepeatableRead => REPEATABLE_READ,
        Isolation::Serializable => SERIALIZABLE,
    }
}

impl Settings {
    /// The level that blocks get which ask for one by its name. With engine `geogauss` REPEATABLE READ is snapshot
    /// isolation, and READ UNCOMMITTED is READ COMMITTED, as in PostgreSQL; with the others everything is serializable.
    pub fn gives(&self, asked: &str) -> Isolation {
        match asked.to_ascii_lowercase().as_str() {
            _ if !self.merges_epochs() => Isolation::Serializable,
            READ_COMMITTED | READ_UNCOMMITTED => Isolation::ReadCommitted,
            REPEATABLE_READ => Isolation::Snapshot,
            _ => Isolation::Serializable,
        }
    }
    /// The level of new blocks.
    pub fn level(&self) -> Isolation {
        self.gives(self.get("default_transaction_isolation"))
    }
}
