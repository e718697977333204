//! Who touched what last, in one partition. Hot.
//!
//! IN: the access set of each transaction, in the order of pre-acceptance. OUT: the transactions it
//! conflicts with directly. KEEPS: any two conflicting transactions are connected by a path of reported
//! conflicts: a reader depends on the last writer, a writer on the last writer and on the readers since.
//!
//! Keys are found by a 64-bit digest of (table, key). Two keys that collide conflict needlessly and
//! harmlessly. A table that is accessed by ranges keeps its keys in order instead.
//!
//! Collected transactions are forgotten in passes over everything, once there is twice as much as after
//! the last pass: that costs a fraction of looking each granule up again.

use super::vertex::Ref;
use base::hash::{PointMap, digest};
use base::key::KeyRange;
use base::txn::{Access, AccessMode, Granule};
use base::{Key, TableId, TxnId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Granules that are few enough to keep: a pass over more brings them back into the processor's cache.
const PASS_AT_LEAST: usize = 512;
/// Overlapping ranges that are few enough to be walked at every access.
const ODD_MIN: usize = 8;

/// Last accessors of one granule. Some may have been collected since.
#[derive(Clone, Debug, Default)]
struct Accessors {
    writer: Option<Ref>,
    readers: SmallVec<[Ref; 2]>,
}

impl Accessors {
    fn is_empty(&self) -> bool {
        self.writer.is_none() && self.readers.is_empty()
    }
    /// Whom an access in this mode conflicts with.
    fn conflicts(&self, mode: AccessMode, flaws: Flaws, deps: &mut Vec<Ref>) {
        if mode == AccessMode::Read || !flaws.forget_writers {
            deps.extend(self.writer);
        }
        if mode == AccessMode::Write && !flaws.forget_readers {
            deps.extend_from_slice(&self.readers);
        }
    }
    fn install(&mut self, at: Ref, mode: AccessMode, alive: &impl Fn(Ref) -> bool) {
        match mode {
            AccessMode::Write => {
                self.writer = Some(at);
                self.readers.clear();
            }
            AccessMode::Read if self.writer == Some(at) || self.readers.last() == Some(&at) => {}
            AccessMode::Read => {
                // What is read by all and written by none must not remember everyone.
                if self.readers.len() == self.readers.capacity() {
                    self.forget(alive);
                    let count = self.readers.len();
                    self.readers.reserve(count + 1);
                }
                self.readers.push(at);
            }
        }
    }
    fn image(&self, id_of: &impl Fn(Ref) -> Option<TxnId>) -> AccessorsImage {
        let readers = self.readers.iter().filter_map(|at| id_of(*at)).collect();
        AccessorsImage { writer: self.writer.and_then(id_of), readers }
    }
    fn restored(image: AccessorsImage, at_of: &impl Fn(TxnId) -> Ref) -> Accessors {
        let AccessorsImage { writer, readers } = image;
        Accessors { writer: writer.map(at_of), readers: readers.into_iter().map(at_of).collect() }
    }
    /// Forgets who was collected.
    fn forget(&mut self, alive: &impl Fn(Ref) -> bool) {
        self.writer = self.writer.filter(|writer| alive(*writer));
        self.readers.retain(|reader| alive(*reader));
    }
    /// The same; whether anybody is left.
    fn remembers(&mut self, alive: &impl Fn(Ref) -> bool) -> bool {
        self.forget(alive);
        !self.is_empty()
    }
}

/// A conflict index as another node can take it over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Image {
    keys: Vec<(u64, AccessorsImage)>,
    ordered: Vec<OrderedImage>,
    whole: AccessorsImage,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct AccessorsImage {
    writer: Option<TxnId>,
    readers: Vec<TxnId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct OrderedImage {
    table: TableId,
    keys: Vec<(Key, AccessorsImage)>,
    flat: Vec<(KeyRange, AccessorsImage)>,
    odd: Vec<(KeyRange, AccessorsImage)>,
}

/// Planted faults, all off in production.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flaws {
    /// A write does not depend on the reads before it.
    pub forget_readers: bool,
    /// A write does not depend on the write before it.
    pub forget_writers: bool,
}

/// The conflict index of one partition.
#[derive(Clone, Debug, Default)]
pub struct ConflictIndex {
    keys: PointMap<u64, Accessors>,
    ordered: BTreeMap<TableId, Ordered>,
    whole: Accessors,
    /// Granules left by the last pass.
    len_after_pass: usize,
    flaws: Flaws,
}

fn key_digest(table: TableId, key: &Key) -> u64 {
    digest(&(table.0, key.as_bytes()))
}

impl ConflictIndex {
    pub fn with_flaws(flaws: Flaws) -> ConflictIndex {
        ConflictIndex { flaws, ..ConflictIndex::default() }
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
    /// duplicates, `at` itself, and references to who was collected. An access to the whole partition
    /// conflicts with everything installed: the caller adds that.
    pub fn install(
        &mut self,
        at: Ref,
        accesses: &[Access],
        alive: &impl Fn(Ref) -> bool,
        deps: &mut Vec<Ref>,
    ) {
        let flaws = self.flaws;
        if !self.whole.is_empty() {
            // Every access reads the catalog; a reader of the whole conflicts with every writer.
            let writes = accesses.iter().any(|access| access.mode == AccessMode::Write);
            let mode = if writes { AccessMode::Write } else { AccessMode::Read };
            self.whole.conflicts(mode, flaws, deps);
        }
        // Accesses are sorted: one look at the table serves its run.
        let mut run: Option<(TableId, bool)> = None;
        for Access { granule, mode } in accesses {
            match granule {
                Granule::Key(table, key) => {
                    let is_ordered = match run {
                        Some((known, is_ordered)) if known == *table => is_ordered,
                        _ => self.ordered.contains_key(table),
                    };
                    run = Some((*table, is_ordered));
                    if is_ordered {
                        let ordered = self.ordered.get_mut(table).expect("just found");
                        ordered.install_key(at, key, *mode, flaws, alive, deps);
                    } else {
                        let accessors = self.keys.or_insert_with(key_digest(*table, key), Accessors::default);
                        accessors.conflicts(*mode, flaws, deps);
                        accessors.install(at, *mode, alive);
                    }
                }
                Granule::Range(table, range) => {
                    let ordered = self.ordered.get_mut(table).expect("order_table was called");
                    ordered.install_range(at, range, *mode, flaws, alive, deps);
                }
                Granule::Partition => self.whole.install(at, *mode, alive),
            }
        }
    }

    /// Forgets collected transactions, if there may be many.
    pub fn forget(&mut self, alive: &impl Fn(Ref) -> bool) {
        if self.len() > 2 * self.len_after_pass + PASS_AT_LEAST {
            self.forget_now(alive);
        }
    }
    /// Forgets collected transactions.
    pub fn forget_now(&mut self, alive: &impl Fn(Ref) -> bool) {
        self.keys.retain(|accessors| accessors.remembers(alive));
        for ordered in self.ordered.values_mut() {
            ordered.keys.retain(|_, accessors| accessors.remembers(alive));
            ordered.flat.retain(|_, (_, accessors)| accessors.remembers(alive));
            ordered.odd.retain_mut(|(_, accessors)| accessors.remembers(alive));
        }
        self.whole.forget(alive);
        self.len_after_pass = self.len();
    }

    /// What is remembered, by transactions' ids, of those that `id_of` still knows.
    pub fn image(&self, id_of: &impl Fn(Ref) -> Option<TxnId>) -> Image {
        let one = |accessors: &Accessors| accessors.image(id_of);
        let ordered = |(table, ordered): (&TableId, &Ordered)| OrderedImage {
            table: *table,
            keys: ordered.keys.iter().map(|(key, accessors)| (key.clone(), one(accessors))).collect(),
            flat: ordered
                .flat
                .iter()
                .map(|(low, (high, accessors))| {
                    (KeyRange { low: low.clone(), high: high.clone() }, one(accessors))
                })
                .collect(),
            odd: ordered.odd.iter().map(|(range, accessors)| (range.clone(), one(accessors))).collect(),
        };
        Image {
            keys: self
                .keys
                .sorted()
                .into_iter()
                .map(|(digest, accessors)| (*digest, one(accessors)))
                .collect(),
            ordered: self.ordered.iter().map(ordered).collect(),
            whole: one(&self.whole),
        }
    }

    /// Remembers what an image says; `at_of` must know everybody in it.
    pub fn restored(image: Image, flaws: Flaws, at_of: &impl Fn(TxnId) -> Ref) -> ConflictIndex {
        let one = |image: AccessorsImage| Accessors::restored(image, at_of);
        let mut index = ConflictIndex::with_flaws(flaws);
        for (digest, accessors) in image.keys {
            index.keys.insert(digest, one(accessors));
        }
        for image in image.ordered {
            let mut ordered = Ordered::default();
            ordered.keys.extend(image.keys.into_iter().map(|(key, accessors)| (key, one(accessors))));
            let flat = image.flat.into_iter();
            ordered.flat.extend(flat.map(|(range, accessors)| (range.low, (range.high, one(accessors)))));
            ordered.odd.extend(image.odd.into_iter().map(|(range, accessors)| (range, one(accessors))));
            index.ordered.insert(image.table, ordered);
        }
        index.whole = one(image.whole);
        index.len_after_pass = index.len();
        index
    }

    /// Granules held.
    pub fn len(&self) -> usize {
        let ordered: usize = self.ordered.values().map(|o| o.keys.len() + o.flat.len() + o.odd.len()).sum();
        self.keys.len() + ordered + usize::from(!self.whole.is_empty())
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A table that is accessed by ranges.
#[derive(Clone, Debug, Default)]
struct Ordered {
    keys: BTreeMap<Key, Accessors>,
    /// Ranges that do not overlap, by their low ends, with their high ends: as prefixes of one length are.
    flat: BTreeMap<Key, (Option<Key>, Accessors)>,
    /// Ranges that overlap others. Every access walks them, so collected ones go as soon as there are twice as
    /// many as after the last time.
    odd: Vec<(KeyRange, Accessors)>,
    odd_after_pass: usize,
}

fn reaches(high: &Option<Key>, key: &Key) -> bool {
    high.as_ref().is_none_or(|high| key < high)
}

impl Ordered {
    fn install_key(
        &mut self,
        at: Ref,
        key: &Key,
        mode: AccessMode,
        flaws: Flaws,
        alive: &impl Fn(Ref) -> bool,
        deps: &mut Vec<Ref>,
    ) {
        if let Some((_, (high, accessors))) = self.flat.range::<Key, _>(..=key).next_back()
            && reaches(high, key)
        {
            accessors.conflicts(mode, flaws, deps);
        }
        for (range, accessors) in &self.odd {
            if range.contains(key) {
                accessors.conflicts(mode, flaws, deps);
            }
        }
        let accessors = match self.keys.get_mut(key) {
            Some(accessors) => accessors,
            None => self.keys.entry(key.clone()).or_default(),
        };
        accessors.conflicts(mode, flaws, deps);
        accessors.install(at, mode, alive);
    }

    /// Whom an access to a range meets among the ranges that do not overlap each other; whether one of them is the same,
    /// and whether there is any.
    fn meet_flat(
        &self,
        range: &KeyRange,
        mode: AccessMode,
        flaws: Flaws,
        deps: &mut Vec<Ref>,
    ) -> (bool, bool) {
        let mut overlaps = false;
        let mut same = false;
        if let Some((low, (high, accessors))) = self.flat.range::<Key, _>(..=&range.low).next_back()
            && reaches(high, &range.low)
        {
            same = *low == range.low && *high == range.high;
            overlaps = true;
            accessors.conflicts(mode, flaws, deps);
        }
        if !same {
            let inside = (Bound::Excluded(&range.low), Bound::Unbounded);
            for (low, (_, accessors)) in self.flat.range::<Key, _>(inside) {
                if !reaches(&range.high, low) {
                    break;
                }
                overlaps = true;
                accessors.conflicts(mode, flaws, deps);
            }
        }
        (same, overlaps)
    }

    fn install_range(
        &mut self,
        at: Ref,
        range: &KeyRange,
        mode: AccessMode,
        flaws: Flaws,
        alive: &impl Fn(Ref) -> bool,
        deps: &mut Vec<Ref>,
    ) {
        if range.is_empty() {
            return;
        }
        let (same, mut overlaps) = self.meet_flat(range, mode, flaws, deps);
        let mut odd = None;
        for (nth, (other, accessors)) in self.odd.iter().enumerate() {
            if other.overlaps(range) {
                overlaps = true;
                accessors.conflicts(mode, flaws, deps);
            }
            if other == range {
                odd = Some(nth);
            }
        }
        if !self.keys.is_empty() {
            let mut covered = 0;
            for (key, accessors) in self.keys.range::<Key, _>(&range.low..) {
                if !reaches(&range.high, key) {
                    break;
                }
                covered += 1;
                accessors.conflicts(mode, flaws, deps);
            }
            if mode == AccessMode::Write && covered > 0 && !flaws.forget_readers {
                self.subsume(range);
            }
        }
        let accessors = match odd {
            Some(nth) => &mut self.odd[nth].1,
            None if same => &mut self.flat.get_mut(&range.low).expect("just found").1,
            None if overlaps => {
                if self.odd.len() >= ODD_MIN.max(2 * self.odd_after_pass) {
                    self.odd.retain_mut(|(_, accessors)| accessors.remembers(alive));
                    self.odd_after_pass = self.odd.len();
                }
                self.odd.push((range.clone(), Accessors::default()));
                &mut self.odd.last_mut().expect("just pushed").1
            }
            None => {
                let entry = self.flat.entry(range.low.clone());
                &mut entry.or_insert_with(|| (range.high.clone(), Accessors::default())).1
            }
        };
        accessors.install(at, mode, alive);
    }

    /// Forgets keys inside a range that was just written: whoever meets one of them meets that writer,
    /// which depends on all their accessors.
    fn subsume(&mut self, range: &KeyRange) {
        while let Some((key, _)) = self.keys.range::<Key, _>(&range.low..).next()
            && reaches(&range.high, key)
        {
            let key = key.clone();
            self.keys.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests;
