//! The invariants of the module's opening lines that one node can check, as asserts; O(n).

use super::state::Caerus;

impl Caerus {
    /// Panics if this node's memory contradicts itself.
    pub fn check_invariants(&self) {
        self.merger.check_invariants();
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
