//! How a node behaves.

use crate::clocks::ClockOptions;
use base::NodeId;
use base::cut::Incarnation;
use base::time::MS;
use base::topology::Topology;
use reads::protocol::{Baseline, ByLevel, ReadProtocol};
use reads::replica::ReadPolicy;
use reads::replica::tracker::Sizes;
use reads::rule::Dynamic;
use reads::rule::printed::Printed;

/// How a node behaves; the defaults suit a real cluster, tests draw their own.
#[derive(Clone, Debug)]
pub struct Options {
    pub streaming: Streaming,
    pub steps: Steps,
    /// How often versions are collected and columns merged.
    pub maintain_interval_ns: u64,
    /// Versions that one merge of columns takes on at most.
    pub merge_rows_max: usize,
    /// A token may lie this far ahead of the clock (beyond ε), not more: one bad token would be
    /// inherited by every later writer of its keys.
    pub token_ahead_max_ns: u64,
    /// Names the life of the cluster's logs, the same at every node: tokens of another are refused. A host that can
    /// begin afresh names each beginning. Not named: tokens say nothing of it and are believed.
    pub incarnation: Incarnation,
    /// Read as another system does, instead of by levels; the same at every node of a cluster.
    pub baseline: Option<Baseline>,
    /// A subscriber that was silent for longer holds up nobody any more, and gets a copy when it returns.
    pub lease_ns: u64,
    /// A transaction of another region may keep rows locked here so long, and three round trips on top.
    pub lock_lease_ns: u64,
    /// Rows of other readers that one query may gather here, in bytes of memory; beyond it the query ends with 53200.
    pub gather_bytes_max: u64,
    /// What is kept here of subscribed partitions.
    pub kept: Kept,
    /// How far cuts are moved up while their queries wait.
    pub dynamic: Dynamic,
    /// Queries at `rss` and `regular` run by the published algorithm, which keeps no promise; for comparison.
    pub printed: Option<Printed>,
    /// How the clocks of nodes are watched where they matter; `None`: not at all.
    pub clocks: Option<ClockOptions>,
    /// Planted faults; never in production.
    #[cfg(feature = "mutants")]
    pub mutants: Mutants,
}

/// Faults that a test plants.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mutants {
    /// In how cuts are chosen.
    pub reads: Option<reads::rule::Mutant>,
    /// In how indexes are built.
    pub rows: Option<rowstore::Mutant>,
}

/// When partitions tell of what they log, and readers of what has come.
#[derive(Clone, Copy, Debug)]
pub struct Streaming {
    /// Records for remote subscribers gather this long before they are sent, but never longer than until the next
    /// answer to a reader elsewhere or the next low. Strong reads ask, others read up to a low: only who waits
    /// for neither (a synchronous replica) needs them sooner.
    pub flush_ns: u64,
    /// What arrives on streams is acknowledged this long after the first of it; a sender waits longer before it
    /// sends again. Every word is an event for a partition, and it only lets go of memory by it.
    pub ack_ns: u64,
    /// How often a partition tells how far it is complete.
    pub low_interval_ns: u64,
}

impl Default for Streaming {
    fn default() -> Streaming {
        Streaming { flush_ns: 20 * MS, ack_ns: 100 * MS, low_interval_ns: 20 * MS }
    }
}

/// How much a node does before others have their turn.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Keys that a read of rows looks at; rows that columns take.
    pub keys: usize,
    /// Of a transaction's execution, in units of about a microsecond.
    pub units: u64,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { keys: 1_024, units: 1_024 }
    }
}

/// What a node keeps of partitions whose streams it follows.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Columns; off for a node that only follows their order, where every query is refused.
    pub columns: bool,
    /// Rows, of partitions that run elsewhere, for reads by key.
    pub rows: bool,
    /// How such reads are answered, unless they say so themselves.
    pub policy: ReadPolicy,
    /// One that waits for longer, and two trips on top, is answered by the partition's own node.
    pub patience_ns: u64,
    /// Slots of the tracker that a partition keeps once a replica asks it.
    pub tracker: Sizes,
    /// The topology's replicas are places that processes may take and leave: nothing is kept for one that has not come.
    pub replicas_come_later: bool,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            columns: true,
            rows: false,
            policy: ReadPolicy::default(),
            patience_ns: 10 * MS,
            tracker: Sizes::default(),
            replicas_come_later: false,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            streaming: Streaming::default(),
            steps: Steps::default(),
            maintain_interval_ns: 20 * MS,
            merge_rows_max: 65_536,
            token_ahead_max_ns: 2_000 * MS,
            incarnation: Incarnation::default(),
            baseline: None,
            lease_ns: 10 * base::time::SECOND,
            lock_lease_ns: base::time::SECOND,
            gather_bytes_max: 1 << 30,
            kept: Kept::default(),
            dynamic: Dynamic::default(),
            printed: None,
            clocks: Some(ClockOptions::default()),
            #[cfg(feature = "mutants")]
            mutants: Mutants::default(),
        }
    }
}

impl Options {
    #[cfg(feature = "mutants")]
    pub(super) fn planted(&self) -> Option<reads::rule::Mutant> {
        self.mutants.reads
    }
    #[cfg(not(feature = "mutants"))]
    pub(super) fn planted(&self) -> Option<reads::rule::Mutant> {
        None
    }
}

impl Options {
    /// How the nodes of the cluster read together.
    pub(super) fn protocol(&self, me: NodeId, topology: &Topology) -> Box<dyn ReadProtocol> {
        let baseline = self.baseline.map(|baseline| baseline.protocol(me, topology));
        let printed = || self.printed.map(|printed| Box::new(printed) as Box<dyn ReadProtocol>);
        baseline.or_else(printed).unwrap_or_else(|| Box::new(ByLevel))
    }
}
