//! The operations of a history.
//!
//! KEEPS: the events of an operation stand in the order in which it performed them; operations stand
//! in the order of their invocation; within one key every written value occurs once and is not zero.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A client session: its operations follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// An operation: its index in [`History::ops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId(pub u32);

/// A key: its index in [`History::keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId(pub u32);

/// What a read saw at one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The state in which the history found the key, a loaded row or none; written `0`.
    Initial,
    /// No row: never written, or deleted; written `-`.
    Absent,
    /// A register, by the value some operation wrote.
    Value(u64),
    /// An append-only list: every value appended so far, oldest first.
    List(Vec<u64>),
}

/// One access, in the order of execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Read {
        key: KeyId,
        seen: Seen,
    },
    /// A range read: every key from `low` (inclusive) to `high` (exclusive; `None`: no bound), in
    /// byte order of key names. A key of the range that `rows` leaves out was seen absent.
    Scan {
        low: String,
        high: Option<String>,
        rows: Vec<(KeyId, Seen)>,
    },
    /// Overwrites a register.
    Write {
        key: KeyId,
        value: u64,
    },
    /// Appends to a list.
    Append {
        key: KeyId,
        value: u64,
    },
    Delete {
        key: KeyId,
    },
}

/// How an operation ended, as its client knows it. Instants are nanoseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed {
        replied_ns: u64,
    },
    Aborted {
        replied_ns: u64,
    },
    /// No answer. Counts as committed as soon as one of its writes was observed.
    Unknown,
}

/// A transaction or a query: read-only if it has no write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// A name given by a scenario; otherwise `t` and the index.
    pub name: Option<String>,
    pub session: SessionId,
    pub invoked_ns: u64,
    pub outcome: Outcome,
    /// Operations whose tokens this one carried when it was invoked.
    pub tokens: Vec<OpId>,
    pub events: Vec<Event>,
}

impl Op {
    /// When the answer arrived; `None` if it never did.
    pub fn replied_ns(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Committed { replied_ns } | Outcome::Aborted { replied_ns } => Some(replied_ns),
            Outcome::Unknown => None,
        }
    }
    /// True if the operation writes nothing.
    pub fn is_read_only(&self) -> bool {
        self.events.iter().all(|e| matches!(e, Event::Read { .. } | Event::Scan { .. }))
    }
}

/// All that clients saw. Built by a [`Recorder`](crate::Recorder) or from text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub(crate) keys: Vec<String>,
    pub(crate) key_ids: BTreeMap<String, KeyId>,
    /// Keys that held a row before the first operation; nobody sees them absent unless deleted.
    pub(crate) loaded: BTreeSet<KeyId>,
    pub(crate) ops: Vec<Op>,
}

impl History {
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }
    pub fn op(&self, id: OpId) -> &Op {
        &self.ops[id.0 as usize]
    }
    pub fn key_name(&self, key: KeyId) -> &str {
        &self.keys[key.0 as usize]
    }
    /// The name by which texts and counter-examples speak of an operation.
    pub fn op_name(&self, id: OpId) -> String {
        self.op(id).name.clone().unwrap_or_else(|| id.to_string())
    }
    pub(crate) fn intern(&mut self, name: &str) -> KeyId {
        if let Some(&id) = self.key_ids.get(name) {
            return id;
        }
        let id = KeyId(u32::try_from(self.keys.len()).expect("fewer than 2^32 keys"));
        self.keys.push(name.to_owned());
        self.key_ids.insert(name.to_owned(), id);
        id
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}
