//! Versions: where a row's life begins and ends, and which cuts see it.
//!
//! A version begins at the place of its writer and ends at the place of the transaction that
//! overwrote or deleted it. Both ends are kept as (rank, position in the partition's log): a cut holds
//! whatever is ranked up to its base, and may name positions beyond that. It sees a version iff it holds the
//! beginning and not the end. A cut is closed under conflicts, so it never holds an end without the beginning,
//! and sees one version of a key at most.
//!
//! The transaction's id is not kept: of two versions of one key, log positions already say which came
//! first, and a cut never separates transactions of one rank except by naming their positions.

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use base::{LogPosition, Rank};
use std::sync::Arc;

/// A transaction's place as far as cuts can tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub rank: Rank,
    pub position: LogPosition,
}

/// What a cut holds of one partition: everything ranked up to `base`, and what `above` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub base: Rank,
    /// Ascending.
    pub above: Arc<[LogPosition]>,
}

impl Edge {
    /// Whether a transaction at this place is in the cut.
    pub fn includes(&self, mark: Mark) -> bool {
        mark.rank <= self.base || self.names(mark.position)
    }
    pub fn names(&self, position: LogPosition) -> bool {
        self.above.binary_search(&position).is_ok()
    }
}

impl Mark {
    pub const ZERO: Mark = Mark { rank: Rank::ZERO, position: LogPosition(0) };
}

/// The end of a row's life, kept beside the immutable columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Row within its block.
    pub row: u32,
    pub at: Mark,
}

/// Ends of one unit's rows per block, in the order in which they came. A snapshot shares the blocks;
/// the next end in a shared block copies it.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    /// Rows per block.
    block_rows: usize,
    pub blocks: Vec<Arc<Vec<End>>>,
    pub count: usize,
}

impl Ends {
    pub fn new(rows: usize, block_rows: usize) -> Ends {
        Ends { block_rows, blocks: vec![Arc::default(); rows.div_ceil(block_rows)], count: 0 }
    }
    pub fn push(&mut self, row: usize, at: Mark) {
        let end = End { row: (row % self.block_rows) as u32, at };
        Arc::make_mut(&mut self.blocks[row / self.block_rows]).push(end);
        self.count += 1;
    }
    /// Takes ends back: these rows, ascending, hold something else now.
    pub fn remove(&mut self, rows: &[usize]) {
        let mut from = 0;
        for (b, ends) in self.blocks.iter_mut().enumerate() {
            let upto = from + rows[from..].partition_point(|r| r / self.block_rows == b);
            let gone = &rows[from..upto];
            from = upto;
            if gone.is_empty() {
                continue;
            }
            let first = b * self.block_rows;
            let is_gone = |e: &End| gone.binary_search(&(first + e.row as usize)).is_ok();
            let kept: Vec<End> = ends.iter().filter(|e| !is_gone(e)).copied().collect();
            self.count -= ends.len() - kept.len();
            *ends = Arc::new(kept);
        }
    }
    /// All ends with their rows in the unit.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Mark)> + '_ {
        let in_block = |(b, ends): (usize, &'_ Arc<Vec<End>>)| (b, ends.len());
        self.blocks.iter().enumerate().map(in_block).flat_map(move |(b, count)| {
            (0..count).map(move |i| {
                let end = self.blocks[b][i];
                (b * self.block_rows + end.row as usize, end.at)
            })
        })
    }
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|b| b.capacity() * size_of::<End>() + 24).sum()
    }
}

/// Rows of a block that a cut sees.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    All,
    None,
    Some(BooleanBuffer),
}

impl Selection {
    /// Rows of a block of `rows` rows: those that `begun` lets in, without those that have ended.
    pub fn of(rows: usize, edge: &Edge, begun: Option<BooleanBuffer>, ends: &[End]) -> Selection {
        let ended = ends.iter().filter(|e| edge.includes(e.at));
        let mut bits = match &begun {
            None => {
                let mut ended = ended.clone().peekable();
                if ended.peek().is_none() {
                    return Selection::All;
                }
                let mut bits = BooleanBufferBuilder::new(rows);
                bits.append_n(rows, true);
                bits
            }
            Some(begun) => {
                let mut bits = BooleanBufferBuilder::new(rows);
                bits.append_buffer(begun);
                bits
            }
        };
        ended.for_each(|e| bits.set_bit(e.row as usize, false));
        let bits = bits.finish();
        match bits.count_set_bits() {
            0 => Selection::None,
            n if n == rows => Selection::All,
            _ => Selection::Some(bits),
        }
    }

    pub fn count(&self, rows: usize) -> usize {
        match self {
            Selection::All => rows,
            Selection::None => 0,
            Selection::Some(bits) => bits.count_set_bits(),
        }
    }
}
