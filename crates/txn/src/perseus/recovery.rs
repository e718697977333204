//! Deciding in a lost coordinator's stead.
//!
//! IN: a pre-accepted transaction that has waited too long. OUT: one decision, the same whoever makes it.
//! KEEPS: once a decision has reached anyone, every later recovery finds that decision.
//!
//! Whoever recovers takes a ballot of its own, higher than any it has heard of, and asks *every*
//! participant to promise it. A participant that promises refuses whatever older ballots ask for later,
//! and tells what it knows. With one replica per partition nothing less than every participant would do:
//! the one that is not asked may hold the only conflict that orders two transactions. Then
//!
//! - *somebody is final*: that is the decision; everybody is told.
//! - *somebody accepted* what an earlier recovery proposed: the proposal of the highest ballot may have
//!   been decided and is proposed again.
//! - *everybody pre-accepted*: the coordinator may have committed, and if so, with exactly the union of the
//!   stored answers and their largest pts, which is therefore proposed. (Answers never change.)
//! - *somebody knows nothing*: by its promise it will never answer the coordinator, so nothing can have
//!   been committed, and the choice is free. Either the transaction is pre-accepted there at the new
//!   ballot and goes on (`Unfinished::Complete`), or it ends without effect, as a *no-op* with the union of
//!   the dependencies reported. A no-op keeps its place: others depend on it already, and through it on
//!   what it depends on. It gets a rank and an empty record in each participant's log, like any abort.
//!
//! A proposal is committed once every participant has accepted it. The coordinator's own commit needs no
//! such phase: it exists only if everybody answered the first ballot, and then nobody can propose anything
//! else.
//!
//! A participant that knew nothing keeps a *place* for the transaction from its promise on: a lower bound
//! of its rank above everything that was closed there, which holds the watermark back until it ends.
//!
//! Participants start one after another, the coordinator last, and back off when they meet a higher ballot.
//! A coordinator that was only slow finds its ballot refused and waits; participants tell it the end.

mod promising;

use super::coordination::Coordination;
use super::message::{Ballot, Decision, Dependency, Message, Payload, Report};
use super::options::{Mutant, Unfinished};
use super::state::Perseus;
use super::work::Out;
use crate::graph::participants::{Nodes, Participants};
use crate::graph::vertex::State;
use base::{NodeId, Rank, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// A recovery that this node leads.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    ballot: Ballot,
    participants: Participants,
    nodes: Nodes,
    reports: BTreeMap<NodeId, Report>,
    stage: Stage,
    /// Highest ballot heard of.
    highest: Ballot,
}

#[derive(Clone, Debug)]
enum Stage {
    /// For promises.
    Asking,
    /// For those that knew nothing to pre-accept it, or to say that they must not.
    PreAccepting {
        payload: Payload,
        silent: BTreeSet<NodeId>,
    },
    Accepting {
        decision: Decision,
        accepted: BTreeSet<NodeId>,
    },
}

/// Recoveries that this node leads.
#[derive(Clone, Debug, Default)]
pub(super) struct Recoveries {
    led: BTreeMap<TxnId, Recovery>,
    /// Recoveries begun here, attempts counted; and decisions made here that a transaction ends without effect.
    counts: (u64, u64),
}

impl Recoveries {
    fn get(&self, txn: TxnId) -> Option<&Recovery> {
        self.led.get(&txn)
    }
    fn get_mut(&mut self, txn: TxnId) -> Option<&mut Recovery> {
        self.led.get_mut(&txn)
    }
    fn of(&self, txn: TxnId) -> &Recovery {
        &self.led[&txn]
    }
    fn begin(&mut self, txn: TxnId, recovery: Recovery) {
        self.counts.0 += 1;
        self.led.insert(txn, recovery);
    }
    /// It is decided, or somebody else recovers it.
    pub fn remove(&mut self, txn: TxnId) -> Option<Recovery> {
        self.led.remove(&txn)
    }
    fn concluded(&mut self, decision: &Decision) {
        self.counts.1 += u64::from(decision.noop);
    }
    /// Recoveries begun, attempts counted; and no-ops decided.
    pub fn counts(&self) -> (u64, u64) {
        self.counts
    }
    pub fn len(&self) -> usize {
        self.led.len()
    }
    #[cfg(test)]
    pub fn ids(&self) -> impl Iterator<Item = &TxnId> {
        self.led.keys()
    }
}

impl Perseus {
    /// How long this node leaves an undecided transaction to others.
    pub(super) fn patience_ns(&self, txn: TxnId, nodes: &[NodeId]) -> u64 {
        let place = |node| nodes.iter().position(|n| *n == node);
        let turn = match (place(self.cluster.me), place(txn.coordinator)) {
            _ if txn.coordinator == self.cluster.me => nodes.len(),
            (Some(mine), Some(coordinators)) => (mine + nodes.len() - coordinators) % nodes.len(),
            (Some(mine), None) => mine + 1,
            (None, _) => nodes.len(),
        };
        self.cluster.options.recover_after_ns(&self.cluster.topology) * turn.max(1) as u64
    }

    /// The decision is overdue: leads a recovery, or goes on leading. False once there is a decision.
    pub(super) fn retry_recovery(&mut self, now: Time, txn: TxnId, out: &mut Out) -> bool {
        let mut heard = Ballot::FIRST;
        let participants = match self.graph.find(txn) {
            Some(at) => {
                let vertex = self.graph.live(at);
                if vertex.state >= State::Final {
                    return false;
                }
                let participants = vertex.participants.clone();
                let remote = self.remote(at);
                if now < remote.patient_until {
                    return true;
                }
                heard = remote.ballot();
                participants
            }
            None => match self.recoveries.get(txn) {
                Some(recovery) => recovery.participants.clone(),
                None => return false,
            },
        };
        match self.recoveries.get(txn) {
            Some(recovery) if recovery.highest <= recovery.ballot => self.urge(now, txn, out),
            Some(recovery) => {
                base::sometimes!("a recovery starts over above a competitor's ballot");
                let highest = recovery.highest;
                self.recover(txn, participants, highest.max(heard), out);
            }
            None => self.recover(txn, participants, heard, out),
        }
        true
    }

    /// Leads a recovery with a ballot above `heard`.
    pub(super) fn recover(&mut self, txn: TxnId, participants: Participants, heard: Ballot, out: &mut Out) {
        base::sometimes!("a transaction is recovered");
        let ballot = Ballot { round: heard.round + 1, node: self.cluster.me };
        let nodes = participants.nodes(&self.cluster.topology);
        let (reports, stage) = (BTreeMap::new(), Stage::Asking);
        let payload_wanted = self.payload(txn).is_none();
        for &node in &nodes {
            let participants = participants.clone();
            self.send(node, Message::Recover { txn, participants, ballot, payload_wanted }, out);
        }
        let recovery = Recovery { ballot, participants, nodes, reports, stage, highest: ballot };
        self.recoveries.begin(txn, recovery);
    }

    /// What this node holds of the transaction itself.
    fn payload(&self, txn: TxnId) -> Option<Payload> {
        if let Some(coordination) = self.gateway.coordination(txn) {
            return Some(coordination.payload.clone());
        }
        let vertex = self.graph.live(self.graph.find(txn)?);
        let remote = vertex.extra.remote.as_ref()?;
        if remote.placeholder {
            return None;
        }
        Some(Payload { transaction: vertex.transaction.clone()?, request: remote.request })
    }

    /// Asks again whoever has not answered the current stage.
    fn urge(&mut self, now: Time, txn: TxnId, out: &mut Out) {
        base::sometimes!("a recovery asks again");
        let recovery = self.recoveries.of(txn);
        let (ballot, participants) = (recovery.ballot, recovery.participants.clone());
        let nodes = recovery.nodes.clone();
        match &recovery.stage {
            Stage::Asking => {
                let silent = nodes.iter().filter(|node| !recovery.reports.contains_key(node));
                let silent: Nodes = silent.copied().collect();
                let payload_wanted = self.payload(txn).is_none();
                for node in silent {
                    let participants = participants.clone();
                    self.send(node, Message::Recover { txn, participants, ballot, payload_wanted }, out);
                }
            }
            Stage::PreAccepting { payload, silent } => {
                let (payload, silent) = (payload.clone(), silent.iter().copied().collect());
                self.pre_accept_late(now, txn, payload, silent, out);
            }
            Stage::Accepting { decision, accepted } => {
                let silent: Nodes = nodes.into_iter().filter(|node| !accepted.contains(node)).collect();
                let decision = decision.clone();
                for node in silent {
                    let (participants, decision) = (participants.clone(), decision.clone());
                    self.send(node, Message::Accept { txn, participants, ballot, decision }, out);
                }
            }
        }
    }

    pub(super) fn on_recover_ok(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        ballot: Ballot,
        report: Report,
        out: &mut Out,
    ) {
        let majority = self.cluster.options.planted(Mutant::RecoverFromMajority);
        let Some(recovery) = self.recoveries.get_mut(txn).filter(|r| r.ballot == ballot) else { return };
        if let Report::Final(decision) = report {
            base::sometimes!("a recovery finds the decision");
            self.conclude(txn, decision, out);
            return;
        }
        match recovery.stage {
            Stage::Asking => _ = recovery.reports.insert(from, report),
            // It must not: another attempt of the request stands there.
            Stage::PreAccepting { .. } if matches!(report, Report::Unknown { claimed: true, .. }) => {
                self.answered_late(from, txn, report, out);
                return;
            }
            _ => return,
        }
        let enough = if majority { recovery.nodes.len() / 2 + 1 } else { recovery.nodes.len() };
        if recovery.reports.len() < enough {
            return;
        }
        let proposals = recovery.reports.values().filter_map(|report| match report {
            Report::Accepted { ballot, decision } => Some((*ballot, decision)),
            _ => None,
        });
        if let Some((_, decision)) = proposals.max_by_key(|(ballot, _)| *ballot) {
            base::sometimes!("a recovery finds a proposal");
            let decision = decision.clone();
            self.propose(txn, decision, out);
            return;
        }
        let mut reports = recovery.reports.values();
        let nobody_lacks = reports.all(|report| matches!(report, Report::PreAccepted { .. }));
        if nobody_lacks || self.cluster.options.planted(Mutant::UnknownIsEmpty) {
            base::sometimes!("a recovery finds everybody ready");
            let decision = union(recovery, false);
            self.propose(txn, decision, out);
            return;
        }
        let claimed =
            recovery.reports.values().any(|report| matches!(report, Report::Unknown { claimed: true, .. }));
        let told = recovery.reports.values().find_map(|report| match report {
            Report::PreAccepted { payload, .. } => payload.clone(),
            _ => None,
        });
        let unwanted = self.gateway.coordination(txn).is_some_and(Coordination::is_withdrawn);
        let payload = self.payload(txn).or(told);
        match payload {
            Some(payload)
                if !claimed && !unwanted && self.cluster.options.unfinished == Unfinished::Complete =>
            {
                base::sometimes!("a recovery brings a transaction to who lacks it");
                let recovery = self.recoveries.of(txn);
                let lacks = recovery.reports.iter().filter(|(_, r)| matches!(r, Report::Unknown { .. }));
                let lacks = lacks.map(|(node, _)| *node).collect();
                self.pre_accept_late(now, txn, payload, lacks, out);
            }
            _ => self.propose_noop(txn, out),
        }
    }

    fn pre_accept_late(&mut self, now: Time, txn: TxnId, payload: Payload, lacks: Nodes, out: &mut Out) {
        let recovery = self.recoveries.get_mut(txn).expect("it is being recovered");
        let silent = lacks.iter().copied().collect();
        recovery.stage = Stage::PreAccepting { payload: payload.clone(), silent };
        let (ballot, nodes) = (recovery.ballot, recovery.nodes.clone());
        let expected = self.expected_completion(now, txn, &nodes);
        for node in lacks {
            let payload = payload.clone();
            self.send(node, Message::PreAccept { payload, ballot, expected, sent_at: now }, out);
        }
    }

    /// Somebody who lacked the transaction has pre-accepted it.
    pub(super) fn on_pre_accepted_late(
        &mut self,
        from: NodeId,
        txn: TxnId,
        ballot: Ballot,
        dependencies: Vec<Dependency>,
        pts: Rank,
        out: &mut Out,
    ) {
        if self.recoveries.get(txn).is_some_and(|recovery| recovery.ballot == ballot) {
            self.answered_late(from, txn, Report::PreAccepted { dependencies, pts, payload: None }, out);
        }
    }

    /// All of them have to answer, also if it ends without effect: whoever has pre-accepted it may be the
    /// only one who knows of a conflict.
    fn answered_late(&mut self, from: NodeId, txn: TxnId, report: Report, out: &mut Out) {
        let recovery = self.recoveries.get_mut(txn).expect("it is being recovered");
        let Stage::PreAccepting { silent, .. } = &mut recovery.stage else { return };
        if !silent.remove(&from) {
            return;
        }
        let everybody = silent.is_empty();
        recovery.reports.insert(from, report);
        if !everybody {
            return;
        }
        if recovery.reports.values().all(|report| matches!(report, Report::PreAccepted { .. })) {
            let decision = union(recovery, false);
            self.propose(txn, decision, out);
        } else {
            self.propose_noop(txn, out);
        }
    }

    fn propose_noop(&mut self, txn: TxnId, out: &mut Out) {
        base::sometimes!("a recovery ends a transaction without effect");
        let mut decision = union(self.recoveries.of(txn), true);
        if self.cluster.options.planted(Mutant::NoopForgetsDependencies) {
            decision.dependencies.clear();
        }
        self.propose(txn, decision, out);
    }

    fn propose(&mut self, txn: TxnId, decision: Decision, out: &mut Out) {
        let recovery = self.recoveries.get_mut(txn).expect("it is being recovered");
        recovery.stage = Stage::Accepting { decision: decision.clone(), accepted: BTreeSet::new() };
        let (ballot, participants) = (recovery.ballot, recovery.participants.clone());
        for node in recovery.nodes.clone() {
            let (participants, decision) = (participants.clone(), decision.clone());
            self.send(node, Message::Accept { txn, participants, ballot, decision }, out);
        }
    }

    pub(super) fn on_accept_ok(&mut self, from: NodeId, txn: TxnId, ballot: Ballot, out: &mut Out) {
        let majority = self.cluster.options.planted(Mutant::RecoverFromMajority);
        let Some(recovery) = self.recoveries.get_mut(txn).filter(|r| r.ballot == ballot) else { return };
        let Stage::Accepting { decision, accepted } = &mut recovery.stage else { return };
        accepted.insert(from);
        let enough = if majority { recovery.nodes.len() / 2 + 1 } else { recovery.nodes.len() };
        if accepted.len() >= enough {
            let decision = decision.clone();
            self.conclude(txn, decision, out);
        }
    }

    fn conclude(&mut self, txn: TxnId, decision: Decision, out: &mut Out) {
        let recovery = self.recoveries.remove(txn).expect("it is being recovered");
        self.recoveries.concluded(&decision);
        for node in recovery.nodes {
            let (decision, fragments) = (decision.clone(), Vec::new());
            self.send(node, Message::Commit { txn, decision, fragments }, out);
        }
    }

    /// The transaction's end is known, or somebody else brings it about.
    pub(super) fn recover_no_more(&mut self, txn: TxnId) {
        self.recoveries.remove(txn);
    }

    pub(super) fn on_refused(&mut self, txn: TxnId, ballot: Ballot) {
        // A coordinator whose first ballot is refused waits for the participants' ends.
        if let Some(recovery) = self.recoveries.get_mut(txn) {
            recovery.highest = recovery.highest.max(ballot);
        }
    }
}

/// Whatever was reported, put together.
fn union(recovery: &Recovery, noop: bool) -> Decision {
    let mut union: BTreeMap<TxnId, Participants> = BTreeMap::new();
    let mut cts = Rank::ZERO;
    for report in recovery.reports.values() {
        match report {
            Report::Unknown { pts, .. } => cts = cts.max(*pts),
            Report::PreAccepted { dependencies, pts, .. } => {
                cts = cts.max(*pts);
                for dependency in dependencies {
                    union.entry(dependency.txn).or_insert_with(|| dependency.participants.clone());
                }
            }
            Report::Accepted { .. } | Report::Final(_) => unreachable!("those decide by themselves"),
        }
    }
    let dependencies =
        union.into_iter().map(|(txn, participants)| Dependency { txn, participants }).collect();
    Decision { dependencies, cts, noop }
}
