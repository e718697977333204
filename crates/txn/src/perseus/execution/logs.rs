//! How far the logs of this node's partitions are.
//!
//! IN: transactions that execute. OUT: positions of log records. KEEPS: positions of a log are dense within a life, and
//! those of a later life lie beyond those of all former ones.

use base::{LogPosition, Rank};

/// A life's log has fewer records than two to this.
const LIFE_BITS: u32 = 36;

/// The logs of this node's partitions, by the partitions' numbers here.
#[derive(Clone, Debug)]
pub(in crate::perseus) struct Logs {
    all: Vec<Log>,
}

/// How far the log of one partition is.
#[derive(Clone, Copy, Debug)]
struct Log {
    /// Of the last record.
    position: LogPosition,
    /// The largest rank of any record.
    rank_max: Rank,
    /// Whether a replica or a column copy reads the stream.
    streams: bool,
}

impl Logs {
    /// Empty logs; told of each whether somebody reads its stream.
    pub fn new(streams: impl Iterator<Item = bool>) -> Logs {
        let empty = |streams| Log { position: LogPosition(0), rank_max: Rank::ZERO, streams };
        Logs { all: streams.map(empty).collect() }
    }
    /// How far a log is: the position of the last record, and the largest rank of any.
    pub fn end(&self, local: usize) -> (LogPosition, Rank) {
        let Log { position, rank_max, .. } = self.all[local];
        (position, rank_max)
    }
    /// Somebody reads its stream.
    pub fn is_streamed(&self, local: usize) -> bool {
        self.all[local].streams
    }

    /// A transaction of this rank is the next record.
    pub fn append(&mut self, local: usize, rank: Rank) -> LogPosition {
        let log = &mut self.all[local];
        log.position = log.position.next();
        log.rank_max = log.rank_max.max(rank);
        log.position
    }
    /// A life begins. The former ones may have told of more records than were repeated: positions begin beyond all of
    /// theirs.
    pub fn come_back(&mut self, life: u32) {
        let begin = LogPosition(u64::from(life) << LIFE_BITS);
        self.all.iter_mut().for_each(|log| log.position = log.position.max(begin));
    }
    /// Copies that are made from now on hold transactions of ranks up to this: no cut below it is read from them.
    pub fn begin_copies(&mut self, highest: Rank) {
        self.all.iter_mut().for_each(|log| log.rank_max = log.rank_max.max(highest));
    }
    /// Logs are as far as a checkpoint says.
    pub fn restore(&mut self, ends: impl Iterator<Item = (LogPosition, Rank)>) {
        for (log, end) in self.all.iter_mut().zip(ends) {
            (log.position, log.rank_max) = end;
        }
    }
}
