//! An ordered map from keys to values, packed: many keys stand back to back in one leaf.
//!
//! KEEPS: the first leaf begins at the empty key, each other one at a key not above its first; leaves are
//! never empty, except a lone first one.
//!
//! A tree with a node per handful of keys spends most of a lookup waiting for memory, and half of its
//! memory on room. Here a small tree leads to leaves; one filled in order becomes full to the brim.

use base::Key;
use base::key::KeyRange;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Entries of a leaf.
const LEAF_MAX: usize = 128;
/// Leaves this small look for a neighbour to join.
const LEAF_SMALL: usize = 8;

/// Keys in order, with their values.
#[derive(Debug)]
pub struct PackedMap<V> {
    /// By lower bound.
    leaves: BTreeMap<Key, Leaf<V>>,
    len: usize,
}

#[derive(Debug)]
struct Leaf<V> {
    /// The keys, back to back, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    values: Vec<V>,
}

impl<V> Leaf<V> {
    fn empty() -> Leaf<V> {
        Leaf { bytes: Vec::new(), ends: Vec::new(), values: Vec::new() }
    }
    fn len(&self) -> usize {
        self.values.len()
    }
    fn start(&self, n: usize) -> usize {
        if n == 0 { 0 } else { self.ends[n - 1] as usize }
    }
    fn key(&self, n: usize) -> &[u8] {
        &self.bytes[self.start(n)..self.ends[n] as usize]
    }
    /// Position of a key, or where it would stand.
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }
    /// How many keys are below this one.
    fn below(&self, key: &[u8]) -> usize {
        self.find(key).unwrap_or_else(|n| n)
    }
    fn insert(&mut self, n: usize, key: &[u8], value: V) {
        let start = self.start(n);
        self.bytes.splice(start..start, key.iter().copied());
        self.ends.insert(n, start as u32);
        self.ends[n..].iter_mut().for_each(|end| *end += key.len() as u32);
        self.values.insert(n, value);
    }
    fn remove(&mut self, n: usize) -> V {
        let (start, end) = (self.start(n), self.ends[n] as usize);
        self.bytes.drain(start..end);
        self.ends.remove(n);
        self.ends[n..].iter_mut().for_each(|e| *e -= (end - start) as u32);
        self.values.remove(n)
    }
    /// Takes the keys from `n` on away.
    fn split_off(&mut self, n: usize) -> Leaf<V> {
        let start = self.start(n);
        let ends = self.ends.split_off(n).into_iter().map(|end| end - start as u32).collect();
        Leaf { bytes: self.bytes.split_off(start), ends, values: self.values.split_off(n) }
    }
    fn append(&mut self, mut other: Leaf<V>) {
        let start = self.bytes.len() as u32;
        self.bytes.append(&mut other.bytes);
        self.ends.extend(other.ends.iter().map(|end| end + start));
        self.values.append(&mut other.values);
    }
    fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.values.shrink_to_fit();
    }
}

impl<V> Default for PackedMap<V> {
    fn default() -> Self {
        PackedMap { leaves: BTreeMap::new(), len: 0 }
    }
}

impl<V> PackedMap<V> {
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    fn leaf_of(&self, key: &Key) -> Option<(&Key, &Leaf<V>)> {
        self.leaves.range::<Key, _>(..=key).next_back()
    }
    pub fn get(&self, key: &Key) -> Option<&V> {
        let (_, leaf) = self.leaf_of(key)?;
        leaf.find(key.as_bytes()).ok().map(|n| &leaf.values[n])
    }
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        let (_, leaf) = self.leaves.range_mut::<Key, _>(..=key).next_back()?;
        leaf.find(key.as_bytes()).ok().map(|n| &mut leaf.values[n])
    }
    /// Hands the key's value to `change`, or asks it for one if there is none.
    pub fn upsert(&mut self, key: &Key, change: impl FnOnce(Option<&mut V>) -> Option<V>) {
        if self.leaves.is_empty() {
            self.leaves.insert(Key::new(), Leaf::empty());
        }
        let (_, leaf) =
            self.leaves.range_mut::<Key, _>(..=key).next_back().expect("the first leaf begins at the start");
        let n = match leaf.find(key.as_bytes()) {
            Ok(n) => {
                let none = change(Some(&mut leaf.values[n]));
                debug_assert!(none.is_none(), "the value is changed in its place");
                return;
            }
            Err(n) => n,
        };
        let Some(value) = change(None) else { return };
        self.len += 1;
        if leaf.len() < LEAF_MAX {
            leaf.insert(n, key.as_bytes(), value);
            return;
        }
        if n == leaf.len() {
            // Keys that come in order fill one leaf after the other.
            leaf.shrink();
            let mut next = Leaf::empty();
            next.insert(0, key.as_bytes(), value);
            self.leaves.insert(key.clone(), next);
            return;
        }
        let mut right = leaf.split_off(LEAF_MAX / 2);
        let bound = Key::from_bytes(right.key(0));
        match n.checked_sub(LEAF_MAX / 2) {
            Some(n) if n > 0 => right.insert(n, key.as_bytes(), value),
            _ => leaf.insert(n, key.as_bytes(), value),
        }
        self.leaves.insert(bound, right);
    }
    pub fn remove(&mut self, key: &Key) -> Option<V> {
        let (bound, leaf) = self.leaves.range_mut::<Key, _>(..=key).next_back()?;
        let n = leaf.find(key.as_bytes()).ok()?;
        let value = leaf.remove(n);
        self.len -= 1;
        if leaf.len() < LEAF_SMALL {
            let bound = bound.clone();
            self.join(&bound);
        }
        Some(value)
    }
    /// Lets a small leaf take its right neighbour in, if both together are small enough; drops an empty
    /// one.
    fn join(&mut self, bound: &Key) {
        let here = self.leaves[bound].len();
        if here == 0 && !bound.is_empty() {
            self.leaves.remove(bound);
            return;
        }
        let after = (Bound::Excluded(bound), Bound::Unbounded);
        let Some((next, neighbour)) = self.leaves.range::<Key, _>(after).next() else { return };
        if here + neighbour.len() <= LEAF_MAX / 2 || here == 0 {
            let next = next.clone();
            let neighbour = self.leaves.remove(&next).expect("just seen");
            self.leaves.get_mut(bound).expect("just seen").append(neighbour);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &V)> {
        self.leaves
            .values()
            .flat_map(|leaf| (0..leaf.len()).map(|n| (Key::from_bytes(leaf.key(n)), &leaf.values[n])))
    }
    /// Visits a range in key order, or its reverse; `visit` answers whether to go on.
    pub fn scan<'a>(
        &'a self,
        range: &KeyRange,
        descending: bool,
        mut visit: impl FnMut(&Key, &'a V) -> bool,
    ) {
        let Some((first, _)) = self.leaf_of(&range.low) else { return };
        if range.is_empty() {
            return;
        }
        let high = range.high.as_ref();
        let bounds = (Bound::Included(first), high.map_or(Bound::Unbounded, Bound::Excluded));
        let mut leaves = self.leaves.range::<Key, _>(bounds);
        while let Some((_, leaf)) = if descending { leaves.next_back() } else { leaves.next() } {
            let from = leaf.below(range.low.as_bytes());
            let to = high.map_or(leaf.len(), |high| leaf.below(high.as_bytes()));
            let mut inside = from..to;
            while let Some(n) = if descending { inside.next_back() } else { inside.next() } {
                if !visit(&Key::from_bytes(leaf.key(n)), &leaf.values[n]) {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Datum;
    use base::rng::Rng;

    fn check(map: &PackedMap<u64>, model: &BTreeMap<Key, u64>) {
        assert_eq!(map.len(), model.len());
        assert!(map.iter().map(|(k, v)| (k, *v)).eq(model.iter().map(|(k, v)| (k.clone(), *v))));
        for (n, (bound, leaf)) in map.leaves.iter().enumerate() {
            assert!((n == 0) == bound.is_empty() && leaf.len() <= LEAF_MAX);
            assert!(leaf.len() > 0 || map.len() == 0);
            assert!(leaf.len() == 0 || bound.as_bytes() <= leaf.key(0));
        }
    }

    #[test]
    fn it_agrees_with_a_plain_tree() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (mut map, mut model) = (PackedMap::default(), BTreeMap::new());
            // Grows, then shrinks to nothing, then grows again.
            for step in 0..6_000u64 {
                let grows = !(2_000..4_500).contains(&step);
                let ordered = seed % 2 == 0 && grows;
                let n = if ordered { step as i64 } else { rng.between(0, 700) };
                let key = Key::of(&[Datum::text("k".repeat(n as usize % 40)), Datum::Int(n)]);
                if rng.chance(if grows { 0.9 } else { 0.05 }) {
                    map.upsert(&key, |found| {
                        assert_eq!(found.as_deref(), model.get(&key));
                        found.is_none().then_some(step)
                    });
                    model.entry(key).or_insert(step);
                } else {
                    let key = model.keys().nth(rng.below(700) as usize).cloned().unwrap_or(key);
                    assert_eq!(map.remove(&key), model.remove(&key));
                }
                if step % 250 == 0 {
                    check(&map, &model);
                    let mut ends = [rng.between(0, 700), rng.between(0, 700)];
                    ends.sort_unstable();
                    let [low, high] = ends.map(|n| Key::of(&[Datum::text("k".repeat(n as usize % 40))]));
                    let range = KeyRange { low: low.clone(), high: rng.chance(0.8).then_some(high) };
                    let expected: Vec<Key> = model.keys().filter(|k| range.contains(k)).cloned().collect();
                    for descending in [false, true] {
                        let mut found = Vec::new();
                        map.scan(&range, descending, |key, value| {
                            assert_eq!((model[key], map.get(key)), (*value, Some(value)));
                            found.push(key.clone());
                            true
                        });
                        if descending {
                            found.reverse();
                        }
                        assert_eq!(found, expected);
                    }
                }
            }
            check(&map, &model);
        }
    }

    #[test]
    fn keys_that_come_in_order_fill_their_leaves() {
        let mut map = PackedMap::default();
        (0..1_000).for_each(|n| map.upsert(&Key::of(&[Datum::Int(n)]), |_| Some(n)));
        assert_eq!(map.leaves.len(), 1_000usize.div_ceil(LEAF_MAX));
    }

    #[test]
    fn a_queue_leaves_nothing_behind() {
        let mut map = PackedMap::default();
        for n in 0..10_000 {
            map.upsert(&Key::of(&[Datum::Int(n)]), |_| Some(n));
            map.remove(&Key::of(&[Datum::Int(n - 100)]));
        }
        assert!(map.leaves.len() <= 5, "{} leaves for 100 keys", map.leaves.len());
    }
}
