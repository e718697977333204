//! A reader closes a rank at a partition of this node, for what it reads.
//!
//! KEEPS: once `Closed` is answered for t, no transaction that writes those granules appears here at or
//! below t. First the sequences that order what is read must be complete to t: their `low` reaches t, and all
//! entries before that are here. Then whoever is among them, has not executed here, writes what is read
//! and may be ranked at or below t is waited for. Whoever is known to be ranked above t is not (Rule 2).
//! Sequences that nothing is read of are not asked anything: a stalled region delays its readers alone.

use super::claims::Claims;
use super::message::{Message, SequenceId};
use super::options::Mutant;
use super::state::{Caerus, Out, sequences_in};
use crate::engine::{Answered, EngineEffect};
use crate::graph::vertex::{Ref, State};
use base::order::{Close, CloseTicket, Closed};
use base::txn::{AccessMode, Granule};
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
    lows: BTreeMap<SequenceId, BTreeSet<(Rank, CloseTicket)>>,
    /// By sequence and copy: the largest rank that a reader here has had hastened.
    hastened: BTreeMap<(SequenceId, NodeId), Rank>,
}

impl Closes {
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.behind.is_empty()
    }
    /// Readers that wait for transactions, by whom they wait for.
    pub fn behind(&self) -> impl Iterator<Item = (u32, &[CloseTicket])> {
        self.behind.iter().map(|(slot, tickets)| (*slot, &tickets[..]))
    }
    pub fn is_waiting(&self, ticket: CloseTicket) -> bool {
        self.waiting.contains_key(&ticket)
    }
    /// Readers that wait for sequences, and which.
    pub fn missing(&self) -> impl Iterator<Item = (CloseTicket, u64)> + '_ {
        let waiting = self.waiting.iter().filter(|(_, closing)| closing.missing != 0);
        waiting.map(|(ticket, closing)| (*ticket, closing.missing))
    }
    /// The largest rank that a reader waits for a sequence to be complete to.
    pub fn low_wanted(&self, sequence: SequenceId) -> Option<Rank> {
        Some(self.lows.get(&sequence)?.last()?.0)
    }
    /// A sequence is complete to `low`: takes one of the readers that waited for that, in order.
    fn due(&mut self, sequence: SequenceId, low: Rank) -> Option<CloseTicket> {
        let waiting = self.lows.get_mut(&sequence)?;
        waiting.first().filter(|(rank, _)| *rank <= low)?;
        waiting.pop_first().map(|(_, ticket)| ticket)
    }
    /// The reader went away.
    pub fn cancel(&mut self, ticket: CloseTicket) {
        let Some(closing) = self.waiting.remove(&ticket) else { return };
        for sequence in sequences_in(closing.missing) {
            if let Some(waiting) = self.lows.get_mut(&sequence) {
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

impl Caerus {
    pub(super) fn open_close(&mut self, now: Time, ticket: CloseTicket, close: Close, out: &mut Out) {
        if let Some(absent) = self.not_whole() {
            return out.push(EngineEffect::Answered { ticket, result: Err(absent) });
        }
        let limit = self.cluster.latest_cut(now);
        if close.rank > limit {
            let error = SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "the cut asked for lies too far in the future",
            );
            let error = error
                .detail(format!("Its rank is {}, the largest acceptable one {limit}.", close.rank))
                .hint("The session's token comes from another cluster, or a clock is out of its bound.");
            out.push(EngineEffect::Answered { ticket, result: Err(error) });
            return;
        }
        assert!(self.cluster.is_local(close.partition), "a partition is closed where there is a copy");
        if self.cluster.options.planted(Mutant::PrefixReads) {
            return self.closed(ticket, close.partition, out);
        }
        self.closes
            .waiting
            .insert(ticket, Closing { close, homes: Claims::new(), missing: 0, blockers: None });
        self.close_at_home(ticket, out);
        self.ask_lows(now, out);
    }

    /// Waits for the sequences that order what is read to be complete, then for who is in flight.
    fn close_at_home(&mut self, ticket: CloseTicket, out: &mut Out) {
        let Some(closing) = self.closes.waiting.get(&ticket) else { return };
        let (partition, rank) = (closing.close.partition, closing.close.rank);
        let homes = self.residences.read(partition, &closing.close.granules);
        // Where a move's place above the cut is known, everything before is.
        let read = homes.iter().filter(|(table, _)| !self.residences.moved_later(partition, *table, rank));
        let sequences = read.fold(0u64, |all, (_, home)| all | SequenceId::of(*home).bit());
        for sequence in sequences_in(sequences) {
            if self.logs.leads(sequence) {
                self.promise(sequence, rank, out);
            }
        }
        let is_missing = |sequence: &SequenceId| self.logs.of(*sequence).low() < rank;
        let missing = sequences_in(sequences).filter(is_missing).fold(0u64, |all, s| all | s.bit());
        let Some(closing) = self.closes.waiting.get_mut(&ticket) else { return };
        (closing.homes, closing.missing, closing.blockers) = (homes, missing, None);
        if missing == 0 {
            return self.all_reached(ticket, out);
        }
        if self.refuses_sequences(ticket, missing, out) {
            return;
        }
        base::sometimes!("a reader waits for a sequence to be complete");
        for number in sequences_in(missing) {
            let is_asked = self.closes.low_wanted(number).is_some_and(|asked| rank <= asked);
            self.closes.lows.entry(number).or_default().insert((rank, ticket));
            if !is_asked && !self.logs.leads(number) {
                self.want_low(number, rank, self.cluster.me, out);
            }
        }
    }

    /// A sequence is complete to `low`: readers that waited for that go on.
    pub(super) fn low_reached(&mut self, sequence: SequenceId, low: Rank, out: &mut Out) {
        let mut due: SmallVec<[CloseTicket; 4]> = SmallVec::new();
        while let Some(ticket) = self.closes.due(sequence, low) {
            due.push(ticket);
        }
        due.into_iter().for_each(|ticket| self.is_complete(sequence, ticket, out));
    }

    /// A sequence is complete to the reader's cut.
    fn is_complete(&mut self, sequence: SequenceId, ticket: CloseTicket, out: &mut Out) {
        let Some(closing) = self.closes.waiting.get_mut(&ticket) else { return };
        closing.missing &= !(sequence.bit());
        if closing.missing == 0 {
            self.all_reached(ticket, out);
        }
    }

    /// Asks who leads a sequence, if that is in this region, to tell its low to a replica. What is lost comes
    /// with a heartbeat.
    fn want_low(&mut self, sequence: SequenceId, rank: Rank, at: NodeId, out: &mut Out) {
        let leader = self.leader_of(sequence);
        if leader != self.cluster.me && self.cluster.topology.region_of(leader) == self.cluster.region {
            self.send(leader, Message::LowWanted { sequence, rank, at }, out);
        }
    }

    /// A reader of this node asks a copy elsewhere to close a rank. Who leads the sequence can tell the copy its
    /// low meanwhile: the question is on its way as long as this, so the copy need not ask first.
    pub(super) fn hasten_close(&mut self, now: Time, partition: PartitionId, rank: Rank, out: &mut Out) {
        let at = self.cluster.topology.copy_near(partition, self.cluster.me);
        for home in self.residences.homes_in(partition) {
            if at == self.leader_of(home)
                || self.closes.hastened.get(&(home, at)).is_some_and(|known| rank <= *known)
            {
                continue;
            }
            self.closes.hastened.insert((home, at), rank);
            if self.logs.leads(home) {
                self.on_low_wanted(now, at, home, rank, out);
            } else {
                self.want_low(home, rank, at, out);
            }
        }
    }

    /// The sequences are complete to the reader's cut: who is in flight?
    fn all_reached(&mut self, ticket: CloseTicket, out: &mut Out) {
        let Some(closing) = self.closes.waiting.get(&ticket) else { return };
        let Close { partition, rank, granules } = &closing.close;
        let undecided = self.merger.pending_to(*rank).map(|(_, at)| at);
        let holds_up = |at: &Ref| self.holds_up(*at, *partition, *rank, granules);
        let blockers: Vec<Ref> = undecided.filter(holds_up).collect();
        if blockers.is_empty() {
            return self.nobody_left(ticket, out);
        }
        if self.refuses_blocked(ticket, blockers.iter().copied(), out) {
            return;
        }
        base::sometimes!("a reader waits for a writer in flight");
        let closing = self.closes.waiting.get_mut(&ticket).expect("just found");
        closing.blockers = Some(blockers.len());
        for at in blockers {
            self.closes.behind.entry(at.slot).or_default().push(ticket);
        }
    }

    /// Whether an unexecuted transaction of the sequence writes what is read and may be ranked at or below
    /// the cut.
    fn holds_up(&self, at: Ref, partition: PartitionId, rank: Rank, granules: &[Granule]) -> bool {
        let vertex = self.merger.vertex(at);
        if self.cluster.options.planted(Mutant::CloseIgnoresUndecided) {
            return false;
        }
        let transaction = vertex.transaction.as_ref().expect("entries carry whole transactions");
        let mut writes = transaction.access.at(partition).iter().filter(|a| {
            a.mode == AccessMode::Write
                && self.cluster.is_ordered_for(transaction, partition, &a.granule, vertex.extra.got)
        });
        self.may_be_within(at, rank)
            && writes.any(|write| granules.iter().any(|granule| granule.overlaps(&write.granule)))
    }

    fn may_be_within(&self, at: Ref, rank: Rank) -> bool {
        let vertex = self.merger.vertex(at);
        match vertex.state {
            State::Executed | State::Done => false,
            _ => vertex.rank.unwrap_or(vertex.bound) <= rank,
        }
    }

    /// A transaction's bound was raised, or it got its place, or it executed: readers may go on.
    pub(super) fn changed(&mut self, at: Ref, out: &mut Out) {
        if self.closes.behind.is_empty() {
            return;
        }
        let Some(tickets) = self.closes.behind.remove(&at.slot) else { return };
        let mut still = Vec::new();
        for ticket in tickets {
            let Some(closing) = self.closes.waiting.get(&ticket) else { continue };
            if self.may_be_within(at, closing.close.rank) {
                still.push(ticket);
                continue;
            }
            let closing = self.closes.waiting.get_mut(&ticket).expect("just found");
            let blockers = closing.blockers.as_mut().expect("it waits for transactions");
            *blockers -= 1;
            if *blockers == 0 {
                self.nobody_left(ticket, out);
            }
        }
        if !still.is_empty() {
            self.closes.behind.insert(at.slot, still);
        }
    }

    /// The largest rank up to `rank` that is closed here for good. The sequences of all that is homed in the
    /// partition are complete to `rank`.
    pub(super) fn safe_below(&self, rank: Rank, partition: PartitionId) -> Rank {
        let whole = [Granule::Partition];
        let mut undecided = self.merger.pending_to(rank);
        let first = undecided.find(|(_, at)| self.holds_up(*at, partition, rank, &whole));
        first.map_or(rank, |(bound, _)| bound.previous())
    }

    /// Everybody who was in flight has executed, or is ranked above. What is read may have moved meanwhile.
    fn nobody_left(&mut self, ticket: CloseTicket, out: &mut Out) {
        let Closing { close: Close { partition, granules, .. }, homes, .. } = &self.closes.waiting[&ticket];
        let partition = *partition;
        let has_moved = self.residences.read(partition, granules) != *homes;
        if has_moved && !self.cluster.options.planted(Mutant::CloseAtOldHome) {
            base::sometimes!("something moves while a reader closes it");
            return self.close_at_home(ticket, out);
        }
        self.closes.waiting.remove(&ticket);
        self.closed(ticket, partition, out);
    }

    fn closed(&self, ticket: CloseTicket, partition: PartitionId, out: &mut Out) {
        let (position, _) = self.scheduler.log(partition);
        out.push(EngineEffect::Answered { ticket, result: Ok(Answered::Closed(Closed { position })) });
    }

    /// The reader goes on with what is here; a planted fault.
    pub(super) fn close_without(&mut self, ticket: CloseTicket, out: &mut Out) {
        let partition = self.closes.waiting[&ticket].close.partition;
        self.closes.cancel(ticket);
        self.closed(ticket, partition, out);
    }
}
