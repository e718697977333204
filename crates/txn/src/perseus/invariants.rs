//! The invariants of the module's opening lines that one node can check, as asserts; O(n).

use super::state::Perseus;
use crate::graph::vertex::State;

impl Perseus {
    /// Panics if this node's memory contradicts itself.
    pub fn check_invariants(&self) {
        let mut pending = 0;
        for (at, vertex) in self.graph.iter() {
            let txn = vertex.id;
            let here = vertex.participants.iter().any(|p| self.local_index(p).is_some());
            if vertex.transaction.is_some() {
                assert!(here, "{txn} was pre-accepted where it takes part");
                assert!(vertex.state >= State::PreAccepted);
            }
            if vertex.state == State::PreAccepted {
                assert!(vertex.transaction.is_some(), "{txn} was pre-accepted with its program");
            }
            if let Some(rank) = vertex.rank {
                assert!(vertex.bound <= rank, "{txn} is ranked below its bound");
            }
            if vertex.state >= State::Emitted {
                assert!(vertex.rank.is_some(), "{txn} is emitted with a rank");
                for dependency in &vertex.deps {
                    let Some(parent) = self.graph.get(*dependency) else { continue };
                    assert!(parent.state >= State::Emitted, "{} precedes {txn}", parent.id);
                    assert!(parent.rank <= vertex.rank, "{} is ranked at most like {txn}", parent.id);
                }
            }
            if vertex.transaction.is_some() && vertex.state < State::Executed {
                pending += 1;
                let bound = if self.cluster.options.lower_bounds { vertex.bound } else { vertex.extra.pts };
                assert!(self.schedule.contains(bound, at), "{txn} is pending");
                assert!(vertex.bound > self.collection.watermark(), "{txn} holds the watermark back");
            }
            if vertex.transaction.is_some() {
                assert!(!self.collection.has_collected(txn), "{txn} is here or gone, not both");
                let rank = vertex.rank.unwrap_or(vertex.bound);
                assert!(rank > self.collection.watermark(), "{txn} should have been collected");
            }
        }
        assert_eq!(pending, self.schedule.pending_count(), "only what has not executed is pending");
        for coordination in self.gateway.coordinated() {
            assert!(coordination.bound() > self.collection.watermark(), "what runs is not collected");
        }
        let closed = self.closes.closed_everywhere();
        assert!(
            closed.is_none_or(|rank| rank >= self.collection.watermark()),
            "later pts exceed the watermark"
        );
        assert!(self.work.is_empty(), "a call settles everything it brings about");
    }
}
