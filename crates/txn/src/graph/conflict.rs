//! Who touched what last, in one partition.
//!
//! IN: the access set of each transaction, in the order of pre-acceptance. OUT: the transactions it
//! conflicts with directly. KEEPS: any two conflicting transactions are connected by a path of reported
//! conflicts: a reader depends on the last writer, a writer on the last writer and on the readers since.
//!
//! Keys are found by a 64-bit digest of (table, key). Two keys that collide conflict needlessly and
//! harmlessly. A table that is accessed by ranges keeps its keys in order instead.

use base::hash::{PointMap, digest};
use base::key::KeyRange;
use base::txn::{Access, AccessMode, Granule};
use base::{Key, TableId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

const NOBODY: u32 = u32::MAX;

/// Last accessors of one granule, by slot.
#[derive(Clone, Debug)]
struct Accessors {
    writer: u32,
    /// Number of the last sweep that looked here.
    swept: u32,
    readers: SmallVec<[u32; 4]>,
}

impl Accessors {
    fn none() -> Accessors {
        Accessors { writer: NOBODY, swept: 0, readers: SmallVec::new() }
    }
    fn is_empty(&self) -> bool {
        self.writer == NOBODY && self.readers.is_empty()
    }
    /// Whom an access in this mode conflicts with.
    fn conflicts(&self, mode: AccessMode, flaws: Flaws, deps: &mut Vec<u32>) {
        if self.writer != NOBODY {
            deps.push(self.writer);
        }
        if mode == AccessMode::Write && !flaws.forget_readers {
            deps.extend_from_slice(&self.readers);
        }
    }
    fn install(&mut self, slot: u32, mode: AccessMode) {
        match mode {
            AccessMode::Write => {
                self.writer = slot;
                self.readers.clear();
            }
            AccessMode::Read if self.writer == slot || self.readers.last() == Some(&slot) => {}
            AccessMode::Read => self.readers.push(slot),
        }
    }
    /// Forgets the slots that are gone.
    fn sweep(&mut self, sweep: u32, gone: &impl Fn(u32) -> bool) {
        if self.swept != sweep {
            self.swept = sweep;
            if self.writer != NOBODY && gone(self.writer) {
                self.writer = NOBODY;
            }
            self.readers.retain(|reader| !gone(*reader));
        }
    }
}

/// Planted faults, all off in production.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flaws {
    /// A write does not depend on the reads before it.
    pub forget_readers: bool,
}

/// A table that is accessed by ranges.
#[derive(Clone, Debug, Default)]
struct Ordered {
    keys: BTreeMap<Key, Accessors>,
    ranges: Vec<(KeyRange, Accessors)>,
}

/// The conflict index of one partition.
#[derive(Clone, Debug)]
pub struct ConflictIndex {
    keys: PointMap<u64, Accessors>,
    ordered: BTreeMap<TableId, Ordered>,
    whole: Accessors,
    sweeps: u32,
    flaws: Flaws,
}

impl Default for ConflictIndex {
    fn default() -> Self {
        ConflictIndex::with_flaws(Flaws::default())
    }
}

fn key_digest(table: TableId, key: &Key) -> u64 {
    digest(&(table.0, key.as_bytes()))
}

impl ConflictIndex {
    pub fn with_flaws(flaws: Flaws) -> ConflictIndex {
        ConflictIndex {
            keys: PointMap::default(),
            ordered: BTreeMap::new(),
            whole: Accessors::none(),
            sweeps: 0,
            flaws,
        }
    }
    /// The first table that `accesses` touch by range and that has only been touched by keys so far:
    /// [`ConflictIndex::order_table`] has to be called for it first.
    pub fn unordered_table(&self, accesses: &[Access]) -> Option<TableId> {
        accesses.iter().find_map(|access| match &access.granule {
            Granule::Range(table, _) if !self.ordered.contains_key(table) => Some(*table),
            _ => None,
        })
    }
    /// Keeps a table's keys in order from now on. `live` are the accesses of everything that is installed.
    pub fn order_table<'a>(&mut self, table: TableId, live: impl Iterator<Item = &'a Access>) {
        let mut ordered = Ordered::default();
        for access in live {
            if let Granule::Key(t, key) = &access.granule
                && *t == table
                && let Some(accessors) = self.keys.remove(&key_digest(table, key))
            {
                ordered.keys.insert(key.clone(), accessors);
            }
        }
        self.ordered.insert(table, ordered);
    }

    /// Reports whom the accesses conflict with and takes their place in the order. `deps` may get
    /// duplicates and `slot` itself. An access to the whole partition conflicts with everything installed:
    /// the caller adds that.
    pub fn install(&mut self, slot: u32, accesses: &[Access], deps: &mut Vec<u32>) {
        let flaws = self.flaws;
        if !self.whole.is_empty() {
            // Every access reads the catalog; a reader of the whole conflicts with every writer.
            let writes = accesses.iter().any(|access| access.mode == AccessMode::Write);
            let mode = if writes { AccessMode::Write } else { AccessMode::Read };
            self.whole.conflicts(mode, flaws, deps);
        }
        for Access { granule, mode } in accesses {
            match granule {
                Granule::Key(table, key) => match self.ordered.get_mut(table) {
                    None => {
                        let accessors = self.keys.or_insert_with(key_digest(*table, key), Accessors::none);
                        accessors.conflicts(*mode, flaws, deps);
                        accessors.install(slot, *mode);
                    }
                    Some(ordered) => ordered.install_key(slot, key, *mode, flaws, deps),
                },
                Granule::Range(table, range) => {
                    let ordered = self.ordered.get_mut(table).expect("order_table was called");
                    ordered.install_range(slot, range, *mode, flaws, deps);
                }
                Granule::Partition => self.whole.install(slot, *mode),
            }
        }
    }

    /// Starts a sweep; [`ConflictIndex::sweep`] then looks at each granule once.
    pub fn begin_sweep(&mut self) {
        self.sweeps = self.sweeps.wrapping_add(1);
    }
    /// Forgets collected transactions in the granules that one of them touched. `gone` tells which.
    pub fn sweep(&mut self, accesses: &[Access], gone: &impl Fn(u32) -> bool) {
        let sweep = self.sweeps;
        for Access { granule, .. } in accesses {
            match granule {
                Granule::Key(table, key) => match self.ordered.get_mut(table) {
                    None => {
                        if let Entry::Occupied(mut entry) = self.keys.entry(key_digest(*table, key)) {
                            entry.get_mut().sweep(sweep, gone);
                            if entry.get().is_empty() {
                                entry.remove();
                            }
                        }
                    }
                    Some(ordered) => {
                        if let Some(accessors) = ordered.keys.get_mut(key) {
                            accessors.sweep(sweep, gone);
                            if accessors.is_empty() {
                                ordered.keys.remove(key);
                            }
                        }
                    }
                },
                Granule::Range(table, range) => {
                    if let Some(ordered) = self.ordered.get_mut(table)
                        && let Some(at) = ordered.ranges.iter().position(|(r, _)| r == range)
                    {
                        let accessors = &mut ordered.ranges[at].1;
                        accessors.sweep(sweep, gone);
                        if accessors.is_empty() {
                            ordered.ranges.swap_remove(at);
                        }
                    }
                }
                Granule::Partition => self.whole.sweep(sweep, gone),
            }
        }
    }

    /// Granules held, for memory checks.
    pub fn len(&self) -> usize {
        let ordered: usize = self.ordered.values().map(|o| o.keys.len() + o.ranges.len()).sum();
        self.keys.len() + ordered + usize::from(!self.whole.is_empty())
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Ordered {
    fn install_key(&mut self, slot: u32, key: &Key, mode: AccessMode, flaws: Flaws, deps: &mut Vec<u32>) {
        for (range, accessors) in &self.ranges {
            if range.contains(key) {
                accessors.conflicts(mode, flaws, deps);
            }
        }
        let accessors = match self.keys.get_mut(key) {
            Some(accessors) => accessors,
            None => self.keys.entry(key.clone()).or_insert_with(Accessors::none),
        };
        accessors.conflicts(mode, flaws, deps);
        accessors.install(slot, mode);
    }

    fn install_range(
        &mut self,
        slot: u32,
        range: &KeyRange,
        mode: AccessMode,
        flaws: Flaws,
        deps: &mut Vec<u32>,
    ) {
        if range.is_empty() {
            return;
        }
        let mut same = None;
        for (at, (other, accessors)) in self.ranges.iter().enumerate() {
            if other.overlaps(range) {
                accessors.conflicts(mode, flaws, deps);
            }
            if other == range {
                same = Some(at);
            }
        }
        for (key, accessors) in self.keys.range(range.low.clone()..) {
            if range.high.as_ref().is_some_and(|high| key >= high) {
                break;
            }
            accessors.conflicts(mode, flaws, deps);
        }
        let at = same.unwrap_or_else(|| {
            self.ranges.push((range.clone(), Accessors::none()));
            self.ranges.len() - 1
        });
        self.ranges[at].1.install(slot, mode);
        if mode == AccessMode::Write && !flaws.forget_readers {
            // Whoever meets one of these keys meets this writer, which depends on their accessors.
            loop {
                let next = self.keys.range(range.low.clone()..).next();
                let Some(key) = next.map(|(key, _)| key.clone()).filter(|key| range.contains(key)) else {
                    break;
                };
                self.keys.remove(&key);
            }
        }
    }
}
