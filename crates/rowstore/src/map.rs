//! A compact ordered map from keys to values: keys are stored contiguously in leaves, leaves in chunks.
//!
//! KEEPS: the first leaf begins at the empty key, each other one at a key not above its first; leaves are
//! never empty, except a lone first one; chunks are never empty.
//!
//! A tree with few keys per node spends most of a look-up waiting for memory, and half of its
//! memory on free space. Here a look-up is three searches in short arrays, mostly by a key's first eight bytes
//! as one number, and leaves that are filled in order become completely full.

use base::Key;
use base::key::KeyRange;

/// Entries of a leaf.
const LEAF_MAX: usize = 128;
/// Leaves this small look for a neighbour to join.
const LEAF_SMALL: usize = 8;
/// Leaves of a chunk.
const CHUNK_MAX: usize = 256;

/// Keys in order, with their values.
#[derive(Debug)]
pub struct PackedMap<V> {
    /// Lower bounds of the chunks.
    bounds: Bounds,
    chunks: Vec<Chunk<V>>,
    len: usize,
}

/// Leaves with their lower bounds.
#[derive(Debug)]
struct Chunk<V> {
    bounds: Bounds,
    leaves: Vec<Leaf<V>>,
}

/// Ascending keys, to find where another belongs.
#[derive(Debug, Default)]
struct Bounds {
    heads: Vec<u64>,
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Leaf<V> {
    heads: Vec<u64>,
    /// The keys, back to back, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    values: Vec<V>,
}

/// A key's first bytes as a number: in the order of keys, with ties. A key of less than eight bytes is all
/// there, its length in the last byte, and ties with no other.
fn head(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(first) => {
            let first = u64::from_be_bytes(*first);
            if first as u8 >= LENGTHS { first } else { first & !0xFF | u64::from(LENGTHS) }
        }
        None => {
            let mut padded = [0; 8];
            padded[..key.len()].copy_from_slice(key);
            padded[7] = key.len() as u8;
            u64::from_be_bytes(padded)
        }
    }
}

/// Last bytes of heads below this are lengths.
const LENGTHS: u8 = 8;

/// Whether the head is all of its key.
fn is_whole(head: u64) -> bool {
    (head as u8) < LENGTHS
}

impl Bounds {
    /// The last one at or below a key; the first one if there is none.
    fn last_at_or_below(&self, key: &[u8]) -> usize {
        let head = head(key);
        let to = self.heads.partition_point(|h| *h <= head);
        let mut from = to;
        if to > 0 && self.heads[to - 1] == head {
            from = self.heads[..to].partition_point(|h| *h < head);
        }
        let ties = self.keys[from..to].partition_point(|k| k.as_bytes() <= key);
        (from + ties).saturating_sub(1)
    }
    fn insert(&mut self, n: usize, key: Key) {
        self.heads.insert(n, head(key.as_bytes()));
        self.keys.insert(n, key);
    }
    fn remove(&mut self, n: usize) {
        self.heads.remove(n);
        self.keys.remove(n);
    }
    fn split_off(&mut self, n: usize) -> Bounds {
        Bounds { heads: self.heads.split_off(n), keys: self.keys.split_off(n) }
    }
}

impl<V> Leaf<V> {
    fn empty() -> Leaf<V> {
        Leaf { heads: Vec::new(), bytes: Vec::new(), ends: Vec::new(), values: Vec::new() }
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
        let head = head(key);
        let mut low = self.heads.partition_point(|h| *h < head);
        if self.heads.get(low) != Some(&head) {
            return Err(low);
        }
        if is_whole(head) {
            return Ok(low);
        }
        let mut high = low + 1;
        if self.heads.get(high) == Some(&head) {
            high += self.heads[high..].partition_point(|h| *h == head);
        }
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
        if n == self.len() {
            self.bytes.extend_from_slice(key);
        } else {
            self.bytes.splice(start..start, key.iter().copied());
        }
        self.heads.insert(n, head(key));
        self.ends.insert(n, start as u32);
        self.ends[n..].iter_mut().for_each(|end| *end += key.len() as u32);
        self.values.insert(n, value);
    }
    fn remove(&mut self, n: usize) -> V {
        let (start, end) = (self.start(n), self.ends[n] as usize);
        self.bytes.drain(start..end);
        self.heads.remove(n);
        self.ends.remove(n);
        self.ends[n..].iter_mut().for_each(|e| *e -= (end - start) as u32);
        self.values.remove(n)
    }
    /// Takes the keys from `n` on away.
    fn split_off(&mut self, n: usize) -> Leaf<V> {
        let start = self.start(n);
        let ends = self.ends.split_off(n).into_iter().map(|end| end - start as u32).collect();
        Leaf {
            heads: self.heads.split_off(n),
            bytes: self.bytes.split_off(start),
            ends,
            values: self.values.split_off(n),
        }
    }
    fn append(&mut self, mut other: Leaf<V>) {
        let start = self.bytes.len() as u32;
        self.heads.append(&mut other.heads);
        self.bytes.append(&mut other.bytes);
        self.ends.extend(other.ends.iter().map(|end| end + start));
        self.values.append(&mut other.values);
    }
    fn shrink(&mut self) {
        self.heads.shrink_to_fit();
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.values.shrink_to_fit();
    }
}

impl<V> Default for PackedMap<V> {
    fn default() -> Self {
        PackedMap { bounds: Bounds::default(), chunks: Vec::new(), len: 0 }
    }
}

impl<V> PackedMap<V> {
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Chunk and leaf where a key belongs; there must be one.
    fn place_of(&self, key: &[u8]) -> (usize, usize) {
        let chunk = self.bounds.last_at_or_below(key);
        (chunk, self.chunks[chunk].bounds.last_at_or_below(key))
    }
    pub fn get(&self, key: &Key) -> Option<&V> {
        if self.chunks.is_empty() {
            return None;
        }
        let (chunk, leaf) = self.place_of(key.as_bytes());
        let leaf = &self.chunks[chunk].leaves[leaf];
        leaf.find(key.as_bytes()).ok().map(|n| &leaf.values[n])
    }
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        if self.chunks.is_empty() {
            return None;
        }
        let (chunk, leaf) = self.place_of(key.as_bytes());
        let leaf = &mut self.chunks[chunk].leaves[leaf];
        leaf.find(key.as_bytes()).ok().map(|n| &mut leaf.values[n])
    }
    /// Hands the key's value to `change`, or asks it for one if there is none.
    pub fn upsert(&mut self, key: &Key, change: impl FnOnce(Option<&mut V>) -> Option<V>) {
        if self.chunks.is_empty() {
            let mut bounds = Bounds::default();
            bounds.insert(0, Key::new());
            self.bounds.insert(0, Key::new());
            self.chunks.push(Chunk { bounds, leaves: vec![Leaf::empty()] });
        }
        let (chunk, nth) = self.place_of(key.as_bytes());
        let leaf = &mut self.chunks[chunk].leaves[nth];
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
        let (bound, right) = if n == leaf.len() {
            // Keys that come in order fill one leaf after the other.
            leaf.shrink();
            let mut next = Leaf::empty();
            next.insert(0, key.as_bytes(), value);
            (key.clone(), next)
        } else {
            let mut right = leaf.split_off(LEAF_MAX / 2);
            let bound = Key::from_bytes(right.key(0));
            match n.checked_sub(LEAF_MAX / 2) {
                Some(n) if n > 0 => right.insert(n, key.as_bytes(), value),
                _ => leaf.insert(n, key.as_bytes(), value),
            }
            (bound, right)
        };
        self.insert_leaf(chunk, nth + 1, bound, right);
    }
    fn insert_leaf(&mut self, chunk: usize, nth: usize, bound: Key, leaf: Leaf<V>) {
        let here = &mut self.chunks[chunk];
        here.bounds.insert(nth, bound);
        here.leaves.insert(nth, leaf);
        if here.leaves.len() > CHUNK_MAX {
            // At the end of all keys, the full chunk stays full.
            let at = if nth == CHUNK_MAX { CHUNK_MAX } else { CHUNK_MAX / 2 };
            let right = Chunk { bounds: here.bounds.split_off(at), leaves: here.leaves.split_off(at) };
            self.bounds.insert(chunk + 1, right.bounds.keys[0].clone());
            self.chunks.insert(chunk + 1, right);
        }
    }
    pub fn remove(&mut self, key: &Key) -> Option<V> {
        if self.chunks.is_empty() {
            return None;
        }
        let (chunk, nth) = self.place_of(key.as_bytes());
        let leaf = &mut self.chunks[chunk].leaves[nth];
        let n = leaf.find(key.as_bytes()).ok()?;
        let value = leaf.remove(n);
        self.len -= 1;
        if leaf.len() < LEAF_SMALL {
            self.join(chunk, nth);
        }
        Some(value)
    }
    /// Lets a small leaf go over to a neighbour of its chunk, if both together are small enough; drops
    /// an empty one.
    fn join(&mut self, chunk: usize, nth: usize) {
        let here = &mut self.chunks[chunk];
        let count = |n: usize| here.leaves[n].len();
        let left = match nth {
            0 if here.leaves.len() == 1 => {
                if count(0) == 0 && self.chunks.len() > 1 {
                    self.remove_chunk(chunk);
                }
                return;
            }
            0 => 0,
            _ => nth - 1,
        };
        if count(nth) > 0 && count(left) + count(left + 1) > LEAF_MAX / 2 {
            return;
        }
        let right = here.leaves.remove(left + 1);
        here.bounds.remove(left + 1);
        here.leaves[left].append(right);
    }
    fn remove_chunk(&mut self, chunk: usize) {
        self.chunks.remove(chunk);
        if chunk > 0 {
            self.bounds.remove(chunk);
            return;
        }
        // The next one begins at the start of all keys from now on.
        self.bounds.remove(1);
        let first = &mut self.chunks[0].bounds;
        first.remove(0);
        first.insert(0, Key::new());
    }

    fn leaves(&self) -> impl Iterator<Item = &Leaf<V>> {
        self.chunks.iter().flat_map(|chunk| &chunk.leaves)
    }
    pub fn iter(&self) -> impl Iterator<Item = (Key, &V)> {
        self.leaves()
            .flat_map(|leaf| (0..leaf.len()).map(|n| (Key::from_bytes(leaf.key(n)), &leaf.values[n])))
    }
    /// Visits a range in key order, or its reverse; `visit` answers whether to go on.
    pub fn scan<'a>(
        &'a self,
        range: &KeyRange,
        descending: bool,
        mut visit: impl FnMut(&Key, &'a V) -> bool,
    ) {
        if self.chunks.is_empty() || range.is_empty() {
            return;
        }
        let last = match &range.high {
            Some(high) => self.place_of(high.as_bytes()),
            None => (self.chunks.len() - 1, self.chunks[self.chunks.len() - 1].leaves.len() - 1),
        };
        let first = self.place_of(range.low.as_bytes());
        let mut at = if descending { last } else { first };
        loop {
            let leaf = &self.chunks[at.0].leaves[at.1];
            let from = if at == first { leaf.below(range.low.as_bytes()) } else { 0 };
            let to = match &range.high {
                Some(high) if at == last => leaf.below(high.as_bytes()),
                _ => leaf.len(),
            };
            let mut inside = from..to;
            while let Some(n) = if descending { inside.next_back() } else { inside.next() } {
                if !visit(&Key::from_bytes(leaf.key(n)), &leaf.values[n]) {
                    return;
                }
            }
            at = match descending {
                false if at >= last => return,
                true if at <= first => return,
                false if at.1 + 1 < self.chunks[at.0].leaves.len() => (at.0, at.1 + 1),
                false => (at.0 + 1, 0),
                true if at.1 > 0 => (at.0, at.1 - 1),
                true => (at.0 - 1, self.chunks[at.0 - 1].leaves.len() - 1),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Datum;
    use base::rng::Rng;
    use std::collections::BTreeMap;

    fn check(map: &PackedMap<u64>, model: &BTreeMap<Key, u64>) {
        assert_eq!(map.len(), model.len());
        assert!(map.iter().map(|(k, v)| (k, *v)).eq(model.iter().map(|(k, v)| (k.clone(), *v))));
        assert_eq!(map.bounds.keys.len(), map.chunks.len());
        let mut bounds = Vec::new();
        for (bound, chunk) in map.bounds.keys.iter().zip(&map.chunks) {
            assert!(chunk.bounds.keys[0] == *bound && chunk.leaves.len() <= CHUNK_MAX);
            assert_eq!(chunk.bounds.keys.len(), chunk.leaves.len());
            assert!(
                chunk.bounds.heads.iter().eq(chunk
                    .bounds
                    .keys
                    .iter()
                    .map(|k| head(k.as_bytes()))
                    .collect::<Vec<_>>()
                    .iter())
            );
            for (bound, leaf) in chunk.bounds.keys.iter().zip(&chunk.leaves) {
                assert!(leaf.len() <= LEAF_MAX && (leaf.len() > 0 || map.is_empty()));
                assert!(leaf.len() == 0 || bound.as_bytes() <= leaf.key(0));
                bounds.push(bound.clone());
            }
        }
        assert!(bounds.is_sorted_by(|a, b| a < b) && bounds.first().is_none_or(Key::is_empty));
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
    fn heads_are_in_the_order_of_keys_and_short_ones_tell_all() {
        let mut rng = Rng::new(3);
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for _ in 0..3_000 {
            let length = rng.below(11) as usize;
            keys.push((0..length).map(|_| *rng.pick(&[0, 1, 6, 7, 8, 9, 0xFF])).collect());
        }
        keys.sort();
        keys.dedup();
        for pair in keys.windows(2) {
            let [a, b] = [head(&pair[0]), head(&pair[1])];
            assert!(a <= b, "{pair:?}");
            assert!(a < b || !is_whole(a), "{pair:?}");
        }
        assert!(keys.iter().all(|k| is_whole(head(k)) == (k.len() < 8)));
    }

    #[test]
    fn keys_that_come_in_order_fill_their_leaves() {
        let mut map = PackedMap::default();
        (0..100_000).for_each(|n| map.upsert(&Key::of(&[Datum::Int(n)]), |_| Some(n)));
        assert_eq!(map.leaves().count(), 100_000usize.div_ceil(LEAF_MAX));
    }

    #[test]
    fn a_queue_leaves_nothing_behind() {
        let mut map = PackedMap::default();
        for n in 0..100_000 {
            map.upsert(&Key::of(&[Datum::Int(n)]), |_| Some(n));
            map.remove(&Key::of(&[Datum::Int(n - 100)]));
        }
        let leaves = map.leaves().count();
        assert!(leaves <= 3 && map.chunks.len() == 1, "{leaves} leaves for 100 keys");
    }
}
