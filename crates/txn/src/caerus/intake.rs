//! What has come to the leader of a sequence and is not merged.
//!
//! IN: transactions of gateways, in the order of each link; transactions from elsewhere. OUT: those whose turn it is to be
//! appended. KEEPS: what a gateway sent comes once and in its order; what is appended or about to be is known by its id
//! until it is merged.

use super::message::Named;
use super::preparing::Preparing;
use crate::log::link::Inbox;
use base::{NodeId, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(super) struct Intake {
    /// By gateway and its life.
    gateways: BTreeMap<(NodeId, u32), Inbox<Named>>,
    /// Transactions whose append is delayed, by the time when they take their place.
    delayed: BTreeMap<(Time, TxnId), Named>,
    preparing: Preparing,
    /// Appended in this term, or about to be, and not merged.
    fresh: BTreeSet<TxnId>,
}

/// What a gateway's message brought.
pub(super) struct Received {
    /// In the gateway's order, with nothing missing before.
    pub ready: Vec<Named>,
    /// Which number the gateway is to send next, and whether later ones are here.
    pub next: u64,
    pub has_gap: bool,
}

impl Intake {
    /// A gateway, in one of its lives, sends transactions, from its `first`-th on.
    pub fn receive(&mut self, gateway: (NodeId, u32), first: u64, transactions: Vec<Named>) -> Received {
        let mut ready = Vec::new();
        let inbox = self.gateways.entry(gateway).or_default();
        inbox.receive(first, transactions, &mut ready);
        Received { ready, next: inbox.next(), has_gap: inbox.has_gap() }
    }

    /// The append is delayed until `at`.
    pub fn delay(&mut self, at: Time, named: Named) {
        self.delayed.insert((at, named.0.id), named);
    }
    /// The first of those whose append is delayed no longer.
    pub fn pop_due(&mut self, now: Time) -> Option<Named> {
        let first = self.delayed.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        Some(first.remove())
    }
    /// When the next of those takes its place.
    pub fn delayed_until(&self) -> Option<Time> {
        self.delayed.keys().next().map(|(at, _)| *at)
    }

    /// It is appended, or prepared for that.
    pub fn append(&mut self, txn: TxnId) {
        self.fresh.insert(txn);
    }
    pub fn contains(&self, txn: TxnId) -> bool {
        self.fresh.contains(&txn)
    }
    pub fn merged(&mut self, txn: TxnId) {
        self.fresh.remove(&txn);
    }

    /// What waits for its first round.
    pub fn preparing(&mut self) -> &mut Preparing {
        &mut self.preparing
    }
    pub fn is_preparing(&self) -> bool {
        !self.preparing.is_empty()
    }
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.delayed.is_empty() && self.preparing.is_empty()
    }
}
