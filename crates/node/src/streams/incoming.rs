//! One partition's stream as it arrives.
//!
//! IN: items of a generation, in any order, some of them again. OUT: each once and in order, a bounded number at a time.
//! KEEPS: only what was taken is acknowledged.

use super::{Ack, Feed};
use crate::message::Life;
use base::{Rank, Time};
use std::collections::{BTreeMap, VecDeque};

/// One partition's stream as it arrives.
#[derive(Debug, Default)]
pub struct Incoming {
    since: Time,
    generation: u32,
    /// Of the sender, as of what has arrived; nothing before.
    life: Life,
    /// The item to be taken next.
    next: u64,
    /// Items from there on, in order.
    ready: VecDeque<Feed>,
    /// Items behind a gap.
    early: BTreeMap<u64, Feed>,
    /// Up to where the sender has collected, by what has arrived last.
    pub collected: Rank,
}

impl Incoming {
    /// Begins a life, or wants a copy from now on; what the sender thinks it knows of this copy is void, and so is the
    /// generation of which something was taken. That is acknowledged as over: a sender that never heard of what was taken
    /// would think that there is nothing to replace.
    pub fn begin(&mut self, now: Time) {
        self.since = now.max(self.since + 1);
        if self.generation > 0 || self.next > 0 {
            self.begin_generation(self.generation + 1);
        }
    }

    fn begin_generation(&mut self, generation: u32) {
        self.generation = generation;
        self.next = 0;
        self.ready.clear();
        self.early.clear();
    }

    /// Items arrive, and wait until they are taken; whether a new generation begins with them.
    pub fn receive(&mut self, (generation, life): (u32, Life), first: u64, items: Vec<Feed>) -> bool {
        // A sender that has lost its memory may begin a generation that its former life has begun: what that has still
        // sent is on its way.
        let is_another = self.life != Life::default() && life != self.life;
        if is_another && life < self.life || !is_another && generation < self.generation {
            return false;
        }
        let begins = is_another || generation > self.generation;
        self.life = life;
        if begins {
            self.begin_generation(generation);
        }
        let end = self.next + self.ready.len() as u64;
        if first <= end && self.early.is_empty() {
            // In order, as almost always.
            let known = usize::try_from(end - first).expect("as many as were sent");
            self.ready.extend(items.into_iter().skip(known));
            return begins;
        }
        self.early.extend((first..).zip(items).filter(|(index, _)| *index >= end));
        while let Some(item) = self.early.remove(&(self.next + self.ready.len() as u64)) {
            self.ready.push_back(item);
        }
        begins
    }

    /// Takes items whose turn has come, so many that a step stays short.
    pub fn take(&mut self, rows_max: usize) -> Vec<Feed> {
        let mut weight = 0;
        let is_room = |feed: &&Feed| {
            let is_room = weight < rows_max;
            weight += feed.weight();
            is_room
        };
        let count = self.ready.iter().take_while(is_room).count();
        self.next += count as u64;
        self.ready.drain(..count).collect()
    }
    /// There are more items whose turn has come.
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The sender's life, of whose log positions are.
    pub fn life(&self) -> Life {
        self.life
    }

    /// Items that wait for others before them.
    pub fn held(&self) -> usize {
        self.ready.len() + self.early.len()
    }

    /// How far it is: what was taken counts.
    pub fn ack(&self) -> Ack {
        Ack { since: self.since, generation: self.generation, next: self.next }
    }
}
