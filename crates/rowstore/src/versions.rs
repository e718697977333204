//! An ordered map whose values have versions.
//!
//! KEEPS: versions of one key are written in the order of their places and stand in that order; a
//! missing value is a deletion that older cuts look past; what stands at or below the last trim is one
//! version at most, and never a deletion.
//!
//! The newest version stands in the map itself, so that a key with one version costs nothing more.

use base::key::KeyRange;
use base::{Key, Place};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// One key's versions. The first field pair is the newest one.
#[derive(Debug)]
pub struct Slot<V> {
    place: Place,
    value: Option<V>,
    /// Older versions, oldest first.
    #[allow(clippy::box_collection)]
    older: Option<Box<VecDeque<(Place, Option<V>)>>>,
}

/// Keys in order, each with its versions.
#[derive(Debug)]
pub struct VersionMap<V> {
    slots: BTreeMap<Key, Slot<V>>,
}

/// What a write found.
pub struct Replaced<V> {
    /// The newest value before; the transaction's own, if it had written the key already.
    pub before: Option<V>,
    /// A version more than before.
    pub added_version: bool,
    /// Something can be collected once this place is behind every reader.
    pub leaves_garbage: bool,
}

impl<V> Slot<V> {
    /// Place of the newest version.
    pub fn place(&self) -> Place {
        self.place
    }
    /// The newest value, `None` if the key was deleted.
    pub fn latest(&self) -> Option<&V> {
        self.value.as_ref()
    }
    /// The value at a cut that includes everything up to `cut`.
    pub fn at(&self, cut: Place) -> Option<&V> {
        if self.place <= cut {
            return self.value.as_ref();
        }
        let older = self.older.as_ref()?;
        let count = older.partition_point(|(place, _)| *place <= cut);
        older.get(count.checked_sub(1)?)?.1.as_ref()
    }
    /// The newest value that is not a deletion, for messages.
    pub fn last_seen(&self) -> Option<&V> {
        let older = self.older.iter().flat_map(|older| older.iter().rev());
        std::iter::once(&self.value).chain(older.map(|(_, value)| value)).flatten().next()
    }
    /// All versions, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = (Place, Option<&V>)> {
        let older = self.older.iter().flat_map(|older| older.iter());
        older.map(|(place, value)| (*place, value.as_ref())).chain([(self.place, self.value.as_ref())])
    }
}

impl<V> Default for VersionMap<V> {
    fn default() -> Self {
        VersionMap { slots: BTreeMap::new() }
    }
}

impl<V: Clone> VersionMap<V> {
    pub fn slot(&self, key: &Key) -> Option<&Slot<V>> {
        self.slots.get(key)
    }
    /// The newest value.
    pub fn latest(&self, key: &Key) -> Option<&V> {
        self.slots.get(key)?.latest()
    }
    /// Keys with at least one version, deleted ones included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Slot<V>)> {
        self.slots.iter()
    }

    /// Visits the slots of a range in key order, or its reverse; `visit` answers whether to go on.
    pub fn scan<'a>(
        &'a self,
        range: &KeyRange,
        descending: bool,
        mut visit: impl FnMut(&'a Key, &'a Slot<V>) -> bool,
    ) {
        if range.is_empty() {
            return;
        }
        let high = range.high.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut slots = self.slots.range::<Key, _>((Bound::Included(&range.low), high));
        while let Some((key, slot)) = if descending { slots.next_back() } else { slots.next() } {
            if !visit(key, slot) {
                return;
            }
        }
    }

    /// Makes `value` the newest version of `key`.
    ///
    /// Panics if the key has a version at a later place: conflicting writers are executed in the order
    /// of their places, so this is a defect of whoever ordered them.
    pub fn write(&mut self, key: &Key, value: Option<V>, place: Place) -> Replaced<V> {
        let Some(slot) = self.slots.get_mut(key) else {
            // Deleting what never was leaves no trace.
            let added_version = value.is_some();
            if added_version {
                self.slots.insert(key.clone(), Slot { place, value, older: None });
            }
            return Replaced { before: None, added_version, leaves_garbage: false };
        };
        let leaves_garbage = true;
        if slot.place == place {
            let before = std::mem::replace(&mut slot.value, value);
            return Replaced { before, added_version: false, leaves_garbage };
        }
        assert!(
            slot.place < place,
            "versions of one key are applied in the order of their places: {:?} after {:?}",
            place,
            slot.place
        );
        if slot.value.is_none() && value.is_none() {
            return Replaced { before: None, added_version: false, leaves_garbage: false };
        }
        let before = std::mem::replace(&mut slot.value, value);
        let superseded = (std::mem::replace(&mut slot.place, place), before.clone());
        slot.older.get_or_insert_default().push_back(superseded);
        Replaced { before, added_version: true, leaves_garbage }
    }

    /// Forgets the versions of `key` that no cut at or after `below` can see, handing each to
    /// `forgotten`. A deletion with nothing before it goes as well.
    pub fn trim(&mut self, key: &Key, below: Place, mut forgotten: impl FnMut(Option<V>)) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if let Some(older) = &mut slot.older {
            let visible = older.partition_point(|(place, _)| *place <= below);
            // The newest one at or below the cut is what the cut sees, unless the head is.
            let kept = usize::from(slot.place > below && visible > 0 && older[visible - 1].1.is_some());
            older.drain(..visible - kept.min(visible)).for_each(|(_, value)| forgotten(value));
            if older.is_empty() {
                slot.older = None;
            }
        }
        if slot.value.is_none() && slot.place <= below {
            debug_assert!(slot.older.is_none());
            self.slots.remove(key);
            forgotten(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Datum, Rank, TxnId};

    fn place(rank: u64) -> Place {
        Place::new(Rank(rank), TxnId { sequence: 1, ..TxnId::MIN })
    }
    fn key(n: i64) -> Key {
        Key::of(&[Datum::Int(n)])
    }
    fn at(map: &VersionMap<u64>, rank: u64) -> Option<u64> {
        map.slot(&key(1)).and_then(|s| s.at(Place::end_of(Rank(rank)))).copied()
    }

    #[test]
    fn a_cut_sees_the_newest_version_at_or_before_it() {
        let mut map = VersionMap::default();
        for (rank, value) in [(10, Some(1)), (20, None), (30, Some(3))] {
            map.write(&key(1), value, place(rank));
        }
        let seen = [9, 10, 19, 20, 29, 30, 99].map(|rank| at(&map, rank));
        assert_eq!(seen, [None, Some(1), Some(1), None, None, Some(3), Some(3)]);
    }

    #[test]
    fn a_tie_in_rank_is_included() {
        let mut map = VersionMap::default();
        let late = Place::new(Rank(10), TxnId { sequence: 9, ..TxnId::MIN });
        map.write(&key(1), Some(1), place(10));
        map.write(&key(1), Some(2), late);
        assert_eq!(at(&map, 10), Some(2));
    }

    #[test]
    fn trimming_changes_no_later_cut() {
        let history = [(10, Some(1)), (20, None), (30, Some(3)), (40, None), (50, Some(5)), (60, None)];
        for below in 0..70 {
            let (mut map, mut trimmed) = (VersionMap::default(), VersionMap::default());
            for (rank, value) in history {
                map.write(&key(1), value, place(rank));
                trimmed.write(&key(1), value, place(rank));
            }
            let mut count = 0;
            trimmed.trim(&key(1), Place::end_of(Rank(below)), |_| count += 1);
            for cut in below..80 {
                assert_eq!(at(&map, cut), at(&trimmed, cut), "cut {cut} after a trim at {below}");
            }
            let left = trimmed.slot(&key(1)).map_or(0, |s| s.versions().count());
            assert_eq!(left + count, history.len());
            // At most one version that is not later than the cut, and no deletion.
            let kept: Vec<_> = trimmed.slot(&key(1)).map_or(vec![], |s| {
                s.versions().filter(|(p, _)| p.rank.0 <= below).map(|(_, v)| v.copied()).collect()
            });
            assert!(kept.len() <= 1 && kept.iter().all(Option::is_some), "{kept:?} after {below}");
        }
    }

    #[test]
    #[should_panic(expected = "in the order of their places")]
    fn a_version_out_of_order_is_refused() {
        let mut map = VersionMap::default();
        map.write(&key(1), Some(1), place(10));
        map.write(&key(1), Some(2), place(9));
    }
}
