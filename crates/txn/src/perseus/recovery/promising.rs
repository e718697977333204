//! The participant's half of a recovery: it promises a ballot, tells what it knows, accepts a proposal.
//!
//! KEEPS: whoever has promised a ballot does nothing that a lower one asks for; a transaction that is promised and not known
//! has its place kept, above everything that was closed here.

use super::super::message::{Ballot, Decision, Message, Report};
use super::super::options::Mutant;
use super::super::state::Perseus;
use super::super::work::Out;
use crate::graph::participants::Participants;
use crate::graph::vertex::{Ref, State};
use base::{NodeId, Rank, Time, TxnId};

impl Perseus {
    #[allow(clippy::too_many_arguments)]
    pub(in crate::perseus) fn on_recover(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        participants: Participants,
        ballot: Ballot,
        payload_wanted: bool,
        out: &mut Out,
    ) {
        let Some(at) = self.promise(now, from, txn, participants, ballot, out) else { return };
        if self.cluster.options.planted(Mutant::BallotNotPromised) {
            self.remote(at).promised = None;
        }
        let payload = if payload_wanted { self.payload(txn) } else { None };
        let vertex = self.graph.live(at);
        let pts = vertex.bound;
        let remote = vertex.extra.remote.as_ref().expect("it has promised");
        let report = match (&remote.accepted, &remote.answer) {
            (Some((ballot, decision)), _) if !self.cluster.options.planted(Mutant::IgnoreAccepted) => {
                Report::Accepted { ballot: *ballot, decision: decision.clone() }
            }
            (_, Some(Message::PreAcceptOk { dependencies, pts, .. })) => {
                Report::PreAccepted { dependencies: dependencies.clone(), pts: *pts, payload }
            }
            _ => Report::Unknown { pts, claimed: false },
        };
        self.send(from, Message::RecoverOk { txn, ballot, report }, out);
    }

    /// Promises the ballot, keeping a place for a transaction that is not known here. If it is final, or a
    /// higher ballot is promised, says so instead.
    fn promise(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        participants: Participants,
        ballot: Ballot,
        out: &mut Out,
    ) -> Option<Ref> {
        if self.collection.has_collected(txn) {
            self.send(from, Message::Gone { txn }, out);
            return None;
        }
        let at = match self.graph.find(txn) {
            Some(at) => at,
            None if participants.iter().all(|p| self.local_index(p).is_none()) => return None,
            None => self.named(txn, || participants),
        };
        let vertex = self.graph.live(at);
        if vertex.state >= State::Final {
            let report = Report::Final(self.decision(at));
            self.send(from, Message::RecoverOk { txn, ballot, report }, out);
            return None;
        }
        let is_new = vertex.state == State::Named;
        let patience_ns = self.cluster.options.recover_after_ns(&self.cluster.topology);
        let me = self.cluster.me;
        let remote = self.remote(at);
        if ballot < remote.ballot() {
            let ballot = remote.ballot();
            self.send(from, Message::Refused { txn, ballot }, out);
            return None;
        }
        let is_higher = remote.promised.is_none_or(|promised| promised < ballot);
        remote.barred &= ballot == remote.ballot();
        remote.promised = Some(ballot);
        if from != me {
            remote.patient_until = now + patience_ns;
            // Its own attempt, if any, has the lower ballot.
            self.recover_no_more(txn);
        }
        if is_new {
            self.keep_place(now, at);
        }
        if is_new || is_higher {
            self.record_promise(at, out);
        }
        Some(at)
    }

    /// A lower bound of the rank, and no access to anything.
    fn keep_place(&mut self, now: Time, at: Ref) {
        base::sometimes!("a place is kept for a transaction that is not known");
        let mut pts = now.rank() + self.cluster.clock_bound_ns();
        let participants = self.graph.live(at).participants.clone();
        let local = participants.iter().filter_map(|p| self.local_index(p));
        pts = local.map(|local| self.closes.closed(local).next()).fold(pts, Rank::max);
        self.keep_place_at(now, at, pts);
    }

    /// What was decided of a final transaction.
    fn decision(&self, at: Ref) -> Decision {
        let vertex = self.graph.live(at);
        Decision { dependencies: self.names(&vertex.deps), cts: vertex.bound, noop: vertex.extra.noop }
    }

    #[allow(clippy::too_many_arguments)]
    pub(in crate::perseus) fn on_accept(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        participants: Participants,
        ballot: Ballot,
        decision: Decision,
        out: &mut Out,
    ) {
        let Some(at) = self.promise(now, from, txn, participants, ballot, out) else { return };
        let remote = self.remote(at);
        let is_new = remote.accepted.as_ref().is_none_or(|(accepted, _)| *accepted < ballot);
        remote.accepted = Some((ballot, decision));
        remote.barred = true;
        if is_new {
            self.record_accepted(at, out);
        }
        self.send(from, Message::AcceptOk { txn, ballot }, out);
    }
}
