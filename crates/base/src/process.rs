//! The effects contract: a server is a pure state machine.
//!
//! IN: one [`Event`] and the node's clock reading. OUT: [`Effect`]s, in order. KEEPS: no clock, no
//! thread, no socket, no disk, no randomness of its own. The simulator, the in-process cluster and
//! the TCP cluster are hosts of the same [`Process`]; nothing in it knows which host it runs under.
//!
//! A host takes `now` *after* it takes the event (a reading older than the event it stamps would
//! break the bound ε); `now` never decreases at one node. Messages to oneself are delivered like any
//! other, after the current step. A timer fires at or after its time, once. Links neither order nor
//! guarantee: loss, duplication and reordering are the protocol's business.

use crate::{NodeId, RequestId, Time};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Identifies a piece of data handed to [`Effect::Persist`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PersistToken(pub u64);

/// A pure state machine that a host drives.
pub trait Process {
    /// What travels between nodes.
    type Message: Serialize + DeserializeOwned + Clone + Debug + Send + 'static;
    /// Every timer is a variant with a sentence.
    type Timer: Clone + Debug + Send + 'static;
    /// What a local client asks. Never serialised.
    type Request: Send + 'static;
    /// What a local client is told. Never serialised.
    type Reply: Send + 'static;
    /// What a long computation brings back; see [`Effect::Compute`]. Never serialised.
    type Computed: Send + 'static;

    /// Handles one event at clock reading `now`; answers are appended to `out` in order.
    fn step(&mut self, now: Time, event: Event<Self>, out: &mut Effects<Self>)
    where
        Self: Sized;
}

/// What happened.
pub enum Event<P: Process + ?Sized> {
    /// First event in a node's life, before any other.
    Start,
    Message {
        from: NodeId,
        message: P::Message,
    },
    Timer(P::Timer),
    Request {
        id: RequestId,
        request: P::Request,
    },
    /// The client of this request went away; its reply will be thrown away.
    Vanished {
        id: RequestId,
    },
    /// The data given with this token is on stable storage.
    Persisted(PersistToken),
    /// A computation is done.
    Computed(P::Computed),
}

/// What the host must do.
pub enum Effect<P: Process + ?Sized> {
    Send {
        to: NodeId,
        message: P::Message,
    },
    /// The same to each of these nodes: a host that encodes messages does it once.
    SendAll {
        to: Vec<NodeId>,
        message: P::Message,
    },
    Timer {
        at: Time,
        timer: P::Timer,
    },
    /// Step this timer once everything that waits for the node has had its turn: the rest of what takes too long for
    /// one step.
    GiveWay {
        timer: P::Timer,
    },
    Reply {
        id: RequestId,
        reply: P::Reply,
    },
    /// Write and sync `record`, then answer [`Event::Persisted`].
    Persist {
        token: PersistToken,
        record: Vec<u8>,
    },
    /// Run this anywhere, at any speed, then answer [`Event::Computed`]. A pure function of what it
    /// holds: it only keeps a step short, and its result does not depend on when or where it runs.
    Compute(Computation<P>),
}

/// Work that takes too long for a step.
pub type Computation<P> = Box<dyn FnOnce() -> <P as Process>::Computed + Send>;

/// Effects of one step, first in, first out.
pub struct Effects<P: Process + ?Sized> {
    queue: Vec<Effect<P>>,
}

impl<P: Process + ?Sized> Default for Effects<P> {
    fn default() -> Self {
        Effects { queue: Vec::new() }
    }
}

impl<P: Process + ?Sized> Effects<P> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn send(&mut self, to: NodeId, message: P::Message) {
        self.queue.push(Effect::Send { to, message });
    }
    pub fn send_all(&mut self, to: Vec<NodeId>, message: P::Message) {
        self.queue.push(Effect::SendAll { to, message });
    }
    pub fn timer(&mut self, timer: P::Timer, at: Time) {
        self.queue.push(Effect::Timer { at, timer });
    }
    pub fn give_way(&mut self, timer: P::Timer) {
        self.queue.push(Effect::GiveWay { timer });
    }
    pub fn reply(&mut self, id: RequestId, reply: P::Reply) {
        self.queue.push(Effect::Reply { id, reply });
    }
    pub fn persist(&mut self, token: PersistToken, record: Vec<u8>) {
        self.queue.push(Effect::Persist { token, record });
    }
    pub fn compute(&mut self, work: impl FnOnce() -> P::Computed + Send + 'static) {
        self.queue.push(Effect::Compute(Box::new(work)));
    }
    pub fn drain(&mut self) -> std::vec::Drain<'_, Effect<P>> {
        self.queue.drain(..)
    }
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
