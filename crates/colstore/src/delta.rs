//! The delta: recent versions of one table in one partition, as rows in the order of the log.
//!
//! IN: versions and ends, in log order. OUT: immutable chunks that snapshots share.
//! KEEPS: version ids count up without gaps; all chunks have the same number of rows, the tail fewer;
//! the index knows the newest version of every key in here.
//!
//! Rows are converted when they are first scanned: a chunk becomes Arrow arrays once, on the thread of
//! the first reader, and all later readers share the arrays.

use crate::index::{KeyIndex, hash_key};
use crate::values::Values;
use crate::version::{End, Mark};
use crate::zone::Zone;
use arrow_array::ArrayRef;
use base::schema::Table;
use base::{Key, Row};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// Immutable versions, with their columns once a reader needed them.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// As it was when the newest of these rows was written; older rows may end earlier.
    pub table: Arc<Table>,
    pub keys: Vec<Key>,
    pub rows: Vec<Row>,
    pub begins: Vec<Mark>,
    columns: OnceLock<ChunkColumns>,
}

#[derive(Debug)]
pub(crate) struct ChunkColumns {
    pub arrays: Vec<ArrayRef>,
    pub zones: Vec<Zone>,
}

impl Chunk {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn columns(&self) -> &ChunkColumns {
        self.columns.get_or_init(|| {
            let mut values: Vec<Values> =
                self.table.columns.iter().map(|c| Values::new(c.data_type, self.len())).collect();
            pour(&self.table, self.rows.iter(), &mut values);
            let zones = values.iter().map(|v| Zone::of(v, 0..self.len())).collect();
            ChunkColumns { arrays: values.iter().map(Values::to_arrow).collect(), zones }
        })
    }
}

/// Rows poured into columns; what a row lacks is the column's missing value.
pub(crate) fn pour<'a>(table: &Table, rows: impl Iterator<Item = &'a Row>, columns: &mut [Values]) {
    for row in rows {
        let mut values = row.values();
        for (column, description) in columns.iter_mut().zip(&table.columns) {
            if let Some(text) = values.next_text() {
                column.push_text(text);
                continue;
            }
            match values.next() {
                Some(value) => column.push(&value),
                None => column.push(&description.missing),
            }
        }
        assert!(values.next().is_none(), "a row of {} has more values than columns", table.name);
    }
}

/// A full chunk and what happened to its rows since.
#[derive(Debug)]
pub(crate) struct ChunkSlot {
    pub data: Arc<Chunk>,
    pub ends: Arc<Vec<End>>,
    ended: Vec<bool>,
}

/// What a write found of its key in the delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Older {
    /// No version; there may be one in a segment.
    Unknown,
    /// The newest version had ended already: the row was deleted.
    Gone,
    /// The newest version has ended now; the number of its chunk.
    Ended { chunk: usize },
}

#[derive(Debug)]
pub(crate) struct Delta {
    chunk_rows: usize,
    /// Id of the oldest version in `chunks`.
    base: u64,
    pub chunks: VecDeque<ChunkSlot>,
    tail: Tail,
    index: KeyIndex,
    /// Rows ever added, and their bytes.
    added: (u64, u64),
}

/// The open end of the delta.
#[derive(Debug, Default)]
struct Tail {
    keys: Vec<Key>,
    rows: Vec<Row>,
    begins: Vec<Mark>,
    ends: Arc<Vec<End>>,
    ended: Vec<bool>,
    /// What the last snapshot saw, as long as no row was added since.
    shared: Option<Arc<Chunk>>,
}

impl Delta {
    pub fn new(chunk_rows: usize) -> Delta {
        Delta {
            chunk_rows,
            base: 0,
            chunks: VecDeque::new(),
            tail: Tail::default(),
            index: KeyIndex::default(),
            added: (0, 0),
        }
    }

    pub fn len(&self) -> usize {
        self.chunks.len() * self.chunk_rows + self.tail.rows.len()
    }

    /// Takes a write: the newest version in here of its key ends, and a row becomes the newest.
    pub fn write(&mut self, table: &Arc<Table>, key: &Key, row: Option<&Row>, at: Mark) -> Older {
        let hash = hash_key(key);
        let is_match = |other| self.key(other) == Some(key);
        let older = match row {
            None => self.index.find(hash, is_match),
            Some(_) => {
                let id = self.base + self.len() as u64;
                let mut index = std::mem::take(&mut self.index);
                let is_live = |other| other >= self.base;
                let older =
                    index.set(hash, id, |other| self.key(other) == Some(key), is_live, |o| self.hash(o));
                self.index = index;
                older
            }
        };
        let older = older.map_or(Older::Unknown, |id| self.end(id, at));
        if let Some(row) = row {
            self.push(table, key.clone(), row.clone(), at);
        }
        older
    }

    /// The newest version in here of a key, if it has not ended.
    pub fn newest(&self, key: &Key) -> Option<&Row> {
        let id = self.index.find(hash_key(key), |other| self.key(other) == Some(key))?;
        let nth = (id - self.base) as usize;
        let (chunk, row) = (nth / self.chunk_rows, nth % self.chunk_rows);
        let (ended, rows) = match self.chunks.get(chunk) {
            Some(slot) => (&slot.ended, &slot.data.rows),
            None => (&self.tail.ended, &self.tail.rows),
        };
        (!ended[row]).then(|| &rows[row])
    }

    fn push(&mut self, table: &Arc<Table>, key: Key, row: Row, begin: Mark) {
        self.added = (self.added.0 + 1, self.added.1 + row.len() as u64);
        let tail = &mut self.tail;
        tail.keys.push(key);
        tail.rows.push(row);
        tail.begins.push(begin);
        tail.ended.push(false);
        tail.shared = None;
        if tail.rows.len() == self.chunk_rows {
            let tail = std::mem::take(&mut self.tail);
            let data = Chunk {
                table: table.clone(),
                keys: tail.keys,
                rows: tail.rows,
                begins: tail.begins,
                columns: OnceLock::new(),
            };
            self.chunks.push_back(ChunkSlot { data: Arc::new(data), ends: tail.ends, ended: tail.ended });
        }
    }

    fn end(&mut self, id: u64, at: Mark) -> Older {
        let nth = (id - self.base) as usize;
        let (chunk, row) = (nth / self.chunk_rows, nth % self.chunk_rows);
        let (ended, ends) = match self.chunks.get_mut(chunk) {
            Some(slot) => (&mut slot.ended, &mut slot.ends),
            None => (&mut self.tail.ended, &mut self.tail.ends),
        };
        if ended[row] {
            return Older::Gone;
        }
        ended[row] = true;
        Arc::make_mut(ends).push(End { row: row as u32, at });
        Older::Ended { chunk }
    }

    fn key(&self, id: u64) -> Option<&Key> {
        let nth = id.checked_sub(self.base)? as usize;
        let (chunk, row) = (nth / self.chunk_rows, nth % self.chunk_rows);
        Some(match self.chunks.get(chunk) {
            Some(slot) => &slot.data.keys[row],
            None => &self.tail.keys[row],
        })
    }

    /// The tail's rows so far with their ends; shared with the last snapshot if nothing was added.
    pub fn share_tail(&mut self, table: &Arc<Table>) -> Option<(Arc<Chunk>, Arc<Vec<End>>)> {
        if self.tail.rows.is_empty() {
            return None;
        }
        let tail = &mut self.tail;
        let chunk = tail.shared.get_or_insert_with(|| {
            Arc::new(Chunk {
                table: table.clone(),
                keys: Vec::new(),
                rows: tail.rows.clone(),
                begins: tail.begins.clone(),
                columns: OnceLock::new(),
            })
        });
        Some((chunk.clone(), tail.ends.clone()))
    }

    /// Forgets the oldest chunks: their rows are in a segment now.
    pub fn forget(&mut self, count: usize) {
        self.chunks.drain(..count);
        self.base += (count * self.chunk_rows) as u64;
        let mut index = std::mem::take(&mut self.index);
        index.shrink(self.len(), |id| id >= self.base, |id| self.hash(id));
        self.index = index;
    }

    fn hash(&self, id: u64) -> u64 {
        hash_key(self.key(id).expect("only live versions are hashed"))
    }

    /// Rows ever added.
    pub fn added(&self) -> u64 {
        self.added.0
    }

    /// Bytes of a row as it was written, on average.
    pub fn row_bytes_mean(&self) -> usize {
        (self.added.1 / self.added.0.max(1)) as usize
    }

    /// Versions that have not ended.
    pub fn living(&self) -> usize {
        let ended = self.chunks.iter().map(|c| c.ends.len()).sum::<usize>() + self.tail.ends.len();
        self.len() - ended
    }

    /// Bytes held beside the rows themselves, and the rows' own.
    pub fn bytes(&self) -> usize {
        let per_version = size_of::<Key>() + size_of::<Row>() + size_of::<Mark>() + 1;
        let rows: usize =
            self.chunks.iter().flat_map(|c| &c.data.rows).chain(&self.tail.rows).map(|r| r.len() + 16).sum();
        self.len() * per_version + rows + self.index.bytes()
    }
}
