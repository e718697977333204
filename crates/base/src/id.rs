//! Names of things. Every number has a type; ids are never reused.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub $inner);
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    };
}

id!(
    /// A region: one or more data centres that are near each other. Dense, from 0.
    RegionId(u16), "r");
id!(
    /// A partition: a shard of rows and the one state machine that owns them. Dense, from 0.
    PartitionId(u16), "p");
id!(
    /// A server process.
    NodeId(u16), "n");
id!(
    /// A table or an index; both share one number space, so that index entries can be granules.
    TableId(u32), "t");
id!(
    /// Position in one partition's log: the n-th transaction executed there, from 1; 0 is "nothing yet".
    LogPosition(u64), "@");
id!(
    /// A request of a client, unique at the node that accepted it. A retry carries the same id.
    RequestId(u64), "q");

impl LogPosition {
    pub fn next(self) -> Self {
        LogPosition(self.0 + 1)
    }
}

/// A transaction. Totally ordered: ties in rank and members of a dependency cycle go by this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct TxnId {
    /// The gateway that coordinates it.
    pub coordinator: NodeId,
    /// Which life of that gateway: a restarted node gets a higher one, so ids are never reused.
    pub incarnation: u32,
    /// Counts the gateway's transactions in this life, from 1.
    pub sequence: u64,
}

impl TxnId {
    /// Smaller than every transaction.
    pub const MIN: TxnId = TxnId { coordinator: NodeId(0), incarnation: 0, sequence: 0 };
    /// Larger than every transaction.
    pub const MAX: TxnId = TxnId { coordinator: NodeId(u16::MAX), incarnation: u32::MAX, sequence: u64::MAX };
}

impl fmt::Debug for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.coordinator.0, self.incarnation, self.sequence)
    }
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
