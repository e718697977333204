//! The least cut in use at this node: a multiset of ranks.

use base::Rank;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Floors(BTreeMap<Rank, usize>);

impl Floors {
    pub fn hold(&mut self, rank: Rank) {
        *self.0.entry(rank).or_default() += 1;
    }
    pub fn release(&mut self, rank: Rank) {
        let count = self.0.get_mut(&rank).expect("only what is held is released");
        *count -= 1;
        if *count == 0 {
            self.0.remove(&rank);
        }
    }
    pub fn least(&self) -> Option<Rank> {
        self.0.keys().next().copied()
    }
}
