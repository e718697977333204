//! The modification tracker: how far a log has to be applied before a table, or a granule of it, is up to date (PolarDB-SCC
//! §4.2).
//!
//! IN: what each commit record writes, in the order of the log. OUT: for a granule that is read, the position of the last
//! commit record that may have written into it. KEEPS: answers only grow, within one incarnation of the log; an answer is
//! never below the true position (granules that share a slot share the larger one, and whoever starts without knowing
//! starts at a floor); slots hold a record before [`Tracker::publish`] tells of it.
//!
//! | level | slots | paper |
//! |---|---|---|
//! | global | 1, the last record that is published | the global committed timestamp |
//! | table | a fixed number, by hash | MTT record of a table |
//! | granule ([`super::granules`]) | a fixed number, by hash | MTT record of a page |
//!
//! All of it is one array of numbers with fixed places, so that it can lie in memory that others map: what keeps it is a
//! [`Slots`]: plain (`Vec<u64>`), atomic at a node ([`SharedSlots`], which [`super::published`] lets others load), atomic in
//! the mapping of crate `logring`. Beside the slots lie the two ranks that [`super::published`] is about.

use super::granules::{self, Watched};
use base::key::KeyRange;
use base::txn::Granule;
use base::{Key, LogPosition, Rank, TableId};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Numbers that only grow, by place.
pub trait Slots {
    fn load(&self, place: usize) -> u64;
    /// To at least this much. Whoever loads from `place` what was raised here also sees what was raised before.
    fn raise(&mut self, place: usize, to: u64);
}

impl Slots for Vec<u64> {
    fn load(&self, place: usize) -> u64 {
        self[place]
    }
    fn raise(&mut self, place: usize, to: u64) {
        self[place] = self[place].max(to);
    }
}

/// Numbers of one partition that others read while its node writes them: in the node's own memory, or in memory that its
/// host lends it, which processes beside this one map.
pub trait Memory: fmt::Debug + Send + Sync {
    /// [`Sizes::slots`] of them, at least.
    fn numbers(&self) -> &[AtomicU64];
    /// Readers in other processes take the numbers for nothing until [`Memory::begin`].
    fn void(&self) {}
    /// Readers in other processes may look from now on. `life`: of the node that writes, not 0, and never used before.
    fn begin(&self, _life: u64) {}
}

impl Memory for Box<[AtomicU64]> {
    fn numbers(&self) -> &[AtomicU64] {
        self
    }
}

/// Slots that others read while they are written: every one sees what is raised no later than what is raised after it.
#[derive(Clone, Debug)]
pub struct SharedSlots(Arc<dyn Memory>);

impl Slots for SharedSlots {
    fn load(&self, place: usize) -> u64 {
        self.0.numbers()[place].load(Acquire)
    }
    fn raise(&mut self, place: usize, to: u64) {
        let number = &self.0.numbers()[place];
        // One writer: nobody has raised it meanwhile.
        if number.load(Relaxed) < to {
            number.store(to, Release);
        }
    }
}

/// How many slots there are of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub tables: u32,
    pub granules: u32,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { tables: 1 << 12, granules: 1 << 20 }
    }
}

/// Places of the numbers that stand alone.
const PUBLISHED: usize = 0;
const FLOOR: usize = 1;
const EXECUTED: usize = 2;
const CLOSED: usize = 3;
const FIRST: usize = 4;

impl Sizes {
    /// How many numbers that makes.
    pub fn slots(self) -> usize {
        FIRST + self.tables as usize + self.granules as usize
    }
    fn table(self, object: TableId) -> usize {
        FIRST + (base::hash::digest(&object.0) % u64::from(self.tables)) as usize
    }
    fn granule(self, hash: granules::GranuleHash) -> usize {
        FIRST + self.tables as usize + (hash.0 % u64::from(self.granules)) as usize
    }
}

/// Of one log, at its writer or mapped by a reader.
#[derive(Clone, Debug)]
pub struct Tracker<S> {
    slots: S,
    sizes: Sizes,
}

impl Tracker<Vec<u64>> {
    /// In a node's own memory. `floor`: whatever was written before may be anywhere.
    pub fn plain(sizes: Sizes, floor: LogPosition) -> Tracker<Vec<u64>> {
        let mut tracker = Tracker::over(vec![0; sizes.slots()], sizes);
        tracker.modified_all(floor);
        tracker.publish(floor);
        tracker
    }
}

impl Tracker<SharedSlots> {
    /// As [`Tracker::plain`]; clones share the slots, and one of them writes.
    pub fn shared(sizes: Sizes, floor: LogPosition) -> Tracker<SharedSlots> {
        let numbers: Box<[AtomicU64]> = (0..sizes.slots()).map(|_| AtomicU64::new(0)).collect();
        Tracker::lent(Arc::new(numbers), sizes, floor)
    }
    /// The same in this memory, of which readers in other processes see nothing before [`Memory::begin`].
    pub fn lent(memory: Arc<dyn Memory>, sizes: Sizes, floor: LogPosition) -> Tracker<SharedSlots> {
        memory.void();
        memory.numbers()[..sizes.slots()].iter().for_each(|number| number.store(0, Relaxed));
        let mut tracker = Tracker::over(SharedSlots(memory), sizes);
        tracker.modified_all(floor);
        tracker.publish(floor);
        tracker
    }
}

impl<S: Slots> Tracker<S> {
    /// Over [`Sizes::slots`] numbers that are there already.
    pub fn over(slots: S, sizes: Sizes) -> Tracker<S> {
        Tracker { slots, sizes }
    }

    // ---- the writer ---------------------------------------------------------------------------------

    /// The record at this position writes a key of a table, or an entry of an index.
    pub fn modified(&mut self, object: TableId, key: &Key, at: LogPosition) {
        let Tracker { slots, sizes } = self;
        granules::of_key(object, key, &mut |hash| slots.raise(sizes.granule(hash), at.0));
        slots.raise(sizes.table(object), at.0);
    }
    /// It changes the catalog, or nothing is known of what came before it.
    pub fn modified_all(&mut self, at: LogPosition) {
        self.slots.raise(FLOOR, at.0);
    }
    /// Records up to here are in the slots: readers may learn of them.
    pub fn publish(&mut self, at: LogPosition) {
        self.slots.raise(PUBLISHED, at.0);
    }
    /// A transaction of this rank was executed, and its record is published.
    pub fn execute(&mut self, rank: Rank) {
        self.slots.raise(EXECUTED, rank.0);
    }
    /// Everything at or below this rank is in published records.
    pub fn close(&mut self, rank: Rank) {
        self.slots.raise(CLOSED, rank.0);
    }

    // ---- readers ------------------------------------------------------------------------------------

    /// The last record that readers may learn of. Slots that are loaded later have it, and all before.
    pub fn published(&self) -> LogPosition {
        LogPosition(self.slots.load(PUBLISHED))
    }
    /// No transaction that was executed has a larger rank.
    pub fn executed(&self) -> Rank {
        Rank(self.slots.load(EXECUTED))
    }
    /// Everything at or below it is in records whose end is loaded later.
    pub fn closed(&self) -> Rank {
        Rank(self.slots.load(CLOSED))
    }
    /// The last record that may have written something of this table or index.
    pub fn of_table(&self, object: TableId) -> LogPosition {
        self.at_least_floor(self.slots.load(self.sizes.table(object)))
    }
    /// The last record that may have written into this range of a table or index.
    pub fn of_range(&self, object: TableId, range: &KeyRange) -> LogPosition {
        match granules::of_range(object, range) {
            Watched::Table => self.of_table(object),
            Watched::Granules(watched) => {
                let slots = watched.iter().map(|hash| self.slots.load(self.sizes.granule(*hash)));
                // Where two share a slot, the table may know better.
                self.at_least_floor(slots.max().unwrap_or(0)).min(self.of_table(object))
            }
        }
    }
    /// The last record that may have written into this granule.
    pub fn of(&self, granule: &Granule) -> LogPosition {
        match granule {
            Granule::Key(object, key) => match granules::of_point(*object, key) {
                Some(hash) => {
                    let slot = self.slots.load(self.sizes.granule(hash));
                    // Where two share a slot, the table may know better.
                    self.at_least_floor(slot).min(self.of_table(*object))
                }
                None => self.of_table(*object),
            },
            Granule::Range(object, range) => self.of_range(*object, range),
            Granule::Partition => self.published(),
        }
    }

    fn at_least_floor(&self, position: u64) -> LogPosition {
        LogPosition(position.max(self.slots.load(FLOOR)))
    }
}

#[cfg(test)]
mod tests;
