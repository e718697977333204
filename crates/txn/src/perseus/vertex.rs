//! What this engine keeps beside a vertex of the graph.

use super::message::{Ballot, Decision, Message, Share};
use crate::graph::participants::NodeSet;
use crate::graph::vertex::Vertices;
use base::txn::{ClientRequest, Gathered};
use base::{NodeId, PartitionId, Rank, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What depends on what.
pub(super) type Graph = Vertices<Extra>;

/// What this engine keeps beside a vertex.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    pub received_at: Time,
    /// Own lower bound, as answered to PreAccept.
    pub pts: Rank,
    /// It ends without effect.
    pub noop: bool,
    /// What its session had seen; valid from `PreAccepted` on where it takes part, else from
    /// `Final` on.
    pub after: Rank,
    pub collected: CollectedAncestors,
    /// Nodes that hold it with final dependencies, as far as known here.
    pub held_by: NodeSet,
    /// Local partitions on whose stream it is, as bits.
    pub streamed: u64,
    /// It had executed when this life began: whoever follows a stream has it with the copy.
    pub is_copied: bool,
    /// When its place was taken, versions of rows that it has to look at were collected: it aborts.
    pub too_old: bool,
    /// The last record about it, in this life.
    pub recorded: u64,
    /// Present for transactions that take part at several nodes.
    pub remote: Option<Box<Remote>>,
}

/// What is known of a transaction's ancestors that may have been collected.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct CollectedAncestors {
    /// Its rank is at least this, because of dependencies that may have been collected since.
    pub inherited: Rank,
    /// Dependencies were collected whose ranks are not part of `inherited`, up to this rank.
    pub lost: Rank,
    /// A participant had not executed it when the watermark was here: dependencies up to this rank
    /// cannot affect its own.
    pub dominates: Rank,
}

/// A transaction between nodes, at one of its participants (or at a node that was asked about it).
#[derive(Clone, Debug, Default)]
pub(super) struct Remote {
    /// The stored answer to PreAccept.
    pub answer: Option<Message>,
    pub exchange: BTreeMap<PartitionId, Gathered>,
    /// Own reads are in the exchange.
    pub gathered: bool,
    /// The stored end.
    pub share: Option<Share>,
    /// Nodes that asked for its final dependencies.
    pub inquirers: Vec<NodeId>,
    /// No older ballot decides here.
    pub promised: Option<Ballot>,
    /// What a recovery wants to commit.
    pub accepted: Option<(Ballot, Decision)>,
    /// Whoever has the promised ballot was told that this node does not pre-accept it, or has gone on to a
    /// proposal: a late copy of their PreAccept changes nothing.
    pub barred: bool,
    /// It was not pre-accepted here; its place is kept for whoever recovers it.
    pub placeholder: bool,
    /// Somebody else recovers it: leave them in peace until then.
    pub patient_until: Time,
    /// The client's name for it.
    pub request: Option<ClientRequest>,
}

impl Remote {
    /// The ballot that decides here.
    pub fn ballot(&self) -> Ballot {
        self.promised.unwrap_or(Ballot::FIRST)
    }
}
