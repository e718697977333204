//! Collects a history while a system runs.
//!
//! IN: begin, accesses in order, one outcome per operation. OUT: a [`History`].
//! KEEPS: instants of begin never decrease; a written value is not zero and is written once per key;
//! a key is a register or a list, not both. The caller is responsible for these: a breach is a bug
//! of the test's driver, so it is an assert here and an error in [`text`](crate::text).
//!
//! An operation that never gets an outcome counts as [`Outcome::Unknown`].

use std::collections::{BTreeMap, BTreeSet};

use crate::op::{Event, History, KeyId, Op, OpId, Outcome, Seen, SessionId};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    history: History,
    ended: Vec<bool>,
    /// Values written so far, per key.
    written: BTreeSet<(KeyId, u64)>,
    is_list: BTreeMap<KeyId, bool>,
}

impl Recorder {
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// A session invokes an operation. `now_ns` must not lie before the previous begin.
    pub fn begin(&mut self, session: SessionId, now_ns: u64) -> OpId {
        self.try_begin(session, now_ns).unwrap_or_else(|e| panic!("{e}"))
    }
    /// The operation carries the token that `from`, committed or aborted, was answered with.
    pub fn token(&mut self, op: OpId, from: OpId) {
        assert!(from < op, "a token comes from an earlier operation, {from} is not before {op}");
        self.open(op).tokens.push(from);
    }
    /// Saw a register's value; zero stands for the initial state.
    pub fn read(&mut self, op: OpId, key: &str, value: u64) {
        let seen = if value == 0 { Seen::Initial } else { Seen::Value(value) };
        self.read_seen(op, key, seen);
    }
    /// Saw no row.
    pub fn read_absent(&mut self, op: OpId, key: &str) {
        self.read_seen(op, key, Seen::Absent);
    }
    /// Saw a list, oldest value first.
    pub fn read_list(&mut self, op: OpId, key: &str, values: &[u64]) {
        self.read_seen(op, key, Seen::List(values.to_vec()));
    }
    pub fn read_seen(&mut self, op: OpId, key: &str, seen: Seen) {
        let event = self.read_event(key, seen).unwrap_or_else(|e| panic!("{e}"));
        self.open(op).events.push(event);
    }
    /// Read all keys in `low..high` (`None`: no upper bound) and saw exactly these rows.
    pub fn scan<'k>(
        &mut self,
        op: OpId,
        low: &str,
        high: Option<&str>,
        rows: impl IntoIterator<Item = (&'k str, Seen)>,
    ) {
        let event = self.scan_event(low, high, rows).unwrap_or_else(|e| panic!("{e}"));
        self.open(op).events.push(event);
    }
    /// Overwrote a register with a value nobody else writes to this key.
    pub fn write(&mut self, op: OpId, key: &str, value: u64) {
        let event = self.write_event(key, value, false).unwrap_or_else(|e| panic!("{e}"));
        self.open(op).events.push(event);
    }
    /// Appended to a list a value nobody else appends to it.
    pub fn append(&mut self, op: OpId, key: &str, value: u64) {
        let event = self.write_event(key, value, true).unwrap_or_else(|e| panic!("{e}"));
        self.open(op).events.push(event);
    }
    pub fn delete(&mut self, op: OpId, key: &str) {
        let event = self.delete_event(key).unwrap_or_else(|e| panic!("{e}"));
        self.open(op).events.push(event);
    }
    pub fn commit(&mut self, op: OpId, now_ns: u64) {
        self.end(op, Outcome::Committed { replied_ns: now_ns });
    }
    pub fn abort(&mut self, op: OpId, now_ns: u64) {
        self.end(op, Outcome::Aborted { replied_ns: now_ns });
    }
    /// The client gave up waiting.
    pub fn unknown(&mut self, op: OpId) {
        self.end(op, Outcome::Unknown);
    }
    /// This key held a row before the first operation.
    pub fn loaded(&mut self, key: &str) {
        let key = self.history.intern(key);
        self.history.loaded.insert(key);
    }

    pub fn history(&self) -> &History {
        &self.history
    }
    pub fn finish(self) -> History {
        self.history
    }

    fn open(&mut self, op: OpId) -> &mut Op {
        assert!(!self.ended[op.0 as usize], "{op} has ended");
        &mut self.history.ops[op.0 as usize]
    }
    fn end(&mut self, op: OpId, outcome: Outcome) {
        self.open(op).outcome = outcome;
        self.ended[op.0 as usize] = true;
        let op = self.history.op(op);
        if let Some(replied_ns) = op.replied_ns() {
            assert!(op.invoked_ns <= replied_ns, "answered at {replied_ns}, invoked at {}", op.invoked_ns);
        }
    }
}

/// The same steps for input that may be wrong.
impl Recorder {
    pub(crate) fn try_begin(&mut self, session: SessionId, now_ns: u64) -> Result<OpId, String> {
        let ops = &mut self.history.ops;
        if let Some(last) = ops.last().filter(|last| last.invoked_ns > now_ns) {
            return Err(format!("invoked at {now_ns}, before its predecessor ({})", last.invoked_ns));
        }
        let id = OpId(u32::try_from(ops.len()).expect("fewer than 2^32 operations"));
        ops.push(Op {
            name: None,
            session,
            invoked_ns: now_ns,
            outcome: Outcome::Unknown,
            tokens: Vec::new(),
            events: Vec::new(),
        });
        self.ended.push(false);
        Ok(id)
    }
    pub(crate) fn read_event(&mut self, key: &str, seen: Seen) -> Result<Event, String> {
        let id = self.history.intern(key);
        match seen {
            Seen::Value(0) => return Err(format!("value 0 of {key} stands for its initial state")),
            Seen::Value(_) => self.is(id, false)?,
            Seen::List(_) => self.is(id, true)?,
            Seen::Initial | Seen::Absent => {}
        }
        Ok(Event::Read { key: id, seen })
    }
    pub(crate) fn scan_event<'k>(
        &mut self,
        low: &str,
        high: Option<&str>,
        rows: impl IntoIterator<Item = (&'k str, Seen)>,
    ) -> Result<Event, String> {
        if high.is_some_and(|high| high <= low) {
            return Err(format!("{low}..{} is an empty range", high.unwrap_or_default()));
        }
        let mut seen_rows = Vec::new();
        for (key, seen) in rows {
            if let Event::Read { key, seen } = self.read_event(key, seen)? {
                seen_rows.push((key, seen));
            }
        }
        Ok(Event::Scan { low: low.to_owned(), high: high.map(str::to_owned), rows: seen_rows })
    }
    pub(crate) fn write_event(&mut self, key: &str, value: u64, append: bool) -> Result<Event, String> {
        let id = self.history.intern(key);
        if value == 0 {
            return Err(format!("value 0 of {key} stands for its initial state"));
        }
        if !self.written.insert((id, value)) {
            return Err(format!("value {value} of {key} is written twice"));
        }
        self.is(id, append)?;
        Ok(if append { Event::Append { key: id, value } } else { Event::Write { key: id, value } })
    }
    pub(crate) fn delete_event(&mut self, key: &str) -> Result<Event, String> {
        let id = self.history.intern(key);
        self.is(id, false)?;
        Ok(Event::Delete { key: id })
    }
    pub(crate) fn push(&mut self, op: OpId, event: Event) {
        self.open(op).events.push(event);
    }
    pub(crate) fn name(&mut self, op: OpId, name: &str) {
        self.open(op).name = (op.to_string() != name).then(|| name.to_owned());
    }
    fn is(&mut self, key: KeyId, list: bool) -> Result<(), String> {
        if *self.is_list.entry(key).or_insert(list) == list {
            return Ok(());
        }
        Err(format!("{} is both a register and a list", self.history.key_name(key)))
    }
}
