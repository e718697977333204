//! Segments: many versions of one table in one partition, sorted by primary key, encoded, immutable.
//!
//! KEEPS: rows ascend by (key, end of life), so the last of several versions of a key is the one that
//! may still be alive. Begins and ends of lives are kept beside the columns, because they change:
//! begins are dropped once all of them are collected, ends are added as rows are overwritten.
//!
//! There is no index of keys: a filter says in one cache line whether a key may be inside, and a
//! binary search over the key columns finds it.

use crate::encode::{Column, IntColumn};
use crate::index::hash_key;
use crate::version::{Edge, Mark};
use arrow_buffer::BooleanBuffer;
use base::schema::Table;
use base::{Key, LogPosition, Rank, Row};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Segment {
    /// As it was when the segment was made; it has no columns that were added since.
    pub table: Arc<Table>,
    pub rows: usize,
    /// Rows per block: what a scan returns at once and what zone maps speak of.
    pub block_rows: usize,
    /// Shared with the segment that this one was made from, where nothing changed.
    pub columns: Vec<Arc<Column>>,
    pub filter: Arc<Filter>,
    /// Largest rank at which a row begins.
    pub last_begin: Rank,
    /// First and last key.
    pub keys: (Key, Key),
}

impl Segment {
    /// The key of a row.
    pub fn key(&self, row: usize) -> Key {
        let mut key = Key::new();
        self.table.primary_key.iter().for_each(|c| self.columns[*c].push_key(row, &mut key));
        key
    }

    /// The values of a row; columns that were added since have their missing value.
    pub fn row(&self, row: usize, table: &Table) -> Row {
        let added = table.columns.iter().skip(self.columns.len());
        let values = self.columns.iter().map(|column| column.datum(row));
        Row::of(&values.chain(added.map(|column| column.missing.clone())).collect::<Vec<_>>())
    }

    /// The last row with this key.
    pub fn find(&self, key: &Key) -> Option<usize> {
        if *key < self.keys.0 || self.keys.1 < *key || !self.filter.may_contain(hash_key(key)) {
            return None;
        }
        // Invariant: rows below `low` have a key ≤ the one sought, rows from `high` on a larger one.
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = (low + high) / 2;
            if self.key(middle) <= *key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let row = low.checked_sub(1)?;
        (self.key(row) == *key).then_some(row)
    }

    /// The last row of each of these keys that is here, with the key's number; keys ascend.
    pub fn find_each(&self, keys: &[&Key], mut found: impl FnMut(usize, usize)) {
        let from = keys.partition_point(|k| **k < self.keys.0);
        // Invariant: rows below `low` have a key ≤ the one before.
        let mut low = 0;
        for (nth, key) in keys.iter().enumerate().skip(from) {
            if **key > self.keys.1 {
                return;
            }
            if !self.filter.may_contain(hash_key(key)) {
                continue;
            }
            // The next one is near: double the step, then halve the gap.
            let (mut high, mut step) = (low, 1);
            while high < self.rows && self.key(high) <= **key {
                low = high + 1;
                high += step;
                step *= 2;
            }
            high = high.min(self.rows);
            while low < high {
                let middle = (low + high) / 2;
                if self.key(middle) <= **key {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            if let Some(row) = low.checked_sub(1)
                && self.key(row) == **key
            {
                found(nth, row);
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.columns.iter().map(|c| c.bytes()).sum::<usize>() + self.filter.0.len() * 64
    }
}

/// Where the rows of a segment begin, as long as a cut may tell them apart.
#[derive(Clone, Debug)]
pub(crate) struct Begins {
    ranks: IntColumn,
    positions: IntColumn,
}

impl Begins {
    pub fn encode(marks: &[Mark]) -> Begins {
        let ranks: Vec<i64> = marks.iter().map(|m| m.rank.0 as i64).collect();
        let positions: Vec<i64> = marks.iter().map(|m| m.position.0 as i64).collect();
        Begins { ranks: IntColumn::encode(&ranks), positions: IntColumn::encode(&positions) }
    }
    pub fn get(&self, row: usize) -> Mark {
        Mark { rank: Rank(self.ranks.get(row) as u64), position: LogPosition(self.positions.get(row) as u64) }
    }
    /// Which of `count` rows from `start` on have begun at the edge.
    pub fn begun(&self, edge: &Edge, start: usize, count: usize) -> BooleanBuffer {
        let within = self.ranks.decode(start, count, |rank| rank as u64 <= edge.base.0);
        if edge.above.is_empty() {
            return BooleanBuffer::from(within);
        }
        let named = |row: usize| edge.names(LogPosition(self.positions.get(start + row) as u64));
        BooleanBuffer::collect_bool(count, |row| within[row] || named(row))
    }
    pub fn bytes(&self) -> usize {
        self.ranks.bytes() + self.positions.bytes()
    }
}

/// A Bloom filter with one 64-byte block per key (Putze et al. 2007): 10 bits per key, about 1 % false
/// answers.
#[derive(Clone, Debug)]
pub(crate) struct Filter(Vec<[u64; 8]>);

const FILTER_BITS_PER_KEY: usize = 10;

impl Filter {
    pub fn new(keys: usize) -> Filter {
        Filter(vec![[0; 8]; (keys * FILTER_BITS_PER_KEY).div_ceil(512).max(1)])
    }
    fn block(&self, hash: u64) -> usize {
        (((hash >> 32) * self.0.len() as u64) >> 32) as usize
    }
    /// Six bits of the block, nine hash bits each.
    fn bits(hash: u64) -> impl Iterator<Item = usize> {
        let spread = crate::index::mix(hash);
        (0..6).map(move |i| (spread >> (i * 9)) as usize & 511)
    }
    pub fn insert(&mut self, hash: u64) {
        let block = self.block(hash);
        Filter::bits(hash).for_each(|bit| self.0[block][bit / 64] |= 1 << (bit % 64));
    }
    pub fn may_contain(&self, hash: u64) -> bool {
        let block = &self.0[self.block(hash)];
        Filter::bits(hash).all(|bit| block[bit / 64] >> (bit % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::mix;

    #[test]
    fn the_filter_knows_its_keys_and_few_others() {
        let mut filter = Filter::new(10_000);
        (0..10_000).for_each(|i| filter.insert(mix(i + 1)));
        assert!((0..10_000).all(|i| filter.may_contain(mix(i + 1))));
        let wrong = (10_000..110_000).filter(|i| filter.may_contain(mix(i + 1))).count();
        assert!(wrong < 3_000, "{wrong} of 100000");
    }
}
