//! Requests that clients repeat, here or at another gateway, because they got no answer.
//!
//! IN: transactions that carry a client's name for its request. OUT: at most one attempt of a request takes
//! effect; a repetition is answered with that attempt's end. KEEPS:
//! 1. at each participant the first attempt that is pre-accepted *claims* the request; another attempt is
//!    not pre-accepted there while the claim stands;
//! 2. a claim goes when its attempt ends without effect, or [`Options::keep_results_ns`] after the rank of
//!    an attempt that took effect; whatever was issued before then is refused from then on.
//!
//! A gateway whose attempt meets another one's claim waits for the other's end, asking its participants. If
//! that took effect, it is the answer, and the own attempt is recovered to end without effect (it cannot end
//! otherwise: where the claim stands it is unknown). If that ended without effect, the own attempt goes on, or
//! another is made after a pause ([`super::again`]). Two attempts may meet each other's claims: the one with the larger id
//! withdraws at once.
//!
//! [`Options::keep_results_ns`]: super::Options::keep_results_ns

use super::coordination::Again;
use super::message::{Deadline, Dependency, Message, Share};
use super::options::Mutant;
use super::state::Perseus;
use super::work::Out;
use crate::graph::participants::Nodes;
use crate::graph::vertex::Ref;
use base::txn::ClientRequest;
use base::{NodeId, Rank, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// What this node remembers of named requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    claims: BTreeMap<ClientRequest, Claim>,
    /// Those that took effect, oldest first.
    ended: BTreeSet<(Rank, ClientRequest)>,
    /// Results up to this rank are forgotten.
    forgotten: Rank,
    /// First attempts of repeated requests whose ends this gateway waits for.
    attending: BTreeMap<TxnId, Attendance>,
}

#[derive(Clone, Debug)]
struct Claim {
    first: Dependency,
    end: Option<(Rank, Share)>,
}

/// A claim as a checkpoint has it.
pub(super) type ClaimImage = (ClientRequest, Dependency, Option<(Rank, Share)>);

impl Requests {
    /// Claims, and up to where results are forgotten.
    pub fn image(&self) -> (Vec<ClaimImage>, Rank) {
        let claims =
            self.claims.iter().map(|(request, Claim { first, end })| (*request, first.clone(), end.clone()));
        (claims.collect(), self.forgotten)
    }
    pub fn restore(&mut self, claims: Vec<ClaimImage>, forgotten: Rank) {
        let ended = |(request, _, end): &ClaimImage| end.as_ref().map(|(rank, _)| (*rank, *request));
        self.ended = claims.iter().filter_map(ended).collect();
        let claim = |(request, first, end)| (request, Claim { first, end });
        self.claims = claims.into_iter().map(claim).collect();
        self.forgotten = forgotten;
    }
    pub fn len(&self) -> usize {
        self.claims.len()
    }
    /// Whether this gateway waits for ends of others' attempts.
    pub fn attends(&self) -> bool {
        !self.attending.is_empty()
    }
    pub fn attended_count(&self) -> usize {
        self.attending.len()
    }
}

/// A gateway waits for the end of somebody else's attempt.
#[derive(Clone, Debug)]
struct Attendance {
    request: ClientRequest,
    nodes: Nodes,
    ends: BTreeMap<NodeId, (Rank, Share)>,
    /// Submissions here that it answers. Those that were not begun hold what it takes to begin.
    waiting: Vec<(TxnId, Option<Again>)>,
}

impl Perseus {
    /// Whether another attempt than `txn` stands here; the inner `None` if that may have been forgotten.
    pub(super) fn claimed(&self, request: ClientRequest, txn: TxnId) -> Option<Option<Dependency>> {
        if self.cluster.options.planted(Mutant::ForgetRequests) {
            return None;
        }
        match self.requests.claims.get(&request) {
            Some(claim) if claim.first.txn == txn => None,
            Some(claim) => Some(Some(claim.first.clone())),
            None if request.issued_at.rank() <= self.requests.forgotten + self.cluster.clock_bound_ns() => {
                Some(None)
            }
            None => None,
        }
    }

    pub(super) fn claim(&mut self, request: ClientRequest, at: Ref) {
        let vertex = self.graph.live(at);
        let first = Dependency { txn: vertex.id, participants: vertex.participants.clone() };
        self.requests.claims.insert(request, Claim { first, end: None });
    }

    /// An attempt ended here.
    pub(super) fn request_ended(&mut self, request: ClientRequest, txn: TxnId, rank: Rank, share: &Share) {
        let Some(claim) = self.requests.claims.get_mut(&request).filter(|claim| claim.first.txn == txn)
        else {
            return;
        };
        if *share == Share::Noop {
            self.requests.claims.remove(&request);
        } else {
            claim.end = Some((rank, share.clone()));
            self.requests.ended.insert((rank, request));
        }
    }

    /// Forgets results that are older than the watermark by the time they are kept.
    pub(super) fn forget_results(&mut self) {
        let limit = Rank(self.collection.watermark().0.saturating_sub(self.cluster.options.keep_results_ns));
        while let Some(&(rank, request)) = self.requests.ended.first()
            && rank <= limit
        {
            self.requests.ended.pop_first();
            self.requests.claims.remove(&request);
        }
        self.requests.forgotten = self.requests.forgotten.max(limit);
    }

    pub(super) fn on_duplicate(&mut self, now: Time, txn: TxnId, first: Option<Dependency>, out: &mut Out) {
        let Some(coordination) = self.gateway.coordination(txn) else { return };
        let Some(request) = coordination.payload.request.filter(|_| !coordination.is_told()) else { return };
        match first {
            Some(first) => {
                // Of two attempts that meet each other's claims, the smaller goes ahead.
                let yields = first.txn < txn && !coordination.is_withdrawn();
                self.attend(now, request, first, (txn, None), out);
                if yields {
                    self.withdraw(now, txn, out);
                }
            }
            None => {
                self.answer_unknown(now, txn);
                self.told(now, txn, out);
            }
        }
    }

    /// Waits for the end of `first`, to answer `waiting` with it.
    pub(super) fn attend(
        &mut self,
        now: Time,
        request: ClientRequest,
        first: Dependency,
        waiting: (TxnId, Option<Again>),
        out: &mut Out,
    ) {
        let Dependency { txn, participants } = first;
        if let Some(attendance) = self.requests.attending.get_mut(&txn) {
            if attendance.waiting.iter().all(|(other, _)| *other != waiting.0) {
                attendance.waiting.push(waiting);
            }
            return;
        }
        base::sometimes!("a repeated request waits for its first attempt");
        let nodes = participants.nodes(&self.cluster.topology);
        for &node in &nodes {
            self.send(node, Message::Attend { txn, request }, out);
        }
        let attendance = Attendance { request, nodes, ends: BTreeMap::new(), waiting: vec![waiting] };
        self.requests.attending.insert(txn, attendance);
        self.remember(
            now + self.cluster.options.retry_after_ns(&self.cluster.topology),
            Deadline::Attendance(txn),
            0,
        );
    }

    pub(super) fn retry_attendance(&mut self, txn: TxnId, out: &mut Out) -> bool {
        let Some(attendance) = self.requests.attending.get(&txn) else { return false };
        let request = attendance.request;
        let silent = attendance.nodes.iter().filter(|node| !attendance.ends.contains_key(node));
        for node in silent.copied().collect::<Nodes>() {
            self.send(node, Message::Attend { txn, request }, out);
        }
        true
    }

    pub(super) fn on_attend(&mut self, from: NodeId, txn: TxnId, request: ClientRequest, out: &mut Out) {
        let claim = self.requests.claims.get(&request).filter(|claim| claim.first.txn == txn);
        if let Some((rank, share)) = claim.and_then(|claim| claim.end.clone()) {
            self.send(from, Message::Executed { txn, rank, share }, out);
        } else if let Some(at) = self.graph.find(txn) {
            let vertex = self.graph.live(at);
            if let Some(share) = vertex.extra.remote.as_ref().and_then(|remote| remote.share.clone()) {
                let rank = vertex.rank.expect("what was executed has a rank");
                self.send(from, Message::Executed { txn, rank, share }, out);
            }
        } else if self.collection.has_collected(txn) {
            self.send(from, Message::Gone { txn }, out);
        }
    }

    /// A participant's share of an attempt's end, for the submissions that wait for it.
    pub(super) fn attended(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        rank: Rank,
        share: &Share,
        out: &mut Out,
    ) {
        let Some(attendance) = self.requests.attending.get_mut(&txn) else { return };
        attendance.ends.insert(from, (rank, share.clone()));
        if *share == Share::Noop {
            self.attend_no_more(now, txn);
            return;
        }
        if attendance.ends.len() < attendance.nodes.len() {
            return;
        }
        let attendance = self.requests.attending.remove(&txn).expect("just found");
        let regions: BTreeSet<_> =
            attendance.nodes.iter().map(|n| self.cluster.topology.region_of(*n)).collect();
        let outcome = crate::share::merge(attendance.ends.into_values().map(|(_, share)| share));
        for (waiting, again) in attendance.waiting {
            base::sometimes!("a repeated request gets the end of its first attempt");
            if again.is_some() {
                self.answer_for(now, waiting, txn, rank, outcome.clone(), regions.clone());
            } else if self.gateway.coordination(waiting).is_some_and(|coordination| !coordination.is_told()) {
                self.answer_for(now, waiting, txn, rank, outcome.clone(), regions.clone());
                self.told(now, waiting, out);
            }
        }
    }

    /// An own attempt ended without effect while another one is waited for: goes on waiting. Hands the
    /// attempt back if nobody is.
    pub(super) fn wait_on(&mut self, txn: TxnId, again: Again) -> Option<Again> {
        let mut waiting = self.requests.attending.values_mut().flat_map(|attendance| &mut attendance.waiting);
        match waiting.find(|(waiting, _)| *waiting == txn) {
            Some((_, spare)) => {
                let origin = again.origin;
                *spare = Some(again);
                self.attempt(txn, origin);
                None
            }
            None => Some(again),
        }
    }

    /// The attempt ended without effect: whoever waited for it goes on by itself.
    fn attend_no_more(&mut self, now: Time, txn: TxnId) {
        let Some(attendance) = self.requests.attending.remove(&txn) else { return };
        for (_, again) in attendance.waiting {
            if let Some(again) = again {
                self.submit_again(now, again);
            }
        }
    }

    /// A participant has collected the transaction, and this gateway did not hear of its end.
    pub(super) fn on_gone(&mut self, now: Time, txn: TxnId) {
        self.recover_no_more(txn);
        self.attend_no_more(now, txn);
        self.end_unheard(now, txn);
    }
}
