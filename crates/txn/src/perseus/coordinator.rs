//! The gateway's half: hand out ids, collect dependencies, decide, collect ends, answer.
//!
//! KEEPS: an answer follows every participant's execution, and its rank lies in the past for every
//! clock: `rank ≤ now − ε`. A transaction submitted strictly later, in true time, gets a larger rank,
//! because no pts is below `now + ε`; one submitted here in the same nanosecond does too, because ranks
//! answered here are remembered. All this holds for a transaction that somebody recovered, too: its end comes
//! from its participants. If it ended without effect, it is submitted once more, under another id; the client
//! sees one answer.

use super::message::{Ballot, Deadline, Decision, Dependency, Fragment, Message, Payload, Share};
use super::options::{FutureRanks, Mutant, Timestamps};
use super::state::{Out, Perseus};
use crate::graph::participants::{Nodes, Participants};
use crate::share::merge;
use base::hash::digest;
use base::txn::{Outcome, Submission, Transaction};
use base::{NodeId, Rank, RegionId, SqlError, SqlState, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction that takes part at another node, at its gateway.
#[derive(Clone, Debug)]
pub(super) struct Coordination {
    pub payload: Payload,
    pub nodes: Nodes,
    expected: Rank,
    replies: BTreeMap<NodeId, Reply>,
    /// Whose answer came first.
    first: Option<NodeId>,
    decided: Option<(Decision, Time)>,
    ends: BTreeMap<NodeId, (Rank, Share)>,
    /// Nothing below can be its rank.
    pub bound: Rank,
    /// The client has its answer already: an earlier attempt's end (or by a planted fault).
    pub told: bool,
    /// It is to end without effect, because another attempt of its request goes ahead.
    pub withdrawn: bool,
}

/// A submission as it first came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub id: TxnId,
    pub submitted_at: Time,
    /// Attempts that ended without effect.
    pub attempts: u32,
}

/// What it takes to submit once more.
#[derive(Clone, Debug)]
pub(super) struct Again {
    payload: Payload,
    pub origin: Origin,
}

/// Attempts without effect after which a client is told to try again itself.
const ATTEMPTS_MAX: u32 = 16;

#[derive(Clone, Debug)]
struct Reply {
    dependencies: Vec<Dependency>,
    pts: Rank,
    fragments: Vec<Fragment>,
}

/// When a transaction passed its stations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stations {
    pub submitted_at: Time,
    pub ordered_at: Time,
}

impl Perseus {
    pub(super) fn submitted(&mut self, now: Time, submission: Submission, out: &mut Out) -> TxnId {
        let id = self.gateway.name(self.cluster.me);
        self.collection.begun(id);
        let Submission { program, access, token, request } = submission;
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
            self.collection.finished(id, rank);
            self.gateway.answer(now, (id, id), rank, outcome, BTreeSet::new(), stations);
            return id;
        }
        let transaction = Transaction { id, program, access, min_rank, after: token.rank, homes: None };
        self.begin(now, Payload { transaction, request }, out);
        id
    }

    fn begin(&mut self, now: Time, payload: Payload, out: &mut Out) {
        let id = payload.transaction.id;
        if let Some(request) = payload.request
            && let Some(first) = self.claimed(request, id)
        {
            match first {
                Some(first) => {
                    let origin = self.gateway.origin(now, id);
                    self.gateway.begun(id, origin);
                    self.collection.finished(id, Rank::ZERO);
                    self.attend(now, request, first, (id, Some(Again { payload, origin })), out);
                }
                None => {
                    self.collection.finished(id, Rank::ZERO);
                    self.answer_unknown(now, id);
                }
            }
            return;
        }
        let alone = payload.transaction.participants().all(|p| self.local_index(p).is_some());
        if alone && self.cluster.options.timestamps == Timestamps::Clocks {
            self.pre_accept_alone(now, payload);
        } else {
            self.coordinate(now, payload, out);
        }
    }

    /// Once more, after an attempt that ended without effect.
    pub(super) fn submit_again(&mut self, now: Time, again: Again, out: &mut Out) {
        let Again { mut payload, mut origin } = again;
        let last = payload.transaction.id;
        self.gateway.take_origin(last);
        origin.attempts += 1;
        if origin.attempts > ATTEMPTS_MAX {
            let error = SqlError::new(
                SqlState::SERIALIZATION_FAILURE,
                "the transaction could not be brought to all its participants",
            );
            let error = error
                .detail(format!(
                    "{ATTEMPTS_MAX} attempts were taken over by others and ended without effect."
                ))
                .hint("Try again; nothing was changed.");
            self.gateway.begun(last, origin);
            let regions = BTreeSet::new();
            self.answer_for(now, last, last, now.rank(), Outcome::Aborted(error), regions);
            return;
        }
        base::sometimes!("a transaction that ended without effect is submitted again");
        let id = self.gateway.name(self.cluster.me);
        self.collection.begun(id);
        self.gateway.begun(id, origin);
        payload.transaction.id = id;
        payload.transaction.min_rank = payload.transaction.min_rank.max(self.gateway.answered());
        self.begin(now, payload, out);
    }

    fn coordinate(&mut self, now: Time, payload: Payload, out: &mut Out) {
        let transaction = &payload.transaction;
        let id = transaction.id;
        let nodes = Participants::of(transaction.participants()).nodes(&self.cluster.topology);
        let expected = self.expected_completion(now, id, &nodes);
        let earliest = (now - self.cluster.clock_bound_ns()).rank();
        for &node in &nodes {
            let (payload, ballot) = (payload.clone(), Ballot::FIRST);
            self.send(node, Message::PreAccept { payload, ballot, expected, sent_at: now }, out);
        }
        let coordination = Coordination {
            bound: earliest.max(payload.transaction.min_rank).max(expected),
            payload,
            nodes,
            expected,
            replies: BTreeMap::new(),
            first: None,
            decided: None,
            ends: BTreeMap::new(),
            told: false,
            withdrawn: false,
        };
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
        let one_way = |a, b| self.delays.one_way_ns(a, b);
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
        if coordination.decided.is_some() || coordination.replies.contains_key(&from) {
            return;
        }
        coordination.first.get_or_insert(from);
        coordination.replies.insert(from, Reply { dependencies, pts, fragments });
        let all = coordination.replies.len() == coordination.nodes.len();
        if !all {
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
        if coordination.decided.is_some() {
            return;
        }
        let first = coordination.first.expect("everybody has answered");
        let mut union: BTreeMap<TxnId, Participants> = BTreeMap::new();
        let mut cts = timestamp;
        for (node, reply) in &coordination.replies {
            cts = cts.max(reply.pts);
            if *node != first && self.cluster.options.planted(Mutant::FirstAnswerOnly) {
                continue;
            }
            for dependency in &reply.dependencies {
                if dependency.txn > txn && self.cluster.options.planted(Mutant::CutCycles) {
                    continue;
                }
                union.entry(dependency.txn).or_insert_with(|| dependency.participants.clone());
            }
        }
        assert!(!union.contains_key(&txn), "{txn} depends on itself");
        let dependencies =
            union.into_iter().map(|(txn, participants)| Dependency { txn, participants }).collect();
        coordination.decided = Some((Decision { dependencies, cts, noop: false }, now));
        coordination.bound = cts;
        for node in coordination.nodes.clone() {
            self.send_commit(node, txn, out);
        }
        if self.cluster.options.planted(Mutant::ReplyAtCommit) {
            self.gateway.coordination_mut(txn).expect("it is being coordinated").told = true;
            let results = Outcome::Committed { results: Vec::new() };
            self.answer_for(now, txn, txn, cts, results, BTreeSet::new());
        }
    }

    fn send_commit(&mut self, node: NodeId, txn: TxnId, out: &mut Out) {
        let coordination = self.gateway.coordination(txn).expect("it is being coordinated");
        let (decision, _) = coordination.decided.as_ref().expect("it is decided");
        let mut fragments = BTreeMap::new();
        for (from, reply) in &coordination.replies {
            if *from != node {
                for fragment in &reply.fragments {
                    fragments.entry(fragment.txn).or_insert(fragment);
                }
            }
        }
        let message = Message::Commit {
            txn,
            decision: decision.clone(),
            fragments: fragments.into_values().cloned().collect(),
        };
        self.send(node, message, out);
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
        coordination.ends.insert(from, (rank, share));
        if coordination.ends.len() < coordination.nodes.len() {
            return;
        }
        let coordination = self.gateway.end(txn).expect("just found");
        for (node, (other, _)) in &coordination.ends {
            assert_eq!(*other, rank, "{txn} has one rank, also at {node}");
        }
        self.recoveries.remove(txn);
        self.collection.finished(txn, rank);
        let origin = self.gateway.take_origin(txn).expect("it was begun here");
        let noops = coordination.ends.values().filter(|(_, share)| *share == Share::Noop).count();
        assert!(noops == 0 || noops == coordination.ends.len(), "{txn} has one end");
        if coordination.told {
            return;
        }
        if noops > 0 {
            let again = Again { payload: coordination.payload, origin };
            if let Some(again) = self.wait_on(txn, again) {
                self.submit_again(now, again, out);
            }
            return;
        }
        let ordered_at = coordination.decided.as_ref().map_or(now, |(_, at)| *at);
        let stations = Stations { submitted_at: origin.submitted_at, ordered_at };
        let regions = coordination.nodes.iter().map(|n| self.cluster.topology.region_of(*n)).collect();
        let outcome = merge(coordination.ends.into_values().map(|(_, share)| share));
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
        self.collection.finished(txn, rank);
        let id = match self.gateway.take_origin(txn) {
            Some(origin) => origin.id,
            None => txn,
        };
        let stations = Stations { submitted_at, ordered_at: submitted_at };
        self.gateway.answer(now, (id, txn), rank, merge(std::iter::once(share)), regions, stations);
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
        // Somebody else decided if there is an end before there is a decision.
        let missing: Nodes = if coordination.decided.is_some() || !coordination.ends.is_empty() {
            coordination.nodes.iter().filter(|n| !coordination.ends.contains_key(n)).copied().collect()
        } else {
            coordination.nodes.iter().filter(|n| !coordination.replies.contains_key(n)).copied().collect()
        };
        if coordination.decided.is_none() && missing.is_empty() {
            base::sometimes!("a timestamp is asked for again");
            self.want_timestamp(txn, out);
        }
        for node in missing {
            let coordination = self.gateway.coordination(txn).expect("it is being coordinated");
            if coordination.decided.is_some() {
                base::sometimes!("a commit is sent again");
                self.send_commit(node, txn, out);
            } else {
                base::sometimes!("a pre-accept is sent again");
                let (payload, ballot) = (coordination.payload.clone(), Ballot::FIRST);
                let expected = coordination.expected;
                self.send(node, Message::PreAccept { payload, ballot, expected, sent_at: now }, out);
            }
        }
        true
    }
}

impl Coordination {
    /// The largest lower bound that a participant reported.
    pub fn pts(&self) -> Rank {
        self.replies.values().map(|reply| reply.pts).max().unwrap_or_default()
    }
}
