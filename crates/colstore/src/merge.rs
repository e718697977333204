//! Merging: chunks and small or stale segments become one new segment, without what nobody can see.
//!
//! IN: sources with their ends as they were when the job was planned. OUT: at most one segment.
//! A job is plain data and may run on any thread; what ends in the meantime is noted by the shard and
//! carried over when the result is installed.

use crate::delta::{Chunk, pour};
use crate::encode::Column;
use crate::index::hash_key;
use crate::segment::{Begins, Filter, Segment};
use crate::values::Values;
use crate::version::{End, Ends, Mark};
use base::schema::Table;
use base::{Key, PartitionId, Rank, TableId};
use std::sync::Arc;

/// A planned merge. Run it anywhere, then give the result to
/// [`ColumnStore::install`](crate::ColumnStore::install) of the store that planned it.
#[derive(Debug)]
pub struct MergeJob {
    pub(crate) table: Arc<Table>,
    pub(crate) partition: PartitionId,
    pub(crate) sources: Vec<Source>,
    pub(crate) block_rows: usize,
    /// Versions that ended at or below this rank are dropped.
    pub(crate) collected_below: Rank,
}

#[derive(Debug)]
pub(crate) enum Source {
    Chunk(Arc<Chunk>, Arc<Vec<End>>),
    Segment(Arc<Segment>, Option<Arc<Begins>>, Ends),
}

/// The outcome of a [`MergeJob`].
#[derive(Debug)]
pub struct MergedSegment {
    pub(crate) table: TableId,
    pub(crate) partition: PartitionId,
    /// `None`: nothing is left.
    pub(crate) segment: Option<(Segment, Option<Begins>, Ends)>,
    /// Latest place that was forgotten: no older cut can be read any more.
    pub(crate) floor: Mark,
    pub(crate) rows_read: usize,
}

/// Versions on their way into a segment, in the order of the sources.
struct Pool {
    columns: Vec<Values>,
    keys: Vec<Key>,
    begins: Vec<Mark>,
    ends: Vec<Option<Mark>>,
}

impl Source {
    fn len(&self) -> usize {
        match self {
            Source::Chunk(chunk, _) => chunk.len(),
            Source::Segment(segment, ..) => segment.rows,
        }
    }
}

impl MergeJob {
    /// Versions to read: the job's cost.
    pub fn rows(&self) -> usize {
        self.sources.iter().map(Source::len).sum()
    }

    /// Sorts, drops and encodes.
    pub fn run(self) -> MergedSegment {
        let rows_read = self.rows();
        let mut floor = Mark::ZERO;
        let pool = self.pool(&mut floor);
        let (table, partition) = (self.table.id, self.partition);
        let segment = (!pool.keys.is_empty()).then(|| self.build(pool, &mut floor));
        MergedSegment { table, partition, segment, floor, rows_read }
    }

    /// Everything that somebody may still see.
    fn pool(&self, floor: &mut Mark) -> Pool {
        let capacity = self.rows();
        let mut pool = Pool {
            columns: self.table.columns.iter().map(|c| Values::new(c.data_type, capacity)).collect(),
            keys: Vec::with_capacity(capacity),
            begins: Vec::with_capacity(capacity),
            ends: Vec::with_capacity(capacity),
        };
        for source in &self.sources {
            let mut ends: Vec<Option<Mark>> = vec![None; source.len()];
            match source {
                Source::Chunk(_, list) => list.iter().for_each(|e| ends[e.row as usize] = Some(e.at)),
                Source::Segment(_, _, list) => list.iter().for_each(|(row, at)| ends[row] = Some(at)),
            }
            let mut kept = Vec::with_capacity(source.len());
            for (row, end) in ends.iter().enumerate() {
                match end {
                    Some(at) if at.rank <= self.collected_below => *floor = floor.join(*at),
                    _ => kept.push(row as u32),
                }
            }
            pool.ends.extend(kept.iter().map(|r| ends[*r as usize]));
            source.pour(&kept, &self.table, &mut pool);
        }
        pool
    }

    fn build(self, pool: Pool, floor: &mut Mark) -> (Segment, Option<Begins>, Ends) {
        let mut order: Vec<u32> = (0..pool.keys.len() as u32).collect();
        // Versions of one key by the end of their lives; the living one last. Sources come oldest
        // first and the sort is stable, so ends at one place keep the order of the log.
        let end_of = |r: u32| pool.ends[r as usize].map_or(u64::MAX, |m| m.position.0);
        order.sort_by(|a, b| {
            pool.keys[*a as usize].cmp(&pool.keys[*b as usize]).then_with(|| end_of(*a).cmp(&end_of(*b)))
        });
        let columns: Vec<Column> =
            pool.columns.iter().map(|v| Column::encode(v, &order, self.block_rows)).collect();
        let mut filter = Filter::new(order.len());
        pool.keys.iter().for_each(|k| filter.insert(hash_key(k)));
        let mut ends = Ends::new(order.len(), self.block_rows);
        for (row, from) in order.iter().enumerate() {
            if let Some(at) = pool.ends[*from as usize] {
                ends.push(row, at);
            }
        }
        let last_begin = pool.begins.iter().fold(Mark::ZERO, |last, m| last.join(*m));
        let begins = if last_begin.rank <= self.collected_below {
            *floor = floor.join(last_begin);
            None
        } else {
            let marks: Vec<Mark> = order.iter().map(|r| pool.begins[*r as usize]).collect();
            Some(Begins::encode(&marks))
        };
        let key_at = |at: Option<&u32>| pool.keys[*at.expect("a segment has rows") as usize].clone();
        let segment = Segment {
            table: self.table,
            rows: order.len(),
            block_rows: self.block_rows,
            columns,
            filter,
            last_begin,
            keys: (key_at(order.first()), key_at(order.last())),
        };
        assert_eq!(segment.key(0), segment.keys.0, "a row's key is made from its key columns");
        (segment, begins, ends)
    }
}

impl Source {
    /// Appends the kept rows.
    fn pour(&self, kept: &[u32], table: &Table, pool: &mut Pool) {
        match self {
            Source::Chunk(chunk, _) => {
                let rows: Vec<_> = kept.iter().map(|r| &chunk.rows[*r as usize]).collect();
                pour(table, rows.into_iter(), &mut pool.columns);
                pool.keys.extend(kept.iter().map(|r| chunk.keys[*r as usize].clone()));
                pool.begins.extend(kept.iter().map(|r| chunk.begins[*r as usize]));
            }
            Source::Segment(segment, begins, _) => {
                for (i, values) in pool.columns.iter_mut().enumerate() {
                    match segment.columns.get(i) {
                        Some(column) => column.pour(kept, values),
                        None => kept.iter().for_each(|_| values.push(&table.columns[i].missing)),
                    }
                }
                pool.keys.extend(kept.iter().map(|r| segment.key(*r as usize)));
                // Collected begins are older than anything a cut could tell apart.
                let begin = |r: &u32| begins.as_ref().map_or(Mark::ZERO, |b| b.get(*r as usize));
                pool.begins.extend(kept.iter().map(begin));
            }
        }
    }
}
