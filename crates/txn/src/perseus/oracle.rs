//! Timestamps from one place: what a baseline way of reading asks of the engine.
//!
//! With [`Timestamps::Central`] a coordinator that has all PreAccept answers asks the oracle before it decides;
//! the oracle's timestamp is the transaction's cts, at one node as well as at several. A query asks it too and
//! closes the timestamp it gets: whoever is pre-accepted later is ranked above it. The oracle lives at the node
//! that runs partition 0.
//!
//! KEEPS: timestamps handed out grow, and each lies above the true time of its request (the clock is within ε);
//! so whatever was answered before a request is ranked below what it gets.

use super::message::Message;
use super::options::Timestamps;
use super::state::Perseus;
use super::work::Out;
use base::{NodeId, PartitionId, Rank, Time, TxnId};

/// What the oracle remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    /// Largest timestamp handed out here.
    handed_out: Rank,
}

impl Oracle {
    /// The next timestamp: above all before, and at least this.
    fn hand_out(&mut self, at_least: Rank) -> Rank {
        self.handed_out = self.handed_out.next().max(at_least);
        self.handed_out
    }
}

impl Perseus {
    fn oracle_node(&self) -> NodeId {
        self.cluster.topology.node_of(PartitionId(0))
    }

    /// Asks for the timestamp of a transaction that all participants have pre-accepted.
    pub(super) fn want_timestamp(&mut self, txn: TxnId, out: &mut Out) {
        let at_least = self.gateway.coordination(txn).expect("it is being coordinated").pts();
        self.send(self.oracle_node(), Message::TimestampWanted { txn, at_least }, out);
    }

    pub(super) fn on_timestamp_wanted(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        at_least: Rank,
        out: &mut Out,
    ) {
        if let Some(rank) = self.hand_out_timestamp(now, at_least) {
            self.send(from, Message::Timestamp { txn, rank }, out);
        }
    }

    /// The answer may come twice; the first one counts.
    pub(super) fn on_timestamp(&mut self, now: Time, txn: TxnId, rank: Rank, out: &mut Out) {
        self.decide(now, txn, rank, out);
    }

    pub(super) fn hand_out_timestamp(&mut self, now: Time, at_least: Rank) -> Option<Rank> {
        if self.cluster.options.timestamps != Timestamps::Central || self.cluster.me != self.oracle_node() {
            return None;
        }
        let present = now.rank() + self.cluster.clock_bound_ns();
        Some(self.oracle.hand_out(present.max(at_least)))
    }
}
