//! The tracker's slots in the mapping: the atomic form of [`reads::replica::tracker`].
//!
//! KEEPS: one writer; what is raised is seen no later than whatever the writer raises after it.

use crate::layout::Layout;
use crate::word::Word;
use reads::replica::tracker::Slots;
use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The slots of a mapping.
#[derive(Clone, Debug)]
pub struct MappedSlots<M> {
    words: M,
    at: usize,
}

impl<W: Word, M: Deref<Target = [W]>> MappedSlots<M> {
    pub(crate) fn new(words: M, layout: Layout) -> MappedSlots<M> {
        MappedSlots { words, at: layout.slots_at() }
    }
}

impl<W: Word, M: Deref<Target = [W]>> Slots for MappedSlots<M> {
    fn load(&self, place: usize) -> u64 {
        self.words[self.at + place].load(Acquire)
    }
    fn raise(&mut self, place: usize, to: u64) {
        let slot = &self.words[self.at + place];
        // Nobody else writes, so there is nothing to compare and swap.
        if slot.load(Relaxed) < to {
            slot.store(to, Release);
        }
    }
}
