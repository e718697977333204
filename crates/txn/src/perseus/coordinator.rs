//! The gateway's half: hand out ids, collect dependencies, decide, collect ends, answer.
//!
//! KEEPS: an answer follows every participant's execution, and its rank lies in the past for every
//! clock: `rank ≤ now − ε`. A transaction submitted strictly later, in true time, gets a larger rank,
//! because no pts is below `now + ε`; one submitted here in the same nanosecond does too, because ranks
//! answered here are remembered. All this holds for a transaction that somebody recovered, too: its end comes
//! from its participants. If it ended without effect, it is submitted once more, under another id; the client
//! sees one answer.

use super::coordination::{Again, Coordination, Origin, Reply, Stations};
use super::message::{Ballot, Deadline, Dependency, Floor, Fragment, Payload, Share};
use super::options::{FutureRanks, Mutant, Timestamps};
use super::state::Perseus;
use super::work::Out;
use crate::graph::participants::Participants;
use crate::share::merge;
use base::hash::digest;
use base::txn::{Outcome, Submission, Transaction};
use base::{NodeId, Rank, RegionId, SqlError, SqlState, Time, TxnId};
use std::collections::BTreeSet;

impl Perseus {
    pub(super) fn submitted(&mut self, now: Time, submission: Submission, out: &mut Out) -> TxnId {
        let id = self.gateway.name(self.cluster.me);
        let Submission { program, access, token, request, isolation: _ } = submission;
        let stations = Stations { submitted_at: now, ordered_at: now };
        let limit = self.cluster.latest_cut(now);
        let refused = if token.rank > limit {
            let error = SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "the session's token lies too far in the future",
            );
            Some(Outcome::Aborted(
                error
                    .detail(format!("Its rank is {}, the largest acceptable one {limit}.", token.rank))
                    .hint("A token is valid only in the cluster that gave it; reset it with SET meridian.token."),
            ))
        } else if access.by_partition.is_empty() {
            Some(Outcome::Committed { results: Vec::new() })
        } else {
            None
        };
        let min_rank = token.rank.max(self.gateway.answered());
        if let Some(outcome) = refused {
            let rank = now.rank().max(if outcome.is_committed() { min_rank.next() } else { Rank::ZERO });
            self.gateway.finished(id, rank);
            self.gateway.answer(now, (id, id), rank, outcome, BTreeSet::new(), stations);
            return id;
        }
        let transaction = Transaction { id, program, access, min_rank, after: token.rank, homes: None };
        self.begin(now, Payload { transaction, request }, out);
        id
    }

    pub(super) fn begin(&mut self, now: Time, payload: Payload, out: &mut Out) {
        let id = payload.transaction.id;
        if let Some(request) = payload.request
            && let Some(first) = self.claimed(request, id)
        {
            match first {
                Some(first) => {
                    let origin = self.gateway.origin(now, id);
                    self.gateway.begun(id, origin);
                    self.gateway.finished(id, Rank::ZERO);
                    self.attend(now, request, first, (id, Some(Again { payload, origin })), out);
                }
                None => {
                    self.gateway.finished(id, Rank::ZERO);
                    self.answer_unknown(now, id);
                }
            }
            return;
        }
        let alone = payload.transaction.participants().all(|p| self.local_index(p).is_some());
        if alone && self.cluster.options.timestamps == Timestamps::Clocks {
            self.pre_accept_alone(now, payload, out);
        } else {
            self.coordinate(now, payload, out);
        }
    }

    fn coordinate(&mut self, now: Time, payload: Payload, out: &mut Out) {
        let transaction = &payload.transaction;
        let id = transaction.id;
        let nodes = Participants::of(transaction.participants()).nodes(&self.cluster.topology);
        let expected = self.expected_completion(now, id, &nodes);
        let earliest = (now - self.cluster.clock_bound_ns()).rank();
        let coordination = Coordination::new(payload, nodes, expected, earliest);
        for &node in &coordination.nodes {
            self.send(node, coordination.pre_accept(now), out);
        }
        let origin = self.gateway.origin(now, id);
        self.gateway.begun(id, origin);
        self.gateway.coordinate(id, coordination);
        let at = now + self.cluster.options.retry_after_ns(&self.cluster.topology);
        self.remember(at, Deadline::Coordination(id), 0);
    }

    /// When the last participant should have completed a transaction that spans regions: PreAccept there
    /// and back, Commit one way, the exchange of reads one way. Rank 0 inside one region.
    pub(super) fn expected_completion(&self, now: Time, id: TxnId, nodes: &[NodeId]) -> Rank {
        let topology = &self.cluster.topology;
        let spans = nodes.iter().any(|n| topology.region_of(*n) != topology.region_of(nodes[0]));
        if !spans || self.cluster.options.future_ranks == FutureRanks::Off {
            return Rank::ZERO;
        }
        let one_way = |a, b| self.measured.delays.one_way_ns(a, b);
        let longest = |values: &mut dyn Iterator<Item = u64>| values.max().unwrap_or(0);
        let order_ns =
            longest(&mut nodes.iter().map(|n| one_way(self.cluster.me, *n) + one_way(*n, self.cluster.me)));
        let exchange_ns = longest(&mut nodes.iter().flat_map(|from| {
            nodes.iter().map(move |to| one_way(self.cluster.me, *from) + one_way(*from, *to))
        }));
        let total_ns = order_ns + exchange_ns + self.cluster.options.margin_ns;
        let future_ns = match self.cluster.options.future_ranks {
            FutureRanks::Off => 0,
            FutureRanks::Measured => total_ns,
            FutureRanks::Scaled { percent } => total_ns * percent / 100,
            FutureRanks::Random { seed } => digest(&(seed, id)) % (2 * total_ns + 1),
        };
        let future_max_ns = self.cluster.options.future_max_ns(&self.cluster.topology);
        now.rank() + self.cluster.clock_bound_ns() + future_ns.min(future_max_ns)
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_pre_accept_ok(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        dependencies: Vec<Dependency>,
        pts: Rank,
        fragments: Vec<Fragment>,
        out: &mut Out,
    ) {
        let Some(coordination) = self.gateway.coordination_mut(txn) else { return };
        if !coordination.pre_accepted(from, Reply { dependencies, pts, fragments }) {
            return;
        }
        match self.cluster.options.timestamps {
            Timestamps::Clocks => self.decide(now, txn, Rank::ZERO, out),
            Timestamps::Central => self.want_timestamp(txn, out),
        }
    }

    /// Everybody has answered: the order is known. `timestamp` is the oracle's, if there is one.
    pub(super) fn decide(&mut self, now: Time, txn: TxnId, timestamp: Rank, out: &mut Out) {
        let Some(coordination) = self.gateway.coordination_mut(txn) else { return };
        let Some(cts) = coordination.decide(now, timestamp, &self.cluster.options) else { return };
        for node in coordination.nodes.clone() {
            self.send_commit(node, txn, out);
        }
        if self.cluster.options.planted(Mutant::ReplyAtCommit) {
            self.gateway.coordination_mut(txn).expect("it is being coordinated").tell();
            let results = Outcome::Committed { results: Vec::new() };
            self.answer_for(now, txn, txn, cts, results, BTreeSet::new());
        }
    }

    fn send_commit(&mut self, node: NodeId, txn: TxnId, out: &mut Out) {
        let coordination = self.gateway.coordination(txn).expect("it is being coordinated");
        let commit = coordination.commit(node);
        self.send(node, commit, out);
    }

    pub(super) fn on_executed(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        rank: Rank,
        share: Share,
        out: &mut Out,
    ) {
        if self.requests.attends() {
            self.attended(now, from, txn, rank, &share, out);
        }
        let Some(coordination) = self.gateway.coordination_mut(txn) else { return };
        if !coordination.executed(from, rank, share) {
            return;
        }
        let coordination = self.gateway.end(txn).expect("just found");
        for (node, other) in coordination.ranks() {
            assert_eq!(other, rank, "{txn} has one rank, also at {node}");
        }
        self.recover_no_more(txn);
        self.gateway.finished(txn, rank);
        let origin = self.gateway.take_origin(txn).expect("it was begun here");
        let (noops, ends) = coordination.noop_count();
        assert!(noops == 0 || noops == ends, "{txn} has one end");
        if coordination.is_told() {
            return;
        }
        if noops > 0 {
            let again = Again { payload: coordination.payload, origin };
            if let Some(again) = self.wait_on(txn, again) {
                self.submit_again(now, again);
            }
            return;
        }
        let ordered_at = coordination.decided_at().unwrap_or(now);
        let stations = Stations { submitted_at: origin.submitted_at, ordered_at };
        let regions = coordination.nodes.iter().map(|n| self.cluster.topology.region_of(*n)).collect();
        let outcome = merge(coordination.into_shares());
        self.gateway.answer(now, (origin.id, txn), rank, outcome, regions, stations);
    }

    /// Answers the submission that `attempt` belongs to with the end of `txn`.
    pub(super) fn answer_for(
        &mut self,
        now: Time,
        attempt: TxnId,
        txn: TxnId,
        rank: Rank,
        outcome: Outcome,
        regions: BTreeSet<RegionId>,
    ) {
        let origin = self.gateway.origin(now, attempt);
        if !self.gateway.coordination(attempt).is_some() {
            self.gateway.take_origin(attempt);
        }
        let stations = Stations { submitted_at: origin.submitted_at, ordered_at: now };
        self.gateway.answer(now, (origin.id, txn), rank, outcome, regions, stations);
    }

    /// Nobody can tell any more whether the request took effect.
    pub(super) fn answer_unknown(&mut self, now: Time, attempt: TxnId) {
        let error = SqlError::new(
            SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
            "the outcome of the transaction is not known any more",
        );
        let error = error
            .detail("It took effect completely or not at all, so long ago that its result was forgotten.")
            .hint("Look at the data before you repeat the request under a new name.");
        self.answer_for(now, attempt, attempt, now.rank(), Outcome::Aborted(error), BTreeSet::new());
    }

    /// A transaction of this gateway that took part nowhere else.
    pub(super) fn finish_alone(
        &mut self,
        now: Time,
        txn: TxnId,
        rank: Rank,
        share: Share,
        submitted_at: Time,
    ) {
        let regions = BTreeSet::from([self.cluster.topology.region_of(self.cluster.me)]);
        self.gateway.finished(txn, rank);
        let id = match self.gateway.take_origin(txn) {
            Some(origin) => origin.id,
            None => txn,
        };
        let stations = Stations { submitted_at, ordered_at: submitted_at };
        self.gateway.answer(now, (id, txn), rank, merge(std::iter::once(share)), regions, stations);
    }

    /// `txn` is an attempt of this submission.
    pub(super) fn attempt(&mut self, txn: TxnId, origin: Origin) {
        self.gateway.begun(txn, origin);
    }

    /// The client has its answer: the own attempt is not wanted any more.
    pub(super) fn told(&mut self, now: Time, txn: TxnId, out: &mut Out) {
        let coordination = self.gateway.coordination_mut(txn).expect("it is being coordinated");
        coordination.tell();
        if !coordination.is_withdrawn() {
            self.withdraw(now, txn, out);
        }
    }

    /// Sees to it that an own attempt, which some participant refuses, ends without effect.
    pub(super) fn withdraw(&mut self, now: Time, txn: TxnId, out: &mut Out) {
        let earliest = (now - self.cluster.clock_bound_ns()).rank();
        let coordination = self.gateway.coordination_mut(txn).expect("it is being coordinated");
        coordination.withdraw(earliest);
        let participants = Participants::of(coordination.payload.transaction.participants());
        self.recover(txn, participants, Ballot::FIRST, out);
        self.remember(
            now + self.cluster.options.retry_after_ns(&self.cluster.topology),
            Deadline::Recovery(txn),
            0,
        );
    }

    /// A transaction of this gateway was collected elsewhere before its end was heard of here.
    pub(super) fn end_unheard(&mut self, now: Time, txn: TxnId) {
        let Some(coordination) = self.gateway.coordination(txn) else { return };
        base::sometimes!("a coordinator was given up before it knew the end");
        if !coordination.is_told() {
            self.answer_unknown(now, txn);
        }
        self.gateway.end(txn);
        self.gateway.take_origin(txn);
        self.gateway.finished(txn, self.collection.watermark());
    }

    /// Up to where transactions that this node has named are collected.
    pub(super) fn collected_floors(&mut self) -> Vec<Floor> {
        self.gateway.floors(self.cluster.me, self.collection.watermark())
    }

    /// Lets out the answers whose rank has passed into the past for every clock, and sees to it that the next one will.
    pub(super) fn open_gate(&mut self, now: Time, out: &mut Out) {
        let is_gated = !self.cluster.options.planted(Mutant::NoReplyGate);
        let clock_bound_ns = is_gated.then(|| self.cluster.clock_bound_ns());
        if let Some(at) = self.gateway.open_gate(now, clock_bound_ns, out) {
            self.gate_at(at);
        }
    }

    /// A new life begins, with what the former one had under way.
    pub(super) fn begin_life(&mut self, incarnation: u32) {
        self.gateway.resume(incarnation);
    }

    pub(super) fn retry_coordination(&mut self, now: Time, txn: TxnId, out: &mut Out) -> bool {
        let Some(coordination) = self.gateway.coordination(txn) else { return false };
        let missing = coordination.missing();
        if !coordination.is_decided() && missing.is_empty() {
            base::sometimes!("a timestamp is asked for again");
            self.want_timestamp(txn, out);
        }
        for node in missing {
            let coordination = self.gateway.coordination(txn).expect("it is being coordinated");
            if coordination.is_decided() {
                base::sometimes!("a commit is sent again");
                self.send_commit(node, txn, out);
            } else {
                base::sometimes!("a pre-accept is sent again");
                let pre_accept = coordination.pre_accept(now);
                self.send(node, pre_accept, out);
            }
        }
        true
    }
}
