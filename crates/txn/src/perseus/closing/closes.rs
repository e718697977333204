//! What is closed at this node's partitions, and readers that wait for transactions.
//!
//! IN: ranks to be closed, readers with those that they wait for, changes of transactions. OUT: answers. KEEPS: what is
//! closed only grows; a reader is answered once, or goes away; it waits for those only that may still be ranked within its
//! cut.

use super::super::cluster::Cluster;
use super::super::partitions::Partitions;
use super::super::vertex::Graph;
use super::super::work::Out;
use crate::engine::{Answered, EngineEffect};
use crate::graph::vertex::{Ref, State};
use base::order::{CloseTicket, Closed};
use base::{PartitionId, Rank};
use std::collections::BTreeMap;

/// What is closed, and readers that wait.
#[derive(Clone, Debug)]
pub(in crate::perseus) struct Closes {
    /// Every later pts at a partition is larger than this; by the partitions' numbers here.
    closed: Vec<Rank>,
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
    /// Nothing is closed yet at any of so many partitions.
    pub fn new(partitions: usize) -> Closes {
        let (waiting, behind) = (BTreeMap::new(), BTreeMap::new());
        Closes { closed: vec![Rank::ZERO; partitions], waiting, behind }
    }

    /// Every later pts at this partition is larger than this.
    pub fn closed(&self, local: usize) -> Rank {
        self.closed[local]
    }
    /// What is closed everywhere here.
    pub fn closed_everywhere(&self) -> Option<Rank> {
        self.closed.iter().copied().min()
    }
    /// Every later pts at this partition exceeds this rank.
    pub fn close(&mut self, local: usize, rank: Rank) {
        self.closed[local] = self.closed[local].max(rank);
    }
    /// The same at all partitions.
    pub fn close_all(&mut self, rank: Rank) {
        self.closed.iter_mut().for_each(|closed| *closed = rank.max(*closed));
    }

    /// Readers, and transactions that they wait for.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.behind.len()
    }
    /// A reader waits for these transactions.
    pub fn wait(&mut self, ticket: CloseTicket, partition: PartitionId, rank: Rank, blockers: &[Ref]) {
        for at in blockers {
            self.behind.entry(at.slot).or_default().push(ticket);
        }
        self.waiting.insert(ticket, Closing { partition, rank, blockers: blockers.len() });
    }
    /// A transaction was committed, ranked or executed: answers readers that waited for it alone.
    pub fn changed(
        &mut self,
        at: Ref,
        (cluster, graph, partitions): (&Cluster, &Graph, &Partitions),
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

/// Whether a transaction may still execute here with a rank at or below this.
pub(super) fn may_be_within(cluster: &Cluster, graph: &Graph, at: Ref, rank: Rank) -> bool {
    let vertex = graph.live(at);
    match vertex.state {
        State::Executed | State::Done => false,
        State::Emitted => vertex.rank.is_none_or(|known| known <= rank),
        _ => !cluster.options.lower_bounds || vertex.bound <= rank,
    }
}

/// The reader's rank is closed.
pub(super) fn closed(ticket: CloseTicket, partitions: &Partitions, partition: PartitionId, out: &mut Out) {
    let (position, _) = partitions.log(partition);
    out.push(EngineEffect::Answered { ticket, result: Ok(Answered::Closed(Closed { position })) });
}
