//! What follows from one event: effects for the host, and work for the loop in `state`.
//!
//! KEEPS: what comes up first is done first.

use super::message::Message;
use super::state::Perseus;
use crate::engine::EngineEffect;
use crate::graph::vertex::Ref;

pub(super) type Out = Vec<EngineEffect<Message>>;

/// What is left to do within the current call.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A message to oneself.
    Deliver(Message),
    /// A final transaction may have become executable.
    Search(Ref),
    /// All predecessors are done.
    Execute(Ref),
}

impl Perseus {
    pub(super) fn do_later(&mut self, work: impl IntoIterator<Item = Work>) {
        self.work.extend(work);
    }
    /// Searches from these, which may have become executable.
    pub(super) fn search_later(&mut self, roots: impl IntoIterator<Item = Ref>) {
        self.do_later(roots.into_iter().map(Work::Search));
    }
    /// Executes these, whose turn has come.
    pub(super) fn execute_later(&mut self, ready: impl IntoIterator<Item = Ref>) {
        self.do_later(ready.into_iter().map(Work::Execute));
    }
    /// What is left to do next.
    pub(super) fn next_work(&mut self) -> Option<Work> {
        self.work.pop_front()
    }
}
