//! One table in one partition: a delta, segments, and the merge that may be under way.
//!
//! A write ends the older version of its key. If that version is in the delta it ends at once. Otherwise it
//! may be in a segment, and the look-up would cost more than the rest of the write. So the write is only
//! noted, and the look-up is done when the result is needed: by the next snapshot or, on a thread of its own
//! and in the order of keys, by the next merge.
//!
//! KEEPS: of all versions of a key, in delta and segments, at most one has not ended once the noted writes
//! have been looked up. Chunks leave the delta oldest first, so a key's newer version is never in a segment
//! while an older one is a chunk; and a merge looks up all writes noted so far, so what a noted write
//! overwrites is never younger than it.

use crate::Options;
use crate::delta::{Delta, Older};
use crate::merge::{MergeJob, MergedSegment, Old, Patched};
use crate::segment::{Begins, Segment};
use crate::snapshot::{Unit, UnitData};
use crate::version::{Edge, Ends, Mark};
use base::commit::{Change, RowWrite};
use base::schema::Table;
use base::{Key, PartitionId, Rank, Row, RowPatch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Shard {
    partition: PartitionId,
    delta: Delta,
    segments: Vec<Slot>,
    /// Writes whose older version may live in a segment, in the order of the log.
    unfound: Vec<(Key, Mark)>,
    merging: Option<Merging>,
    next_id: u64,
    /// A snapshot was taken since the last merge.
    is_read: bool,
    /// Rows added when a merge was last considered, and how often there had been no more.
    seen: (u64, u32),
}

/// A shard that was asked so often without having grown is at rest: its delta is merged as if it was read.
const AT_REST: u32 = 20;
/// So many writes are looked up even if there is nothing to merge; of a shard that no query reads, as many as
/// would be merged.
const UNFOUND_MIN: usize = 1024;

/// A segment and what happened to its rows since.
#[derive(Debug)]
struct Slot {
    id: u64,
    data: Arc<Segment>,
    /// `None` once all of them are collected.
    begins: Option<Arc<Begins>>,
    ends: Ends,
    /// A bit per row that has ended.
    ended: Vec<u64>,
}

/// A merge under way.
#[derive(Debug)]
struct Merging {
    chunks: usize,
    segments: Vec<u64>,
    /// The writes that it looks up.
    unfound: Arc<Vec<(Key, Mark)>>,
    /// They were looked up here meanwhile.
    is_found: bool,
    /// Rows of the sources that ended since the merge was planned.
    ended: Vec<(Key, Mark)>,
}

impl Slot {
    fn new(id: u64, data: Arc<Segment>, begins: Option<Arc<Begins>>, ends: Ends) -> Slot {
        let mut ended = vec![0; data.rows.div_ceil(64)];
        ends.iter().for_each(|(row, _)| ended[row / 64] |= 1 << (row % 64));
        Slot { id, data, begins, ends, ended }
    }

    /// The newest version of a key, if it is here and has not ended.
    fn find(&self, key: &Key) -> Option<usize> {
        self.data.find(key).filter(|row| self.ended[row / 64] >> (row % 64) & 1 == 0)
    }

    /// Ends a row; false if it has ended already.
    fn end_row(&mut self, row: usize, at: Mark) -> bool {
        let (word, bit) = (&mut self.ended[row / 64], 1 << (row % 64));
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        self.ends.push(row, at);
        true
    }

    /// Ends the newest version of a key; false if it is not here or has ended already.
    fn end(&mut self, key: &Key, at: Mark) -> bool {
        self.find(key).is_some_and(|row| self.end_row(row, at))
    }

    /// Takes new values for some rows; they live, unless they say where they ended.
    fn patch(&mut self, data: Segment, rows: &[(usize, Option<Mark>)]) {
        self.data = Arc::new(data);
        rows.iter().for_each(|(row, _)| self.ended[row / 64] &= !(1 << (row % 64)));
        self.ends.remove(&rows.iter().map(|(row, _)| *row).collect::<Vec<_>>());
        for (row, at) in rows {
            if let Some(at) = at {
                self.end_row(*row, *at);
            }
        }
    }

    fn living(&self) -> usize {
        self.data.rows - self.ends.count
    }
}

impl Shard {
    pub fn new(partition: PartitionId, options: &Options) -> Shard {
        Shard {
            partition,
            delta: Delta::new(options.chunk_rows),
            segments: Vec::new(),
            unfound: Vec::new(),
            merging: None,
            next_id: 0,
            is_read: false,
            seen: (0, 0),
        }
    }

    pub fn write(&mut self, table: &Arc<Table>, write: &RowWrite, at: Mark) {
        let (patched, is_found);
        let row = match &write.change {
            Change::Delete => None,
            Change::Put(row) | Change::Update { row, .. } => Some(row),
            Change::Patch(patch) => {
                (patched, is_found) = self.patch(table, &write.key, patch, at);
                if is_found {
                    _ = self.delta.write(table, &write.key, Some(&patched), at);
                    return;
                }
                Some(&patched)
            }
        };
        match self.delta.write(table, &write.key, row, at) {
            Older::Unknown => self.unfound.push((write.key.clone(), at)),
            Older::Gone => {}
            Older::Ended { chunk } => {
                if let Some(merging) = self.merging.as_mut().filter(|m| chunk < m.chunks) {
                    merging.ended.push((write.key.clone(), at));
                }
            }
        }
    }

    /// The row that a patch makes of the newest version of its key. True: that was in a segment and has ended.
    ///
    /// What is not in the delta is in a segment, once: a row that is patched lives, and whatever else the noted
    /// writes end there has a newer version in the delta, or none.
    fn patch(&mut self, table: &Arc<Table>, key: &Key, patch: &RowPatch, at: Mark) -> (Row, bool) {
        let patched = |row: &Row| row.patched(patch).expect("a patch is made for the row before it");
        if let Some(row) = self.delta.newest(key) {
            return (patched(row), false);
        }
        let found = self.segments.iter_mut().rev().find_map(|slot| Some((slot.find(key)?, slot)));
        let (nth, slot) = found.expect("a patch follows the row that it changes");
        let row = patched(&slot.data.row(nth, table));
        slot.end_row(nth, at);
        if let Some(merging) = self.merging.as_mut().filter(|m| m.segments.contains(&slot.id)) {
            merging.ended.push((key.clone(), at));
        }
        (row, true)
    }

    /// Looks up all noted writes.
    fn find_all(&mut self) {
        let segments = &mut self.segments;
        let mut end = |key: &Key, at: Mark| {
            segments.iter_mut().rev().find_map(|slot| slot.end(key, at).then_some(slot.id))
        };
        if let Some(merging) = self.merging.as_mut().filter(|m| !m.is_found) {
            merging.is_found = true;
            merging.unfound.iter().for_each(|(key, at)| _ = end(key, *at));
        }
        for (key, at) in self.unfound.drain(..) {
            if let (Some(id), Some(merging)) = (end(&key, at), &mut self.merging)
                && merging.segments.contains(&id)
            {
                merging.ended.push((key, at));
            }
        }
    }

    /// Rows of segments that the noted writes end.
    fn unfound_rows(&self) -> usize {
        let merging = self.merging.iter().filter(|m| !m.is_found).flat_map(|m| m.unfound.iter());
        let rows = merging.chain(&self.unfound).filter_map(|(key, _)| {
            self.segments.iter().rev().find_map(|slot| Some((slot.id, slot.find(key)?)))
        });
        rows.collect::<BTreeSet<_>>().len()
    }

    /// Immutable pieces of this shard, to be read up to `edge`.
    pub fn units(&mut self, table: &Arc<Table>, edge: &Edge) -> Vec<Unit> {
        self.is_read = true;
        self.find_all();
        let segments = self.segments.iter().map(|s| UnitData::Segment {
            data: s.data.clone(),
            begins: s.begins.clone(),
            ends: s.ends.clone(),
        });
        let mut units: Vec<UnitData> = segments.collect();
        units.extend(
            self.delta.chunks.iter().map(|c| UnitData::Chunk { data: c.data.clone(), ends: c.ends.clone() }),
        );
        units.extend(self.delta.share_tail(table).map(|(data, ends)| UnitData::Chunk { data, ends }));
        units.into_iter().map(|data| Unit { edge: edge.clone(), data }).collect()
    }

    /// Drops begins that no cut can tell apart any more.
    pub fn collect(&mut self, collected_below: Rank) {
        for slot in &mut self.segments {
            if slot.data.last_begin <= collected_below {
                slot.begins = None;
            }
        }
    }

    /// Rows that the delta has to hold before it is merged.
    fn merge_rows(&mut self, options: &Options, rows_max: usize, is_urgent: bool) -> usize {
        let added = self.delta.added();
        self.seen = if self.seen.0 == added { (added, self.seen.1 + 1) } else { (added, 0) };
        let is_at_rest = self.seen.1 >= AT_REST;
        let in_segments: usize = self.segments.iter().map(|s| s.data.rows).sum();
        let mut rows = options.merge_rows_min;
        if !is_urgent && !is_at_rest {
            rows = rows.max(in_segments / options.merge_share_min);
            if !self.is_read {
                let bytes = self.delta.row_bytes_mean().max(1);
                rows = (rows * options.unread_times).min(options.unread_bytes_max / bytes);
            }
        }
        // As much of it as one merge may read.
        rows.min(rows_max / options.chunk_rows * options.chunk_rows)
    }

    /// What a merge would do now; chunks first, then segments that are small or full of garbage. If it is
    /// not urgent, there has to be more in the delta than if it is, above all if no query reads it.
    pub fn plan(
        &mut self,
        table: &Arc<Table>,
        options: &Options,
        rows_max: usize,
        collected_below: Rank,
        is_urgent: bool,
    ) -> Option<MergeJob> {
        if self.merging.is_some() {
            return None;
        }
        // Wide rows make short segments.
        let row_bytes = self.delta.row_bytes_mean().max(1);
        let segment_rows =
            options.segment_rows.min(options.segment_bytes / row_bytes).max(options.chunk_rows);
        let rows_max = rows_max.max(options.chunk_rows).min(options.segment_rows);
        let enough = self.merge_rows(options, rows_max, is_urgent);
        let chunks = self.delta.chunks.len().min(rows_max / options.chunk_rows);
        let chunks = if chunks * options.chunk_rows >= enough { chunks } else { 0 };
        let mut rows = chunks * options.chunk_rows;
        let mut slots: Vec<(usize, usize)> = Vec::new();
        // Garbage first: a segment of which a quarter can go is rewritten, alone if need be. What comes out
        // of the delta may find its place there, so that the next merge knows better.
        for (i, slot) in self.segments.iter().enumerate().filter(|_| chunks == 0) {
            let quarter = slot.data.rows.div_ceil(4);
            let mut collectable = slot.ends.iter().filter(|(_, at)| at.rank <= collected_below);
            let stale = slot.ends.count >= quarter && collectable.nth(quarter - 1).is_some();
            let fits = rows == 0 || rows + slot.data.rows <= rows_max;
            if stale && fits {
                rows += slot.data.rows;
                slots.push((i, slot.data.rows));
            }
        }
        // Then small segments, smallest first, as long as each is no larger than all before it: a row
        // is rewritten only when what it is in has grown severalfold.
        let mut small: Vec<usize> = (0..self.segments.len())
            .filter(|i| self.segments[*i].data.rows * 2 <= segment_rows)
            .filter(|i| slots.iter().all(|(taken, _)| taken != i))
            .collect();
        small.sort_by_key(|i| (self.segments[*i].data.rows, *i));
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut with_taken = rows;
        let together_max = rows_max.min(segment_rows).max(rows);
        for i in small.iter().copied() {
            let size = self.segments[i].data.rows;
            // Two small segments fit into one, whatever this call may read.
            let pair = rows == 0 && taken.len() < 2;
            if pair || size <= with_taken && with_taken + size <= together_max {
                with_taken += size;
                taken.push((i, size));
            }
        }
        let worth_it = if rows == 0 { small.len() } else { taken.len() } >= options.small_segments_max;
        if worth_it {
            rows = with_taken;
            slots.extend(taken);
        }
        // Deletions leave nothing in the delta; what they end has to become garbage all the same.
        let unfound_max = if self.is_read { UNFOUND_MIN } else { enough.max(UNFOUND_MIN) };
        let is_behind = self.unfound.len() >= unfound_max;
        if rows == 0 && !is_behind {
            return None;
        }
        // Oldest first, as the sort of the merge expects.
        slots.sort();
        let rewritten: Vec<u64> = slots.iter().map(|(i, _)| self.segments[*i].id).collect();
        let segments = self.segments.iter().map(|s| Old {
            id: s.id,
            data: s.data.clone(),
            ended: s.ended.clone(),
            rewritten: rewritten.contains(&s.id).then(|| (s.begins.clone(), s.ends.clone())),
        });
        let unfound = Arc::new(std::mem::take(&mut self.unfound));
        let job = MergeJob {
            table: table.clone(),
            partition: self.partition,
            chunks: self.delta.chunks.iter().take(chunks).map(|c| (c.data.clone(), c.ends.clone())).collect(),
            segments: segments.collect(),
            unfound: unfound.clone(),
            block_rows: options.block_rows,
            segment_rows,
            collected_below,
        };
        self.is_read &= chunks == 0;
        self.merging =
            Some(Merging { chunks, segments: rewritten, unfound, is_found: false, ended: Vec::new() });
        Some(job)
    }

    /// Takes the result of the merge under way.
    pub fn install(&mut self, merged: MergedSegment) {
        let merging = self.merging.take().expect("a merge is installed by the shard that planned it");
        self.delta.forget(merging.chunks);
        self.segments.retain(|s| !merging.segments.contains(&s.id));
        let mut patched: BTreeMap<u64, Patched> = merged.patched.into_iter().map(|p| (p.id, p)).collect();
        let mut places = Vec::new();
        for (nth, slot) in self.segments.iter_mut().enumerate() {
            for (row, at) in merged.ended.get(&slot.id).into_iter().flatten() {
                slot.end_row(*row, *at);
            }
            if let Some(patch) = patched.remove(&slot.id) {
                slot.patch(patch.data, &patch.rows);
                places.push(nth);
            }
        }
        assert!(patched.is_empty(), "only segments that stay are patched");
        for (segment, begins, ends) in merged.segments {
            self.next_id += 1;
            places.push(self.segments.len());
            self.segments.push(Slot::new(self.next_id, Arc::new(segment), begins.map(Arc::new), ends));
        }
        for (key, at) in &merging.ended {
            let is_ended = places.iter().rev().any(|nth| self.segments[*nth].end(key, *at));
            assert!(is_ended, "a version that ended while it was merged is where the merge put it");
        }
    }

    /// False if this shard planned nothing: it took the place of the one that did.
    pub fn is_merging(&self) -> bool {
        self.merging.is_some()
    }
    pub fn versions(&self) -> usize {
        self.delta.len() + self.segments.iter().map(|s| s.data.rows).sum::<usize>()
    }
    pub fn delta_rows(&self) -> usize {
        self.delta.len()
    }
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }
    pub fn living(&self) -> usize {
        self.delta.living() + self.segments.iter().map(Slot::living).sum::<usize>() - self.unfound_rows()
    }
    pub fn bytes(&self) -> usize {
        let beside =
            |s: &Slot| s.begins.as_ref().map_or(0, |b| b.bytes()) + s.ends.bytes() + s.ended.len() * 8;
        let unfound = self.unfound.len() + self.merging.as_ref().map_or(0, |m| m.unfound.len());
        unfound * size_of::<(Key, Mark)>()
            + self.delta.bytes()
            + self.segments.iter().map(|s| s.data.bytes() + beside(s)).sum::<usize>()
    }
}
