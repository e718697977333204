//! The invariants of the module's opening lines that one node can check, as asserts; O(n).

use super::state::Caerus;

impl Caerus {
    /// Panics if this node's memory contradicts itself.
    pub fn check_invariants(&self) {
        self.merger.check_invariants();
        self.logs.check_invariants();
        assert!(self.work.is_empty(), "a call settles everything it brings about");
    }
}
