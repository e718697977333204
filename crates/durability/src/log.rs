//! The record log: group commit over segments.
//!
//! IN: records, and whether a batch was written and synced. OUT: jobs that write and sync. KEEPS: one batch is under
//! way at a time, so that a batch is written only after the one before was synced; all that waits meanwhile shares the
//! next one, up to a cap. A batch lies in one segment. A segment is begun only after the last batch of the one before
//! was synced.

use crate::disk::{Job, Lane, Op};
use crate::identity::Identity;
use crate::options::{Options, planted};
use crate::paths;
use crate::record::{self, Record, Sequence};
use crate::segment;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(crate) struct RecordLog {
    identity: Identity,
    /// The number of the next record.
    next: Sequence,
    stable: Sequence,
    waiting: VecDeque<Record>,
    waiting_bytes: u64,
    /// First sequence numbers of the segments that are there, in order. The last one is written to.
    segments: VecDeque<Sequence>,
    /// Bytes of the last segment.
    used_bytes: u64,
    under_way: Option<Batch>,
}

/// Written, and not known to be synced.
#[derive(Debug)]
struct Batch {
    last: Sequence,
    /// The segment that it begins.
    begins: Option<Sequence>,
    /// Bytes of its segment with it.
    used_bytes: u64,
}

impl RecordLog {
    /// A log whose segments hold everything up to `end`, synced.
    pub fn new(
        identity: Identity,
        end: Sequence,
        segments: VecDeque<Sequence>,
        used_bytes: u64,
    ) -> RecordLog {
        RecordLog {
            identity,
            next: end.next(),
            stable: end,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            segments,
            used_bytes,
            under_way: None,
        }
    }

    pub fn stable(&self) -> Sequence {
        self.stable
    }
    pub fn end(&self) -> Sequence {
        Sequence(self.next.0 - 1)
    }
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Gives the record its number. It waits for the next batch.
    pub fn append(&mut self, mut record: Record) -> Sequence {
        record.sequence = self.next;
        self.next = self.next.next();
        self.waiting_bytes += record_bytes(&record);
        self.waiting.push_back(record);
        Sequence(self.next.0 - 1)
    }

    /// Writes what waits, if nothing is under way.
    pub fn next_job(&mut self, options: &Options) -> Option<Job> {
        if self.under_way.is_some() {
            return None;
        }
        let first = self.waiting.front()?.sequence;
        let (mut count, mut bytes) = (0, 0);
        for record in &self.waiting {
            let with = bytes + record_bytes(record);
            if count > 0 && with > options.batch_bytes_max as u64 {
                break;
            }
            (count, bytes) = (count + 1, with);
        }
        let is_full =
            self.used_bytes > segment::HEADER_BYTES && self.used_bytes + bytes > options.segment_bytes;
        let begins = (self.segments.is_empty() || is_full).then_some(first);
        let path = paths::segment(begins.unwrap_or_else(|| *self.segments.back().expect("checked above")));
        let mut ops = Vec::new();
        let (at, mut written) = match begins {
            Some(first) => {
                ops.push(Op::Create { path: path.clone() });
                (0, segment::header(&self.identity, first))
            }
            None => (self.used_bytes, Vec::new()),
        };
        written.reserve(bytes as usize);
        let salt = self.identity.salt();
        let mut last = first;
        for (in_batch, record) in self.waiting.drain(..count).enumerate() {
            last = record.sequence;
            let place = at + written.len() as u64;
            record::encode(&record, in_batch as u32, salt, place, &mut written);
        }
        self.waiting_bytes -= bytes;
        let used_bytes = at + written.len() as u64;
        ops.push(Op::Write { path: path.clone(), at, bytes: written });
        ops.push(Op::Sync { path });
        if begins.is_some() && !planted!(options, ForgetsSegmentName) {
            ops.push(Op::SyncDirectory { path: paths::LOG.into() });
        }
        if planted!(options, AcknowledgesBeforeSync) {
            self.stable = last;
        }
        self.under_way = Some(Batch { last, begins, used_bytes });
        Some(Job { lane: Lane::Log, ops })
    }

    /// The batch under way is on disk.
    pub fn synced(&mut self) {
        let batch = self.under_way.take().expect("a batch was under way");
        self.segments.extend(batch.begins);
        self.used_bytes = batch.used_bytes;
        self.stable = batch.last;
    }

    /// Forgets the segments whose records all lie at or below `position`. Answers them, oldest first.
    pub fn cut(&mut self, position: Sequence, options: &Options) -> Vec<Sequence> {
        let mut cut = Vec::new();
        while let Some(after) = self.segments.get(1) {
            let is_covered = if planted!(options, CutsOneTooMany) {
                self.segments[0] <= position
            } else {
                *after <= position.next()
            };
            if !is_covered {
                break;
            }
            cut.extend(self.segments.pop_front());
        }
        cut
    }
}

fn record_bytes(record: &Record) -> u64 {
    (record::HEADER_BYTES + record.payload.len()) as u64
}
