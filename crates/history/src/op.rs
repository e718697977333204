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

impl Event {
    /// The same where keys have other ids.
    fn with_keys(&self, ids: &[KeyId]) -> Event {
        let id = |key: &KeyId| ids[key.0 as usize];
        match self {
            Event::Read { key, seen } => Event::Read { key: id(key), seen: seen.clone() },
            Event::Scan { low, high, rows } => {
                let rows = rows.iter().map(|(key, seen)| (id(key), seen.clone())).collect();
                Event::Scan { low: low.clone(), high: high.clone(), rows }
            }
            Event::Write { key, value } => Event::Write { key: id(key), value: *value },
            Event::Append { key, value } => Event::Append { key: id(key), value: *value },
            Event::Delete { key } => Event::Delete { key: id(key) },
        }
    }
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
    /// One history of several that different clients have recorded by the same clock.
    pub fn merged<'a>(parts: impl IntoIterator<Item = &'a History>) -> History {
        let mut merged = History::default();
        let mut ops: Vec<(usize, u32, &Op)> = Vec::new();
        let mut keys: Vec<Vec<KeyId>> = Vec::new();
        for (part, history) in parts.into_iter().enumerate() {
            keys.push(history.keys.iter().map(|key| merged.intern(key)).collect());
            merged.loaded.extend(history.loaded.iter().map(|key| keys[part][key.0 as usize]));
            ops.extend(history.ops.iter().zip(0..).map(|(op, nth)| (part, nth, op)));
        }
        ops.sort_by_key(|(part, nth, op)| (op.invoked_ns, *part, *nth));
        let ids: BTreeMap<(usize, u32), OpId> =
            ops.iter().zip(0..).map(|((part, nth, _), id)| ((*part, *nth), OpId(id))).collect();
        for (part, _, op) in ops {
            let tokens = op.tokens.iter().map(|from| ids[&(part, from.0)]).collect();
            let events = op.events.iter().map(|event| event.with_keys(&keys[part])).collect();
            merged.ops.push(Op { tokens, events, ..op.clone() });
        }
        merged
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recorder;

    #[test]
    fn what_several_recorded_is_one_history_by_time() {
        // The same three operations, by one recorder and by two; both begin with another key.
        let (mut one, mut two, mut whole) = (Recorder::new(), Recorder::new(), Recorder::new());
        whole.loaded("x");
        one.loaded("x");
        let record = |recorder: &mut Recorder, session, now_ns, after: Option<OpId>, key: &str, value| {
            let op = recorder.begin(SessionId(session), now_ns);
            after.into_iter().for_each(|from| recorder.token(op, from));
            recorder.read(op, "x", 0);
            recorder.write(op, key, value);
            recorder.commit(op, now_ns + 5);
            op
        };
        let first = record(&mut one, 1, 10, None, "x", 7);
        let second = record(&mut two, 2, 20, None, "y", 8);
        record(&mut one, 1, 20, Some(first), "y", 9);
        record(&mut two, 2, 30, Some(second), "x", 10);
        record(&mut whole, 1, 10, None, "x", 7);
        // Of two at one instant, that of the part that was named first.
        record(&mut whole, 1, 20, Some(OpId(0)), "y", 9);
        record(&mut whole, 2, 20, None, "y", 8);
        record(&mut whole, 2, 30, Some(OpId(2)), "x", 10);
        assert_eq!(History::merged([one.history(), two.history()]), *whole.history());
    }
}
