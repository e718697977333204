//! The log in memory: every entry that a member may still need.
//!
//! KEEPS: entries are `base + 1 ..= last`, without gaps; what is released is never asked for again.

use crate::entry::{Entry, Index, Position};
use std::collections::VecDeque;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    /// The last entry that was released.
    base: Position,
    entries: VecDeque<Entry>,
}

impl Log {
    /// Nothing is left of what stands at or before `base`.
    pub fn from(base: Position) -> Log {
        Log { base, entries: VecDeque::new() }
    }
    pub fn last(&self) -> Position {
        let index = Index(self.base.index.0 + self.entries.len() as u64);
        self.position(index).expect("the last entry is here")
    }
    pub fn base(&self) -> Position {
        self.base
    }
    pub fn get(&self, index: Index) -> Option<&Entry> {
        let offset = index.0.checked_sub(self.base.index.0 + 1)?;
        self.entries.get(offset as usize)
    }
    /// Index and term; `None` if the entry was released or is not there yet.
    pub fn position(&self, index: Index) -> Option<Position> {
        if index == self.base.index {
            return Some(self.base);
        }
        self.get(index).map(|entry| Position { term: entry.term, index })
    }
    pub fn push(&mut self, entry: Entry) {
        assert!(self.last().term <= entry.term, "terms grow along a log");
        self.entries.push_back(entry);
    }
    /// Everything after `index`.
    pub fn after(&self, index: Index) -> Vec<Entry> {
        let skip = index.0.checked_sub(self.base.index.0).expect("what was released is gone");
        self.entries.iter().skip(skip as usize).cloned().collect()
    }
    /// Drops everything after `last`.
    pub fn truncate(&mut self, last: Index) {
        let keep = last.0.checked_sub(self.base.index.0).expect("what is released stays");
        self.entries.truncate(keep as usize);
    }
    /// Drops everything up to `upto`.
    pub fn release(&mut self, upto: Index) {
        while self.base.index < upto {
            let entry = self.entries.pop_front().expect("only what is there is released");
            self.base = Position { term: entry.term, index: self.base.index.next() };
        }
    }
    /// Entries from `first` on, at least one if there is one, as long as they have `bytes_max` together.
    pub fn batch(&self, first: Index, bytes_max: usize) -> Vec<Entry> {
        let skip = first.0.checked_sub(self.base.index.0 + 1).expect("what was released is not sent");
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += entry.payload.bytes().len();
            bytes <= bytes_max
        };
        let mut batch: Vec<Entry> =
            self.entries.iter().skip(skip as usize).take_while(fits).cloned().collect();
        if batch.is_empty() {
            batch.extend(self.get(first).cloned());
        }
        batch
    }
}
