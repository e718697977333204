//! How the nodes of a cluster read together: Meridian's levels, or another system's way of choosing a query's snapshot, on
//! the same nodes, partitions and streams.
//!
//! A cluster runs one [`ReadProtocol`], chosen when its nodes are made, because some change what a writer has to do
//! before it is answered. IN: what streams say, which transactions are submitted and executed, what other nodes report.
//! OUT: the rule of a strong query; announcements and reports; which answers wait. KEEPS: a node asks its protocol and
//! never which one it is. The places that they give to transactions are the ordering engine's; what differs is
//! where a query's cut comes from:
//!
//! | baseline | after | a query reads | what it costs |
//! |---|---|---|---|
//! | [`Baseline::SafeTimestamp`] | F1 Lightning | at the least rank that every partition of the cluster has announced as safe | staleness |
//! | [`Baseline::CentralTimestamp`] | TiDB | at a timestamp from the cluster's oracle, once everything below is there | a trip to the oracle, and waiting |
//! | [`Baseline::BatchCut`] | Janus-HTAP | at the last barrier that a central manager has found closed everywhere | a trip to the manager, and staleness |
//! | [`Baseline::SynchronousReplica`] | Spanner-RSS with replicas for analytics | at what has been applied here | every writer waits for every copy |
//!
//! Central services live at the node that runs partition 0.

pub mod batch_cut;
pub mod central_timestamp;
pub mod safe_timestamp;
pub mod synchronous_replica;

use crate::rule::{Followed, QueryMeta, View};
use base::order::StreamItem;
use base::time::MS;
use base::topology::Topology;
use base::{NodeId, PartitionId, Rank, Time, TxnId};

/// The partition at whose node central services live.
pub const CENTRAL: PartitionId = PartitionId(0);

/// What a node does for its readers beside following their rules. A protocol that needs none of it keeps the defaults.
pub trait ReadProtocol: Send {
    /// The rule of a query over columns that asks for a strong level. `None`: its level says which.
    fn strong(&self, _meta: QueryMeta, _clock_bound_ns: u64, _view: &dyn View) -> Option<Followed> {
        None
    }
    /// A query is refused where its reader does not keep all of its columns.
    fn is_local(&self) -> bool {
        false
    }

    // ---- streams ----------------------------------------------------------------------------------

    /// Partitions announce this often how far they are safe, instead of closing timestamps, in ns.
    fn announces_every_ns(&self) -> Option<u64> {
        None
    }
    /// A node needs to hear of partitions too whose streams it does not follow.
    fn hears_of_all(&self) -> bool {
        false
    }
    /// An item gets this index on a partition's stream to other nodes, if there are any.
    fn streamed(&mut self, _partition: PartitionId, _index: Option<u64>, _item: &StreamItem) {}
    /// What to tell others now, after announcing.
    fn report(&mut self) -> Report {
        Report::Nothing
    }
    /// A partition has closed everything up to this barrier, as it says.
    fn reported(&mut self, _partition: PartitionId, _barrier: Rank) {}
    /// The last barrier that all partitions have closed; `None`: this node does not know.
    fn published(&self) -> Option<Rank> {
        None
    }
    /// Records travel with all columns of their rows.
    fn ships_whole_records(&self) -> bool {
        false
    }

    // ---- writers ----------------------------------------------------------------------------------

    /// Of the partitions where a transaction takes part: those whose copies it will be answered after.
    fn awaited(&self, _partitions: &mut dyn Iterator<Item = PartitionId>) -> Vec<PartitionId> {
        Vec::new()
    }
    /// A transaction that will be answered here.
    fn submitted(&mut self, _txn: TxnId, _awaited: Vec<PartitionId>) {}
    /// It has been executed everywhere: the partitions every copy of which has to have it before it is answered.
    fn executed(&mut self, _submitted_as: TxnId, _txn: TxnId, _is_committed: bool) -> Vec<PartitionId> {
        Vec::new()
    }
    /// Every copy of one of these partitions has it. Whether it may be answered.
    fn copied(&mut self, _txn: TxnId) -> bool {
        true
    }
    /// Some subscriber has not acknowledged this transaction's record.
    fn awaits_copies(&self, _partition: PartitionId, _txn: TxnId) -> bool {
        false
    }
    /// Every subscriber has acknowledged a partition's stream up to here: transactions that all copies have now.
    fn acknowledged(&mut self, _partition: PartitionId, _everywhere: u64) -> Vec<TxnId> {
        Vec::new()
    }
    /// Writers wait for what subscribers say.
    fn acknowledges_at_once(&self) -> bool {
        false
    }

    // ---- collection -------------------------------------------------------------------------------

    /// A rank below which queries to come may be cut, if columns are kept here.
    fn floor(&self, _view: &dyn View) -> Option<Rank> {
        None
    }
    /// Everything at or below `below` may be collected, were it not for this protocol's queries: up to where columns may
    /// forget now.
    fn spare(&mut self, _now: Time, below: Rank) -> Rank {
        below
    }
}

/// What a node tells others after it has announced how far its partitions are safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Nothing,
    /// To readers: nothing at or below these ranks is missing at these partitions, nor ever will be.
    Safe(Vec<(PartitionId, Rank)>),
    /// To the manager: everything up to these barriers is closed.
    Barriers(Vec<(PartitionId, Rank)>),
}

/// Queries read by their levels.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByLevel;

impl ReadProtocol for ByLevel {}

/// Which other system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Baseline {
    /// Serializable, stale; a session's token is waited for.
    SafeTimestamp,
    /// Serializable and regular. Asks for an engine whose timestamps are handed out centrally.
    CentralTimestamp,
    /// Serializable, stale; sessions are not respected.
    BatchCut,
    /// Serializable and regular.
    SynchronousReplica,
}

impl Baseline {
    pub const ALL: [Baseline; 4] = [
        Baseline::SafeTimestamp,
        Baseline::CentralTimestamp,
        Baseline::BatchCut,
        Baseline::SynchronousReplica,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Baseline::SafeTimestamp => "safe-timestamp",
            Baseline::CentralTimestamp => "central-timestamp",
            Baseline::BatchCut => "batch-cut",
            Baseline::SynchronousReplica => "synchronous-replica",
        }
    }
    pub fn parse(name: &str) -> Option<Baseline> {
        Baseline::ALL.into_iter().find(|baseline| baseline.name().eq_ignore_ascii_case(name))
    }
    /// As it runs at a node; intervals are those of PERSEUS §V-A.
    pub fn protocol(self, me: NodeId, topology: &Topology) -> Box<dyn ReadProtocol> {
        match self {
            Baseline::SafeTimestamp => Box::new(safe_timestamp::SafeTimestamps::new(30 * MS)),
            Baseline::CentralTimestamp => Box::new(central_timestamp::CentralTimestamps),
            Baseline::BatchCut => Box::new(batch_cut::BatchCuts::new(50 * MS, me, topology)),
            Baseline::SynchronousReplica => Box::new(synchronous_replica::SynchronousReplicas::default()),
        }
    }
}
