//! How transactions ended, for as long as their gateways may ask.

use super::message::Message;
use super::outcomes::{End, Fate};
use super::requests::Kept;
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

    /// A transaction has ended so; its gateway may ask.
    pub(super) fn remember_end(&mut self, txn: TxnId, end: End) {
        self.outcomes.remember(txn, end);
    }
    /// The transactions before this one of its gateway, of all its lives, have ended everywhere.
    pub(super) fn forget_ends_before(&mut self, end: TxnId) {
        let first = TxnId { incarnation: 0, sequence: 0, ..end };
        self.outcomes.forget(first..end);
    }
    /// Results of named requests are kept for a while beyond what readers need.
    pub(super) fn forget_results(&mut self) {
        self.outcomes.forget_results(&self.cluster, self.merger.graph(), self.collector.given_up());
    }
    /// The gateway has told a client that its outcome is not known.
    pub(super) fn obscure(&mut self, txn: TxnId) {
        self.outcomes.obscure(txn);
    }
    /// Whether it has, now that the end is known.
    pub(super) fn was_obscured(&mut self, txn: TxnId) -> bool {
        self.outcomes.was_obscured(txn)
    }
    /// What was merged here is merged anew.
    pub(super) fn forget_merged_outcomes(&mut self) {
        self.outcomes.forget_merged();
    }
    /// An image tells how named requests ended.
    pub(super) fn take_over_outcomes(&mut self, requests: Vec<Kept>) {
        self.outcomes.take_over(requests);
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
