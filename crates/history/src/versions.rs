//! Who wrote what each operation read: the part of checking that needs no graph.
//!
//! IN: a history. OUT: the operations that count as committed, their external reads and installed
//! writes by version, or the first illegal read.
//! KEEPS: an external read is of an installed version of another included operation, of the initial
//! state, or ambiguous (an absent row that may have been in one of several states).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::op::{Event, History, KeyId, OpId, Outcome, Seen};
use crate::violation::Anomaly;

/// A version: an index into [`Versions::writes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub u32);

impl Version {
    /// The state in which the history found a key.
    pub const INITIAL: Version = Version(u32::MAX);
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub op: OpId,
    pub key: KeyId,
    /// The value written; `None` for a deletion.
    pub value: Option<u64>,
    /// False if its own operation overwrote it.
    pub installed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub key: KeyId,
    pub version: Version,
    /// A range read found no row here.
    pub missed_by_scan: bool,
}

/// What stood before an installed write of a register, as far as its writer saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// The writer had read this version.
    Read(Version),
    /// The writer had not looked.
    Unseen,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Install {
    pub key: KeyId,
    pub version: Version,
    pub before: Before,
    /// An append to a list.
    pub appends: bool,
}

/// See the module.
pub(crate) struct Versions<'h> {
    pub history: &'h History,
    /// Per operation: committed, or unanswered and observed.
    pub included: Vec<bool>,
    pub writes: Vec<Write>,
    /// Per operation; empty unless included. One entry per key and version.
    pub reads: Vec<Vec<Read>>,
    /// Per operation; empty unless included. One entry per key.
    pub installs: Vec<Vec<Install>>,
    /// Per list key: the longest list that was read, by version.
    pub longest: BTreeMap<KeyId, Vec<Version>>,
    /// Per operation: keys seen absent that may have been in one of several states.
    pub ambiguous: Vec<Vec<KeyId>>,
}

/// An illegal read.
pub(crate) struct Illegal {
    pub anomaly: Anomaly,
    pub ops: Vec<OpId>,
    pub reason: String,
}

impl<'h> Versions<'h> {
    pub fn new(history: &'h History) -> Result<Versions<'h>, Illegal> {
        let index = Index::new(history);
        let included = index.included(history);
        let longest = longest_lists(history, &included);
        let mut versions = Versions {
            history,
            reads: vec![Vec::new(); history.ops.len()],
            installs: vec![Vec::new(); history.ops.len()],
            included,
            writes: Vec::new(),
            longest: BTreeMap::new(),
            ambiguous: vec![Vec::new(); history.ops.len()],
        };
        let resolver = Resolver { history, index: &index, longest: &longest };
        for (at, op) in history.ops.iter().enumerate().filter(|(at, _)| versions.included[*at]) {
            let mut own = Own::default();
            let mut writes = index.first_write[at];
            for event in &op.events {
                resolver.event(OpId(at as u32), event, &mut own, &mut writes)?;
            }
            own.reads.sort_by_key(|read| (read.key, read.version, read.missed_by_scan));
            own.reads.dedup_by_key(|read| (read.key, read.version));
            versions.reads[at] = own.reads;
            versions.ambiguous[at] = own.ambiguous;
            versions.installs[at] = own
                .writes
                .into_iter()
                .map(|(key, own)| Install {
                    key,
                    version: own.last,
                    before: own.before,
                    appends: !own.appended.is_empty(),
                })
                .collect();
        }
        for (&key, list) in &longest {
            versions.longest.insert(key, resolver.list_versions(key, list)?);
        }
        versions.writes = index.writes;
        Ok(versions)
    }

    pub fn write(&self, version: Version) -> &Write {
        assert!(version != Version::INITIAL, "nobody wrote the initial state");
        &self.writes[version.0 as usize]
    }
    pub fn writer(&self, version: Version) -> OpId {
        self.write(version).op
    }
    pub fn is_writer(&self, op: OpId) -> bool {
        !self.installs[op.0 as usize].is_empty()
    }
    /// The version of a key that an operation installed.
    pub fn installed_by(&self, op: OpId, key: KeyId) -> Option<Version> {
        self.installs[op.0 as usize].iter().find(|i| i.key == key).map(|i| i.version)
    }
    /// Included operations, in the order of invocation.
    pub fn ops(&self) -> impl Iterator<Item = OpId> + '_ {
        (0..self.included.len()).filter(|&at| self.included[at]).map(|at| OpId(at as u32))
    }
}

/// All writes of the history, found by value.
struct Index {
    writes: Vec<Write>,
    /// Per operation: its first index in `writes`.
    first_write: Vec<usize>,
    by_value: Vec<(KeyId, u64, Version)>,
    /// Deletions that end up installed, of any operation that is not aborted.
    deletions: BTreeMap<KeyId, Vec<Version>>,
}

impl Index {
    fn new(history: &History) -> Index {
        let mut index = Index {
            writes: Vec::new(),
            first_write: Vec::with_capacity(history.ops.len()),
            by_value: Vec::new(),
            deletions: BTreeMap::new(),
        };
        for (at, op) in history.ops.iter().enumerate() {
            let first = index.writes.len();
            index.first_write.push(first);
            for event in &op.events {
                let (key, value) = match *event {
                    Event::Write { key, value } | Event::Append { key, value } => (key, Some(value)),
                    Event::Delete { key } => (key, None),
                    Event::Read { .. } | Event::Scan { .. } => continue,
                };
                index.writes.push(Write { op: OpId(at as u32), key, value, installed: false });
            }
            let mut last = BTreeMap::new();
            for (offset, write) in index.writes[first..].iter().enumerate() {
                last.insert(write.key, first + offset);
            }
            let aborted = matches!(op.outcome, Outcome::Aborted { .. });
            for (key, at) in last {
                index.writes[at].installed = true;
                if index.writes[at].value.is_none() && !aborted {
                    index.deletions.entry(key).or_default().push(Version(at as u32));
                }
            }
        }
        for (at, write) in index.writes.iter().enumerate() {
            if let Some(value) = write.value {
                index.by_value.push((write.key, value, Version(at as u32)));
            }
        }
        index.by_value.sort_unstable();
        index
    }

    fn find(&self, key: KeyId, value: u64) -> Option<Version> {
        let at = self.by_value.partition_point(|entry| (entry.0, entry.1) < (key, value));
        self.by_value.get(at).filter(|entry| (entry.0, entry.1) == (key, value)).map(|entry| entry.2)
    }

    /// What an absent row can be: the initial state, or a deletion that was not aborted.
    fn absent(&self, history: &History, key: KeyId) -> Vec<Version> {
        let initial = (!history.loaded.contains(&key)).then_some(Version::INITIAL);
        initial.into_iter().chain(self.deletions.get(&key).into_iter().flatten().copied()).collect()
    }

    /// Committed operations, and unanswered ones that an included operation read from.
    fn included(&self, history: &History) -> Vec<bool> {
        let committed = |at: &usize| matches!(history.ops[*at].outcome, Outcome::Committed { .. });
        let mut open: Vec<usize> = (0..history.ops.len()).filter(committed).collect();
        let mut included = vec![false; history.ops.len()];
        for &at in &open {
            included[at] = true;
        }
        if open.len() == history.ops.len() {
            return included;
        }
        // Lists that do not continue each other are found later; until then a beginning is seen once.
        let mut seen_values: BTreeMap<KeyId, usize> = BTreeMap::new();
        while let Some(at) = open.pop() {
            let mut observe = |version: Option<Version>| {
                let Some(version) = version.filter(|&v| v != Version::INITIAL) else { return };
                let writer = self.writes[version.0 as usize].op.0 as usize;
                if !included[writer] && history.ops[writer].outcome == Outcome::Unknown {
                    included[writer] = true;
                    open.push(writer);
                }
            };
            for event in &history.ops[at].events {
                let one;
                let rows: &[(KeyId, Seen)] = match event {
                    Event::Read { key, seen } => {
                        one = [(*key, seen.clone())];
                        &one
                    }
                    Event::Scan { rows, .. } => rows,
                    _ => continue,
                };
                for (key, seen) in rows {
                    match seen {
                        Seen::Initial => {}
                        Seen::Value(value) => observe(self.find(*key, *value)),
                        Seen::List(values) => {
                            let seen = seen_values.entry(*key).or_default();
                            for &value in values.get(*seen..).unwrap_or_default() {
                                observe(self.find(*key, value));
                            }
                            *seen = values.len().max(*seen);
                        }
                        Seen::Absent => {
                            if let [only] = self.absent(history, *key)[..] {
                                observe(Some(only));
                            }
                        }
                    }
                }
            }
        }
        included
    }
}

/// The longest list that an included operation saw at each key, less its own appends.
fn longest_lists<'h>(history: &'h History, included: &[bool]) -> BTreeMap<KeyId, &'h [u64]> {
    let mut longest: BTreeMap<KeyId, &[u64]> = BTreeMap::new();
    for (_, op) in history.ops.iter().enumerate().filter(|(at, _)| included[*at]) {
        let mut appended: BTreeMap<KeyId, usize> = BTreeMap::new();
        let mut saw = |key: KeyId, seen: &'h Seen, appended: &BTreeMap<KeyId, usize>| {
            if let Seen::List(values) = seen {
                let own = appended.get(&key).copied().unwrap_or(0);
                let values = &values[..values.len().saturating_sub(own)];
                let best = longest.entry(key).or_insert(values);
                if best.len() < values.len() {
                    *best = values;
                }
            }
        };
        for event in &op.events {
            match event {
                Event::Read { key, seen } => saw(*key, seen, &appended),
                Event::Scan { rows, .. } => rows.iter().for_each(|(key, seen)| saw(*key, seen, &appended)),
                Event::Append { key, .. } => *appended.entry(*key).or_default() += 1,
                Event::Write { .. } | Event::Delete { .. } => {}
            }
        }
    }
    longest
}

/// What an operation did so far.
#[derive(Default)]
struct Own {
    reads: Vec<Read>,
    ambiguous: Vec<KeyId>,
    /// The version last read from others, per key; `None` where it is ambiguous.
    last_read: BTreeMap<KeyId, Option<Version>>,
    writes: BTreeMap<KeyId, OwnWrite>,
}

struct OwnWrite {
    last: Version,
    before: Before,
    /// Values appended, oldest first.
    appended: Vec<u64>,
}

struct Resolver<'a, 'h> {
    history: &'h History,
    index: &'a Index,
    longest: &'a BTreeMap<KeyId, &'h [u64]>,
}

impl Resolver<'_, '_> {
    fn event(&self, op: OpId, event: &Event, own: &mut Own, next_write: &mut usize) -> Result<(), Illegal> {
        let (key, appended) = match event {
            Event::Read { key, seen } => return self.read(op, *key, seen, false, own),
            Event::Scan { low, high, rows } => return self.scan(op, low, high.as_deref(), rows, own),
            Event::Write { key, .. } | Event::Delete { key } => (*key, None),
            Event::Append { key, value } => (*key, Some(*value)),
        };
        let version = Version(*next_write as u32);
        *next_write += 1;
        let before = match own.last_read.get(&key) {
            Some(Some(version)) => Before::Read(*version),
            Some(None) | None => Before::Unseen,
        };
        let write = own.writes.entry(key).or_insert(OwnWrite { last: version, before, appended: Vec::new() });
        write.last = version;
        write.appended.extend(appended);
        Ok(())
    }

    fn scan(
        &self,
        op: OpId,
        low: &str,
        high: Option<&str>,
        rows: &[(KeyId, Seen)],
        own: &mut Own,
    ) -> Result<(), Illegal> {
        let mut returned = BTreeSet::new();
        for (key, seen) in rows {
            let name = self.history.key_name(*key);
            if name < low || high.is_some_and(|high| name >= high) {
                let reason = format!("{} got {name} from a range that ends before it", self.name(op));
                return Err(Illegal { anomaly: Anomaly::GarbageRead, ops: vec![op], reason });
            }
            returned.insert(*key);
            self.read(op, *key, seen, false, own)?;
        }
        let upper = high.map_or(Bound::Unbounded, Bound::Excluded);
        for &key in self.history.key_ids.range::<str, _>((Bound::Included(low), upper)).map(|(_, key)| key) {
            if !returned.contains(&key) {
                self.read(op, key, &Seen::Absent, true, own)?;
            }
        }
        Ok(())
    }

    fn read(&self, op: OpId, key: KeyId, seen: &Seen, scanned: bool, own: &mut Own) -> Result<(), Illegal> {
        if let Some(write) = own.writes.get(&key) {
            if let Some(external) = self.check_own(op, key, seen, write)? {
                let version = self.list_end(op, key, external)?;
                own.reads.push(Read { key, version, missed_by_scan: false });
            }
            return Ok(());
        }
        let version = match seen {
            Seen::Initial => Some(Version::INITIAL),
            Seen::Value(value) => Some(self.foreign(op, key, *value, true)?),
            Seen::List(values) => Some(self.list_end(op, key, values)?),
            Seen::Absent => match self.index.absent(self.history, key)[..] {
                [] => {
                    let reason = format!(
                        "{} saw no row {}, which was loaded and never deleted",
                        self.name(op),
                        self.key(key)
                    );
                    return Err(Illegal { anomaly: Anomaly::GarbageRead, ops: vec![op], reason });
                }
                [only] => Some(only),
                _ => None,
            },
        };
        match version {
            Some(version) => own.reads.push(Read { key, version, missed_by_scan: scanned }),
            None => own.ambiguous.push(key),
        }
        own.last_read.insert(key, version);
        Ok(())
    }

    /// Compares a read with the operation's own writes; gives the foreign part of a list.
    fn check_own<'s>(
        &self,
        op: OpId,
        key: KeyId,
        seen: &'s Seen,
        own: &OwnWrite,
    ) -> Result<Option<&'s [u64]>, Illegal> {
        let expected = self.index.writes[own.last.0 as usize].value;
        let agrees = match seen {
            Seen::List(values) => {
                if let Some(foreign) = values.strip_suffix(&own.appended[..]) {
                    return Ok(Some(foreign));
                }
                false
            }
            Seen::Value(value) => expected == Some(*value),
            Seen::Absent => expected.is_none(),
            Seen::Initial => false,
        };
        if agrees {
            return Ok(None);
        }
        let reason = format!("{} does not see its own write of {}", self.name(op), self.key(key));
        Err(Illegal { anomaly: Anomaly::Internal, ops: vec![op], reason })
    }

    /// The version of another operation that `op` read by this value.
    fn foreign(&self, op: OpId, key: KeyId, value: u64, newest: bool) -> Result<Version, Illegal> {
        let (reader, name) = (self.name(op), self.key(key));
        let Some(version) = self.index.find(key, value) else {
            let reason = format!("{reader} read {name}={value}, which nobody wrote");
            return Err(Illegal { anomaly: Anomaly::GarbageRead, ops: vec![op], reason });
        };
        let write = &self.index.writes[version.0 as usize];
        if write.op == op {
            let reason = format!("{reader} read {name}={value} before writing it itself");
            return Err(Illegal { anomaly: Anomaly::Internal, ops: vec![op], reason });
        }
        let ops = vec![write.op, op];
        let writer = self.name(write.op);
        if matches!(self.history.op(write.op).outcome, Outcome::Aborted { .. }) {
            let reason = format!("{reader} read {name}={value}, written by {writer}, which aborted");
            return Err(Illegal { anomaly: Anomaly::AbortedRead, ops, reason });
        }
        if newest && !write.installed {
            let reason = format!("{reader} read {name}={value}, which {writer} itself overwrote later");
            return Err(Illegal { anomaly: Anomaly::IntermediateRead, ops, reason });
        }
        Ok(version)
    }

    /// The version that a list ends with. All lists of a key must be beginnings of the longest.
    fn list_end(&self, op: OpId, key: KeyId, values: &[u64]) -> Result<Version, Illegal> {
        let longest = self.longest.get(&key).copied().unwrap_or_default();
        let Some(&last) = values.last() else { return Ok(Version::INITIAL) };
        let end = self.foreign(op, key, last, true)?;
        if !longest.starts_with(values) {
            for &value in values {
                self.foreign(op, key, value, false)?;
            }
            let reason =
                format!("{} read {}={values:?}, others read {longest:?}", self.name(op), self.key(key));
            return Err(Illegal { anomaly: Anomaly::ForkedVersions, ops: vec![op], reason });
        }
        Ok(end)
    }

    /// The versions of a key's longest list.
    fn list_versions(&self, key: KeyId, values: &[u64]) -> Result<Vec<Version>, Illegal> {
        let mut versions = Vec::with_capacity(values.len());
        let mut once = BTreeSet::new();
        for &value in values {
            let illegal = |anomaly, ops, what: &str| {
                let reason = format!("{}={values:?} holds {value}, {what}", self.key(key));
                Err(Illegal { anomaly, ops, reason })
            };
            let Some(version) = self.index.find(key, value) else {
                return illegal(Anomaly::GarbageRead, vec![], "which nobody appended");
            };
            let writer = self.index.writes[version.0 as usize].op;
            if matches!(self.history.op(writer).outcome, Outcome::Aborted { .. }) {
                return illegal(Anomaly::AbortedRead, vec![writer], "whose transaction aborted");
            }
            if !once.insert(value) {
                return illegal(Anomaly::DuplicateWrite, vec![writer], "twice");
            }
            versions.push(version);
        }
        Ok(versions)
    }

    fn name(&self, op: OpId) -> String {
        self.history.op_name(op)
    }
    fn key(&self, key: KeyId) -> &str {
        self.history.key_name(key)
    }
}
