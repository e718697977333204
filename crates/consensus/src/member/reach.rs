//! How far a member's log is committed, handed out, and stored.
//!
//! KEEPS: nothing is handed out before it is committed; what is committed or on every disk stays so.

use crate::entry::Index;

#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    commit: Index,
    /// Handed out.
    taken: Index,
    /// Everything up to it is on every member's disk.
    everywhere: Index,
    /// Everything up to it is on this member's disk.
    stored: Index,
}

impl Reach {
    /// A life begins with a log on disk that ends at `last`, and whose state holds everything up to `base`.
    pub fn of(base: Index, last: Index) -> Reach {
        Reach { commit: base, taken: base, everywhere: Index::ZERO, stored: last }
    }

    pub fn commit(&self) -> Index {
        self.commit
    }
    pub fn commit_to(&mut self, index: Index) {
        self.commit = self.commit.max(index);
    }

    pub fn taken(&self) -> Index {
        self.taken
    }
    /// Hands out the next one that is committed.
    pub fn take_next(&mut self) -> Option<Index> {
        if self.taken >= self.commit {
            return None;
        }
        self.taken = self.taken.next();
        Some(self.taken)
    }
    /// A state is handed out that holds everything up to here, which is committed.
    pub fn take_state(&mut self, at: Index) {
        (self.commit, self.taken) = (at, at);
    }

    pub fn everywhere(&self) -> Index {
        self.everywhere
    }
    pub fn is_everywhere(&mut self, index: Index) {
        self.everywhere = self.everywhere.max(index);
    }

    pub fn stored(&self) -> Index {
        self.stored
    }
    pub fn store_to(&mut self, index: Index) {
        self.stored = self.stored.max(index);
    }
    /// The log ends here.
    pub fn cut(&mut self, last: Index) {
        self.stored = self.stored.min(last);
    }

    pub fn check(&self, last: Index) {
        assert!(self.taken <= self.commit && self.commit <= last);
        assert!(self.stored <= last);
    }
}
