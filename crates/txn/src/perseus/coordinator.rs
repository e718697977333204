//! The gateway's half: hand out ids, collect dependencies, decide, collect ends, answer.
//!
//! KEEPS: an answer follows every participant's execution, and its rank lies in the past for every
//! clock: `rank ≤ now − ε`. A transaction submitted strictly later, in true time, gets a larger rank,
//! because no pts is below `now + ε`; one submitted here in the same nanosecond does too, because ranks
//! answered here are remembered.

use super::message::{Deadline, Dependency, Fragment, Message, Share};
use super::options::{FutureRanks, Mutant, Timestamps};
use super::state::{Out, Perseus};
use crate::engine::{Answer, EngineEffect};
use crate::graph::participants::{Nodes, Participants};
use crate::share::merge;
use base::hash::digest;
use base::txn::{Outcome, Submission, Transaction};
use base::{NodeId, Rank, RegionId, SqlError, SqlState, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction that takes part at another node, at its gateway.
#[derive(Clone, Debug)]
pub(super) struct Coordination {
    pub transaction: Transaction,
    pub nodes: Nodes,
    expected: Rank,
    replies: BTreeMap<NodeId, Reply>,
    /// Whose answer came first.
    first: Option<NodeId>,
    decided: Option<Decided>,
    ends: BTreeMap<NodeId, (Rank, Share)>,
    submitted_at: Time,
    /// Nothing below can be its rank.
    pub bound: Rank,
    /// Planted fault: the client knows already.
    told: bool,
}

#[derive(Clone, Debug)]
struct Reply {
    dependencies: Vec<Dependency>,
    pts: Rank,
    fragments: Vec<Fragment>,
}

#[derive(Clone, Debug)]
struct Decided {
    dependencies: Vec<Dependency>,
    cts: Rank,
    at: Time,
}

/// When a transaction passed its stations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stations {
    pub submitted_at: Time,
    pub ordered_at: Time,
}

impl Perseus {
    pub(super) fn submitted(&mut self, now: Time, submission: Submission, out: &mut Out) -> TxnId {
        self.sequence += 1;
        let id = TxnId { coordinator: self.me, incarnation: self.incarnation, sequence: self.sequence };
        self.collection.begun(id);
        let Submission { program, access, token, request: _ } = submission;
        let stations = Stations { submitted_at: now, ordered_at: now };
        let limit = now.rank() + 3 * self.clock_bound_ns() + self.options.future_max_ns(&self.topology);
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
        let min_rank = token.rank.max(self.answered);
        if let Some(outcome) = refused {
            let rank = now.rank().max(if outcome.is_committed() { min_rank.next() } else { Rank::ZERO });
            self.answer(now, id, rank, outcome, BTreeSet::new(), stations);
            return id;
        }
        let transaction = Transaction { id, program, access, min_rank, after: token.rank };
        let alone = transaction.participants().all(|p| self.local_index(p).is_some());
        if alone && self.options.timestamps == Timestamps::Clocks {
            self.pre_accept_alone(now, transaction);
        } else {
            self.coordinate(now, transaction, out);
        }
        id
    }

    fn coordinate(&mut self, now: Time, transaction: Transaction, out: &mut Out) {
        let id = transaction.id;
        let nodes = Participants::of(transaction.participants()).nodes(&self.topology);
        let expected = self.expected_completion(now, id, &nodes);
        let earliest = (now - self.clock_bound_ns()).rank();
        for &node in &nodes {
            let message = Message::PreAccept { transaction: transaction.clone(), expected, sent_at: now };
            self.send(node, message, out);
        }
        let coordination = Coordination {
            bound: earliest.max(transaction.min_rank).max(expected),
            transaction,
            nodes,
            expected,
            replies: BTreeMap::new(),
            first: None,
            decided: None,
            ends: BTreeMap::new(),
            submitted_at: now,
            told: false,
        };
        self.coordinating.insert(id, coordination);
        let at = now + self.options.retry_after_ns(&self.topology);
        self.remember(at, Deadline::Coordination(id), 0);
    }

    /// When the last participant should have completed a transaction that spans regions: PreAccept there
    /// and back, Commit one way, the exchange of reads one way. Rank 0 inside one region.
    fn expected_completion(&self, now: Time, id: TxnId, nodes: &[NodeId]) -> Rank {
        let topology = &self.topology;
        let spans = nodes.iter().any(|n| topology.region_of(*n) != topology.region_of(nodes[0]));
        if !spans || self.options.future_ranks == FutureRanks::Off {
            return Rank::ZERO;
        }
        let one_way = |a, b| self.delays.one_way_ns(a, b);
        let longest = |values: &mut dyn Iterator<Item = u64>| values.max().unwrap_or(0);
        let order_ns = longest(&mut nodes.iter().map(|n| one_way(self.me, *n) + one_way(*n, self.me)));
        let exchange_ns = longest(
            &mut nodes
                .iter()
                .flat_map(|from| nodes.iter().map(move |to| one_way(self.me, *from) + one_way(*from, *to))),
        );
        let total_ns = order_ns + exchange_ns + self.options.margin_ns;
        let future_ns = match self.options.future_ranks {
            FutureRanks::Off => 0,
            FutureRanks::Measured => total_ns,
            FutureRanks::Scaled { percent } => total_ns * percent / 100,
            FutureRanks::Random { seed } => digest(&(seed, id)) % (2 * total_ns + 1),
        };
        let future_max_ns = self.options.future_max_ns(&self.topology);
        now.rank() + self.clock_bound_ns() + future_ns.min(future_max_ns)
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
        let Some(coordination) = self.coordinating.get_mut(&txn) else { return };
        if coordination.decided.is_some() || coordination.replies.contains_key(&from) {
            return;
        }
        coordination.first.get_or_insert(from);
        coordination.replies.insert(from, Reply { dependencies, pts, fragments });
        let all = coordination.replies.len() == coordination.nodes.len();
        if !all {
            return;
        }
        match self.options.timestamps {
            Timestamps::Clocks => self.decide(now, txn, Rank::ZERO, out),
            Timestamps::Central => self.want_timestamp(txn, out),
        }
    }

    /// Everybody has answered: the order is known. `timestamp` is the oracle's, if there is one.
    pub(super) fn decide(&mut self, now: Time, txn: TxnId, timestamp: Rank, out: &mut Out) {
        let Some(coordination) = self.coordinating.get_mut(&txn) else { return };
        if coordination.decided.is_some() {
            return;
        }
        let first = coordination.first.expect("everybody has answered");
        let mut union: BTreeMap<TxnId, Participants> = BTreeMap::new();
        let mut cts = timestamp;
        for (node, reply) in &coordination.replies {
            cts = cts.max(reply.pts);
            if *node != first && self.options.planted(Mutant::FirstAnswerOnly) {
                continue;
            }
            for dependency in &reply.dependencies {
                if dependency.txn > txn && self.options.planted(Mutant::CutCycles) {
                    continue;
                }
                union.entry(dependency.txn).or_insert_with(|| dependency.participants.clone());
            }
        }
        assert!(!union.contains_key(&txn), "{txn} depends on itself");
        let dependencies =
            union.into_iter().map(|(txn, participants)| Dependency { txn, participants }).collect();
        coordination.decided = Some(Decided { dependencies, cts, at: now });
        coordination.bound = cts;
        for node in coordination.nodes.clone() {
            self.send_commit(node, txn, out);
        }
        if self.options.planted(Mutant::ReplyAtCommit) {
            self.coordinating.get_mut(&txn).expect("it is being coordinated").told = true;
            let stations = Stations { submitted_at: now, ordered_at: now };
            self.answer(now, txn, cts, Outcome::Committed { results: Vec::new() }, BTreeSet::new(), stations);
        }
    }

    fn send_commit(&mut self, node: NodeId, txn: TxnId, out: &mut Out) {
        let coordination = &self.coordinating[&txn];
        let decided = coordination.decided.as_ref().expect("it is decided");
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
            dependencies: decided.dependencies.clone(),
            cts: decided.cts,
            fragments: fragments.into_values().cloned().collect(),
        };
        self.send(node, message, out);
    }

    pub(super) fn on_executed(&mut self, now: Time, from: NodeId, txn: TxnId, rank: Rank, share: Share) {
        let Some(coordination) = self.coordinating.get_mut(&txn) else { return };
        coordination.ends.insert(from, (rank, share));
        if coordination.ends.len() < coordination.nodes.len() {
            return;
        }
        let coordination = self.coordinating.remove(&txn).expect("just found");
        for (node, (other, _)) in &coordination.ends {
            assert_eq!(*other, rank, "{txn} has one rank, also at {node}");
        }
        let ordered_at = coordination.decided.as_ref().map_or(now, |decided| decided.at);
        let stations = Stations { submitted_at: coordination.submitted_at, ordered_at };
        let regions = coordination.nodes.iter().map(|n| self.topology.region_of(*n)).collect();
        let outcome = merge(coordination.ends.into_values().map(|(_, share)| share));
        self.collection.finished(txn, rank);
        if !coordination.told {
            self.answer(now, txn, rank, outcome, regions, stations);
        }
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
        let regions = BTreeSet::from([self.topology.region_of(self.me)]);
        self.collection.finished(txn, rank);
        let stations = Stations { submitted_at, ordered_at: submitted_at };
        self.answer(now, txn, rank, merge(std::iter::once(share)), regions, stations);
    }

    fn answer(
        &mut self,
        now: Time,
        txn: TxnId,
        rank: Rank,
        outcome: Outcome,
        regions: BTreeSet<RegionId>,
        stations: Stations,
    ) {
        if regions.is_empty() {
            self.collection.finished(txn, rank);
        }
        let phases = vec![
            ("order", stations.ordered_at.since(stations.submitted_at)),
            ("execute", now.since(stations.ordered_at)),
            // Absolute until the gate opens.
            ("gate", now.0),
        ];
        self.gate.insert((rank, txn), Answer { submitted_as: txn, txn, rank, outcome, phases, regions });
    }

    /// Lets out the answers whose rank has passed into the past for every clock.
    pub(super) fn open_gate(&mut self, now: Time, out: &mut Out) {
        let clock_bound_ns = self.clock_bound_ns();
        while let Some(entry) = self.gate.first_entry() {
            let rank = entry.key().0;
            let opens_at = rank.time() + clock_bound_ns;
            if opens_at > now && !self.options.planted(Mutant::NoReplyGate) {
                if self.gate_timer.is_none_or(|armed| opens_at < armed) {
                    self.gate_timer = Some(opens_at);
                    out.push(EngineEffect::Timer { at: opens_at, timer: super::Timer::Gate });
                }
                return;
            }
            let mut answer = entry.remove();
            if let Some((_, gate)) = answer.phases.last_mut() {
                *gate = now.since(Time(*gate));
            }
            self.answered = self.answered.max(rank);
            out.push(EngineEffect::Answer(answer));
        }
    }

    pub(super) fn retry_coordination(&mut self, now: Time, txn: TxnId, out: &mut Out) -> bool {
        let Some(coordination) = self.coordinating.get(&txn) else { return false };
        let missing: Nodes = if coordination.decided.is_some() {
            coordination.nodes.iter().filter(|n| !coordination.ends.contains_key(n)).copied().collect()
        } else {
            coordination.nodes.iter().filter(|n| !coordination.replies.contains_key(n)).copied().collect()
        };
        if coordination.decided.is_none() && missing.is_empty() {
            base::sometimes!("a timestamp is asked for again");
            self.want_timestamp(txn, out);
        }
        for node in missing {
            let coordination = &self.coordinating[&txn];
            if coordination.decided.is_some() {
                base::sometimes!("a commit is sent again");
                self.send_commit(node, txn, out);
            } else {
                base::sometimes!("a pre-accept is sent again");
                let transaction = coordination.transaction.clone();
                let expected = coordination.expected;
                self.send(node, Message::PreAccept { transaction, expected, sent_at: now }, out);
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
