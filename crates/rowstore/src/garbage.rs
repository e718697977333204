//! What was superseded or deleted and waits to be collected.
//!
//! IN: keys, as their versions are superseded. OUT: keys to visit. KEEPS: what became garbage first is visited first.

use base::{Key, Place, TableId};
use std::collections::VecDeque;

/// Something superseded or deleted: its key is visited once `place` is behind every reader.
pub(crate) struct Superseded {
    pub place: Place,
    pub table: TableId,
    pub kind: GarbageKind,
    pub key: Key,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GarbageKind {
    Row,
    /// Index entries, by index number in the table's list of stores.
    Entry(TableId),
    Home(TableId),
}

/// All that waits, in the order in which it became garbage.
#[derive(Default)]
pub(crate) struct Garbage {
    waiting: VecDeque<Superseded>,
}

impl Garbage {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// Whether the first is behind the watermark.
    pub fn is_due(&self, watermark: Place) -> bool {
        self.waiting.front().is_some_and(|first| first.place <= watermark)
    }
    /// Takes the first, if it is behind the watermark.
    pub fn next_due(&mut self, watermark: Place) -> Option<Superseded> {
        self.waiting.pop_front_if(|first| first.place <= watermark)
    }
    pub fn push(&mut self, superseded: Superseded) {
        self.waiting.push_back(superseded);
    }
    /// What waits in another store waits here.
    pub fn append(&mut self, mut other: Garbage) {
        self.waiting.append(&mut other.waiting);
    }
    /// What came table by table is to be visited in the order in which it became garbage.
    pub fn sort(&mut self) {
        self.waiting.make_contiguous().sort_by_key(|superseded| superseded.place);
    }
}
