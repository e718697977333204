//! The gateway: hand out ids, hold back when too much is under way, send each transaction to the
//! sequencers of its regions, collect its end, answer.
//!
//! KEEPS: an answer comes once, after execution at the answering region, and its rank lies in the past
//! for every clock: `rank ≤ now − ε`. What is submitted strictly later, in true time, is stamped at
//! `now + ε` or later everywhere, hence ranked above it; what is submitted here in the same nanosecond
//! is too, because ranks answered here are remembered. (Where clocks have no bound nothing is gained by waiting, and
//! answers go at once.)

use super::homes::{is_bare_move, moved_away};
use super::link::Outbox;
use super::message::{Message, Named, Share, Term};
use super::options::Mutant;
use super::requests::unknown;
use super::state::{Caerus, Out, regions_in};
use crate::engine::{Answer, EngineEffect};
use crate::graph::participants::Nodes;
use crate::share::merge;
use base::txn::{ClientRequest, Outcome, Submission, Transaction};
use base::{NodeId, Rank, RegionId, SqlError, SqlState, Time, TxnId};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Transactions on their way to the leader of a sequence.
#[derive(Clone, Debug)]
pub(super) struct Link {
    term: Term,
    pub outbox: Outbox<Named>,
    /// Nothing is sent before this.
    pub flush_at: Time,
}

impl Outstanding {
    pub fn named(&self) -> Named {
        (self.transaction.clone(), self.request)
    }
}

impl Link {
    pub fn new(term: Term, outbox: Outbox<Named>) -> Link {
        Link { term, outbox, flush_at: Time::ZERO }
    }
}

/// A transaction of this gateway that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    pub transaction: Transaction,
    request: Option<ClientRequest>,
    submitted_at: Time,
    pub regions: u64,
    /// Nodes of the answering region that have not told how it ended.
    missing: Nodes,
    ends: SmallVec<[Share; 1]>,
    /// What took effect, and its rank, as the first of them told.
    end: Option<(TxnId, Rank)>,
    /// Others told something else: attempts of one request that touch different things.
    is_unclear: bool,
    /// When the outcome is asked for, if somebody else has it.
    deadline: Option<Time>,
}

impl Caerus {
    pub(super) fn submitted(&mut self, now: Time, submission: Submission) -> TxnId {
        self.count += 1;
        let id = TxnId { coordinator: self.me, incarnation: self.incarnation, sequence: self.count };
        let Submission { program, access, token, request } = submission;
        let limit = self.latest_cut(now);
        let refused = if let Some(absent) = self.not_whole() {
            Some(Outcome::Aborted(absent))
        } else if token.rank > limit {
            let error = SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "the session's token lies too far in the future",
            );
            let error = error
                .detail(format!("Its rank is {}, the largest acceptable one {limit}.", token.rank))
                .hint("A token is valid only in the cluster that gave it; reset it with SET meridian.token.");
            Some(Outcome::Aborted(error))
        } else if self.waiting.len() >= self.options.queue_max {
            let error = SqlError::new(
                SqlState::CONFIGURATION_LIMIT_EXCEEDED,
                "too many transactions wait at this gateway",
            );
            Some(Outcome::Aborted(error.hint("Nothing was ordered; try again later.")))
        } else if access.by_partition.is_empty() {
            Some(Outcome::Committed { results: Vec::new() })
        } else {
            None
        };
        let min_rank = token.rank.max(self.answered);
        match refused {
            Some(outcome) => {
                let above = if outcome.is_committed() { min_rank.next() } else { Rank::ZERO };
                self.answer(now, id, (id, now.rank().max(above)), outcome, 0, now);
            }
            None => {
                let after = token.rank;
                let transaction = Transaction { id, program, access, min_rank, after, homes: None };
                self.waiting.push_back(((transaction, request), now));
            }
        }
        id
    }

    /// Starts transactions that wait, as far as there is room; whether it did.
    pub(super) fn release(&mut self, now: Time, out: &mut Out) -> bool {
        let mut any = false;
        while self.has_room()
            && let Some((named, submitted_at)) = self.waiting.pop_front()
        {
            any = true;
            self.begin(now, named, submitted_at, out);
        }
        if !self.waiting.is_empty() {
            base::sometimes!("a gateway holds transactions back");
        }
        any
    }

    fn begin(&mut self, now: Time, named: Named, submitted_at: Time, out: &mut Out) {
        let (mut transaction, mut request) = named;
        if let Some(error) = self.refusal(&transaction, request) {
            let id = transaction.id;
            self.moving.remove(&id);
            let rank = now.rank() + self.clock_bound_ns();
            return self.answer(now, id, (id, rank), Outcome::Aborted(error), 0, submitted_at);
        }
        if self.delays(&transaction, request) {
            base::sometimes!("a gateway delays what needs a silent region");
            return self.held_back.push(((transaction, request), submitted_at));
        }
        transaction.homes = match self.says(&transaction, request) {
            Ok(homes) => homes,
            Err(error) => {
                let id = transaction.id;
                let rank = now.rank() + self.clock_bound_ns();
                return self.answer(now, id, (id, rank), Outcome::Aborted(error), 0, submitted_at);
            }
        };
        if transaction.homes.as_ref().is_some_and(|homes| !homes.moves.is_empty()) {
            // Repeated, it finds everything where it should be.
            request = None;
        }
        let regions = self.regions_of(&transaction);
        let answering = self.answering_region(self.me, regions);
        // A change of the catalog is answered once everybody has it: whoever is told of it next plans with it.
        let telling = if is_schema_change(&transaction) { self.witnesses(regions) } else { 1 << answering.0 };
        let missing: Nodes =
            regions_in(telling).flat_map(|region| self.nodes_in(region, &transaction)).collect();
        let asks = missing.iter().any(|node| *node != self.me);
        let deadline = asks.then(|| now + self.options.retry_after_ns(&self.topology));
        if let Some(at) = deadline {
            self.deadlines.insert((at, transaction.id), 0);
        }
        let (end, is_unclear, ends) = (None, false, SmallVec::new());
        let kept = transaction.clone();
        let outstanding = Outstanding {
            transaction: kept,
            request,
            submitted_at,
            regions,
            missing,
            ends,
            end,
            is_unclear,
            deadline,
        };
        self.outstanding.insert(transaction.id, outstanding);
        for sequence in regions_in(self.entrances(regions)) {
            if self.is_open(sequence) {
                self.arrive(now, sequence, (transaction.clone(), request), out);
            } else if self.leader_of(sequence) != self.me {
                self.link(sequence).outbox.push((transaction.clone(), request));
            }
            // Who leads and is not open yet looks here when it is, and who does not any more when it hears
            // who does.
        }
    }

    /// Nodes of a region that hold what a transaction touches.
    pub(super) fn nodes_in(&self, region: RegionId, transaction: &Transaction) -> Nodes {
        let sequencer = self.sequencers[region.0 as usize].expect("a region with partitions has a sequencer");
        let mut nodes: Nodes =
            transaction.participants().map(|p| self.topology.copy_near(p, sequencer)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Sends what has gathered for sequencers whose links are idle; answers when the others will be.
    pub(super) fn flush_submits(&mut self, now: Time, out: &mut Out) -> Option<Time> {
        let mut next: Option<Time> = None;
        let incarnation = self.born;
        let interval_ns = self.pace.interval_ns(&self.options);
        for (&sequence, link) in &mut self.links {
            if now < link.flush_at {
                let end = link.outbox.end();
                if link.outbox.has_unsent(|_| end) {
                    next = Some(next.map_or(link.flush_at, |at| at.min(link.flush_at)));
                }
                continue;
            }
            let end = link.outbox.end();
            for (to, first, transactions, _) in link.outbox.unsent(now, |_| end) {
                link.flush_at = now + interval_ns;
                let term = link.term;
                let message =
                    Message::Submit { sequence, term, incarnation, first, transactions, sent_at: now };
                out.push(EngineEffect::Send { to, message });
            }
            if link.outbox.has_unsent(|_| end) {
                next = Some(next.map_or(link.flush_at, |at| at.min(link.flush_at)));
            }
        }
        next
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_submit_ack(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: RegionId,
        term: Term,
        incarnation: u32,
        next: u64,
        (gap, echo): (bool, Time),
    ) {
        if incarnation == self.born
            && let Some(link) = self.links.get_mut(&sequence).filter(|link| link.term == term)
        {
            link.outbox.acknowledged(now, from, next, gap, echo);
        }
    }

    /// A node of the answering region tells how a transaction of this gateway ended there.
    pub(super) fn on_executed(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        end: (TxnId, Rank),
        share: Share,
    ) {
        let Some(outstanding) = self.outstanding.get_mut(&txn) else { return };
        let Some(nth) = outstanding.missing.iter().position(|node| *node == from) else { return };
        outstanding.missing.remove(nth);
        let differs = outstanding.end.is_some_and(|known| known != end);
        // A node that has lost its memory since may not know how it ended. A gateway without copies hears of no lives.
        let is_forgotten = matches!(&share, Share::Aborted(error) if error.state == unknown().state);
        outstanding.is_unclear |= is_forgotten;
        let may_differ = outstanding.request.is_some() || outstanding.is_unclear;
        assert!(!differs || may_differ, "{txn} has one rank");
        outstanding.is_unclear |= differs;
        outstanding.end = Some(end);
        outstanding.ends.push(share);
        if !outstanding.missing.is_empty() {
            return;
        }
        let outstanding = self.outstanding.remove(&txn).expect("just found");
        if let Some(at) = outstanding.deadline {
            self.deadlines.remove(&(at, txn));
        }
        if self.was_told(txn) {
            return;
        }
        let is_stale = outstanding.ends.contains(&Share::Noop);
        if is_stale && !is_bare_move(&outstanding.transaction) {
            let Outstanding { transaction, request, submitted_at, .. } = outstanding;
            return self.submit_again(transaction, request, submitted_at);
        }
        let outcome = match outstanding.is_unclear {
            true => Outcome::Aborted(unknown()),
            false if is_stale => Outcome::Aborted(moved_away()),
            false => merge(outstanding.ends.into_iter()),
        };
        let homes = self.homes(&outstanding.transaction, outstanding.regions);
        self.answer(now, txn, end, outcome, homes, outstanding.submitted_at);
    }

    /// Answers a transaction that is still under way.
    pub(super) fn answer_unknown(&mut self, now: Time, txn: TxnId, outcome: Outcome) {
        let submitted_at = self.outstanding[&txn].submitted_at;
        let rank = now.rank() + self.clock_bound_ns();
        self.answer(now, txn, (txn, rank), outcome, 0, submitted_at);
    }

    fn answer(
        &mut self,
        now: Time,
        submitted_as: TxnId,
        (txn, rank): (TxnId, Rank),
        outcome: Outcome,
        regions: u64,
        submitted_at: Time,
    ) {
        // The gate's share is absolute until it opens.
        let phases = vec![("order", now.since(submitted_at)), ("gate", now.0)];
        let regions: BTreeSet<RegionId> = regions_in(regions).collect();
        let submitted_as = self.again.remove(&submitted_as).unwrap_or(submitted_as);
        let answer = Answer { submitted_as, txn, rank, outcome, phases, regions };
        self.gate.insert((rank, submitted_as), answer);
    }

    /// Lets out the answers whose rank has passed into the past for every clock.
    pub(super) fn open_gate(&mut self, now: Time, out: &mut Out) {
        let (clock_bound_ns, is_gated) = (self.clock_bound_ns(), !self.is_unbounded());
        while let Some(entry) = self.gate.first_entry() {
            let rank = entry.key().0;
            let opens_at = rank.time() + clock_bound_ns;
            if opens_at > now && is_gated && !self.options.planted(Mutant::NoReplyGate) {
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

    /// Asks for outcomes that should have come.
    pub(super) fn ask_outcomes(&mut self, now: Time, out: &mut Out) {
        let survives = self.survives();
        while let Some(entry) = self.deadlines.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((_, txn), attempt) = entry.remove_entry();
            base::sometimes!("a gateway asks how its transaction ended");
            let outstanding = self.outstanding.get_mut(&txn).expect("a deadline goes with its transaction");
            let at = now + (self.options.retry_after_ns(&self.topology) << attempt.min(4));
            outstanding.deadline = Some(at);
            self.deadlines.insert((at, txn), attempt + 1);
            let elsewhere = |node: &NodeId| self.topology.region_of(*node) != self.region;
            let may_be_lost = survives && attempt > 0;
            if may_be_lost
                && self.sequencers[self.region.0 as usize].is_some()
                && outstanding.missing.iter().any(elsewhere)
            {
                // One that should answer too may be lost; here the transaction executes as well.
                base::sometimes!("a gateway asks its own region how its transaction ended");
                let transaction = outstanding.transaction.clone();
                let missing = self.nodes_in(self.region, &transaction);
                let outstanding = self.outstanding.get_mut(&txn).expect("just found");
                (outstanding.missing, outstanding.end, outstanding.is_unclear) = (missing, None, false);
                outstanding.ends.clear();
            }
            for node in self.outstanding[&txn].missing.clone() {
                self.send(node, Message::OutcomeWanted { txn }, out);
            }
        }
    }

    /// The least of this gateway's transactions that is not answered, or else its next.
    pub(super) fn unanswered(&self) -> TxnId {
        let gated = self.gate.keys().map(|(_, txn)| *txn).min();
        let first = self.outstanding.keys().next().copied();
        let waiting =
            self.waiting.iter().chain(&self.held_back).map(|((transaction, _), _)| transaction.id).min();
        let next = TxnId { coordinator: self.me, incarnation: self.incarnation, sequence: self.count + 1 };
        [gated, first, waiting].into_iter().flatten().fold(next, TxnId::min)
    }
}

/// Whether every region tells the gateway how it ended there.
pub(super) fn is_schema_change(transaction: &Transaction) -> bool {
    transaction.program.schema_change().is_some()
}
