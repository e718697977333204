//! The augmented dependency graph, as a dependency manager holds it (PERSEUS §IV).
//!
//! IN: the order streams of the subscribed partitions. KEEPS: whoever is logged here has its whole
//! ancestor closure here too, except vertices below the collection watermark; those are executed at
//! every participant, so any calibration that starts later covers them.

use base::order::{StreamItem, Vertex};
use base::{LogPosition, PartitionId, Rank, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// Vertices with final dependencies, and where each was logged.
#[derive(Clone, Debug, Default)]
pub struct DependencyGraph {
    vertices: BTreeMap<TxnId, VertexState>,
    /// Per partition, what was logged where.
    logs: BTreeMap<PartitionId, BTreeMap<LogPosition, TxnId>>,
}

#[derive(Clone, Debug, Default)]
struct VertexState {
    participants: Vec<PartitionId>,
    dependencies: Vec<TxnId>,
    logged: BTreeMap<PartitionId, LogPosition>,
    rank: Option<Rank>,
}

/// Why a vector cannot be closed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closure {
    /// Closed under ancestors.
    Done(BTreeMap<PartitionId, LogPosition>),
    /// This partition's stream must bring this transaction first.
    Waiting { partition: PartitionId, txn: TxnId },
}

impl DependencyGraph {
    /// Takes an item of a partition's order stream.
    pub fn receive(&mut self, partition: PartitionId, item: &StreamItem) {
        match item {
            StreamItem::Vertex(Vertex { txn, participants, dependencies, .. }) => {
                let state = self.vertices.entry(*txn).or_default();
                state.participants.clone_from(participants);
                state.dependencies.clone_from(dependencies);
            }
            StreamItem::Record(record) => {
                assert_eq!(record.partition, partition);
                let state = self.vertices.entry(record.txn).or_default();
                state.logged.insert(partition, record.position);
                state.rank = Some(record.rank);
                self.logs.entry(partition).or_default().insert(record.position, record.txn);
            }
            StreamItem::Low(_) => {}
        }
    }

    /// The least vector ≥ `required` over the same partitions that is closed: with a transaction, all
    /// its ancestors are in, at every partition of the vector where they take part. Ancestors are
    /// followed *through* vertices that touch none of these partitions. `low(p)`: everything at or below
    /// that rank has arrived from p.
    pub fn close(
        &self,
        required: &BTreeMap<PartitionId, LogPosition>,
        low: &dyn Fn(PartitionId) -> Rank,
    ) -> Closure {
        let mut vector = required.clone();
        let mut seen: BTreeSet<TxnId> = BTreeSet::new();
        // With a rank that the transaction's own does not exceed: no ancestor is ranked above its child.
        let mut stack: Vec<(TxnId, Rank)> = Vec::new();
        let logged_between =
            |partition, after, upto| self.logged_between(partition, after, upto).map(|txn| (txn, Rank::MAX));
        for (partition, &position) in &vector {
            stack.extend(logged_between(*partition, LogPosition(0), position));
        }
        while let Some((txn, at_most)) = stack.pop() {
            if !seen.insert(txn) {
                continue;
            }
            // Below the watermark: executed everywhere before this query's calibration.
            let Some(state) = self.vertices.get(&txn) else { continue };
            let rank = state.rank.unwrap_or(at_most);
            for &partition in &state.participants {
                let Some(&edge) = vector.get(&partition) else { continue };
                match state.logged.get(&partition) {
                    // Its vertex came again, with a later child from elsewhere, after it had been collected.
                    None if rank <= low(partition) => {}
                    None => return Closure::Waiting { partition, txn },
                    Some(&position) if position > edge => {
                        // The prefix drags in everything before it.
                        stack.extend(logged_between(partition, edge, position));
                        vector.insert(partition, position);
                    }
                    Some(_) => {}
                }
            }
            let open = state.dependencies.iter().filter(|d| !seen.contains(d));
            stack.extend(open.map(|d| (*d, rank)));
        }
        Closure::Done(vector)
    }

    fn logged_between(
        &self,
        partition: PartitionId,
        after: LogPosition,
        upto: LogPosition,
    ) -> impl Iterator<Item = TxnId> + '_ {
        let log = self.logs.get(&partition).into_iter();
        log.flat_map(move |log| log.range(after.next()..=upto.max(after.next())))
            .filter(move |(position, _)| **position <= upto)
            .map(|(_, txn)| *txn)
    }

    /// Drops vertices with rank ≤ `below`: executed at every participant, and no cut in use is older.
    pub fn collect(&mut self, below: Rank) {
        let dropped: Vec<TxnId> = self
            .vertices
            .iter()
            .filter(|(_, s)| s.rank.is_some_and(|r| r <= below))
            .map(|(t, _)| *t)
            .collect();
        for txn in dropped {
            let state = self.vertices.remove(&txn).expect("was listed");
            for (partition, position) in state.logged {
                if let Some(log) = self.logs.get_mut(&partition) {
                    log.remove(&position);
                }
            }
        }
    }

    pub fn vertex_count(&self) -> usize {
        self.vertices.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;
    use base::commit::CommitRecord;

    fn t(sequence: u64) -> TxnId {
        TxnId { coordinator: NodeId(0), incarnation: 1, sequence }
    }
    fn p(n: u16) -> PartitionId {
        PartitionId(n)
    }
    fn vertex(txn: u64, participants: &[u16], dependencies: &[u64]) -> StreamItem {
        StreamItem::Vertex(Vertex {
            txn: t(txn),
            participants: participants.iter().map(|n| p(*n)).collect(),
            dependencies: dependencies.iter().map(|d| t(*d)).collect(),
            after: Rank::ZERO,
        })
    }
    fn record(txn: u64, partition: u16, position: u64) -> StreamItem {
        StreamItem::Record(CommitRecord {
            txn: t(txn),
            rank: Rank(txn * 10),
            partition: p(partition),
            position: LogPosition(position),
            writes: vec![],
            touched: Default::default(),
            schema: None,
        })
    }
    fn vector(entries: &[(u16, u64)]) -> BTreeMap<PartitionId, LogPosition> {
        entries.iter().map(|(n, at)| (p(*n), LogPosition(*at))).collect()
    }

    /// T0{A} ← T1{A,B} ← T2{B,C}: a query over {A, C} that has T2 must have T0, though T1, the link
    /// between them, was never asked for at B.
    #[test]
    fn an_ancestor_is_found_through_a_partition_that_is_not_read() {
        let (a, b, c) = (0, 1, 2);
        let mut graph = DependencyGraph::default();
        for item in [vertex(0, &[a], &[]), vertex(1, &[a, b], &[0]), vertex(2, &[b, c], &[1])] {
            graph.receive(p(c), &item);
        }
        graph.receive(p(c), &record(2, c, 1));
        let want = vector(&[(a, 0), (c, 1)]);
        assert!(
            matches!(graph.close(&want, &|_| Rank::ZERO), Closure::Waiting { partition, .. } if partition == p(a))
        );
        graph.receive(p(a), &record(0, a, 1));
        assert_eq!(graph.close(&want, &|_| Rank::ZERO), Closure::Waiting { partition: p(a), txn: t(1) });
        graph.receive(p(a), &record(1, a, 2));
        assert_eq!(graph.close(&want, &|_| Rank::ZERO), Closure::Done(vector(&[(a, 2), (c, 1)])));
    }

    #[test]
    fn what_is_below_the_watermark_asks_for_nothing() {
        let mut graph = DependencyGraph::default();
        graph.receive(p(0), &vertex(1, &[0, 1], &[]));
        graph.receive(p(0), &record(1, 0, 1));
        let want = vector(&[(0, 1), (1, 0)]);
        assert!(matches!(graph.close(&want, &|_| Rank::ZERO), Closure::Waiting { .. }));
        graph.collect(Rank(10));
        assert_eq!(graph.vertex_count(), 0);
        assert_eq!(graph.close(&want, &|_| Rank::ZERO), Closure::Done(want));
    }

    #[test]
    fn a_vertex_that_comes_again_after_its_collection_asks_for_nothing_for_long() {
        let mut graph = DependencyGraph::default();
        graph.receive(p(0), &vertex(1, &[0], &[]));
        graph.receive(p(0), &record(1, 0, 1));
        graph.collect(Rank(10));
        // Partition 1 did not know yet that it was collected.
        graph.receive(p(1), &vertex(1, &[0], &[]));
        graph.receive(p(1), &vertex(2, &[1], &[1]));
        graph.receive(p(1), &record(2, 1, 1));
        let want = vector(&[(0, 1), (1, 1)]);
        assert!(matches!(graph.close(&want, &|_| Rank(19)), Closure::Waiting { .. }));
        assert_eq!(graph.close(&want, &|_| Rank(20)), Closure::Done(want));
    }
}
