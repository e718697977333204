//! What follows from one event: effects for the host, and work for the loop in `state`.
//!
//! KEEPS: what comes up first is done first.

use super::message::Message;
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
