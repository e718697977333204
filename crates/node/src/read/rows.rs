//! Rows of one or more partitions at one cut: which questions bring them, and what has come.
//!
//! IN: reads, answers of partitions. OUT: rows, read by read. KEEPS: each read is answered by one question; the rows are
//! complete once none is open.

use crate::message::{Question, QuestionId};
use crate::request::{ReadRows, Rows};
use base::cut::Incarnation;
use base::txn::RowRead;
use base::{Freshness, Key, NodeId, PartitionId, Rank, Row, Time, Token};
use reads::rule::Chosen;
use std::collections::{BTreeMap, BTreeSet};

/// A question to a partition, and which of the reads it carries.
pub type Asking = (PartitionId, Vec<usize>, Question);

/// Rows that are on their way.
pub struct RowFetch {
    chosen: Chosen,
    /// Per question, which of the request's reads it carries.
    open: BTreeMap<QuestionId, Vec<usize>>,
    rows: Vec<Vec<(Key, Row)>>,
    coordination_ns: u64,
}

/// What partitions are asked; `Err`: all reads are of one.
pub fn questions(read: ReadRows, at: Rank) -> Result<Vec<Asking>, (PartitionId, Question)> {
    if let Some(first) = read.reads.first().map(|row_read| row_read.partition)
        && read.reads.iter().all(|row_read| row_read.partition == first)
    {
        return Err((first, Question::Rows { at, reads: read.reads }));
    }
    let mut by_partition: BTreeMap<PartitionId, (Vec<usize>, Vec<RowRead>)> = BTreeMap::new();
    for (slot, row_read) in read.reads.into_iter().enumerate() {
        let group = by_partition.entry(row_read.partition).or_default();
        group.0.push(slot);
        group.1.push(row_read);
    }
    let questions = by_partition.into_iter();
    Ok(questions
        .map(|(partition, (slots, reads))| (partition, slots, Question::Rows { at, reads }))
        .collect())
}

impl RowFetch {
    /// `slots` reads, each carried by one of the questions. `chosen_after_ns`: how long the cut took.
    pub fn new(
        chosen: Chosen,
        chosen_after_ns: u64,
        slots: usize,
        open: BTreeMap<QuestionId, Vec<usize>>,
    ) -> RowFetch {
        RowFetch { chosen, open, rows: vec![Vec::new(); slots], coordination_ns: chosen_after_ns }
    }

    pub fn at(&self) -> Rank {
        self.chosen.rank
    }
    pub fn is_complete(&self) -> bool {
        self.open.is_empty()
    }

    /// A partition has answered; `on_the_way_ns` since the read arrived, without what the partition waited for.
    pub fn found(&mut self, question: QuestionId, on_the_way_ns: u64, rows: Vec<Vec<(Key, Row)>>) {
        self.coordination_ns = self.coordination_ns.max(on_the_way_ns);
        let slots = self.open.remove(&question).unwrap_or_default();
        for (slot, rows) in slots.into_iter().zip(rows) {
            self.rows[slot] = rows;
        }
    }

    /// All of them, handed out now.
    pub fn answer(self, now: Time, arrived: Time, of: Incarnation, asked: BTreeSet<NodeId>) -> Rows {
        rows_at(self.chosen, self.rows, (now, arrived, self.coordination_ns), of, asked)
    }
}

/// Rows at a cut, for a read that arrived at one time and is answered at another.
pub fn rows_at(
    chosen: Chosen,
    reads: Vec<Vec<(Key, Row)>>,
    (now, arrived, coordination_ns): (Time, Time, u64),
    of: Incarnation,
    asked: BTreeSet<NodeId>,
) -> Rows {
    let Chosen { rank, choice } = chosen;
    let complete_until = chosen.complete_until(arrived);
    let newest = now.rank();
    let freshness = reads::rule::freshness(arrived, now, newest, complete_until, coordination_ns);
    let freshness = Freshness { choice, ..freshness };
    Rows { at: rank, reads, token: Token::at(rank).of(of), freshness, asked }
}
