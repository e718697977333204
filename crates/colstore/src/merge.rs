//! Merging: chunks leave the delta. Their rows replace older rows with the same keys, or go into new segments
//! together with small or outdated segments; versions that no reader can see are dropped.
//!
//! IN: chunks, all segments of the shard, and the writes whose older versions have not been looked for, as
//! they were when the job was planned. OUT: which rows of segments have ended; segments patched in the
//! columns that changed; new segments.
//! A job is plain data and may run on any thread; what ends in the meantime is noted by the shard and
//! carried over when the result is installed.
//!
//! KEEPS: a row takes the place of an older one with its key only if both its own beginning and the older
//! one's end are collected, so no cut that may still be read can tell.

use crate::delta::{Chunk, pour};
use crate::encode::Column;
use crate::index::hash_key;
use crate::segment::{Begins, Filter, Segment};
use crate::values::Values;
use crate::version::{End, Ends, Mark};
use base::schema::Table;
use base::{Key, PartitionId, Rank, Row, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A planned merge. Run it anywhere, then give the result to
/// [`ColumnStore::install`](crate::ColumnStore::install) of the store that planned it.
#[derive(Debug)]
pub struct MergeJob {
    pub(crate) table: Arc<Table>,
    pub(crate) partition: PartitionId,
    /// Full chunks, the oldest first, with the ends of their rows.
    pub(crate) chunks: Vec<(Arc<Chunk>, Arc<Vec<End>>)>,
    /// All segments of the shard, the oldest first.
    pub(crate) segments: Vec<Old>,
    /// Writes in the order of the log: an older version of each key may live in a segment.
    pub(crate) unfound: Arc<Vec<(Key, Mark)>>,
    pub(crate) block_rows: usize,
    /// Most rows of a new segment.
    pub(crate) segment_rows: usize,
    /// Versions that ended at or below this rank are dropped.
    pub(crate) collected_below: Rank,
}

/// A segment as it was when the job was planned.
#[derive(Debug)]
pub(crate) struct Old {
    pub id: u64,
    pub data: Arc<Segment>,
    /// A bit per row that has ended.
    pub ended: Vec<u64>,
    /// It is to become part of new segments.
    pub rewritten: Option<(Option<Arc<Begins>>, Ends)>,
}

/// The outcome of a [`MergeJob`].
#[derive(Debug)]
pub struct MergedSegment {
    pub(crate) table: TableId,
    pub(crate) partition: PartitionId,
    /// New ones.
    pub(crate) segments: Vec<(Segment, Option<Begins>, Ends)>,
    /// Rows of old segments, by segment id, that the writes ended.
    pub(crate) ended: BTreeMap<u64, Vec<(usize, Mark)>>,
    pub(crate) patched: Vec<Patched>,
    pub(crate) rows_read: usize,
}

/// A segment with new values in some rows, which lived before or live again.
#[derive(Debug)]
pub(crate) struct Patched {
    pub id: u64,
    pub data: Segment,
    /// Ascending; a row that has ended since says where.
    pub rows: Vec<(usize, Option<Mark>)>,
}

/// A version in a chunk that some cut may still see.
struct Version<'a> {
    key: &'a Key,
    row: &'a Row,
    begin: Mark,
    end: Option<Mark>,
    /// It has a place in a patched segment.
    placed: bool,
}

/// Versions on their way into segments, in the order of the sources.
struct Pool {
    columns: Vec<Values>,
    keys: Vec<Key>,
    begins: Vec<Mark>,
    ends: Vec<Option<Mark>>,
}

/// What a key is looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    /// By a write, to end a row.
    End(u32),
    /// By a version, to take a row's place.
    Place(u32),
}

impl MergeJob {
    /// Versions to read: the job's cost.
    pub fn rows(&self) -> usize {
        let rewritten = self.segments.iter().filter(|s| s.rewritten.is_some()).map(|s| s.data.rows);
        self.chunks.iter().map(|(chunk, _)| chunk.len()).chain(rewritten).sum()
    }

    /// Looks up, sorts, drops and encodes.
    pub fn run(mut self) -> MergedSegment {
        let rows_read = self.rows();
        let (table, partition) = (self.table.id, self.partition);
        let chunks = std::mem::take(&mut self.chunks);
        let mut versions = self.versions(&chunks);
        let (ended, places) = self.look_up(&versions);
        let patched = self.patch(&mut versions, places);
        let pool = self.pool(&versions, &ended);
        let segments = if pool.keys.is_empty() { Vec::new() } else { self.build(&pool) };
        let ids = self.segments.iter().map(|s| s.id);
        let ended = ids.zip(ended).collect();
        MergedSegment { table, partition, segments, ended, patched, rows_read }
    }

    /// Versions of the chunks that some cut may still see.
    fn versions<'a>(&self, chunks: &'a [(Arc<Chunk>, Arc<Vec<End>>)]) -> Vec<Version<'a>> {
        let mut versions = Vec::with_capacity(chunks.iter().map(|(chunk, _)| chunk.len()).sum());
        for (chunk, list) in chunks {
            let mut ends: Vec<Option<Mark>> = vec![None; chunk.len()];
            list.iter().for_each(|e| ends[e.row as usize] = Some(e.at));
            for (n, end) in ends.into_iter().enumerate() {
                match end {
                    Some(at) if at.rank <= self.collected_below => {}
                    _ => versions.push(Version {
                        key: &chunk.keys[n],
                        row: &chunk.rows[n],
                        begin: chunk.begins[n],
                        end,
                        placed: false,
                    }),
                }
            }
        }
        versions
    }

    /// Per segment, rows that the writes end, and rows whose place a version can take (row, version).
    #[allow(clippy::type_complexity)]
    fn look_up(&mut self, versions: &[Version]) -> (Vec<Vec<(usize, Mark)>>, Vec<Vec<(usize, u32)>>) {
        let unfound = self.unfound.iter().enumerate().map(|(n, (key, _))| (key, Wanted::End(n as u32)));
        let settled = versions.iter().enumerate().filter(|(_, v)| v.begin.rank <= self.collected_below);
        let mut wanted: Vec<(&Key, Wanted)> =
            unfound.chain(settled.map(|(n, v)| (v.key, Wanted::Place(n as u32)))).collect();
        wanted.sort_unstable();
        // The first of several writes ends the row; of several versions all but one are collected.
        wanted.dedup_by(|next, first| {
            next.0 == first.0 && matches!(next.1, Wanted::End(_)) == matches!(first.1, Wanted::End(_))
        });
        let groups: Vec<&[(&Key, Wanted)]> = wanted.chunk_by(|a, b| a.0 == b.0).collect();
        let keys: Vec<&Key> = groups.iter().map(|group| group[0].0).collect();
        let mut taken = vec![false; versions.len()];
        let (mut ended, mut places) = (Vec::new(), Vec::new());
        for segment in &mut self.segments {
            let (mut ends_here, mut places_here) = (Vec::new(), Vec::new());
            let is_patchable = segment.rewritten.is_none();
            segment.data.find_each(&keys, |nth, row| {
                for (_, wanted) in groups[nth] {
                    let (word, bit) = (&mut segment.ended[row / 64], 1 << (row % 64));
                    match *wanted {
                        Wanted::End(n) if *word & bit == 0 => {
                            *word |= bit;
                            ends_here.push((row, self.unfound[n as usize].1));
                        }
                        Wanted::End(_) => {}
                        Wanted::Place(n) => {
                            assert!(*word & bit != 0, "a version that lives is its key's only one");
                            if is_patchable && !taken[n as usize] {
                                taken[n as usize] = true;
                                places_here.push((row, n));
                            }
                        }
                    }
                }
            });
            ended.push(ends_here);
            places.push(places_here);
        }
        (ended, places)
    }

    fn patch(&self, versions: &mut [Version], places: Vec<Vec<(usize, u32)>>) -> Vec<Patched> {
        let mut patched = Vec::new();
        for (segment, places) in self.segments.iter().zip(places) {
            if !segment.data.may_be_patched(&self.table, places.len()) {
                continue;
            }
            let rows: Vec<(usize, &Row)> =
                places.iter().map(|(row, n)| (*row, versions[*n as usize].row)).collect();
            let Some(data) = segment.data.patched(&self.table, &rows) else { continue };
            let place = |(row, n): (usize, u32)| {
                let version = &mut versions[n as usize];
                version.placed = true;
                (row, version.end)
            };
            patched.push(Patched { id: segment.id, data, rows: places.into_iter().map(place).collect() });
        }
        patched
    }

    /// Everything else that some cut may still see.
    fn pool(&self, versions: &[Version], ended: &[Vec<(usize, Mark)>]) -> Pool {
        let capacity = self.rows();
        let mut pool = Pool {
            columns: self.table.columns.iter().map(|c| Values::new(c.data_type, capacity)).collect(),
            keys: Vec::with_capacity(capacity),
            begins: Vec::with_capacity(capacity),
            ends: Vec::with_capacity(capacity),
        };
        for (segment, more) in self.segments.iter().zip(ended) {
            let Some((begins, known)) = &segment.rewritten else { continue };
            let mut ends: Vec<Option<Mark>> = vec![None; segment.data.rows];
            known.iter().chain(more.iter().copied()).for_each(|(row, at)| ends[row] = Some(at));
            let mut kept = Vec::with_capacity(ends.len());
            for (row, end) in ends.iter().enumerate() {
                match end {
                    Some(at) if at.rank <= self.collected_below => {}
                    _ => kept.push(row as u32),
                }
            }
            pool.ends.extend(kept.iter().map(|r| ends[*r as usize]));
            pool.take(&self.table, &segment.data, begins.as_deref(), &kept);
        }
        let left = || versions.iter().filter(|v| !v.placed);
        pour(&self.table, left().map(|v| v.row), &mut pool.columns);
        pool.keys.extend(left().map(|v| v.key.clone()));
        pool.begins.extend(left().map(|v| v.begin));
        pool.ends.extend(left().map(|v| v.end));
        pool
    }

    fn build(&self, pool: &Pool) -> Vec<(Segment, Option<Begins>, Ends)> {
        let mut order: Vec<u32> = (0..pool.keys.len() as u32).collect();
        // Versions of one key by the end of their lives; the living one last. Sources come oldest
        // first and the sort is stable, so ends at one place keep the order of the log.
        let end_of = |r: u32| pool.ends[r as usize].map_or(u64::MAX, |m| m.position.0);
        order.sort_by(|a, b| {
            pool.keys[*a as usize].cmp(&pool.keys[*b as usize]).then_with(|| end_of(*a).cmp(&end_of(*b)))
        });
        // Of about the same size.
        let rows = order.len().div_ceil(order.len().div_ceil(self.segment_rows));
        order.chunks(rows).map(|order| self.build_one(pool, order)).collect()
    }

    fn build_one(&self, pool: &Pool, order: &[u32]) -> (Segment, Option<Begins>, Ends) {
        let columns: Vec<Arc<Column>> =
            pool.columns.iter().map(|v| Arc::new(Column::encode(v, order, self.block_rows))).collect();
        let mut filter = Filter::new(order.len());
        order.iter().for_each(|r| filter.insert(hash_key(&pool.keys[*r as usize])));
        let mut ends = Ends::new(order.len(), self.block_rows);
        for (row, from) in order.iter().enumerate() {
            if let Some(at) = pool.ends[*from as usize] {
                ends.push(row, at);
            }
        }
        let marks = || order.iter().map(|r| pool.begins[*r as usize]);
        let last_begin = marks().map(|mark| mark.rank).max().unwrap_or_default();
        let can_be_told_apart = last_begin > self.collected_below;
        let begins = can_be_told_apart.then(|| Begins::encode(&marks().collect::<Vec<_>>()));
        let key_at = |at: Option<&u32>| pool.keys[*at.expect("a segment has rows") as usize].clone();
        let segment = Segment {
            table: self.table.clone(),
            rows: order.len(),
            block_rows: self.block_rows,
            columns,
            filter: Arc::new(filter),
            last_begin,
            keys: (key_at(order.first()), key_at(order.last())),
        };
        assert_eq!(segment.key(0), segment.keys.0, "a row's key is made from its key columns");
        (segment, begins, ends)
    }
}

impl Pool {
    /// Appends rows of a segment, all but their ends.
    fn take(&mut self, table: &Table, segment: &Segment, begins: Option<&Begins>, kept: &[u32]) {
        for (i, values) in self.columns.iter_mut().enumerate() {
            match segment.columns.get(i) {
                Some(column) => column.pour(kept, values),
                None => kept.iter().for_each(|_| values.push(&table.columns[i].missing)),
            }
        }
        self.keys.extend(kept.iter().map(|r| segment.key(*r as usize)));
        // Collected begins are older than anything a cut could tell apart.
        let begin = |r: &u32| begins.map_or(Mark::ZERO, |b| b.get(*r as usize));
        self.begins.extend(kept.iter().map(begin));
    }
}
