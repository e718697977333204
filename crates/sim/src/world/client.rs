//! Clients: the outside of a cluster, as part of its world.
//!
//! A client sees true time: what it records can be held against a promise about real time. One that lives in a region
//! ([`World::client_in`](super::World::client_in)) runs in that region's event loop, maybe on a thread of its own, and
//! shares nothing with clients of other regions that either would do differently for. One that lives in none
//! ([`World::client`](super::World::client)) is everywhere at once: it asks any node without delay and may share anything
//! with others like it; while it waits for an answer, all regions take turns, one event at a time.

use base::process::Process;
use base::{NodeId, RequestId, Time};

/// Which event loop a client belongs to, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientRef {
    pub origin: u16,
    pub nth: u32,
}

/// Someone who asks nodes and waits for answers.
pub trait Client<P: Process> {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>);
    /// True when nothing more is to come from it and nothing more is awaited.
    fn is_done(&self) -> bool;
}

/// What happened to a client.
pub enum ClientEvent<P: Process> {
    /// First of all.
    Start,
    /// A moment it chose; the number is its own.
    Wake(u64),
    Reply {
        id: RequestId,
        reply: P::Reply,
    },
    /// The node crashed, or was down, before an answer came: the outcome is unknown.
    Lost {
        id: RequestId,
    },
}

/// What a client does in one step, in order.
pub struct ClientEffects<P: Process> {
    pub(crate) next_request: u64,
    pub(crate) asks: Vec<(RequestId, NodeId, P::Request)>,
    pub(crate) wakes: Vec<(Time, u64)>,
    pub(crate) work: Vec<(NodeId, u64, u64)>,
}

impl<P: Process> ClientEffects<P> {
    pub(crate) fn new(next_request: u64) -> ClientEffects<P> {
        ClientEffects { next_request, asks: Vec::new(), wakes: Vec::new(), work: Vec::new() }
    }
    /// Asks a node; the answer carries the id.
    pub fn ask(&mut self, node: NodeId, request: P::Request) -> RequestId {
        self.next_request += 1;
        let id = RequestId(self.next_request);
        self.asks.push((id, node, request));
        id
    }
    /// [`ClientEvent::Wake`] with this number, at this true time.
    pub fn wake_at(&mut self, at: Time, number: u64) {
        self.wakes.push((at, number));
    }
    /// Has a node's machine do something beside the node, after what others have it do already; then comes
    /// [`ClientEvent::Wake`] with this number. `cpu_ns`: of one core; all cores work on it at once.
    pub fn work(&mut self, node: NodeId, cpu_ns: u64, number: u64) {
        self.work.push((node, cpu_ns, number));
    }
}
