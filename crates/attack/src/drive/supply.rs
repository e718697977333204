//! What is thrown next: what a phase makes, or the corpus.

use super::CORPUS;
use crate::generate::Generator;
use crate::input::Input;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Which input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Made(Generator, u64),
    /// From the corpus.
    Kept(usize),
}

/// Where inputs come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Nothing,
    Made(Generator),
    Corpus,
}

/// Hands out inputs, each once. KEEPS: an input can be had again by its name.
pub(super) struct Supply {
    seed: u64,
    corpus: Vec<Input>,
    source: Mutex<Source>,
    next: BTreeMap<Generator, AtomicU64>,
    next_kept: AtomicUsize,
}

impl Supply {
    pub fn new(seed: u64, corpus: Vec<Input>) -> Supply {
        let next = Generator::ALL.iter().map(|&generator| (generator, AtomicU64::new(0))).collect();
        Supply { seed, corpus, source: Mutex::new(Source::Nothing), next, next_kept: AtomicUsize::new(0) }
    }

    pub fn has_corpus(&self) -> bool {
        !self.corpus.is_empty()
    }

    /// All of the corpus is handed out.
    pub fn is_corpus_over(&self) -> bool {
        self.next_kept.load(Relaxed) >= self.corpus.len()
    }

    pub fn switch(&self, source: Source) {
        *self.source.lock().expect("no panic while it is held") = source;
    }

    /// The next input, and the name of the phase that it counts for.
    pub fn draw(&self) -> Option<(Name, &'static str)> {
        let source = *self.source.lock().expect("no panic while it is held");
        match source {
            Source::Nothing => None,
            Source::Made(generator) => {
                let index = self.next[&generator].fetch_add(1, Relaxed);
                Some((Name::Made(generator, index), generator.name()))
            }
            Source::Corpus => {
                let at = self.next_kept.fetch_add(1, Relaxed);
                (at < self.corpus.len()).then_some((Name::Kept(at), CORPUS))
            }
        }
    }

    pub fn input(&self, name: Name) -> Input {
        match name {
            Name::Made(generator, index) => generator.input(self.seed, index),
            Name::Kept(at) => self.corpus[at].clone(),
        }
    }
}
