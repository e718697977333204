//! Gateways ask how their transactions ended.

use super::message::Message;
use super::outcomes::Fate;
use super::state::Caerus;
use super::work::Out;
use crate::graph::vertex::State;
use base::{NodeId, Rank, TxnId};

impl Caerus {
    /// A gateway wants to know how its transaction ended.
    pub(super) fn on_outcome_wanted(&mut self, from: NodeId, txn: TxnId, out: &mut Out) {
        let forgotten_at = || self.executed_before_loss(txn);
        if let Fate::Ended((end, share)) = self.outcomes.fate(txn, forgotten_at) {
            self.send(from, Message::Executed { txn, end, share }, out);
        }
    }

    /// The rank of a transaction that executed here before this node lost its memory, or a later one, if its gateway
    /// cannot ask anybody who knows more.
    fn executed_before_loss(&self, txn: TxnId) -> Option<Rank> {
        let rejoined_at = self.life.rejoined_at()?;
        let gateway = self.cluster.topology.region_of(txn.coordinator);
        // Where regions may be lost, a gateway with copies asks its own region in the end.
        let asks_here = gateway == self.cluster.region
            || !self.cluster.survives()
            || self.cluster.sequencers[usize::from(gateway.0)].is_none();
        let graph = self.merger.graph();
        let known = graph.find(txn).map(|at| graph.live(at));
        let has_executed = match known {
            Some(vertex) => vertex.state >= State::Executed,
            None => self.logs.has_seen(txn),
        };
        if !asks_here || !has_executed {
            return None;
        }
        base::sometimes!("how a transaction ended was forgotten by the region that lost its memory");
        Some(known.and_then(|vertex| vertex.rank).unwrap_or(rejoined_at))
    }
}
