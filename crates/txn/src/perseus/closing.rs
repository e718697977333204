//! A reader closes a rank at a partition, for what it reads.
//!
//! KEEPS: once `Closed` is answered for t, no transaction that writes those granules appears here at or
//! below t. `closed` is raised to t first, so that every later pts lies above it; then whoever was
//! pre-accepted before, writes what is read and may still be ranked at or below t is waited for. Whoever
//! is known to be ranked above t is not (Rule 2): a rank is never below the pts, the cts, or the bounds
//! of dependencies that both include.

use super::options::Mutant;
use super::partitions::Partitions;
use super::state::{Cluster, Extra, Out, Perseus};
use crate::engine::{Answered, EngineEffect};
use crate::graph::vertex::{Ref, State, Vertices};
use base::order::{Close, CloseTicket, Closed};
use base::txn::{AccessMode, Granule};
use base::{PartitionId, Rank, SqlError, SqlState, Time};
use std::collections::BTreeMap;

/// Readers that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Closes {
    waiting: BTreeMap<CloseTicket, Closing>,
    /// Readers to look at again when this slot changes.
    behind: BTreeMap<u32, Vec<CloseTicket>>,
}

/// A reader that waits.
#[derive(Clone, Debug)]
struct Closing {
    partition: PartitionId,
    rank: Rank,
    /// Transactions it waits for.
    blockers: usize,
}

impl Closes {
    /// Readers, and transactions that they wait for.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.behind.len()
    }
    /// A reader waits for these transactions.
    fn wait(&mut self, ticket: CloseTicket, partition: PartitionId, rank: Rank, blockers: &[Ref]) {
        for at in blockers {
            self.behind.entry(at.slot).or_default().push(ticket);
        }
        self.waiting.insert(ticket, Closing { partition, rank, blockers: blockers.len() });
    }
    /// A transaction was committed, ranked or executed: answers readers that waited for it alone.
    fn changed(
        &mut self,
        at: Ref,
        (cluster, graph, partitions): (&Cluster, &Vertices<Extra>, &Partitions),
        out: &mut Out,
    ) {
        let Some(tickets) = self.behind.remove(&at.slot) else { return };
        let mut still = Vec::new();
        for ticket in tickets {
            let Some(closing) = self.waiting.get_mut(&ticket) else { continue };
            if may_be_within(cluster, graph, at, closing.rank) {
                still.push(ticket);
                continue;
            }
            closing.blockers -= 1;
            if closing.blockers == 0 {
                closed(ticket, partitions, closing.partition, out);
                self.waiting.remove(&ticket);
            }
        }
        if !still.is_empty() {
            self.behind.insert(at.slot, still);
        }
    }
    /// The reader went away.
    pub fn cancel(&mut self, ticket: CloseTicket) {
        self.waiting.remove(&ticket);
        self.behind.retain(|_, tickets| {
            tickets.retain(|other| *other != ticket);
            !tickets.is_empty()
        });
    }
}

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
        self.partitions.close(partition, rank);
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
    pub(super) fn raise_low(&mut self, now: Time, partition: PartitionId) -> Rank {
        let rank = now.rank();
        let whole = [Granule::Partition];
        let mut undecided = self.schedule.pending_to(rank);
        let first = undecided.find(|(_, slot)| self.holds_up(self.graph.at(*slot), partition, rank, &whole));
        let low = first.map_or(rank, |(bound, _)| bound.previous());
        drop(undecided);
        self.partitions.close(partition, low);
        low
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

fn may_be_within(cluster: &Cluster, graph: &Vertices<Extra>, at: Ref, rank: Rank) -> bool {
    let vertex = graph.live(at);
    match vertex.state {
        State::Executed | State::Done => false,
        State::Emitted => vertex.rank.is_none_or(|known| known <= rank),
        _ => !cluster.options.lower_bounds || vertex.bound <= rank,
    }
}

fn closed(ticket: CloseTicket, partitions: &Partitions, partition: PartitionId, out: &mut Out) {
    let (position, _) = partitions.log(partition);
    out.push(EngineEffect::Answered { ticket, result: Ok(Answered::Closed(Closed { position })) });
}
