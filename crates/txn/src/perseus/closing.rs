//! A reader closes a rank at a partition, for what it reads.
//!
//! KEEPS: once `Closed` is answered for t, no transaction that writes those granules appears here at or
//! below t. `closed` is raised to t first, so that every later pts lies above it; then whoever was
//! pre-accepted before, writes what is read and may still be ranked at or below t is waited for. Whoever
//! is known to be ranked above t is not (Rule 2): a rank is never below the pts, the cts, or the bounds
//! of dependencies that both include.

use super::options::Mutant;
use super::state::{Out, Perseus};
use crate::engine::{Answered, EngineEffect};
use crate::graph::vertex::{Ref, State};
use base::order::{Close, CloseTicket, Closed};
use base::txn::{AccessMode, Granule};
use base::{PartitionId, Rank, SqlError, SqlState, Time};

/// A reader that waits.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    partition: PartitionId,
    rank: Rank,
    /// Transactions it waits for.
    blockers: usize,
}

impl Perseus {
    pub(super) fn open_close(&mut self, now: Time, ticket: CloseTicket, close: Close, out: &mut Out) {
        let Close { partition, rank, granules } = close;
        let limit = now.rank() + 3 * self.clock_bound_ns() + self.options.future_max_ns(&self.topology);
        if rank > limit {
            let error = SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "the cut asked for lies too far in the future",
            );
            let error = error
                .detail(format!("Its rank is {rank}, the largest acceptable one {limit}."))
                .hint("The session's token comes from another cluster, or a clock is out of its bound.");
            out.push(EngineEffect::Answered { ticket, result: Err(error) });
            return;
        }
        let local = self.local_index(partition).expect("a partition is closed where it runs");
        let entry = &mut self.partitions[local];
        entry.closed = entry.closed.max(rank);
        let undecided = self.pending.range(..=(rank, u32::MAX)).map(|(_, slot)| self.graph.at(*slot));
        let blockers: Vec<Ref> =
            undecided.filter(|at| self.holds_up(*at, partition, rank, &granules)).collect();
        let closing = Closing { partition, rank, blockers: blockers.len() };
        if blockers.is_empty() {
            self.closed(ticket, &closing, out);
            return;
        }
        base::sometimes!("a reader waits for an undecided writer");
        for at in blockers {
            self.close_waits.entry(at.slot).or_default().push(ticket);
        }
        self.closes.insert(ticket, closing);
    }

    /// The largest rank up to the clock that can be closed without waiting; it is closed from now on.
    pub(super) fn raise_low(&mut self, now: Time, partition: PartitionId) -> Rank {
        let rank = now.rank();
        let whole = [Granule::Partition];
        let mut undecided = self.pending.range(..=(rank, u32::MAX));
        let first = undecided.find(|(_, slot)| self.holds_up(self.graph.at(*slot), partition, rank, &whole));
        let low = first.map_or(rank, |(bound, _)| bound.previous());
        let local = self.local_index(partition).expect("a partition is calibrated where it runs");
        let entry = &mut self.partitions[local];
        entry.closed = entry.closed.max(low);
        low
    }

    /// Whether an unexecuted transaction writes what is read and may be ranked at or below the cut.
    fn holds_up(&self, at: Ref, partition: PartitionId, rank: Rank, granules: &[Granule]) -> bool {
        let vertex = self.graph.live(at);
        if vertex.state < State::Emitted && self.options.planted(Mutant::CloseIgnoresUndecided) {
            return false;
        }
        let transaction = vertex.transaction.as_ref().expect("what is pending takes part here");
        let mut writes = transaction.access.at(partition).iter().filter(|a| a.mode == AccessMode::Write);
        self.may_be_within(at, rank)
            && writes.any(|write| granules.iter().any(|granule| granule.overlaps(&write.granule)))
    }

    fn may_be_within(&self, at: Ref, rank: Rank) -> bool {
        let vertex = self.graph.live(at);
        match vertex.state {
            State::Executed | State::Done => false,
            State::Emitted => vertex.rank.is_none_or(|known| known <= rank),
            _ => !self.options.lower_bounds || vertex.bound <= rank,
        }
    }

    /// A pre-accepted transaction was committed, ranked or executed: readers may go on.
    pub(super) fn changed(&mut self, at: Ref, out: &mut Out) {
        if self.close_waits.is_empty() {
            return;
        }
        let Some(tickets) = self.close_waits.remove(&at.slot) else { return };
        let mut still = Vec::new();
        for ticket in tickets {
            let Some(closing) = self.closes.get(&ticket) else { continue };
            if self.may_be_within(at, closing.rank) {
                still.push(ticket);
                continue;
            }
            let closing = self.closes.get_mut(&ticket).expect("just found");
            closing.blockers -= 1;
            if closing.blockers == 0 {
                let closing = self.closes.remove(&ticket).expect("just found");
                self.closed(ticket, &closing, out);
            }
        }
        if !still.is_empty() {
            self.close_waits.insert(at.slot, still);
        }
    }

    fn closed(&self, ticket: CloseTicket, closing: &Closing, out: &mut Out) {
        let position = self.partition(closing.partition).position;
        out.push(EngineEffect::Answered { ticket, result: Ok(Answered::Closed(Closed { position })) });
    }

    pub(super) fn cancel_close(&mut self, ticket: CloseTicket) {
        self.closes.remove(&ticket);
        self.close_waits.retain(|_, tickets| {
            tickets.retain(|other| *other != ticket);
            !tickets.is_empty()
        });
    }
}
