//! The guarantees that a history can be checked against.
//!
//! Every guarantee is a choice of edges (see [`Rules`]) over the same graph. On top of the edges all
//! of them demand legal reads: nobody reads what was aborted, intermediate, never written, or differs
//! from its own earlier writes. [`Guarantee::Freshness`] alone draws no graph.

use std::fmt;

/// A promise about histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// No dirty writes, no cyclic information flow (Adya's PL-2: G0, G1).
    ReadCommitted,
    /// Read committed, and no operation sees a part of another one.
    ReadAtomic,
    /// Causal order of sessions, tokens and reads-from: read your writes, monotonic reads and writes,
    /// writes follow reads. Demands nothing of concurrent writers.
    Session,
    /// Snapshot isolation: every cycle has two anti-dependencies in a row, and no update is lost.
    SnapshotIsolation,
    /// Writers are serializable, and each query by itself sees whole transactions together with all
    /// of their ancestors. Two queries may disagree.
    Closed,
    /// Closed, token order, and every operation sees each conflicting transaction that was answered
    /// before the operation was invoked.
    Regular,
    /// One serial order of everything, queries included.
    Serializable,
    /// A serial order that respects real time.
    StrictSerializable,
    /// Regular sequential serializability (PERSEUS §II-C): a serial order that respects sessions,
    /// tokens, real time among writers, and real time between a writer and a query that conflicts
    /// with it.
    Rss,
    /// Every read sees each write to its key answered more than `lag_ns` before its invocation.
    Freshness { lag_ns: u64 },
    /// Any other choice of edges.
    Custom(Rules),
}

/// The edges a serial order has to respect, beyond write-write and write-read dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub anti_dependencies: AntiDependencies,
    /// Operations of one session follow one another.
    pub sessions: bool,
    /// An operation follows those whose tokens it carries.
    pub tokens: bool,
    pub real_time: RealTime,
}

/// How read-write edges take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AntiDependencies {
    /// Not at all.
    Ignored,
    /// Each operation's own, with a direct read from the overwriter back to it.
    OwnAtomic,
    /// Each operation's own, composed with causal edges (reads-from, sessions, tokens) only.
    OwnCausal,
    /// Those of writers compose freely; those of a query close only cycles of that query.
    OwnOfQueries,
    /// All, but no two in a row.
    NeverAdjacent,
    /// All.
    All,
}

/// Which pairs "answered before invoked" puts in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RealTime {
    Ignored,
    /// A writer before any operation that reads or writes a key it wrote.
    Conflicting,
    /// Those, and a writer before any writer.
    Writers,
    /// Any operation before any operation.
    All,
}

impl Guarantee {
    /// All that have a name of their own, weaker ones first where they compare.
    pub const NAMED: [Guarantee; 10] = [
        Guarantee::ReadCommitted,
        Guarantee::ReadAtomic,
        Guarantee::Session,
        Guarantee::SnapshotIsolation,
        Guarantee::Freshness { lag_ns: 0 },
        Guarantee::Closed,
        Guarantee::Regular,
        Guarantee::Serializable,
        Guarantee::Rss,
        Guarantee::StrictSerializable,
    ];

    /// The edges of this guarantee; `None` for freshness, which draws no graph.
    pub fn rules(self) -> Option<Rules> {
        use AntiDependencies::*;
        let plain = |anti_dependencies| Rules {
            anti_dependencies,
            sessions: false,
            tokens: false,
            real_time: RealTime::Ignored,
        };
        Some(match self {
            Guarantee::ReadCommitted => plain(Ignored),
            Guarantee::ReadAtomic => plain(OwnAtomic),
            Guarantee::Session => Rules { sessions: true, tokens: true, ..plain(OwnCausal) },
            Guarantee::SnapshotIsolation => plain(NeverAdjacent),
            Guarantee::Closed => plain(OwnOfQueries),
            Guarantee::Regular => {
                Rules { tokens: true, real_time: RealTime::Conflicting, ..plain(OwnOfQueries) }
            }
            Guarantee::Serializable => plain(All),
            Guarantee::StrictSerializable => {
                Rules { sessions: true, tokens: true, real_time: RealTime::All, ..plain(All) }
            }
            Guarantee::Rss => {
                Rules { sessions: true, tokens: true, real_time: RealTime::Writers, ..plain(All) }
            }
            Guarantee::Freshness { .. } => return None,
            Guarantee::Custom(rules) => rules,
        })
    }
}

impl Rules {
    /// True if a read-modify-write must follow directly on the version it read.
    pub(crate) fn forbid_lost_updates(&self) -> bool {
        use AntiDependencies::*;
        match self.anti_dependencies {
            Ignored | OwnAtomic | OwnCausal => false,
            OwnOfQueries | NeverAdjacent | All => true,
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guarantee::ReadCommitted => f.write_str("read committed"),
            Guarantee::ReadAtomic => f.write_str("read atomic"),
            Guarantee::Session => f.write_str("session"),
            Guarantee::SnapshotIsolation => f.write_str("snapshot isolation"),
            Guarantee::Closed => f.write_str("closed"),
            Guarantee::Regular => f.write_str("regular"),
            Guarantee::Serializable => f.write_str("serializable"),
            Guarantee::StrictSerializable => f.write_str("strict serializable"),
            Guarantee::Rss => f.write_str("rss"),
            Guarantee::Freshness { lag_ns: 0 } => f.write_str("fresh"),
            Guarantee::Freshness { lag_ns } => write!(f, "fresh within {lag_ns} ns"),
            Guarantee::Custom(rules) => write!(f, "{rules:?}"),
        }
    }
}
