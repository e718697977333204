//! The participant's half up to the order: PreAccept and Commit.
//!
//! KEEPS: a transaction is installed in the conflict indexes once; what was answered to PreAccept is
//! never computed again; pts exceeds everything that was closed here; a ballot older than a promised one
//! pre-accepts nothing.

pub(super) mod conflicts;

use super::message::{Ballot, Deadline, Decision, Dependency, Fragment, Message, Payload, Report};
use super::options::{Mutant, Timestamps};
use super::partitions::PartitionImage;
use super::state::Perseus;
use super::vertex::Remote;
use super::work::Out;
use crate::graph::participants::{Nodes, Participants};
use crate::graph::vertex::{Ref, Refs, State};
use base::process::Unreadable;
use base::txn::{AccessMode, Granule, Transaction};
use base::{NodeId, Rank, Time, TxnId};

impl Perseus {
    /// A transaction of this gateway that takes part nowhere else: its dependencies are final at once.
    pub(super) fn pre_accept_alone(&mut self, now: Time, payload: Payload, out: &mut Out) {
        let at = self.pre_accept(now, payload.transaction, Rank::ZERO);
        if let Some(request) = payload.request {
            self.remote(at).request = Some(request);
            self.claim(request, at);
        }
        self.record_pre_accepted(at, out);
        self.decide_alone(at);
    }

    /// Takes the transaction's place in the order of this node. The caller keeps it in `pending`, unless
    /// it executes within the call.
    fn pre_accept(&mut self, now: Time, transaction: Transaction, expected: Rank) -> Ref {
        let id = transaction.id;
        let at = self.named(id, || Participants::of(transaction.participants()));
        let mut met = self.partitions.conflicts.lend_list();
        let bound_ns = self.cluster.clock_bound_ns();
        let mut pts = now.rank();
        if !self.cluster.options.planted(Mutant::PtsIsNow) {
            pts = pts + bound_ns;
        }
        let mut ahead = Rank::ZERO;
        for (partition, accesses) in &transaction.access.by_partition {
            let Some(local) = self.local_index(*partition) else { continue };
            self.partitions.conflicts.install(local, &self.graph, at, accesses, &mut met);
            let whole = accesses.iter().filter(|access| access.granule == Granule::Partition);
            if let Some(mode) = whole.map(|access| access.mode).max() {
                self.everyone(*partition, mode, &mut met, &mut ahead);
            }
            if !self.cluster.options.planted(Mutant::PtsIsNow) {
                pts = pts.max(self.closes.closed(local).next());
            }
        }
        met.sort_unstable();
        met.dedup();
        if !self.cluster.options.planted(Mutant::PtsIsNow) {
            pts = pts.max(transaction.min_rank.next()).max(expected).max(ahead.next());
        }
        let others = if expected == Rank::ZERO { None } else { self.farthest(&transaction) };
        let latest = now.rank() + bound_ns + self.cluster.options.future_max_ns(&self.cluster.topology);
        let mut deps = Refs::new();
        for &dependency in &met {
            let Some(vertex) = self.graph.get(dependency) else { continue };
            if dependency == at {
                continue;
            }
            let ahead = vertex.rank.unwrap_or(vertex.bound);
            if self.cluster.options.lower_bounds {
                pts = pts.max(ahead);
            }
            if let Some((nodes, away_ns)) = &others
                && vertex.state < State::Executed
            {
                // Nobody elsewhere hears what is read here before that one is complete here.
                pts = pts.max((ahead + *away_ns).min(latest));
                let known = vertex.participants.nodes(&self.cluster.topology);
                if vertex.state < State::Final && nodes.iter().any(|node| !known.contains(node)) {
                    // And who takes no part in it will have to ask about it.
                    pts = pts.max((expected + 2 * away_ns).min(latest));
                }
            }
            deps.push(dependency);
        }
        self.partitions.conflicts.take_back(met);
        let is_too_old = read_at(&transaction).is_some_and(|rank| rank < self.collection.released());
        self.take_place(now, at, transaction, deps, (pts, is_too_old));
        at
    }

    /// It takes its place in the conflict indexes, whoever it meets there.
    pub(super) fn install_again(&mut self, at: Ref, transaction: &Transaction) {
        for (partition, accesses) in &transaction.access.by_partition {
            if let Some(local) = self.local_index(*partition) {
                self.partitions.conflicts.install(local, &self.graph, at, accesses, &mut Vec::new());
            }
        }
    }

    /// Conflict indexes and logs are as a checkpoint says. Errors: it is of another node.
    pub(super) fn take_partitions(
        &mut self,
        images: Vec<PartitionImage>,
        at_of: &impl Fn(TxnId) -> Ref,
    ) -> Result<(), Unreadable> {
        self.partitions.restore(images, at_of)
    }
    /// Transactions were collected: nobody conflicts with them any more.
    pub(super) fn forget_accesses(&mut self) {
        self.partitions.conflicts.forget(&self.graph);
    }

    /// The nodes of a transaction, and how long the farthest of them is away, margin included; `None` if
    /// it stays here.
    fn farthest(&self, transaction: &Transaction) -> Option<(Nodes, u64)> {
        let nodes = Participants::of(transaction.participants()).nodes(&self.cluster.topology);
        let away_ns =
            nodes.iter().map(|node| self.measured.delays.one_way_ns(self.cluster.me, *node)).max()?;
        (away_ns > 0).then_some((nodes, away_ns + self.cluster.options.margin_ns))
    }

    /// Whom an access to a whole partition conflicts with: everything that is installed there. What is
    /// done and was only ever here need not be named: it precedes in this partition's log, and `ahead`
    /// keeps the rank above it. But where records are repeated it may have to wait once more for what it depends on.
    fn everyone(&self, partition: base::PartitionId, mode: AccessMode, met: &mut Vec<Ref>, ahead: &mut Rank) {
        for (at, vertex) in self.graph.iter() {
            let Some(transaction) = &vertex.transaction else { continue };
            let accesses = transaction.access.at(partition);
            let meets = match mode {
                AccessMode::Write => !accesses.is_empty(),
                AccessMode::Read => accesses.iter().any(|access| access.mode == AccessMode::Write),
            };
            if !meets {
                continue;
            }
            if vertex.state == State::Done
                && !self.is_recorded()
                && vertex.participants.iter().all(|p| self.local_index(p).is_some())
            {
                *ahead = (*ahead).max(vertex.rank.expect("what is done has a rank"));
            } else {
                met.push(at);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_pre_accept(
        &mut self,
        now: Time,
        from: NodeId,
        payload: Payload,
        ballot: Ballot,
        expected: Rank,
        delay_ns: u64,
        out: &mut Out,
    ) {
        let txn = payload.transaction.id;
        if self.collection.has_collected(txn) {
            base::sometimes!("a pre-accept arrives after its transaction was collected");
            self.send(from, Message::Gone { txn }, out);
            return;
        }
        let Some((floor, barred)) = self.kept_for(now, from, txn, ballot, out) else { return };
        let claim = payload.request.and_then(|request| self.claimed(request, txn));
        if barred || claim.is_some() {
            base::sometimes!("a request arrives twice");
            if ballot == Ballot::FIRST {
                let first = claim.expect("the first ballot is not barred");
                self.send(from, Message::Duplicate { txn, first }, out);
            } else {
                if let Some(at) = self.graph.find(txn).filter(|_| !barred) {
                    self.remote(at).barred = true;
                    self.record_promise(at, out);
                }
                let report = Report::Unknown { pts: floor, claimed: true };
                self.send(from, Message::RecoverOk { txn, ballot, report }, out);
            }
            return;
        }
        if floor > Rank::ZERO {
            self.vacate(self.graph.find(txn).expect("its place is kept"));
        }
        let Payload { transaction, request } = payload;
        let limit = self.cluster.latest_cut(now);
        let at = self.pre_accept(now, transaction, expected.min(limit).max(floor));
        if let Some(request) = request {
            self.remote(at).request = Some(request);
            self.claim(request, at);
        }
        self.record_pre_accepted(at, out);
        self.answer_pre_accept(now, (from, ballot, delay_ns), at, floor == Rank::ZERO, out);
    }

    /// What is kept here for a transaction that a PreAccept brings: the bound of its place (0: none is kept), and whether
    /// a recovery has barred it. `None`: the PreAccept changes nothing, and was answered.
    fn kept_for(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        ballot: Ballot,
        out: &mut Out,
    ) -> Option<(Rank, bool)> {
        let known = self.graph.find(txn).map(|at| (at, self.graph.live(at)));
        let Some((at, vertex)) = known.filter(|(_, vertex)| vertex.state != State::Named) else {
            return Some((Rank::ZERO, false));
        };
        let remote = vertex.extra.remote.as_deref();
        let promised = remote.map_or(Ballot::FIRST, Remote::ballot);
        if vertex.state >= State::Final || !remote.is_some_and(|remote| remote.placeholder) {
            base::sometimes!("a pre-accept arrives twice");
            if ballot < promised && vertex.state < State::Final {
                self.send(from, Message::Refused { txn, ballot: promised }, out);
            } else {
                self.answer_again(now, at, from, ballot, out);
            }
            return None;
        }
        if ballot < promised {
            base::sometimes!("a pre-accept arrives after somebody took the transaction over");
            self.send(from, Message::Refused { txn, ballot: promised }, out);
            return None;
        }
        Some((vertex.bound, remote.is_some_and(|remote| remote.barred)))
    }

    /// A transaction has its place here: tells its coordinator, unless no other node takes part. `is_new`: no place was
    /// kept for it, so no reminder of its recovery is set.
    fn answer_pre_accept(
        &mut self,
        now: Time,
        (from, ballot, delay_ns): (NodeId, Ballot, u64),
        at: Ref,
        is_new: bool,
        out: &mut Out,
    ) {
        let nodes = self.graph.live(at).participants.nodes(&self.cluster.topology);
        if nodes.len() == 1 && self.cluster.options.timestamps == Timestamps::Clocks {
            self.decide_alone(at);
            return;
        }
        let vertex = self.graph.live(at);
        let (txn, pts) = (vertex.id, vertex.bound);
        let dependencies = self.names(&vertex.deps);
        self.waits(at);
        let roots: Vec<Ref> = self.graph.live(at).deps.to_vec();
        let others: Vec<NodeId> = nodes.iter().copied().filter(|n| *n != self.cluster.me).collect();
        let fragments = self.fragments_for(&roots, &others, false);
        let answer =
            Message::PreAcceptOk { txn, ballot, dependencies, pts, fragments, delay_ns, sent_at: now };
        self.remote(at).answer = Some(answer.clone());
        if is_new && self.cluster.options.timestamps == Timestamps::Clocks {
            let patience_ns = self.patience_ns(txn, &nodes);
            self.remember(now + patience_ns, Deadline::Recovery(txn), 0);
        }
        self.send(from, answer, out);
    }

    /// A duplicate PreAccept gets what the first one got.
    pub(super) fn answer_again(&mut self, now: Time, at: Ref, from: NodeId, ballot: Ballot, out: &mut Out) {
        let vertex = self.graph.live(at);
        let txn = vertex.id;
        if self.cluster.options.planted(Mutant::RecomputedAnswers) && vertex.state == State::PreAccepted {
            self.answer_afresh(at, from, ballot, out);
            return;
        }
        let Some(remote) = &vertex.extra.remote else { return };
        if let Some(share) = &remote.share {
            let rank = vertex.rank.expect("what was executed has a rank");
            let message = Message::Executed { txn, rank, share: share.clone() };
            self.send(from, message, out);
        } else if let Some(answer) = &remote.answer {
            let mut answer = answer.clone();
            if let Message::PreAcceptOk { sent_at, ballot: under, .. } = &mut answer {
                *sent_at = now;
                *under = ballot;
            }
            self.send(from, answer, out);
        }
    }

    /// Planted fault: the conflicts as they are now.
    fn answer_afresh(&mut self, at: Ref, from: NodeId, ballot: Ballot, out: &mut Out) {
        let vertex = self.graph.live(at);
        let (txn, pts) = (vertex.id, vertex.bound);
        let transaction = vertex.transaction.clone().expect("it takes part here");
        let mut met = Vec::new();
        for (partition, accesses) in &transaction.access.by_partition {
            if let Some(local) = self.local_index(*partition) {
                self.partitions.conflicts.install(local, &self.graph, at, accesses, &mut met);
            }
        }
        let deps: Refs = met.into_iter().filter(|dependency| *dependency != at).collect();
        let dependencies = self.names(&deps);
        let (fragments, delay_ns, sent_at) = (Vec::new(), 0, Time::ZERO);
        let answer = Message::PreAcceptOk { txn, ballot, dependencies, pts, fragments, delay_ns, sent_at };
        self.send(from, answer, out);
    }

    pub(super) fn on_commit(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        decision: Decision,
        fragments: Vec<Fragment>,
        out: &mut Out,
    ) {
        let Some(at) = self.graph.find(txn) else {
            // Whoever still asks was given up, and missed the end.
            base::sometimes!("a commit arrives after its transaction was collected");
            self.send(from, Message::Gone { txn }, out);
            return;
        };
        for fragment in &fragments {
            self.learn(fragment, out);
        }
        match self.graph.live(at).state {
            // Only who was pre-accepted here, or has a place kept, is committed here.
            State::Named => {}
            State::PreAccepted => self.finalize(at, &decision, Rank::ZERO, out),
            _ => {
                base::sometimes!("a commit arrives twice");
                self.answer_again(now, at, txn.coordinator, Ballot::FIRST, out);
            }
        }
    }

    /// Dependencies by name.
    pub(super) fn names(&self, deps: &[Ref]) -> Vec<Dependency> {
        let live = deps.iter().filter_map(|dependency| self.graph.get(*dependency));
        live.map(|v| Dependency { txn: v.id, participants: v.participants.clone() }).collect()
    }
}

/// The least rank at which a transaction has read before it was submitted.
pub(super) fn read_at(transaction: &Transaction) -> Option<Rank> {
    transaction.program.validated()?.reads.iter().map(|read| read.at).min()
}
