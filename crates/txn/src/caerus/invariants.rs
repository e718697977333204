//! The invariants of the module's opening lines that one node can check, as asserts; O(n).

use super::state::Caerus;
use crate::graph::vertex::State;
use std::collections::BTreeMap;

impl Caerus {
    /// Panics if this node's memory contradicts itself.
    pub fn check_invariants(&self) {
        let mut holders: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut pending, mut unordered) = (0, 0);
        for (at, vertex) in self.graph.iter() {
            let txn = vertex.id;
            let extra = &vertex.extra;
            assert_eq!(extra.got & !extra.regions, 0, "{txn} is in sequences of its regions only");
            let is_complete = extra.got == extra.regions;
            assert_eq!(vertex.state >= State::Final, is_complete, "{txn} is final once it is complete");
            assert_eq!(vertex.rank.is_some(), vertex.state >= State::Emitted, "{txn} has a place and a rank");
            assert!(vertex.rank.is_none_or(|rank| vertex.bound <= rank), "{txn} is ranked below its bound");
            if vertex.state < State::Emitted {
                unordered += 1;
                for to in &vertex.deps {
                    *holders.entry(to.slot).or_default() += 1;
                    assert!(self.graph.get(*to).is_some(), "what {txn} depends on is kept");
                }
            } else {
                assert!(vertex.deps.is_empty(), "{txn} has a place and waits for nobody's");
            }
            if extra.local && vertex.state < State::Executed {
                pending += 1;
                assert!(self.pending.contains(&(vertex.bound, at.slot)), "{txn} is pending");
            }
            if vertex.state == State::Done {
                let rank = vertex.rank.expect("just checked");
                assert!(self.kept.contains(&(rank, at.slot)), "{txn} is kept for its rank");
            }
        }
        for (at, vertex) in self.graph.iter() {
            let counted = holders.get(&at.slot).copied().unwrap_or(0);
            assert_eq!(vertex.extra.holders, counted, "{}: edges are counted", vertex.id);
        }
        assert_eq!(pending, self.pending.len(), "only what readers may not see yet is pending");
        assert_eq!(unordered, self.unordered, "vertices without a place are counted");
        for (sequence, sequencer) in &self.leading {
            let known = &self.sequences[sequence.0 as usize];
            assert_eq!(known.accepted, sequencer.term, "a leader's log is its own");
            let told = sequencer.low.max(sequencer.floor.low);
            assert!(known.low <= told, "the leader of {sequence} stamps above what was promised");
        }
        for known in &self.sequences {
            assert!(known.accepted <= known.promised, "nobody is followed below a promise");
            assert!(known.merged <= known.end() && known.merged <= known.stable, "what is merged is stable");
        }
        assert!(self.work.is_empty(), "a call settles everything it brings about");
    }
}
