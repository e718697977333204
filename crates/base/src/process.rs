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

use crate::{NodeId, PartitionId, RequestId, Time};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use std::sync::Arc;

/// Identifies a piece of data handed to [`Effect::Persist`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PersistToken(pub u64);

/// What a part of a node has to remember beyond its process. Repeated in order, behind a checkpoint or from the beginning,
/// a node's records lead it to where it was when it emitted the last of them, as far as anybody was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The part of the node.
    pub owner: u16,
    /// Numbered by the owner.
    pub kind: u8,
    /// Of this kind's payload.
    pub version: u8,
    pub payload: Vec<u8>,
}

/// A record or a checkpoint that this program cannot read, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable(pub String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Unreadable {}

/// A block of a checkpoint: the state beside rows, or rows of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckpointBlock {
    State(Vec<u8>),
    Rows(PartitionId, Vec<u8>),
}

/// A process whose records and checkpoints bring it back.
///
/// A fresh one takes the blocks of a checkpoint, then the records behind it, each in order, and is then told that it has
/// everything; only then comes [`Event::Start`].
pub trait Recorded: Process {
    /// Begins a checkpoint of the state as it is now, which covers every record emitted so far; one under way ends.
    fn begin_checkpoint(&mut self);
    /// The next block, of bounded size; `None`: that was all. `Err`: this checkpoint cannot be finished, another one may.
    fn next_block(&mut self) -> Result<Option<CheckpointBlock>, CheckpointEnded>;
    fn end_checkpoint(&mut self);

    fn restore(&mut self, block: CheckpointBlock) -> Result<(), Unreadable>;
    fn replay(&mut self, record: Record) -> Result<(), Unreadable>;
    /// All blocks and records have been taken. Answers what the clock may have shown in former lives: it has to show more now.
    fn recovered(&mut self) -> Result<Time, Unreadable>;
}

/// A checkpoint under way cannot be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointEnded;

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

    /// What this process publishes for [`Effect::Load`]; the same memory for as long as the process lives.
    fn published(&self) -> Option<Arc<dyn Published<Self::Message>>> {
        None
    }
}

/// Memory of a process that others may look at whenever they like, without a step of it. A step may change it meanwhile:
/// who reads it and who writes it agree on an order of words.
pub trait Published<M>: Send + Sync {
    /// What the process would answer to this message, if what is published says it.
    fn answer(&self, message: &M) -> Option<M>;
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
    /// So many of the records emitted since the start are on stable storage, counted in order.
    Stable {
        records: u64,
    },
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
    /// Answer this message from what the other node has published ([`Process::published`]), without a step of it. The
    /// answer arrives as a message of it. Where nothing published answers, or the host cannot reach it, the message is
    /// sent instead.
    Load {
        of: NodeId,
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
    /// Write and sync this, then say so ([`Event::Stable`]). What is sent after it, in this step or a later one, leaves
    /// once it is stable; so does a reply of the same step. Nothing else waits.
    Record(Record),
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
    pub fn load(&mut self, of: NodeId, message: P::Message) {
        self.queue.push(Effect::Load { of, message });
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
    pub fn record(&mut self, record: Record) {
        self.queue.push(Effect::Record(record));
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
