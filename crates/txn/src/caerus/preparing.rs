//! What waits for its first round at the leader of a sequence (see `rounds`). KEEPS: what came first is placed first.

use super::message::Named;
use base::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// What waits for its first round.
#[derive(Clone, Debug, Default)]
pub(super) struct Preparing {
    /// Not asked for yet.
    waiting: Vec<Named>,
    /// Nothing is asked before this.
    flush_at: Time,
    asked: BTreeMap<u64, Round>,
    rounds: u64,
}

#[derive(Clone, Debug)]
struct Round {
    named: Vec<Named>,
    promised: BTreeSet<NodeId>,
    asked_at: Time,
    asks: u32,
}

impl Preparing {
    /// One more that waits for its first round.
    pub fn add(&mut self, named: Named) {
        self.waiting.push(named);
    }
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }

    /// The number of a round to be asked for now, for what has gathered, or else when that is.
    pub fn ask(&mut self, now: Time, interval_ns: u64) -> (Option<u64>, Option<Time>) {
        if self.waiting.is_empty() {
            return (None, None);
        }
        if now < self.flush_at {
            return (None, Some(self.flush_at));
        }
        self.flush_at = now + interval_ns;
        self.rounds += 1;
        let named = std::mem::take(&mut self.waiting);
        self.asked.insert(self.rounds, Round { named, promised: BTreeSet::new(), asked_at: now, asks: 0 });
        (Some(self.rounds), None)
    }
    /// Rounds to be asked for again.
    pub fn again(&mut self, now: Time, patience_ns: u64) -> Vec<u64> {
        let is_due = |asked: &Round| now.since(asked.asked_at) > patience_ns << asked.asks.min(4);
        let mut again = Vec::new();
        for (round, asked) in self.asked.iter_mut().filter(|(_, asked)| is_due(asked)) {
            base::sometimes!("a place is asked for again");
            asked.asked_at = now;
            asked.asks += 1;
            again.push(*round);
        }
        again
    }
    /// A region has promised a round; answers what may be placed now, in the order in which it came: that of rounds which
    /// `copies` regions have promised, as well as all before.
    pub fn promised(&mut self, from: NodeId, round: u64, copies: usize) -> Vec<Named> {
        if let Some(round) = self.asked.get_mut(&round) {
            round.promised.insert(from);
        }
        let mut ready = Vec::new();
        while let Some(first) = self.asked.first_entry()
            && first.get().promised.len() >= copies
        {
            ready.extend(first.remove().named);
        }
        ready
    }
}
