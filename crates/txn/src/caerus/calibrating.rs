//! How late a cut has to be, where nobody can tell by the clock (PERSEUS' calibration, for partial sequences).
//!
//! IN: a reader's question, after it has arrived; what the leaders of the sequences say that order what it reads. OUT:
//! a rank. KEEPS: whatever was answered before the question came and writes what is read is ranked at or below the
//! answer. It has an entry in one of these sequences, appended before its answer, so before the sequence's end at any
//! later moment. So each leader is asked where its sequence ends ([`Message::Calibrate`]); once all entries before
//! that are merged here and those among them that write what is read have their ranks, the largest of these ranks will
//! do. Nothing about "answered" has to be known. Whoever is in flight is waited for, because it may be.
//!
//! - A question that leaves serves whoever had come by then, never those who come later: a heartbeat's interval apart,
//!   so their number does not grow with the readers'.
//! - A leader that others may have replaced without its knowing has not everything that was answered. So where regions
//!   may be lost it tells the end only after K others have confirmed that they follow it, asked after the question
//!   came: with itself that is one more than a later leader can do without. No lease by time is trusted.
//! - Entries that a later leader did not take over are not waited for: they were never stable, so nobody was answered.
//! - The answer is not below what this node has reported to be collectable.

use super::claims::Claims;
use super::message::{Message, SequenceId, Term};
use super::options::Mutant;
use super::state::{Caerus, Out, sequences_in};
use crate::engine::{Answered, EngineEffect};
use crate::graph::vertex::Ref;
use base::order::CloseTicket;
use base::txn::{AccessMode, Granule};
use base::{NodeId, PartitionId, Rank, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Readers that find their cut, and what is asked for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    waiting: BTreeMap<CloseTicket, Finding>,
    asked: BTreeMap<SequenceId, Calibrations>,
    /// Readers that have come to know another home since, which is not asked yet.
    later: Vec<(SequenceId, CloseTicket)>,
    /// When lows were asked for, and which.
    lows_asked: BTreeMap<SequenceId, (Time, Rank)>,
}

impl Findings {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// The reader went away.
    pub fn cancel(&mut self, ticket: CloseTicket) {
        self.waiting.remove(&ticket);
    }
}

/// A reader that wants to know.
#[derive(Clone, Debug)]
struct Finding {
    partition: PartitionId,
    granules: Vec<Granule>,
    /// Where what it reads was homed, as far as was known when it asked.
    homes: Claims,
    /// Of these, those whose end is not merged here, and where it is once that is known.
    open: BTreeMap<SequenceId, Option<(Term, u64)>>,
    /// Transactions that it waits for, once all is merged.
    blockers: Option<BTreeSet<u32>>,
}

/// Questions to the leader of one sequence.
#[derive(Clone, Debug, Default)]
struct Calibrations {
    /// Of the last question.
    number: u64,
    sent_at: Time,
    /// Whom the answer to each serves, as well as those before.
    under_way: BTreeMap<u64, Vec<CloseTicket>>,
    /// Came since.
    gathered: Vec<CloseTicket>,
}

impl Caerus {
    pub(super) fn find_latest(
        &mut self,
        now: Time,
        ticket: CloseTicket,
        (partition, granules): (PartitionId, Vec<Granule>),
        out: &mut Out,
    ) {
        assert!(self.cluster.is_local(partition), "it is found where there is a copy");
        let homes = self.residences.read(partition, &granules);
        let sequences = sequences_of(&homes);
        let open = sequences_in(sequences).map(|sequence| (sequence, None)).collect();
        self.findings.waiting.insert(ticket, Finding { partition, granules, homes, open, blockers: None });
        for sequence in sequences_in(sequences) {
            self.want_end(now, sequence, ticket, out);
        }
    }

    /// A reader wants to know where a sequence ends.
    fn want_end(&mut self, now: Time, sequence: SequenceId, ticket: CloseTicket, out: &mut Out) {
        if self.cluster.options.planted(Mutant::CalibrateHere) {
            let log = self.logs.of(sequence);
            let (term, end) = (log.accepted(), log.merged());
            return self.end_is(sequence, &[ticket], (term, end), out);
        }
        let gap_ns = self.cluster.options.heartbeat_ns;
        let log = self.logs.of(sequence);
        if let Some(term) = log.term()
            && log.is_open()
            && self.cluster.copies_of(sequence) == 0
        {
            let end = log.end();
            return self.end_is(sequence, &[ticket], (term, end), out);
        }
        let asked = self.findings.asked.entry(sequence).or_default();
        asked.gathered.push(ticket);
        if asked.sent_at + gap_ns <= now {
            self.ask_end(now, sequence, out);
        } else {
            base::sometimes!("readers wait for one calibration together");
        }
    }

    fn ask_end(&mut self, now: Time, sequence: SequenceId, out: &mut Out) {
        let leader = self.leader_of(sequence);
        let asked = self.findings.asked.entry(sequence).or_default();
        if !asked.gathered.is_empty() {
            // Numbers go on above those of a former life, which may still be answered.
            asked.number = (asked.number + 1).max(now.0);
            let gathered = std::mem::take(&mut asked.gathered);
            asked.under_way.insert(asked.number, gathered);
        }
        asked.sent_at = now;
        let number = asked.number;
        self.send(leader, Message::Calibrate { sequence, number }, out);
    }

    /// Asks for those who have gathered, and again where no answer has come.
    pub(super) fn ask_ends(&mut self, now: Time, out: &mut Out) {
        let is_due = |(sequence, asked): (&SequenceId, &Calibrations)| {
            let patience_ns = self.cluster.options.patience_ns(
                &self.cluster.topology,
                self.cluster.me,
                self.leader_of(*sequence),
            );
            let overdue = !asked.under_way.is_empty() && asked.sent_at + patience_ns <= now;
            (overdue || !asked.gathered.is_empty()).then_some(*sequence)
        };
        let due: Vec<SequenceId> = self.findings.asked.iter().filter_map(is_due).collect();
        due.into_iter().for_each(|sequence| self.ask_end(now, sequence, out));
    }

    /// To the leader: where does the sequence end?
    pub(super) fn on_calibrate(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: SequenceId,
        number: u64,
        out: &mut Out,
    ) {
        if self.logs.get(sequence).is_some() {
            self.log(sequence, out, |log, posts| log.on_calibrate(now, from, number, posts));
        }
    }

    /// A leader tells where its sequence ended, some time after the question left.
    pub(super) fn on_calibrated(
        &mut self,
        sequence: SequenceId,
        number: u64,
        (term, end): (Term, u64),
        out: &mut Out,
    ) {
        let late = self.cluster.options.planted(Mutant::CalibrateBeforeArrival);
        let Some(asked) = self.findings.asked.get_mut(&sequence) else { return };
        let later = asked.under_way.split_off(&(number + 1));
        let mut served: Vec<CloseTicket> =
            std::mem::replace(&mut asked.under_way, later).into_values().flatten().collect();
        if late {
            served.extend(std::mem::take(&mut asked.under_way).into_values().flatten());
            served.append(&mut asked.gathered);
        }
        self.end_is(sequence, &served, (term, end), out);
    }

    fn end_is(&mut self, sequence: SequenceId, served: &[CloseTicket], end: (Term, u64), out: &mut Out) {
        for ticket in served {
            if let Some(finding) = self.findings.waiting.get_mut(ticket)
                && let Some(open) = finding.open.get_mut(&sequence)
            {
                *open = Some(end);
            }
        }
        self.merged_more(sequence, out);
    }

    /// More of a sequence is merged here, or its log is a later leader's.
    pub(super) fn merged_more(&mut self, sequence: SequenceId, out: &mut Out) {
        if self.findings.waiting.is_empty() {
            return;
        }
        let known = self.logs.of(sequence);
        let mut all = Vec::new();
        for (ticket, finding) in &mut self.findings.waiting {
            let Some(Some((term, end))) = finding.open.get(&sequence) else { continue };
            if known.covers(*term, *end) {
                finding.open.remove(&sequence);
                if finding.open.is_empty() {
                    all.push(*ticket);
                }
            }
        }
        all.into_iter().for_each(|ticket| self.all_merged(ticket, out));
    }

    /// All that it may have to see is here: who of it has no rank?
    fn all_merged(&mut self, ticket: CloseTicket, out: &mut Out) {
        let finding = &self.findings.waiting[&ticket];
        let unranked = |at: &Ref| {
            let vertex = self.merger.vertex(*at);
            let transaction = vertex.transaction.as_ref().expect("entries carry whole transactions");
            let mut writes = transaction.access.at(finding.partition).iter().filter(|a| {
                a.mode == AccessMode::Write
                    && self.cluster.is_ordered_for(
                        transaction,
                        finding.partition,
                        &a.granule,
                        vertex.extra.got,
                    )
            });
            vertex.rank.is_none()
                && writes.any(|write| finding.granules.iter().any(|granule| granule.overlaps(&write.granule)))
        };
        let mut blockers: BTreeSet<u32> = self.merger.pending().filter(unranked).map(|at| at.slot).collect();
        if self.cluster.options.planted(Mutant::RanksNotAwaited) {
            blockers.clear();
        }
        if !blockers.is_empty() {
            base::sometimes!("a reader waits for the rank of a transaction in flight");
        }
        let is_found = blockers.is_empty();
        self.findings.waiting.get_mut(&ticket).expect("just found").blockers = Some(blockers);
        if is_found {
            self.found(ticket, out);
        }
    }

    /// A transaction has its rank.
    pub(super) fn ranked(&mut self, at: Ref, out: &mut Out) {
        if self.findings.waiting.is_empty() {
            return;
        }
        let mut found = Vec::new();
        for (ticket, finding) in &mut self.findings.waiting {
            if let Some(blockers) = &mut finding.blockers
                && blockers.remove(&at.slot)
                && blockers.is_empty()
            {
                found.push(*ticket);
            }
        }
        found.into_iter().for_each(|ticket| self.found(ticket, out));
    }

    fn found(&mut self, ticket: CloseTicket, out: &mut Out) {
        let Finding { partition, granules, homes, .. } = &self.findings.waiting[&ticket];
        let partition = *partition;
        let homes_now = self.residences.read(partition, granules);
        if homes_now != *homes {
            // Somebody may have been answered at the new home; and it is known here now.
            base::sometimes!("something moves while a reader finds its cut");
            let sequences = sequences_of(&homes_now);
            let finding = self.findings.waiting.get_mut(&ticket).expect("just found");
            finding.homes = homes_now;
            finding.open = sequences_in(sequences).map(|sequence| (sequence, None)).collect();
            finding.blockers = None;
            self.findings.later.extend(sequences_in(sequences).map(|sequence| (sequence, ticket)));
            return;
        }
        self.findings.waiting.remove(&ticket);
        let (_, executed) = self.scheduler.log(partition);
        let takes_part = |at: &Ref| self.merger.vertex(*at).participants.contains(partition);
        let pending = self.merger.pending().filter(takes_part);
        let placed = pending.filter_map(|at| self.merger.vertex(at).rank);
        let rank = placed.fold(executed.max(self.least_cut_here()), Rank::max);
        out.push(EngineEffect::Answered { ticket, result: Ok(Answered::Rank(rank)) });
    }

    /// Asks the homes that readers have come to know meanwhile.
    pub(super) fn want_later(&mut self, now: Time, out: &mut Out) {
        for (sequence, ticket) in std::mem::take(&mut self.findings.later) {
            self.want_end(now, sequence, ticket, out);
        }
    }

    /// No cut of this node, now or later, is below; where clocks are bounded they see to that.
    pub(super) fn least_cut_here(&self) -> Rank {
        if self.cluster.is_replica { self.executed_to().unwrap_or_default() } else { self.collector.ready() }
    }

    /// Asks again for lows that readers here wait for: a clock elsewhere may never come to them by itself.
    pub(super) fn ask_lows(&mut self, now: Time, out: &mut Out) {
        if !self.cluster.is_unbounded() {
            return;
        }
        for n in 0..self.logs.len() {
            let sequence = SequenceId(n as u16);
            let Some(rank) = self.closes.low_wanted(sequence) else { continue };
            if self.logs.leads(sequence) {
                self.want_own_low(now, sequence, rank, out);
                continue;
            }
            let patience_ns = self.cluster.options.patience_ns(
                &self.cluster.topology,
                self.cluster.me,
                self.leader_of(sequence),
            );
            let asked = self.findings.lows_asked.get(&sequence);
            if asked.is_none_or(|(at, before)| *at + patience_ns <= now || *before < rank) {
                self.findings.lows_asked.insert(sequence, (now, rank));
                let leader = self.leader_of(sequence);
                self.send(leader, Message::LowWanted { sequence, rank, at: self.cluster.me }, out);
            }
        }
    }
}

/// As bits.
fn sequences_of(homes: &Claims) -> u64 {
    homes.iter().fold(0, |all, (_, home)| all | SequenceId::of(*home).bit())
}
