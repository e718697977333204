//! A reader closes a rank at a partition, for what it reads.
//!
//! KEEPS: once `Closed` is answered for t, no transaction that writes those granules appears here at or
//! below t. `closed` is raised to t first, so that every later pts lies above it; then whoever was
//! pre-accepted before, writes what is read and may still be ranked at or below t is waited for. Whoever
//! is known to be ranked above t is not (Rule 2): a rank is never below the pts, the cts, or the bounds
//! of dependencies that both include.

pub(super) mod closes;

use self::closes::{closed, may_be_within};
use super::options::Mutant;
use super::state::Perseus;
use super::work::Out;
use crate::engine::EngineEffect;
use crate::graph::vertex::{Ref, State};
use base::order::{Close, CloseTicket};
use base::txn::{AccessMode, Granule};
use base::{PartitionId, Rank, SqlError, SqlState, Time};

impl Perseus {
    pub(super) fn open_close(&mut self, now: Time, ticket: CloseTicket, close: Close, out: &mut Out) {
        let Close { partition, rank, granules } = close;
        let limit = self.cluster.latest_cut(now);
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
        let close = Close { partition, rank, granules };
        if self.holds_close(now, ticket, &close, out) {
            return;
        }
        let Close { granules, .. } = close;
        self.close(partition, rank);
        let undecided = self.schedule.pending_to(rank).map(|(_, slot)| self.graph.at(slot));
        let blockers: Vec<Ref> =
            undecided.filter(|at| self.holds_up(*at, partition, rank, &granules)).collect();
        if blockers.is_empty() {
            return closed(ticket, &self.partitions, partition, out);
        }
        base::sometimes!("a reader waits for an undecided writer");
        self.closes.wait(ticket, partition, rank, &blockers);
    }

    /// The largest rank up to the clock that can be closed without waiting; it is closed from now on.
    pub(super) fn raise_closed(&mut self, now: Time, partition: PartitionId) -> Rank {
        let rank = now.rank().min(self.closed_max());
        let whole = [Granule::Partition];
        let mut undecided = self.schedule.pending_to(rank);
        let first = undecided.find(|(_, slot)| self.holds_up(self.graph.at(*slot), partition, rank, &whole));
        let closed = first.map_or(rank, |(bound, _)| bound.previous());
        drop(undecided);
        self.close(partition, closed);
        closed
    }

    fn close(&mut self, partition: PartitionId, rank: Rank) {
        let local = self.local_index(partition).expect("a partition is closed where it runs");
        self.closes.close(local, rank);
    }
    /// Every later pts at any partition of this node exceeds this rank.
    pub(super) fn close_everywhere(&mut self, rank: Rank) {
        self.closes.close_all(rank);
    }

    /// Whether an unexecuted transaction writes what is read and may be ranked at or below the cut.
    fn holds_up(&self, at: Ref, partition: PartitionId, rank: Rank, granules: &[Granule]) -> bool {
        let vertex = self.graph.live(at);
        if vertex.state < State::Emitted && self.cluster.options.planted(Mutant::CloseIgnoresUndecided) {
            return false;
        }
        let transaction = vertex.transaction.as_ref().expect("what is pending takes part here");
        let mut writes = transaction.access.at(partition).iter().filter(|a| a.mode == AccessMode::Write);
        may_be_within(&self.cluster, &self.graph, at, rank)
            && writes.any(|write| granules.iter().any(|granule| granule.overlaps(&write.granule)))
    }

    /// A pre-accepted transaction was committed, ranked or executed: readers may go on.
    pub(super) fn changed(&mut self, at: Ref, out: &mut Out) {
        self.closes.changed(at, (&self.cluster, &self.graph, &self.partitions), out);
    }
}
