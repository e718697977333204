//! Questions to participants about vertices that closures lack.
//!
//! KEEPS: a vertex is asked about once at a time.

use super::super::message::{Deadline, Dependency, Known, Message};
use super::super::state::Perseus;
use super::super::work::Out;
use crate::graph::vertex::{Ref, State};
use base::{NodeId, Rank, Time, TxnId};
use std::collections::BTreeMap;

/// Vertices that were asked about, and how often each was asked about again.
#[derive(Clone, Debug, Default)]
pub(in crate::perseus) struct Inquiries {
    attempts: BTreeMap<TxnId, usize>,
}

impl Inquiries {
    /// Asks about a vertex, unless it was asked about already; whether it does.
    pub fn begin(&mut self, txn: TxnId) -> bool {
        self.attempts.insert(txn, 0).is_none()
    }
    /// Asks once more, unless there is an answer; how often it did.
    pub fn again(&mut self, txn: TxnId) -> Option<usize> {
        let attempt = self.attempts.get_mut(&txn)?;
        *attempt += 1;
        Some(*attempt)
    }
    /// Nothing has to be asked about it any more.
    pub fn settled(&mut self, txn: TxnId) {
        self.attempts.remove(&txn);
    }
    pub fn open(&self) -> impl Iterator<Item = TxnId> + '_ {
        self.attempts.keys().copied()
    }
    pub fn len(&self) -> usize {
        self.attempts.len()
    }
}

impl Perseus {
    /// Asks participants about vertices, all of one search at once.
    pub(in crate::perseus) fn inquire(&mut self, now: Time, vertices: Vec<Ref>, out: &mut Out) {
        let at = now + self.cluster.options.retry_after_ns(&self.cluster.topology);
        let mut by_node: BTreeMap<NodeId, Vec<Dependency>> = BTreeMap::new();
        for vertex in vertices {
            let vertex = self.graph.live(vertex);
            let txn = vertex.id;
            if !self.inquiries.begin(txn) {
                continue;
            }
            let participants = vertex.participants.clone();
            let nodes = participants.nodes(&self.cluster.topology);
            let node = self.nearest(nodes.iter().copied()).expect("a transaction has participants");
            by_node.entry(node).or_default().push(Dependency { txn, participants });
            self.remember(at, Deadline::Inquiry(txn), 0);
        }
        let watermark = self.collection.watermark();
        for (node, vertices) in by_node {
            self.send(node, Message::Inquire { vertices, watermark }, out);
        }
    }

    /// Asks the next participant.
    pub(in crate::perseus) fn retry_inquiry(&mut self, txn: TxnId, out: &mut Out) -> bool {
        let Some(attempt) = self.inquiries.again(txn) else { return false };
        let Some(at) = self.graph.find(txn) else {
            self.inquiries.settled(txn);
            return false;
        };
        base::sometimes!("an inquiry is sent again");
        let participants = self.graph.live(at).participants.clone();
        let nodes = participants.nodes(&self.cluster.topology);
        let node = nodes[attempt % nodes.len()];
        let vertices = vec![Dependency { txn, participants }];
        let watermark = self.collection.watermark();
        self.send(node, Message::Inquire { vertices, watermark }, out);
        true
    }

    pub(in crate::perseus) fn on_inquire(
        &mut self,
        from: NodeId,
        vertices: Vec<Dependency>,
        watermark: Rank,
        out: &mut Out,
    ) {
        self.raise_watermark(watermark, out);
        let mut roots = Vec::new();
        let mut known = Vec::new();
        for Dependency { txn, participants } in vertices {
            let at = match self.graph.find(txn) {
                Some(at) => at,
                None if self.collection.has_collected(txn) => {
                    known.push(Known::Below(txn));
                    continue;
                }
                None if participants.iter().all(|p| self.local_index(p).is_none()) => continue,
                None => self.graph.insert(txn, participants),
            };
            if self.graph.live(at).state >= State::Final {
                roots.push(at);
            } else {
                base::sometimes!("an inquiry waits for a commit");
                let inquirers = &mut self.remote(at).inquirers;
                if !inquirers.contains(&from) {
                    inquirers.push(from);
                }
            }
        }
        if !known.is_empty() {
            let watermark = self.collection.watermark();
            self.send(from, Message::InquireReply { known, watermark }, out);
        }
        if !roots.is_empty() {
            self.tell(from, &roots, out);
        }
    }

    /// Sends final vertices, with what their closures hold beyond what `to` should have.
    pub(in crate::perseus) fn tell(&mut self, to: NodeId, roots: &[Ref], out: &mut Out) {
        let known = self.fragments_for(roots, &[to], true).into_iter().map(Known::Final).collect();
        let watermark = self.collection.watermark();
        self.send(to, Message::InquireReply { known, watermark }, out);
    }

    pub(in crate::perseus) fn on_inquire_reply(&mut self, known: Vec<Known>, watermark: Rank, out: &mut Out) {
        self.raise_watermark(watermark, out);
        for known in known {
            match known {
                Known::Final(fragment) => {
                    self.inquiries.settled(fragment.txn);
                    self.learn(&fragment, out);
                    if let Some(at) = self.graph.find(fragment.txn) {
                        if self.graph.live(at).state == State::Final {
                            let watchers = self.graph.take_watchers(at);
                            self.search_later(watchers);
                        }
                    }
                }
                Known::Below(txn) => {
                    self.inquiries.settled(txn);
                    self.forget(txn);
                }
            }
        }
    }

    /// Lets go of whatever a raised floor says is collected everywhere.
    pub(in crate::perseus) fn forget_below_floors(&mut self) {
        let gone = |txn: &TxnId| self.collection.has_collected(*txn);
        let gone: Vec<TxnId> = self.inquiries.open().filter(gone).collect();
        for txn in gone {
            self.inquiries.settled(txn);
            self.forget(txn);
        }
    }

    /// Asks the nearest other participant about a transaction that takes part here.
    pub(in crate::perseus) fn inquire_elsewhere(&mut self, now: Time, at: Ref, out: &mut Out) {
        let vertex = self.graph.live(at);
        let (txn, participants) = (vertex.id, vertex.participants.clone());
        let nodes = participants.nodes(&self.cluster.topology);
        let others = nodes.iter().copied().filter(|node| *node != self.cluster.me);
        let Some(node) = self.nearest(others) else { return };
        if !self.inquiries.begin(txn) {
            return;
        }
        let vertices = vec![Dependency { txn, participants }];
        let watermark = self.collection.watermark();
        self.send(node, Message::Inquire { vertices, watermark }, out);
        let retry_at = now + self.cluster.options.retry_after_ns(&self.cluster.topology);
        self.remember(retry_at, Deadline::Inquiry(txn), 0);
    }
    fn nearest(&self, nodes: impl Iterator<Item = NodeId>) -> Option<NodeId> {
        nodes.min_by_key(|node| (self.measured.delays.one_way_ns(self.cluster.me, *node), *node))
    }
    /// The vertex is final here: nothing has to be asked about it any more.
    pub(in crate::perseus) fn inquire_no_more(&mut self, txn: TxnId) {
        self.inquiries.settled(txn);
    }
    /// A life begins: what the former one asked is not answered.
    pub(in crate::perseus) fn begin_inquiries(&mut self) {
        self.inquiries = Inquiries::default();
    }
}
