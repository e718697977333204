//! What a part of the engine has to be done: effects for the host, and work for the loop in `state`.
//!
//! KEEPS: first in, first out; a message to this node itself is work like any other.

use super::cluster::Cluster;
use super::message::Message;
use crate::engine::EngineEffect;
use crate::graph::vertex::Ref;
use base::NodeId;
use std::collections::VecDeque;

pub(super) type Out = Vec<EngineEffect<Message>>;

/// What is left to do within the current call.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A message to oneself.
    Deliver(Message),
    /// A complete transaction may have got its place.
    Search(Ref),
    /// All predecessors are done.
    Execute(Ref),
}

/// What a part has to be done: effects for the host, and work for the loop.
pub(super) struct Todo<'a> {
    me: NodeId,
    work: &'a mut VecDeque<Work>,
    out: &'a mut Out,
}

impl<'a> Todo<'a> {
    pub fn new(cluster: &Cluster, work: &'a mut VecDeque<Work>, out: &'a mut Out) -> Todo<'a> {
        Todo { me: cluster.me, work, out }
    }
    pub fn send(&mut self, to: NodeId, message: Message) {
        if to == self.me {
            self.work.push_back(Work::Deliver(message));
        } else {
            self.out.push(EngineEffect::Send { to, message });
        }
    }
    pub fn effect(&mut self, effect: EngineEffect<Message>) {
        self.out.push(effect);
    }
    pub fn work(&mut self, work: Work) {
        self.work.push_back(work);
    }
}
