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
use super::context::Context;
use super::message::{Message, SequenceId, Term, sequences_in};
use super::options::Mutant;
use crate::engine::Answered;
use crate::graph::vertex::Ref;
use base::order::CloseTicket;
use base::txn::Granule;
use base::{PartitionId, Rank, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Readers that find their cut, and what is asked for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    waiting: BTreeMap<CloseTicket, Finding>,
    asked: BTreeMap<SequenceId, Calibrations>,
    /// Readers that have come to know another home since, which is not asked yet.
    later: Vec<(SequenceId, CloseTicket)>,
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

impl Findings {
    /// A reader wants to know how late its cut has to be.
    pub fn open(
        &mut self,
        now: Time,
        ticket: CloseTicket,
        (partition, granules): (PartitionId, Vec<Granule>),
        cx: &mut Context<'_>,
    ) {
        assert!(cx.cluster.is_local(partition), "it is found where there is a copy");
        let homes = cx.residences.read(partition, &granules);
        let sequences = sequences_of(&homes);
        let open = sequences_in(sequences).map(|sequence| (sequence, None)).collect();
        self.waiting.insert(ticket, Finding { partition, granules, homes, open, blockers: None });
        for sequence in sequences_in(sequences) {
            self.want_end(now, sequence, ticket, cx);
        }
    }

    /// A reader wants to know where a sequence ends.
    fn want_end(&mut self, now: Time, sequence: SequenceId, ticket: CloseTicket, cx: &mut Context<'_>) {
        let log = cx.logs.of(sequence);
        if cx.cluster.options.planted(Mutant::CalibrateHere) {
            return self.end_is(sequence, &[ticket], (log.accepted(), log.merged()), cx);
        }
        if let Some(term) = log.term()
            && log.is_open()
            && cx.cluster.copies_of(sequence) == 0
        {
            return self.end_is(sequence, &[ticket], (term, log.end()), cx);
        }
        let asked = self.asked.entry(sequence).or_default();
        asked.gathered.push(ticket);
        if asked.sent_at + cx.cluster.options.heartbeats.every_ns <= now {
            self.ask_end(now, sequence, cx);
        } else {
            base::sometimes!("readers wait for one calibration together");
        }
    }

    fn ask_end(&mut self, now: Time, sequence: SequenceId, cx: &mut Context<'_>) {
        let asked = self.asked.entry(sequence).or_default();
        if !asked.gathered.is_empty() {
            // Numbers go on above those of a former life, which may still be answered.
            asked.number = (asked.number + 1).max(now.0);
            let gathered = std::mem::take(&mut asked.gathered);
            asked.under_way.insert(asked.number, gathered);
        }
        asked.sent_at = now;
        let leader = cx.logs.of(sequence).leader();
        cx.todo.send(leader, Message::Calibrate { sequence, number: asked.number });
    }

    /// Asks for those who have gathered, and again where no answer has come.
    pub fn ask_ends(&mut self, now: Time, cx: &mut Context<'_>) {
        let is_due = |(sequence, asked): (&SequenceId, &Calibrations)| {
            let overdue = !asked.under_way.is_empty() && asked.sent_at + cx.patience_ns(*sequence) <= now;
            (overdue || !asked.gathered.is_empty()).then_some(*sequence)
        };
        let due: Vec<SequenceId> = self.asked.iter().filter_map(is_due).collect();
        due.into_iter().for_each(|sequence| self.ask_end(now, sequence, cx));
    }

    /// A leader tells where its sequence ended, some time after the question left.
    pub fn on_calibrated(
        &mut self,
        sequence: SequenceId,
        number: u64,
        end: (Term, u64),
        cx: &mut Context<'_>,
    ) {
        let late = cx.cluster.options.planted(Mutant::CalibrateBeforeArrival);
        let Some(asked) = self.asked.get_mut(&sequence) else { return };
        let later = asked.under_way.split_off(&(number + 1));
        let mut served: Vec<CloseTicket> =
            std::mem::replace(&mut asked.under_way, later).into_values().flatten().collect();
        if late {
            served.extend(std::mem::take(&mut asked.under_way).into_values().flatten());
            served.append(&mut asked.gathered);
        }
        self.end_is(sequence, &served, end, cx);
    }

    fn end_is(
        &mut self,
        sequence: SequenceId,
        served: &[CloseTicket],
        end: (Term, u64),
        cx: &mut Context<'_>,
    ) {
        for ticket in served {
            if let Some(finding) = self.waiting.get_mut(ticket)
                && let Some(open) = finding.open.get_mut(&sequence)
            {
                *open = Some(end);
            }
        }
        self.merged_more(sequence, cx);
    }

    /// More of a sequence is merged here, or its log is a later leader's.
    pub fn merged_more(&mut self, sequence: SequenceId, cx: &mut Context<'_>) {
        let known = cx.logs.of(sequence);
        let mut all = Vec::new();
        for (ticket, finding) in &mut self.waiting {
            let Some(Some((term, end))) = finding.open.get(&sequence) else { continue };
            if known.covers(*term, *end) {
                finding.open.remove(&sequence);
                if finding.open.is_empty() {
                    all.push(*ticket);
                }
            }
        }
        all.into_iter().for_each(|ticket| self.all_merged(ticket, cx));
    }

    /// All that it may have to see is here: who of it has no rank?
    fn all_merged(&mut self, ticket: CloseTicket, cx: &mut Context<'_>) {
        let finding = self.waiting.get_mut(&ticket).expect("just found");
        let Finding { partition, granules, .. } = &*finding;
        let unranked = |at: &Ref| {
            cx.merger.vertex(*at).rank.is_none() && cx.merger.writes(cx.cluster, *at, *partition, granules)
        };
        let mut blockers: BTreeSet<u32> = cx.merger.pending().filter(unranked).map(|at| at.slot).collect();
        if cx.cluster.options.planted(Mutant::RanksNotAwaited) {
            blockers.clear();
        }
        if !blockers.is_empty() {
            base::sometimes!("a reader waits for the rank of a transaction in flight");
        }
        let is_found = blockers.is_empty();
        finding.blockers = Some(blockers);
        if is_found {
            self.found(ticket, cx);
        }
    }

    /// A transaction has its rank.
    pub fn ranked(&mut self, at: Ref, cx: &mut Context<'_>) {
        let mut found = Vec::new();
        for (ticket, finding) in &mut self.waiting {
            if let Some(blockers) = &mut finding.blockers
                && blockers.remove(&at.slot)
                && blockers.is_empty()
            {
                found.push(*ticket);
            }
        }
        found.into_iter().for_each(|ticket| self.found(ticket, cx));
    }

    fn found(&mut self, ticket: CloseTicket, cx: &mut Context<'_>) {
        let finding = self.waiting.get_mut(&ticket).expect("just found");
        let partition = finding.partition;
        let homes_now = cx.residences.read(partition, &finding.granules);
        if homes_now != finding.homes {
            // Somebody may have been answered at the new home; and it is known here now.
            base::sometimes!("something moves while a reader finds its cut");
            let sequences = sequences_of(&homes_now);
            finding.homes = homes_now;
            finding.open = sequences_in(sequences).map(|sequence| (sequence, None)).collect();
            finding.blockers = None;
            self.later.extend(sequences_in(sequences).map(|sequence| (sequence, ticket)));
            return;
        }
        self.waiting.remove(&ticket);
        let (_, executed) = cx.scheduler.log(partition);
        let takes_part = |at: &Ref| cx.merger.vertex(*at).participants.contains(partition);
        let pending = cx.merger.pending().filter(takes_part);
        let placed = pending.filter_map(|at| cx.merger.vertex(at).rank);
        let rank = placed.fold(executed.max(cx.least_cut()), Rank::max);
        cx.answer(ticket, Ok(Answered::Rank(rank)));
    }

    /// Asks the homes that readers have come to know meanwhile.
    pub fn want_later(&mut self, now: Time, cx: &mut Context<'_>) {
        for (sequence, ticket) in std::mem::take(&mut self.later) {
            self.want_end(now, sequence, ticket, cx);
        }
    }
}

/// As bits.
fn sequences_of(homes: &Claims) -> u64 {
    homes.iter().fold(0, |all, (_, home)| all | SequenceId::of(*home).bit())
}
