//! Copies of everything, for nodes that have lost their memory (`caerus::rejoin`, `geogauss::joining`).
//!
//! IN: what such a node asks for, from which block on. OUT: blocks of bounded size: a window of them for each time it asks,
//! [`PIECE`] in a step. KEEPS: all blocks of a copy are of the moment when it began, while this node goes on: the executor
//! leaves out what was applied since; a block that was made is kept until the node has asked for a later one.

use crate::engine::{CopyEnded, Executor};
use base::{NodeId, PartitionId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Names a copy of everything: the life of the node that takes it, and its number in that life. What was said of a
/// copy that a former life took may arrive late, and is not of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CopyId {
    pub life: u32,
    pub number: u64,
}

/// A block of a copy of everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// The engine's state, further.
    State(Vec<u8>),
    /// A block of a partition's rows; see [`Executor::next_block`].
    Rows { partition: PartitionId, bytes: Vec<u8> },
}

/// What a donor answers.
pub(crate) enum Given {
    /// It was answered just now, or does not ask any more.
    Nothing,
    /// The copy cannot be finished.
    Ended(CopyId),
    Blocks(Blocks),
}

/// Blocks of a copy, from number `first` on.
pub(crate) struct Blocks {
    pub copy: CopyId,
    /// The donor's life in which they are made.
    pub by: u32,
    /// How many there are, once the donor knows.
    pub of: Option<u32>,
    pub first: u32,
    pub parts: Vec<Part>,
}

/// Bytes of the engine's state in one block.
const PART_BYTES: usize = 64 << 10;
/// Blocks that are on their way at most.
pub(crate) const WINDOW: u32 = 32;
/// Blocks that are made in one step. Whatever else waits for the donor has its turn before the next.
pub(crate) const PIECE: u32 = 8;
/// A donor's silence is borne so often twice as long at most.
pub(crate) const SILENCE_DOUBLINGS_MAX: u64 = 7;

/// Copies that other nodes take from here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Donor {
    copies: BTreeMap<NodeId, HandedOut>,
}

/// What a node wants of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It has another one since.
    Over,
    /// This one is not known here any more.
    Ended,
    Further,
    Anew,
}

/// A copy that another node takes.
#[derive(Clone, Debug)]
struct HandedOut {
    copy: CopyId,
    /// The life in which it is made.
    by: u32,
    /// Of the engine's state as it was when the copy began, what has not been sent.
    state: VecDeque<Vec<u8>>,
    /// Blocks that were made and may have to be sent again; the number of the first.
    first: u32,
    parts: VecDeque<Part>,
    /// How many there are, once the last one was made.
    of: Option<u32>,
    /// From which one on they were asked for last, and when.
    asked: Option<u32>,
    asked_at: Time,
    /// The next one that is given without being asked for again.
    next: u32,
}

impl HandedOut {
    /// It is asked for from this block on. What is before has arrived.
    fn ask(&mut self, now: Time, from: u32) {
        while self.first < from && self.parts.pop_front().is_some() {
            self.first += 1;
        }
        (self.asked_at, self.asked, self.next) = (now, Some(from), from);
    }

    /// Whether a part of the window that was asked for has not been given.
    fn goes_on(&self) -> bool {
        let is_open = |asked: u32| self.next < asked + WINDOW && self.of.is_none_or(|of| self.next < of);
        self.asked.is_some_and(is_open)
    }

    /// The next blocks of the window. One more is made, which tells whether the last of these is the last of all.
    fn piece(
        &mut self,
        mut next_block: impl FnMut() -> Result<Option<(PartitionId, Vec<u8>)>, CopyEnded>,
    ) -> Result<Blocks, CopyEnded> {
        let first = self.next;
        if first < self.first || first > self.first + self.parts.len() as u32 {
            return Err(CopyEnded); // It asks for what was never sent.
        }
        let end = (first + PIECE).min(self.asked.unwrap_or(first) + WINDOW);
        while self.of.is_none() && self.first + self.parts.len() as u32 <= end {
            if let Some(bytes) = self.state.pop_front() {
                self.parts.push_back(Part::State(bytes));
                continue;
            }
            match next_block()? {
                Some((partition, bytes)) => self.parts.push_back(Part::Rows { partition, bytes }),
                None => self.of = Some(self.first + self.parts.len() as u32),
            }
        }
        let parts = self.parts.iter().skip((first - self.first) as usize).take((end - first) as usize);
        let parts: Vec<Part> = parts.cloned().collect();
        self.next += parts.len() as u32;
        Ok(Blocks { copy: self.copy, by: self.by, of: self.of, first, parts })
    }
}

impl Donor {
    pub fn is_idle(&self) -> bool {
        self.copies.is_empty()
    }

    pub fn wish(&self, from: NodeId, copy: CopyId, first: u32) -> Wish {
        match self.copies.get(&from).map(|known| known.copy) {
            Some(known) if known == copy => Wish::Further,
            Some(known) if known > copy => Wish::Over,
            // It was silent for too long, or this node was: another copy is wanted then.
            _ if first > 0 => Wish::Ended,
            _ => Wish::Anew,
        }
    }

    pub fn begin(&mut self, now: Time, from: NodeId, (copy, by): (CopyId, u32), state: &[u8]) {
        let handed_out = HandedOut {
            copy,
            by,
            state: state.chunks(PART_BYTES).map(<[u8]>::to_vec).collect(),
            first: 0,
            parts: VecDeque::new(),
            of: None,
            asked: None,
            asked_at: now,
            next: 0,
        };
        self.copies.insert(from, handed_out);
    }

    /// A node asks for blocks of its copy from `first` on: the first of them.
    pub fn hand_out(
        &mut self,
        now: Time,
        patience_ns: u64,
        (from, first): (NodeId, u32),
        executor: &mut dyn Executor,
    ) -> Given {
        let Some(handed_out) = self.copies.get_mut(&from) else { return Given::Nothing };
        // It may have asked again and again.
        let is_repeated = handed_out.asked == Some(first) && now.since(handed_out.asked_at) < patience_ns / 2;
        if is_repeated || first < handed_out.first {
            return Given::Nothing;
        }
        handed_out.ask(now, first);
        self.give(from, executor)
    }

    /// Whether some of what was asked for has not been given: see [`Donor::go_on`].
    pub fn goes_on(&self) -> bool {
        self.copies.values().any(HandedOut::goes_on)
    }

    /// The next piece of what was asked for, and for which node.
    pub fn go_on(&mut self, executor: &mut dyn Executor) -> Option<(NodeId, Given)> {
        // The one that has got least of its window.
        let open = self.copies.iter().filter(|(_, handed_out)| handed_out.goes_on());
        let given = |handed_out: &HandedOut| handed_out.next - handed_out.asked.unwrap_or(0);
        let (&to, _) = open.min_by_key(|(node, handed_out)| (given(handed_out), **node))?;
        Some((to, self.give(to, executor)))
    }

    fn give(&mut self, to: NodeId, executor: &mut dyn Executor) -> Given {
        let Some(handed_out) = self.copies.get_mut(&to) else { return Given::Nothing };
        let Ok(blocks) = handed_out.piece(|| executor.next_block(to)) else {
            base::sometimes!("a copy cannot be finished, and another one is begun");
            let HandedOut { copy, .. } = self.copies.remove(&to).expect("just found");
            executor.end_copy(to);
            return Given::Ended(copy);
        };
        if blocks.parts.is_empty() {
            // It has all. That it had this copy is remembered: what comes late makes no other.
            executor.end_copy(to);
            return Given::Nothing;
        }
        Given::Blocks(blocks)
    }

    /// Lets go of copies that nobody has asked for in a while.
    pub fn drop_unwanted(&mut self, now: Time, patience_ns: u64, executor: &mut dyn Executor) {
        let patience_ns = patience_ns << SILENCE_DOUBLINGS_MAX;
        self.copies.retain(|to, handed_out| {
            let is_wanted = now.since(handed_out.asked_at) <= patience_ns;
            if !is_wanted {
                executor.end_copy(*to);
            }
            is_wanted
        });
    }
}
