//! One transaction between nodes, at its gateway: participants' answers, the decision, their ends.
//!
//! IN: answers to PreAccept, ends. OUT: the decision, what a participant has to be sent. KEEPS: it is decided at most once,
//! from the answers of all participants; all ends have one rank.

use super::message::{Ballot, Decision, Dependency, Fragment, Message, Payload, Share};
use super::options::{Mutant, Options};
use crate::graph::participants::{Nodes, Participants};
use base::{NodeId, Rank, Time, TxnId};
use std::collections::BTreeMap;

/// A transaction that takes part at another node, at its gateway.
#[derive(Clone, Debug)]
pub(super) struct Coordination {
    pub payload: Payload,
    pub nodes: Nodes,
    /// When the last participant should have completed it.
    expected: Rank,
    replies: BTreeMap<NodeId, Reply>,
    /// Whose answer came first.
    first: Option<NodeId>,
    decided: Option<(Decision, Time)>,
    ends: BTreeMap<NodeId, (Rank, Share)>,
    /// Nothing below can be its rank.
    bound: Rank,
    /// The client has its answer already: an earlier attempt's end (or by a planted fault).
    told: bool,
    /// It is to end without effect, because another attempt of its request goes ahead.
    withdrawn: bool,
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
    pub payload: Payload,
    pub origin: Origin,
}

/// A participant's answer to PreAccept.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub dependencies: Vec<Dependency>,
    pub pts: Rank,
    pub fragments: Vec<Fragment>,
}

/// When a transaction passed its stations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stations {
    pub submitted_at: Time,
    pub ordered_at: Time,
}

impl Coordination {
    /// It is submitted, and can be ranked no earlier than `earliest`.
    pub fn new(payload: Payload, nodes: Nodes, expected: Rank, earliest: Rank) -> Coordination {
        Coordination {
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
        }
    }
    fn txn(&self) -> TxnId {
        self.payload.transaction.id
    }
    /// Nothing below can be its rank.
    pub fn bound(&self) -> Rank {
        self.bound
    }
    /// The largest lower bound that a participant reported.
    pub fn pts(&self) -> Rank {
        self.replies.values().map(|reply| reply.pts).max().unwrap_or_default()
    }
    pub fn is_decided(&self) -> bool {
        self.decided.is_some()
    }
    pub fn decided_at(&self) -> Option<Time> {
        self.decided.as_ref().map(|(_, at)| *at)
    }
    /// The client has its answer already.
    pub fn is_told(&self) -> bool {
        self.told
    }
    pub fn tell(&mut self) {
        self.told = true;
    }
    /// It is to end without effect.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }
    /// From now on; who recovers it may rank it as early as this.
    pub fn withdraw(&mut self, earliest: Rank) {
        self.withdrawn = true;
        self.bound = self.bound.min(earliest);
    }

    /// A participant answers; whether all have now, and nothing is decided.
    pub fn pre_accepted(&mut self, from: NodeId, reply: Reply) -> bool {
        if self.decided.is_some() || self.replies.contains_key(&from) {
            return false;
        }
        self.first.get_or_insert(from);
        self.replies.insert(from, reply);
        self.replies.len() == self.nodes.len()
    }

    /// All have answered: the order is known. `timestamp` is the oracle's, if there is one. The final cts, unless it was
    /// decided before.
    pub fn decide(&mut self, now: Time, timestamp: Rank, options: &Options) -> Option<Rank> {
        if self.decided.is_some() {
            return None;
        }
        let (txn, first) = (self.txn(), self.first.expect("everybody has answered"));
        let mut union: BTreeMap<TxnId, Participants> = BTreeMap::new();
        let mut cts = timestamp;
        for (node, reply) in &self.replies {
            cts = cts.max(reply.pts);
            if *node != first && options.planted(Mutant::FirstAnswerOnly) {
                continue;
            }
            for dependency in &reply.dependencies {
                if dependency.txn > txn && options.planted(Mutant::CutCycles) {
                    continue;
                }
                union.entry(dependency.txn).or_insert_with(|| dependency.participants.clone());
            }
        }
        assert!(!union.contains_key(&txn), "{txn} depends on itself");
        let dependencies =
            union.into_iter().map(|(txn, participants)| Dependency { txn, participants }).collect();
        self.decided = Some((Decision { dependencies, cts, noop: false }, now));
        self.bound = cts;
        Some(cts)
    }

    /// A participant has executed; whether all have now.
    pub fn executed(&mut self, from: NodeId, rank: Rank, share: Share) -> bool {
        self.ends.insert(from, (rank, share));
        self.ends.len() >= self.nodes.len()
    }
    /// Ends without effect, and all ends.
    pub fn noop_count(&self) -> (usize, usize) {
        (self.ends.values().filter(|(_, share)| *share == Share::Noop).count(), self.ends.len())
    }
    pub fn ranks(&self) -> impl Iterator<Item = (NodeId, Rank)> + '_ {
        self.ends.iter().map(|(node, (rank, _))| (*node, *rank))
    }
    pub fn into_shares(self) -> impl Iterator<Item = Share> {
        self.ends.into_values().map(|(_, share)| share)
    }

    /// Participants that have to be sent something again.
    pub fn missing(&self) -> Nodes {
        // Somebody else decided if there is an end before there is a decision.
        let is_missing = |node: &&NodeId| match self.is_decided() || !self.ends.is_empty() {
            true => !self.ends.contains_key(*node),
            false => !self.replies.contains_key(*node),
        };
        self.nodes.iter().filter(is_missing).copied().collect()
    }
    pub fn pre_accept(&self, now: Time) -> Message {
        let (payload, expected) = (self.payload.clone(), self.expected);
        Message::PreAccept { payload, ballot: Ballot::FIRST, expected, sent_at: now }
    }
    /// The decision, with what others have told of the dependencies.
    pub fn commit(&self, node: NodeId) -> Message {
        let (decision, _) = self.decided.as_ref().expect("it is decided");
        let mut fragments = BTreeMap::new();
        for (from, reply) in &self.replies {
            if *from != node {
                for fragment in &reply.fragments {
                    fragments.entry(fragment.txn).or_insert(fragment);
                }
            }
        }
        let fragments = fragments.into_values().cloned().collect();
        Message::Commit { txn: self.txn(), decision: decision.clone(), fragments }
    }
}
