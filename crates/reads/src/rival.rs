//! Other systems' ways of choosing a query's snapshot, on the same nodes, partitions and streams.
//!
//! A cluster runs one of them, chosen when its nodes are made, because some change what a writer has to do
//! before it is answered. The places that they give to transactions are the ordering engine's; what differs is
//! where a query's cut comes from:
//!
//! | rival | after | a query reads | what it costs |
//! |---|---|---|---|
//! | [`Rival::SafeTimestamp`] | F1 Lightning | at the least rank that every partition of the cluster has announced as safe | staleness |
//! | [`Rival::CentralTimestamp`] | TiDB | at a timestamp from the cluster's oracle, once everything below is there | a trip to the oracle, and waiting |
//! | [`Rival::BatchCut`] | Janus-HTAP | at the last barrier that a central manager has found closed everywhere | a trip to the manager, and staleness |
//! | [`Rival::SynchronousReplica`] | Spanner-RSS with replicas for analytics | at what has been applied here | every writer waits for every copy |
//!
//! Central services live at the node that runs partition 0.

use base::time::MS;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rival {
    /// Serializable, stale; a session's token is waited for.
    SafeTimestamp,
    /// Serializable and regular. Asks for an engine whose timestamps are handed out centrally.
    CentralTimestamp,
    /// Serializable, stale; sessions are not respected.
    BatchCut,
    /// Serializable and regular.
    SynchronousReplica,
}

impl Rival {
    pub const ALL: [Rival; 4] =
        [Rival::SafeTimestamp, Rival::CentralTimestamp, Rival::BatchCut, Rival::SynchronousReplica];

    pub fn name(self) -> &'static str {
        match self {
            Rival::SafeTimestamp => "safe-timestamp",
            Rival::CentralTimestamp => "central-timestamp",
            Rival::BatchCut => "batch-cut",
            Rival::SynchronousReplica => "synchronous-replica",
        }
    }
    pub fn parse(name: &str) -> Option<Rival> {
        Rival::ALL.into_iter().find(|rival| rival.name().eq_ignore_ascii_case(name))
    }
    /// How often a partition announces how far it is safe, or closes a batch, in ns; as in PERSEUS §V-A.
    pub fn interval_ns(self) -> Option<u64> {
        match self {
            Rival::SafeTimestamp => Some(30 * MS),
            Rival::BatchCut => Some(50 * MS),
            Rival::CentralTimestamp | Rival::SynchronousReplica => None,
        }
    }
}
