//! An ordered map whose values have versions.
//!
//! KEEPS: versions of one key are written in the order of their places and stand in that order; a
//! missing value is a deletion that older cuts look past; what stands at or below the last trim is one
//! version at most, and never a deletion.
//!
//! The newest version stands in the map itself, so that a key with one version costs nothing more.

use crate::map::PackedMap;
use base::key::KeyRange;
use base::{Key, Place};
use std::collections::VecDeque;

/// One key's versions. The first field pair is the newest one.
#[derive(Debug)]
pub struct Slot<V> {
    place: Place,
    value: Option<V>,
    older: Option<Box<Older<V>>>,
}

/// Superseded versions, oldest first; mostly one, except where writers crowd.
#[derive(Debug)]
enum Older<V> {
    One((Place, Option<V>)),
    Many(VecDeque<(Place, Option<V>)>),
}

impl<V> Older<V> {
    fn len(&self) -> usize {
        match self {
            Older::One(_) => 1,
            Older::Many(versions) => versions.len(),
        }
    }
    fn get(&self, n: usize) -> Option<&(Place, Option<V>)> {
        match self {
            Older::One(version) => (n == 0).then_some(version),
            Older::Many(versions) => versions.get(n),
        }
    }
    /// How many are at or before a cut.
    fn visible(&self, cut: Place) -> usize {
        match self {
            Older::One((place, _)) => usize::from(*place <= cut),
            Older::Many(versions) => versions.partition_point(|(place, _)| *place <= cut),
        }
    }
    fn iter(&self) -> impl DoubleEndedIterator<Item = &(Place, Option<V>)> {
        (0..self.len()).map(|n| self.get(n).expect("below the length"))
    }
    fn push(&mut self, version: (Place, Option<V>)) {
        match self {
            Older::Many(versions) => versions.push_back(version),
            Older::One(_) => {
                let Older::One(first) = std::mem::replace(self, Older::Many(VecDeque::with_capacity(4)))
                else {
                    unreachable!("just matched")
                };
                self.push(first);
                self.push(version);
            }
        }
    }
}

/// Keys in order, each with its versions.
#[derive(Debug)]
pub struct VersionMap<V> {
    slots: PackedMap<Slot<V>>,
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
        older.get(older.visible(cut).checked_sub(1)?)?.1.as_ref()
    }
    /// The newest value that is not a deletion, for messages.
    pub fn last_seen(&self) -> Option<&V> {
        let older = self.older.iter().flat_map(|older| older.iter().rev());
        std::iter::once(&self.value).chain(older.map(|(_, value)| value)).flatten().next()
    }
    fn write(&mut self, value: Option<V>, place: Place, replaced: &mut Replaced<V>)
    where
        V: Clone,
    {
        if self.place == place {
            replaced.before = std::mem::replace(&mut self.value, value);
            replaced.leaves_garbage = true;
            return;
        }
        assert!(
            self.place < place,
            "versions of one key are applied in the order of their places: {place:?} after {:?}",
            self.place
        );
        if self.value.is_none() && value.is_none() {
            return;
        }
        let before = std::mem::replace(&mut self.value, value);
        let superseded = (std::mem::replace(&mut self.place, place), before.clone());
        match &mut self.older {
            Some(older) => older.push(superseded),
            None => self.older = Some(Box::new(Older::One(superseded))),
        }
        *replaced = Replaced { before, added_version: true, leaves_garbage: true };
    }
    /// The newest value of those that were not written at these places.
    pub fn newest_but(&self, is_left_out: &dyn Fn(&Place) -> bool) -> Option<&V> {
        if !is_left_out(&self.place) {
            return self.value.as_ref();
        }
        let older = self.older.iter().flat_map(|older| older.iter().rev());
        older.filter(|(place, _)| !is_left_out(place)).map(|(_, value)| value.as_ref()).next().flatten()
    }
    /// All versions, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = (Place, Option<&V>)> {
        let older = self.older.iter().flat_map(|older| older.iter());
        older.map(|(place, value)| (*place, value.as_ref())).chain([(self.place, self.value.as_ref())])
    }
}

impl<V> Default for VersionMap<V> {
    fn default() -> Self {
        VersionMap { slots: PackedMap::default() }
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
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Slot<V>)> {
        self.slots.iter()
    }

    /// Visits the slots of a range in key order, or its reverse; `visit` answers whether to go on.
    pub fn scan<'a>(
        &'a self,
        range: &KeyRange,
        descending: bool,
        visit: impl FnMut(&Key, &'a Slot<V>) -> bool,
    ) {
        self.slots.scan(range, descending, visit);
    }

    /// Makes `value` the newest version of `key`.
    ///
    /// Panics if the key has a version at a later place: conflicting writers are executed in the order
    /// of their places, so this is a defect of the engine that ordered them.
    pub fn write(&mut self, key: &Key, value: Option<V>, place: Place) -> Replaced<V> {
        let mut replaced = Replaced { before: None, added_version: false, leaves_garbage: false };
        self.slots.upsert(key, |slot| match slot {
            Some(slot) => {
                slot.write(value, place, &mut replaced);
                None
            }
            None => {
                // Deleting what never was leaves no trace.
                replaced.added_version = value.is_some();
                replaced.added_version.then_some(Slot { place, value, older: None })
            }
        });
        replaced
    }

    /// Forgets the versions of `key` that no cut at or after `below` can see, handing each to
    /// `forgotten`. A deletion with nothing before it goes as well.
    pub fn trim(&mut self, key: &Key, below: Place, mut forgotten: impl FnMut(Option<V>)) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if let Some(older) = &mut slot.older {
            let visible = older.visible(below);
            // The newest one at or below the cut is what the cut sees, unless the head is.
            let is_seen =
                slot.place > below && visible > 0 && older.get(visible - 1).is_some_and(|v| v.1.is_some());
            let gone = visible - usize::from(is_seen);
            if gone == older.len() {
                match *slot.older.take().expect("just seen") {
                    Older::One((_, value)) => forgotten(value),
                    Older::Many(versions) => versions.into_iter().for_each(|(_, value)| forgotten(value)),
                }
            } else if let Older::Many(versions) = &mut **older {
                versions.drain(..gone).for_each(|(_, value)| forgotten(value));
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
