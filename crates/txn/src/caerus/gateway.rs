//! The gateway: hand out ids, hold back when too much is under way, send each transaction to the
//! sequencers of its regions, collect its end, answer.
//!
//! IN: submissions, ends of transactions. OUT: [`Message::Submit`] to the leaders of sequences, questions for ends that
//! have not come, answers into the reply gate. KEEPS: an answer comes once, after execution at the answering region;
//! a transaction is sent to every sequence that orders it until each has acknowledged it.

mod starting;

use super::claims::{is_bare_move, moved_away};
use super::cluster::Cluster;
use super::message::{Message, Named, SequenceId, Share, Term, regions_in};
use super::options::Mutant;
use super::requests::unknown;
use super::work::{Out, Todo};
use crate::engine::{Answer, EngineEffect};
use crate::gate::ReplyGate;
use crate::graph::participants::Nodes;
use crate::log::link::Outbox;
use crate::share::merge;
use base::txn::{ClientRequest, Outcome, Submission, Transaction};
use base::{NodeId, PartitionId, Rank, RegionId, SqlError, SqlState, Time, TxnId};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What clients of this node have under way.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    /// The life that new transactions belong to, and how many it has named.
    incarnation: u32,
    count: u64,
    /// Not started yet.
    waiting: VecDeque<(Named, Time)>,
    /// Of these, those that wait for the next tick.
    held_back: Vec<(Named, Time)>,
    /// What was submitted under another id before.
    again: BTreeMap<TxnId, TxnId>,
    /// Moves that wait.
    moving: BTreeMap<TxnId, (PartitionId, RegionId)>,
    outstanding: BTreeMap<TxnId, Outstanding>,
    deadlines: BTreeMap<(Time, TxnId), u32>,
    /// To the leaders of sequences that this node does not lead.
    links: BTreeMap<SequenceId, Link>,
    gate: ReplyGate,
}

/// Transactions on their way to the leader of a sequence.
#[derive(Clone, Debug)]
struct Link {
    term: Term,
    outbox: Outbox<Named>,
    /// Nothing is sent before this.
    flush_at: Time,
}

/// A transaction of this gateway that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    transaction: Transaction,
    request: Option<ClientRequest>,
    submitted_at: Time,
    regions: u64,
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

impl Outstanding {
    pub fn named(&self) -> Named {
        (self.transaction.clone(), self.request)
    }
    /// Sequences that order it, as bits.
    pub fn regions(&self) -> u64 {
        self.regions
    }
}

impl Gateway {
    pub fn new(incarnation: u32) -> Gateway {
        Gateway {
            incarnation,
            count: 0,
            waiting: VecDeque::new(),
            held_back: Vec::new(),
            again: BTreeMap::new(),
            moving: BTreeMap::new(),
            outstanding: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            links: BTreeMap::new(),
            gate: ReplyGate::default(),
        }
    }
    /// A new life begins, with what the former one had under way.
    pub fn resume(&mut self, incarnation: u32) {
        assert!(incarnation > self.incarnation, "a new life has a new number");
        (self.incarnation, self.count) = (incarnation, 0);
    }
    fn name(&mut self, cluster: &Cluster) -> TxnId {
        self.count += 1;
        TxnId { coordinator: cluster.me, incarnation: self.incarnation, sequence: self.count }
    }

    /// How many transactions this life has named.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Transactions that have not ended.
    pub fn outstanding(&self) -> impl Iterator<Item = (&TxnId, &Outstanding)> {
        self.outstanding.iter()
    }
    pub fn outstanding_count(&self) -> usize {
        self.outstanding.len()
    }
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }
    /// Of those that wait, those that wait for the next tick.
    #[cfg(test)]
    pub fn held_back_count(&self) -> usize {
        self.held_back.len()
    }
    #[cfg(test)]
    pub fn deadline_count(&self) -> usize {
        self.deadlines.len()
    }
    /// Transactions sent to leaders of sequences, and how many of them more than once.
    pub fn sent(&self) -> (u64, u64) {
        let sent = self.links.values().map(|link| (link.outbox.sent_count, link.outbox.resent_count));
        sent.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
    pub fn are_links_settled(&self) -> bool {
        self.links.values().all(|link| link.outbox.is_settled())
    }
    /// Nothing waits for anything.
    pub fn is_settled(&self) -> bool {
        self.outstanding.is_empty()
            && self.waiting.is_empty()
            && self.held_back.is_empty()
            && self.gate.is_empty()
            && self.are_links_settled()
    }
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.is_settled() && self.deadlines.is_empty() && self.again.is_empty() && self.moving.is_empty()
    }

    /// Takes a client's transaction. `absent`: why this node answers nobody.
    pub fn submit(
        &mut self,
        now: Time,
        cluster: &Cluster,
        submission: Submission,
        absent: Option<SqlError>,
    ) -> TxnId {
        let id = self.name(cluster);
        let Submission { program, access, token, request, isolation: _ } = submission;
        let limit = cluster.latest_cut(now);
        let refused = if let Some(absent) = absent {
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
        } else if self.waiting.len() >= cluster.options.admission.queue_max {
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
        let min_rank = token.rank.max(self.gate.answered());
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

    /// The transaction moves a partition.
    pub fn moves(&mut self, txn: TxnId, partition: PartitionId, to: RegionId) {
        self.moving.insert(txn, (partition, to));
    }
    pub fn is_moving(&self, txn: TxnId) -> bool {
        self.moving.contains_key(&txn)
    }

    /// A transaction goes to its sequences.
    fn open(
        &mut self,
        now: Time,
        cluster: &Cluster,
        (transaction, request): Named,
        regions: u64,
        submitted_at: Time,
    ) {
        let answering = cluster.answering_region(cluster.me, regions);
        // A change of the catalog is answered once everybody has it: whoever is told of it next plans with it.
        let telling = match is_schema_change(&transaction) {
            true => cluster.witnesses(regions),
            false => 1 << answering.0,
        };
        let missing: Nodes =
            regions_in(telling).flat_map(|region| cluster.nodes_in(region, &transaction)).collect();
        let asks = missing.iter().any(|node| *node != cluster.me);
        let deadline = asks.then(|| now + cluster.options.retry_after_ns(&cluster.topology));
        if let Some(at) = deadline {
            self.deadlines.insert((at, transaction.id), 0);
        }
        let (end, is_unclear, ends, txn) = (None, false, SmallVec::new(), transaction.id);
        let outstanding = Outstanding {
            transaction,
            request,
            submitted_at,
            regions,
            missing,
            ends,
            end,
            is_unclear,
            deadline,
        };
        self.outstanding.insert(txn, outstanding);
    }

    /// Another node leads a sequence, in this term: all that belongs there is sent to it.
    pub fn turn_to(&mut self, cluster: &Cluster, sequence: SequenceId, leader: (NodeId, Term)) {
        self.links.remove(&sequence);
        let bit = sequence.bit();
        let belongs = |outstanding: &&Outstanding| cluster.entrances(outstanding.regions) & bit != 0;
        let concerned = self.outstanding.values().filter(belongs);
        let concerned: Vec<_> = concerned.map(Outstanding::named).collect();
        for named in concerned {
            self.push(cluster, sequence, leader, named);
        }
    }
    /// This node leads the sequence: nothing is sent to anybody.
    pub fn turn_inside(&mut self, sequence: SequenceId) {
        self.links.remove(&sequence);
    }

    /// A transaction is to be sent to the leader of a sequence.
    fn push(&mut self, cluster: &Cluster, sequence: SequenceId, (node, term): (NodeId, Term), named: Named) {
        let patience = cluster.options.patience(&cluster.topology, cluster.me, node);
        let yields = cluster.is_direct();
        let link = self.links.entry(sequence).or_insert_with(|| {
            let outbox = Outbox::new([(node, patience)].into_iter());
            // Baselines are as described: they send what they have.
            let outbox = if yields { outbox.yielding() } else { outbox };
            Link { term, outbox, flush_at: Time::ZERO }
        });
        link.outbox.push(named);
    }

    /// Leaders that were silent too long are sent again what they lack.
    pub fn overdue(&mut self, now: Time) {
        self.links.values_mut().for_each(|link| _ = link.outbox.overdue(now));
    }

    /// Sends what has gathered for sequencers whose links are idle; answers when the others will be. `born`: the life
    /// that this node's memory began with.
    pub fn flush(&mut self, now: Time, born: u32, interval_ns: u64, out: &mut Out) -> Option<Time> {
        let mut next: Option<Time> = None;
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
                let (term, incarnation, sent_at) = (link.term, born, now);
                let message = Message::Submit { sequence, term, incarnation, first, transactions, sent_at };
                out.push(EngineEffect::Send { to, message });
            }
            if link.outbox.has_unsent(|_| end) {
                next = Some(next.map_or(link.flush_at, |at| at.min(link.flush_at)));
            }
        }
        next
    }

    /// The leader of a sequence in this term has everything before `next`.
    pub fn on_submit_ack(
        &mut self,
        now: Time,
        from: NodeId,
        (sequence, term): (SequenceId, Term),
        next: u64,
        (gap, echo): (bool, Time),
    ) {
        if let Some(link) = self.links.get_mut(&sequence).filter(|link| link.term == term) {
            link.outbox.acknowledged(now, from, next, gap, echo);
        }
    }

    /// A node of the answering region tells how a transaction of this gateway ended there; answers how it ended if that
    /// was the last to tell.
    fn told(&mut self, from: NodeId, txn: TxnId, end: (TxnId, Rank), share: Share) -> Option<Outstanding> {
        let outstanding = self.outstanding.get_mut(&txn)?;
        let nth = outstanding.missing.iter().position(|node| *node == from)?;
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
            return None;
        }
        let outstanding = self.outstanding.remove(&txn)?;
        if let Some(at) = outstanding.deadline {
            self.deadlines.remove(&(at, txn));
        }
        Some(outstanding)
    }

    /// All nodes have told how a transaction ended: its client is answered, or it is submitted again.
    fn end(&mut self, now: Time, cluster: &Cluster, end: (TxnId, Rank), outstanding: Outstanding) {
        let Outstanding { transaction, request, submitted_at, regions, ends, is_unclear, .. } = outstanding;
        let is_stale = ends.contains(&Share::Noop);
        if is_stale && !is_bare_move(&transaction) {
            return self.submit_again(cluster, transaction, request, submitted_at);
        }
        let outcome = match is_unclear {
            true => Outcome::Aborted(unknown()),
            false if is_stale => Outcome::Aborted(moved_away()),
            false => merge(ends.into_iter()),
        };
        let homes = cluster.homes(&transaction, regions);
        self.answer(now, transaction.id, end, outcome, homes, submitted_at);
    }

    /// An attempt took no effect because something was not where its gateway took it to be: another one. (A
    /// partition's move is not tried again: whoever wanted it may want something else now.)
    fn submit_again(
        &mut self,
        cluster: &Cluster,
        mut transaction: Transaction,
        request: Option<ClientRequest>,
        submitted_at: Time,
    ) {
        base::sometimes!("a transaction is submitted again because something has moved");
        let before = transaction.id;
        transaction.id = self.name(cluster);
        transaction.homes = None;
        let submitted_as = self.again.remove(&before).unwrap_or(before);
        self.again.insert(transaction.id, submitted_as);
        // The move that it met may be known here and have no place yet: no sooner than with the next tick.
        self.held_back.push(((transaction, request), submitted_at));
    }

    /// Lets those go on that were held back.
    pub fn let_go_on(&mut self) {
        self.waiting.extend(std::mem::take(&mut self.held_back));
    }

    /// Answers a transaction that has not been sent anywhere.
    fn refuse(&mut self, now: Time, cluster: &Cluster, txn: TxnId, error: SqlError, submitted_at: Time) {
        let rank = now.rank() + cluster.clock_bound_ns();
        self.answer(now, txn, (txn, rank), Outcome::Aborted(error), 0, submitted_at);
    }
    /// Answers a transaction that is still under way.
    pub fn answer_unknown(&mut self, now: Time, cluster: &Cluster, txn: TxnId, error: SqlError) {
        let submitted_at = self.outstanding[&txn].submitted_at;
        self.refuse(now, cluster, txn, error, submitted_at);
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
        self.gate.put(Answer { submitted_as, txn, rank, outcome, phases, regions });
    }

    /// Lets out the answers whose rank has passed into the past for every clock; answers when the next one may go.
    pub fn open_gate(&mut self, now: Time, cluster: &Cluster, out: &mut Out) -> Option<Time> {
        let is_gated = !cluster.is_unbounded() && !cluster.options.planted(Mutant::NoReplyGate);
        self.gate.open(now, is_gated.then(|| cluster.clock_bound_ns()), out)
    }

    /// Asks for outcomes that should have come.
    pub fn ask_outcomes(&mut self, now: Time, cluster: &Cluster, todo: &mut Todo<'_>) {
        let survives = cluster.survives();
        while let Some(entry) = self.deadlines.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((_, txn), attempt) = entry.remove_entry();
            base::sometimes!("a gateway asks how its transaction ended");
            let outstanding = self.outstanding.get_mut(&txn).expect("a deadline goes with its transaction");
            let at = now + (cluster.options.retry_after_ns(&cluster.topology) << attempt.min(4));
            outstanding.deadline = Some(at);
            self.deadlines.insert((at, txn), attempt + 1);
            let elsewhere = |node: &NodeId| cluster.topology.region_of(*node) != cluster.region;
            let may_be_lost = survives && attempt > 0;
            if may_be_lost
                && cluster.sequencers[cluster.region.0 as usize].is_some()
                && outstanding.missing.iter().any(elsewhere)
            {
                // One that should answer too may be lost; here the transaction executes as well.
                base::sometimes!("a gateway asks its own region how its transaction ended");
                outstanding.missing = cluster.nodes_in(cluster.region, &outstanding.transaction);
                (outstanding.end, outstanding.is_unclear) = (None, false);
                outstanding.ends.clear();
            }
            for &node in &outstanding.missing {
                todo.send(node, Message::OutcomeWanted { txn });
            }
        }
    }

    /// The least of this gateway's transactions that is not answered, or else its next.
    pub fn unanswered(&self, cluster: &Cluster) -> TxnId {
        let first = self.outstanding.keys().next().copied();
        let waiting =
            self.waiting.iter().chain(&self.held_back).map(|((transaction, _), _)| transaction.id).min();
        let (coordinator, incarnation) = (cluster.me, self.incarnation);
        let next = TxnId { coordinator, incarnation, sequence: self.count + 1 };
        [self.gate.first(), first, waiting].into_iter().flatten().fold(next, TxnId::min)
    }
}

/// Whether every region tells the gateway how it ended there.
pub(super) fn is_schema_change(transaction: &Transaction) -> bool {
    transaction.program.schema_change().is_some()
}
