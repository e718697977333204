//! The trace of an event loop: a hash over every event in order, and the last few in words.

use base::Time;
use std::collections::VecDeque;

/// FNV-1a over 64-bit words: the same on every machine, one multiplication for eight bytes.
pub struct Trace {
    hash: u64,
    keep: usize,
    tail: VecDeque<(Time, String)>,
}

impl Trace {
    pub(crate) fn new(seed: u64) -> Trace {
        let mut trace = Trace { hash: 0xcbf2_9ce4_8422_2325, keep: 0, tail: VecDeque::new() };
        trace.word(seed);
        trace
    }
    pub(crate) fn keep(&mut self, count: usize) {
        self.keep = count;
    }
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
    /// The last lines, oldest first, each with its time.
    pub(crate) fn tail(&self) -> impl Iterator<Item = (Time, &str)> {
        self.tail.iter().map(|(at, line)| (*at, line.as_str()))
    }
    pub(crate) fn word(&mut self, word: u64) {
        // The shift carries high bits down, where the multiplication alone never brings them.
        self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.hash ^= self.hash >> 32;
    }
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.word(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
        }
        let rest = chunks.remainder();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }
    /// Keeps a line if lines are kept.
    pub(crate) fn line(&mut self, at: Time, line: impl FnOnce() -> String) {
        if self.keep == 0 {
            return;
        }
        if self.tail.len() == self.keep {
            self.tail.pop_front();
        }
        let mut line = line();
        if line.len() > 400 {
            let end = (0..=400).rev().find(|&i| line.is_char_boundary(i)).unwrap_or(0);
            line.truncate(end);
            line.push('…');
        }
        self.tail.push_back((at, line));
    }
}
