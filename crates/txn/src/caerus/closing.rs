//! A reader closes a rank at a partition of this node, for what it reads.
//!
//! IN: cuts that readers ask for, closed timestamps, transactions that were ranked or have executed. OUT: answers; leaders
//! asked for their closed timestamps. KEEPS: once `Closed` is answered for t, no transaction that writes those granules appears here at or
//! below t. First the sequences that order what is read must be complete to t: their closed timestamp reaches t, and all
//! entries before that are here. Then whoever is among them, has not executed here, writes what is read
//! and may be ranked at or below t is waited for. Whoever is known to be ranked above t is not (Rule 2).
//! Sequences that nothing is read of are not asked anything: a stalled region delays its readers alone.

use super::claims::Claims;
use super::cluster::Cluster;
use super::context::Context;
use super::merger::Merger;
use super::message::{SequenceId, sequences_in};
use super::options::Mutant;
use crate::engine::Answered;
use crate::graph::vertex::{Ref, State};
use base::order::{Close, CloseTicket, Closed};
use base::txn::Granule;
use base::{NodeId, PartitionId, Rank, SqlError, SqlState, Time};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Readers that close a rank here.
#[derive(Clone, Debug, Default)]
pub(super) struct Closes {
    waiting: BTreeMap<CloseTicket, Closing>,
    /// Readers to look at again when this slot changes.
    behind: BTreeMap<u32, Vec<CloseTicket>>,
    /// By sequence: those that wait for it to be complete to a rank.
    by_sequence: BTreeMap<SequenceId, BTreeSet<(Rank, CloseTicket)>>,
    /// By sequence and copy: the largest rank that a reader here has had hastened.
    hastened: BTreeMap<(SequenceId, NodeId), Rank>,
    /// When closed timestamps were asked for again, and which.
    asked: BTreeMap<SequenceId, (Time, Rank)>,
}

/// The reader, if it has to be looked at again because something that it reads has moved.
pub(super) type Moved = Option<CloseTicket>;

/// A reader's transaction may still be ranked at or below its cut.
pub(super) struct StillWaits;

impl Closes {
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.behind.is_empty()
    }
    /// The largest rank that a reader waits for a sequence to be complete to.
    pub fn closed_wanted(&self, sequence: SequenceId) -> Option<Rank> {
        Some(self.by_sequence.get(&sequence)?.last()?.0)
    }
    /// The reader went away.
    pub fn cancel(&mut self, ticket: CloseTicket) {
        let Some(closing) = self.waiting.remove(&ticket) else { return };
        for sequence in sequences_in(closing.missing) {
            if let Some(waiting) = self.by_sequence.get_mut(&sequence) {
                waiting.remove(&(closing.close.rank, ticket));
            }
        }
        self.behind.retain(|_, tickets| {
            tickets.retain(|other| *other != ticket);
            !tickets.is_empty()
        });
    }
}

/// A reader that waits.
#[derive(Clone, Debug)]
struct Closing {
    close: Close,
    /// Where what is read was homed when this was looked at last.
    homes: Claims,
    /// Its sequences that are not known to be complete.
    missing: u64,
    /// Transactions it waits for, once the sequence is complete.
    blockers: Option<usize>,
}

impl Closes {
    /// A reader asks for a rank to be closed; whether it has to be looked at, or is answered.
    pub fn open(&mut self, now: Time, ticket: CloseTicket, close: Close, cx: &mut Context<'_>) -> bool {
        let limit = cx.cluster.latest_cut(now);
        if close.rank > limit {
            let error = SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "the cut asked for lies too far in the future",
            );
            let error = error
                .detail(format!("Its rank is {}, the largest acceptable one {limit}.", close.rank))
                .hint("The session's token comes from another cluster, or a clock is out of its bound.");
            cx.answer(ticket, Err(error));
            return false;
        }
        assert!(cx.cluster.is_local(close.partition), "a partition is closed where there is a copy");
        if cx.cluster.options.planted(Mutant::PrefixReads) {
            closed(ticket, close.partition, cx);
            return false;
        }
        self.waiting.insert(ticket, Closing { close, homes: Claims::new(), missing: 0, blockers: None });
        true
    }

    /// Looks where what is read is homed now: the sequences, as bits, that have to be complete to the cut.
    pub fn begin(&mut self, ticket: CloseTicket, cx: &Context<'_>) -> Option<(u64, Rank)> {
        let closing = self.waiting.get_mut(&ticket)?;
        let (partition, rank) = (closing.close.partition, closing.close.rank);
        let homes = cx.residences.read(partition, &closing.close.granules);
        // Where a move's place above the cut is known, everything before is.
        let read = homes.iter().filter(|(table, _)| !cx.residences.moved_later(partition, *table, rank));
        let sequences = read.fold(0u64, |all, (_, home)| all | SequenceId::of(*home).bit());
        (closing.homes, closing.blockers) = (homes, None);
        Some((sequences, rank))
    }

    /// Waits for these sequences to be complete, then for who is in flight. What this node leads has promised as much
    /// as it may.
    pub fn wait(&mut self, ticket: CloseTicket, sequences: u64, cx: &mut Context<'_>) -> Moved {
        let Some(closing) = self.waiting.get_mut(&ticket) else { return None };
        let rank = closing.close.rank;
        let is_missing = |sequence: &SequenceId| cx.logs.of(*sequence).closed() < rank;
        let missing = sequences_in(sequences).filter(is_missing).fold(0u64, |all, s| all | s.bit());
        closing.missing = missing;
        if missing == 0 {
            return self.all_reached(ticket, cx);
        }
        if self.refuses_sequences(ticket, missing, cx) {
            return None;
        }
        base::sometimes!("a reader waits for a sequence to be complete");
        for number in sequences_in(missing) {
            let is_asked = self.closed_wanted(number).is_some_and(|asked| rank <= asked);
            self.by_sequence.entry(number).or_default().insert((rank, ticket));
            if !is_asked && !cx.logs.leads(number) {
                cx.want_closed(number, rank, cx.cluster.me);
            }
        }
        None
    }

    /// The closed timestamp of a sequence is told: those that waited for that, in order.
    pub fn due(&mut self, sequence: SequenceId, closed: Rank) -> SmallVec<[CloseTicket; 4]> {
        let mut due = SmallVec::new();
        let Some(waiting) = self.by_sequence.get_mut(&sequence) else { return due };
        while waiting.first().is_some_and(|(rank, _)| *rank <= closed) {
            due.extend(waiting.pop_first().map(|(_, ticket)| ticket));
        }
        due
    }

    /// A sequence is complete to the reader's cut.
    pub fn is_complete(&mut self, sequence: SequenceId, ticket: CloseTicket, cx: &mut Context<'_>) -> Moved {
        let Some(closing) = self.waiting.get_mut(&ticket) else { return None };
        closing.missing &= !(sequence.bit());
        match closing.missing {
            0 => self.all_reached(ticket, cx),
            _ => None,
        }
    }

    /// A reader of this node asks a copy elsewhere to close a rank; whether that is news for the sequence's leader.
    pub fn hastens(&mut self, sequence: SequenceId, at: NodeId, rank: Rank) -> bool {
        let known = self.hastened.get(&(sequence, at)).is_some_and(|known| rank <= *known);
        if !known {
            self.hastened.insert((sequence, at), rank);
        }
        !known
    }

    /// Whether to ask again for a closed timestamp that was not told within the patience that one has with its leader.
    pub fn asks_again(&mut self, now: Time, sequence: SequenceId, rank: Rank, patience_ns: u64) -> bool {
        let asked = self.asked.get(&sequence);
        let is_due = asked.is_none_or(|(at, before)| *at + patience_ns <= now || *before < rank);
        if is_due {
            self.asked.insert(sequence, (now, rank));
        }
        is_due
    }

    /// The sequences are complete to the reader's cut: who is in flight?
    fn all_reached(&mut self, ticket: CloseTicket, cx: &mut Context<'_>) -> Moved {
        let Some(closing) = self.waiting.get(&ticket) else { return None };
        let Close { partition, rank, granules } = &closing.close;
        let undecided = cx.merger.pending_to(*rank).map(|(_, at)| at);
        let holds_up = |at: &Ref| holds_up(cx.cluster, cx.merger, *at, *partition, *rank, granules);
        let blockers: Vec<Ref> = undecided.filter(holds_up).collect();
        if blockers.is_empty() {
            return self.nobody_left(ticket, cx);
        }
        if self.refuses_blocked(ticket, blockers.iter().copied(), cx) {
            return None;
        }
        base::sometimes!("a reader waits for a writer in flight");
        let closing = self.waiting.get_mut(&ticket).expect("just found");
        closing.blockers = Some(blockers.len());
        for at in blockers {
            self.behind.entry(at.slot).or_default().push(ticket);
        }
        None
    }

    /// A transaction's bound was raised, or it got its place, or it executed: takes the readers that wait for it.
    pub fn take_behind(&mut self, at: Ref) -> Vec<CloseTicket> {
        self.behind.remove(&at.slot).unwrap_or_default()
    }
    /// These still wait for it.
    pub fn put_behind(&mut self, at: Ref, still: Vec<CloseTicket>) {
        if !still.is_empty() {
            self.behind.entry(at.slot).or_default().extend(still);
        }
    }
    /// A reader that waited for this transaction goes on. Errors: it still has to wait.
    pub fn go_on(&mut self, at: Ref, ticket: CloseTicket, cx: &mut Context<'_>) -> Result<Moved, StillWaits> {
        let Some(closing) = self.waiting.get_mut(&ticket) else { return Ok(None) };
        if may_be_within(cx.merger, at, closing.close.rank) {
            return Err(StillWaits);
        }
        let blockers = closing.blockers.as_mut().expect("it waits for transactions");
        *blockers -= 1;
        Ok(if *blockers == 0 { self.nobody_left(ticket, cx) } else { None })
    }
    /// Whether some reader waits for transactions.
    pub fn waits_for_some(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Everybody who was in flight has executed, or is ranked above. What is read may have moved meanwhile.
    fn nobody_left(&mut self, ticket: CloseTicket, cx: &mut Context<'_>) -> Moved {
        let Closing { close: Close { partition, granules, .. }, homes, .. } = &self.waiting[&ticket];
        let partition = *partition;
        let has_moved = cx.residences.read(partition, granules) != *homes;
        if has_moved && !cx.cluster.options.planted(Mutant::CloseAtOldHome) {
            base::sometimes!("something moves while a reader closes it");
            return Some(ticket);
        }
        self.waiting.remove(&ticket);
        closed(ticket, partition, cx);
        None
    }

    /// Refuses those readers that wait for what has turned out to be lost.
    pub fn refuse_lost(&mut self, cx: &mut Context<'_>) {
        let missing = self.waiting.iter().filter(|(_, closing)| closing.missing != 0);
        let missing: Vec<_> = missing.map(|(ticket, closing)| (*ticket, closing.missing)).collect();
        for (ticket, missing) in missing {
            self.refuses_sequences(ticket, missing, cx);
        }
        let waits = self.behind.iter().map(|(slot, tickets)| (cx.merger.graph().at(*slot), tickets.clone()));
        for (at, tickets) in waits.collect::<Vec<_>>() {
            for ticket in tickets {
                if self.waiting.contains_key(&ticket) {
                    self.refuses_blocked(ticket, std::iter::once(at), cx);
                }
            }
        }
    }

    /// Refuses a reader if it needs one of these sequences and that is lost; whether it did.
    fn refuses_sequences(&mut self, ticket: CloseTicket, missing: u64, cx: &mut Context<'_>) -> bool {
        let lost = missing & cx.availability.lost();
        if lost != 0 && cx.cluster.options.planted(Mutant::ReadWithoutLost) {
            // It goes on with what is here.
            let partition = self.waiting[&ticket].close.partition;
            self.cancel(ticket);
            closed(ticket, partition, cx);
        } else if lost != 0 {
            let what = "What is read is ordered there, and what it ordered last is not known here.";
            self.refuse(ticket, lost, what, cx);
        }
        lost != 0
    }

    /// Refuses a reader if one of those that it waits for is blocked; whether it did.
    fn refuses_blocked(
        &mut self,
        ticket: CloseTicket,
        blockers: impl Iterator<Item = Ref>,
        cx: &mut Context<'_>,
    ) -> bool {
        let sequences = blockers.fold(0, |all, at| all | cx.availability.awaited_by(at));
        if sequences != 0 {
            let what = "A transaction that waits for that region writes what is read.";
            self.refuse(ticket, sequences, what, cx);
        }
        sequences != 0
    }

    /// Tells a reader which regions it needs, or waits for, that are lost.
    fn refuse(&mut self, ticket: CloseTicket, sequences: u64, what: &str, cx: &mut Context<'_>) {
        base::sometimes!("a reader of what a lost region orders is refused");
        let error = cx.availability.refuse(cx.cluster, sequences, what);
        self.cancel(ticket);
        cx.answer(ticket, Err(error));
    }
}

fn closed(ticket: CloseTicket, partition: PartitionId, cx: &mut Context<'_>) {
    let (position, _) = cx.scheduler.log(partition);
    cx.answer(ticket, Ok(Answered::Closed(Closed { position })));
}

/// The largest rank up to `rank` that is closed here for good. The sequences of all that is homed in the
/// partition are complete to `rank`.
pub(super) fn safe_below(cluster: &Cluster, merger: &Merger, rank: Rank, partition: PartitionId) -> Rank {
    let whole = [Granule::Partition];
    let mut undecided = merger.pending_to(rank);
    let first = undecided.find(|(_, at)| holds_up(cluster, merger, *at, partition, rank, &whole));
    first.map_or(rank, |(bound, _)| bound.previous())
}

/// Whether an unexecuted transaction of the sequence writes what is read and may be ranked at or below
/// the cut.
fn holds_up(
    cluster: &Cluster,
    merger: &Merger,
    at: Ref,
    partition: PartitionId,
    rank: Rank,
    granules: &[Granule],
) -> bool {
    !cluster.options.planted(Mutant::CloseIgnoresUndecided)
        && may_be_within(merger, at, rank)
        && merger.writes(cluster, at, partition, granules)
}

fn may_be_within(merger: &Merger, at: Ref, rank: Rank) -> bool {
    let vertex = merger.vertex(at);
    match vertex.state {
        State::Executed | State::Done => false,
        _ => vertex.rank.unwrap_or(vertex.bound) <= rank,
    }
}
