//! Events that wait for their time.

use base::Time;
use base::process::{Event, Process};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What is to be stepped, by time.
pub(super) struct Inbox<P: Process> {
    pub due: BinaryHeap<Due<P>>,
    pub sequence: u64,
}

impl<P: Process> Default for Inbox<P> {
    fn default() -> Self {
        Inbox { due: BinaryHeap::new(), sequence: 0 }
    }
}

/// Something that happens at a time; ties in the order of arrival.
pub(super) struct Due<P: Process> {
    pub at: Time,
    pub sequence: u64,
    pub event: Event<P>,
}

impl<P: Process> PartialEq for Due<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<P: Process> Eq for Due<P> {}
impl<P: Process> PartialOrd for Due<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<P: Process> Ord for Due<P> {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}
