//! One table in one partition: a delta, segments, and the merge that may be under way.
//!
//! KEEPS: of all versions of a key, in delta and segments, at most one has not ended. Chunks leave the
//! delta oldest first, so a key's newer version is never in a segment while an older one is a chunk.

use crate::Options;
use crate::delta::Delta;
use crate::merge::{MergeJob, MergedSegment, Source};
use crate::segment::{Begins, Segment};
use crate::snapshot::{Unit, UnitData};
use crate::version::{Edge, Ends, Mark};
use base::commit::RowWrite;
use base::schema::Table;
use base::{Key, PartitionId, Rank};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Shard {
    partition: PartitionId,
    delta: Delta,
    segments: Vec<Slot>,
    merging: Option<Merging>,
    next_id: u64,
}

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
    /// Rows of the sources that ended since the merge was planned.
    ended: Vec<(Key, Mark)>,
}

impl Slot {
    fn new(id: u64, data: Arc<Segment>, begins: Option<Arc<Begins>>, ends: Ends) -> Slot {
        let mut ended = vec![0; data.rows.div_ceil(64)];
        ends.iter().for_each(|(row, _)| ended[row / 64] |= 1 << (row % 64));
        Slot { id, data, begins, ends, ended }
    }

    /// Ends the newest version of a key; false if it is not here or has ended already.
    fn end(&mut self, key: &Key, at: Mark) -> bool {
        let Some(row) = self.data.find(key) else { return false };
        if self.ended[row / 64] >> (row % 64) & 1 == 1 {
            return false;
        }
        self.ended[row / 64] |= 1 << (row % 64);
        self.ends.push(row, at);
        true
    }

    fn living(&self) -> usize {
        self.data.rows - self.ends.count
    }
}

impl Shard {
    pub fn new(partition: PartitionId, options: &Options) -> Shard {
        let delta = Delta::new(options.chunk_rows);
        Shard { partition, delta, segments: Vec::new(), merging: None, next_id: 0 }
    }

    pub fn write(&mut self, table: &Arc<Table>, write: &RowWrite, at: Mark) {
        self.end(&write.key, at);
        if let Some(row) = &write.row {
            self.delta.push(table, write.key.clone(), row.clone(), at);
        }
    }

    fn end(&mut self, key: &Key, at: Mark) {
        let ended = match self.delta.end(key, at) {
            Some(ended) => {
                let from_chunk = self.merging.as_ref().is_some_and(|m| m.chunks > 0);
                if ended
                    && from_chunk
                    && let Some(merging) = &mut self.merging
                    && self.delta.chunk_of(key).is_some_and(|c| c < merging.chunks)
                {
                    merging.ended.push((key.clone(), at));
                }
                return;
            }
            None => self.segments.iter_mut().rev().find_map(|s| s.end(key, at).then_some(s.id)),
        };
        if let (Some(id), Some(merging)) = (ended, &mut self.merging)
            && merging.segments.contains(&id)
        {
            merging.ended.push((key.clone(), at));
        }
    }

    /// Immutable pieces of this shard, to be read up to `edge`.
    pub fn units(&mut self, table: &Arc<Table>, edge: Edge) -> Vec<Unit> {
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
        units.into_iter().map(|data| Unit { edge, data }).collect()
    }

    /// Drops begins that no cut can tell apart any more; returns the latest of them.
    pub fn collect(&mut self, collected_below: Rank) -> Mark {
        let mut floor = Mark::ZERO;
        for slot in &mut self.segments {
            if slot.begins.is_some() && slot.data.last_begin.rank <= collected_below {
                slot.begins = None;
                floor = floor.join(slot.data.last_begin);
            }
        }
        floor
    }

    /// What a merge would do now; chunks first, then segments that are small or full of garbage.
    pub fn plan(
        &mut self,
        table: &Arc<Table>,
        options: &Options,
        rows_max: usize,
        collected_below: Rank,
    ) -> Option<MergeJob> {
        if self.merging.is_some() {
            return None;
        }
        // Wide rows make short segments, so that a merge takes about the same time for every table.
        let row_bytes = self.delta.row_bytes_mean().max(1);
        let segment_rows =
            options.segment_rows.min(options.segment_bytes / row_bytes).max(options.chunk_rows);
        let rows_max = rows_max.max(options.chunk_rows).min(segment_rows);
        let chunks = self.delta.chunks.len().min(rows_max / options.chunk_rows);
        // Not before there is a merge's worth, or as much of it as this call may read.
        let enough = options.merge_rows_min.min(rows_max / options.chunk_rows * options.chunk_rows);
        let chunks = if chunks * options.chunk_rows >= enough { chunks } else { 0 };
        let mut rows = chunks * options.chunk_rows;
        let mut slots: Vec<(usize, usize)> = Vec::new();
        // Garbage first: a segment of which a quarter can go is rewritten, alone if need be.
        for (i, slot) in self.segments.iter().enumerate() {
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
        for i in small.iter().copied() {
            let size = self.segments[i].data.rows;
            // Two small segments fit into one, whatever this call may read.
            let pair = rows == 0 && taken.len() < 2;
            if pair || size <= with_taken && with_taken + size <= rows_max {
                with_taken += size;
                taken.push((i, size));
            }
        }
        let worth_it = if rows == 0 { small.len() } else { taken.len() } >= options.small_segments_max;
        if worth_it {
            rows = with_taken;
            slots.extend(taken);
        }
        if rows == 0 {
            return None;
        }
        // Oldest first, as the sort of the merge expects.
        slots.sort();
        let segments = slots.iter().map(|(i, _)| &self.segments[*i]);
        let mut sources: Vec<Source> = segments
            .clone()
            .map(|s| Source::Segment(s.data.clone(), s.begins.clone(), s.ends.clone()))
            .collect();
        let ids = segments.map(|s| s.id).collect();
        sources.extend(
            self.delta.chunks.iter().take(chunks).map(|c| Source::Chunk(c.data.clone(), c.ends.clone())),
        );
        self.merging = Some(Merging { chunks, segments: ids, ended: Vec::new() });
        let block_rows = options.block_rows;
        Some(MergeJob {
            table: table.clone(),
            partition: self.partition,
            sources,
            block_rows,
            collected_below,
        })
    }

    /// Takes the result of the merge under way.
    pub fn install(&mut self, merged: MergedSegment) {
        let merging = self.merging.take().expect("a merge is installed by the shard that planned it");
        self.delta.forget(merging.chunks);
        self.segments.retain(|s| !merging.segments.contains(&s.id));
        if let Some((segment, begins, ends)) = merged.segment {
            self.next_id += 1;
            let mut slot = Slot::new(self.next_id, Arc::new(segment), begins.map(Arc::new), ends);
            for (key, at) in &merging.ended {
                assert!(slot.end(key, *at), "a version that ended while it was merged is in the segment");
            }
            self.segments.push(slot);
        } else {
            assert!(merging.ended.is_empty(), "what lived when the merge was planned is in the segment");
        }
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
        self.delta.living() + self.segments.iter().map(Slot::living).sum::<usize>()
    }
    pub fn bytes(&self) -> usize {
        let beside =
            |s: &Slot| s.begins.as_ref().map_or(0, |b| b.bytes()) + s.ends.bytes() + s.ended.len() * 8;
        self.delta.bytes() + self.segments.iter().map(|s| s.data.bytes() + beside(s)).sum::<usize>()
    }
}
